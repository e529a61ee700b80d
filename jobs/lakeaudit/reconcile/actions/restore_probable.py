"""Write back a version that is the file by its size and time, and by the rows that its Parquet footer counts.

Nothing proves that its bytes are those that the table lists: `--allow probable` says that this is enough.
"""

from lakeaudit.reconcile.actions.restore_version import RestoreVersion
from lakeaudit.reconcile.copying import cannot_be_copied
from lakeaudit.reconcile.key_state import Counted, KeyState
from lakeaudit.reconcile.matching import absent_over, probable_version
from lakeaudit.reconcile.protocol import PROBABLE, Case, Proposal


class RestoreProbable(RestoreVersion):
    """See the module."""

    name = "restore_probable"
    risk = "middle: a version is written that has the size and the rows of the file, and perhaps other values"

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Where the newest version of the size that was there in time has the rows that the table recorded."""
        found = probable_version(case.wanted, state)
        if isinstance(found, str):
            return found
        if PROBABLE not in case.allow:
            return f"nothing proves which version it is: `--allow {PROBABLE}` goes by size, time and rows"
        if why := cannot_be_copied(found.size, found.etag):
            return why
        rows = state.rows_of(found.version_id, found.size) if isinstance(state, Counted) else None
        why = why_not_these_rows(case, rows)
        return why or absent_over(found, f"size, time, and {rows} rows by its Parquet footer", state)


def why_not_these_rows(case: Case, rows: int | None) -> str | None:
    """Why the rows of a footer are not those that the table recorded."""
    claimed = case.row["rows_at_stake"]
    if claimed is None:
        return "the table did not record how many rows the file has"
    if rows is None:
        return "no Parquet footer of it can be read"
    return None if rows == claimed else f"its footer counts {rows} rows, the table {claimed}"

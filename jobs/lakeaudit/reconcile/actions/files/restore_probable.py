"""Restore a version that matches the file by size, time, and the number of rows in its Parquet footer.

This does not prove that its bytes are those that the table lists: `--allow probable` accepts it.
"""

from lakeaudit.reconcile.actions.files.restore_version import RestoreVersion
from lakeaudit.reconcile.copying import cannot_be_copied
from lakeaudit.reconcile.key_state import KeyState, StateWithRows
from lakeaudit.reconcile.plans.matching import absent_over, probable_version
from lakeaudit.reconcile.protocol import PROBABLE, Case, Proposal


class RestoreProbable(RestoreVersion):
    """See the module."""

    name = "restore_probable"
    risk = "medium: the written version has the size and the rows of the file, but perhaps other values"

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Propose the newest version of the size and time of the file if it has the recorded number of rows."""
        probable = probable_version(case.restore_target, state)
        if isinstance(probable, str):
            return probable
        if PROBABLE not in case.allow:
            return f"no ETag proves which version it is: `--allow {PROBABLE}` compares size, time and rows"
        if why := cannot_be_copied(probable.size, probable.etag):
            return why
        rows = state.rows_of(probable.version_id, probable.size) if isinstance(state, StateWithRows) else None
        why = why_not_these_rows(case, rows)
        return why or absent_over(probable, f"size, time, and {rows} rows by its Parquet footer", state)


def why_not_these_rows(case: Case, rows: int | None) -> str | None:
    """Return why the number of rows in a footer does not match the one in the table."""
    claimed = case.row["rows_at_stake"]
    if claimed is None:
        return "the table did not record the number of rows"
    if rows is None:
        return "its Parquet footer cannot be read"
    return None if rows == claimed else f"its footer counts {rows} rows, the table {claimed}"

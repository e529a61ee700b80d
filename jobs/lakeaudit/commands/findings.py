"""`lakeaudit findings`: the findings of a published run, as they are or with every group spelled out."""

from collections.abc import Sequence
from typing import TextIO

from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.formatting import count, second
from lakeaudit.results.expand_groups import expanded
from lakeaudit.results.read import Results, Row
from lakeaudit.row_formats import FINDING_ROWS, WRITERS, rows_of


def write(
    lake: Lake,
    results: Results,
    out: TextIO,
    *,
    run_id: str | None,
    kinds: Sequence[str],
    tables: Sequence[str],
    files: bool,
    format: str,  # noqa: A002 - named like the option
) -> str:
    """Print the findings; the verdict's line.

    Raises:
        BadInput: no such run or table, or `files` of a run that is not the last.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    run = results.published(run_id)
    _require_tables(lake, results, run, tables)
    chosen = run["run_id"]
    if files:
        _require_last(results, chosen)
        rows = expanded(results, chosen, kinds, tables)
    else:
        rows = rows_of(results.findings(chosen, kinds, tables))
    number = WRITERS[format](rows, out, FINDING_ROWS)
    what = "rows, a file each where a finding is a group," if files else "findings"
    return f"{count(number)} {what} of run {chosen} ({run['status']}, as of {second(run['as_of'])})"


def _require_last(results: Results, run_id: str) -> None:
    last = results.published(None)["run_id"]
    if run_id != last:
        raise BadInput("--files", f"only the last run ({last}) can be expanded", "leave --run-id out")


def _require_tables(lake: Lake, results: Results, run: Row, tables: Sequence[str]) -> None:
    """A name that nothing knows would give an empty, healthy-looking answer."""
    known = {table.name for table in lake.tables}
    if unknown := set(tables) - known:
        unknown -= {row["table_name"] for row in results.coverage(run["run_id"], sorted(unknown))}
    if unknown:
        names = ", ".join(sorted(known))
        raise BadInput("--table", f"no table {', '.join(sorted(unknown))}", f"the lake file names {names}")

"""Print the findings of a published run for `lakeaudit findings`; on request every file of a group."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.console import Console

from lakeaudit.advice import next_steps
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.explain import text_output
from lakeaudit.explain.row_formats import FINDING_COLUMNS, WRITERS, Kind, Row
from lakeaudit.formatting import number, second, visible
from lakeaudit.kinds import KINDS, SEVERITIES
from lakeaudit.results.leftover_groups import expand_groups, group_samples
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.schemas import rows_of


def write(
    lake: Lake,
    lake_file: str,
    results: Results,
    out: TextIO,
    *,
    run_id: str | None,
    row_filter: RowFilter,
    files: bool,
    format: str,  # noqa: A002 - named like the option
) -> str:
    """Print the findings; return the verdict.

    Raises:
        BadInput: there is no such run or table, or `files` for a run that is not the last.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    run = results.with_findings(run_id)
    require_tables(lake, results, run, row_filter.tables)
    id_ = run["run_id"]
    if files:
        require_last(results, id_)
        rows = expand_groups(results, id_, row_filter)
    else:
        rows = rows_of(results.findings(id_, row_filter))
    samples = group_samples(results, id_) if format == "table" and not files else {}
    n = WRITERS[format](rows, out, Kind(FINDING_COLUMNS, RowPrinter(lake_file, results, samples)))
    what = f"{number(n, 'row')} (each file of a group is a row)" if files else number(n, "finding")
    newer = results.failed_since(run) if run_id is None else None
    of_run = f"of run {id_} ({run['status']}, as of {second(run['as_of'])})"
    return f"{what} {of_run}{_no_such_partition(row_filter, n)}{_failed(newer)}"


def _no_such_partition(row_filter: RowFilter, number: int) -> str:
    """Warn that a mistyped partition looks like a healthy one: the results name only partitions with findings."""
    if number or not row_filter.partitions:
        return ""
    names = " or ".join(row_filter.partitions)
    return visible(
        f"; no finding in {names}: check the name, a partition that does not exist has no finding either"
    )


def _failed(newer: Row | None) -> str:
    """Name a newer run that failed, and its error."""
    if newer is None:
        return ""
    return visible(f"; the newer run {newer['run_id']} failed: {newer['error'] or 'the cause is not known'}")


class RowPrinter:
    """Prints rows of findings or of the ledger with the next step; a step for a kind is printed once."""

    def __init__(self, lake_file: str, results: Results, samples: Mapping[str, Sequence[str]]) -> None:
        self._lake_file = lake_file
        self._results = results
        self._samples = samples
        self._advised_kinds: set[str] = set()

    def __call__(self, console: Console, row: Row) -> None:
        """Print the row, the files of a group, and the command that restores the file or the advice for its kind."""
        names = self._samples.get(row["discrepancy_id"], ())
        alone = len(names) == 1 and row["files"] == 1
        text_output.finding(console, row, names[0] if alone else None)
        if names and not alone:
            self._files(console, row, names)
        step = next_steps.way_back(row, self._results.clients.endpoint(row["bucket"] or ""))
        if step is not None or row["kind"] not in self._advised_kinds:
            text_output.next_step(console, row, self._results.clients.endpoint(row["bucket"] or ""))
        self._advised_kinds |= set() if step is not None else {row["kind"]}

    def _files(self, console: Console, row: Row, names: Sequence[str]) -> None:
        for name in names:
            text_output.line(console, text_output.plain(name), indent=5)
        if rest := (row["files"] or 0) - len(names):
            table = f" {option('--table', row['table_name'])}" if row["table_name"] else ""
            command = f"lakeaudit findings {operand(self._lake_file)} --kind {row['kind']}{table} --files"
            more = f"and {number(rest, 'more file')}: {command}"
            text_output.line(console, text_output.plain(more, "dim"), indent=5)


def require_last(results: Results, run_id: str) -> None:
    """Check that a run is the last one: results contain the files of groups only for the last run.

    Raises:
        BadInput: it is an earlier run.
    """
    last = results.with_findings(None)["run_id"]
    if run_id != last:
        raise BadInput("--files", f"only the last run ({last}) can be expanded", "omit --run-id")


def require_tables(lake: Lake, results: Results, run: Row, tables: Sequence[str]) -> None:
    """Check the names of tables: an unknown name would give an empty result that looks healthy.

    Raises:
        BadInput: neither the lake file nor the run's coverage contains such a table.
    """
    known = {name for table in lake.tables for name in (table.name, *table.also)}
    if unknown := set(tables) - known:
        unknown -= {row["table_name"] for row in results.coverage(run["run_id"], sorted(unknown))}
    if unknown:
        names = ", ".join(sorted(known))
        raise BadInput("--table", f"no table {', '.join(sorted(unknown))}", f"the lake file names {names}")


def row_filter_of(
    kinds: Sequence[str], tables: Sequence[str], severities: Sequence[str], partitions: Sequence[str]
) -> RowFilter:
    """Build a row filter; an empty argument means any.

    Raises:
        BadInput: there is no such kind or severity.
    """
    for name, noun, given, known in (
        ("--kind", "kind", kinds, KINDS),
        ("--severity", "severity", severities, SEVERITIES),
    ):
        if unknown := set(given) - set(known):
            raise BadInput(name, f"no {noun} {', '.join(sorted(unknown))}", f"one of {', '.join(known)}")
    return RowFilter(kinds, tables, severities, [each.strip("/") for each in partitions])

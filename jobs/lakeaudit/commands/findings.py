"""`lakeaudit findings`: the findings of a published run, as they are or with every group spelled out."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.console import Console

from lakeaudit.advice import next_steps
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.explain import text_output
from lakeaudit.explain.row_formats import FINDING_COLUMNS, WRITERS, Kind, Row
from lakeaudit.formatting import count, number, second, visible
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
    wanted: RowFilter,
    files: bool,
    format: str,  # noqa: A002 - named like the option
) -> str:
    """Print the findings; the verdict's line.

    Raises:
        BadInput: no such run or table, or `files` of a run that is not the last.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    run = results.with_findings(run_id)
    require_tables(lake, results, run, wanted.tables)
    chosen = run["run_id"]
    if files:
        _require_last(results, chosen)
        rows = expand_groups(results, chosen, wanted)
    else:
        rows = rows_of(results.findings(chosen, wanted))
    samples = group_samples(results, chosen) if format == "table" and not files else {}
    shown = Shown(lake_file, results, samples)
    told = WRITERS[format](rows, out, Kind(FINDING_COLUMNS, shown))
    what = (
        "rows, a file each where a finding is a group," if files else "finding" + ("" if told == 1 else "s")
    )
    newer = results.failed_since(run) if run_id is None else None
    of_run = f"of run {chosen} ({run['status']}, as of {second(run['as_of'])})"
    return f"{count(told)} {what} {of_run}{_no_such_partition(wanted, told)}{_failed(newer)}"


def _no_such_partition(wanted: RowFilter, number: int) -> str:
    """A mistyped partition must not look like a healthy one: the results name only partitions with findings."""
    if number or not wanted.partitions:
        return ""
    names = " or ".join(wanted.partitions)
    return visible(f"; no finding lies in {names}: a partition that does not exist has none either")


def _failed(newer: Row | None) -> str:
    """What a newer run failed of, which has no findings to show."""
    if newer is None:
        return ""
    return visible(f"; run {newer['run_id']} failed since: {newer['error'] or 'its cause is not known'}")


class Shown:
    """Shows a row of findings or of the ledger, with what to do about it: about each kind once."""

    def __init__(self, lake_file: str, results: Results, samples: Mapping[str, Sequence[str]]) -> None:
        self._lake_file = lake_file
        self._results = results
        self._samples = samples
        self._told: set[str] = set()

    def __call__(self, console: Console, row: Row) -> None:
        """The row, the files behind a group, the command that brings a file back; else what to do."""
        names = self._samples.get(row["discrepancy_id"], ())
        alone = len(names) == 1 and row["files"] == 1
        text_output.finding(console, row, names[0] if alone else None)
        if names and not alone:
            self._files(console, row, names)
        step = next_steps.way_back(row, self._results.clients.endpoint(row["bucket"] or ""))
        if step is not None or row["kind"] not in self._told:
            text_output.next_step(console, row, self._results.clients.endpoint(row["bucket"] or ""))
        self._told |= set() if step is not None else {row["kind"]}

    def _files(self, console: Console, row: Row, names: Sequence[str]) -> None:
        for name in names:
            text_output.line(console, text_output.plain(name), indent=5)
        if rest := (row["files"] or 0) - len(names):
            table = f" {option('--table', row['table_name'])}" if row["table_name"] else ""
            command = f"lakeaudit findings {operand(self._lake_file)} --kind {row['kind']}{table} --files"
            more = f"and {number(rest, 'file')} more: {command}"
            text_output.line(console, text_output.plain(more, "dim"), indent=5)


def _require_last(results: Results, run_id: str) -> None:
    last = results.with_findings(None)["run_id"]
    if run_id != last:
        raise BadInput("--files", f"only the last run ({last}) can be expanded", "leave --run-id out")


def require_tables(lake: Lake, results: Results, run: Row, tables: Sequence[str]) -> None:
    """A name that nothing knows would give an empty, healthy-looking answer.

    Raises:
        BadInput: neither the lake file nor the run's coverage names such a table.
    """
    known = {name for table in lake.tables for name in (table.name, *table.also)}
    if unknown := set(tables) - known:
        unknown -= {row["table_name"] for row in results.coverage(run["run_id"], sorted(unknown))}
    if unknown:
        names = ", ".join(sorted(known))
        raise BadInput("--table", f"no table {', '.join(sorted(unknown))}", f"the lake file names {names}")

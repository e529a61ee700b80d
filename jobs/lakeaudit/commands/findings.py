"""Print the findings of a published run for `lakeaudit findings`; on request every file of a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TextIO

from rich.console import Console

from lakeaudit.advice import next_steps
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.explain import text_output
from lakeaudit.explain.formats.listing import Listing, Row
from lakeaudit.explain.formats.registry import FORMATS
from lakeaudit.formatting import number, second, visible
from lakeaudit.kinds import KINDS, SEVERITIES
from lakeaudit.results.leftover_groups import expand_groups, group_samples
from lakeaudit.results.read import Results, RowFilter, failure_of
from lakeaudit.schemas import FINDINGS, rows_of


@dataclass(frozen=True)
class Request:
    """The options of the command; `files` prints a row for each file of a group."""

    lake_file: str
    run_id: str | None
    row_filter: RowFilter
    files: bool
    format: str


def write(lake: Lake, results: Results, out: TextIO, request: Request, now: datetime) -> CommandResult:
    """Print the findings; return the verdict, with the doubts about it as warnings.

    Raises:
        BadInput: there is no such run or table, or `files` for a run that is not the last.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    run = results.with_findings(request.run_id)
    require_tables(lake, results, run, request.row_filter.tables)
    id_ = run["run_id"]
    if request.files:
        require_last(results, id_)
        rows = expand_groups(results, id_, request.row_filter)
    else:
        rows = rows_of(results.findings(id_, request.row_filter))
    listing = _listing(lake, results, run, request, now)
    n = FORMATS[request.format](rows, out, listing)
    return CommandResult(
        listing.summary(n),
        0,
        warnings=(*_no_such_partition(request.row_filter, n), *_failure(run), *listing.doubts),
    )


def _listing(lake: Lake, results: Results, run: dict[str, Any], request: Request, now: datetime) -> Listing:
    id_, for_people = run["run_id"], request.format == "table" and not request.files
    samples = group_samples(results, id_) if for_people else {}
    of_run = f"of run {id_} ({run['status']}, as of {second(run['as_of'])})"

    def summary(n: int) -> str:
        rows = (
            f"{number(n, 'row')} (each file of a group is a row)" if request.files else number(n, "finding")
        )
        return f"{rows} {of_run}"

    return Listing(
        name="findings",
        columns=FINDINGS.names,
        show=RowPrinter(request.lake_file, results, samples),
        summary=summary,
        command=f"lakeaudit findings {operand(request.lake_file)} {option('--run-id', id_)}"
        + options_of(request.row_filter),
        run=run,
        coverage=partial(results.coverage, id_, request.row_filter.tables),
        locations=locations(lake, request.row_filter),
        doubts=newer_failure(results, run) if request.run_id is None else (),
        lake_file=request.lake_file,
        now=now,
        overdue=lake.overdue if request.run_id is None else None,
    )


def locations(lake: Lake, row_filter: RowFilter) -> dict[str, str]:
    """Return the URIs of the tables of the lake file that a filter selects."""
    names = row_filter.tables
    return {table.name: table.location.uri for table in lake.tables if not names or table.name in names}


def newer_failure(results: Results, run: dict[str, Any]) -> tuple[str, ...]:
    """Return a line about a run that failed after this one, with its error."""
    newer = results.failed_since(run)
    if newer is None:
        return ()
    return (visible(f"the newer {failure_of(newer)}"),)


def _failure(run: dict[str, Any]) -> tuple[str, ...]:
    """Return a line about a run that failed and wrote findings nevertheless, with its error."""
    return (visible(f"the {failure_of(run)}"),) if run["status"] == "failed" else ()


def _no_such_partition(row_filter: RowFilter, number: int) -> tuple[str, ...]:
    """Warn that a mistyped partition looks like a healthy one: the results name only partitions with findings."""
    if number or not row_filter.partitions:
        return ()
    names = " or ".join(row_filter.partitions)
    why = "check the name, a partition that does not exist has no finding either"
    return (visible(f"no finding in {names}: {why}"),)


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
        at = self._results.clients.endpoint(row["bucket"] or "")
        step = next_steps.way_back(row, at)
        if step is not None or row["kind"] not in self._advised_kinds:
            text_output.next_step(console, row, at, self._lake_file)
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


def options_of(row_filter: RowFilter) -> str:
    """Return the options of a command that select these rows, each after a space."""
    chosen = {
        "--kind": row_filter.kinds,
        "--table": row_filter.tables,
        "--severity": row_filter.severities,
        "--partition": row_filter.partitions,
    }
    return "".join(f" {option(name, value)}" for name, values in chosen.items() for value in values)

"""Print the ledger (`lakeaudit discrepancies`), and accept discrepancies (`ack`, `unack`, `baseline`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from getpass import getuser
from typing import TextIO

import pyarrow as pa

from lakeaudit.advice.command_lines import operand
from lakeaudit.commands.findings import locations, newer_failure, options_of, require_tables
from lakeaudit.commands.option_values import end_option
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.explain import text_output
from lakeaudit.explain.formats.listing import Listing
from lakeaudit.explain.formats.registry import FORMATS
from lakeaudit.formatting import count, day_end
from lakeaudit.ledger.lease import leased
from lakeaudit.results.acknowledgements import Ack, append_transitions, put_ack, put_ack_on_all
from lakeaudit.results.check_file import write_check_file
from lakeaudit.results.read import UNRESOLVED, Results, Row, RowFilter
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import DISCREPANCIES, rows_of

STATES = {"pending": ("pending",), "open": ("open",), "resolved": ("resolved",), "all": ()}
SHORTEST = 6
"""Least number of characters that may abbreviate an id."""


@dataclass(frozen=True)
class Request:
    """The options of the command; `state` is a key of `STATES`."""

    lake_file: str
    state: str
    row_filter: RowFilter
    format: str


def write(lake: Lake, results: Results, out: TextIO, request: Request, now: datetime) -> str:
    """Print the ledger; return the verdict.

    Raises:
        BadInput: there is no such table.
        CannotAudit: nothing was published yet, or the results cannot be read.
    """
    rows = rows_of(batches_in(lake, results, request.state, request.row_filter))
    run, summary = results.published(None), partial(_verdict, request.state)
    listing = Listing(
        name="discrepancies",
        columns=DISCREPANCIES.names,
        show=text_output.discrepancy,
        summary=summary,
        command=f"lakeaudit discrepancies {operand(request.lake_file)} --state {request.state}"
        + options_of(request.row_filter),
        run=run,
        coverage=partial(results.coverage, run["run_id"], request.row_filter.tables),
        locations=locations(lake, request.row_filter),
        doubts=newer_failure(results, run),
        lake_file=request.lake_file,
        now=now,
        overdue=lake.overdue,
    )
    return summary(FORMATS[request.format](rows, out, listing))


def _verdict(state: str, number: int) -> str:
    noun = "discrepancy" if number == 1 else "discrepancies"
    return f"{count(number)} {noun}" if state == "all" else f"{count(number)} {state} {noun}"


def batches_in(lake: Lake, results: Results, state: str, row_filter: RowFilter) -> Iterator[pa.RecordBatch]:
    """Return the rows of the ledger in a state, worst first. Raises as `write`, before the first row."""
    if state not in STATES:
        raise BadInput("--state", f"no state {state}", f"one of {', '.join(STATES)}")
    run = results.published(None)  # an empty ledger must not look like a healthy lake
    require_tables(lake, results, run, row_filter.tables)
    return results.discrepancies(STATES[state], row_filter=row_filter)


def ack_of(by: str | None, reason: str, until: str) -> Ack:
    """Build an acknowledgement from the options of a command.

    Raises:
        BadInput: `until` is not a date or time.
    """
    return Ack(by or getuser(), reason, end_option("--until", until))


def _accepted(number: int, ack: Ack) -> str:
    """Return how many discrepancies are accepted until when; a day counts until its end."""
    noun = "discrepancy" if number == 1 else "discrepancies"
    return f"{count(number)} {noun} accepted until {day_end(ack.ack_until)}"


def acknowledge(lake: Lake, results: Results, ids: Sequence[str], ack: Ack, now: datetime) -> CommandResult:
    """Accept these discrepancies until a time; return the verdict.

    Raises:
        BadInput: an id is unknown, ambiguous or resolved, or the time is past.
    """
    _require_future(ack, now)
    with leased(lake.results, clients_of(lake), "ack", SilentProgress()) as still_ours:
        results = results.leased_by(still_ours)
        rows = _rows(results, ids)
        put_ack(results, [row["discrepancy_id"] for row in rows], ack)
        append_transitions(results, rows, ack, now)
        warnings = write_check_file(results, lake, now, all_tables=False)
    return CommandResult(_accepted(len(rows), ack), 0, warnings=warnings)


def withdraw(lake: Lake, results: Results, ids: Sequence[str], now: datetime) -> CommandResult:
    """End the acceptance of these discrepancies; return the verdict. Raises as `acknowledge`."""
    with leased(lake.results, clients_of(lake), "unack", SilentProgress()) as still_ours:
        results = results.leased_by(still_ours)
        rows = _rows(results, ids)
        put_ack(results, [row["discrepancy_id"] for row in rows], Ack())
        warnings = write_check_file(results, lake, now, all_tables=False)
    noun = "discrepancy is" if len(rows) == 1 else "discrepancies are"
    return CommandResult(f"{count(len(rows))} {noun} no longer accepted", 0, warnings=warnings)


def baseline(lake: Lake, results: Results, ack: Ack, now: datetime) -> CommandResult:
    """Accept every pending or open discrepancy; return the verdict. Raises as `acknowledge`."""
    _require_future(ack, now)
    results.published(None)
    with leased(lake.results, clients_of(lake), "baseline", SilentProgress()) as still_ours:
        results = results.leased_by(still_ours)
        rows = results.unresolved()
        put_ack_on_all(results, ack)
        append_transitions(results, rows, ack, now)
        warnings = write_check_file(results, lake, now, all_tables=False)
    return CommandResult(_accepted(len(rows), ack), 0, warnings=warnings)


def _rows(results: Results, ids: Sequence[str]) -> list[Row]:
    return [_row(results, each) for each in dict.fromkeys(ids)]


def _row(results: Results, id_: str) -> Row:
    """Return the row of an id or of its first characters."""
    rows = list(rows_of(results.discrepancies(UNRESOLVED, id_))) if len(id_) >= SHORTEST else []
    if len(rows) == 1:
        return rows[0]
    what = "matches several discrepancies" if rows else "matches no discrepancy that is pending or open"
    raise BadInput(id_, what, "`lakeaudit discrepancies --state all` prints the ids")


def _require_future(ack: Ack, now: datetime) -> None:
    if ack.ack_until is None or ack.ack_until <= now:
        raise BadInput("--until", "is not in the future", "write a later day, such as 2027-06-01")

"""Describe a list of findings or discrepancies: its rows, its run, and the files that the run did not judge.

A format prints both: a list without rows must not look like a healthy lake if tables were not judged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from rich.console import Console

from lakeaudit import formatting
from lakeaudit.advice.next_steps import resolution_text
from lakeaudit.explain import text_output
from lakeaudit.judged import CONTENT, NOTHING, WHOLE
from lakeaudit.kinds import JUDGED_OUTCOMES, KINDS, axis_words
from lakeaudit.report import coverage_view

Row = Mapping[str, Any]

JUDGED, PARTLY_JUDGED, NOT_JUDGED = "judged", "partly judged", "not judged"
NOT_AUDITED = "not audited"
"""The run left out a table of the lake file."""


@dataclass(frozen=True)
class TableCoverage:
    """How much of a table a run has judged; `gaps` are the reasons for the rest."""

    name: str
    state: str
    files: int = 0
    files_judged: int = 0
    gaps: tuple[str, ...] = ()

    @property
    def extent(self) -> str:
        """Return how many files were judged."""
        count = formatting.count
        return f"{count(self.files_judged)} of {formatting.number(self.files, 'file')} judged"


@dataclass(frozen=True)
class Listing:
    """What formats print beside the rows.

    Args:
        name: `findings` or `discrepancies`.
        columns: names of the columns of the rows.
        show: prints a row for people.
        summary: returns the last line of the command for a number of rows.
        command: command that prints all rows.
        run: row of `runs`, whose coverage is described.
        coverage: reads the rows of `coverage` of the tables of the list.
        locations: URIs of the tables of the lake file by name.
        doubts: reasons why the rows may not be the state of the lake now.
        lake_file: the lake file as the reader would type it, for commands in advice.
        now: time to which acceptances are compared.
        overdue: highest age of the run; None: the run was chosen, whatever its age.
    """

    name: str
    columns: Sequence[str]
    show: Callable[[Console, Row], None]
    summary: Callable[[int], str]
    command: str
    run: Row
    coverage: Callable[[], Sequence[Row]]
    locations: Mapping[str, str]
    doubts: Sequence[str]
    lake_file: str
    now: datetime
    overdue: timedelta | None = None

    @cached_property
    def tables(self) -> tuple[TableCoverage, ...]:
        """Return the tables, the least judged first, with those of the lake file that the run did not audit."""
        known = tuple(_table(table) for table in coverage_view.judged(self.coverage()))
        absent = sorted({*self.locations} - {table.name for table in known})
        reason = (f"run {self.run['run_id']} did not audit this table",)
        return (*(TableCoverage(name, NOT_AUDITED, gaps=reason) for name in absent), *known)

    @property
    def all_doubts(self) -> tuple[str, ...]:
        """Return the doubts about the whole list, with those about its run."""
        status, error = self.run["status"], self.run["error"]
        ending = () if status == "complete" else (f"the audit is {status}{f': {error}' if error else ''}",)
        return (*self._unsettled, *ending)

    @property
    def is_doubtful(self) -> bool:
        """Return whether the rows may not be the state of the lake. A partial audit names its gaps by table."""
        return bool(self._unsettled) or self.run["status"] not in ("complete", "partial")

    @property
    def _unsettled(self) -> tuple[str, ...]:
        """Return the doubts about whether the list is the state of the lake."""
        return (*self.doubts, *self._age, *self._left_out)

    @property
    def _age(self) -> tuple[str, ...]:
        if self.overdue is None or (age := self.now - self.run["as_of"]) <= self.overdue:
            return ()
        limit = formatting.duration(self.overdue)
        return (f"the audit is {formatting.duration(age)} old, and `overdue` is {limit}",)

    @property
    def _left_out(self) -> tuple[str, ...]:
        audited, expected = self.run["tables_audited"], self.run["tables_expected"]
        if not self.tables:
            return ("no table was audited",)
        if expected is None or audited == expected:
            return ()
        return (f"{formatting.count(audited)} of {formatting.number(expected, 'table')} were audited",)

    @property
    def extent(self) -> str:
        """Return how much of all tables was judged, in one line."""
        total = TableCoverage(
            "", "", sum(t.files for t in self.tables), sum(t.files_judged for t in self.tables)
        )
        whole = sum(table.state == JUDGED for table in self.tables)
        tables = f"{formatting.count(whole)} of {formatting.number(len(self.tables), 'table')} fully judged"
        return f"{total.extent}, {tables}"


def _table(table: coverage_view.Judged) -> TableCoverage:
    content = table.cells.get(CONTENT)
    judged = sum(content.counts[name] for name in JUDGED_OUTCOMES) if content else 0
    gaps = tuple(_gaps(table))
    if table.standing != WHOLE and not gaps:
        gaps = (table.description,)
    files = sum(content.counts.values()) if content else 0
    nothing = NOTHING in (table.standing, content.state if content else "")
    state = NOT_JUDGED if nothing else PARTLY_JUDGED if gaps else JUDGED
    return TableCoverage(table.name or formatting.NO_TABLE, state, files, judged, gaps)


def _gaps(table: coverage_view.Judged) -> Iterator[str]:
    """Yield the axes that were not fully judged, and unless the table was fully judged those without a source."""
    for cell in table.cells.values():
        if cell.state not in ("off", *text_output.FINE):
            why = f": {cell.reason}" if cell.reason else ""
            yield f"{axis_words(cell.axis)}: {text_output.extent(cell)}{why}"
    off = [axis_words(axis) for axis, cell in table.cells.items() if cell.state == "off"]
    if off and table.standing != WHOLE:
        yield f"no source for: {', '.join(off)}"


OPEN, PENDING, ACCEPTED, RESOLVED = "open", "pending", "accepted", "resolved"


def standing(row: Row, now: datetime) -> tuple[str, str]:
    """Return the state of a finding or discrepancy and its reason: open, pending, accepted or resolved.

    A finding is open: only a discrepancy has a history.
    """
    state = row.get("state", OPEN)
    if state == RESOLVED:
        return RESOLVED, f"{resolution_text(row)} at {formatting.second(row['resolved_at'])}"
    until = row.get("ack_until")
    if until is not None and formatting.in_utc(until) > now:
        return ACCEPTED, f"accepted by {row['ack_by']} until {formatting.day_end(until)}: {row['ack_reason']}"
    return (PENDING, formatting.PENDING) if state == PENDING else (OPEN, "")


def reason(row: Row) -> str:
    """Return the explanation of a row, or the description of its kind, as visible text; it may quote object keys."""
    kind = KINDS.get(row["kind"])
    return formatting.visible(
        formatting.times(row["explanation"] or (kind.words if kind else formatting.UNKNOWN))
    )


def subject(row: Row) -> str:
    """Return the file, group or table of a row as visible text."""
    return formatting.visible(
        row["subject"] or formatting.uri(row) or formatting.table_label(row["table_name"])
    )

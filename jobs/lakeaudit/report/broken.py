"""Sums up damage by kind: how much, since when, its causes, until when it is recoverable, and the next command. Pure.

Rows and headline are both made from the unresolved discrepancies of the lake, so that they cannot differ.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeaudit.advice.causes import added, causes_in_words, causes_of_all, purpose_question
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.advice.next_steps import (
    CHECKS,
    CLEARED,
    PLANS,
    apply_command,
    beside_others,
    list_command,
    may_be_meant,
    repair_command,
)
from lakeaudit.kinds import COVERAGE_LOST, KINDS, WILL_EXPIRE, loses_state, rank
from lakeaudit.report.summary import Amount
from lakeaudit.results.recovery import Recovery

Row = Mapping[str, Any]

ACCEPTED = "accepted"
FIRST_THE_LOG = "first repair the lost or overwritten commit of the table"


@dataclass(frozen=True)
class Broken:
    """All unresolved discrepancies of one kind and severity that nobody accepted.

    `tables` are the tables with such discrepancies, the most first. This run found `new` of them for the first time and
    `again` after they were resolved. `since` is the oldest evidence, `since_newest` that of the newest
    discrepancy, `by_cause` counts the known causes, most common first.
    """

    kind: str
    severity: str
    number: int
    new: int
    again: int
    tables: tuple[str, ...]
    files: Amount
    rows: Amount
    bytes: Amount
    since: datetime | None
    since_newest: datetime | None
    by_cause: Mapping[str, int]
    recovery: Recovery
    command: str
    blocked: bool = False
    """Whether no plan removes these unused files before a lost or overwritten commit of their table is repaired."""

    @property
    def has_several_times(self) -> bool:
        """Return whether some of the discrepancies exist for a shorter time than the oldest."""
        return self.since != self.since_newest

    @property
    def causes(self) -> tuple[str, ...]:
        """Return the causes, if every discrepancy has a known one; see `next_steps.may_be_meant`."""
        return causes_of_all(self.by_cause, self.number)

    @property
    def cause(self) -> str:
        """Return the cause of all, or how many have which cause; empty if no cause is known."""
        return causes_in_words(self.by_cause, self.number)

    @property
    def before_plan(self) -> str:
        """Return how many files the plan repairs, and the question that a person has to answer first; empty if none."""
        if not self.left_to_a_person:
            return ""
        question = purpose_question([self.kind], self.by_cause, self.number)
        return f"{self.recovery.plan_extent(restore=False)} Answer this question first: {question}".strip()

    @property
    def then(self) -> str:
        """Return the command that applies the plan; empty if the command plans nothing."""
        return apply_command(self.command) if self.command.startswith(PLANS) else ""

    @property
    def remedy(self) -> str:
        """Return whether the files are recoverable, or how the discrepancies are repaired."""
        return FIRST_THE_LOG if self.blocked else self.recovery.amount

    @property
    def left_to_a_person(self) -> bool:
        """Return whether the plan leaves files out that somebody may have removed on purpose."""
        plans = self.command.startswith(PLANS)
        return plans and may_be_meant(self.kind, self.recovery.plannable, self.causes)

    @property
    def purpose(self) -> str:
        """Return the purpose of the command."""
        if self.command.startswith(CHECKS):
            return "Check the sources"
        if self.kind == WILL_EXPIRE:
            return "See which rule acts from which day on"
        return "Plan the repair" if self.command.startswith(PLANS) else "List the files"

    @property
    def description(self) -> str:
        """Return the description of the kind; empty for a kind of another version."""
        return KINDS[self.kind].words if self.kind in KINDS else ""


def broken(
    standing: Sequence[Row], still_open: Sequence[Row], changes: Sequence[Row], lake: str, past: str | None
) -> tuple[Broken, ...]:
    """Return a row for each kind and severity, worst severity and most findings first.

    Args:
        standing: sums of unresolved discrepancies from `results.summaries.lake_standing`.
        still_open: the ledger's sums, for start times and causes, which `standing` lacks.
        changes: the changes of the run, for the numbers of new findings.
        lake: the lake file as the reader would type it.
        past: the run's id if a newer one was published; the command then lists findings and repairs nothing.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in standing:
        if row["standing"] != ACCEPTED and row["findings"]:
            groups.setdefault((row["severity"], row["kind"]), []).append(row)
    losing = {row["table_name"] for row in standing if loses_state(row["kind"], row["severity"])}
    lines = [
        _broken(rows, _of(still_open, *of), _of(changes, *of), lake, past, losing)
        for of, rows in groups.items()
    ]
    return tuple(sorted(lines, key=lambda each: (rank(each.severity), -each.number, each.kind)))


def _of(rows: Iterable[Row], severity: str, kind: str) -> list[Row]:
    return [row for row in rows if (row["severity"], row["kind"]) == (severity, kind)]


def _changed(changes: Sequence[Row], transition: str) -> int:
    return sum(row["number"] for row in changes if row["transition"] == transition)


def _broken(
    rows: Sequence[Row],
    ledger_rows: Sequence[Row],
    changes: Sequence[Row],
    lake: str,
    past: str | None,
    losing: Collection[str | None],
) -> Broken:
    tables: Counter[str] = Counter()
    for row in rows:
        if row["table_name"] is not None:
            tables[row["table_name"]] += row["findings"]
    kind, number = rows[0]["kind"], sum(row["findings"] for row in rows)
    recovery = Recovery.of_sums(rows)
    by_cause = added(row["by_cause"] for row in ledger_rows)
    blocked = kind in CLEARED and bool(tables) and tables.keys() <= {*losing}
    return Broken(
        kind=kind,
        severity=rows[0]["severity"],
        number=number,
        new=min(_changed(changes, "opened"), number),
        again=min(_changed(changes, "reopened"), number),
        tables=tuple(sorted(tables, key=lambda name: (-tables[name], name))),
        files=Amount.of(row["files"] for row in rows),
        rows=Amount.of(row["rows_at_stake"] for row in rows),
        bytes=Amount.of(row["bytes_at_stake"] for row in rows),
        since=min((row["since"] for row in ledger_rows if row["since"]), default=None),
        since_newest=max((at for row in ledger_rows if (at := _newest(row))), default=None),
        by_cause=by_cause,
        recovery=recovery,
        command=_command(
            kind, tables, recovery, causes_of_all(by_cause, number), lake, past, blocked=blocked
        ),
        blocked=blocked,
    )


def _command(
    kind: str,
    tables: Collection[str],
    recovery: Recovery,
    causes: Sequence[str],
    lake: str,
    past: str | None,
    *,
    blocked: bool,
) -> str:
    """Return the command that plans the repair, or lists the files if no plan can help."""
    if past is not None:
        return _of_past(lake, kind, past)
    table = next(iter(tables)) if len(tables) == 1 else None
    if blocked:
        return list_command(lake, table, kind)
    return beside_others(repair_command(lake, table, kind, recovery.plannable, causes, restore=False), kind)


def _newest(row: Row) -> datetime | None:
    """Return since when the newest discrepancy of a row exists; for lost coverage the time of the notice is another."""
    newest: datetime | None = row.get("since_newest")
    return row["since"] if newest is None or row["kind"] == COVERAGE_LOST else newest


def _of_past(lake: str, kind: str, past: str) -> str:
    return f"lakeaudit findings {operand(lake)} {option('--run-id', past)} {option('--kind', kind)}"


def pressing(standing: Iterable[Row]) -> list[Row]:
    """Return the rows that nobody has accepted."""
    return [row for row in standing if row["standing"] != ACCEPTED]


def since_by_table(still_open: Iterable[Row]) -> dict[str | None, datetime]:
    """Return by table the time of its oldest open discrepancy."""
    oldest: dict[str | None, datetime] = {}
    for row in still_open:
        if row["since"] is not None:
            oldest[row["table"]] = min(oldest.get(row["table"], row["since"]), row["since"])
    return oldest

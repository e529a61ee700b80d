"""What is broken, a row a kind: how much, since when, why, until when it can come back, and what to type. Pure.

The rows are of what is unresolved in the lake, as the headline is, so that the two cannot differ.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeaudit.command_lines import operand, option
from lakeaudit.formatting import count
from lakeaudit.kinds import KINDS, rank
from lakeaudit.next_steps import LOST_COMMIT, answer, beside_others, mend
from lakeaudit.report.summary import Amount

Row = Mapping[str, Any]

APART = "accepted"

_PART = re.compile(r" \(\d+ of \d+\)$")


@dataclass(frozen=True)
class Broken:
    """All that is unresolved of one kind and severity, and accepted by nobody.

    `tables` are those that hold it, the most first; of the number, this run found `new` for the first time and `again`
    after they were resolved. `since` is the oldest evidence, `causes` those known, the most common first; `answers`
    counts whether it can come back, `until` is the soonest end.
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
    causes: tuple[str, ...]
    answers: Mapping[str, int]
    until: datetime | None
    readable: datetime | None
    """Until when the lost version of a commit that was written twice is there."""
    command: str

    @property
    def words(self) -> str:
        """What the kind is; empty for one of another version."""
        return KINDS[self.kind].words if self.kind in KINDS else ""

    @property
    def able(self) -> str:
        return able(self.answers, self.number)


def able(answers: Mapping[str, int], number: int) -> str:
    """Of how many it is so that they can come back; of what is no loss of a file the question makes no sense."""
    if not any(answers.values()):
        return "another remedy"
    yes = answers.get("yes", 0)
    if not yes:
        return "no" if answers.get("no", 0) == number else "not known"
    return "yes" if yes == number else f"{count(yes)} of {count(number)}"


def broken(
    standing: Sequence[Row], still_open: Sequence[Row], changes: Sequence[Row], lake: str, past: str | None
) -> tuple[Broken, ...]:
    """A row for each kind and severity, the worst and most first.

    Args:
        standing: as `results.lake_standing` sums up what is unresolved.
        still_open: the ledger's sums, for what `standing` does not say: since when, and why.
        changes: what the run changed, for what is new.
        lake: the lake file as the reader would type it.
        past: the run's id where a newer one was published: then nothing can be mended from here.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in standing:
        if row["standing"] != APART and row["findings"]:
            groups.setdefault((row["severity"], row["kind"]), []).append(row)
    found = [
        _broken(rows, _of(still_open, *of), _of(changes, *of), lake, past) for of, rows in groups.items()
    ]
    return tuple(sorted(found, key=lambda each: (rank(each.severity), -each.number, each.kind)))


def _of(rows: Iterable[Row], severity: str, kind: str) -> list[Row]:
    return [row for row in rows if (row["severity"], row["kind"]) == (severity, kind)]


def _changed(changes: Sequence[Row], transition: str) -> int:
    return sum(row["number"] for row in changes if row["transition"] == transition)


def _broken(
    rows: Sequence[Row], held: Sequence[Row], changes: Sequence[Row], lake: str, past: str | None
) -> Broken:
    tables: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    for row in rows:
        if row["table_name"] is not None:
            tables[row["table_name"]] += row["findings"]
        if said := answer(row["kind"], row["recoverable"]):
            answers[said] += row["findings"]
    kind, number = rows[0]["kind"], sum(row["findings"] for row in rows)
    ends = [
        row["recoverable_until"]
        for row in rows
        if row["recoverable_until"] and answer(row["kind"], row["recoverable"]) == "yes"
    ]
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
        since=min((row["since"] for row in held if row["since"]), default=None),
        causes=_causes(held),
        answers=answers,
        until=min(ends, default=None),
        readable=min(
            filter(None, (row["recoverable_until"] for row in rows if kind == LOST_COMMIT)), default=None
        ),
        command=_of_past(lake, kind, past)
        if past is not None
        else beside_others(
            mend(lake, next(iter(tables)) if len(tables) == 1 else None, kind, answers, _causes(held)), kind
        ),
    )


def _causes(held: Iterable[Row]) -> tuple[str, ...]:
    """A table's most common cause stands for the table; the number in brackets is of that table alone."""
    causes: Counter[str] = Counter()
    for row in held:
        if row["cause"]:
            causes[_PART.sub("", row["cause"])] += row["number"]
    return tuple(sorted(causes, key=lambda cause: (-causes[cause], cause)))


def _of_past(lake: str, kind: str, past: str) -> str:
    return f"lakeaudit findings {operand(lake)} {option('--run-id', past)} {option('--kind', kind)}"


def pressing(standing: Iterable[Row]) -> list[Row]:
    """What nobody has accepted."""
    return [row for row in standing if row["standing"] != APART]


def comeback(rows: Sequence[Row]) -> tuple[int, int, datetime | None]:
    """How many can come back, of how many where that is a question, and the soonest end."""
    asked = [row for row in rows if answer(row["kind"], row["recoverable"])]
    able = [row for row in asked if row["recoverable"] == "yes"]
    ends = [row["recoverable_until"] for row in able if row["recoverable_until"]]
    number = [sum(row["findings"] for row in each) for each in (able, asked)]
    return number[0], number[1], min(ends, default=None)


def since_by_table(still_open: Iterable[Row]) -> dict[str | None, datetime]:
    """Since when the oldest of what is open in each table is there."""
    found: dict[str | None, datetime] = {}
    for row in still_open:
        if row["since"] is not None:
            found[row["table"]] = min(found.get(row["table"], row["since"]), row["since"])
    return found

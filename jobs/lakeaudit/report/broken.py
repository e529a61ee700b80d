"""What is broken, a row a kind: how much, since when, why, until when it is recoverable, and what to type. Pure.

The rows are of what is unresolved in the lake, as the headline is, so that the two cannot differ.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeaudit.command_lines import operand, option
from lakeaudit.kinds import KINDS, rank
from lakeaudit.next_steps import beside_others, mend
from lakeaudit.report.summary import Amount
from lakeaudit.results.recovery import Recovery

Row = Mapping[str, Any]

APART = "accepted"

_PART = re.compile(r" \(\d+ of \d+\)$")


@dataclass(frozen=True)
class Broken:
    """All that is unresolved of one kind and severity, and accepted by nobody.

    `tables` are those that hold it, the most first; of the number, this run found `new` for the first time and `again`
    after they were resolved. `since` is the oldest evidence, `causes` those known, the most common first.
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
    recovery: Recovery
    command: str

    @property
    def words(self) -> str:
        """What the kind is; empty for one of another version."""
        return KINDS[self.kind].words if self.kind in KINDS else ""


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
    for row in rows:
        if row["table_name"] is not None:
            tables[row["table_name"]] += row["findings"]
    kind, number = rows[0]["kind"], sum(row["findings"] for row in rows)
    recovery = Recovery.of_sums(rows)
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
        recovery=recovery,
        command=_of_past(lake, kind, past)
        if past is not None
        else beside_others(
            mend(
                lake, next(iter(tables)) if len(tables) == 1 else None, kind, recovery.answers, _causes(held)
            ),
            kind,
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


def since_by_table(still_open: Iterable[Row]) -> dict[str | None, datetime]:
    """Since when the oldest of what is open in each table is there."""
    found: dict[str | None, datetime] = {}
    for row in still_open:
        if row["since"] is not None:
            found[row["table"]] = min(found.get(row["table"], row["since"]), row["since"])
    return found

"""Sums up findings by severity, kind, table and partition; a sum shows whether a part of it is unknown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeaudit import formatting
from lakeaudit.kinds import SEVERITIES, rank
from lakeaudit.results.recovery import Recovery

Row = Mapping[str, Any]

AT_STAKE = SEVERITIES[:-1]
"""Severities above info, so that many old unused files do not hide a loss."""

WHOLE_TABLE = "(no partition)"
"""The line of findings that are not about files of one partition."""

MAX_PARTITIONS = 12
"""Number of partitions that are named under a table, worst first; one line counts the others."""
MAX_DETAILED = 100
"""Number of tables whose partitions are named; every other table still has its own line."""


@dataclass(frozen=True)
class Amount:
    """A sum that may have unknown parts: `known` is None if all are unknown, `whole` is false if any is."""

    known: int | None
    whole: bool

    @classmethod
    def of(cls, values: Iterable[int | None]) -> "Amount":
        listed = list(values)
        known = [value for value in listed if value is not None]
        return cls(sum(known) if known or not listed else None, len(known) == len(listed))


@dataclass(frozen=True)
class Stake:
    """The number of findings in a set, the files, rows and bytes at stake, and how many files are recoverable."""

    findings: int
    files: Amount
    rows: Amount
    bytes: Amount
    recovery: Recovery

    @classmethod
    def of(cls, totals: Sequence[Row]) -> "Stake":
        return cls(
            findings=sum(row["findings"] for row in totals),
            files=Amount.of(row["files"] for row in totals),
            rows=Amount.of(row["rows_at_stake"] for row in totals),
            bytes=Amount.of(row["bytes_at_stake"] for row in totals),
            recovery=Recovery.of_sums(totals),
        )


@dataclass(frozen=True)
class Line:
    """One line of a summary: its name, its worst severity, its findings by severity, and the stake.

    Only findings of the worst severity count for the stake, if that is above info, so that a file which also has a
    finding of a lower severity is counted once.
    """

    name: str
    worst: str
    by_severity: Mapping[str, int]
    stake: Stake
    tables: int
    table: str | None = None
    """The table, if the line has exactly one."""


@dataclass(frozen=True)
class TableLine:
    """A table with findings, and its owner, if it has one.

    `partitions` are all partitions with findings, by name; `worst_partitions` are named on the page; `rest` is the
    number of the others.
    """

    line: Line
    partitions: tuple[Line, ...]
    worst_partitions: tuple[Line, ...] = field(default=())
    rest: int = 0
    owner: str | None = None


def by_severity(totals: Sequence[Row]) -> tuple[Line, ...]:
    """Return one line for each severity, worst first, even without findings."""
    return tuple(_line(name, [row for row in totals if row["severity"] == name], name) for name in SEVERITIES)


def by_kind(totals: Sequence[Row]) -> tuple[Line, ...]:
    """Return one line for each kind and severity that occurs, worst and most first."""
    grouped = _grouped(totals, lambda row: (row["severity"], row["kind"]))
    lines = [_line(kind, rows, severity) for (severity, kind), rows in grouped.items()]
    return tuple(sorted(lines, key=lambda line: (rank(line.worst), -line.stake.findings, line.name)))


def by_table(totals: Sequence[Row]) -> tuple[TableLine, ...]:
    """Return one line for each table with a finding, worst first, with its partitions."""
    grouped = _grouped(totals, lambda row: formatting.table_label(row["table_name"]))
    lines = sorted((_line(name, rows) for name, rows in grouped.items()), key=worst_first)
    return tuple(
        _with_partitions(line, grouped[line.name], MAX_PARTITIONS if at < MAX_DETAILED else 0)
        for at, line in enumerate(lines)
    )


def worst_first(line: Line) -> tuple[int, int, int, str]:
    """Return the sort key: worst severity, most findings of it, most rows at stake, name."""
    return rank(line.worst), -line.by_severity.get(line.worst, 0), -(line.stake.rows.known or 0), line.name


def _with_partitions(line: Line, totals: Sequence[Row], limit: int) -> TableLine:
    owner = next(filter(None, (row["owner"] for row in totals)), None)
    grouped = _grouped(totals, lambda row: _partition_label(row["partition_path"]))
    if set(grouped) <= {WHOLE_TABLE}:
        return TableLine(line, (), owner=owner)
    lines = [_line(name, rows) for name, rows in sorted(grouped.items())]
    worst = sorted(lines, key=worst_first)[:limit]
    partitions = tuple(part for part in lines if part.name != WHOLE_TABLE)
    return TableLine(line, partitions, tuple(worst), len(lines) - len(worst), owner)


def _partition_label(path: str | None) -> str:
    return path or WHOLE_TABLE


def _line(name: str, rows: Sequence[Row], worst: str | None = None) -> Line:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["severity"]] = counts.get(row["severity"], 0) + row["findings"]
    severest = worst or min(counts, key=rank)
    at_stake = worst or severest in AT_STAKE
    serious = [row for row in rows if row["severity"] == severest] if at_stake else []
    tables = {row["table_name"] for row in rows if row["table_name"] is not None}
    only = next(iter(tables)) if len(tables) == 1 else None
    return Line(name, severest, counts, Stake.of(serious), len(tables), only)


def _grouped(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups

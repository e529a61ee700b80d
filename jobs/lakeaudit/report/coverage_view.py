"""Prepares the coverage rows for display: which files of each table were judged, and why others were not.

A table counts as fully judged only if every file on every axis that is on was decided.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from lakeaudit import formatting
from lakeaudit import judged as judged_rows
from lakeaudit.advice.next_steps import LOST_LOG
from lakeaudit.kinds import (
    AXES,
    JUDGED_OUTCOMES,
    KINDS,
    OPEN_OUTCOMES,
    TABLE_MISSING,
    YOUNG_OUTCOME,
    says_loss,
)

Row = Mapping[str, Any]

OUTCOMES = ("finding", "consistent", "ignored", "out_of_window", "undecided", "moved_on", "uncovered")
"""The outcomes of a file on an axis, in the order of the bars from left to right; they add up to `files`."""

OF_METADATA = (LOST_LOG, TABLE_MISSING)
"""Kinds of the axis `content` about a table's log or metadata."""

NOTHING_JUDGED = "nothing could be judged"
STANDINGS = {
    "nothing": NOTHING_JUDGED,
    "idle": NOTHING_JUDGED,
    "young": "too young to judge",
    "part": "partly judged",
    "whole": "fully judged",
}
WITHOUT_MANIFEST = "judged without a manifest"
_WITHOUT_SHARE = {
    "off": "not checked",
    "empty": "nothing to judge",
    "young": STANDINGS["young"],
    "nothing": NOTHING_JUDGED,
}


@dataclass(frozen=True)
class Cell:
    """One axis of one table; `counts` are by outcome.

    `state` is off, empty (no files), young (all files too young), nothing, part or whole.
    """

    axis: str
    state: str
    share: float | None
    files: int | None
    counts: Mapping[str, int]
    unconfirmed: int
    refuted: int
    reason: str | None
    loss: str | None
    """The mass loss that a live check of a sample confirmed."""

    @property
    def percent(self) -> str | None:
        """Return the share of files that was judged; None where a percentage would mislead."""
        if self.state not in ("part", "whole") or self.share is None:
            return None
        hides = self.state == "part" and (
            self.share == 1 or self.is_outdated
        )  # files behind an evidence gap are not counted
        return None if hides else formatting.share(self.share)

    @property
    def judged_files(self) -> int:
        """Return the number of judged files."""
        return sum(self.counts[name] for name in JUDGED_OUTCOMES)

    @property
    def is_outdated(self) -> bool:
        """Return whether the files were judged by evidence that is too old: it does not show later losses."""
        return judged_rows.OUTDATED in (self.reason or "")

    @property
    def hides_files(self) -> bool:
        """Return whether files were not judged whose number is not known, or all by evidence that is too old."""
        return self.state == "part" and (self.is_outdated or self.percent is None)

    @property
    def old_enough(self) -> int:
        """Return the number of files that are not too young to be judged; `percent` is the share of them."""
        return (self.files or 0) - self.counts[YOUNG_OUTCOME]

    @property
    def own_findings(self) -> int:
        """Return the number of findings if no catalog is read: the table's own metadata shows stale pointers, too."""
        return self.counts["finding"] if self.state == "off" and self.axis == "pointer" else 0

    @property
    def extent(self) -> str:
        """Return how much of the axis was judged: a share, or why there is none."""
        if self.own_findings:
            return f"{formatting.number(self.own_findings, 'finding')} from the table's own metadata"
        if self.state == "part" and self.is_outdated:
            return f"0 of {formatting.number(self.old_enough, self.noun)} judged by recent evidence"
        known = NOTHING_JUDGED
        if self.state == "part" and self.share is not None:
            known = f"{formatting.number(self.judged_files, self.noun)} judged, an unknown number not judged"
        return self.percent or _WITHOUT_SHARE.get(self.state, known)

    @property
    def noun(self) -> str:
        """Return what the cell counts: files, or commits."""
        return "commit" if self.axis == "commit" else "file"


@dataclass(frozen=True)
class Judged:
    """The coverage of one table over all axes, its cells by axis, and the time up to which its evidence reaches.

    `standing` is nothing, idle (all axes are off or empty), young, part or whole.
    `evidence_up_to` is the oldest storage cut of an axis that was judged; None if no axis was.
    """

    name: str
    standing: str
    evidence_up_to: datetime | None
    version: int | None
    horizon: datetime | None
    cells: Mapping[str, Cell]

    @property
    def description(self) -> str:
        """Return how much of the table was judged; without a manifest it is never judged fully."""
        bare = self.standing == "part" and not self.has_manifest and self.is_decided
        return WITHOUT_MANIFEST if bare else STANDINGS[self.standing]

    @property
    def has_manifest(self) -> bool:
        """Return whether a manifest lists the files; without one the content is always judged in part."""
        content = self.cells.get("content")
        return content is None or content.state != "off"

    @property
    def is_decided(self) -> bool:
        """Return whether no file or commit of the table is undecided."""
        return not any(cell.counts[outcome] for cell in self.cells.values() for outcome in OPEN_OUTCOMES)

    @property
    def repeated(self) -> frozenset[str]:
        """Return the axes with the same reason as the axis before them."""
        reasons = {axis: self.cells[axis].reason for axis in AXES if axis in self.cells}
        return frozenset(
            axis for before, axis in pairwise(reasons) if reasons[axis] and reasons[axis] == reasons[before]
        )

    @property
    def files(self) -> int:
        return max((cell.files or 0 for cell in self.cells.values()), default=0)


def judged(coverage: Sequence[Row]) -> tuple[Judged, ...]:
    """Return every table of the coverage rows, the least judged first."""
    tables: dict[str, list[Row]] = {}
    for row in coverage:
        tables.setdefault(row["table_name"] or "", []).append(row)
    order = list(STANDINGS)
    views = (_table(name, rows) for name, rows in tables.items())
    return tuple(sorted(views, key=lambda table: (order.index(table.standing), table.name)))


def metadata_findings(totals: Sequence[Row], tables: Sequence[Judged]) -> dict[str, int]:
    """Return by table the findings about its log or metadata that its cells, which count files, do not count.

    Args:
        totals: sums of the run's findings, with table_name, kind and findings.
        tables: the run's coverage.
    """
    listed: Counter[str] = Counter()
    of_log: Counter[str] = Counter()
    for row in totals:
        name, kind = row["table_name"] or "", KINDS.get(row["kind"])
        if kind is not None and kind.axis == "content":
            listed[name] += row["findings"]
            of_log[name] += row["findings"] if row["kind"] in OF_METADATA else 0
    counted = {t.name: t.cells["content"].counts["finding"] for t in tables if "content" in t.cells}
    left = {name: min(of_log[name], listed[name] - counted[name]) for name in counted}
    return {name: number for name, number in left.items() if number > 0}


def axes_met(coverage: Sequence[Row]) -> tuple[str, ...]:
    """Return the axes that occur in the rows, in the order of `AXES`."""
    present = {row["axis"] for row in coverage}
    return (*(axis for axis in AXES if axis in present), *sorted(present - set(AXES)))


def _table(name: str, rows: Sequence[Row]) -> Judged:
    cells = {row["axis"]: cell_of(row) for row in rows}
    cuts = [row["storage_cut_from"] for row in rows if cells[row["axis"]].state in {"part", "whole"}]
    return Judged(
        name=name,
        standing=judged_rows.table_standing(rows),
        evidence_up_to=min((cut for cut in cuts if cut is not None), default=None),
        version=next((row["table_version"] for row in rows if row["table_version"] is not None), None),
        horizon=next((row["history_horizon"] for row in rows if row["history_horizon"] is not None), None),
        cells=cells,
    )


def cell_of(row: Row) -> Cell:
    """Return the cell of one coverage row."""
    counts = {name: judged_rows.count_of(row, name) for name in OUTCOMES}
    return Cell(
        axis=row["axis"],
        state=judged_rows.axis_state(row),
        share=row["decided_share"],
        files=row["files"],
        counts=counts,
        unconfirmed=row["unconfirmed"] or 0,
        refuted=row["refuted"] or 0,
        reason=row["reason"] or (_INCOMPLETE if counts["undecided"] else None),
        loss=row["reason"] if row["status"] == "complete" and says_loss(row["reason"]) else None,
    )


_INCOMPLETE = "the evidence is incomplete"

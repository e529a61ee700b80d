"""What could be judged and what could not: the coverage rows as the page shows them.

Nothing here counts as fine by default: a table is `fine` only where every axis that is on was decided whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeaudit.kinds import AXES, says_loss

Row = Mapping[str, Any]

OUTCOMES = ("finding", "consistent", "ignored", "out_of_window", "undecided", "moved_on", "uncovered")
"""The outcomes of a file on an axis, as the bars show them from left to right; they add up to `files`."""

DECIDED = ("finding", "consistent", "ignored")
OPEN = ("undecided", "uncovered")
TO_COME = "hazard"
"""The axis of what will be lost; how a table stands is about what is there and what is not."""

STANDINGS = {
    "nothing": "nothing could be judged",
    "idle": "nothing could be judged",
    "part": "partly judged",
    "whole": "fully judged",
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
    """What a look at a sample has confirmed: so much is gone."""


@dataclass(frozen=True)
class Judged:
    """One table: how it stands over all axes, its cells by axis, and up to which time its evidence reaches.

    `standing` is nothing, idle (there was nothing to decide: off, empty or too young), part or whole.
    `evidence_up_to` is the oldest storage cut that anything of it was decided on; None where nothing was.
    """

    name: str
    standing: str
    evidence_up_to: datetime | None
    version: int | None
    horizon: datetime | None
    cells: Mapping[str, Cell]

    @property
    def files(self) -> int:
        return max((cell.files or 0 for cell in self.cells.values()), default=0)


def judged(coverage: Sequence[Row]) -> tuple[Judged, ...]:
    """Every table of the coverage rows, the least judged first."""
    tables: dict[str, list[Row]] = {}
    for row in coverage:
        tables.setdefault(row["table_name"] or "", []).append(row)
    order = list(STANDINGS)
    views = (_table(name, rows) for name, rows in tables.items())
    return tuple(sorted(views, key=lambda table: (order.index(table.standing), table.name)))


def axes_met(coverage: Sequence[Row]) -> tuple[str, ...]:
    """The axes that any row is about, in the contract's order."""
    met = {row["axis"] for row in coverage}
    return (*(axis for axis in AXES if axis in met), *sorted(met - set(AXES)))


def _table(name: str, rows: Sequence[Row]) -> Judged:
    cells = {row["axis"]: _cell(row) for row in rows}
    cuts = [row["storage_cut_from"] for row in rows if cells[row["axis"]].state in {"part", "whole"}]
    return Judged(
        name=name,
        standing=_standing([cell.state for axis, cell in cells.items() if axis != TO_COME]),
        evidence_up_to=min((cut for cut in cuts if cut is not None), default=None),
        version=next((row["table_version"] for row in rows if row["table_version"] is not None), None),
        horizon=next((row["history_horizon"] for row in rows if row["history_horizon"] is not None), None),
        cells=cells,
    )


def _standing(states: Sequence[str]) -> str:
    if not {"whole", "part"} & set(states):
        return "nothing" if "nothing" in states else "idle"
    return "part" if {"part", "nothing"} & set(states) else "whole"


def _cell(row: Row) -> Cell:
    counts = {name: row["findings" if name == "finding" else name] or 0 for name in OUTCOMES}
    return Cell(
        axis=row["axis"],
        state=_state(row, counts),
        share=row["decided_share"],
        files=row["files"],
        counts=counts,
        unconfirmed=row["unconfirmed"] or 0,
        refuted=row["refuted"] or 0,
        reason=row["reason"] or (_UNTOLD if counts["undecided"] else None),
        loss=row["reason"] if row["status"] == "complete" and says_loss(row["reason"]) else None,
    )


_UNTOLD = "what was read does not tell all"


def _state(row: Row, counts: Mapping[str, int]) -> str:
    if row["status"] == "off":
        return "off"
    if row["files"] == 0 and row["status"] == "complete":
        return "empty"
    if not sum(counts[name] for name in DECIDED):
        young = row["status"] == "complete" and counts["out_of_window"] == row["files"]
        return "young" if young else "nothing"
    if row["status"] == "complete" and not sum(counts[name] for name in OPEN):
        return "whole"
    return "part"

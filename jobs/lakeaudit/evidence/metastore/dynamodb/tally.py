"""Tally the items of a DynamoDB table: their number, how many fit the layout, and its marker."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Tally:
    """The counts of a table's items that identify its layout.

    `items` is their number; `paths` the number of those that name a path as the layout does (if only one matters, at
    most one); `marker` the version of the layout's marker ("none": it has no version), null without a marker.
    """

    items: int = 0
    paths: int = 0
    marker: str | None = None

    def add(self, other: "Tally") -> None:
        """Count items of another part of the same table."""
        self.items += other.items
        self.paths += other.paths
        self.marker = max((each for each in (self.marker, other.marker) if each is not None), default=None)

    @property
    def data(self) -> str:
        """The tally as `data` of a NOTE row."""
        return json.dumps(asdict(self))


def tally_of(notes: Sequence[Mapping[str, object]]) -> Tally:
    """Return the tally of all items that the parts of one source read, from their NOTE rows."""
    whole = Tally()
    for row in notes:
        if row["data"] is not None:
            whole.add(Tally(**json.loads(str(row["data"]))))
    return whole


@dataclass(frozen=True)
class ItemLayout:
    """The functions that tally the items of a layout.

    `tally_of` takes one item as DynamoDB renders it, and raises LookupError or TypeError for any other value; `marker`
    is a text in the line of an item that may be the marker (None: a layout without one).
    """

    marker: bytes | None
    tally_of: Callable[[Any], Tally]


def _one_item(_: Any) -> Tally:
    return Tally(1, 1)


ANY = ItemLayout(None, _one_item)
"""The layout of items that are only counted."""

"""What items of a DynamoDB table show of its layout: how many they are, how many fit, and which marker they have."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Tally:
    """What items of a table show of its layout.

    `items` is how many they are; `paths` those that name a path as the layout does (where only one matters, no more
    than one); `marker` the version of the layout's marker ("none": it has none), null without a marker.
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
    """The tally of all items that the parts of one source read, from their NOTE rows."""
    whole = Tally()
    for row in notes:
        if row["data"] is not None:
            whole.add(Tally(**json.loads(str(row["data"]))))
    return whole


@dataclass(frozen=True)
class ItemLayout:
    """How the items of a layout are tallied.

    `tally_of` is of one item as DynamoDB renders it, and raises LookupError or TypeError of what is none; `marker` is
    what the line of an item has that may be the marker (None: a layout without one).
    """

    marker: bytes | None
    tally_of: Callable[[Any], Tally]


def _one_item(_: Any) -> Tally:
    return Tally(1, 1)


ANY = ItemLayout(None, _one_item)
"""Of items that are counted alone."""

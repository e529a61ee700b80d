"""Whether a DynamoDB table is one of S3Guard's: what parts note of its items, and the rule that judges it.

S3Guard marks its tables by an item `../VERSION` with a `table_version` of 100 (Hadoop,
DynamoDBMetadataStoreTableManager). Hadoop does not open a table that has items and no marker, or another version.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from lakeaudit.config import S3Guard
from lakeaudit.errors import SourceError

MARKER = "../VERSION"
"""Both keys of the marker: a relative path, so no file can have it."""
LAYOUT = "100"


@dataclass
class Tally:
    """What items of a table show of its layout.

    `items` is how many they are; `paths` those with a parent that begins with a slash and with a child (where only
    one matters, no more than one); `marker` the version of the marker ("none": it has none), null without a marker.
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


def layout_fault(notes: Sequence[Mapping[str, object]], *, has_holes: bool) -> str | None:
    """Why an export is no S3Guard table, as the problem of its source; null where it is one.

    For the caller, once all parts of the source were read: `notes` are the NOTE rows of this source alone. With holes,
    known before (`has_holes`) or among the notes, the marker may be one of the missing items.
    """
    complete = not has_holes and all(row["reason"] is None for row in notes)
    fault = fault_of(tally_of(notes), complete=complete)
    return None if fault is None else other_layout(fault)


def fault_of(tally: Tally, *, complete: bool) -> str | None:
    """What contradicts the layout among the items of a tally; `complete`: they are all that the table has."""
    if tally.marker not in (None, LAYOUT):
        return f"its version is {tally.marker}, not {LAYOUT}"
    if not tally.paths and tally.items > (0 if tally.marker is None else 1):
        return "no item has a parent and a child"
    if complete and tally.items and tally.marker is None:
        return f"it has no {MARKER} item"
    return None


def other_layout(fault: str) -> str:
    """A fault of the layout as the problem of a source."""
    return f"is an S3Guard table of another layout, or none: {fault}"


def layout_error(source: S3Guard, fault: str) -> SourceError:
    """The source cannot be read, for its layout."""
    return SourceError(name_of(source), other_layout(fault), "name a table that Hadoop 3.0 to 3.3 wrote")


def name_of(source: S3Guard) -> str:
    """The source in messages."""
    return source.export.uri if source.export is not None else f"DynamoDB table {source.table}"

"""Check that a DynamoDB table is one of S3Guard's, by the tallies of its items.

S3Guard marks its tables by an item `../VERSION` with a `table_version` of 100 (Hadoop,
DynamoDBMetadataStoreTableManager). Hadoop does not open a table that has items and no marker, or another version.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.dynamodb.tally import ItemLayout, Tally, tally_of
from lakeaudit.evidence.metastore.s3guard import S3Guard

MARKER = "../VERSION"
"""Both keys of the marker: a relative path, so no file can have it."""
LAYOUT = "100"


def layout_fault(notes: Sequence[Mapping[str, object]], *, has_holes: bool) -> str | None:
    """Return why an export is not an S3Guard table, as the problem of its source; None if it is one.

    The caller calls it once all parts of the source were read: `notes` are the NOTE rows of this source alone. If there
    are gaps, known before (`has_holes`) or among the notes, the marker may be one of the missing items.
    """
    complete = not has_holes and all(row["reason"] is None for row in notes)
    fault = fault_of(tally_of(notes), complete=complete)
    return None if fault is None else other_layout(fault)


def fault_of(tally: Tally, *, complete: bool) -> str | None:
    """Return why the items of a tally contradict the layout, or None; `complete`: they are all items of the table."""
    if tally.marker not in (None, LAYOUT):
        return f"its version is {tally.marker}, not {LAYOUT}"
    if not tally.paths and tally.items > (0 if tally.marker is None else 1):
        return "no item has a parent and a child"
    if complete and tally.items and tally.marker is None:
        return f"it has no {MARKER} item"
    return None


def other_layout(fault: str) -> str:
    """Return a fault of the layout as the problem of a source."""
    return f"is an S3Guard table of another layout, or none: {fault}"


def layout_error(source: S3Guard, fault: str) -> SourceError:
    """Return the error of a source with another layout."""
    return SourceError(name_of(source), other_layout(fault), "name a table that Hadoop 3.0 to 3.3 wrote")


def name_of(source: S3Guard) -> str:
    """Return the name of the source in messages."""
    return source.export.uri if source.export is not None else f"DynamoDB table {source.table}"


def _tally_of_item(item: Any) -> Tally:
    """Return the tally of one item as DynamoDB renders it; LookupError or TypeError for any other value."""
    parent, child = item["parent"]["S"], item["child"]["S"]
    if (parent, child) == (MARKER, MARKER):
        return Tally(1, 0, _version(item))
    return Tally(1, int(isinstance(parent, str) and parent.startswith("/") and child is not None))


def _version(item: Any) -> str:
    try:
        return str(item["table_version"]["N"])
    except (LookupError, TypeError):
        return "none"


ITEMS = ItemLayout(b"VERSION", _tally_of_item)
"""How items are tallied."""

"""Define the rows between the steps of reading Iceberg tables: manifests, and the files in them and in metadata."""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakeaudit.keys import Location

KIND = "iceberg_files"
"""The kind of row that carries FILE rows."""

FILE = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # the reading of the table to which it belongs
        ("manifest", pa.int64()),  # number of the manifest that names it; -1: the table's own metadata does
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("state", pa.string()),  # live | history | gone
        ("explained", pa.bool_()),  # no reader needs it
        ("heads", pa.list_(pa.int32())),  # branches and tags whose state lists it
        ("category", pa.string()),  # data | deletes | log | statistics
        ("at", pa.timestamp("us")),  # when it was added, or removed if it is gone
        ("size", pa.int64()),
        ("records", pa.int64()),
        ("partition_path", pa.string()),
        ("commit_id", pa.string()),  # the snapshot that added it
    ]
)
"""One file in one manifest, or in the table's metadata."""

MANIFEST = pa.schema(
    [
        ("table", pa.int64()),  # its index among the tables that are read
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("length", pa.int64()),  # bytes, by its list; null if the list lacks them
        ("added_by", pa.int64()),  # the snapshot that wrote it; null: unknown
        ("heads", pa.list_(pa.int32())),  # branches and tags whose lists name it
        ("oldest", pa.timestamp("us")),  # the oldest retained snapshot whose list names it
        ("files", pa.int64()),  # how many files it lists; null if its list lacks the count
        ("deletes", pa.bool_()),  # they are delete files
    ]
)
"""A manifest that lists of one table name: one row for each."""


@dataclass(frozen=True)
class Manifest:
    """Holds a MANIFEST row by its number."""

    number: int
    table: int
    place: Location
    length: int | None
    added_by: int | None
    heads: tuple[int, ...]
    oldest: datetime
    files: int | None
    deletes: bool = False

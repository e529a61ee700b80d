"""The types that catalogs of tables return: tables, their locations, and the partitions of plain Hive tables.

A kind of catalog has a function `list_tables`. It lists tables on the driver, page by page, and returns partitions, of
which there may be many, as parts, which tasks read. Content that cannot be read becomes an `EvidenceGap`; only a
catalog that cannot be read at all raises `SourceError`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from lakeaudit.evidence.protocol import EvidenceGap, Source, SourceInfo
from lakeaudit.keys import GOOGLE, Aliases, Location, identify, in_known_store, true_place
from lakeaudit.schemas import PARTITION, plain_time

FORMATS = ("delta", "iceberg", "hudi", "hive", "unknown")
"""The formats that a catalog gives a table."""


@dataclass(frozen=True)
class CatalogTable:
    """One table as a catalog names it.

    Attributes:
        catalog: the id of the source.
        name: `namespace.table`, as the catalog writes it.
        bucket: of its location; "" for a local one, and for a location outside of known stores.
        key: the folder with a slash at its end; "" for a location outside of known stores, and for a whole bucket.
        format: one of `FORMATS`.
        metadata_location: for an Iceberg table the URI of the metadata.json that the catalog points at, else "".
        partition_keys: names of the columns by which a plain Hive table is partitioned.
        updated_at: when the catalog last changed it; None: not recorded.
        previous_location: URI of the metadata.json that it pointed at before, else "".
        scheme: of its location, where lakeaudit writes another one: `gs://`, else "".
    """

    catalog: str
    name: str
    bucket: str
    key: str
    format: str
    metadata_location: str = ""
    partition_keys: tuple[str, ...] = ()
    updated_at: datetime | None = None
    previous_location: str = ""
    scheme: str = ""

    @property
    def location(self) -> Location | None:
        """Its location; None: outside of known stores."""
        return Location(self.bucket, self.key.rstrip("/")) if self.bucket or self.key else None


@dataclass(frozen=True)
class HiveTable:
    """The properties of a plain Hive table in a catalog.

    `projected`: readers compute the partitions and do not read them from the catalog. `filled`: its recorded statistics
    count rows or files; None: it has no statistics.
    """

    projected: bool = False
    filled: bool | None = None


PartitionFilter = Callable[[CatalogTable], bool]
"""Returns whether the partitions of a table are needed."""


@dataclass(frozen=True)
class Pointers:
    """The content of one catalog.

    `info` has the window: start and end of reading. `partitions` are rows of kind `partitions` (schemas.PARTITION), of
    the selected plain Hive tables. A gap in `holes` is a table (`subject` is its name) or a namespace (`subject` ends
    in `.*`) that could not be read. `hive` has the properties of plain Hive tables, by name.
    """

    info: SourceInfo
    tables: tuple[CatalogTable, ...]
    partitions: Source = ()
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    hive: Mapping[str, HiveTable] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    """The statistics of a table or partition in a catalog.

    `filled`: they count rows or files; None: there are no statistics. `rows` is the number of rows; `content`: they
    count rows or bytes, which files of 0 bytes cannot hold.
    """

    filled: bool | None = None
    rows: int | None = None
    content: bool = False


@dataclass(frozen=True)
class RegisteredPartition:
    """A partition that a catalog has registered.

    `location` is as the catalog writes it; `changed_at` is when it was added or last changed, None: not known.
    """

    location: str
    values: Sequence[str]
    changed_at: datetime | None
    statistics: Statistics = Statistics()


GONE = "gone"
"""`data` of the note of a table that was dropped while it was read."""


def partition_batch(
    source: str,
    table: str,
    partitions: Iterable[RegisteredPartition],
    aliases: Aliases = (),
) -> pa.RecordBatch:
    """Return the PARTITION rows of one table."""
    placed = [(folder_of(each.location, aliases), each) for each in partitions]
    rows = [
        {
            "source": source, "table_name": table, "values": list(each.values),
            "registered_at": plain_time(each.changed_at),
            "filled_said": each.statistics.filled, "rows_said": each.statistics.rows,
            "content_said": each.statistics.content,
            "bucket": place[0] if any(place) else None, "key": place[1] if any(place) else None,
        }
        for place, each in placed
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, PARTITION)


def scheme_of(uri: str) -> str:
    """Return the scheme of a location as catalogs write it, where lakeaudit writes another one for it; else empty."""
    return GOOGLE if uri.strip().startswith(GOOGLE) else ""


def folder_of(uri: str, aliases: Aliases = ()) -> tuple[str, str]:
    """Return bucket and key (with a slash at its end) of a location as catalogs write it; ("", ""): in no known store.

    Hive writes raw paths (`Path.toString`), so nothing is decoded here; the name of a partition's folder is escaped
    already (`%3A` is part of the key). `aliases` are other names of places, as claims write them.
    """
    named = identify(uri.strip())
    bucket, key = ("", "") if named is None else true_place(aliases, *named)
    place = Location(bucket, key.rstrip("/"))
    return ("", "") if not in_known_store(bucket) else (place.bucket, place.prefix)

"""What catalogs of tables give: the tables they name, where these lie, and the partitions of plain Hive tables.

A catalog kind is a module beside this one with `list_tables`. It asks for tables on the driver, page by page; what may
be many (partitions) it gives as parts, which tasks read. What could not be read is a hole, and raises no error: only a
catalog that cannot be asked at all raises `SourceError`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from lakeaudit.evidence.protocol import EvidenceGap, Source, SourceInfo
from lakeaudit.keys import GOOGLE, Aliases, Location, identify, in_known_store, true_place
from lakeaudit.schemas import PARTITION, plain_time

FORMATS = ("delta", "iceberg", "hudi", "hive", "unknown")
"""What a catalog takes a table for."""


@dataclass(frozen=True)
class CatalogTable:
    """One table as a catalog names it.

    Attributes:
        catalog: the id of the source.
        name: `namespace.table`, the catalog's own words.
        bucket: of its location; "" of a local one, and of one that is no place in a store.
        key: the folder with a slash at its end; "" where the location is no place in a store, or a whole bucket.
        format: one of `FORMATS`.
        metadata_location: of an Iceberg table the URI of the metadata.json that the catalog points at, else "".
        partition_keys: names of the columns that a plain Hive table is partitioned by.
        updated_at: when the catalog last changed it; None: it does not say.
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
        """Where it lies; None: at no place in a store."""
        return Location(self.bucket, self.key.rstrip("/")) if self.bucket or self.key else None


@dataclass(frozen=True)
class HiveTable:
    """What a catalog says of a plain Hive table beside its place.

    `projected`: readers work partitions out by themselves and do not ask the catalog for them. `filled`: its recorded
    statistics say that it has rows or files; None: they say nothing.
    """

    projected: bool = False
    filled: bool | None = None


PartitionFilter = Callable[[CatalogTable], bool]
"""Whether the partitions of a table are asked for."""


@dataclass(frozen=True)
class Pointers:
    """What one catalog says.

    `info` has the cut: begin and end of reading. `partitions` are rows of kind `partitions` (schemas.PARTITION), of the
    wanted plain Hive tables alone. A hole is a table (`subject` is its name) or a namespace (`subject` ends in `.*`)
    that could not be read. `hive` says more of plain Hive tables, by name.
    """

    info: SourceInfo
    tables: tuple[CatalogTable, ...]
    partitions: Source = ()
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    hive: Mapping[str, HiveTable] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    """What a catalog counts of a table or partition.

    `filled`: that it has rows or files; None: it counts nothing. `rows` are those that it counts; `content`: it counts
    rows or bytes, which files of 0 bytes cannot hold.
    """

    filled: bool | None = None
    rows: int | None = None
    content: bool = False


@dataclass(frozen=True)
class RegisteredPartition:
    """A partition as a catalog has it registered.

    `location` is as the catalog writes it; `changed_at` is when it was entered or last changed, None: not known.
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
    """Rows of PARTITION of one table."""
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
    """The scheme of a location as catalogs write it, where lakeaudit writes another one for it; else empty."""
    return GOOGLE if uri.strip().startswith(GOOGLE) else ""


def folder_of(uri: str, aliases: Aliases = ()) -> tuple[str, str]:
    """(bucket, key of the folder with a slash at its end) of a location as catalogs write it; ("", ""): no such place.

    Hive writes raw paths (`Path.toString`), so nothing is decoded here; what a partition's folder is called is escaped
    already (`%3A` is part of the key). `aliases` are other names of places, as claims write them.
    """
    named = identify(uri.strip())
    bucket, key = ("", "") if named is None else true_place(aliases, *named)
    place = Location(bucket, key.rstrip("/"))
    return ("", "") if not in_known_store(bucket) else (place.bucket, place.prefix)

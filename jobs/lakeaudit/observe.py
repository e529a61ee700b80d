"""Observe: read every source the lake file names. A source that cannot be read becomes a hole, not a crash.

Storage and metadata stores are read before the tables' own states, so that a state is never older than the picture
of storage it is held against.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakeaudit.compare.match import Evidence
from lakeaudit.config import Lake, Metastore, S3Inventory, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest import delta, file_list
from lakeaudit.evidence.metastore import s3guard
from lakeaudit.evidence.protocol import Changes, Claims, Context, Entries, Hole, SourceInfo, Stored
from lakeaudit.evidence.storage import listing, s3_inventory

MANIFEST_READERS = {"delta": delta, "file_list": file_list}


Read = TypeVar("Read", Stored, Entries, Claims)


@dataclass(frozen=True)
class Observed:
    """What was read. `rejects` counts, per source, the rows that could not be understood, once the frames have run."""

    evidence: Evidence
    infos: tuple[SourceInfo, ...]
    holes: tuple[Hole, ...]
    warnings: tuple[str, ...]
    rejects: dict[str, Observation] = field(default_factory=dict)


@dataclass
class _Reading:
    """Collects what the readers give, in order."""

    infos: list[SourceInfo] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rejects: dict[str, Observation] = field(default_factory=dict)

    def attempt(self, about: SourceInfo, read: Callable[[], Read]) -> Read | None:
        try:
            got = read()
        except SourceError as error:
            self.infos.append(replace(about, identity="unreadable"))
            self.holes.append(Hole(about.id, f"{error.what}; {error.way_out}".rstrip("; "), about.location))
            return None
        self.infos.append(got.info)
        self.holes.extend(got.holes)
        self.warnings.extend(got.warnings)
        return got

    def counted(self, source: str, frame: DataFrame) -> DataFrame:
        """The understood rows; the others are counted when the frame runs, in the same pass."""
        watch = Observation(f"rows of {source}")
        self.rejects[source] = watch
        rejected = F.col("reject").isNotNull()
        watched = frame.observe(
            watch,
            F.count(F.lit(1)).alias("rows"),
            F.count(F.when(rejected, 1)).alias("rejected"),
            F.min("reject").alias("sample"),
        )
        return watched.filter(~rejected)


def observe(lake: Lake, context: Context, live_tables: Sequence[Table]) -> Observed:
    """Read all evidence; with `live_tables` their places are listed now instead of reading inventories."""
    reading = _Reading()
    storage = _storage(lake, context, live_tables, reading)
    metastores, sources = _metastores(lake, context, reading)
    claims = _manifests(lake, context, reading)
    evidence = Evidence(claims, storage, metastores, sources)
    return Observed(
        evidence, tuple(reading.infos), tuple(reading.holes), tuple(reading.warnings), reading.rejects
    )


def changes(observed: Observed, lake: Lake, context: Context) -> list[Changes]:
    """What became of the tables since they were read."""
    return [
        MANIFEST_READERS[read.info.kind].changes(read, _with_manifest(lake, read.info.kind), context)
        for read in observed.evidence.claims
    ]


def _storage(lake: Lake, context: Context, live_tables: Sequence[Table], reading: _Reading) -> list[Stored]:
    rate = lake.settings.confirm.rate
    wanted = (
        _live_readers(live_tables, context, rate) if live_tables else _inventory_readers(lake, context, rate)
    )
    found = [reading.attempt(about, read) for about, read in wanted]
    return [replace(s, frame=reading.counted(s.info.id, s.frame)) for s in found if s is not None]


StorageReaders = list[tuple[SourceInfo, Callable[[], Stored]]]


def _live_readers(tables: Sequence[Table], context: Context, rate: int) -> StorageReaders:
    infos = [
        SourceInfo(f"storage:{n}", "storage", "listing", t.location.uri, "", None)
        for n, t in enumerate(tables)
    ]
    return [
        (i, partial(listing.read_place, t.location, context, i.id, rate=rate))
        for i, t in zip(infos, tables, strict=True)
    ]


def _inventory_readers(lake: Lake, context: Context, rate: int) -> StorageReaders:
    wanted: StorageReaders = []
    for number, source in enumerate(lake.inventories):
        about = SourceInfo(f"storage:{number}", "storage", source.kind, source.location.uri, "", None)
        if isinstance(source, S3Inventory):
            wanted.append((about, partial(s3_inventory.read, source, context, about.id)))
        else:
            wanted.append((about, partial(listing.read, source, context, about.id, rate=rate)))
    return wanted


def _metastores(
    lake: Lake, context: Context, reading: _Reading
) -> tuple[list[Entries], dict[str, Metastore]]:
    found, sources = [], {}
    for number, source in enumerate(lake.metastores):
        about = SourceInfo(f"metastore:{number}", "metastore", source.kind, source.name, "", None)
        entries = reading.attempt(about, partial(s3guard.read, source, context, about.id))
        if entries is not None:
            found.append(replace(entries, frame=reading.counted(about.id, entries.frame)))
            sources[about.id] = source
    return found, sources


def _manifests(lake: Lake, context: Context, reading: _Reading) -> list[Claims]:
    found = []
    for kind, reader in MANIFEST_READERS.items():
        tables = _with_manifest(lake, kind)
        if tables:
            about = SourceInfo(f"manifest:{kind}", "manifest", kind, lake.name, "", None)
            found.append(reading.attempt(about, partial(reader.read, tables, context, about.id)))
    return [claims for claims in found if claims is not None]


def _with_manifest(lake: Lake, kind: str) -> list[Table]:
    return [table for table in lake.tables if any(manifest.kind == kind for manifest in table.manifests)]

"""Observe: read every source the lake file names. A source that cannot be read becomes a hole, not a crash.

Storage and metadata stores are read before the tables' own states, so that a state is never older than the picture
of storage it is held against. Sources of one side are read beside each other: most of the time goes into waiting.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakeaudit.compare.match import Evidence
from lakeaudit.config import Lake, S3Inventory, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest import delta, file_list
from lakeaudit.evidence.metastore import s3guard
from lakeaudit.evidence.protocol import Changes, Claims, Context, Entries, Hole, SourceInfo, Stored
from lakeaudit.evidence.storage import listing, s3_inventory
from lakeaudit.keys import Location
from lakeaudit.runtime.threads import beside

MANIFEST_READERS = {"delta": delta, "file_list": file_list}
AT_ONCE = 4
"""Sources read beside each other."""

Read = TypeVar("Read", Stored, Entries, Claims)
Wanted = list[tuple[SourceInfo, Callable[[], Read]]]
Begun = list[tuple[SourceInfo, Future[Read]]]


@dataclass(frozen=True)
class Observed:
    """What was read. `rejects` counts, per source, the rows that could not be understood, once the frames have run.

    `listed`: places were listed now, and the lake file's storage sources were left alone.
    """

    evidence: Evidence
    infos: tuple[SourceInfo, ...]
    holes: tuple[Hole, ...]
    warnings: tuple[str, ...]
    rejects: dict[str, Observation] = field(default_factory=dict)
    listed: bool = False


@dataclass
class _Reading:
    """Collects what the readers give, in order."""

    infos: list[SourceInfo] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rejects: dict[str, Observation] = field(default_factory=dict)

    def taken(self, begun: Begun[Read]) -> list[Read]:
        """What could be read, in the lake file's order whichever came first; the rest are holes."""
        return [got for about, reading in begun if (got := self._one(about, reading)) is not None]

    def _one(self, about: SourceInfo, reading: Future[Read]) -> Read | None:
        try:
            got = reading.result()
        except SourceError as error:
            self.infos.append(replace(about, identity="unreadable"))
            reason = f"{error.what}; {error.way_out}".rstrip("; ")
            self.holes.append(Hole(about.id, reason, about.location, may_pass=error.may_pass))
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


def observe(lake: Lake, context: Context, live: Sequence[Location]) -> Observed:
    """Read all evidence; `live` places are listed now instead of reading inventories."""
    reading = _Reading()
    with beside(AT_ONCE) as pool:
        storage = _begun(pool, _storage_readers(lake, context, live))
        metastores = _begun(pool, _metastore_readers(lake, context))
        stored, entries = reading.taken(storage), reading.taken(metastores)
        claims = reading.taken(_begun(pool, _manifest_readers(lake, context)))
    sources = {_metastore_id(number): source for number, source in enumerate(lake.metastores)}
    evidence = Evidence(
        claims,
        [replace(s, frame=reading.counted(s.info.id, s.frame)) for s in stored],
        [replace(e, frame=reading.counted(e.info.id, e.frame)) for e in entries],
        {read.info.id: sources[read.info.id] for read in entries},
    )
    infos, holes, warnings = tuple(reading.infos), tuple(reading.holes), tuple(reading.warnings)
    return Observed(evidence, infos, holes, warnings, reading.rejects, listed=bool(live))


def changes(observed: Observed, lake: Lake, context: Context) -> list[Changes]:
    """What became of the tables since they were read."""
    return [
        MANIFEST_READERS[read.info.kind].changes(read, _with_manifest(lake, read.info.kind), context)
        for read in observed.evidence.claims
    ]


def _begun(pool: ThreadPoolExecutor, wanted: Wanted[Read]) -> Begun[Read]:
    return [(about, pool.submit(read)) for about, read in wanted]


def _storage_readers(lake: Lake, context: Context, live: Sequence[Location]) -> Wanted[Stored]:
    rate = lake.settings.confirm.rate
    return _live_readers(live, context, rate) if live else _inventory_readers(lake, context, rate)


def _live_readers(places: Sequence[Location], context: Context, rate: int) -> Wanted[Stored]:
    infos = [
        SourceInfo(f"storage:{n}", "storage", "listing", place.uri, "", None)
        for n, place in enumerate(places)
    ]
    return [
        (info, partial(listing.read_place, place, context, info.id, rate=rate))
        for info, place in zip(infos, places, strict=True)
    ]


def _inventory_readers(lake: Lake, context: Context, rate: int) -> Wanted[Stored]:
    wanted: Wanted[Stored] = []
    for number, source in enumerate(lake.inventories):
        about = SourceInfo(f"storage:{number}", "storage", source.kind, source.location.uri, "", None)
        if isinstance(source, S3Inventory):
            wanted.append((about, partial(s3_inventory.read, source, context, about.id)))
        else:
            wanted.append((about, partial(listing.read, source, context, about.id, rate=rate)))
    return wanted


def _metastore_readers(lake: Lake, context: Context) -> Wanted[Entries]:
    wanted: Wanted[Entries] = []
    for number, source in enumerate(lake.metastores):
        about = SourceInfo(_metastore_id(number), "metastore", source.kind, source.name, "", None)
        wanted.append((about, partial(s3guard.read, source, context, about.id)))
    return wanted


def _metastore_id(number: int) -> str:
    return f"metastore:{number}"


def _manifest_readers(lake: Lake, context: Context) -> Wanted[Claims]:
    wanted: Wanted[Claims] = []
    for kind, reader in MANIFEST_READERS.items():
        tables = _with_manifest(lake, kind)
        if tables:
            about = SourceInfo(f"manifest:{kind}", "manifest", kind, lake.name, "", None)
            wanted.append((about, partial(reader.read, tables, context, about.id)))
    return wanted


def _with_manifest(lake: Lake, kind: str) -> list[Table]:
    return [table for table in lake.tables if any(manifest.kind == kind for manifest in table.manifests)]

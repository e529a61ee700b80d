"""Storage as it is now: a parallel listing of one place, on S3 or in a local folder.

The driver only finds folders to split by; executors list, each split in one task, and nothing is listed
twice: the rows stay in Spark's storage. Where a bucket is versioned and its versions may be listed, older
versions and delete markers are known too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Context, Cut, Hole, SourceInfo, Stored
from lakeaudit.evidence.storage.local_folder import LocalLister
from lakeaudit.evidence.storage.pages import BrokenListingError, Row
from lakeaudit.evidence.storage.s3_listing import Rights, S3Lister, rights
from lakeaudit.evidence.storage.splits import Split, cut
from lakeaudit.evidence.storage.versions import one_row_per_key
from lakeaudit.keys import Location, uri_of
from lakeaudit.runtime.aws import explain
from lakeaudit.schemas import UPLOAD, VERSION, conform

Clock = Callable[[], datetime]
Rows = Callable[[Split], Iterator[list[Row]]]
_FAILURES = (ClientError, BotoCoreError, ResponseParserError, BrokenListingError, OSError)
_SPLITS_A_TASK = 4


@dataclass(frozen=True)
class Fault:
    """A split that could not be listed to its end, and why."""

    prefix: str
    reason: str


class Source(Protocol):
    """What the lake file says of a listing."""

    @property
    def location(self) -> Location: ...


def utc_now() -> datetime:
    """The default clock."""
    return datetime.now(UTC)


def _in_words(error: Exception) -> str:
    """A failure of a listing on one line."""
    return error.strerror or "" if isinstance(error, OSError) else explain(error)[0]


def read(
    source: Source, ctx: Context, source_id: str, *, rate: float | None = None, clock: Clock = utc_now
) -> Stored:
    """All objects at the source's location; see `read_place`."""
    return read_place(source.location, ctx, source_id, rate=rate, clock=clock)


def read_place(
    place: Location, ctx: Context, source_id: str, *, rate: float | None = None, clock: Clock = utc_now
) -> Stored:
    """All objects below `place`, listed now; `rate` bounds the requests a second of all tasks together.

    The listing is done when this returns: the cut is the time it took. A split that failed is a hole.

    Raises:
        SourceError: a past time is asked for; the place cannot be listed at all.
    """
    if not ctx.live:
        what = f"a listing is live and cannot answer for {ctx.as_of:%Y-%m-%dT%H:%MZ}"
        raise SourceError(place.uri, what, "leave --as-of out, or read an inventory")
    start = clock()
    lister, allowed = _open(place, ctx, rate)
    found, faults = _listed(lister.rows, _splits(lister, place, ctx), VERSION, ctx.spark)
    uploads, warnings = _open_uploads(lister, allowed, place, ctx, source_id)
    return Stored(
        info=SourceInfo(
            id=source_id,
            role="storage",
            kind="listing",
            location=place.uri,
            identity=f"listed {start.isoformat()}",
            cut=Cut(start, clock()),
        ),
        frame=one_row_per_key(found, source_id, repeats=True),
        covers=(place,),
        uploads=uploads,
        holes=tuple(_hole(fault, place, source_id) for fault in faults),
        warnings=(*allowed.warnings, *warnings),
    )


def _hole(fault: Fault, place: Location, source_id: str) -> Hole:
    subject = uri_of(place.bucket, fault.prefix)
    return Hole(
        source_id, f"could not be listed: {fault.reason}", subject=subject, hides="the objects below it"
    )


def _open(place: Location, ctx: Context, rate: float | None) -> tuple[S3Lister | LocalLister, Rights]:
    if not place.is_local:
        allowed = rights(ctx.clients, place)
        interval = ctx.parallelism / rate if rate else 0.0
        return S3Lister(ctx.clients, place.bucket, allowed.versions, interval), allowed
    if not Path(place.spark_path).is_dir():
        raise SourceError(place.uri, "is no folder", "correct the location")
    return LocalLister(), Rights(versions=False, uploads=False, warnings=())


def _splits(lister: S3Lister | LocalLister, place: Location, ctx: Context) -> list[Split]:
    def folders(prefix: str) -> Iterator[list[str]]:
        try:
            yield from lister.folders(prefix)
        except _FAILURES as error:
            if prefix == place.prefix:
                raise SourceError(place.uri, _in_words(error), "see that it can be read") from error
            # The task that gets this folder meets the failure again and reports it.

    return cut(place.prefix, folders, max(2, ctx.parallelism * _SPLITS_A_TASK))


def _open_uploads(
    lister: S3Lister | LocalLister, allowed: Rights, place: Location, ctx: Context, source_id: str
) -> tuple[DataFrame | None, tuple[str, ...]]:
    """UPLOAD rows in one task, since uploads are few; a list with a gap is none, and a warning."""
    if not allowed.uploads or isinstance(lister, LocalLister):
        return None, ()
    whole = [Split(place.prefix, flat=False)]
    found, faults = _listed(lister.uploads, whole, UPLOAD, ctx.spark)
    if faults:
        return None, (f"open uploads could not be listed ({faults[0].reason})",)
    return found.withColumn("source", F.lit(source_id)), ()


def _listed(
    rows: Rows, splits: list[Split], schema: StructType, spark: SparkSession
) -> tuple[DataFrame, tuple[Fault, ...]]:
    """(rows of `schema`, kept in Spark's storage; what failed). One task a split."""
    wide = StructType([*schema.fields]).add("fault", StringType())
    tasks = spark.range(0, len(splits), 1, len(splits))
    kept = tasks.mapInArrow(partial(_list_each, rows, splits, to_arrow_schema(wide)), wide)
    kept = kept.persist(StorageLevel.MEMORY_AND_DISK)
    # This runs the listing. At most one row for each split comes to the driver.
    failed = kept.filter(F.col("fault").isNotNull()).select("key", "fault").collect()
    faults = tuple(Fault(row["key"], row["fault"]) for row in failed)
    return conform(kept.filter(F.col("fault").isNull()), schema), faults


def _list_each(
    rows: Rows, splits: list[Split], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On an executor: the pages of each split; a failure becomes a row, so that the rest is kept."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            for page in _with_fault(rows, splits[number]):
                yield pa.RecordBatch.from_pylist(page, schema)


def _with_fault(rows: Rows, split: Split) -> Iterator[list[Row]]:
    try:
        yield from rows(split)
    except _FAILURES as error:
        shown = split.prefix.encode("utf-8", "backslashreplace").decode()
        yield [{"key": shown, "fault": _in_words(error)}]

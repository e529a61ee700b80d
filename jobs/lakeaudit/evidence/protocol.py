"""What every evidence reader takes and gives. A new kind is one module, one registry line, one contract-test line.

Rows go from storage to Spark partitions and never through a list on the driver. A reader raises `SourceError` when
its source cannot be read at all; what it can read with gaps it delivers with `Hole`s.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients

Clock = Callable[[], datetime]
"""What a reader asks for the begin and the end of a live reading."""


def utc_now() -> datetime:
    """The clock of readers outside of tests."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Context:
    """What a reader may know of its run. `as_of` bounds every source; `now` is the run's one clock reading.

    `live` is true when `as_of` is now, so that live sources may be read. `tables` are the names in scope.
    """

    spark: SparkSession
    clients: Clients
    as_of: datetime
    now: datetime
    live: bool
    parallelism: int = 4


@dataclass(frozen=True)
class Cut:
    """The window in which a source's picture was taken; `margin` widens it for fuzzy sources."""

    start: datetime
    end: datetime | None = None
    margin: timedelta = timedelta(0)


@dataclass(frozen=True)
class Hole:
    """Something of a source that could not be read, and so what may not be said.

    `table` limits it to one table's log; `hides` says in words what it hides; `subject` is the file or row at fault
    (a URI where there is one). `severity_kind` is the finding it becomes: `unreadable_evidence` for sources at large,
    `missing_metadata` for a file of a table's own log.
    """

    source: str
    reason: str
    subject: str = ""
    table: str | None = None
    hides: str = ""
    count: int = 1
    kind: str = "unreadable_evidence"
    may_pass: bool = False
    """Whether another try may read it."""


@dataclass(frozen=True)
class SourceInfo:
    """One line of runs.sources. `identity` pins exactly what was read (manifest MD5, log version, export id)."""

    id: str
    role: str
    kind: str
    location: str
    identity: str
    cut: Cut | None
    rows: int | None = None
    rejected: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Stored:
    """A storage source: `frame` has the rows of schemas.STORED (rejected ones included), `uploads` of UPLOAD.

    `covers` are the places for which absence of a row means absence of an object.
    """

    info: SourceInfo
    frame: DataFrame
    covers: tuple[Location, ...]
    uploads: DataFrame | None = None
    holes: tuple[Hole, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entries:
    """A metadata store: `frame` has the rows of schemas.ENTRY (rejected ones included) below `scope`.

    `scope` empty means every bucket in the store; `ttl` None means that entries never expire.
    """

    info: SourceInfo
    frame: DataFrame
    scope: tuple[Location, ...]
    ttl: timedelta | None
    holes: tuple[Hole, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableState:
    """What a manifest reader knows of one table as a whole.

    `read_at` is r of the time rule. `horizon` is the time of the oldest readable state: an older commit would not be
    visible. `retention` is the format's own promise for removed files (None: the lake file's applies). `refused` says
    why the table could not be read at all. `roots` are the places its own metadata names beside its location.
    `version` pins the state for `changes`.
    """

    table: str
    read_at: datetime
    horizon: datetime | None
    version: int | None = None
    retention: timedelta | None = None
    refused: str | None = None
    complete: bool = True
    roots: tuple[Location, ...] = ()


@dataclass(frozen=True)
class Claims:
    """The manifests of many tables, read together: `frame` has the rows of schemas.CLAIM.

    At most one row per (table_name, bucket, key): the reader folds.
    """

    info: SourceInfo
    frame: DataFrame
    states: Mapping[str, TableState]
    holes: tuple[Hole, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Changes:
    """What became of tables after the state that was judged: `frame` has table_name, bucket, key, state (newest).

    One row per key touched since. `unsure` are tables whose newest state could not be read.
    """

    frame: DataFrame
    unsure: Mapping[str, str] = field(default_factory=dict)


def in_places(places: Sequence[Location], bucket: str, key: str) -> bool:
    """Whether any of the places holds the key; no places at all means every place."""
    return not places or any(place.holds(bucket, key) for place in places)

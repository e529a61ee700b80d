"""The types that every evidence reader takes and returns. A new kind is one package and one registry line.

A reader works in two steps. On the driver it finds the pieces to read and returns them as `Part`s, with everything
that holds for the source as a whole. In a task each part turns itself into row batches, with DuckDB and Arrow and
without Spark. The engine spreads parts over tasks and brings all rows of one key together; only there are they
combined. No row of a file passes through the driver. A reader raises `SourceError` when its source cannot be read at
all; if parts of it cannot be read, the reader reports `EvidenceGap`s, before or after its parts were read.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from pyarrow import RecordBatch, Table

from lakeaudit.evidence.lineage import LastStates, LostContent, MissingState, StateRef, Witness
from lakeaudit.keys import Location
from lakeaudit.kinds import UNREADABLE
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import NOTE

Clock = Callable[[], datetime]
"""Returns the time at which a live source is read, at the start and at the end."""

T = TypeVar("T")
R = TypeVar("R")


def utc_now() -> datetime:
    """Return the current time: the clock of readers outside of tests."""
    return datetime.now(UTC)


Batches = Iterator[tuple[str, Rows]]
"""(kind of row, rows). The kinds of row are in `lakeaudit.engine.chunks.ROUTES` and in `Kind.rows`.

A manifest yields `claims` (schemas.CLAIM), or rows of kinds of its own, from which its `Claims.fold` makes claims.
"""


@dataclass(frozen=True)
class Part:
    """A piece of a source that one task reads on its own: a data file, a folder to list, a segment to scan.

    A part is plain data that travels to the executors by pickle. `read` takes a DuckDB connection with a scratch folder
    and yields batches; it reports a failure as a NOTE row, never as an exception that ends the audit. `weight` is
    roughly its size in bytes, 0 if unknown: heavy parts start first, and small ones need no cluster. `identity` names
    everything that determines the rows: parts of equal identity have equal rows; it is empty where this cannot be
    guaranteed. `slow`: decoding its rows costs more than keeping them.
    """

    source: str
    read: Callable[[Connection], Batches]
    weight: int = 0
    identity: str = ""
    slow: bool = False
    subject: str = ""
    """The file that a part reads, as its URI, where it is one file."""


Project = Callable[[Connection, str, Rows], Iterator[tuple[str, Rows]]]
"""Reduces the rows of a part before they are distributed: to fewer columns, fewer rows, or rows of another kind."""

Stage = Callable[[Connection, Mapping[str, Rows]], Iterator[tuple[str, Rows]]]
"""Takes all rows of one share by kind; returns rows for the next stage, and answers."""


@dataclass(frozen=True)
class RoutedStage:
    """A stage with the routes of the kinds of row that it takes or returns beside `lakeaudit.engine.chunks.ROUTES`."""

    stage: Stage
    routes: Mapping[str, str]

    def __call__(self, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
        return self.stage(con, rows)


class BufferedRows(Protocol):
    """Rows of parts that were read already; the engine holds them until it is closed.

    `notes` are the NOTE rows of the parts; `counts` is the number of rows by kind; `batches` yields the rows of a kind.
    """

    @property
    def notes(self) -> Sequence[Mapping[str, object]]: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    def batches(self, kind: str) -> Iterator[RecordBatch]: ...


class Engine(Protocol):
    """What runs the audit, as readers use it: this process, or a Spark session."""

    @property
    def parallelism(self) -> int: ...
    def map(
        self, function: Callable[[T], R], items: Sequence[T], weight: int = 0, *, unlocked: bool = False
    ) -> list[R]:
        """Return the function's small results in the order of the items; `weight` is roughly the bytes that it reads.

        `unlocked`: the function releases Python's lock while it works (while it hashes, for example), so that threads
        are as fast as processes.
        """
        ...

    def keep(self, parts: Sequence[Part]) -> BufferedRows:
        """Read these parts now: for sources whose content changes while the audit runs."""
        ...

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:
        """Apply `project` to the rows, bring the results together, apply `stage`, and keep its rows."""
        ...

    def prepare(self, rows: Sequence[Part | BufferedRows]) -> None:
        """Begin to start what reading these rows will need, in parallel to other work."""
        ...


@dataclass(frozen=True)
class SnapshotComparison:
    """The settings of a run that compares its storage snapshot with the last one.

    `owned` adds `table_name`, the table that holds the key, to rows (bucket, key). `accepted` has table_name, bucket,
    key and partition_path of accepted findings about content; without a key they are about all files of the partition,
    or of the table. `writes`: the run's own snapshot replaces the last one once the run is published.
    """

    owned: Callable[[Connection, Rows], Relation]
    accepted: Table
    writes: bool


@dataclass(frozen=True)
class Context:
    """The run as its readers know it. `as_of` bounds every source; `now` is the run's one clock reading.

    `live` is true when `as_of` is now, so that live sources may be read.
    """

    engine: Engine
    clients: Clients
    as_of: datetime
    now: datetime
    live: bool
    rate: float = 500
    """The most requests a second of a source that sends a request for every object."""
    oldest_cut: datetime | None = None
    """When the oldest snapshot of storage and metadata stores began; set for manifests, which are read later."""

    storage: "tuple[Stored, ...]" = ()
    """The storage sources; set for manifests that find their files in storage."""

    places: "Collection[Location]" = ()
    """The locations of the audit's tables that a catalog may know partitions of."""

    pictures: "SnapshotComparison | None" = None
    """How today's storage snapshot is compared with the last one; None: it is not."""

    last_states: LastStates = field(default_factory=dict)
    """By kind of manifest and table name: the newest state that a published audit read before this run."""

    owned: "Callable[[Connection, Rows], Relation] | None" = None
    """Adds `table_name`, the table that holds the key, to rows (bucket, key); set for manifests that name no table."""

    snapshots: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    """By kind and location of a source when the snapshot began that is read; by default the newest until `as_of`."""

    def for_source(self, kind: str, *locations: str) -> "Context":
        """Return the context in which a source of these locations finds the requested snapshot."""
        began = [at for each in locations if (at := self.snapshots.get((kind, each)))]
        return replace(self, as_of=min(began[0], self.as_of)) if began else self

    @property
    def parallelism(self) -> int:
        return self.engine.parallelism

    def stored_rows(self) -> "list[Part | BufferedRows]":
        """Return the rows of storage, as an engine takes them."""
        return [*pieces(*(source.rows for source in self.storage))]


@dataclass(frozen=True)
class SnapshotWindow:
    """The time from start to end in which a source was read; `margin` widens it where these times are not exact."""

    start: datetime
    end: datetime | None = None
    margin: timedelta = timedelta(0)


@dataclass(frozen=True)
class EvidenceGap:
    """A piece of a source that could not be read; nothing may be concluded about the files that it would name.

    `table` limits it to one table's log; `hides` describes the missing content; `subject` is the file or row at fault
    (a URI where there is one). `kind` is the kind of its finding: `unreadable_evidence` for sources as a whole,
    `missing_metadata` for a file of a table's own log; empty where another check reports it.
    """

    source: str
    reason: str
    subject: str = ""
    table: str | None = None
    hides: str = ""
    count: int = 1
    kind: str = UNREADABLE
    retryable: bool = False
    """Whether another try may read it."""


DAILY_MAX_AGE, WEEKLY_MAX_AGE = timedelta(days=3), timedelta(days=10)
"""The default of `max_age` for sources that are made each day, and each week."""


@dataclass(frozen=True)
class SourceInfo:
    """One line of runs.sources. `identity` pins exactly what was read (manifest MD5, log version, export id)."""

    id: str
    role: str
    kind: str
    location: str
    identity: str
    cut: SnapshotWindow | None
    rows: int | None = None
    rejected: int | None = None
    seconds: float | None = None
    max_age: timedelta | None = None
    """The greatest age that its content may have; None: any age."""


@dataclass(frozen=True)
class Probed:
    """A source that can be used: a message about it, notes, and the places of which it names every object."""

    message: str
    notes: tuple[str, ...] = ()
    hint: str = ""
    covers: tuple[Location, ...] = ()


Source = tuple[Part, ...] | BufferedRows
"""Rows still to be read, or read already."""


def pieces(*sources: Source) -> Iterator[Part | BufferedRows]:
    """Yield the parts and buffered rows of sources in their order, as an engine takes them."""
    for source in sources:
        yield from source if isinstance(source, tuple) else (source,)


@dataclass(frozen=True)
class Stored:
    """A storage source: `rows` are of kind `versions` (schemas.VERSION) and `uploads` (schemas.UPLOAD).

    `covers` are the places where a missing row means a missing object. `repeats`: the source may name one version of an
    object twice, as a live listing may. `older_alone`: a key with older versions only is absent, since the store has no
    delete markers. `lists_uploads`: open uploads are among its rows. `assumed_covers`: neither the source nor the lake
    file states the places, and `covers` is the most that it can cover (see `storage.united`).
    """

    info: SourceInfo
    rows: Source
    covers: tuple[Location, ...]
    repeats: bool = False
    older_alone: bool = False
    lists_uploads: bool = False
    assumed_covers: bool = False
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entries:
    """A metadata store: `rows` are of kind `entries` (schemas.ENTRY) below `scope`.

    `scope` empty means every bucket in the store; `ttl` None means that entries never expire. `check` takes the NOTE
    rows of all parts and returns why the store is not of its kind, or None; it is None where that is known already.
    """

    info: SourceInfo
    rows: Source
    scope: tuple[Location, ...]
    ttl: timedelta | None
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    check: Callable[[Sequence[Mapping[str, object]]], str | None] | None = None
    tree: bool = True
    """Whether entries need the folders above them; a store without folders has no tree."""


@dataclass(frozen=True)
class Events:
    """A record of requests to storage: parts with rows of kind `requests` (schemas.REQUEST), read only on demand.

    `parts(since, reads)` may hold requests from `since` on; without `reads` only those of changes, which are few.
    `since` is the oldest time that the source is read for. Rows may be missing, so a missing row proves nothing; rows
    may repeat, in one source and in several.
    """

    info: SourceInfo
    since: datetime
    parts: Callable[[datetime, bool], tuple[Part, ...]]
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogEntries:
    """A store of the entries that tables' logs should have: `rows` are of a kind of its own.

    `compare` takes table names by location and returns the stages that compare their rows (`Engine.meet`). These yield
    rows of schemas.LOG_ENTRY, of kind `log_suspects`, and NOTE rows about tables that cannot be compared.
    """

    info: SourceInfo
    rows: BufferedRows
    compare: "Callable[[Mapping[Location, str]], ComparedLogs]"
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()


class ComparedLogs(Protocol):
    """The two stages that compare a store's entries with the tables' logs."""

    def project(self, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]: ...
    def compare(self, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]: ...


@dataclass(frozen=True)
class NeededFile:
    """A file of a table's own log that readers of its newest state need."""

    place: Location
    size: int
    written_at: datetime


@dataclass(frozen=True)
class CommittedNames:
    """The instants by which readers that list the folders of a Hudi table decide which base files count.

    Attributes:
        instants: completed writes of the timeline, as text of 17 digits.
        first: the oldest of them that no savepoint keeps; older instants were archived, and count as completed.
        indexed: writers keep a metadata table, from which readers may list the files instead.
    """

    instants: tuple[str, ...]
    first: str
    indexed: bool


@dataclass(frozen=True)
class TableState:
    """The state of one table as a whole, as a manifest reader found it.

    `read_at` is r of the time rule. `horizon` is the time of the oldest readable state: an older commit would not be
    visible. `retention` is the format's own promise for removed files (None: the lake file's applies). `refused` is
    the reason why the table could not be read at all. `roots` are places that its own metadata names besides its
    location. `version` identifies the state for `changes`. `log_since` is when the oldest file of its log was written:
    a storage report that began later names this file if it covers the table.
    """

    table: str
    read_at: datetime
    horizon: datetime | None
    version: int | None = None
    retention: timedelta | None = None
    refused: str | None = None
    complete: bool = True
    roots: tuple[Location, ...] = ()
    log_since: datetime | None = None
    began_at: datetime | None = None
    """When the oldest file of its log was written, if a new table at the same place may have lower numbers; else None.

    Unlike `log_since` it promises nothing about reports of storage.
    """
    not_yet: str | None = None
    """Why it has no claims yet, although nothing is wrong with it."""
    leftovers_kept: str | None = None
    """Why no file below its location may be removed, even if no state lists the file."""
    archived_after: timedelta | None = None
    """The age at which the table's own settings move its files to an archive class."""
    new_files: int = 0
    """Files in storage that are too new for a claim, where claims come from an earlier storage snapshot."""
    new_bytes: int = 0
    missing: str = ""
    """Why no reader can read any state: `lineage.ABSENT`, `ARCHIVED` or `TORN`; empty: not proved."""
    state: StateRef | None = None
    """The state that was read, as later audits compare it; None: the format names no states, or none was read."""
    needed_log: Callable[[], Iterable[NeededFile]] | None = None
    """The files of its log that the newest state needs and that are not claims; None: claims name all."""
    missing_state: MissingState | None = None
    """The file that a `missing` table lacks, and how to restore it; None: no evidence names one."""
    committed_names: CommittedNames | None = None
    """The names by which readers that list folders find files; None: they list none, or nothing is committed."""
    changed_at: datetime | None = None
    """When the newest of the files that define the state was written; None: the state's own file defines it alone."""
    taken_back: frozenset[int] = frozenset()
    """Numbers of states that an operation of the format rolled back; their files are absent for that reason."""
    remark: str = ""
    """A remark about the state that the coverage of its content repeats after the counts."""


Fold = Callable[[Connection, Mapping[str, Rows]], Relation]
"""Takes all rows of some keys by kind; returns at most one row of schemas.CLAIM per (table_name, bucket, key)."""


Contradictions = Callable[[Connection, Mapping[str, Rows]], Iterator[tuple[str, Rows]]]
"""Takes all rows of some keys by kind; yields rows `replaced` (schemas.REPLACED), `idle_removals` (IDLE_REMOVALS)."""


@dataclass(frozen=True)
class CommitFile:
    """The file of one commit of a table's log; `version_id` names an older version of that object."""

    table: str
    root: Location
    version: int
    place: Location
    version_id: str | None = None


@dataclass(frozen=True)
class CommitContent:
    """The content of one commit's file except its data files; `unread` is the reason why it cannot be read.

    `operation` and `made_at` are as the writer recorded them, else empty and None. `of_table` names its changes of the
    table as a whole, such as its schema. `applications` are the ids of its writers' transactions.
    """

    operation: str = ""
    made_at: datetime | None = None
    of_table: tuple[str, ...] = ()
    unread: str = ""
    applications: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CommitContents:
    """The contents of some commits, in the order of the request.

    `files` has number, bucket, key, added (else removed), data_change, size, records: a row for each data file that the
    commit at position `number` names.
    """

    commits: tuple[CommitContent, ...]
    files: Table


@dataclass(frozen=True)
class Doubt:
    """A commit that was probably written twice, with the evidence in its log; `sure` where that proves it."""

    commit: CommitFile
    why: str
    sure: bool


def not_all_listed(kind: str) -> str:
    """Return the reason for a table whose state, read from its manifest of a kind, is not complete."""
    return f"the {kind} manifest of the table may be incomplete"


@dataclass(frozen=True)
class DeclaredState:
    """The counts of a table's state at a version, as its writer declared them; None: not declared.

    `place` is the file with the declaration; `unread` is the reason why it could not be read.
    """

    version: int
    place: Location
    files: int | None = None
    bytes: int | None = None
    unread: str = ""


@dataclass(frozen=True)
class CommitLogs:
    """Access to the single commits of a format's logs.

    `since` has for each table the version after which every commit is read, `counts` the number of these commits.
    `file` names the file of a commit; `written_at` is when its current file was written. `read` reads whole commits.
    `doubts` checks commits whose files are younger than those of later commits. `declared` has for each table the
    counts that the writer of its newest version declared.
    """

    since: Mapping[str, int]
    counts: Mapping[str, int]
    file: Callable[[str, int], CommitFile]
    written_at: Callable[[str, int], datetime | None]
    read: Callable[[Sequence[CommitFile], Clients], CommitContents]
    doubts: Callable[[Clients], Sequence[Doubt]]
    declared: Mapping[str, DeclaredState] = field(default_factory=dict)


@dataclass(frozen=True)
class Totals:
    """The totals that writers declared for their writes, compared with storage by the reader.

    `counts` has for each table the number of writes that declared totals, 0 for a table that could have some. `short`
    has rows of schemas.DECLARED for the writes that are incomplete, or could not be compared; all others are complete.
    `doubts` has for each table the reason why not all of its writes are known.
    """

    counts: Mapping[str, int]
    short: Rows
    doubts: Mapping[str, str] = field(default_factory=dict)


RECENT = 100
"""The number of a table's newest commits that reports show; a screen has no room for more."""


@dataclass(frozen=True)
class Claims:
    """The manifests of many tables, read together: `rows` of the format's own kinds, and the `fold` to claims.

    `fold` travels to the tasks, so it carries the tables' constants as plain data; so do `traces`, which compute by
    kind of row the claim of a single row (see `matching.prefilter`). `gap_of` returns the gap that a NOTE row reports,
    or None.
    """

    info: SourceInfo
    rows: tuple[Source, ...]
    fold: Fold
    states: Mapping[str, TableState]
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    traces: Mapping[str, Callable[[Connection, Rows], Relation]] = field(default_factory=dict)
    gap_of: Callable[[Mapping[str, Any]], EvidenceGap | None] | None = None
    commits: CommitLogs | None = None
    rows_of: Callable[[Collection[str]], tuple[Source, ...]] | None = None
    """Returns those of `rows` that may be about some tables; None: rows cannot be selected by table."""
    totals: Totals | None = None
    attempts: Rows | None = None
    """Rows of schemas.SAME_SPLIT: files of failed attempts, each with the file that counts; None: not recorded."""
    recent: Table | None = None
    """Rows of schemas.RECENT_COMMIT, `RECENT` of a table at most; None: its kind has no commits."""
    expected_files: Mapping[str, int] = field(default_factory=dict)
    """By table: the number of files in its newest state, by another count than that of its rows."""
    recount: Callable[[str], Witness | None] | None = None
    """Returns what contradicts the rows of a table whose `expected_files` differ from the listed ones."""
    repeated_entries: Callable[[Collection[str]], Iterable[Witness]] | None = None
    """Returns the contradictions of tables whose state lists a file more than once; None: not checked."""
    contradictions: Contradictions | None = None
    """Finds actions of commits that contradict the state before them; travels to the tasks. None: not checked."""
    respelled: Callable[[Collection[str]], Table] | None = None
    """For tables with removals of unlisted paths: rows of schemas.IDLE_REMOVALS, of files listed by another path."""
    unlisted: Callable[[Connection, Rows], Iterable[Witness]] | None = None
    """(connection, `LEFTOVERS` rows) -> states that the names of files refer to; None: names refer to none."""
    listed_slices: Callable[[Connection, Rows], Rows] | None = None
    """(connection, `LEFTOVERS` rows) -> SLICE rows of those of its tables; None: their readers list no folders."""
    witnesses: tuple[Witness, ...] = ()
    """Evidence that names other states of the tables than those that were read."""
    lost_content: Callable[[Location, str, Clients], LostContent | None] | None = None
    """(place, version id, clients) -> the content of that version of a state's own file; None: it cannot be read."""
    replaced_state: Callable[[str, Location, str, Clients], Witness | None] | None = None
    """(table, place, version id, clients) -> the content of an older version of a state's file that the table lacks."""
    after_publishing: Callable[[str, bool], tuple[str, ...]] | None = None
    """(run id, whether storage was read whole) -> warnings; called once the run is published."""


@dataclass(frozen=True)
class Changes:
    """The changes of tables after the state that was judged: `rows` has table_name, bucket, key, state (newest).

    Each key that changed since has one row. `unsure` are tables whose newest state could not be read.
    """

    rows: Rows
    unsure: Mapping[str, str] = field(default_factory=dict)


def note_row(
    source: str, subject: str, reason: str | None = None, *, count: int = 0, data: str | None = None
) -> Table:
    """Return one row of schemas.NOTE."""
    return duck.small(NOTE, [(source, subject, reason, count, data)])


def notes_with(notes: Iterable[Mapping[str, object]], name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield subject and data of the NOTE rows whose data have this name."""
    for note in notes:
        data = json.loads(str(note["data"] or "{}"))
        if name in data:
            yield str(note["subject"]), data


def identity_of(*known: object) -> str:
    """Return the identity of a part from everything that determines its rows: plain values, dataclasses, tuples."""
    return "\n".join(map(repr, known))


def in_places(places: Sequence[Location], bucket: str, key: str) -> bool:
    """Return whether any of the places holds the key; without places every key is inside."""
    return not places or any(place.holds(bucket, key) for place in places)

"""What every evidence reader takes and gives. A new kind is one package and one registry line.

A reader does two things. On the driver it finds what there is to read and gives it as `Part`s, with what holds for
the source as a whole. In a task each part turns itself into row batches, with DuckDB and Arrow and without Spark: the
engine spreads parts over tasks, brings all rows of one key together, and only there are they folded. No row of a file
passes through the driver. A reader raises `SourceError` when its source cannot be read at all; what it can read with
gaps it delivers with `EvidenceGap`s, known before or after its parts were read.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from pyarrow import RecordBatch, Table

from lakeaudit.evidence.lineage import LastStates, LostContent, MissingState, StateRef, Witness
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import NOTE

Clock = Callable[[], datetime]
"""What a reader asks for the begin and the end of a live reading."""

T = TypeVar("T")
R = TypeVar("R")


def utc_now() -> datetime:
    """The clock of readers outside of tests."""
    return datetime.now(UTC)


Batches = Iterator[tuple[str, Rows]]
"""(kind of row, rows): the kinds are those of `lakeaudit.engine.chunks.ROUTES`, and those in `rows` of kinds.

A manifest may have kinds of its own, whose rows its `Claims.fold` makes claims of, or give `claims` (schemas.CLAIM).
"""


@dataclass(frozen=True)
class Part:
    """A piece of a source that one task reads on its own: a data file, a folder to list, a segment to scan.

    Plain data, which travels to the executors by pickle. `read` is given a DuckDB connection with a scratch folder and
    yields batches; what goes wrong with the part is a NOTE row, never an exception that ends the audit. `weight` is
    about how many bytes it has, 0 where nobody can know: heavy parts begin first, and small ones need no cluster.
    `identity` names content that never changes, and everything else that the rows follow from: parts of equal identity
    have equal rows. Empty: nobody can promise that. `slow`: to decode its rows costs more than to keep them.
    """

    source: str
    read: Callable[[Connection], Batches]
    weight: int = 0
    identity: str = ""
    slow: bool = False
    subject: str = ""
    """The file that a part reads, as its URI, where it is one file."""


Project = Callable[[Connection, str, Rows], Iterator[tuple[str, Rows]]]
"""What is made of a part's rows, before they are read: few columns or few rows of them, or rows of another kind."""

Stage = Callable[[Connection, Mapping[str, Rows]], Iterator[tuple[str, Rows]]]
"""All rows of one share of what meets, by kind -> rows for the next stage, and answers."""


class BufferedRows(Protocol):
    """Parts that were read already, and whose rows are held until the engine is closed.

    `notes` are the NOTE rows that they gave; `counts` is how many rows there are by kind; `batches` gives those of one.
    """

    @property
    def notes(self) -> Sequence[Mapping[str, object]]: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    def batches(self, kind: str) -> Iterator[RecordBatch]: ...


class Engine(Protocol):
    """What a reader may ask of whatever runs the audit: this process, or a Spark session."""

    @property
    def parallelism(self) -> int: ...
    def map(
        self, function: Callable[[T], R], items: Sequence[T], weight: int = 0, *, unlocked: bool = False
    ) -> list[R]:
        """The function's small answers, in the order of the items; `weight` is about how many bytes it reads in all.

        `unlocked`: it does not hold Python's lock while it works on them (to hash them, say), so that threads are as
        good as processes.
        """
        ...

    def keep(self, parts: Sequence[Part]) -> BufferedRows:
        """Read these parts now: for sources that are a picture of the moment."""
        ...

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:
        """Bring together now what `project` makes of the rows, and keep what `stage` makes of that."""
        ...


@dataclass(frozen=True)
class SnapshotComparison:
    """What a run knows of its tables when it compares pictures of storage.

    `owned` gives rows (bucket, key) with `table_name`, the table that holds the key. `accepted` are table_name, bucket,
    key and partition_path of what people accept about content; no key: of files of the partition, or of the table.
    `writes`: the run's own picture becomes the last one once it is published.
    """

    owned: Callable[[Connection, Rows], Relation]
    accepted: Table
    writes: bool


@dataclass(frozen=True)
class Context:
    """What a reader may know of its run. `as_of` bounds every source; `now` is the run's one clock reading.

    `live` is true when `as_of` is now, so that live sources may be read.
    """

    engine: Engine
    clients: Clients
    as_of: datetime
    now: datetime
    live: bool
    rate: float = 500
    """Requests a second at most, of a source that asks a store for every object."""
    oldest_cut: datetime | None = None
    """When the oldest picture of storage and metadata stores was begun; known to manifests, which are read after it."""

    storage: "tuple[Stored, ...]" = ()
    """What storage holds; known to manifests that name their files by it."""

    places: "Collection[Location]" = ()
    """Where the audit's tables lie of which a catalog may know the partitions."""

    pictures: "SnapshotComparison | None" = None
    """What is needed to compare today's picture of storage with the last one; None: they are not compared."""

    last_states: LastStates = field(default_factory=dict)
    """By kind of manifest and table name the newest state that a published audit has read before this run."""

    owned: "Callable[[Connection, Rows], Relation] | None" = None
    """Rows (bucket, key) with `table_name`, the table that holds the key; known to manifests that name no table."""

    @property
    def parallelism(self) -> int:
        return self.engine.parallelism

    def stored_rows(self) -> "list[Part | BufferedRows]":
        """The rows of storage, as an engine takes them."""
        return [*pieces(*(source.rows for source in self.storage))]


@dataclass(frozen=True)
class SnapshotWindow:
    """The window in which a source's picture was taken; `margin` widens it for fuzzy sources."""

    start: datetime
    end: datetime | None = None
    margin: timedelta = timedelta(0)


@dataclass(frozen=True)
class EvidenceGap:
    """Something of a source that could not be read, and so what may not be said.

    `table` limits it to one table's log; `hides` says in words what it hides; `subject` is the file or row at fault
    (a URI where there is one). `kind` is the finding it becomes: `unreadable_evidence` for sources at large,
    `missing_metadata` for a file of a table's own log; empty where another check reports it.
    """

    source: str
    reason: str
    subject: str = ""
    table: str | None = None
    hides: str = ""
    count: int = 1
    kind: str = "unreadable_evidence"
    retryable: bool = False
    """Whether another try may read it."""


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
    """How old its picture may be; None: of any age."""


@dataclass(frozen=True)
class Probed:
    """A source that can be used, with what is worth knowing of it, and the places of which it can name every object."""

    message: str
    notes: tuple[str, ...] = ()
    hint: str = ""
    covers: tuple[Location, ...] = ()


Source = tuple[Part, ...] | BufferedRows
"""Rows still to be read, or read already."""


def pieces(*sources: Source) -> Iterator[Part | BufferedRows]:
    """What an engine is given of sources, in their order."""
    for source in sources:
        yield from source if isinstance(source, tuple) else (source,)


@dataclass(frozen=True)
class Stored:
    """A storage source: `rows` are of kind `versions` (schemas.VERSION) and `uploads` (schemas.UPLOAD).

    `covers` are the places for which absence of a row means absence of an object. `repeats` says that the source may
    name one version of an object twice, as a live listing may. `older_alone`: a key of which it names older versions
    alone is absent, since its store has no delete markers. `lists_uploads`: open uploads are among its rows.
    `assumed_covers`: nobody says what it covers, and `covers` is all that it could (see `storage.united`).
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

    `scope` empty means every bucket in the store; `ttl` None means that entries never expire. `check` says, of the NOTE
    rows of all parts, why the store is none of its kind after all; None where that is known already.
    """

    info: SourceInfo
    rows: Source
    scope: tuple[Location, ...]
    ttl: timedelta | None
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    check: Callable[[Sequence[Mapping[str, object]]], str | None] | None = None
    tree: bool = True
    """Whether entries need the folders above them; a store of names alone has no tree."""


@dataclass(frozen=True)
class Events:
    """Who did what to which keys: parts of rows of kind `requests` (schemas.REQUEST), read only where they are wanted.

    `parts(since, reads)` are those that may hold requests from `since` on; without `reads` of changes alone, which are
    few. `since` is how far back the source is read at all. Rows may be missing, so that nothing follows from their
    absence; they may repeat, in one source and in several.
    """

    info: SourceInfo
    since: datetime
    parts: Callable[[datetime, bool], tuple[Part, ...]]
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogEntries:
    """A store of what tables' logs should hold: `rows` are of a kind of its own.

    `compare` gives, of the tables that are asked for, by location, how their rows meet (`Engine.meet`): rows of
    schemas.LOG_ENTRY, of kind `log_suspects`, and NOTE rows about tables that cannot be compared.
    """

    info: SourceInfo
    rows: BufferedRows
    compare: "Callable[[Mapping[Location, str]], ComparedLogs]"
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()


class ComparedLogs(Protocol):
    """How entries of a store meet."""

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
    """How readers that list the folders of a Hudi table tell by their names which base files count.

    Attributes:
        instants: completed writes of the timeline, as text of 17 digits.
        first: the oldest of them that no savepoint keeps; older instants were archived, and count as completed.
        indexed: writers keep a metadata table, by which readers may list the table instead.
    """

    instants: tuple[str, ...]
    first: str
    indexed: bool


@dataclass(frozen=True)
class TableState:
    """What a manifest reader knows of one table as a whole.

    `read_at` is r of the time rule. `horizon` is the time of the oldest readable state: an older commit would not be
    visible. `retention` is the format's own promise for removed files (None: the lake file's applies). `refused` says
    why the table could not be read at all. `roots` are the places its own metadata names beside its location.
    `version` pins the state for `changes`. `log_since` is when the oldest file was written that lies in its log now: a
    report of storage that was begun later names it, if it covers the table.
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
    not_yet: str | None = None
    """Why nothing can be claimed of it yet, which is no fault."""
    leftovers_kept: str | None = None
    """Why nothing below its location may be removed, though no state of it lists that."""
    archived_after: timedelta | None = None
    """The table's own word for when its files go to an archive class on purpose."""
    new_files: int = 0
    """Files that storage has and that are too new for a claim, where claims are made of an earlier storage snapshot."""
    new_bytes: int = 0
    missing: str = ""
    """Why no state can be read by anybody: `lineage.ABSENT`, `ARCHIVED` or `TORN`; empty: not proved."""
    state: StateRef | None = None
    """The state that was read, as later audits compare it; None: the format names no states, or none was read."""
    needed_log: Callable[[], Iterable[NeededFile]] | None = None
    """The files of its log that the newest state needs, beside those that are claims; None: claims name all."""
    missing_state: MissingState | None = None
    """Which file of a `missing` table should be there, and what brings it back; None: nothing names one."""
    committed_names: CommittedNames | None = None
    """By which names readers that list folders find files; None: they list none, or nothing is committed."""
    changed_at: datetime | None = None
    """When storage last wrote a file that says what the state lists; None: the state's own file says it all."""
    taken_back: frozenset[int] = frozenset()
    """Numbers of states that an operation of the format took back, whose files are gone for that."""
    remark: str = ""
    """What the coverage of its content says of the state beside all counts."""


Fold = Callable[[Connection, Mapping[str, Rows]], Relation]
"""All rows of some keys, by kind -> at most one row of schemas.CLAIM per (table_name, bucket, key)."""


Contradictions = Callable[[Connection, Mapping[str, Rows]], Iterator[tuple[str, Rows]]]
"""All rows of some keys, by kind -> rows of kinds `replaced` (schemas.REPLACED) and `idle_removals` (IDLE_REMOVALS)."""


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
    """What one commit's file says beside its files; `unread` says why it cannot be read.

    `operation` and `made_at` are the writer's own words, empty and None where it gave none. `of_table`: it changes
    what holds for the table as a whole, such as its schema. `applications` are the ids of its writers' transactions.
    """

    operation: str = ""
    made_at: datetime | None = None
    of_table: tuple[str, ...] = ()
    unread: str = ""
    applications: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CommitContents:
    """Some commits, by their place among those that were asked for.

    `files` has number, bucket, key, added (else removed), data_change, size, records: a row per data file that commit
    `number` names.
    """

    commits: tuple[CommitContent, ...]
    files: Table


@dataclass(frozen=True)
class Doubt:
    """A commit of which its log lets suspect that it was written twice, and why; `sure` where it proves it."""

    commit: CommitFile
    why: str
    sure: bool


@dataclass(frozen=True)
class DeclaredState:
    """What a writer declared of a table's state at a version; None: it did not say. `unread` says why nothing is known.

    `place` is the file that says it.
    """

    version: int
    place: Location
    files: int | None = None
    bytes: int | None = None
    unread: str = ""


@dataclass(frozen=True)
class CommitLogs:
    """What a format lets ask of the single commits of its logs.

    `since` is by table the version after which every commit is read, `counts` how many commits those are. `file` names
    the file of a commit; `written_at` is when that was written that lies there now. `read` reads whole commits.
    `doubts` looks at commits whose files were written after later ones'. `declared` is by table what the writer of its
    newest version counted.
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
    """What writers declared of whole writes, held against storage by the reader.

    `counts` is by table how many writes declared anything; a table that could have such writes is named with 0.
    `short` has rows of schemas.DECLARED, only of writes that lack something, or of which nobody can tell: the others
    are whole. `doubts` says by table why its writes are not all known.
    """

    counts: Mapping[str, int]
    short: Rows
    doubts: Mapping[str, str] = field(default_factory=dict)


RECENT = 100
"""Commits of a table that are told of, the newest; a screen has no room for more."""


@dataclass(frozen=True)
class Claims:
    """The manifests of many tables, read together: `rows` of the format's own kinds, and how they fold to claims.

    `fold` travels to the tasks, so it carries the tables' constants as plain data; so do `traces`, which say by kind of
    row what one row alone claims (see `matching.prefilter`). `gap_of` returns the evidence gap that a NOTE row
    stands for, or None.
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
    """Of `rows` what may be about some tables; None: nobody can say."""
    totals: Totals | None = None
    attempts: Rows | None = None
    """Rows of schemas.SAME_SPLIT: files of attempts that do not count, beside those that do; None: nothing says."""
    recent: Table | None = None
    """Rows of schemas.RECENT_COMMIT, `RECENT` of a table at most; None: its kind has no commits."""
    expected_files: Mapping[str, int] = field(default_factory=dict)
    """By table how many files its newest state lists by another count than that of its rows."""
    recount: Callable[[str], Witness | None] | None = None
    """What contradicts the rows of a table whose `expected_files` are not those that were listed."""
    repeated_entries: Callable[[Collection[str]], Iterable[Witness]] | None = None
    """What the states of tables contradict that list a file more than once; None: nobody looks."""
    contradictions: Contradictions | None = None
    """What commits do to states that does not fit them; travels to the tasks. None: nobody looks."""
    respelled: Callable[[Collection[str]], Table] | None = None
    """Of tables with removals of what is not listed: rows of schemas.IDLE_REMOVALS, of files listed by another path."""
    unlisted: Callable[[Connection, Rows], Iterable[Witness]] | None = None
    """(connection, LEFTOVERS rows) -> states that the names of files tell of; None: names tell nothing."""
    listed_slices: Callable[[Connection, Rows], Rows] | None = None
    """(connection, LEFTOVERS rows) -> SLICE rows of those of its tables; None: their readers list no folders."""
    witnesses: tuple[Witness, ...] = ()
    """What names states of the tables other than those that were read."""
    lost_content: Callable[[Location, str, Clients], LostContent | None] | None = None
    """(place, version id, clients) -> what that version of a state's own file says; None: it cannot be read."""
    replaced_state: Callable[[str, Location, str, Clients], Witness | None] | None = None
    """(table, place, version id, clients) -> what an older version of a state's own file has and the table lacks."""
    after_publishing: Callable[[str, bool], tuple[str, ...]] | None = None
    """(run id, whether storage was read whole) -> warnings: what is to be done once the run is published."""


@dataclass(frozen=True)
class Changes:
    """What became of tables after the state that was judged: `rows` has table_name, bucket, key, state (newest).

    One row per key touched since. `unsure` are tables whose newest state could not be read.
    """

    rows: Rows
    unsure: Mapping[str, str] = field(default_factory=dict)


def note_row(
    source: str, subject: str, reason: str | None = None, *, count: int = 0, data: str | None = None
) -> Table:
    """One row of schemas.NOTE."""
    return duck.small(NOTE, [(source, subject, reason, count, data)])


def identity_of(*known: object) -> str:
    """An identity of everything that a part's rows follow from: plain values, and dataclasses and tuples of them."""
    return "\n".join(map(repr, known))


def in_places(places: Sequence[Location], bucket: str, key: str) -> bool:
    """Whether any of the places holds the key; no places at all means every place."""
    return not places or any(place.holds(bucket, key) for place in places)

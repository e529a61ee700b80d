"""Splits rows of parts and stages into chunks for the shares of keys.

Rows travel as chunks: batches of one kind in Arrow's format. A kind is routed by the hash of its join columns, so that
all rows that are joined come to the same share.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.kind import BY_KEY
from lakeaudit.evidence.protocol import Batches, Part, Project, RoutedStage, Stage, note_row
from lakeaudit.evidence.registry import row_kinds
from lakeaudit.matching.prefilter import BUCKET
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows, task_connection
from lakeaudit.runtime.failures import damage_of
from lakeaudit.storage_classes import is_tiered

ROUTES: Mapping[str, str] = {
    "versions": BY_KEY,
    "entries": BY_KEY,
    "requests": BY_KEY,
    "accesses": BY_KEY,
    "folder_accesses": "hash(bucket, folder) >> 32",
    "claims": BY_KEY,
    "known": BY_KEY,
    "listed_keys": BY_KEY,
    "settled_keys": BY_KEY,
    "batches": "hash(table_name) >> 32",
    "commit_sums": "hash(table_name) >> 32",
    "replaced": "hash(table_name) >> 32",
    "young": "CAST(0 AS UBIGINT)",  # few: one share chooses among them
    "tree": BY_KEY,
    "folders": BY_KEY,
    "parents": BY_KEY,
    "children": "hash(bucket, parent) >> 32",
    "siblings": "hash(bucket, parent) >> 32",
    "traces": BUCKET,
    "listed_hashes": BUCKET,
    "contents": "content >> 32",
    "folder_files": "hash(bucket, folder) >> 32",
}
"""SQL for the hash by which each kind of row is routed: of all roles and of the audit itself; checks have their own."""


def route_of(kind: str, routes: Mapping[str, str] = ROUTES) -> str | None:
    """Return the SQL by which a kind is routed; "": every share gets its rows; None: its rows are answers.

    `routes` are `ROUTES`, and those of a stage, see `routes_of`.
    """
    route = routes.get(kind)
    if route is None and kind in (rows := row_kinds()):
        return rows[kind].route
    return route


def routes_of(stage: Stage) -> Mapping[str, str]:
    """Return the routes of the rows that a stage takes and returns."""
    return {**stage.routes, **ROUTES} if isinstance(stage, RoutedStage) else ROUTES


Select = Callable[[Connection, str, pa.RecordBatch], Iterator[tuple[str, Rows]]]
"""Transforms valid rows after they were read."""


def _as_they_are(_: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    yield kind, rows


def _read(con: Connection, part: Part) -> Batches:
    return part.read(con)


@dataclass(frozen=True)
class Reading:
    """Describes how parts are read: completely by default.

    `left` is the fraction of the rows that remains, and `memory` the bytes of memory that work on them takes for each
    byte of evidence, as stored. `rows` returns a part's rows, possibly from elsewhere, see `cached_rows`; if it leaves
    rows out, it also returns their number (`counted`).
    """

    project: Project = _as_they_are
    select: Select = _as_they_are
    left: float = 1
    memory: float = 20
    rows: Callable[[Connection, Part], Batches] = _read


WHOLE = Reading()
KEPT = Reading(memory=8)
"""Rows that are buffered and not judged."""
FINGERPRINTS = Reading(memory=1.5)
"""Rows of the prefilter, which are dropped before other rows are read in full."""

BYTES_A_SHARE = 64 << 20
"""Bytes of evidence, as stored, whose rows make one share: about a million rows, which fit a worker of 1 GiB."""


def shares_of(weight: int, reading: Reading, parallelism: int) -> int:
    """Return the number of shares of so many bytes of evidence; at least one for each task that runs at a time."""
    return max(parallelism, int(weight * reading.left) // BYTES_A_SHARE)


@dataclass(frozen=True)
class Chunk:
    """A batch of one kind for one share; share -1: an answer."""

    share: int
    kind: str
    batch: pa.RecordBatch


@dataclass
class ReadCounts:
    """Counts the rows of each source, and rejected rows with a sample."""

    rows: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    classes: dict[str, set[str]] = field(default_factory=dict)

    def sound(self, source: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without its rejected rows, which are counted."""
        self.rows[source] += batch.num_rows
        self._note_classes(source, batch)
        faults = batch.column("reject")
        rejected = batch.num_rows - faults.null_count
        if not rejected:
            return batch
        self.rejected[source] += rejected
        sample = pc.min(faults).as_py()
        self.samples[source] = min(sample, self.samples.get(source, sample))
        return batch.filter(pc.is_null(faults))

    def _note_classes(self, source: str, batch: pa.RecordBatch) -> None:
        """Record unknown storage classes, whose objects may need a restore, by bucket."""
        if not {"storage_class", "archived"} <= set(batch.schema.names):
            return
        archived = batch.column("archived")
        if not archived.null_count or batch.column("storage_class").null_count == batch.num_rows:
            return
        unknown = pc.and_(pc.is_null(archived), pc.is_valid(batch.column("storage_class")))
        if not pc.any(unknown).as_py():
            return
        pairs = pa.table({name: batch.column(name) for name in ("bucket", "storage_class")}).filter(unknown)
        found = pairs.group_by(["bucket", "storage_class"]).aggregate([]).to_pylist()
        names = {(row["bucket"], row["storage_class"]) for row in found}
        known = self.classes.setdefault(source, set())
        known |= {f"{bucket}/{name}" for bucket, name in names if not is_tiered(name)}

    def table(self) -> pa.Table:
        """Return a row per source: source, rows, rejected, sample, unknown_classes (`bucket/class`)."""
        rows = [
            {"source": s, "rows": n, "rejected": self.rejected[s], "sample": self.samples.get(s),
             "unknown_classes": sorted(self.classes.get(s, ()))}
            for s, n in self.rows.items()
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, COUNTED)


COUNTED = pa.schema(
    [
        ("source", pa.string()),
        ("rows", pa.int64()),
        ("rejected", pa.int64()),
        ("sample", pa.string()),
        ("unknown_classes", pa.list_(pa.string())),
    ]
)


def read_part(con: Connection, part: Part, shares: int, reading: Reading = WHOLE) -> Iterator[Chunk]:
    """Read the rows of a part, routed to `shares` shares (0: not yet); its counts come as answers."""
    counted = ReadCounts()
    router = con.cursor()  # while a connection streams rows it takes no other query
    batches = reading.rows(con, part)
    counts_itself = False
    for kind, rows in batches:
        counts_itself |= kind == "counted"
        for of_kind, batch in _drain(batches, con, reading.project, kind, rows):
            sound = counted.sound(part.source, batch) if "reject" in batch.schema.names else batch
            yield from _selected(router, of_kind, sound, shares, reading)
    if counted.rows and not counts_itself:
        yield from _answers("counted", counted.table())


def read_guarded(part: Part, shares: int, reading: Reading = WHOLE) -> Iterator[Chunk]:
    """Call `read_part` on its own connection. An answer of kind FAULTS explains why the rest cannot be read."""
    try:
        with task_connection() as con:
            yield from read_part(con, part, shares, reading)
    except Exception as error:  # noqa: BLE001 - whatever a damaged file makes libraries raise
        yield from _answers(FAULTS, note_row(part.source, part.subject, damage_of(error), count=1))


FAULTS = "faults"
"""The kind of NOTE rows for parts that failed with an error that their readers do not handle."""


def kind_of_answer(kind: str) -> str:
    """Return the kind under which an answer is returned."""
    return "notes" if kind == FAULTS else kind


def rows_by_kind(chunks: Iterable[Chunk]) -> dict[str, pa.Table]:
    """Return all rows except answers."""
    held: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for chunk in chunks:
        if chunk.share >= 0:
            held[chunk.kind].append(chunk.batch)
    return {kind: pa.Table.from_batches(batches) for kind, batches in held.items()}


def _selected(
    router: Connection, kind: str, batch: pa.RecordBatch, shares: int, reading: Reading
) -> Iterator[Chunk]:
    """Return the chunks of one batch of valid rows."""
    if not batch.num_rows:
        return
    for of_kind, rows in reading.select(router, kind, batch):
        for each in list(batches_of(rows)):
            yield from routed(router, of_kind, each, shares)


def read_kept(con: Connection, chunk: Chunk, shares: int, reading: Reading = WHOLE) -> Iterator[Chunk]:
    """Return the chunks of a batch that was read and counted before."""
    for kind, rows in reading.project(con, chunk.kind, chunk.batch):
        for batch in list(batches_of(rows)):
            yield from _selected(con, kind, batch, shares, reading)


def run_stage(con: Connection, stage: Stage, tables: Mapping[str, pa.Table], shares: int) -> Iterator[Chunk]:
    """Run a stage on one share. The table `shares` contains the number of shares."""
    router = con.cursor()
    number = pa.table({"shares": [max(shares, 1)]})
    routes = routes_of(stage)
    for kind, rows in stage(con, {**tables, "shares": number}):
        for batch in batches_of(rows):
            yield from routed(router, kind, batch, shares, routes)


def routed(
    con: Connection, kind: str, batch: pa.RecordBatch, shares: int, routes: Mapping[str, str] = ROUTES
) -> Iterator[Chunk]:
    """Split the batch into one chunk for each of its shares."""
    if not batch.num_rows:
        return
    route = route_of(kind, routes)
    if route is None:
        yield Chunk(-1, kind, batch)
    elif shares <= 1:
        yield Chunk(0, kind, batch)
    elif not route:
        yield from (Chunk(share, kind, batch) for share in range(shares))
    else:
        yield from _split(con, kind, batch, route, shares)


def _split(con: Connection, kind: str, batch: pa.RecordBatch, route: str, shares: int) -> Iterator[Chunk]:
    hashed = f"SELECT CAST(({route}) % {shares} AS INTEGER) AS share FROM rows"
    share = duck.table(duck.query(con, hashed, rows=batch)).column("share").combine_chunks()
    order = pc.sort_indices(share)
    sorted_shares, sorted_rows = share.take(order), batch.take(order)
    at = 0
    for run in pc.value_counts(sorted_shares).to_pylist():
        yield Chunk(run["values"], kind, sorted_rows.slice(at, run["counts"]))
        at += run["counts"]


def _answers(kind: str, rows: pa.Table) -> Iterator[Chunk]:
    yield from (Chunk(-1, kind, batch) for batch in rows.to_batches() if batch.num_rows)


def has_fault(notes: pa.RecordBatch) -> bool:
    """Whether any of these NOTE rows gives a reason why something could not be read."""
    return bool(notes.column("reason").null_count < notes.num_rows)


def drain(
    part: Batches, con: Connection, project: Project = _as_they_are
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield all batches of a part's projected rows."""
    for kind, rows in part:
        yield from _drain(part, con, project, kind, rows)


def _drain(
    part: Batches, con: Connection, project: Project, kind: str, rows: Rows
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the batches of rows that a part yielded.

    An error of a broken file is thrown into the part, which handles it.
    """
    # the batch's query may still stream on the part's connection
    free = con.cursor() if isinstance(rows, pa.RecordBatch) else con
    try:
        for of_kind, projected in project(free, kind, rows):
            yield from ((of_kind, batch) for batch in batches_of(projected))
    except (duck.DuckError, OSError) as error:  # an Arrow reader raises DuckDB's errors as OSError
        more = cast("Generator[tuple[str, Rows], None, None]", part).throw(error)
        yield from _drain(part, con, project, *more)


def batches_of(rows: Rows) -> Iterator[pa.RecordBatch]:
    """Yield the rows batch by batch."""
    if isinstance(rows, pa.RecordBatch):
        yield rows
    elif isinstance(rows, pa.Table):
        yield from rows.to_batches(max_chunksize=duck.BATCH_ROWS)
    elif isinstance(rows, pa.RecordBatchReader):
        yield from rows
    elif not duck.is_empty(rows):
        yield from rows.to_arrow_reader(duck.BATCH_ROWS)

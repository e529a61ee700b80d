"""The engine: reads parts, brings all rows of one key together, and runs the kernel on them. Here in this process.

One audit is one chain: parts are read, their rows are routed by the hash of what they meet on, and each stage is given
all rows of its share of the keys. Rows travel as chunks: batches of one kind in Arrow's own format. The twin for a
cluster is `spark_engine`; both run the same functions.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.compare.screen import BUCKET
from lakeaudit.evidence.protocol import Batches, Engine, Kept, Part
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows, task_connection
from lakeaudit.runtime.progress import Progress

T = TypeVar("T")
R = TypeVar("R")

KEY = "hash(bucket, key) >> 32"
ROUTES: Mapping[str, str] = {
    "versions": KEY,
    "entries": KEY,
    "steps": KEY,
    "events": KEY,
    "claims": KEY,
    "known": KEY,
    "settled_keys": KEY,
    "acts": "",
    "same": "hash(judged_table, place, size, content) >> 32",
    "tree": KEY,
    "folders": KEY,
    "parents": KEY,
    "children": "hash(bucket, parent) >> 32",
    "siblings": "hash(bucket, parent) >> 32",
    "traces": BUCKET,
    "contents": "content >> 32",
}
"""By kind of row what it meets others on, as SQL; "": every share gets it. A kind that is not here is an answer."""

Project = Callable[[Connection, str, Rows], Iterator[tuple[str, Rows]]]
"""What is made of a part's rows, before they are read: few columns or few rows of them."""
Select = Callable[[Connection, str, pa.RecordBatch], Iterator[tuple[str, Rows]]]
"""What is made of sound rows once they were read."""


def _as_they_are(_: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    yield kind, rows


@dataclass(frozen=True)
class Reading:
    """How parts are read: whole, unless told otherwise. `left` is the fraction of the rows that this leaves."""

    project: Project = _as_they_are
    select: Select = _as_they_are
    left: float = 1


WHOLE = Reading()

Stage = Callable[[Connection, Mapping[str, pa.Table]], Iterator[tuple[str, Rows]]]
"""All rows of one share, by kind -> rows for the next stage, and answers."""


@dataclass(frozen=True)
class Chunk:
    """Batches of one kind for one share; share -1: an answer."""

    share: int
    kind: str
    batch: pa.RecordBatch


@dataclass
class Counted:
    """What was read of each source: rows, and those that could not be understood, with one of them."""

    rows: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)

    def sound(self, source: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without its rejected rows, which are counted."""
        self.rows[source] += batch.num_rows
        faults = batch.column("reject")
        rejected = batch.num_rows - faults.null_count
        if not rejected:
            return batch
        self.rejected[source] += rejected
        sample = pc.min(faults).as_py()
        self.samples[source] = min(sample, self.samples.get(source, sample))
        return batch.filter(pc.is_null(faults))

    def table(self) -> pa.Table:
        """A row per source: source, rows, rejected, sample."""
        rows = [
            {"source": s, "rows": n, "rejected": self.rejected[s], "sample": self.samples.get(s)}
            for s, n in self.rows.items()
        ]
        return pa.Table.from_pylist(rows, COUNTED)


COUNTED = pa.schema(
    [("source", pa.string()), ("rows", pa.int64()), ("rejected", pa.int64()), ("sample", pa.string())]
)


def read_part(con: Connection, part: Part, shares: int, reading: Reading = WHOLE) -> Iterator[Chunk]:
    """The rows of a part, routed to `shares` shares (0: not yet); what it has to tell comes as answers."""
    counted = Counted()
    router = con.cursor()  # while a connection streams rows it takes no other query
    batches = part.read(con)
    for kind, rows in batches:
        for of_kind, batch in _drained(batches, con, reading.project, kind, rows):
            sound = counted.sound(part.source, batch) if "reject" in batch.schema.names else batch
            yield from _selected(router, of_kind, sound, shares, reading)
    if counted.rows:
        yield from _answers("counted", counted.table())


def _selected(
    router: Connection, kind: str, batch: pa.RecordBatch, shares: int, reading: Reading
) -> Iterator[Chunk]:
    """The chunks of one batch of sound rows."""
    if not batch.num_rows:
        return
    for of_kind, rows in reading.select(router, kind, batch):
        for each in list(_batches(rows)):
            yield from routed(router, of_kind, each, shares)


def read_kept(con: Connection, chunk: Chunk, shares: int, reading: Reading = WHOLE) -> Iterator[Chunk]:
    """The chunks of a batch that was read, and its rows counted, before."""
    for kind, rows in reading.project(con, chunk.kind, chunk.batch):
        for batch in list(_batches(rows)):
            yield from _selected(con, kind, batch, shares, reading)


def run_stage(con: Connection, stage: Stage, tables: Mapping[str, pa.Table], shares: int) -> Iterator[Chunk]:
    """What a stage makes of one share."""
    router = con.cursor()
    for kind, rows in stage(con, tables):
        for batch in _batches(rows):
            yield from routed(router, kind, batch, shares)


def routed(con: Connection, kind: str, batch: pa.RecordBatch, shares: int) -> Iterator[Chunk]:
    """The batch cut into one chunk for each share that it has rows of."""
    if not batch.num_rows:
        return
    route = ROUTES.get(kind)
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


def _drained(
    part: Batches, con: Connection, project: Project, kind: str, rows: Rows
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches of what is made of rows that a part yielded.

    Where their file proves to be broken, the part says what that means.
    """
    try:
        for of_kind, projected in project(con, kind, rows):
            yield from ((of_kind, batch) for batch in _batches(projected))
    except duck.DuckError as error:
        more = cast("Generator[tuple[str, Rows], None, None]", part).throw(error)
        yield from _drained(part, con, project, *more)


def _batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        yield rows
    elif isinstance(rows, pa.Table):
        yield from rows.to_batches(max_chunksize=duck.BATCH_ROWS)
    elif isinstance(rows, pa.RecordBatchReader):
        yield from rows
    else:
        yield from rows.to_arrow_reader(duck.BATCH_ROWS)


Answers = Iterator[tuple[str, pa.RecordBatch]]


@dataclass
class KeptHere:
    """Rows that were read already, in this process."""

    chunks: list[Chunk]
    notes: list[dict[str, Any]]
    counts: Counter[str]

    def batches(self, kind: str) -> Iterator[pa.RecordBatch]:
        """The rows of one kind."""
        yield from (chunk.batch for chunk in self.chunks if chunk.kind == kind)


class AuditEngine(Engine, Protocol):
    """What runs an audit, beside what readers may ask of it."""

    def run(self, rows: Sequence[Part | Kept], stages: Sequence[Stage], reading: Reading = WHOLE) -> Answers:
        """Read the parts, bring their rows together, and give the answers of parts and stages, by kind of row."""
        ...

    def ready(self, progress: Progress) -> None:
        """Wait for what this engine runs on, where that was started beside the reading of evidence."""
        ...

    def close(self) -> None:
        """Let go of what was kept."""
        ...


WAITING = 8
"""Threads for work that mostly waits."""


class TooMuchError(Exception):
    """There is more to read than may be read in this process."""


class InProcessEngine:
    """Runs everything in this process, a part a thread: for small scopes, and for tests.

    Beyond `limit` rows of evidence it stops with TooMuchError; None: it takes any.
    """

    def __init__(self, parallelism: int = 2, limit: int | None = None) -> None:
        self.parallelism = parallelism
        self._limit = limit
        self._rows = 0

    def map(self, function: Callable[[T], R], items: Sequence[T], weight: int = 0) -> list[R]:  # noqa: ARG002
        """See `evidence.protocol.Engine`; it mostly waits for stores."""
        with ThreadPoolExecutor(WAITING) as pool:
            return list(pool.map(function, items))

    def keep(self, parts: Sequence[Part]) -> KeptHere:
        """See `evidence.protocol.Engine`."""
        chunks = self._read(parts)
        notes = [row for chunk in chunks if chunk.kind == "notes" for row in chunk.batch.to_pylist()]
        chunks = [chunk for chunk in chunks if chunk.kind != "notes"]
        counts: Counter[str] = Counter()
        for chunk in chunks:
            counts[chunk.kind] += chunk.batch.num_rows
        return KeptHere(chunks, notes, counts)

    def run(self, rows: Sequence[Part | Kept], stages: Sequence[Stage], reading: Reading = WHOLE) -> Answers:
        """See `AuditEngine`."""
        parts = [each for each in rows if isinstance(each, Part)]
        chunks = self._read(parts, reading)
        with task_connection() as con:
            chunks += [
                each
                for kept in rows
                if isinstance(kept, KeptHere)
                for chunk in kept.chunks
                for each in read_kept(con, chunk, 1, reading)
            ]
        for stage in stages:
            yield from _answers_in(chunks)
            held: dict[str, list[pa.RecordBatch]] = defaultdict(list)
            for chunk in chunks:
                if chunk.share >= 0:
                    held[chunk.kind].append(chunk.batch)
            tables = {kind: pa.Table.from_batches(batches) for kind, batches in held.items()}
            with task_connection("4GiB", self.parallelism) as con:
                chunks = list(run_stage(con, stage, tables, 1))
        yield from _answers_in(chunks)

    def ready(self, progress: Progress) -> None:
        """It always is."""

    def close(self) -> None:
        """Nothing is held."""

    def _read(self, parts: Sequence[Part], reading: Reading = WHOLE) -> list[Chunk]:
        read = partial(self._read_one, reading)
        with ThreadPoolExecutor(self.parallelism) as pool:
            return [chunk for chunks in pool.map(read, heaviest_first(parts)) for chunk in chunks]

    def _read_one(self, reading: Reading, part: Part) -> list[Chunk]:
        chunks = []
        with task_connection() as con:
            for chunk in read_part(con, part, 1, reading):
                chunks.append(chunk)
                self._rows += chunk.batch.num_rows
                if self._limit is not None and self._rows > self._limit:
                    raise TooMuchError(f"more than {self._limit} rows")
        return chunks


def _answers_in(chunks: Sequence[Chunk]) -> Answers:
    yield from ((chunk.kind, chunk.batch) for chunk in chunks if chunk.share < 0)


def heaviest_first(parts: Sequence[Part]) -> list[Part]:
    """So that no task is left with a heavy part at the end."""
    return sorted(parts, key=lambda part: -part.weight)

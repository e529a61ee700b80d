"""Encode chunks as rows (share, kind, rows, payload), for tasks of Spark and for files.

A payload is a batch in Arrow's stream format. One exchange by share brings all rows of a key to one task, whatever the
kinds of rows and however many columns they have.
"""

import io
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lakeaudit.engine.chunks import Chunk, Reading, read_guarded, read_kept, route_of, routes_of, run_stage
from lakeaudit.evidence.protocol import Stage
from lakeaudit.runtime.duck import task_connection

CHUNK = "share int, kind string, rows long, payload binary"
_SCHEMA = pa.schema(
    [("share", pa.int32()), ("kind", pa.string()), ("rows", pa.int64()), ("payload", pa.binary())]
)
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
ROWS_HELD = 400_000
"""Rows that a task collects before it emits them, so that chunks are not tiny."""


def read_parts(shares: int, reading: Reading, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows of some parts as chunks; runs on an executor."""
    pickled = (cell for batch in batches for cell in batch.column(0).to_pylist())
    parts = (part for cell in pickled for part in pickle.loads(cell))  # noqa: S301 - our own driver wrote it
    yield from gather((chunk for part in parts for chunk in read_guarded(part, shares, reading)), shares)


def route_again(shares: int, reading: Reading, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split buffered rows by share; runs on an executor."""
    with task_connection() as con:
        kept = (chunk for batch in batches for chunk in chunks_of(batch))
        again = (c for chunk in kept for c in read_kept(con, chunk, shares, reading))
        yield from gather(again, shares)


def run_stage_in_task(
    stage: Stage, shares: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run one stage on all rows of one share and pass answers on; runs on an executor."""
    held: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    routes = routes_of(stage)
    for batch in batches:
        passing = [route_of(kind, routes) is None for kind in batch.column("kind").to_pylist()]
        if any(passing):
            yield batch.filter(pa.array(passing))
        for chunk in chunks_of(batch.filter(pa.array([not each for each in passing]))):
            held[chunk.kind].append(chunk.batch)
    if held:
        with task_connection() as con:
            tables = {kind: pa.Table.from_batches(found) for kind, found in held.items()}
            yield from gather(run_stage(con, stage, tables, shares), shares)


def gather(chunks: Iterable[Chunk], shares: int, answers: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield rows of CHUNK: batches of one kind and share in few chunks.

    `answers` is the share of answers; None: they are spread, since an answer may pass through any task.
    """
    held: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
    rows = 0
    for chunk in chunks:
        held[chunk.share, chunk.kind].append(chunk.batch)
        rows += chunk.batch.num_rows
        if rows >= ROWS_HELD:
            yield from _encoded(held, shares, answers)
            held, rows = defaultdict(list), 0
    yield from _encoded(held, shares, answers)


def _encoded(
    held: dict[tuple[int, str], list[pa.RecordBatch]], shares: int, answers: int | None
) -> Iterator[pa.RecordBatch]:
    """Encode all chunks as one batch: each batch costs a message to the JVM."""
    targets, kinds, rows, payloads = [], [], [], []
    for number, ((share, kind), batches) in enumerate(held.items()):
        of_answers = number % max(shares, 1) if answers is None else answers
        targets.append(share if share >= 0 else of_answers)
        kinds.append(kind)
        rows.append(sum(batch.num_rows for batch in batches))
        payloads.append(_payload(batches))
    columns = (targets, kinds, rows, payloads)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    if targets:
        yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _payload(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Encode batches of one kind as one stream with one batch: small batches cost more than their rows."""
    whole = pa.Table.from_batches(batches).combine_chunks()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, whole.schema, options=_LZ4) as writer:
        writer.write_table(whole)
    return sink.getvalue()


def chunks_of(batch: pa.RecordBatch) -> Iterator[Chunk]:
    """Return the chunks in rows of CHUNK."""
    for row in batch.to_pylist():
        for each in decoded(row["payload"]):
            yield Chunk(row["share"], row["kind"], each)


def decoded(payload: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a payload."""
    if payload:
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            yield from reader

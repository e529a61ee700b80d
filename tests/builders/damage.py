"""The rows and gaps that all readers of a lake give, and mutants of the evidence's files."""

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeaudit.collect.evidence_gaps import all_evidence_gaps
from lakeaudit.collect.read_sources import read_sources
from lakeaudit.config import Lake
from lakeaudit.engine.chunks import route_of
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.previous.compared import ACCEPTED
from lakeaudit.evidence.protocol import Claims, Context, SnapshotComparison, pieces
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.table_facts import roots
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import CLAIM
from tests.builders.artefacts import NOW


@dataclass(frozen=True)
class Read:
    """The rows of one kind, in a fixed order, and every reported evidence gap."""

    rows: tuple[str, ...]
    gaps: frozenset[str]


def read_all(lake: Lake, rows: str) -> Read:
    """All sources of a lake, read to their last row; of their rows those of one kind, claims folded."""
    engine = InProcessEngine(1)
    context = Context(engine, Clients(), NOW, NOW, live=True)
    observed = read_sources(lake, replace(context, pictures=_comparison(lake)), ())
    batches: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    events = [part for each in observed.events for part in each.parts(each.since, True)]
    stores = [each for store in observed.log_entries for each in pieces(store.rows)]
    for kind, batch in engine.run([*observed.rows(), *events, *stores], [_pass_on]):
        batches[kind.removeprefix("as read ")].append(batch)
    notes = [row for batch in batches.pop("notes", []) for row in batch.to_pylist()]
    counts = _counts(batches.pop("counted", []))
    gaps = {f"{hole.table or hole.source}: {hole.reason}" for hole in _evidence_gaps(observed, counts, notes)}
    for claims in observed.sources.claims:
        for name, state in claims.states.items():
            gaps |= {f"{name}: {each}" for each in (state.refused, state.not_yet) if each}
    found = _claims(observed.sources.claims, batches) if rows == "claims" else _texts(batches[rows])
    return Read(tuple(sorted(found)), frozenset(gaps | {*observed.warnings}))


def _comparison(lake: Lake) -> SnapshotComparison:
    owned = partial(attach_label, places=roots(lake.tables), column="table_name")
    return SnapshotComparison(owned, ACCEPTED.empty_table(), writes=False)


def _counts(batches: list[pa.RecordBatch]) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        known = counts.setdefault(row["source"], {"rows": 0, "rejected": 0, "sample": row["sample"]})
        known["rows"] += row["rows"]
        known["rejected"] += row["rejected"]
    return counts


def _evidence_gaps(observed: Any, counts: Mapping[str, Any], notes: list[dict[str, Any]]) -> Iterator[Any]:
    late = [
        hole for read in observed.sources.claims for note in notes
        if read.gap_of and note["source"] == read.info.id and (hole := read.gap_of(note))
    ]  # fmt: skip
    yield from late
    yield from all_evidence_gaps(observed.holes, counts, [note for note in notes if note["reason"]])
    for store in observed.sources.metastores:
        if store.check and (fault := store.check([n for n in notes if n["source"] == store.info.id])):
            yield _Fault(store.info.id, fault)


@dataclass(frozen=True)
class _Fault:
    source: str
    reason: str
    table: str | None = None
    subject: str = ""


def _pass_on(con: duck.Connection, rows: Mapping[str, duck.Rows]) -> Iterator[tuple[str, duck.Rows]]:
    """Every row as an answer."""
    for kind, each in rows.items():
        if kind != "shares":
            yield (f"as read {kind}" if route_of(kind) is not None else kind), each


def _claims(claims: Sequence[Claims], batches: Mapping[str, list[pa.RecordBatch]]) -> list[str]:
    rows: dict[str, duck.Rows] = {
        kind: pa.Table.from_batches(found) for kind, found in batches.items() if found
    }
    with duck.task_connection() as con:
        folded = [duck.table(duck.conform(con, each.fold(con, rows), CLAIM)) for each in claims]
    return _texts([batch for table in folded for batch in table.to_batches()])


def _texts(batches: list[pa.RecordBatch]) -> list[str]:
    plain = [row for batch in batches for row in batch.to_pylist()]
    return [repr(sorted((k, v) for k, v in row.items() if v is not None)) for row in plain]


Mutate = Callable[[bytes, random.Random], bytes]


def _flipped(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]


def _truncated(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def _beheaded(content: bytes, draw: random.Random) -> bytes:
    return content[draw.randrange(1, len(content) + 1) :]


def _zeroed(content: bytes, draw: random.Random) -> bytes:
    length = draw.choice([4, 64, 512])
    at = draw.randrange(len(content))
    end = min(at + length, len(content))
    return content[:at] + bytes(end - at) + content[end:]


def _garbled(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    some = draw.randbytes(draw.randint(1, 8))
    return content[:at] + some + content[at + len(some) :]


def _repeated(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    return b"".join([*lines[: at + 1], *lines[at:]])


def _without_line(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    return b"".join([*lines[:at], *lines[at + 1 :]])


def _swapped(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    return content[at:] + content[:at]


def _emptied(content: bytes, _: random.Random) -> bytes:
    return b""


def _blanked(content: bytes, _: random.Random) -> bytes:
    return b" " * (len(content) - 1) + b"\n"


def _doubled(content: bytes, _: random.Random) -> bytes:
    return content + content


MUTATIONS: Mapping[str, Mutate] = {
    "bit flipped": _flipped,
    "cut off": _truncated,
    "head lost": _beheaded,
    "block zeroed": _zeroed,
    "bytes garbled": _garbled,
    "line repeated": _repeated,
    "line lost": _without_line,
    "halves swapped": _swapped,
    "emptied": _emptied,
    "blanked": _blanked,
    "content doubled": _doubled,
}


@contextmanager
def damaged(path: Path, content: bytes) -> Iterator[None]:
    """The file with another content for a while, as old as it was."""
    original, at = path.read_bytes(), path.stat()
    try:
        path.write_bytes(content)
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
        yield
    finally:
        path.write_bytes(original)
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))

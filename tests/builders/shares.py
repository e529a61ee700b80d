"""Stages run as an engine runs them, with the keys shared out to any number of shares, one share after the other."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakeaudit.engine.chunks import Chunk, read_part, run_stage
from lakeaudit.evidence.protocol import Part, Stage
from lakeaudit.runtime.duck import task_connection


@dataclass
class Shared:
    """The answers of parts and stages by kind of row, and how many shares of the first stage had rows."""

    answers: Mapping[str, pa.Table] = field(default_factory=dict)
    filled: int = 0


def shared(parts: Sequence[Part], stages: Sequence[Stage], shares: int) -> Shared:
    """Everything that is answered where all rows of one key meet in one of `shares` shares."""
    answers: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    with task_connection() as con:
        chunks = [chunk for part in parts for chunk in read_part(con, part, shares)]
        filled = len(by_share(chunks))
        for stage in stages:
            _take(answers, chunks)
            held = by_share(chunks)
            chunks = [chunk for share in sorted(held) for chunk in run_stage(con, stage, held[share], shares)]
        _take(answers, chunks)
    return Shared({kind: pa.Table.from_batches(batches) for kind, batches in answers.items()}, filled)


def by_share(chunks: Iterable[Chunk]) -> dict[int, dict[str, pa.Table]]:
    """The rows of every share, by kind."""
    held: dict[int, dict[str, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
    for chunk in chunks:
        if chunk.share >= 0:
            held[chunk.share][chunk.kind].append(chunk.batch)
    return {
        share: {kind: pa.Table.from_batches(batches) for kind, batches in kinds.items()}
        for share, kinds in held.items()
    }


def _take(answers: dict[str, list[pa.RecordBatch]], chunks: Iterable[Chunk]) -> None:
    for chunk in chunks:
        if chunk.share < 0:
            answers[chunk.kind].append(chunk.batch)

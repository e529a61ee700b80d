"""How folders are counted beside a reading of all rows, see `compare.pointer_folders`: no row is read twice for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakeaudit.compare.pointer_folders import FolderCount, folder_files, summed
from lakeaudit.evidence.protocol import Batches, Part, Project, Stage
from lakeaudit.pipeline.chunks import Reading, drained
from lakeaudit.runtime.duck import Connection, Rows

COUNTED, HELD = "folder_files", "folders_held"
"""Kinds of rows: of a batch, and of a whole folder."""


def counting(count: FolderCount | None, reading: Reading) -> Reading:
    """The reading, which counts folders of each batch of sound rows."""
    return reading if count is None else replace(reading, select=partial(_counted, count, reading.select))


def counting_traces(count: FolderCount | None, reading: Reading) -> Reading:
    """The same for a reading that makes other rows of a part's: these come in batches, so that both can be made."""
    if count is None:
        return reading
    batched = partial(_batched, reading.rows)
    return replace(reading, project=partial(_counted, count, reading.project), rows=batched)


def summing(count: FolderCount | None, stages: Sequence[Stage]) -> Sequence[Stage]:
    """The stages, the first of which sums folders as well."""
    return stages if count is None else [partial(_summed, stages[0]), *stages[1:]]


def _counted(
    count: FolderCount, others: Project, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    if kind == "versions":
        yield COUNTED, folder_files(count, con, rows)
    yield from others(con, kind, rows)


def _batched(rows: Callable[[Connection, Part], Batches], con: Connection, part: Part) -> Batches:
    yield from drained(rows(con, part), con)


def _summed(stage: Stage, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if COUNTED in rows:
        yield HELD, summed(con, rows[COUNTED])
    yield from stage(con, rows)


def held_folders(
    answers: Iterator[tuple[str, pa.RecordBatch]], into: list[pa.RecordBatch]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The answers without those about folders, which are added to `into`."""
    for kind, batch in answers:
        if kind == HELD:
            into.append(batch)
        else:
            yield kind, batch

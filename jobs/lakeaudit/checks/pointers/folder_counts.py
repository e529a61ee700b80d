"""Count files by the folders that catalogs name, while the engine reads storage for another purpose."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakeaudit.engine.chunks import WHOLE, Reading, drain, routes_of
from lakeaudit.engine.local import Answers, AuditEngine
from lakeaudit.evidence.protocol import Batches, BufferedRows, Part, Project, RoutedStage, Stage
from lakeaudit.matching.pointer_folders import FolderCount, folder_files, sum_folder_files
from lakeaudit.runtime.duck import Connection, Rows

COUNTED, HELD = "folder_files", "folders_held"
"""Kinds of rows: of a batch, and of a whole folder."""


@dataclass(frozen=True)
class CountingEngine:
    """An engine whose runs also yield one HELD row per folder; without `count` it adds no rows."""

    engine: AuditEngine
    count: FolderCount | None

    def run(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading = WHOLE
    ) -> Answers:
        """Run the stages, see `AuditEngine`; rows are read in full."""
        if self.count is None:
            return self.engine.run(rows, stages, reading)
        counting = replace(reading, select=partial(_count_files, self.count, reading.select))
        return self._run(rows, stages, counting)

    def project(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading
    ) -> Answers:
        """Run the stages with projected rows; rows come in batches, so that both results can be computed from them."""
        if self.count is None:
            return self.engine.run(rows, stages, reading)
        project = partial(_count_files, self.count, reading.project)
        return self._run(
            rows, stages, replace(reading, project=project, rows=partial(_in_batches, reading.rows))
        )

    def _run(self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading) -> Answers:
        first, *others = stages
        counting = RoutedStage(partial(_sum_counts, first), routes_of(first))
        return self.engine.run(rows, [counting, *others], reading)


def _count_files(
    count: FolderCount, others: Project, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    if kind == "versions":
        yield COUNTED, folder_files(count, con, rows)
    yield from others(con, kind, rows)


def _in_batches(rows: Callable[[Connection, Part], Batches], con: Connection, part: Part) -> Batches:
    yield from drain(rows(con, part), con)


def _sum_counts(stage: Stage, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if COUNTED in rows:
        yield HELD, sum_folder_files(con, rows[COUNTED])
    yield from stage(con, rows)


def without_folders(answers: Answers, folders: list[pa.RecordBatch]) -> Answers:
    """Yield the answers without HELD rows, which are appended to `folders`."""
    for kind, batch in answers:
        if kind == HELD:
            folders.append(batch)
        else:
            yield kind, batch

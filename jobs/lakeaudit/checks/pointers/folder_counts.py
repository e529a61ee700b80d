"""Folder counts: while the engine reads storage for another purpose, files are counted by the folders catalogs name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakeaudit.engine.chunks import WHOLE, Reading, drain
from lakeaudit.engine.local import Answers, AuditEngine
from lakeaudit.evidence.protocol import Batches, BufferedRows, Part, Project, Stage
from lakeaudit.matching.pointer_folders import FolderCount, folder_files, sum_folder_files
from lakeaudit.runtime.duck import Connection, Rows

COUNTED, HELD = "folder_files", "folders_held"
"""Kinds of rows: of a batch, and of a whole folder."""


@dataclass(frozen=True)
class CountingEngine:
    """An engine whose runs also answer HELD rows, one a folder; without a count it adds nothing."""

    engine: AuditEngine
    count: FolderCount | None

    def run(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading = WHOLE
    ) -> Answers:
        """See `AuditEngine`: a run that reads rows in full."""
        if self.count is None:
            return self.engine.run(rows, stages, reading)
        counting = replace(reading, select=partial(_counted, self.count, reading.select))
        return self._run(rows, stages, counting)

    def project(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading
    ) -> Answers:
        """The same for a run that projects rows: a part's rows come in batches, so that both can be made of them."""
        if self.count is None:
            return self.engine.run(rows, stages, reading)
        project = partial(_counted, self.count, reading.project)
        return self._run(
            rows, stages, replace(reading, project=project, rows=partial(_batched, reading.rows))
        )

    def _run(self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading) -> Answers:
        first, *others = stages
        return self.engine.run(rows, [partial(_summed, first), *others], reading)


def _counted(
    count: FolderCount, others: Project, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    if kind == "versions":
        yield COUNTED, folder_files(count, con, rows)
    yield from others(con, kind, rows)


def _batched(rows: Callable[[Connection, Part], Batches], con: Connection, part: Part) -> Batches:
    yield from drain(rows(con, part), con)


def _summed(stage: Stage, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if COUNTED in rows:
        yield HELD, sum_folder_files(con, rows[COUNTED])
    yield from stage(con, rows)


def without_folders(answers: Answers, folders: list[pa.RecordBatch]) -> Answers:
    """The answers without HELD rows, which are appended to `folders`."""
    for kind, batch in answers:
        if kind == HELD:
            folders.append(batch)
        else:
            yield kind, batch

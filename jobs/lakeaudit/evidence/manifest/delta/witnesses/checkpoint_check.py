"""Compare checkpoints of a Delta log with the commits up to them: readers begin at the newest checkpoint.

The newest checkpoint is compared with the state that was read. The checkpoint from which that state was read is
compared with the state before it. File entries are counted and summed first; rows are read only where the sums differ.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.lineage import CONTENT, SHORT_CHECKPOINT, Stake, Witness
from lakeaudit.evidence.manifest.delta.log.checkpoint_runs import Checkpoint
from lakeaudit.evidence.manifest.delta.log.checkpoints import Content
from lakeaudit.evidence.manifest.delta.log.log_files import CommitFiles, LogFile
from lakeaudit.evidence.manifest.delta.log.paths import KIND, STEP, vector_of
from lakeaudit.evidence.manifest.delta.state.entry_sums import BASE, COMMITS, EARLIER, NOTHING, EntrySums
from lakeaudit.evidence.manifest.delta.state.parts import checkpoints_of, runs_of
from lakeaudit.evidence.manifest.delta.state.readings import Reading, Readings
from lakeaudit.evidence.manifest.delta.witnesses.checkpoint_counts import (
    files_listed,
    miscount_witnesses,
    mixed_parts,
)
from lakeaudit.evidence.manifest.table_states import NEWEST
from lakeaudit.evidence.protocol import BufferedRows, Context, Part, pieces
from lakeaudit.formatting import number
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

SAMPLES = 3
_FAULTS = "checkpoint_faults"


def expected_files(readings: Sequence[Reading]) -> dict[str, int]:
    """Return how many files the newest state of each table lists, by its newest checkpoint and the commits since."""
    found = {reading.listed.name: _expected_count(reading) for reading in readings}
    return {name: files for name, files in found.items() if files is not None}


def _expected_count(reading: Reading) -> int | None:
    """Return None if the checkpoint was read itself, or if a commit since then was not counted."""
    content, log = reading.newest_checkpoint, reading.log
    if content is None or content.adds is None or reading.torn or log.newest is None:
        return None
    version = log.checkpoints[-1].version
    since = [commit for commit in reading.recent if commit.version > version]
    if len(since) != log.newest - version:
        return None
    return content.adds + sum(commit.added - commit.removed for commit in since)


def newest_differs(reading: Reading) -> bool:
    """Return whether the newest checkpoint may list other entries than the state that was read."""
    later, base = reading.newest_checkpoint, _base_sums(reading)
    if later is None or later.sums is None or base is None or not _is_whole(reading):
        return False
    return base.plus(reading.entries.get(COMMITS, NOTHING)).differs_from(later.sums)


def base_differs(reading: Reading) -> bool:
    """Return whether the checkpoint from which the state was read may list other entries than the state before it."""
    earlier, base = reading.earlier, _base_sums(reading)
    if earlier is None or not _is_whole(reading):
        return False
    since = reading.entries.get(EARLIER, NOTHING)
    if since.commits != len(earlier.commits):
        return False
    begin = earlier.content.sums if earlier.content else None if earlier.point else NOTHING
    if base is not None and begin is not None:
        return begin.plus(since).differs_from(base)
    counts = files_listed(begin, earlier.content), files_listed(base, reading.base_content)
    return None not in counts and (counts[0] or 0) + since.files != counts[1]


def _base_sums(reading: Reading) -> EntrySums | None:
    """Return the sums of the checkpoint from which the state was read; None if they are unknown."""
    if reading.plan is None or reading.plan.base is None:
        return NOTHING
    return reading.base_content.sums if reading.base_content else reading.entries.get(BASE)


def _is_whole(reading: Reading) -> bool:
    plan = reading.plan
    return (
        plan is not None
        and reading.refused is None
        and not (plan.gaps or reading.torn or reading.undecodable)
    )


@dataclass(frozen=True)
class _Comparison:
    """Names one checkpoint whose rows are compared with those of the reading `number` of its table."""

    table: str
    number: int
    point: Checkpoint


@dataclass(frozen=True)
class CheckpointComparison:
    """Compares checkpoints of tables with the commits up to them."""

    readings: Readings
    ctx: Context
    source: str

    def witness(self, table: str) -> Witness | None:
        """Return the witness against the newest checkpoint of a table; None if it lists the files of the commits."""
        return next(iter(self._newest([each for each in self._tables if each.listed.name == table])), None)

    def witnesses(self) -> tuple[Witness, ...]:
        """Return the witnesses against all checkpoints whose sums differ from the expected sums."""
        return (
            *miscount_witnesses(self._tables),
            *self._newest([reading for reading in self._tables if newest_differs(reading)]),
            *self._bases([reading for reading in self._tables if base_differs(reading)]),
        )

    def mixed(self, tables: Collection[str]) -> Iterator[Witness]:
        """Yield the base checkpoints of these tables in which two parts list the same file."""
        readings = [each for each in self._tables if each.listed.name in tables]
        files = [
            replace(file, reading=number)
            for reading in readings if (base := _base_of_parts(reading)) is not None
            for number, file in enumerate(_files_of(reading, base, reading.base_content, 0))
        ]  # fmt: skip
        if files:
            yield from mixed_parts(readings, self._parts(files), self.ctx.engine)

    @property
    def _tables(self) -> tuple[Reading, ...]:
        return self.readings.tables

    def _newest(self, readings: Sequence[Reading]) -> list[Witness]:
        """Compare the newest checkpoints with the rows that were read."""
        later = [(r, r.log.checkpoints[-1], r.newest_checkpoint) for r in readings if r.newest_checkpoint]
        if not later:
            return []
        names = [reading.listed.name for reading, _, _ in later]
        files = [file for r, point, content in later for file in _files_of(r, point, content, NEWEST)]
        rows = [*pieces(*self.readings.rows_of(names)), *self._parts(files)]
        return self._compare(rows, [_Comparison(r.listed.name, r.number, point) for r, point, _ in later])

    def _bases(self, readings: Sequence[Reading]) -> list[Witness]:
        """Compare the base checkpoints with the states before them, which are read for this comparison."""
        files: list[LogFile] = []
        commits: list[CommitFiles] = []
        compared: list[_Comparison] = []
        for reading in readings:
            base, earlier = reading.plan.base if reading.plan else None, reading.earlier
            if base is None or earlier is None:
                continue
            listed = reading.listed
            files += _files_of(reading, base, reading.base_content, NEWEST)
            if earlier.point is not None:
                files += _files_of(reading, earlier.point, earlier.content, 0)
            commits.append(CommitFiles(listed.name, listed.location, reading.log.folder, earlier.commits))
            compared.append(_Comparison(listed.name, 0, base))
        rows = [*self._parts(files), *runs_of(commits, self.source, self.ctx.clients)]
        return self._compare(rows, compared) if compared else []

    def _parts(self, files: Sequence[LogFile]) -> list[Part]:
        large = checkpoints_of(
            [file for file in files if file.is_large], self.source, self.ctx.clients, self.ctx.now
        )
        return [
            *large,
            *runs_of([file for file in files if not file.is_large], self.source, self.ctx.clients),
        ]

    def _compare(
        self, rows: Sequence[Part | BufferedRows], checkpoints: Sequence[_Comparison]
    ) -> list[Witness]:
        """Compare rows with checkpoints; return no witness if some rows could not be read."""
        limits = duck.small(_LIMIT, [(one.table, one.number, one.point.version) for one in checkpoints])
        kept = self.ctx.engine.meet(rows, partial(_steps_up_to, limits), _differences)
        if any(note["reason"] for note in kept.notes):
            return []
        summed = duck.rows_of(_sum_by_table(pa.Table.from_batches(kept.batches(_FAULTS), _FAULT)))
        found = {row["table_name"]: row for row in summed}
        return [_witness(one, found[one.table]) for one in checkpoints if one.table in found]


def _base_of_parts(reading: Reading) -> Checkpoint | None:
    """Return the checkpoint from which the state is read, if it has several files."""
    base = reading.plan.base if reading.plan and reading.refused is None else None
    files = () if base is None else reading.base_content.files if reading.base_content else base.parts
    return base if len(files) > 1 else None


def _files_of(reading: Reading, point: Checkpoint, content: Content | None, number: int) -> list[LogFile]:
    listed, at = reading.listed, reading.log.time_of(point)
    return [
        LogFile(listed.name, listed.location, point.version, at, True, file, number)
        for file in (content.files if content else point.parts)
    ]


_LIMIT = pa.schema([("table_name", pa.string()), ("number", pa.int64()), ("up_to", pa.int64())])


def _steps_up_to(limits: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if kind == KIND:
        sql = f"""SELECT i.* FROM input i JOIN limits l ON i.table_name = l.table_name AND i.version <= l.up_to
            AND i.reading IN (l.number, {NEWEST}) WHERE i.category = 'data'"""
        yield kind, duck.query(con, sql, input=rows, limits=limits)


_FAULT = pa.schema(
    [
        ("table_name", pa.string()),
        ("fault", pa.string()),  # lacks | more | other
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("records", pa.int64()),
        ("sample", pa.string()),
    ]
)


def _differences(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Count the files that only one side lists, or that both list with another size or deletion vector."""
    sql = f"""
        WITH last AS (
            SELECT table_name, bucket, key, pair, reading = {NEWEST} AS by_checkpoint,
                arg_max(added, (version, added)) AS listed, arg_max(size, version) FILTER (added) AS size,
                arg_max(records, version) FILTER (added) AS records
            FROM input GROUP BY table_name, bucket, key, pair, reading),
        entries AS (
            SELECT table_name, bucket, key, by_checkpoint, max(size) AS size, max(records) AS records,
                list_sort(list(DISTINCT ({vector_of("pair")}, size))) AS entries
            FROM last WHERE listed GROUP BY table_name, bucket, key, by_checkpoint),
        files AS (
            SELECT table_name, key, bool_or(NOT by_checkpoint) AS by_commits, bool_or(by_checkpoint) AS by_checkpoint,
                max(size) AS size, max(records) AS records, count(DISTINCT entries) > 1 AS other
            FROM entries GROUP BY table_name, bucket, key)
        SELECT table_name, CASE WHEN NOT by_checkpoint THEN 'lacks' WHEN NOT by_commits THEN 'more' ELSE 'other' END
                AS fault, count(*) AS files, sum(size) AS bytes,
            CASE WHEN count(records) = count(*) THEN sum(records) END AS records, min(key) AS sample
        FROM files WHERE by_commits <> by_checkpoint OR other GROUP BY ALL
    """
    yield _FAULTS, duck.conform(con, duck.query(con, sql, input=rows.get(KIND, STEP.empty_table())), _FAULT)


def _sum_by_table(rows: pa.Table) -> Rows:
    with duck.task_connection() as con:
        sql = f"""
            SELECT table_name, coalesce(sum(files) FILTER (fault = 'lacks'), 0) AS lacks,
                sum(bytes) FILTER (fault = 'lacks') AS bytes,
                CASE WHEN count(records) FILTER (fault = 'lacks') = count(*) FILTER (fault = 'lacks')
                    THEN sum(records) FILTER (fault = 'lacks') END AS rows,
                coalesce(sum(files) FILTER (fault = 'more'), 0) AS more,
                coalesce(sum(files) FILTER (fault = 'other'), 0) AS other, min(sample, {SAMPLES}) AS sample
            FROM input GROUP BY table_name
        """
        return duck.table(duck.query(con, sql, input=rows))


def _difference_words(version: int, found: Mapping[str, Any]) -> str:
    """Return the files on which the checkpoint of a version and the commits up to it differ, as one sentence."""
    commits, checkpoint = f"the commits up to version {version}", f"the checkpoint of version {version}"
    parts = [
        (found["lacks"], f"in {commits}, but not in {checkpoint}"),
        (found["more"], f"in {checkpoint}, but not in {commits}"),
        (found["other"], f"in {checkpoint} with another size or deletion vector than in {commits}"),
    ]
    named = [
        f"{number(many, 'file')} {'is' if many == 1 else 'are'} {where}" for many, where in parts if many
    ]
    return ", and ".join(named)


def _witness(one: _Comparison, found: Mapping[str, Any]) -> Witness:
    words = _difference_words(one.point.version, found)
    rows, size = (None if found[name] is None else int(found[name]) for name in ("rows", "bytes"))
    stake = Stake(int(found["lacks"] or found["more"] or found["other"]), rows, size)
    sample = tuple(key.rpartition("/")[2] for key in found["sample"] or ())
    subject = one.point.parts[0].place.uri
    return Witness(
        one.table, SHORT_CHECKPOINT, (CONTENT,), subject, words, one.point.version, stake, sample=sample
    )

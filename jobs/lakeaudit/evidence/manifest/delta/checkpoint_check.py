"""The newest checkpoint of a Delta log, held against the commits up to it: readers begin at it, an audit further back.

File entries are counted first, by the checkpoint's own statistics; its rows are read only where the counts differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.lineage import CONTENT, SHORT_CHECKPOINT, Stake, Witness
from lakeaudit.evidence.manifest.delta.log_files import LogFile
from lakeaudit.evidence.manifest.delta.parts import runs_of
from lakeaudit.evidence.manifest.delta.paths import KIND, STEP
from lakeaudit.evidence.manifest.delta.readings import Reading, Readings
from lakeaudit.evidence.manifest.table_states import NEWEST
from lakeaudit.evidence.protocol import Context, Kept, Part, pieces
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

SAMPLES = 3
_FAULTS = "checkpoint_faults"


def expected_files(readings: Sequence[Reading]) -> dict[str, int]:
    """By table how many files its newest state lists, by its newest checkpoint and the commits since that."""
    found = {reading.listed.name: _expected(reading) for reading in readings}
    return {name: files for name, files in found.items() if files is not None}


def _expected(reading: Reading) -> int | None:
    """None where the checkpoint was read itself, or not every commit since it was counted."""
    content, log = reading.newest_checkpoint, reading.log
    if content is None or content.adds is None or reading.torn or log.newest is None:
        return None
    version = log.checkpoints[-1].version
    since = [commit for commit in reading.recent if commit.version > version]
    if len(since) != log.newest - version:
        return None
    return content.adds + sum(commit.added - commit.removed for commit in since)


@dataclass(frozen=True)
class CheckpointComparison:
    """Compares the newest checkpoints of tables with the commits up to them."""

    readings: Readings
    ctx: Context
    source: str

    def witness(self, table: str) -> Witness | None:
        """What the checkpoint of a table contradicts; None: it lists the files that the commits do."""
        reading = next(each for each in self.readings.tables if each.listed.name == table)
        content = reading.newest_checkpoint
        if content is None:
            return None
        point = reading.log.checkpoints[-1]
        listed, at = reading.listed, reading.log.time_of(point)
        files = [
            LogFile(table, listed.location, point.version, at, True, file, NEWEST) for file in content.files
        ]
        rows: list[Part | Kept] = [
            *pieces(*self.readings.rows_of([table])),
            *runs_of(files, self.source, self.ctx.clients),
        ]
        asked = partial(_steps_up_to, table, reading.number, point.version)
        kept = self.ctx.engine.meet(rows, asked, _differences)
        found = duck.rows_of(_summed(pa.Table.from_batches(kept.batches(_FAULTS), _FAULT)))
        return _witness(table, point.version, point.parts[0].place.uri, found[0])


def _steps_up_to(
    table: str, number: int, version: int, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    if kind == KIND:
        sql = f"""SELECT * FROM input WHERE table_name = {duck.literal(table)} AND version <= {version}
            AND reading IN ({number}, {NEWEST}) AND category = 'data'"""
        yield kind, duck.query(con, sql, input=rows)


_FAULT = pa.schema(
    [
        ("lacks", pa.bool_()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("records", pa.int64()),
        ("sample", pa.string()),
    ]
)


def _differences(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Files that one of the two lists alone."""
    sql = f"""
        WITH last AS (
            SELECT bucket, key, reading, arg_max(added, version) AS listed, any_value(size) AS size,
                any_value(records) AS records
            FROM input GROUP BY bucket, key, pair, reading),
        files AS (
            SELECT bucket, key, bool_or(listed) FILTER (reading < {NEWEST}) AS by_commits,
                bool_or(listed) FILTER (reading = {NEWEST}) AS by_checkpoint, max(size) AS size, max(records) AS records
            FROM last GROUP BY bucket, key)
        SELECT coalesce(by_commits, false) AS lacks, count(*) AS files, sum(size) AS bytes,
            CASE WHEN count(records) = count(*) THEN sum(records) END AS records, min(key) AS sample
        FROM files WHERE coalesce(by_commits, false) <> coalesce(by_checkpoint, false) GROUP BY ALL
    """
    yield _FAULTS, duck.conform(con, duck.query(con, sql, input=rows.get(KIND, STEP.empty_table())), _FAULT)


def _summed(rows: pa.Table) -> Rows:
    with duck.task_connection() as con:
        sql = f"""
            SELECT coalesce(sum(files) FILTER (lacks), 0) AS files, sum(bytes) FILTER (lacks) AS bytes,
                sum(records) FILTER (lacks) AS rows, coalesce(sum(files) FILTER (NOT lacks), 0) AS others,
                min(sample, {SAMPLES}) AS sample
            FROM input
        """
        return duck.table(duck.query(con, sql, input=rows))


def _witness(table: str, version: int, subject: str, found: Mapping[str, Any]) -> Witness | None:
    if not found["files"] and not found["others"]:
        return None
    lists = [
        f"lacks {found['files']:,} files that the commits up to it list" if found["files"] else "",
        f"lists {found['others']:,} files that they do not" if found["others"] else "",
    ]
    words = f"the checkpoint of version {version} {' and '.join(filter(None, lists))}"
    rows, size = (None if found[name] is None else int(found[name]) for name in ("rows", "bytes"))
    stake = Stake(int(found["files"] or found["others"]), rows, size)
    sample = tuple(key.rpartition("/")[2] for key in found["sample"] or ())
    return Witness(table, SHORT_CHECKPOINT, (CONTENT,), subject, words, version, stake, sample=sample)

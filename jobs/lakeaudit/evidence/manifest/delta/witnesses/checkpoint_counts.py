"""Compare checkpoints of a Delta log with their own counts, and the parts of one checkpoint with each other.

`_last_checkpoint` counts the actions that its writer put into the checkpoint. Two writers that split one state into
parts by different rules replace each other's parts by name: the remaining parts list some files twice, and may lack
others.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lakeaudit.evidence.files import CLOCK_STEP
from lakeaudit.evidence.lineage import CONTENT, HINT, NOT_KNOWN, SHORT_CHECKPOINT, Stake, Witness
from lakeaudit.evidence.manifest.delta.log.checkpoint_runs import Checkpoint
from lakeaudit.evidence.manifest.delta.log.checkpoints import Content
from lakeaudit.evidence.manifest.delta.log.hints import Hint
from lakeaudit.evidence.manifest.delta.log.paths import KIND, STEP
from lakeaudit.evidence.manifest.delta.state.entry_sums import BASE, EntrySums
from lakeaudit.evidence.manifest.delta.state.readings import Reading
from lakeaudit.evidence.protocol import Engine, Part
from lakeaudit.formatting import number
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

_MIXED = "mixed_parts"


def miscount_witnesses(readings: Sequence[Reading]) -> Iterator[Witness]:
    """Yield the checkpoints whose number of entries differs from the count in `_last_checkpoint`."""
    for reading in readings:
        hint, point = reading.listed.hint, next(iter(reading.log.checkpoints[-1:]), None)
        if hint is None or point is None or hint.version != point.version:
            continue
        if reading.broken or reading.refused is not None:
            continue
        files = _adds_of_newest(reading, point)
        if hint.adds is None or files is None:
            yield from _short_of_actions(reading, hint, point)
        elif files != hint.adds:
            words = (
                f"`_last_checkpoint` counts {number(hint.adds, 'file')} in the checkpoint of version {point.version}, "
                f"but the checkpoint lists {number(files, 'file')}"
            )
            yield _witness(reading.listed.name, point, HINT, words, Stake(abs(hint.adds - files)))


def files_listed(sums: EntrySums | None, content: Content | None) -> int | None:
    """Return how many files a checkpoint lists; None if that is unknown."""
    return sums.files if sums is not None else content.adds if content else None


def _adds_of_newest(reading: Reading, point: Checkpoint) -> int | None:
    if reading.newest_checkpoint is not None:
        return reading.newest_checkpoint.adds
    if reading.plan is None or reading.plan.base != point:
        return None
    return files_listed(reading.entries.get(BASE), reading.base_content)


def _short_of_actions(reading: Reading, hint: Hint, point: Checkpoint) -> Iterator[Witness]:
    """Yield a checkpoint whose parts hold fewer actions than were written, if their files were not counted.

    Another run may have rewritten all of the parts since: it then drops removals that had expired by that time.
    """
    content = reading.newest_checkpoint or reading.base_content
    if content is None or content.rows is None or hint.actions is None or len(point.parts) == 1:
        return
    names, written = {part.name for part in point.parts}, sum(part.size for part in point.parts)
    hinted_at = reading.log.hinted_at
    rewritten = hinted_at is None or all(part.modified_at > hinted_at + CLOCK_STEP for part in point.parts)
    if names != set(hint.files) or hint.actions == written or rewritten or content.rows >= hint.actions:
        return
    words = (
        f"`_last_checkpoint` counts {hint.actions:,} actions in the checkpoint of version {point.version}, whose "
        f"{len(point.parts)} parts hold {content.rows:,}"
    )
    yield _witness(reading.listed.name, point, HINT, words, NOT_KNOWN)


def _witness(table: str, point: Checkpoint, evidence: str, words: str, stake: Stake) -> Witness:
    """Return a witness whose subject is the part that was written last: it replaced another one."""
    subject = max(point.parts, key=lambda part: part.modified_at).place.uri
    return Witness(table, SHORT_CHECKPOINT, (evidence,), subject, words, point.version, stake)


_SHARED = pa.schema([("table_name", pa.string()), ("files", pa.int64()), ("sample", pa.string())])


def mixed_parts(readings: Sequence[Reading], parts: Sequence[Part], engine: Engine) -> Iterator[Witness]:
    """Yield the checkpoints in which two parts list the same file; the rows of each part have their own `reading`.

    A part that lists a file twice by itself is a fault of its writer, but does not lack a file.
    """
    kept = engine.meet(parts, _entries, _shared_files)
    if any(note["reason"] for note in kept.notes):
        return
    rows = pa.Table.from_batches(kept.batches(_MIXED), _SHARED)
    sql = (
        "SELECT table_name, sum(files)::BIGINT AS files, min(sample) AS sample FROM input GROUP BY table_name"
    )
    with duck.task_connection() as con:
        found = {row["table_name"]: row for row in duck.rows_of(duck.query(con, sql, input=rows))}
    for reading in readings:
        row, base = found.get(reading.listed.name), reading.plan.base if reading.plan else None
        if row is not None and base is not None:
            words = (
                f"several parts of the checkpoint of version {base.version} list the same {row['files']:,} files, such "
                f"as {row['sample'].rpartition('/')[2]}: the parts are of different runs, and together may lack files"
            )
            yield _witness(reading.listed.name, base, CONTENT, words, NOT_KNOWN)


def _entries(con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if kind == KIND:
        sql = "SELECT * FROM input WHERE added AND category = 'data'"
        yield kind, duck.query(con, sql, input=rows)


def _shared_files(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    sql = """SELECT table_name, count(*) AS files, min(key) AS sample FROM (
            SELECT table_name, bucket, key FROM input GROUP BY table_name, bucket, key, pair
            HAVING count(DISTINCT reading) > 1)
        GROUP BY table_name"""
    yield _MIXED, duck.conform(con, duck.query(con, sql, input=rows.get(KIND, STEP.empty_table())), _SHARED)

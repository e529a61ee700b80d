"""Writes the timelines of a lake's Hudi tables as Hudi 1.0 leaves them: commits in Avro, the older ones in an archive.

What the checkpoint of a Delta table would hold was written by one commit after the other at that time, `FILES_A_COMMIT`
each, and all of these are archived; the commits after it are the active timeline. Every file is a file group.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.rows import Connection, LogFile, files
from tests.bench.spec import CHECKPOINT_AT, HUDI_TOKEN
from tests.builders.hudi import instant_text
from tests.builders.hudi_archive import commit_schema

FILES_A_COMMIT = 2_000
ARCHIVED_TOGETHER = 10
WORKERS = 2
_FOLDER, _TIMELINE, _HISTORY = ".hoodie", ".hoodie/timeline", ".hoodie/timeline/history"
_PROPERTIES = {
    "hoodie.table.name": "bench", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8",
    "hoodie.timeline.layout.version": "2", "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.partition.fields": "dt,hour", "hoodie.datasource.write.hive_style_partitioning": "true",
}  # fmt: skip
_ADDED = """SELECT c, place, path, size, 1000 + i % 90000 AS records FROM ({}) WHERE class <> 'stray' AND c IS {} NULL
    ORDER BY c, i"""


def write_log_files(con: Connection, logs: Path) -> list[LogFile]:
    """Write all files of all tables' timelines."""
    tables = con.sql("SELECT t, name FROM tables ORDER BY t").fetchall()
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        return [file for t, name in tables for file in _Table(con, t, name, logs, pool).files()]


class _Table:
    def __init__(self, con: Connection, t: int, name: str, logs: Path, pool: ProcessPoolExecutor) -> None:
        self._con, self._t, self._pool = con, t, pool
        self._root = f"warehouse/{name}"
        self._home = logs / self._root
        (self._home / _HISTORY).mkdir(parents=True)

    def files(self) -> Iterator[LogFile]:
        """Write the archive, the active timeline, and the table's properties."""
        yield from self._archive()
        yield from self._active()
        lines = "".join(f"{name}={value}\n" for name, value in _PROPERTIES.items())
        yield self._file(_FOLDER, "hoodie.properties", lines.encode(), CHECKPOINT_AT)

    def _archive(self) -> Iterator[LogFile]:
        first = self._con.sql(_ADDED.format(files(f"t = {self._t}"), "")).to_arrow_table()
        pieces = [first.slice(at, FILES_A_COMMIT) for at in range(0, first.num_rows, FILES_A_COMMIT)]
        commits = list(self._pool.map(commit, pieces))
        times = [CHECKPOINT_AT + timedelta(seconds=number) for number in range(len(commits))]
        names = []
        for at in range(0, len(commits), ARCHIVED_TOGETHER):
            rows = [
                _instant(time, content)
                for time, content in zip(times[at:], commits[at : at + ARCHIVED_TOGETHER], strict=False)
            ]
            name = f"{rows[0]['instantTime']}_{rows[-1]['instantTime']}_0.parquet"
            names.append(name)
            out = io.BytesIO()
            pq.write_table(pa.Table.from_pylist(rows, _ARCHIVED), out)
            yield self._file(_HISTORY, name, out.getvalue(), times[-1])
        listed = json.dumps({"files": [{"fileName": name} for name in names]}).encode()
        yield self._file(_HISTORY, "manifest_1", listed, times[-1])
        yield self._file(_HISTORY, "_version_", b"1", times[-1])

    def _active(self) -> Iterator[LogFile]:
        committed = files(f"t = {self._t} AND begins + files > first + committed")
        later = self._con.sql(_ADDED.format(committed, "NOT")).to_arrow_table().to_pylist()
        times = self._con.sql(f"SELECT c, time FROM commits WHERE t = {self._t} ORDER BY c").fetchall()
        for c, time in times:
            at = time.replace(tzinfo=UTC)
            name = f"{instant_text(at - timedelta(minutes=1))}_{instant_text(at)}.commit"
            content = commit(pa.Table.from_pylist([row for row in later if row["c"] == c]))
            yield self._file(_TIMELINE, name, content, at)

    def _file(self, place: str, name: str, content: bytes, at: datetime) -> LogFile:
        path = self._home / place / name
        path.write_bytes(content)
        return LogFile(path, self._root, place, at)


def commit(rows: pa.Table) -> bytes:
    """Return the content of the commit that wrote these files."""
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        by_partition.setdefault(row["place"], []).append(_stat(row))
    out = io.BytesIO()
    record = {"partitionToWriteStats": by_partition, "compacted": False, "operationType": "INSERT"}
    fastavro.writer(out, fastavro.parse_schema(commit_schema()), [record])
    return out.getvalue()


def _stat(row: Mapping[str, Any]) -> dict[str, Any]:
    name = row["path"].rpartition("/")[2]
    return {
        "fileId": name.removesuffix(f"{HUDI_TOKEN}.parquet"), "path": row["path"], "prevCommit": "null",
        "numWrites": row["records"], "numInserts": row["records"], "numDeletes": 0, "numUpdateWrites": 0,
        "totalWriteBytes": row["size"], "fileSizeInBytes": row["size"], "totalWriteErrors": 0,
        "partitionPath": row["place"],
        "runtimeStats": {"totalScanTime": 0, "totalCreateTime": 225, "totalUpsertTime": 0},
    }  # fmt: skip


def _instant(at: datetime, content: bytes) -> dict[str, Any]:
    done = instant_text(at + timedelta(milliseconds=900))
    return {"instantTime": instant_text(at), "completionTime": done, "action": "commit", "metadata": content,
            "plan": None, "version": 1}  # fmt: skip


_ARCHIVED = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        ("version", pa.int32()),
    ]
)


def commit_contents(logs: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the table's folder and the content of every commit of all tables, archived ones too."""
    for home in sorted(logs.glob("warehouse/*")):
        for archived in sorted((home / _HISTORY).glob("*.parquet")):
            contents: Sequence[bytes] = pq.read_table(archived, columns=["metadata"])["metadata"].to_pylist()
            yield from ((home, content) for content in contents)
        yield from ((home, path.read_bytes()) for path in sorted((home / _TIMELINE).glob("*.commit")))

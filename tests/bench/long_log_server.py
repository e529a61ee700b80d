"""Serves logs of streaming tables that are generated on request: one commit per minute or per hour.

Every commit has a checksum file, every tenth commit a checkpoint. All files of a kind have the same content.

usage: python -m tests.bench.long_log_server MINUTELY HOURLY DAYS FOLDER    (FOLDER: where the few contents are written)
It prints its endpoint when it listens, and ends when its standard input is closed. `REQUESTS` returns their number.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.log_server import Answer, Logs, Object, serve
from tests.bench.spec import SCAN

REQUESTS = "requests"
EVERY = 10
"""Commits between two checkpoints: Delta's default."""
MINUTELY, HOURLY = timedelta(minutes=1), timedelta(hours=1)


def table_of(number: int, step: timedelta) -> str:
    """Return the name of a table."""
    return f"{'minutely' if step == MINUTELY else 'hourly'}-{number:04}"


def commits_of(step: timedelta, days: int) -> int:
    """Return the number of retained commits of a table."""
    return timedelta(days=days) // step


class LongLogs(Logs):
    """The logs of many tables, without their files."""

    def __init__(self, minutely: int, hourly: int, days: int, folder: Path) -> None:
        self.requests = 0
        self.keys = sorted(
            f"{table_of(number, step)}/_delta_log/{name}"
            for step, tables in ((MINUTELY, minutely), (HOURLY, hourly))
            for number in range(tables)
            for name in _names(commits_of(step, days))
        )
        self.objects = _Objects(frozenset(self.keys), days, _contents(folder))

    def answer(self, method: str, path: str, query: str, span: tuple[int, int] | None) -> Answer:
        if path.endswith(f"/{REQUESTS}"):
            return Answer("200 OK", "", str(self.requests).encode())
        self.requests += 1
        return super().answer(method, path, query, span)


class _Objects(Mapping[str, Object]):
    def __init__(self, keys: frozenset[str], days: int, contents: Mapping[str, Path]) -> None:
        self._keys = keys
        self._days = days
        self._contents = contents

    def __getitem__(self, key: str) -> Object:
        if key not in self._keys:
            raise KeyError(key)
        table, _, name = key.split("/")
        step = MINUTELY if table.startswith("minutely") else HOURLY
        newest = commits_of(step, self._days)
        path = self._contents[name.rpartition(".")[2]]
        at = SCAN - (newest - int(name[:20])) * step
        return Object(path, path.stat().st_size, f"{hash(key):x}-1", at)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _names(commits: int) -> Iterator[str]:
    """Return the names of a log; its oldest commit has a checkpoint, as after a clean-up of the log."""
    for version in range(EVERY, commits + EVERY):
        yield f"{version:020}.crc"
        yield f"{version:020}.json"
        if version % EVERY == 0:
            yield f"{version:020}.checkpoint.parquet"


def _contents(folder: Path) -> dict[str, Path]:
    """Return the content of the files of each kind, by the end of their names."""
    actions = pa.table(
        {
            "protocol": pa.array([{"minReaderVersion": 1, "minWriterVersion": 2}]),
            "metaData": pa.array([{"id": "0", "schemaString": '{"type":"struct","fields":[]}'}]),
        }
    )
    pq.write_table(actions, folder / "checkpoint.parquet")
    (folder / "commit.json").write_text('{"commitInfo":{"timestamp":1,"operation":"WRITE"}}\n')
    (folder / "sum.crc").write_text('{"numFiles":1}')
    return {path.suffix[1:]: path for path in folder.iterdir()}


if __name__ == "__main__":
    minutely, hourly, days = map(int, sys.argv[1:4])
    asyncio.run(serve(LongLogs(minutely, hourly, days, Path(sys.argv[4]))))

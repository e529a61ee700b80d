"""Lines of commits and JSON checkpoints, read by the executors: log files of any table, on S3 or local.

Files are named by the driver's listing and read by exact key, many small ones at a time. A file that cannot be read
becomes a row that says why, never a gap that nobody sees.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import DataFrame

from lakeaudit.evidence.manifest.delta_schemas import LINE
from lakeaudit.runtime.aws import Clients, explain, is_missing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

VANISHED = "it is gone since the log was listed"
UNREAD = "it cannot be read: "
_AT_ONCE = 16
_SMALL = 1 << 20
_ROWS = 1000
_ARROW = pa.schema(
    [("file", pa.int64()), ("in_commit_ms", pa.int64()), ("line", pa.string()), ("problem", pa.string())]
)


class Asked(NamedTuple):
    """A log file to read; its size decides whether it is read whole."""

    file: int
    bucket: str
    key: str
    size: int


class _Row(NamedTuple):
    file: int
    in_commit_ms: int | None
    line: str | None
    problem: str | None


def lines_of(files: DataFrame, clients: Clients) -> DataFrame:
    """LINE rows for rows of (file, bucket, key, size), in any order."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = _Reader(clients)
        asked = (Asked(**row) for batch in batches for row in batch.to_pylist())
        yield from _packed(reader.rows(asked))

    return files.select(*Asked._fields).mapInArrow(read, LINE)


class _Reader:
    """One task's clients: one per bucket, used by several threads."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._s3: dict[str, S3Client] = {}

    def rows(self, files: Iterable[Asked]) -> Iterator[_Row]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for group in _groups(files, _AT_ONCE):
                for file in group:
                    self._client(file.bucket)
                small = [file for file in group if file.size <= _SMALL]
                for found in pool.map(lambda file: list(self._rows_of(file)), small):
                    yield from found
                for file in group:
                    if file.size > _SMALL:
                        yield from self._rows_of(file)

    def _rows_of(self, file: Asked) -> Iterator[_Row]:
        try:
            yield from _rows(file.file, self._raw_lines(file))
        except FileNotFoundError:
            yield _Row(file.file, None, None, VANISHED)
        except OSError as error:
            yield _Row(file.file, None, None, UNREAD + (error.strerror or type(error).__name__).lower())
        except (ClientError, BotoCoreError) as error:
            gone = isinstance(error, ClientError) and is_missing(error)
            yield _Row(file.file, None, None, VANISHED if gone else UNREAD + explain(error)[0])

    def _raw_lines(self, file: Asked) -> Iterator[bytes]:
        if file.bucket == "":
            with Path(f"/{file.key}").open("rb") as opened:
                yield from opened
        else:
            body = self._client(file.bucket).get_object(Bucket=file.bucket, Key=file.key)["Body"]
            with closing(body):
                yield from body.iter_lines(chunk_size=_SMALL)

    def _client(self, bucket: str) -> "S3Client":
        if bucket and bucket not in self._s3:
            self._s3[bucket] = self._clients.s3(bucket)
        return self._s3[bucket] if bucket else None  # type: ignore[return-value]


def _rows(file: int, raw_lines: Iterable[bytes]) -> Iterator[_Row]:
    in_commit_ms = None
    for number, raw in enumerate(raw_lines):
        if not raw.strip():
            continue
        try:
            line = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            yield _Row(file, in_commit_ms, None, "a line of it is not UTF-8")
            continue
        if number == 0:
            in_commit_ms = in_commit_time(line)
        yield _Row(file, in_commit_ms, line, None)


def in_commit_time(first_line: str) -> int | None:
    """The inCommitTimestamp of a commit, in epoch ms: with that feature on, the first line is the commitInfo."""
    if '"inCommitTimestamp"' not in first_line:
        return None
    try:
        return int(json.loads(first_line)["commitInfo"]["inCommitTimestamp"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _groups(files: Iterable[Asked], size: int) -> Iterator[Sequence[Asked]]:
    group: list[Asked] = []
    for file in files:
        group.append(file)
        if len(group) == size:
            yield group
            group = []
    yield group


def _packed(rows: Iterable[_Row]) -> Iterator[pa.RecordBatch]:
    held: list[_Row] = []
    for row in rows:
        held.append(row)
        if len(held) == _ROWS:
            yield _batch(held)
            held = []
    yield _batch(held)


def _batch(rows: Sequence[_Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row._asdict() for row in rows], schema=_ARROW)

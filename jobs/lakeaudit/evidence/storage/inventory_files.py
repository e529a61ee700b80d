"""Finds and verifies the data files of an inventory report, on the executors.

A file is what its manifest says only with the same size and MD5. Where the store's ETag is that MD5
nothing is read; elsewhere (multipart or encrypted files, local folders) the file streams through MD5
once.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import SparkSession

from lakeaudit.evidence.storage.inventory_manifest import DataFile, Report, candidates
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients, explain, is_missing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CHUNK = 1 << 20
_ROWS = "number long, bucket string, key string, fault string"
_MISSING = "is missing"


@dataclass(frozen=True)
class Located:
    """One data file of a manifest: where it lies, or why it cannot be used."""

    file: DataFile
    place: Location | None
    fault: str | None


@dataclass(frozen=True)
class _Search:
    """One file to be sought; plain data that travels to the executors."""

    size: int
    md5: str
    candidates: tuple[Location, ...]


def locate(spark: SparkSession, clients: Clients, report: Report, parallelism: int) -> list[Located]:
    """Every data file of the report, verified, in the manifest's order."""
    files = report.manifest.files
    if not files:
        return []
    searches = [_Search(file.size, file.md5.lower(), tuple(candidates(report, file.key))) for file in files]
    tasks = spark.range(0, len(files), 1, min(len(files), parallelism * 4))
    answers = tasks.mapInArrow(partial(_search_each, clients, searches), _ROWS)
    # One row for each entry of the manifest, which the driver holds already; never a row per object.
    rows = {row["number"]: row for row in answers.collect()}
    return [
        Located(file, None, rows[i]["fault"])
        if rows[i]["fault"]
        else Located(file, Location(rows[i]["bucket"], rows[i]["key"]), None)
        for i, file in enumerate(files)
    ]


def _search_each(
    clients: Clients, searches: list[_Search], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    store = _Store(clients)
    for batch in batches:
        numbers = batch.column("id").to_pylist()
        found = [_first_match(store, searches[number]) for number in numbers]
        columns = [numbers, *([row[i] for row in found] for i in range(3))]
        types = [pa.int64(), pa.string(), pa.string(), pa.string()]
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, ["number", "bucket", "key", "fault"])


def _first_match(store: "_Store", search: _Search) -> tuple[str | None, str | None, str | None]:
    """(bucket, key, None) of the first candidate that is the file, or (None, None, what is wrong)."""
    fault = _MISSING
    for place in search.candidates:
        found = store.fault_of(place, search.size, search.md5)
        if found is None:
            return place.bucket, place.key, None
        fault = found if fault == _MISSING else fault
    return None, None, fault


class _Store:
    """Looks at single files, with one client for each bucket of a task."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._by_bucket: dict[str, S3Client] = {}

    def fault_of(self, place: Location, size: int, md5: str) -> str | None:
        """None where the file at `place` has this size and MD5 and Spark can read it, else what is wrong."""
        try:
            return self._mismatch(place, size, md5) or _unreadable(place)
        except FileNotFoundError:
            return _MISSING
        except ClientError as error:
            return _MISSING if is_missing(error) else explain(error)[0]
        except (BotoCoreError, OSError) as error:
            return explain(error)[0]

    def _mismatch(self, place: Location, size: int, md5: str) -> str | None:
        found, etag = _local_stat(place) if place.is_local else self._head(place)
        if found != size:
            return f"has {found} bytes and not {size}"
        if etag == md5:
            return None
        read = _md5(_local_chunks(place) if place.is_local else self._chunks(place))
        return None if read == md5 else f"has MD5 {read} and not {md5}"

    def _head(self, place: Location) -> tuple[int, str | None]:
        head = self._client(place.bucket).head_object(Bucket=place.bucket, Key=place.key)
        return head["ContentLength"], head["ETag"].strip('"')

    def _chunks(self, place: Location) -> Iterator[bytes]:
        body = self._client(place.bucket).get_object(Bucket=place.bucket, Key=place.key)["Body"]
        return body.iter_chunks(_CHUNK)

    def _client(self, bucket: str) -> "S3Client":
        if bucket not in self._by_bucket:
            self._by_bucket[bucket] = self._clients.s3(bucket)
        return self._by_bucket[bucket]


def _local_stat(place: Location) -> tuple[int, str | None]:
    path = Path(place.spark_path)
    if not path.is_file():
        raise FileNotFoundError(place.spark_path)
    return path.stat().st_size, None


def _local_chunks(place: Location) -> Iterator[bytes]:
    with Path(place.spark_path).open("rb") as content:
        yield from iter(lambda: content.read(_CHUNK), b"")


def _md5(chunks: Iterator[bytes]) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def _unreadable(place: Location) -> str | None:
    """Spark leaves out names that begin with `_` or `.`, and Hadoop folds doubled slashes, both in silence."""
    parts = place.key.split("/")
    if parts[-1].startswith(("_", ".")):
        return "has a name that Spark takes for hidden"
    odd = any(part in ("", ".", "..") for part in parts)
    return "has a key that a Hadoop path cannot hold" if odd else None

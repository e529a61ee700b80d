"""The data files of a DynamoDB export, checked on executors: MD5, gzip and number of items."""

import base64
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients, explain

CHUNK = 1 << 20


@dataclass(frozen=True)
class DataFile:
    """One data file: where it lies, how many items and which MD5 its manifest promises."""

    place: Location
    items: int
    md5: str

    @property
    def uri(self) -> str:
        return self.place.uri


def same_md5(digest: bytes, written: str) -> bool:
    """Whether a digest is the one written in base64 or hex."""
    text = written.strip().strip('"')
    try:
        return bytes.fromhex(text) == digest
    except ValueError:
        pass
    try:
        return base64.b64decode(text, validate=True) == digest
    except ValueError:
        return False


def faults(files: Sequence[DataFile], ctx: Context) -> dict[str, str]:
    """What is wrong with which data file (by URI); good ones are left out. One row per data file, not per item."""
    if not files:
        return {}
    rows = [(file.place.bucket, file.place.key, file.items, file.md5) for file in files]
    frame = ctx.spark.createDataFrame(rows, "bucket string, key string, items long, md5 string")
    tasks = min(len(files), max(ctx.parallelism, 1) * 4)
    check = partial(_check, clients=ctx.clients)
    found = frame.repartition(tasks).mapInArrow(check, "uri string, fault string").collect()
    return {row["uri"]: row["fault"] for row in found}


def _check(batches: Iterator[pa.RecordBatch], clients: Clients) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            file = DataFile(Location(row["bucket"], row["key"]), row["items"], row["md5"])
            fault = _fault(file, clients)
            if fault is not None:
                yield pa.RecordBatch.from_pydict({"uri": [file.uri], "fault": [fault]})


def _fault(file: DataFile, clients: Clients) -> str | None:
    try:
        with closing(_opened(file.place, clients)) as raw:
            digest, items = _digest_and_items(raw, zipped=file.place.key.endswith(".gz"))
    except (ClientError, BotoCoreError, OSError) as error:
        return f"cannot be read: {explain(error)[0]}"
    if not same_md5(digest, file.md5):
        return "its MD5 is not the one in the manifest"
    if items is None:
        return "is no whole gzip file"
    return None if items == file.items else f"holds {items} items, the manifest says {file.items}"


def _opened(place: Location, clients: Clients) -> Any:
    if place.is_local:
        return Path(place.spark_path).open("rb")
    return clients.s3(place.bucket).get_object(Bucket=place.bucket, Key=place.key)["Body"]


class _Hashing(io.RawIOBase):
    """Passes bytes on and keeps their MD5."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.md5 = hashlib.md5(usedforsecurity=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self.raw.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.md5.update(chunk)
        return len(chunk)


def _digest_and_items(raw: Any, *, zipped: bool) -> tuple[bytes, int | None]:
    """MD5 of the bytes as stored, and the number of lines in them (None: broken gzip)."""
    hashing = _Hashing(raw)
    stored = io.BufferedReader(hashing, CHUNK)
    text: Any = io.BufferedReader(gzip.GzipFile(fileobj=stored), CHUNK) if zipped else stored
    items: int | None
    try:
        items = sum(bool(line.strip()) for line in text)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        items = None
    while stored.read(CHUNK):
        pass
    return hashing.md5.digest(), items

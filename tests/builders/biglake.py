"""A lake of any size and what must be found in it, written in parts.

File i of the table is damaged by i modulo 20; everything else agrees. Inventory and export lie in local folders, the
Delta log on the S3 server; the files themselves exist in this evidence alone.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import delta_lake, inventory, s3guard
from tests.builders.delta_lake import Action
from tests.builders.inventory import Version

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

TABLE, ROOT = "events", "warehouse/events"
CHECKPOINT = 10
"""The version of the table's only checkpoint; the commits before it were cleaned up."""
COMMITS = 3
_PART = 50_000
_OLD = timedelta(days=30)

DROPPED, SIZE, STALE, HIDDEN = {0, 1, 2}, {3}, {4}, {5}
"""Numbers modulo 20: not in storage; another size there; another size in the metadata store; not in that store."""


@dataclass(frozen=True)
class BigLake:
    """A table of `files` files, in one bucket."""

    bucket: str
    files: int

    @property
    def days(self) -> int:
        return max(1, self.files // 2000)

    @property
    def strays(self) -> int:
        """Objects in storage that nobody lists."""
        return self.files // 100

    @property
    def expected(self) -> dict[str, int]:
        """Findings by kind."""
        places = {"dropped": DROPPED, "size_mismatch": SIZE, "metastore_stale": STALE, "hidden": HIDDEN}
        counts = {kind: sum(i % 20 in hit for i in range(self.files)) for kind, hit in places.items()}
        return counts | {"unreferenced": min(self.days, self.strays)}

    def dropped(self) -> Iterator[str]:
        """Keys that storage has lost."""
        return (f"{ROOT}/{self.path(i)}" for i in range(self.files) if i % 20 in DROPPED)

    def path(self, i: int) -> str:
        """Below the table's root."""
        return f"{self.day(i)}/part-{i:08d}-{_etag(i)}.c000.snappy.parquet"

    def day(self, i: int) -> str:
        return _day(i % self.days)

    def lay(self, s3: "S3Client", folder: Path) -> None:
        """Write all three sources; the inventory's scan begins when the log is at least a second old."""
        s3.create_bucket(Bucket=self.bucket)
        self._lay_log(s3, folder / "checkpoint.parquet")
        time.sleep(1.1)
        now = datetime.now(UTC)
        self._lay_inventory(folder / "inventory", now)
        self._lay_export(folder / "export", now)

    def lake_file(self, folder: Path, s3: Endpoint) -> Path:
        path = folder / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: big\nresults: {folder / 'results'}\n"
            f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: s3_inventory, location: {folder / 'inventory'}, margin: 0s}}]\n"
            f"metastores: [{{kind: s3guard, export: {folder / 'export'}, "
            f"location: 's3://{self.bucket}/warehouse/', ttl: none}}]\n"
            f"tables: [{{name: {TABLE}, location: 's3://{self.bucket}/{ROOT}', manifests: [{{kind: delta}}]}}]\n"
            "defaults: {grace: 0s, leftover_age: 0s, max_upload: 0s, confirm: {mode: none}}\n"
        )
        return path

    def _lay_log(self, s3: "S3Client", checkpoint: Path) -> None:
        """The newest files come by commits, the others by the checkpoint."""
        new = min(1000, self.files // 10)
        old = self.files - COMMITS * new
        self._write_checkpoint(checkpoint, old)
        name = f"{CHECKPOINT:020}.checkpoint.parquet"
        with checkpoint.open("rb") as body:
            s3.put_object(Bucket=self.bucket, Key=f"{ROOT}/_delta_log/{name}", Body=body)
        checkpoint.unlink()
        for number in range(COMMITS):
            adds = [self._add(i) for i in range(old + number * new, old + (number + 1) * new)]
            lines = [json.dumps(action) for action in (delta_lake.info(), *adds)]
            key = f"{ROOT}/_delta_log/{CHECKPOINT + 1 + number:020}.json"
            s3.put_object(Bucket=self.bucket, Key=key, Body="\n".join(lines).encode() + b"\n")

    def _write_checkpoint(self, path: Path, old: int) -> None:
        born = delta_lake.checkpoint_rows([delta_lake.protocol(), delta_lake.metadata("day")])
        with pq.ParquetWriter(path, born.schema) as writer:
            writer.write_table(born)
            for part in _parts(old):
                writer.write_table(delta_lake.checkpoint_rows([self._add(i) for i in part]))

    def _add(self, i: int) -> Action:
        day = self.day(i).removeprefix("day=")
        return delta_lake.add(self.path(i), partitionValues={"day": day}, size=_size(i))

    def _lay_inventory(self, folder: Path, now: datetime) -> None:
        parts = (self._stored(part, now - _OLD) for part in _parts(self.files))
        strays = [
            self._version(f"{self.day(i)}/stray-{i:08d}.parquet", self.files + i, 8192 + i, now - _OLD)
            for i in range(self.strays)
        ]
        log = self._version(f"_delta_log/{CHECKPOINT:020}.checkpoint.parquet", -1, 8192, now - _OLD)
        contents = [inventory.parquet(part, inventory.CURRENT) for part in ([*strays, log], *parts)]
        inventory.lay(
            inventory.into(folder),
            contents,
            form="Parquet",
            columns=inventory.CURRENT,
            at=now,
            source=self.bucket,
        )

    def _stored(self, part: range, when: datetime) -> list[Version]:
        return [
            self._version(self.path(i), i, _size(i) + (1 + i % 97 if i % 20 in SIZE else 0), when)
            for i in part
            if i % 20 not in DROPPED
        ]

    def _version(self, path: str, number: int, size: int, when: datetime) -> Version:
        return Version(
            f"{ROOT}/{path}", Size=size, LastModifiedDate=when, ETag=_etag(number), Bucket=self.bucket
        )

    def _lay_export(self, folder: Path, now: datetime) -> None:
        old = now - _OLD
        places = ["warehouse", ROOT, *(f"{ROOT}/{self.day(i)}" for i in range(self.days))]
        folders = [s3guard.folder(self.bucket, place, last_updated=old) for place in places]
        parts = (self._entries(part, old) for part in _parts(self.files))
        s3guard.export_parts(s3guard.into(folder), _chained([s3guard.marker(), *folders], parts), at=now)

    def _entries(self, part: range, when: datetime) -> list[s3guard.Item]:
        return [
            s3guard.file(
                self.bucket,
                f"{ROOT}/{self.path(i)}",
                _recorded_size(i),
                mod_time=when,
                last_updated=when,
                etag=_etag(i),
            )
            for i in part
            if i % 20 not in HIDDEN
        ]


def _size(i: int) -> int:
    return 8192 + i * 7919 % 1_000_003


def _recorded_size(i: int) -> int:
    """Return the size in the metadata store: that in storage, except for the planted errors."""
    return _size(i) + (1 + i % 97 if i % 20 in SIZE | STALE else 0)


def _etag(number: int) -> str:
    return hashlib.md5(str(number).encode()).hexdigest()


@cache
def _day(number: int) -> str:
    return f"day={datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=number):%Y-%m-%d}"


def _parts(count: int) -> Iterator[range]:
    for start in range(0, count, _PART):
        yield range(start, min(count, start + _PART))


def _chained(
    first: Sequence[s3guard.Item], rest: Iterator[list[s3guard.Item]]
) -> Iterator[Sequence[s3guard.Item]]:
    yield first
    yield from rest

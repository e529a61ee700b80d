"""A small real lake on the tests' S3 server: Delta tables written by delta-rs, and an inventory of its bucket."""

import json
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import inventory
from tests.builders.backdate import copy, present
from tests.builders.inventory import Version, deleted

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


@dataclass
class Shop:
    """One bucket with tables below `warehouse/` and inventory reports below `inventories/`."""

    s3: "S3Client"
    endpoint: Endpoint
    bucket: str
    tables: list[str] = field(default_factory=list)

    def write(self, table: str, *, commits: int = 2, days: Sequence[str] = DAYS, rows: int = 50) -> None:
        """A partitioned Delta table with one file a day and commit."""
        number = len(self.tables)
        for commit in range(commits):
            amounts = [number * 100_000 + commit * 1000 + n for n in range(len(days) * rows)]
            written = pa.table({"day": [day for day in days for _ in range(rows)], "amount": amounts})
            write_deltalake(
                f"s3://{self.bucket}/warehouse/{table}", written, mode="append", partition_by=["day"],
                storage_options=self.options,
            )  # fmt: skip
        if table not in self.tables:
            self.tables.append(table)

    def copy(self, template: str, *tables: str, own_ids: bool = False) -> None:
        """Tables that hold the same objects as one that was written; a copy takes a tenth of the time of a write.

        The template itself stays out of the lake file. With `own_ids` each has a table id of its own.
        """
        home = f"warehouse/{template}/"
        keys = present(self.bucket, home)
        for table in tables:
            for key in keys:
                to = f"warehouse/{table}/{key.removeprefix(home)}"
                if own_ids and key.endswith(f"/{0:020}.json"):
                    self._put_with_own_id(key, to)
                    continue
                copy(self.bucket, key, to)
        self.tables = [*(each for each in self.tables if each != template), *tables]

    def _put_with_own_id(self, key: str, to: str) -> None:
        """A copy of a table's first commit, with another table id."""
        lines = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read().splitlines()
        actions = [json.loads(line) for line in lines]
        for each in actions:
            if "metaData" in each:
                each["metaData"]["id"] = str(uuid.uuid4())
        self.s3.put_object(Bucket=self.bucket, Key=to, Body="\n".join(map(json.dumps, actions)).encode())

    @property
    def options(self) -> dict[str, str]:
        """delta-rs's way to the server."""
        return {
            "AWS_ENDPOINT_URL": str(self.endpoint.endpoint),
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def keys(self, table: str = "", ending: str = ".parquet") -> list[str]:
        """Keys of data files, in order."""
        found = present(self.bucket, f"warehouse/{table}")
        return [key for key in found if key.endswith(ending) and "_delta_log" not in key]

    def take_inventory(
        self,
        *,
        at: datetime | None = None,
        files: int = 1,
        under: str = "inventories",
        lacks: Collection[str] = (),
        all_versions: bool = False,
        listed: Sequence[Version] | None = None,
        **how: Any,
    ) -> inventory.ReportKeys:
        """Lay a report of the bucket as it is now; its scan begins when every object is at least a second old.

        Keys in `lacks` exist but are not in the report. `listed` has rows for it that were listed before.
        """
        if at is None:
            time.sleep(1.1)
        scan = at or datetime.now(UTC)
        if listed is not None:
            rows = [row for row in listed if row.Key not in lacks]
        else:
            rows = self.versions() if all_versions else self.objects(lacks)
        parts = [inventory.csv(rows[n::files]) for n in range(files)]
        put: Callable[[str, bytes], Any] = lambda key, body: self.s3.put_object(  # noqa: E731
            Bucket=self.bucket, Key=key, Body=body
        )
        return inventory.lay(put, parts, at=scan, under=under, source=self.bucket, **how)

    def objects(self, lacks: Collection[str] = ()) -> list[Version]:
        """Every object but these."""
        listed = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix="warehouse/")
        return [
            Version(e["Key"], None, Size=e["Size"], LastModifiedDate=e["LastModified"], ETag=e["ETag"].strip('"'),
                    Bucket=self.bucket)
            for page in listed for e in page.get("Contents", []) if e["Key"] not in lacks
        ]  # fmt: skip

    def versions(self) -> list[Version]:
        """Every version of every object, and every delete marker."""
        pages = list(
            self.s3.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix="warehouse/")
        )
        kept = [
            Version(v["Key"], v["VersionId"], v["IsLatest"], Size=v["Size"], LastModifiedDate=v["LastModified"],
                    ETag=v["ETag"].strip('"'), Bucket=self.bucket)
            for page in pages for v in page.get("Versions", [])
        ]  # fmt: skip
        gone = [
            deleted(m["Key"], m["VersionId"], m["LastModified"], latest=m["IsLatest"], bucket=self.bucket)
            for page in pages for m in page.get("DeleteMarkers", [])
        ]  # fmt: skip
        return [*kept, *gone]

    def lake(
        self,
        folder: "Path",
        *,
        extra: str = "",
        inventories: str | None = None,
        defaults: str = "grace: 0s, leftover_age: 0s, max_upload: 0s",
        tables: Sequence[str] | None = None,
    ) -> Lake:
        """The lake file of the shop, loaded."""
        report = f"[{{kind: s3_inventory, location: 's3://{self.bucket}/inventories/', margin: 0s}}]"
        entries = [f"- {{name: {name}, location: 's3://{self.bucket}/warehouse/{name}', manifests: [{{kind: delta}}]}}"
                   for name in self.tables] if tables is None else tables  # fmt: skip
        path = folder / "lake.yaml"
        listed = "\n  ".join(entries)
        path.write_text(
            f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
            f"s3: {{endpoint: '{self.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: {inventories or report}\ntables:\n  {listed}\ndefaults: {{{defaults}}}\n{extra}"
        )
        return load_lake(path, {})

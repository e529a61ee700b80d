"""One folder with two formats in a bucket: a Delta table by delta-rs, and an Iceberg table by PyIceberg at its root.

Each has files of its own, and the Iceberg table may also list those of the Delta table, as UniForm and XTable do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from lakeaudit.config import Lake, load_lake
from tests.builders.backdate import backdate
from tests.builders.shop import Shop

FOLDER = "warehouse/orders"
_SCHEMA = Schema(NestedField(1, "amount", LongType(), required=False))
_AT_ONCE = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
OLD = timedelta(days=2)


@dataclass
class TwoFormats:
    """The folder, its two writers, and what readers of either format get."""

    shop: Shop
    folder: str = FOLDER
    rows: int = 0
    debris: set[str] = field(default_factory=set)

    @property
    def uri(self) -> str:
        return f"s3://{self.shop.bucket}/{self.folder}"

    @cached_property
    def iceberg(self) -> Table:
        """Return the table; create it at the first call."""
        from pyiceberg.catalog.memory import InMemoryCatalog  # takes a second

        at = {
            "warehouse": f"s3://{self.shop.bucket}/warehouse",
            "s3.endpoint": str(self.shop.endpoint.endpoint),
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        }
        catalog = InMemoryCatalog("tests", **at)
        catalog.create_namespace("shop")
        return catalog.create_table("shop.orders", _SCHEMA, location=self.uri)

    def some_rows(self, number: int = 3) -> pa.Table:
        """Rows that nobody has written before."""
        self.rows += number
        return pa.table({"amount": pa.array(range(self.rows - number, self.rows), pa.int64())})

    def append_delta(self) -> None:
        write_deltalake(
            self.uri,
            self.some_rows(),
            mode="append",
            storage_options=self.shop.options,
            configuration=_AT_ONCE,
        )

    def append_iceberg(self) -> None:
        """A file of the Iceberg table alone."""
        self.iceberg.append(self.some_rows())

    def rewrite_delta(self) -> None:
        """All its rows in a new file, so that the old ones are removed."""
        table = self.delta
        rows = table.to_pyarrow_table()
        write_deltalake(table, rows, mode="overwrite", commit_properties=CommitProperties())

    def sync(self) -> None:
        """The Iceberg table lists what the Delta table does, too."""
        known = {task.file.file_path for task in self.iceberg.scan().plan_files()}
        new = sorted(set(self.delta_files) - known)
        if new:
            self.iceberg.add_files(new)

    def expire_iceberg(self) -> None:
        """Nothing but the newest snapshot is promised."""
        for snapshot in [*self.iceberg.snapshots()][:-1]:
            self.iceberg.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()

    def leave(self, name: str) -> str:
        """A file of a job that died, which no state ever lists; its key."""
        key = f"{self.folder}/part-{name}.parquet"
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=name.encode() * 100)
        self.debris.add(key)
        return key

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self.shop.options)

    @property
    def delta_files(self) -> Sequence[str]:
        return [uri.replace("s3a://", "s3://") for uri in self.delta.file_uris()]

    @property
    def keys(self) -> set[str]:
        """Keys of all data files."""
        pages = self.shop.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.shop.bucket, Prefix=f"{self.folder}/"
        )
        keys = {each["Key"] for page in pages for each in page.get("Contents", [])}
        return {key for key in keys if key.endswith(".parquet") and "/_delta_log/" not in key}

    @property
    def unlisted(self) -> set[str]:
        """Keys of data files that neither the Delta table nor a snapshot of the Iceberg table lists."""
        iceberg = self.iceberg.refresh()
        snapshots = [each.snapshot_id for each in iceberg.snapshots()]
        listed = {
            task.file.file_path for id_ in snapshots for task in iceberg.scan(snapshot_id=id_).plan_files()
        }
        listed |= set(self.delta_files)
        return {key for key in self.keys if f"s3://{self.shop.bucket}/{key}" not in listed}

    def read_delta(self) -> list[int]:
        """Return the files that its readers read."""
        return sorted(self.delta.to_pyarrow_table()["amount"].to_pylist())

    def read_iceberg(self) -> list[int]:
        """Return the files that its readers read, by the state that its catalog names."""
        return sorted(self.iceberg.refresh().scan().to_arrow()["amount"].to_pylist())

    def days_ago(self, age: timedelta = OLD) -> None:
        """Every object that has one version is so old."""
        at = datetime.now(UTC) - age
        listed: Any = self.shop.s3.get_paginator("list_objects_v2").paginate(Bucket=self.shop.bucket)
        for page in listed:
            for each in page.get("Contents", []):
                backdate(self.shop.bucket, each["Key"], at)

    def lake(self, folder: Path, *manifests: str) -> Lake:
        """The lake file, in which the folder has a table for each of these manifests: `orders`, then by their kind."""
        return lake_of(self.shop, folder, self.tables("orders", *manifests))

    def tables(self, name: str, *manifests: str) -> dict[str, tuple[str, str]]:
        """As `lake_of` takes them: a table for each of these manifests, the first one by the bare name."""
        names = [name, *(f"{name}_{kind}" for kind in manifests[1:])]
        return {each: (self.uri, kind) for each, kind in zip(names, manifests, strict=True)}


def lake_of(shop: Shop, folder: Path, tables: Mapping[str, tuple[str, str]]) -> Lake:
    """The lake file of tables of one bucket (by name: location, kind of manifest), loaded."""
    path, bucket = folder / "lake.yaml", shop.bucket
    entries = ", ".join(
        f"{{name: {name}, location: '{uri}', manifests: [{{kind: {kind}}}]}}"
        for name, (uri, kind) in tables.items()
    )
    path.write_text(
        f"version: 1\nlake: two\nresults: {folder / 'results'}\n"
        f"s3: {{endpoint: '{shop.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{bucket}/warehouse/'}}]\n"
        f"tables: [{entries}]\n"
        "defaults: {grace: 0s, leftover_age: 0s, max_upload: 0s, retention: 0s, min_duplicate_size: 1MiB}\n"
        f"quarantine: {{location: 's3://{bucket}/quarantine', keep: 30d}}\n"
    )
    return load_lake(path, {})

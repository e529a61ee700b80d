"""Iceberg tables on the tests' S3 server, written by PyIceberg, and how their lake is audited."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.backdate import backdate, delete, present, put
from tests.builders.iceberg_files import relocate

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SCHEMA = Schema(
    NestedField(1, "day", StringType(), required=False),
    NestedField(2, "amount", LongType(), required=False),
    NestedField(3, "on", DateType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))
NO_WAIT = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1MiB"


def rows(first: int = 0, days: Sequence[str] = ("2026-11-01", "2026-11-02"), each: int = 10) -> pa.Table:
    """Some rows of SCHEMA, `each` a day."""
    amounts = list(range(first, first + len(days) * each))
    return pa.table(
        {
            "day": [day for day in days for _ in range(each)],
            "amount": pa.array(amounts, pa.int64()),
            "on": pa.array([20_000] * len(amounts), pa.date32()),
        }
    )


@dataclass
class IcebergLake:
    """One bucket with Iceberg tables below `warehouse/`, and a listing of it as the storage snapshot."""

    s3: "S3Client"
    endpoint: Endpoint
    bucket: str
    tables: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        from pyiceberg.catalog.memory import InMemoryCatalog  # takes a second

        self.catalog = InMemoryCatalog(
            "tests",
            **{
                "warehouse": f"s3://{self.bucket}/warehouse",
                "s3.endpoint": str(self.endpoint.endpoint),
                "s3.access-key-id": "test",
                "s3.secret-access-key": "test",
                "s3.region": "us-east-1",
            },
        )
        self.catalog.create_namespace("shop")

    def table(
        self, name: str = "orders", *, version: int = 2, properties: Mapping[str, str] = MappingProxyType({})
    ) -> Table:
        """A table by day, with a file a day and append."""
        made = self.catalog.create_table(
            f"shop.{name}", SCHEMA, location=f"s3://{self.bucket}/warehouse/{name}", partition_spec=BY_DAY,
            properties={"format-version": str(version), **properties},
        )  # fmt: skip
        self.tables.append(name)
        for number in range(2):
            made.append(rows(number * 1000))
        return made

    def copy(self, template: str, *names: str) -> None:
        """Tables with the files of one that was made; a copy takes a third of the time.

        The template itself stays out of the lake file.
        """
        table, home = self.catalog.load_table(f"shop.{template}"), f"s3://{self.bucket}/warehouse/{template}"
        objects = {key: self.s3.get_object(Bucket=self.bucket, Key=key) for key in self.keys(f"/{template}/")}
        bodies = {key: each["Body"].read() for key, each in objects.items()}
        for name in names:
            to, sizes, own = home.removesuffix(template) + name, dict[str, int](), str(uuid4()).encode()
            # data files, then manifests, then the lists, which say how long these are, then the metadata
            for key in sorted(
                bodies, key=lambda key: (key.endswith(".json"), "/snap-" in key, ".avro" in key)
            ):
                body = relocate(bodies[key], home, to, sizes)
                if key.endswith(".json"):
                    body = body.replace(str(table.metadata.table_uuid).encode(), own)
                path = f"s3://{self.bucket}/{key}".replace(home, to)
                sizes[path] = len(body)
                at = path.removeprefix(f"s3://{self.bucket}/")
                put(self.bucket, at, body)
                backdate(self.bucket, at, objects[key]["LastModified"])  # no younger than its snapshot
            self.catalog.register_table(f"shop.{name}", table.metadata_location.replace(home, to))
        self.tables = [*(each for each in self.tables if each != template), *names]

    def keys(self, part: str = "/data/") -> list[str]:
        """Keys that have `part` somewhere, in order."""
        return [key for key in present(self.bucket, "warehouse/") if part in key]

    def required_keys(self, table: Table) -> set[str]:
        """Return the keys that retained snapshots list, according to PyIceberg."""
        files = {entry.data_file.file_path for one in table.metadata.snapshots for m in one.manifests(table.io)
                 for entry in m.fetch_manifest_entry(table.io, discard_deleted=True)}  # fmt: skip
        lists = {one.manifest_list for one in table.metadata.snapshots}
        manifests = {m.manifest_path for one in table.metadata.snapshots for m in one.manifests(table.io)}
        others = {key for key in self.keys() + self.keys(".avro") if f"/{table.name()[-1]}/" not in key}
        return {path.removeprefix(f"s3://{self.bucket}/") for path in files | lists | manifests} | others

    def drop(self, key: str) -> None:
        """Delete an object behind the table's back."""
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def lake(
        self, folder: Path, *, defaults: str = NO_WAIT, entries: Sequence[str] | None = None, extra: str = ""
    ) -> Lake:
        """The lake file, loaded."""
        listed = entries or [
            f"{{name: {name}, location: 's3://{self.bucket}/warehouse/{name}', manifests: [{{kind: iceberg}}]}}"
            for name in self.tables
        ]
        path = folder / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
            f"s3: {{endpoint: '{self.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: 's3://{self.bucket}/warehouse/'}}]\n"
            f"tables: [{', '.join(listed)}]\ndefaults: {{{defaults}}}\n{extra}"
        )
        return load_lake(path, {})


BY_SPARK = "by-spark"
PACKED = Path(__file__).parents[1] / "data" / "iceberg" / "by_spark.zip"


@contextmanager
def tables_of_spark(s3: "S3Client", names: Sequence[str]) -> Iterator[None]:
    """Some tables of tests/data/iceberg in their bucket, each object as old as it was, until they are taken away."""
    s3.create_bucket(Bucket=BY_SPARK)
    with zipfile.ZipFile(PACKED) as packed:
        for info in packed.infolist():
            if not any(f"/{name}/" in info.filename or f"_of_{name}/" in info.filename for name in names):
                continue
            put(BY_SPARK, info.filename, packed.read(info))
            backdate(BY_SPARK, info.filename, datetime.fromisoformat(info.comment.decode()))
    yield
    for key in present(BY_SPARK, ""):
        delete(BY_SPARK, key)
    s3.delete_bucket(Bucket=BY_SPARK)


def lake_by_spark(folder: Path, s3: Endpoint, names: Sequence[str]) -> Lake:
    """The lake file of some of them, loaded."""
    entries = ", ".join(
        f"{{name: {name}, location: 's3://{BY_SPARK}/wh/s/{name}', manifests: [{{kind: iceberg}}]}}"
        for name in names
    )
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: spark\nresults: {folder / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{BY_SPARK}/wh/'}}]\n"
        f"tables: [{entries}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    return load_lake(path, {})

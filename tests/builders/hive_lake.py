"""A bucket with plain Hive tables, the Glue catalog that names them, and the lake file of both."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.backdate import backdate
from tests.builders.glue import GlueCatalog
from tests.conftest import Aws

WEEK = datetime.now(UTC) - timedelta(days=7)


class HiveLake:
    """A bucket with plain tables, and a catalog that names them: Glue's, or a stand-in for a Hive Metastore."""

    def __init__(
        self, aws: Aws, clients: Clients, s3: Endpoint, bucket: str, folder: Path, catalog: Any = None
    ) -> None:
        self.s3, self.endpoint, self.bucket, self.folder = aws.s3, s3, bucket, folder
        self.catalog = catalog or GlueCatalog(clients, bucket.replace("-", "_"))
        self.tables: list[str] = []

    def put(self, key: str, body: bytes = b"rows", at: datetime = WEEK) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)
        backdate(self.bucket, key, at)

    def uri(self, key: str, scheme: str = "s3") -> str:
        return f"{scheme}://{self.bucket}/{key}"

    def table(self, name: str, *columns: str, **catalog: Any) -> str:
        """A plain table of the lake file, and of the catalog; gives its folder."""
        self.tables.append(name)
        self.catalog.table(name, self.uri(f"wh/{name}"), columns, **catalog)
        return f"wh/{name}"

    def partition(
        self,
        table: str,
        values: list[str],
        key: str,
        *,
        files: bool = True,
        at: datetime = WEEK,
        **given: Any,
    ) -> None:
        self.catalog.partition(table, values, self.uri(key), at, **given)
        if files:
            self.put(f"{key.rstrip('/')}/part-0.parquet")

    def lake(self, more: str = "", metastores: str = "") -> Lake:
        tables = [
            name if name.startswith("{") else f"{{name: {name}, location: '{self.uri(f'wh/{name}')}'}}"
            for name in self.tables
        ]
        path = self.folder / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: plain\nresults: {self.folder / 'results'}\n"
            f"s3: {{endpoint: '{self.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: '{self.uri('wh/')}'}}]\n"
            f"metastores: [{metastores or self.glue()}]\ntables: [{', '.join(tables)}]\n{more}"
        )
        return load_lake(path, {})

    def glue(self) -> str:
        return f"{{kind: glue, databases: [{self.catalog.database}]}}"


def break_orders(hive: HiveLake, table: str = "orders") -> None:
    """A table with a folder that nobody registered, and a partition without files."""
    orders = hive.table(table, "day")
    for day in ("2026-11-01", "2026-11-02"):
        hive.partition(table, [day], f"{orders}/day={day}")
    hive.put(f"{orders}/day=2026-11-03/part-0.parquet", b"lost to readers")
    hive.partition(table, ["2026-11-04"], f"{orders}/day=2026-11-04/", files=False)

"""Tables and partitions of a Glue Data Catalog on the tests' own server, as Hive, Athena and crawlers enter them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lakeaudit.runtime.connections.aws import Clients

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class GlueCatalog:
    """One database, which is new."""

    def __init__(self, clients: Clients, database: str) -> None:
        self.glue, self.database = clients.glue(), database
        self.glue.create_database(DatabaseInput={"Name": database})

    def table(
        self,
        name: str,
        location: str,
        columns: Sequence[str] = (),
        parameters: Mapping[str, str] | None = None,
        input_format: str = PARQUET,
        **more: Any,
    ) -> str:
        """A table that was entered long ago; gives its name with the database's."""
        descriptor: Any = {"Location": location, "InputFormat": input_format, "Columns": []}
        keys: Any = [{"Name": column, "Type": "string"} for column in columns]
        given: Any = {
            "Name": name, "StorageDescriptor": descriptor, "PartitionKeys": keys,
            "Parameters": dict(parameters or {}), "TableType": "EXTERNAL_TABLE", **more,
        }  # fmt: skip
        self.glue.create_table(DatabaseName=self.database, TableInput=given)
        self._stored(name).created_time = LONG_AGO
        return f"{self.database}.{name}"

    def partition(
        self,
        table: str,
        values: Sequence[str],
        location: str,
        at: datetime = LONG_AGO,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """A partition that was entered at that time."""
        self.glue.create_partition(
            DatabaseName=self.database,
            TableName=table,
            PartitionInput={
                "Values": list(values),
                "StorageDescriptor": {"Location": location},
                "Parameters": dict(parameters or {}),
            },
        )
        self._stored(table).partitions[str(list(values))].creation_time = at

    def _stored(self, table: str) -> Any:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.glue.models import glue_backends

        return glue_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].databases[self.database].tables[table]

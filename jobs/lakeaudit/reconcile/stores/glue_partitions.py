"""Read and write partitions in Glue's Data Catalog (Glue API: GetPartition, CreatePartition, DeletePartition)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lakeaudit.evidence.catalog.glue import Glue
from lakeaudit.evidence.catalog.glue.permissions import on_tables_of
from lakeaudit.evidence.catalog.hive_tables import format_of, hive_table, location_of
from lakeaudit.formatting import iso
from lakeaudit.grants import Grant
from lakeaudit.reconcile.stores.partition_store import CatalogTable, Occupied, Partition
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import code_of
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint

if TYPE_CHECKING:
    from mypy_boto3_glue import GlueClient

_GONE = "EntityNotFoundException"
_THERE = "AlreadyExistsException"


_OPERATIONS = (
    "GetTable",
    "GetPartition",
    "GetPartitions",
    "CreatePartition",
    "UpdatePartition",
    "DeletePartition",
)


def glue_partition_grant(source: Glue) -> Grant:
    """Return the grant of the requests of `GluePartitions`."""
    return on_tables_of(source, "RepairPartitions", _OPERATIONS)


@dataclass(frozen=True)
class GluePartitions:
    """See `partition_store.PartitionStore`."""

    client: "GlueClient"
    of: Mapping[str, Any]
    """DatabaseName and TableName, and the account if the lake file names it."""

    @classmethod
    def of_table(cls, source: Glue, clients: Clients, table: str) -> "GluePartitions":
        """Return the partitions of a table by its name in the catalog."""
        database, _, name = table.partition(".")
        account = {"CatalogId": source.catalog_id} if source.catalog_id else {}
        client = clients.glue(dynamodb_endpoint(source.way))
        return cls(client, {"DatabaseName": database, "TableName": name, **account})

    @property
    def name(self) -> str:
        return f"glue:{self.of.get('CatalogId', '')}:{self.of['DatabaseName']}.{self.of['TableName']}"

    def table(self) -> CatalogTable | None:
        of = {**self.of, "Name": self.of["TableName"]}
        del of["TableName"]
        try:
            table: Any = required(self.client.get_table(**of), "Table")
        except ClientError as error:
            if code_of(error) == _GONE:
                return None
            raise
        parameters, descriptor = table.get("Parameters") or {}, table.get("StorageDescriptor") or {}
        serde = (descriptor.get("SerdeInfo") or {}).get("Parameters") or {}
        plain = format_of(parameters, descriptor.get("InputFormat") or "") == "hive"
        return CatalogTable(
            str(table.get("CreateTime", "")),
            tuple(each["Name"] for each in table.get("PartitionKeys") or ()),
            location_of(descriptor.get("Location", ""), serde),
            descriptor,
            plain and not hive_table(parameters).projected,
        )

    def partition(self, values: Sequence[str]) -> Partition | None:
        try:
            return _plain(
                required(self.client.get_partition(**self.of, PartitionValues=[*values]), "Partition")
            )
        except ClientError as error:
            if code_of(error) == _GONE:
                return None
            raise

    def any_partition(self) -> tuple[Sequence[str], Partition] | None:
        partitions: Any = required(self.client.get_partitions(**self.of, MaxResults=1), "Partitions")
        return next(((required(each, "Values"), _plain(each)) for each in partitions), None)

    def enter(self, values: Sequence[str], partition: Partition) -> None:
        try:
            self.client.create_partition(**self.of, PartitionInput=_partition_input(values, partition))
        except ClientError as error:
            if code_of(error) == _THERE:
                raise Occupied from error
            raise

    def replace(self, values: Sequence[str], partition: Partition) -> None:
        self.client.update_partition(
            **self.of, PartitionValueList=[*values], PartitionInput=_partition_input(values, partition)
        )

    def remove(self, values: Sequence[str]) -> None:
        self.client.delete_partition(**self.of, PartitionValues=[*values])

    def at_location(self, descriptor: Any, location: str) -> Any:
        return {**descriptor, "Location": location}


def _plain(partition: Any) -> Partition:
    descriptor, entered = partition.get("StorageDescriptor") or {}, partition.get("CreationTime")
    return {
        "location": descriptor.get("Location", ""),
        "descriptor": descriptor,
        "parameters": partition.get("Parameters") or {},
        "entered": iso(entered) if entered else "",
    }


def _partition_input(values: Sequence[str], partition: Partition) -> Any:
    return {
        "Values": [*values],
        "StorageDescriptor": partition["descriptor"],
        "Parameters": dict(partition["parameters"]),
    }

"""Read and write partitions in a Hive Metastore (Hive's `hive_metastore.thrift`: add_partition, alter, drop).

Files do not change: a partition is dropped with `deleteData` false. If the folder of a new partition does not exist,
the metastore creates it, as for every writer; on S3 that may be an empty marker object.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.hive import reader as hive
from lakeaudit.evidence.catalog.hive_tables import format_of, hive_table, location_of
from lakeaudit.evidence.catalog.http import NotThere
from lakeaudit.evidence.catalog.metastore_client import AlreadyThere, MetastoreClient
from lakeaudit.reconcile.stores.partition_store import CatalogTable, Occupied, Partition

_DDL_TIME = "transient_lastDdlTime"


@dataclass(frozen=True)
class HivePartitions:
    """See `partition_store.PartitionStore`; every request has a connection of its own, so that threads may share it."""

    source: Hive
    database: str
    of: str

    @classmethod
    def of_table(cls, source: Hive, table: str) -> "HivePartitions":
        """Return the partitions of a table by its name in the catalog."""
        return cls(source, *hive.database_and_table(table))

    @property
    def name(self) -> str:
        return f"hive:{self.source.uri}:{self.database}.{self.of}"

    def table(self) -> CatalogTable | None:
        try:
            with MetastoreClient(self.source) as metastore:
                table = hive.get_table(metastore, self.database, self.of)
        except NotThere:
            return None
        parameters = table.parameters or {}
        serde = (table.sd.serdeInfo.parameters if table.sd.serdeInfo else None) or {}
        plain = format_of(parameters, table.sd.inputFormat or "") == "hive"
        return CatalogTable(
            f"{table.createTime}",
            tuple(column.name for column in table.partitionKeys or ()),
            location_of(table.sd.location or "", serde),
            _as_text(table.sd),
            plain and not hive_table(parameters).projected,
        )

    def partition(self, values: Sequence[str]) -> Partition | None:
        try:
            with MetastoreClient(self.source) as metastore:
                return _plain(
                    metastore.ask(lambda thrift: thrift.get_partition(self.database, self.of, [*values]))
                )
        except NotThere:
            return None

    def any_partition(self) -> tuple[Sequence[str], Partition] | None:
        with MetastoreClient(self.source) as metastore:
            names = metastore.ask(lambda thrift: thrift.get_partition_names(self.database, self.of, 1))
            partitions: list[Any] = names and metastore.ask(
                lambda thrift: thrift.get_partitions_by_names(self.database, self.of, names[:1])
            )
        return next(((each.values, _plain(each)) for each in partitions), None)

    def enter(self, values: Sequence[str], partition: Partition) -> None:
        new = self._thrift_partition(values, partition)
        try:
            with MetastoreClient(self.source) as metastore:
                metastore.change(
                    lambda thrift: thrift.add_partition_with_environment_context(new, _no_statistics())
                )
        except AlreadyThere as error:
            raise Occupied from error

    def replace(self, values: Sequence[str], partition: Partition) -> None:
        new = self._thrift_partition(values, partition)
        with MetastoreClient(self.source) as metastore:
            metastore.change(
                lambda thrift: thrift.alter_partitions_with_environment_context(
                    self.database, self.of, [new], _no_statistics()
                )
            )

    def remove(self, values: Sequence[str]) -> None:
        with MetastoreClient(self.source) as metastore:
            metastore.change(lambda thrift: thrift.drop_partition(self.database, self.of, [*values], False))

    def at_location(self, descriptor: Any, location: str) -> Any:
        moved = _of_text(descriptor)
        moved.location = location
        return _as_text(moved)

    def _thrift_partition(self, values: Sequence[str], partition: Partition) -> Any:
        from hive_metastore import ttypes

        return ttypes.Partition(
            values=[*values], dbName=self.database, tableName=self.of, createTime=0, lastAccessTime=0,
            sd=_of_text(partition["descriptor"]), parameters=dict(partition["parameters"]),
        )  # fmt: skip


def _no_statistics() -> Any:
    """Return the context that stops the metastore from counting the folder's files and storing the counts."""
    from hive_metastore.ttypes import EnvironmentContext

    return EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})


def _plain(partition: Any) -> Partition:
    parameters = partition.parameters or {}
    return {
        "location": partition.sd.location or "",
        "descriptor": _as_text(partition.sd),
        "parameters": {name: value for name, value in sorted(parameters.items()) if name != _DDL_TIME},
        "entered": f"{partition.createTime}",
    }


def _as_text(descriptor: Any) -> str:
    """Return a StorageDescriptor as Thrift's JSON without a loss, its maps sorted."""
    from thrift.protocol.TJSONProtocol import TJSONProtocolFactory
    from thrift.TSerialization import serialize

    for holder in (descriptor, descriptor.serdeInfo):
        if holder is not None and holder.parameters is not None:
            holder.parameters = dict(sorted(holder.parameters.items()))
    return str(serialize(descriptor, TJSONProtocolFactory()), "utf-8")


def _of_text(text: str) -> Any:
    from hive_metastore.ttypes import StorageDescriptor
    from thrift.protocol.TJSONProtocol import TJSONProtocolFactory
    from thrift.TSerialization import deserialize

    return deserialize(StorageDescriptor(), text.encode(), TJSONProtocolFactory())

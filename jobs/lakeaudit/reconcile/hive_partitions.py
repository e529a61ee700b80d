"""Partitions of a table of a Hive Metastore (Hive's `hive_metastore.thrift`: add_partition, alter, drop).

Files are never touched: a partition is dropped with `deleteData` false. Where one is entered whose folder is not there,
the metastore makes the folder, as it does for every writer; on S3 that may be an empty marker object.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.hive import reader as hive
from lakeaudit.evidence.catalog.hive_tables import format_of, hive_table, location_of
from lakeaudit.evidence.catalog.http import NotThere
from lakeaudit.evidence.catalog.metastore_client import AlreadyThere, MetastoreClient
from lakeaudit.reconcile.partition_store import Occupied, Partition, TableSeen

_DDL_TIME = "transient_lastDdlTime"


@dataclass(frozen=True)
class HivePartitions:
    """See `partition_store.PartitionStore`; every request has a connection of its own, so that threads may share it."""

    source: Hive
    database: str
    of: str

    @classmethod
    def opened(cls, source: Hive, table: str) -> "HivePartitions":
        """Of a table by its name in the catalog."""
        return cls(source, *hive.database_and_table(table))

    @property
    def name(self) -> str:
        return f"hive:{self.source.uri}:{self.database}.{self.of}"

    def table(self) -> TableSeen | None:
        try:
            with MetastoreClient(self.source) as metastore:
                told = hive.get_table(metastore, self.database, self.of)
        except NotThere:
            return None
        words = told.parameters or {}
        serde = (told.sd.serdeInfo.parameters if told.sd.serdeInfo else None) or {}
        plain = format_of(words, told.sd.inputFormat or "") == "hive"
        return TableSeen(
            f"{told.createTime}",
            tuple(column.name for column in told.partitionKeys or ()),
            location_of(told.sd.location or "", serde),
            _as_text(told.sd),
            plain and not hive_table(words).projected,
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
            found: list[Any] = names and metastore.ask(
                lambda thrift: thrift.get_partitions_by_names(self.database, self.of, names[:1])
            )
        return next(((each.values, _plain(each)) for each in found), None)

    def enter(self, values: Sequence[str], partition: Partition) -> None:
        made = self._made(values, partition)
        try:
            with MetastoreClient(self.source) as metastore:
                metastore.change(
                    lambda thrift: thrift.add_partition_with_environment_context(made, _as_it_is())
                )
        except AlreadyThere as error:
            raise Occupied from error

    def replace(self, values: Sequence[str], partition: Partition) -> None:
        made = self._made(values, partition)
        with MetastoreClient(self.source) as metastore:
            metastore.change(
                lambda thrift: thrift.alter_partitions_with_environment_context(
                    self.database, self.of, [made], _as_it_is()
                )
            )

    def remove(self, values: Sequence[str]) -> None:
        with MetastoreClient(self.source) as metastore:
            metastore.change(lambda thrift: thrift.drop_partition(self.database, self.of, [*values], False))

    def placed(self, descriptor: Any, location: str) -> Any:
        found = _of_text(descriptor)
        found.location = location
        return _as_text(found)

    def _made(self, values: Sequence[str], partition: Partition) -> Any:
        from hive_metastore import ttypes

        return ttypes.Partition(
            values=[*values], dbName=self.database, tableName=self.of, createTime=0, lastAccessTime=0,
            sd=_of_text(partition["descriptor"]), parameters=dict(partition["parameters"]),
        )  # fmt: skip


def _as_it_is() -> Any:
    """Without it the metastore counts the folder's files, and writes that it did."""
    from hive_metastore.ttypes import EnvironmentContext

    return EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})


def _plain(told: Any) -> Partition:
    parameters = told.parameters or {}
    return {
        "location": told.sd.location or "",
        "descriptor": _as_text(told.sd),
        "parameters": {name: value for name, value in sorted(parameters.items()) if name != _DDL_TIME},
        "entered": f"{told.createTime}",
    }


def _as_text(descriptor: Any) -> str:
    """A StorageDescriptor in Thrift's JSON, maps in order; nothing of it is lost."""
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

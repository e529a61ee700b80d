"""Writes `by_spark.zip`: Iceberg tables as the Iceberg runtime for Spark leaves them, healthy all of them.

Run by hand where it has to be made again, with the runtime's jar (org.apache.iceberg:iceberg-spark-runtime-4.1_2.13):

    python -m tests.data.iceberg.make iceberg-spark-runtime-4.1_2.13-1.11.0.jar

The tables lie in the bucket `by-spark`, below `wh/`; every object keeps the time it was written at.
"""

import os
import sys
import zipfile
from datetime import UTC
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakeaudit.demo.server import moto
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.session import build_session

BUCKET = "by-spark"
TO = Path(__file__).with_name("by_spark.zip")
_COLUMNS = "(id BIGINT, day STRING, ts TIMESTAMP)"
_ROWS = "SELECT id, day, ts FROM new"
_NEW = """SELECT id, '2026-11-0' || (id % 2 + 1) AS day,
    TIMESTAMP '2026-11-01 10:00:00' + make_interval(0, 0, 0, id) AS ts FROM range(10)"""

STATEMENTS: dict[str, tuple[str, ...]] = {
    "merge_on_read": (
        (
            "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ('format-version'='2',"
            " 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"
        ),
        "INSERT INTO {t} {rows}",
        "INSERT INTO {t} {rows}",
        "DELETE FROM {t} WHERE id = 3",
        "UPDATE {t} SET id = 1000 WHERE id = 4",
        "CALL c.system.rewrite_position_delete_files(table => 's.{name}', options => map('rewrite-all','true'))",
    ),
    "vectors": (
        (
            "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ('format-version'='3',"
            " 'write.delete.mode'='merge-on-read')"
        ),
        "INSERT INTO {t} {rows}",
        "INSERT INTO {t} {rows}",
        "DELETE FROM {t} WHERE id % 5 = 3",
        "DELETE FROM {t} WHERE id = 4",
    ),
    "first_version": (
        "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ('format-version'='1')",
        "INSERT INTO {t} {rows}",
        "INSERT OVERWRITE {t} {rows}",
        "DELETE FROM {t} WHERE id = 3",
    ),
    "upgraded": (
        "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ('format-version'='1')",
        "INSERT INTO {t} {rows}",
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
        "INSERT INTO {t} {rows}",
        "DELETE FROM {t} WHERE day = '2026-11-01'",
    ),
    "compacted": (
        "CREATE TABLE {t} {columns} PARTITIONED BY (day)",
        "INSERT INTO {t} {rows}",
        "INSERT INTO {t} {rows}",
        "CALL c.system.rewrite_data_files(table => 's.{name}', options => map('rewrite-all','true'))",
        "CALL c.system.rewrite_manifests('s.{name}')",
        "CALL c.system.compute_table_stats(table => 's.{name}')",
        "CALL c.system.compute_partition_stats(table => 's.{name}')",
    ),
    "expired": (
        (
            "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ("
            "'write.metadata.delete-after-commit.enabled'='true', 'write.metadata.previous-versions-max'='2')"
        ),
        "INSERT INTO {t} {rows}",
        "DELETE FROM {t} WHERE day = '2026-11-01'",
        "INSERT OVERWRITE {t} {rows}",
        (
            "CALL c.system.expire_snapshots(table => 's.{name}', older_than => TIMESTAMP '2100-01-01 00:00:00',"
            " retain_last => 1)"
        ),
    ),
    "branches": (
        "CREATE TABLE {t} {columns} PARTITIONED BY (day)",
        "INSERT INTO {t} {rows}",
        "ALTER TABLE {t} CREATE TAG v1",
        "ALTER TABLE {t} CREATE BRANCH dev",
        "INSERT INTO {t}.branch_dev {rows}",
        "INSERT OVERWRITE {t} {rows}",
        "CALL c.system.rollback_to_snapshot('s.{name}', {first})",
        "INSERT INTO {t} {rows}",
    ),
    "staged": (
        "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ('write.wap.enabled'='true')",
        "INSERT INTO {t} {rows}",
        "SET spark.wap.id = audit-1",
        "INSERT INTO {t} {rows}",
        "RESET spark.wap.id",
        "INSERT INTO {t} {rows}",
        "CALL c.system.publish_changes('s.{name}', 'audit-1')",
        "SET spark.wap.id = audit-2",
        "INSERT INTO {t} {rows}",
        "RESET spark.wap.id",
    ),
    "elsewhere": (
        (
            "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ("
            "'write.data.path'='s3a://by-spark/wh/data_of_elsewhere', 'write.object-storage.enabled'='true')"
        ),
        "INSERT INTO {t} {rows}",
        "INSERT INTO {t} {rows}",
    ),
    "transforms": (
        "CREATE TABLE {t} {columns} PARTITIONED BY (days(ts), bucket(2, id), truncate(4, day))",
        "INSERT INTO {t} {rows}",
        "ALTER TABLE {t} DROP PARTITION FIELD truncate(4, day)",
        "INSERT INTO {t} VALUES (1, NULL, NULL), (2, 'a b/c%d:e+f=g', TIMESTAMP '2026-11-03 05:00:00')",
        "ALTER TABLE {t} ADD PARTITION FIELD day",
        "INSERT INTO {t} VALUES (1, NULL, NULL), (2, 'a b/c%d:e+f=g', TIMESTAMP '2026-11-03 05:00:00')",
    ),
    "merged": (
        (
            "CREATE TABLE {t} {columns} PARTITIONED BY (day) TBLPROPERTIES ("
            "'commit.manifest.min-count-to-merge'='2')"
        ),
        *("INSERT INTO {t} {rows}",) * 4,
    ),
    "replaced": (
        "CREATE TABLE {t} {columns} PARTITIONED BY (day)",
        "INSERT INTO {t} {rows}",
        "CREATE OR REPLACE TABLE {t} USING iceberg AS {rows}",
    ),
    "truncated": (
        "CREATE TABLE {t} {columns}",
        "INSERT INTO {t} {rows}",
        "TRUNCATE TABLE {t}",
    ),
    "empty": ("CREATE TABLE {t} {columns}",),
}
"""By table what is done to it, one after the other; `first` is its first snapshot."""


def main(jar: str) -> None:
    with moto() as endpoint:
        s3 = Clients(endpoint).s3(BUCKET)
        s3.create_bucket(Bucket=BUCKET)
        spark = build_session("make", s3=endpoint, small=True, extra=_settings(jar))
        spark.sql(_NEW).coalesce(1).createOrReplaceTempView("new")
        for name, statements in STATEMENTS.items():
            _write(spark, name, statements)
        spark.stop()
        _pack(s3)


def _settings(jar: str) -> dict[str, str]:
    return {
        "spark.master": "local[1]",
        "spark.driver.extraClassPath": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.c.type": "jdbc",
        "spark.sql.catalog.c.uri": "jdbc:derby:memory:catalog;create=true",
        "spark.sql.catalog.c.warehouse": f"s3a://{BUCKET}/wh",
        "spark.sql.catalog.c.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    }


def _write(spark: SparkSession, name: str, statements: tuple[str, ...]) -> None:
    table = f"c.s.{name}"
    first: Any = None
    for statement in statements:
        if "{first}" in statement:
            first = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").first()[0]  # type: ignore[index]
        text = statement.replace("{rows}", _ROWS).replace("{columns}", _COLUMNS)
        print(name, text[:90], flush=True)  # noqa: T201
        spark.sql(text.format(t=table, name=name, first=first)).collect()


def _pack(s3: Any) -> None:
    """Every object with its time: the zip's own have no zone and two seconds, so it stands in the comment."""
    with zipfile.ZipFile(TO, "w", zipfile.ZIP_DEFLATED) as packed:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            for each in page.get("Contents", []):
                info = zipfile.ZipInfo(each["Key"])
                info.compress_type = zipfile.ZIP_DEFLATED
                info.comment = each["LastModified"].astimezone(UTC).isoformat().encode()
                packed.writestr(info, s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read())


if __name__ == "__main__":
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    main(sys.argv[1])

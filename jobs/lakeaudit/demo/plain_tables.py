"""Writes the demo's plain tables: Parquet and other files, with the lists of their writers."""

import hashlib
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeaudit.demo.server import LAKE
from lakeaudit.demo.tables import CLICKS, ERRORS, EVENTS, EXPORTS, LEDGER, DemoTable
from lakeaudit.emit import WrittenFile, emit
from lakeaudit.runtime.connections.aws import Clients

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DAYS = ("2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05")


def build_plain(clients: Clients) -> None:
    """Write all tables without a table format that Spark did not write."""
    s3 = clients.s3(LAKE)
    noise = random.Random(7)  # noqa: S311 - bytes to fill files with
    record(
        clients,
        ERRORS,
        [_put(s3, f"{ERRORS.location}/errors-{n}.json", noise.randbytes(4500)) for n in range(8)],
    )
    clicks = [f"{CLICKS.location}/{day}/clicks-{n}.json.gz" for day in DAYS[:3] for n in range(6)]
    record(clients, CLICKS, [_put(s3, key, noise.randbytes(5000)) for key in clicks])
    for key in (f"{EXPORTS.location}/day={day}/export-{n}.csv" for day in DAYS[:3] for n in range(8)):
        _put(s3, key, noise.randbytes(4600))
    for n in range(6):
        _put(s3, f"{LEDGER.location}/ledger-{n}.csv", noise.randbytes(4200))


def events(spark: SparkSession, clients: Clients) -> None:
    """Write Parquet by Spark to a local folder, upload it, and record size, ETag, MD5 and rows of each file."""
    days = F.array(*[F.lit(day) for day in DAYS])
    rows = spark.range(2000).select("id", F.sha2(F.col("id").cast("string"), 256).alias("payload"),
                                    F.element_at(days, (F.col("id") % 5 + 1).cast("int")).alias("day"))  # fmt: skip
    with TemporaryDirectory(prefix="lakeaudit-demo-") as folder:
        rows.repartition(8).write.mode("overwrite").partitionBy("day").parquet(folder)
        files = sorted(Path(folder).rglob("*.parquet"))
        s3 = clients.s3(LAKE)
        record(
            clients,
            EVENTS,
            [_upload(s3, path, f"{EVENTS.location}/{path.relative_to(folder)}") for path in files],
        )


def record(clients: Clients, table: DemoTable, files: Iterable[WrittenFile]) -> None:
    """Write the list of one job."""
    emit(
        f"s3://{LAKE}/{table.lists}",
        files,
        job_id=f"load-{table.name}",
        committed_at=datetime.now(UTC),
        clients=clients,
    )


def _upload(s3: "S3Client", path: Path, key: str) -> WrittenFile:
    return _put(s3, key, path.read_bytes(), pq.read_metadata(path).num_rows)


def _put(s3: "S3Client", key: str, body: bytes, records: int | None = None) -> WrittenFile:
    answer = s3.put_object(Bucket=LAKE, Key=key, Body=body)
    checksum = f"md5:{hashlib.md5(body, usedforsecurity=False).hexdigest()}"
    return WrittenFile(key, len(body), answer["ETag"].strip('"'), checksum=checksum, records=records)

"""Reads the same files as an audit with bare Spark, and computes one hash of each source.

usage: python -m tests.bench.spark_pass FOLDER    (a folder of `lake.lake_folder`)
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.bench.spark_session import started

_TEXT, _NUMBER, _FLAG = "struct<S:string>", "struct<N:string>", "struct<BOOL:boolean>"
_ITEM = (
    f"Item struct<parent:{_TEXT},child:{_TEXT},etag:{_TEXT},version_id:{_TEXT},is_dir:{_FLAG},is_deleted:{_FLAG},"
    f"is_authoritative:{_FLAG},file_length:{_NUMBER},mod_time:{_NUMBER},last_updated:{_NUMBER}>"
)
_ACTIONS = {
    "add": ("path", "size", "stats"),
    "remove": ("path", "size", "deletionTimestamp"),
}


def one_pass(spark: SparkSession, folder: Path) -> None:
    """Read each source once, and add up the hashes of all its columns."""
    logs = spark.read.parquet(f"{folder}/logs/warehouse/*/_delta_log/*.parquet")
    columns = [F.col(f"{action}.{field}") for action, fields in _ACTIONS.items() for field in fields]
    values = [F.map_entries(f"{action}.partitionValues") for action in _ACTIONS]
    _hashed(logs, [*columns, *values])
    inventory = _inventory(spark, folder / "inventory" / "data")
    _hashed(inventory, [F.col(name) for name in inventory.columns])
    export = spark.read.schema(_ITEM).json(f"{folder}/export/AWSDynamoDB/*/data/*.gz")
    _hashed(export, [F.col("Item")])


def _inventory(spark: SparkSession, data: Path) -> DataFrame:
    if any(data.glob("*.csv.gz")):
        return spark.read.csv(str(data))
    return spark.read.parquet(str(data))


def _hashed(frame: DataFrame, columns: list[object]) -> None:
    frame.select(F.xxhash64(*columns).alias("h")).agg(F.count("h"), F.bit_xor("h")).collect()  # type: ignore[arg-type]


if __name__ == "__main__":
    session = started()
    one_pass(session, Path(sys.argv[1]))
    session.stop()

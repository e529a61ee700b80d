"""Frames that stages hand on: small ones made on the driver, big ones computed once."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

KEPT = StorageLevel.MEMORY_AND_DISK


def small(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """A frame of a few driver rows that Spark's optimizer holds as plain values: no job, no Python worker."""
    fields: StructType = StructType.fromDDL(schema) if isinstance(schema, str) else schema  # type: ignore[assignment]
    arrow = to_arrow_schema(fields)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, arrow, strict=True)]
    table: Any = pa.Table.from_arrays(arrays, schema=arrow)
    return spark.createDataFrame(table, fields)


def computed(frame: DataFrame) -> DataFrame:
    """The frame computed now, once; later plans start from its rows and not from how they came about.

    With a checkpoint directory set on the session the rows outlive a lost executor.
    """
    if frame.sparkSession.sparkContext.getCheckpointDir() is not None:
        return frame.checkpoint(eager=True)
    return frame.localCheckpoint(eager=True, storageLevel=KEPT)


def literal(text: str) -> str:
    """A Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

"""A DynamoDB table read live: a parallel Scan, one segment a Spark task.

A Scan is no snapshot: an item that changes while it runs may be seen either way, so the cut is the whole window from
the first request to the last answer. `ConsistentRead` makes sure that nothing older than the cut's start is seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Clock, Context, Cut, Hole, utc_now
from lakeaudit.runtime.aws import Clients, Endpoint, explain

SEGMENTS_PER_CORE = 4
VALUE = "struct<S: string, N: string, BOOL: boolean>"
"""One attribute as DynamoDB JSON types it; binary, list and map values leave all three empty."""


@dataclass(frozen=True)
class Picture:
    """A DynamoDB table as one reading found it.

    `items` has one column per asked attribute, each a `VALUE` (null: the item lacks the attribute); `identity` pins
    what was read; `count` are its items.
    """

    items: DataFrame
    cut: Cut
    identity: str
    count: int
    holes: tuple[Hole, ...] = ()
    warnings: tuple[str, ...] = ()


def scan(
    table: str, attributes: tuple[str, ...], endpoint: Endpoint, ctx: Context, clock: Clock = utc_now
) -> Picture:
    """Scan the whole table once and keep it, so that the end of the cut is true.

    Raises:
        SourceError: any segment could not be read to its end (the SDK's own retries included).
    """
    total = max(ctx.parallelism, 1) * SEGMENTS_PER_CORE
    read = partial(
        _segments, table=table, attributes=attributes, clients=ctx.clients, endpoint=endpoint, total=total
    )
    schema = ", ".join([*(f"{name} {VALUE}" for name in attributes), "what string", "way_out string"])
    start = clock()
    pages = ctx.spark.range(0, total, 1, total).mapInArrow(read, schema).persist(StorageLevel.MEMORY_AND_DISK)
    seen = pages.agg(F.count_if(F.col("what").isNull()), F.max(F.struct("what", "way_out"))).first()
    end = clock()
    count, failure = seen or (0, None)
    if failure is not None and failure["what"] is not None:
        raise SourceError(f"DynamoDB table {table}", failure["what"], failure["way_out"])
    items = pages.filter(F.col("what").isNull()).drop("what", "way_out")
    return Picture(items, Cut(start, end), f"scan of {table}: {count} items", count)


def _segments(
    batches: Iterator[pa.RecordBatch],
    table: str,
    attributes: tuple[str, ...],
    clients: Clients,
    endpoint: Endpoint,
    total: int,
) -> Iterator[pa.RecordBatch]:
    """On an executor: every page of the given segments; a failure becomes a row, so that its words survive."""
    for batch in batches:
        for segment in batch.column(0).to_pylist():
            try:
                for items in _pages(clients.dynamodb(endpoint), table, segment, total):
                    yield _batch(items, attributes)
            except (ClientError, BotoCoreError) as error:
                yield _failure(error, attributes)
                return


def _pages(client: Any, table: str, segment: int, total: int) -> Iterator[list[dict[str, Any]]]:
    """Only a missing LastEvaluatedKey ends a segment; a page may be empty."""
    asked: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": True,
        "Segment": segment,
        "TotalSegments": total,
    }
    while True:
        page = client.scan(**asked)
        yield page["Items"]
        if not page.get("LastEvaluatedKey"):
            return
        asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]


_VALUE = pa.struct([("S", pa.string()), ("N", pa.string()), ("BOOL", pa.bool_())])


def _batch(items: list[dict[str, Any]], attributes: tuple[str, ...]) -> pa.RecordBatch:
    columns = [pa.array([item.get(name) for item in items], _VALUE) for name in attributes]
    empty = pa.nulls(len(items), pa.string())
    return pa.RecordBatch.from_arrays([*columns, empty, empty], [*attributes, "what", "way_out"])


def _failure(error: Exception, attributes: tuple[str, ...]) -> pa.RecordBatch:
    columns = [pa.nulls(1, _VALUE) for _ in attributes]
    words = [pa.array([text], pa.string()) for text in explain(error)[:2]]
    return pa.RecordBatch.from_arrays([*columns, *words], [*attributes, "what", "way_out"])

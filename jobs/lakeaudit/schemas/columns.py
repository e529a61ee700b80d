"""Types of columns, by the words that schemas are written in.

Inside an audit times are UTC without a zone (`time`), so that DuckDB compares them without a calendar; in the result
tables they carry their zone (`instant`).
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, overload

import pyarrow as pa

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "span": pa.duration("us"),
    "strings": pa.list_(pa.string()),
}


def row(**columns: str) -> pa.Schema:
    """A row's columns by name, each with its type in a word."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


def result(**columns: str) -> pa.Schema:
    """A result table's columns: times with their zone."""
    return row(**{name: "instant" if kind == "time" else kind for name, kind in columns.items()})


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield the rows of batches as mappings, with one batch in memory at a time."""
    for batch in batches:
        yield from batch.to_pylist()


def without_zone(schema: pa.Schema) -> pa.Schema:
    """A result table's columns as an audit holds them until they are written."""
    instant, time = _TYPES["instant"], _TYPES["time"]
    return pa.schema([field.with_type(time) if field.type == instant else field for field in schema])


@overload
def plain_time(time: datetime) -> datetime: ...
@overload
def plain_time(time: datetime | None) -> datetime | None: ...
def plain_time(time: datetime | None) -> datetime | None:
    """A moment as `time` columns hold it: UTC without a zone; one without a zone is UTC already."""
    return time if time is None or time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)

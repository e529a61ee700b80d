"""Queries the result tables in SQL by the engine of delta-rs: sums over millions of rows, without holding the rows."""

from datetime import datetime

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from lakeaudit.formatting import in_utc
from lakeaudit.results.read import Results, Row
from lakeaudit.schemas import RESULT_SCHEMAS


def ask(results: Results, sql: str, *tables: str) -> list[Row]:
    """Return the rows of a query over the lake's own rows of these result tables, each under its name.

    No rows where one of the tables was never written.

    Raises:
        CannotAudit: a table cannot be read, or is not of this version.
    """
    found = rows(results, sql, *tables)
    return [] if found is None else found.to_pylist()


def rows(results: Results, sql: str, *tables: str) -> pa.Table | None:
    """Return the same as an Arrow table, None where a table was never written. Raises as `ask`."""
    opened = {name: table for name in tables if (table := results.delta(name)) is not None}
    if len(opened) < len(tables):
        return None
    mine = ", ".join(
        f"{name} AS (SELECT *{_lacking(name, table)} FROM all_{name} WHERE lake = {text(results.lake)})"
        for name, table in opened.items()
    )
    with results.reading(tables[0]):
        builder = QueryBuilder()
        for name, table in opened.items():
            builder.register(f"all_{name}", table)
        reader = builder.execute(f"WITH {mine} {sql}")
        return pa.RecordBatchReader.from_stream(reader).read_all()


def _lacking(name: str, table: DeltaTable) -> str:
    """Return SQL of the columns that an older version did not write; all of them are texts."""
    there = {field.name for field in table.schema().fields}
    lacking = [column for column in RESULT_SCHEMAS[name].names if column not in there]
    return "".join(f", CAST(NULL AS VARCHAR) AS {column}" for column in lacking)


def text(value: str) -> str:
    """Quote any text for a query."""
    return "'" + value.replace("'", "''") + "'"


def texts(values: tuple[str, ...]) -> str:
    """Quote texts for the brackets of an IN."""
    return ", ".join(map(text, values))


def moment(value: datetime) -> str:
    """Write a time for a query."""
    at = in_utc(value).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return f"arrow_cast('{at}', 'Timestamp(Microsecond, Some(\"UTC\"))')"

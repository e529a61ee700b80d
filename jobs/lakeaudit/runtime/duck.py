"""DuckDB, the engine that compares: how a connection is opened, and the few things its SQL is written with.

A connection belongs to one task or to the driver's tail of an audit. Its memory is bounded and it spills.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from functools import reduce
from itertools import count
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from lakeaudit.runtime.scratch import scratch_root

Connection: TypeAlias = duckdb.DuckDBPyConnection
Relation: TypeAlias = duckdb.DuckDBPyRelation
Rows: TypeAlias = Relation | pa.Table | pa.RecordBatch | pa.RecordBatchReader
DuckError: TypeAlias = duckdb.Error

BATCH_ROWS = 100_000


def connect(*, memory: str = "1GiB", scratch: str | None = None, threads: int = 1) -> Connection:
    """A database of its own, in memory; what does not fit goes to `scratch` (a folder)."""
    config: dict[str, Any] = {"threads": threads, "memory_limit": memory, "preserve_insertion_order": "false"}
    if scratch is not None:
        config["temp_directory"] = scratch
    con = duckdb.connect(":memory:", config=config)
    con.execute("SET enable_progress_bar = false")  # it would be printed among the output of a command
    return con


@contextmanager
def task_connection(memory: str = "1GiB", threads: int = 1) -> Iterator[Connection]:
    """A connection with a scratch folder of its own, which goes with it."""
    with tempfile.TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as scratch:
        con = connect(memory=memory, scratch=scratch, threads=threads)
        try:
            yield con
        finally:
            con.close()


@contextmanager
def interrupts() -> Iterator[None]:
    """Ctrl-C as Python tells of it: a query that it ends raises an error of DuckDB's own."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from error


def relation(con: Connection, rows: Rows) -> Relation:
    """Rows of either kind as a relation of this connection."""
    if isinstance(rows, duckdb.DuckDBPyRelation):
        return rows
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    return con.from_arrow(rows)


def query(con: Connection, sql: str, **tables: Rows) -> Relation:
    """The relation of a SELECT that names each of `tables` by its keyword.

    The relations are bound by replacement: the names live in this call alone, so nothing is left registered.
    """
    views = {name: relation(con, rows) for name, rows in tables.items()}
    scope = {"con": con, **views}
    found: Relation = eval("con.sql(__sql)", scope, {"__sql": sql, **views})  # noqa: S307 - no text of others
    return found


def union(con: Connection, frames: Sequence[Rows]) -> Relation:
    """The rows of all frames, columns by their names; there is at least one frame."""
    first, *others = (relation(con, frame) for frame in frames)
    together = "SELECT * FROM one UNION ALL BY NAME SELECT * FROM other"
    return reduce(lambda one, other: query(con, together, one=one, other=other), others, first)


def table(rows: Relation) -> pa.Table:
    """The relation computed now, as an Arrow table."""
    return rows.to_arrow_table()


def hold(con: Connection, rows: Rows) -> Relation:
    """The relation computed now and held by its connection, which may spill it: for what is read more than once."""
    name = fresh_name()
    relation(con, rows).create(name)
    return con.table(name)


def fresh_name() -> str:
    """A name that no table of any connection has."""
    return f"held_{next(_NUMBERS)}"


_NUMBERS = count()


def rows_of(rows: Relation) -> list[dict[str, Any]]:
    """The relation computed now, as plain rows: for the few rows that the driver may hold."""
    plain: list[dict[str, Any]] = table(rows).to_pylist()
    return plain


def literal(value: object) -> str:
    """A constant in SQL. Times are UTC without a zone."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, timedelta):
        return f"to_microseconds({value // timedelta(microseconds=1)})"
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def literals(values: Sequence[object]) -> str:
    """The inside of an IN; of nothing, a null, which nothing equals."""
    return ", ".join(map(literal, values)) or "NULL"


def pattern(regex: str) -> str:
    r"""A regular expression of Python as RE2 takes it, quoted: the very end of a text is `\Z` there and `\z` here."""
    return literal(regex.replace(r"\Z", r"\z"))


def small(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """A table of a few driver rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def conform(
    con: Connection, rows: Rows, schema: pa.Schema, given: Mapping[str, str] | None = None
) -> Relation:
    """Exactly the columns and types of `schema`; `given` are SQL expressions for columns that are named otherwise.

    A column that is missing is an error; one too many goes.
    """
    named = given or {}
    columns = [
        f"CAST({named.get(field.name, quoted(field.name))} AS {type_of(field.type)}) AS {quoted(field.name)}"
        for field in schema
    ]
    return query(con, f"SELECT {', '.join(columns)} FROM __rows", __rows=rows)


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def type_of(arrow: pa.DataType) -> str:
    """DuckDB's name of an Arrow type that the schemas use."""
    if pa.types.is_list(arrow):
        return f"{type_of(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        return "STRUCT(" + ", ".join(f"{quoted(f.name)} {type_of(f.type)}" for f in arrow) + ")"
    return _NAMES[arrow]


_NAMES = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.duration("us"): "INTERVAL",
    pa.date32(): "DATE",
}

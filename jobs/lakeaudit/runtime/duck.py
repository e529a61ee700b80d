"""Open connections of DuckDB, which compares the evidence, and build its SQL.

A connection belongs to one task or to the driver's last stage of an audit. Its memory is bounded and it spills.
"""

import atexit
import os
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from lakeaudit.runtime.failures import room_for_scratch
from lakeaudit.runtime.lru_cache import LruCache
from lakeaudit.runtime.scratch import scratch_root

Connection: TypeAlias = duckdb.DuckDBPyConnection
DuckError: TypeAlias = duckdb.Error

BATCH_ROWS = 100_000
FEW = 10_000
"""A result made of fewer rows is copied once: for a small audit, binding statements costs more than all rows."""

warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)


@dataclass(frozen=True, eq=False)
class Relation:
    """A SELECT that has not run yet, and the rows that it names.

    DuckDB's own relations bind all their inputs when they are created, so that a chain of n of them binds n^2
    statements. Here a SELECT over SELECTs is one text, which is bound once, when it runs.
    """

    con: Connection
    sql: str
    named: "Mapping[str, Rows]"
    schema: pa.Schema | None = None
    """Columns and types, if they are known without binding."""
    count: int | None = None
    """The number of rows, if it is known without a query."""
    narrowed: "Callable[[Among, Mapping[str, Rows]], Relation] | None" = None
    """Return the rows that a condition is true for, if it can be tested before the other columns are computed."""

    @cached_property
    def columns(self) -> list[str]:
        """The names of its columns in their order."""
        return list(self.types) if self.schema is None else self.schema.names

    @cached_property
    def types(self) -> Mapping[str, str]:
        """DuckDB's type of each column by its name, in their order."""
        bound = self._bound()
        return dict(zip(bound.columns, map(str, bound.types), strict=True))

    def explain(self) -> str:
        """Return DuckDB's plan."""
        return self._bound().explain()

    def to_arrow_table(self) -> pa.Table:
        """Run the query and return all rows."""
        if self.count == 0 and self.schema is not None:
            return self.schema.empty_table()
        return self._arrow_source().to_arrow_table()

    def to_plain(self) -> list[dict[str, Any]]:
        """Run the query and return all rows as dictionaries."""
        if self.count == 0:
            return []
        result = self._call("con.execute(sql)")
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def to_arrow_reader(self, rows: int) -> pa.RecordBatchReader:
        """Return the rows in batches of that size. While they stream, the connection takes no other query."""
        if self.count == 0 and self.schema is not None:
            return self.schema.empty_table().to_reader()
        return self._arrow_source().to_arrow_reader(rows)

    def create(self, name: str) -> int:
        """Write all rows to a temporary table of the connection; return their number."""
        ((count,),) = self._call("con.execute(sql)", f"CREATE TEMP TABLE {name} AS ").fetchall()
        return int(count)

    def insert_into(self, name: str) -> None:
        """Insert all rows into a table of the connection that has these columns in their order."""
        self._call("con.execute(sql)", f"INSERT INTO {name} ")

    def write_csv(self, path: str) -> int:
        """Write all rows to a file of CSV with a header, in the order of the query; return their number."""
        options = "FORMAT csv, HEADER true, DELIMITER ',', QUOTE '\"', ESCAPE '\"', NULLSTR ''"
        copied = self._call("con.execute(sql)", "COPY (", f") TO {literal(path)} ({options})")
        ((count,),) = copied.fetchall()
        return int(count)

    def _arrow_source(self) -> Any:
        """Return what gives the result as Arrow.

        DuckDB binds a statement twice for `con.sql`, and once for `con.execute`, which copies the result.
        """
        return self._call("con.execute(sql)") if self._reads_few else self._bound()

    @cached_property
    def _reads_few(self) -> bool:
        """Whether the result, or all rows that it is made of, are known to be few."""
        if self.count is not None:
            return self.count < FEW
        return bool(self.named) and all(
            rows._reads_few if isinstance(rows, Relation) else are_few(rows, FEW)
            for rows in self.named.values()
        )

    def _bound(self) -> duckdb.DuckDBPyRelation:
        relation: duckdb.DuckDBPyRelation = self._call("con.sql(sql)")
        return relation

    def _call(self, call: str, before: str = "", after: str = "") -> Any:
        """Run a call of DuckDB, which finds the rows as local variables, so that no row stays registered."""
        found: dict[str, Any] = {}
        text = before + self._text(found)
        sql = text + after if after else _parsed(self.con, text)
        return eval(call, {}, {"con": self.con, "sql": sql, **found})  # noqa: S307 - no text of others

    def _text(self, found: dict[str, Any]) -> str:
        """Return one SELECT with all nested ones; rows are added to `found`, by names of their own."""
        parts = [
            f"{quoted(name)} AS NOT MATERIALIZED ({_part(rows, found)})" for name, rows in self.named.items()
        ]
        if not parts:
            return self.sql
        own = self.sql.lstrip()
        more = own.removeprefix("WITH ")
        return f"WITH {', '.join(parts)}{' ' if more is own else ', '}{more}"


def _parsed(con: Connection, sql: str) -> Any:
    """Return the statement of a text that was parsed before, or parse it; a long text stays a text.

    The tasks of an audit run the same texts, and parsing takes a quarter of the time of a small one. DuckDB binds a
    copy, so that threads and connections may share a statement.
    """
    if len(sql) > LONGEST_PARSED:
        return sql
    return _PARSED.get(sql, lambda: _statement(con, sql))


def _statement(con: Connection, sql: str) -> Any:
    (statement,) = con.extract_statements(sql)
    return statement


MOST_PARSED, LONGEST_PARSED = 128, 100_000
_PARSED: LruCache[str, Any] = LruCache(MOST_PARSED)
"""Statements by their texts."""

Among: TypeAlias = Callable[[str, str], str]
"""Makes a condition in SQL of the bucket and the key in SQL; it may name rows."""
Rows: TypeAlias = Relation | pa.Table | pa.RecordBatch | pa.RecordBatchReader


def _part(rows: Rows, found: dict[str, Any]) -> str:
    if isinstance(rows, Relation):
        return rows._text(found)
    name = f"rows_{len(found)}"
    found[name] = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    return f"FROM {name}"


def connect(*, memory: str = "1GiB", scratch: str | None = None, threads: int = 1) -> Connection:
    """Open a new database in memory; rows that do not fit are written to the folder `scratch`."""
    config: dict[str, Any] = {"threads": threads, "memory_limit": memory, **_SETTINGS}
    if scratch is not None:
        config["temp_directory"] = scratch
    con = duckdb.connect(":memory:", config=config)
    con.execute(_SESSION)
    return con


_SETTINGS = {"preserve_insertion_order": "false", "enable_external_file_cache": "false"}
"""A file may be overwritten between two reads, so DuckDB must not cache files."""
_SESSION = "SET enable_progress_bar = false; SET TimeZone = 'UTC'"
"""A progress bar would be printed between the output of a command; times are UTC on every machine."""


@contextmanager
def task_connection(memory: str = "1GiB", threads: int = 1) -> Iterator[Connection]:
    """Yield a connection with its own tables; the database is reused by the next one, since opening takes 15 ms."""
    idle = _IDLE[os.getpid(), memory, threads]
    try:
        database = idle.pop()
    except IndexError:
        database = connect(memory=memory, scratch=_scratch(), threads=threads)
    con = database.cursor()
    con.execute(_SESSION)
    try:
        with room_for_scratch():
            yield con
    except BaseException:
        con.close()
        database.close()  # it may be what failed
        raise
    con.close()
    idle.append(database)


_IDLE: dict[tuple[int, str, int], list[Connection]] = defaultdict(list)
"""The unused databases by process, memory and threads."""


@atexit.register
def _close_idle() -> None:
    for databases in _IDLE.values():
        while databases:
            databases.pop().close()


def _scratch() -> str:
    """Return a folder that DuckDB creates once it spills, and removes with the database."""
    return str(Path(scratch_root() or tempfile.gettempdir(), f"lakeaudit-{uuid4().hex}"))


@contextmanager
def interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C: a query that it ends raises an error of DuckDB's own."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from error


def relation(con: Connection, rows: Rows) -> Relation:
    """Return rows of any type as a relation of this connection."""
    if isinstance(rows, Relation):
        return rows
    count = None if isinstance(rows, pa.RecordBatchReader) else rows.num_rows
    return Relation(con, "FROM input", {"input": rows}, rows.schema, count)


def query(con: Connection, sql: str, **named: Rows) -> Relation:
    """Return the relation of a SELECT that names each of `named` by its keyword."""
    return Relation(con, sql, named)


def made_of(con: Connection, sql: str, rows: Rows, **named: Rows) -> Relation:
    """Return the relation of a SELECT that has no rows if its `input`, which is `rows`, has none."""
    return Relation(con, sql, {"input": rows, **named}, count=0 if is_empty(rows) else None)


def is_empty(rows: Rows) -> bool:
    """Return whether it is known without a query that there are no rows."""
    return are_few(rows, 1)


def are_few(rows: Rows, enough: int) -> bool:
    """Return whether it is known without a query that there are fewer rows than `enough`."""
    count = known_count(rows)
    return count is not None and count < enough


def known_count(rows: Rows) -> int | None:
    """Return the number of rows, if it is known without a query."""
    if isinstance(rows, Relation):
        return rows.count
    return None if isinstance(rows, pa.RecordBatchReader) else rows.num_rows


def table_relation(
    con: Connection, name: str, schema: pa.Schema | None = None, count: int | None = None
) -> Relation:
    """Return a table of the connection as a relation."""
    return Relation(con, f"FROM {name}", {}, schema, count)


def union(con: Connection, frames: Sequence[Rows]) -> Relation:
    """Return the rows of all frames, columns by their names; there is at least one frame."""
    schema = frames[0].schema
    equal = schema is not None and all(frame.schema == schema for frame in frames)
    if equal:  # DuckDB plans an empty frame for as long as one with rows
        frames = [frame for frame in frames if not is_empty(frame)] or frames[:1]
    named = {f"frame_{number}": frame for number, frame in enumerate(frames)}
    both = " UNION ALL " if equal else " UNION ALL BY NAME "
    counts = [known_count(frame) for frame in frames]
    count = None if None in counts else sum(filter(None, counts))
    sql = both.join(f"FROM {name}" for name in named)
    return Relation(con, sql, named, schema if equal else None, count)


def table(rows: Relation) -> pa.Table:
    """Run a relation and return its rows as an Arrow table."""
    return rows.to_arrow_table()


def hold(con: Connection, rows: Rows) -> Relation:
    """Run a relation and keep its rows in the connection, which may spill them: for rows that are read repeatedly."""
    if rows.schema is not None and is_empty(rows):
        return relation(con, rows.schema.empty_table())
    name = fresh_name(con)
    count = relation(con, rows).create(name)
    return table_relation(con, name, rows.schema, count)


def hold_any(con: Connection, rows: Rows) -> Relation:
    """Keep rows as `hold` does, but leave a relation that is known to be empty as it is."""
    return relation(con, rows) if is_empty(rows) else hold(con, rows)


def hold_batches(con: Connection, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Relation:
    """Keep rows that come in batches in the connection."""
    name = fresh_name(con)
    relation(con, schema.empty_table()).create(name)
    for batch in batches:
        relation(con, batch).insert_into(name)
    return table_relation(con, name, schema)


def drop(con: Connection, rows: Relation) -> None:
    """Remove a table that `hold` or `hold_batches` has created, whose rows are no longer needed."""
    name = rows.sql.removeprefix("FROM ")
    if not rows.named and name.startswith(_HELD):
        con.execute(f"DROP TABLE {name}")


def fresh_name(con: Connection) -> str:
    """Return a name that no table of this connection has; the same steps get the same names on every connection."""
    return f"{_HELD}{next(_NUMBERS.setdefault(con, count()))}"


_NUMBERS: WeakKeyDictionary[Connection, Iterator[int]] = WeakKeyDictionary()
_HELD = "held_"


def rows_of(rows: Relation | pa.Table) -> list[dict[str, Any]]:
    """Run a relation and return its rows as dictionaries: for the few rows that the driver may hold."""
    if isinstance(rows, pa.Table):
        plain: list[dict[str, Any]] = rows.to_pylist()
        return plain
    return rows.to_plain()


def count_of(rows: Relation) -> int:
    """Return the number of rows."""
    if rows.count is not None:
        return rows.count
    found: int = rows_of(query(rows.con, "SELECT count(*) AS rows FROM input", input=rows))[0]["rows"]
    return found


def literal(value: object) -> str:
    """Return a constant in SQL. Times are UTC without a zone."""
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
    """Return the values of an IN list; NULL, which nothing equals, if there are none."""
    return ", ".join(map(literal, values)) or "NULL"


def pattern(regex: str) -> str:
    r"""Return a regular expression of Python for RE2, quoted: the end of a text is `\Z` in Python and `\z` in RE2."""
    return literal(regex.replace(r"\Z", r"\z"))


def small(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return a table of a few driver rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def conform(
    con: Connection, rows: Rows, schema: pa.Schema, given: Mapping[str, str] | None = None
) -> Relation:
    """Return exactly the columns and types of `schema`; `given` has SQL expressions for columns of other names.

    A missing column is an error; additional columns are dropped. Casts are expensive, so rows that are known to have
    exactly these columns are returned unchanged.
    """
    if not given and rows.schema == schema:
        return relation(con, rows)
    if is_empty(rows):
        return relation(con, schema.empty_table())
    named = given or {}
    columns = [
        f"CAST({named.get(field.name, quoted(field.name))} AS {type_of(field.type)}) AS {quoted(field.name)}"
        for field in schema
    ]
    sql = f"SELECT {', '.join(columns)} FROM __rows"
    return Relation(con, sql, {"__rows": rows}, schema, known_count(rows))


def quoted(name: str) -> str:
    """Return a column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def type_of(arrow: pa.DataType) -> str:
    """Return DuckDB's name of an Arrow type that the schemas use."""
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

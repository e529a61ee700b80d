"""Give actions of Delta logs one shape, whether they are lines of JSON or rows of a Parquet checkpoint.

ACTION columns: file (number of the log file), action (add, remove, cdc), path, size, records, partition
(`partitionValues` as JSON text), deleted_ms, data_change, has_vector, vector_kind, vector_text, vector_offset,
vector_size, vector_rows.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal

ACTION = pa.schema(
    [
        ("file", pa.int64()),
        ("action", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("records", pa.int64()),
        ("partition", pa.string()),
        ("deleted_ms", pa.int64()),
        ("data_change", pa.bool_()),  # null: not recorded, as in checkpoints
        ("has_vector", pa.bool_()),
        ("vector_kind", pa.string()),
        ("vector_text", pa.string()),
        ("vector_offset", pa.int64()),
        ("vector_size", pa.int64()),  # bytes of the vector itself
        ("vector_rows", pa.int64()),  # rows that the vector deletes
    ]
)
"""One action on a file, the same for every kind of log file."""

_VECTOR = {
    "storageType": "VARCHAR",
    "pathOrInlineDv": "VARCHAR",
    "offset": "INTEGER",
    "sizeInBytes": "BIGINT",
    "cardinality": "BIGINT",
}
_FILE = {"path": "VARCHAR", "partitionValues": "JSON", "size": "BIGINT", "dataChange": "BOOLEAN"}
_LINE = {
    "add": {**_FILE, "stats": "VARCHAR", "deletionVector": _VECTOR},
    "remove": {**_FILE, "deletionTimestamp": "BIGINT", "deletionVector": _VECTOR},
    "cdc": _FILE,
    "metaData": "JSON",
    "protocol": "JSON",
    "commitInfo": "JSON",
    "txn": {"appId": "VARCHAR", "version": "BIGINT"},
}
VECTOR_FIELDS = {
    "vector_kind": "storageType",
    "vector_text": "pathOrInlineDv",
    "vector_offset": "offset",
    "vector_size": "sizeInBytes",
    "vector_rows": "cardinality",
}
_LEAVES = (
    *("path", "size", "partitionValues", "deletionTimestamp", "stats", "stats_parsed.numRecords"),
    *(f"deletionVector.{name}" for name in VECTOR_FIELDS.values()),
)
_KINDS = ("add", "remove", "cdc", "metaData", "protocol", "commitInfo")
LONGEST_APPLICATION = 200
"""Characters of an application's id that are compared."""
FILE_KINDS = "('add', 'remove', 'cdc')"
_BLANK = r"E' \t\r\n\x0b\x0c'"


def parse_lines(con: Connection, lines: pa.Table) -> pa.Table:
    """Parse (file, line) to ACTION columns, and kind, text, stats and facts of commitInfo and txn.

    `kind` is the kind of action: `torn` if the line is not a valid action, `other` for an action that an audit does not
    need, null for an object without an action. `text` is the JSON of protocol, metaData and of a commitInfo that
    records a vacuum, `metrics` that of a commitInfo's operationMetrics, `parameters` that of its operationParameters;
    `txn` is the application and version of a transaction.
    """
    transformed = f"TRY(json_transform(line, {literal(json.dumps(_LINE))}))"
    kinds = " ".join(f"WHEN a.{kind} IS NOT NULL THEN '{kind}'" for kind in _KINDS)
    flat = f"""SELECT file, line, a IS NULL OR NOT starts_with(ltrim(line, {_BLANK}), '{{') AS no_object,
        CASE {kinds} END AS action, {_either("path")} AS path, {_either("size")} AS size,
        {_records("a.add.stats")} AS records, a.add.stats AS stats,
        json_extract_string(a.commitInfo, '$.operation') AS operation,
        json_extract(a.commitInfo, '$.operationParameters')::VARCHAR AS parameters,
        TRY_CAST(json_extract_string(a.commitInfo, '$.readVersion') AS BIGINT) AS read_version,
        json_extract(a.commitInfo, '$.operationMetrics')::VARCHAR AS metrics,
        json_extract_string(a.commitInfo, '$.engineInfo') AS engine,
        CASE WHEN a.txn.appId <> '' AND a.txn.version IS NOT NULL
            THEN left(a.txn.appId, {LONGEST_APPLICATION}) || ' version ' || a.txn.version END AS txn,
        {_either("partitionValues")}::VARCHAR AS partition,
        a.remove.deletionTimestamp AS deleted_ms, {_either("dataChange")} AS data_change, {_vector_fields()},
        CASE WHEN a.commitInfo IS NULL THEN coalesce(a.metaData, a.protocol)
             WHEN contains(line, 'VACUUM START') THEN a.commitInfo END::VARCHAR AS text
        FROM (SELECT file, line, {transformed} AS a FROM lines WHERE trim(line, {_BLANK}) <> '')"""
    torn = (
        f"no_object OR CASE WHEN action IN {FILE_KINDS} AND {_is_odd()} THEN {_is_mistyped()} ELSE false END"
    )
    kind = f"""CASE WHEN {torn} THEN 'torn' WHEN action IS NOT NULL THEN action
        WHEN contains(line, '"') THEN 'other' END"""
    sql = f"SELECT * EXCLUDE (line, no_object), {kind} AS kind FROM ({flat})"
    return duck.table(duck.query(con, sql, lines=lines))


def on_files(con: Connection, parsed: pa.Table) -> pa.Table:
    """Return the ACTION rows among parsed lines."""
    found = duck.query(con, f"SELECT * FROM parsed WHERE kind IN {FILE_KINDS}", parsed=parsed)
    return duck.table(duck.conform(con, found, ACTION))


def _either(field: str) -> str:
    return f"coalesce(a.add.{field}, a.remove.{field}, a.cdc.{field})"


def _vector_fields() -> str:
    found = [
        f"coalesce(a.add.deletionVector.{name}, a.remove.deletionVector.{name}) AS {column}"
        for column, name in VECTOR_FIELDS.items()
    ]
    has = "(a.add.deletionVector IS NOT NULL OR a.remove.deletionVector IS NOT NULL) AS has_vector"
    return ", ".join([has, *found])


def _records(stats: str) -> str:
    return f"TRY_CAST(TRY(json_extract_string({stats}, '$.numRecords')) AS BIGINT)"


def _is_odd() -> str:
    """Return SQL that is true if the line names a field whose value is missing: its type may be wrong."""
    odd = [
        f"({column} IS NULL AND contains(line, '\"{name}\"'))"
        for column, name in (
            ("size", "size"),
            ("deleted_ms", "deletionTimestamp"),
            ("vector_kind", "deletionVector"),
        )
    ]
    no_path = "path IS NULL OR starts_with(path, '[') OR starts_with(path, '{')"
    return f"({no_path} OR partition[1] <> '{{' OR {' OR '.join(odd)})"


def _is_mistyped() -> str:
    """Return SQL that is true if a value of the action has a type that it may not have."""
    types = {
        "": "OBJECT", ".path": "VARCHAR", ".partitionValues": "OBJECT", ".size": "", ".deletionTimestamp": "",
        ".deletionVector": "OBJECT",
    }  # fmt: skip
    null_but_there = {".size": "size", ".deletionTimestamp": "deleted_ms"}
    tests = []
    for place, expected in types.items():
        there = (
            f"coalesce(json_type(line, '$.' || action || '{place}'), 'NULL') NOT IN ('NULL', '{expected}')"
        )
        tests.append(there + (f" AND {null_but_there[place]} IS NULL" if place in null_but_there else ""))
    return "(" + " OR ".join(f"({test})" for test in tests) + ")"


class TooLargeError(Exception):
    """The rows of a checkpoint take more memory than a task has; the message says how much."""


LARGEST = 256 << 20
"""Most bytes that the rows of a small checkpoint take in memory; its file has a megabyte at most."""
ROWS_AT_ONCE = 8192


def read_parquet(file: pq.ParquetFile, more: Sequence[str] = (), largest: int = LARGEST) -> pa.Table:
    """Read the columns of a small Parquet checkpoint that `checkpoint_actions` needs, and `more`.

    A dictionary stores each value once, however many rows have it. Therefore a batch has only as many rows as fit into
    memory if each has the largest value.

    Raises:
        ArrowException, OSError: the file is damaged.
        TooLargeError: its rows do not fit.
    """
    actions = [f"{action}.{leaf}" for action in ("add", "remove") for leaf in _LEAVES]
    widest = max((size for size in _column_sizes(file)), default=1)
    rows = min(max(largest // (2 * max(widest, 1)), 1), ROWS_AT_ONCE)
    found: list[pa.RecordBatch] = []
    size = 0
    for batch in file.iter_batches(rows, columns=[*actions, *more], use_threads=False):
        size += batch.nbytes
        if size > largest:
            raise TooLargeError(f"its rows have more than {largest >> 20} MiB in memory")
        found.append(batch)
    schema = found[0].schema if found else file.read(columns=[*actions, *more], use_threads=False).schema
    return pa.Table.from_batches(found, schema)


def _column_sizes(file: pq.ParquetFile) -> Iterator[int]:
    """Yield the uncompressed bytes of each chunk of a column."""
    about = file.metadata
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        yield from (group.column(index).total_uncompressed_size for index in range(group.num_columns))


def checkpoint_actions(
    con: Connection,
    schema: pa.Schema,
    file: str,
    source: str,
    among: Callable[[str], str] = lambda _: "true",
    **tables: Rows,
) -> Relation:
    """Return ACTION rows from a Parquet checkpoint of this schema; `source` is its rows in SQL, `file` its number.

    Actions on anything but files are left out, and those whose path does not meet `among` (SQL of the path -> SQL).
    Fields that the file's writer left out are null.
    """
    column = _Columns({name: _fields(schema, name) for name in ("add", "remove")})
    add_path, remove_path = column.one("add", "path"), column.one("remove", "path")
    path = f"coalesce({add_path}, {remove_path})::VARCHAR"
    sql = f"""SELECT {file} AS file, CASE WHEN {add_path} IS NOT NULL THEN 'add' ELSE 'remove' END AS action,
        {path} AS path, coalesce({column.each("size")}) AS size,
        coalesce({_records(column.one("add", "stats") + "::VARCHAR")}, {column.record_count()}) AS records,
        {column.partition()} AS partition, {column.one("remove", "deletionTimestamp")} AS deleted_ms,
        NULL AS data_change, {column.vector()}
        FROM {source}
        WHERE ({path} IS NOT NULL OR coalesce({column.each("size")}) IS NOT NULL) AND {among(path)}"""
    return duck.conform(con, duck.query(con, sql, **tables), ACTION)


class _Columns:
    """Writes SQL for fields of `add` and `remove`: null where the file has no such column."""

    def __init__(self, there: Mapping[str, Mapping[str, pa.DataType]]) -> None:
        self._there = there
        self._vectors = {action: _fields_of(fields.get("deletionVector")) for action, fields in there.items()}

    def one(self, action: str, field: str) -> str:
        return f'"{action}"."{field}"' if field in self._there[action] else "NULL"

    def each(self, field: str) -> str:
        return f"{self.one('add', field)}, {self.one('remove', field)}"

    def record_count(self) -> str:
        parsed = _fields_of(self._there["add"].get("stats_parsed"))
        return '"add"."stats_parsed"."numRecords"' if "numRecords" in parsed else "NULL"

    def partition(self) -> str:
        values = [
            f'"{a}"."partitionValues"' for a, fields in self._there.items() if "partitionValues" in fields
        ]
        texts = [f"CASE WHEN {value} IS NOT NULL THEN to_json({value})::VARCHAR END" for value in values]
        return f"coalesce({', '.join([*texts, 'NULL'])})"

    def vector(self) -> str:
        having = [
            f'"{action}"."deletionVector" IS NOT NULL' for action, fields in self._vectors.items() if fields
        ]
        columns = [f"({' OR '.join(having) or 'false'}) AS has_vector"]
        for column, field in VECTOR_FIELDS.items():
            values = [
                f'"{a}"."deletionVector"."{field}"' for a, fields in self._vectors.items() if field in fields
            ]
            columns.append(f"coalesce({', '.join([*values, 'NULL'])}) AS {column}")
        return ", ".join(columns)


def _fields(schema: pa.Schema, name: str) -> Mapping[str, pa.DataType]:
    return _fields_of(schema.field(name).type) if name in schema.names else {}


def _fields_of(kind: Any) -> Mapping[str, pa.DataType]:
    return {field.name: field.type for field in kind} if kind is not None and pa.types.is_struct(kind) else {}

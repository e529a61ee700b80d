"""Actions of Delta logs as one shape, whatever file they stood in: lines of JSON, or rows of a Parquet checkpoint.

ACTION columns: file (number of the log file), action (add, remove, cdc), path, size, records, partition
(`partitionValues` as JSON text), deleted_ms, has_vector, vector_kind, vector_text, vector_offset. STEP rows are what
actions do to files: one for the data or change file itself, one for the file that its deletion vector lies in.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.evidence.manifest.delta import paths
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal

STEP = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # which reading of the table's log it belongs to
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("version", pa.int64()),
        ("checkpoint", pa.bool_()),  # stands for every commit up to its version
        ("time", pa.timestamp("us")),  # of the commit, by its file
        ("in_commit_time", pa.timestamp("us")),  # that the commit carries, believed from a version on
        ("added", pa.bool_()),  # the action lists the file
        ("removed_at", pa.timestamp("us")),  # that the removal carries
        ("pair", pa.string()),  # what of the file the action is about: its deletion vector and its spelling
        ("size", pa.int64()),
        ("records", pa.int64()),
        ("partition", pa.string()),  # partitionValues, as JSON text
        ("category", pa.string()),  # data | deletes | changes
    ]
)
"""A file touched by an action."""

KIND = "steps"
"""The kind of row that STEP rows travel as."""

ACTION = pa.schema(
    [
        ("file", pa.int64()),
        ("action", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("records", pa.int64()),
        ("partition", pa.string()),
        ("deleted_ms", pa.int64()),
        ("has_vector", pa.bool_()),
        ("vector_kind", pa.string()),
        ("vector_text", pa.string()),
        ("vector_offset", pa.int64()),
    ]
)
"""An action on a file, whatever kind of log file it stood in."""

_VECTOR = {"storageType": "VARCHAR", "pathOrInlineDv": "VARCHAR", "offset": "INTEGER"}
_FILE = {"path": "VARCHAR", "partitionValues": "JSON", "size": "BIGINT"}
_LINE = {
    "add": {**_FILE, "stats": "VARCHAR", "deletionVector": _VECTOR},
    "remove": {**_FILE, "deletionTimestamp": "BIGINT", "deletionVector": _VECTOR},
    "cdc": _FILE,
    "metaData": "JSON",
    "protocol": "JSON",
    "commitInfo": "JSON",
}
VECTOR_FIELDS = {"vector_kind": "storageType", "vector_text": "pathOrInlineDv", "vector_offset": "offset"}
_LEAVES = (
    *("path", "size", "partitionValues", "deletionTimestamp", "stats", "stats_parsed.numRecords"),
    *(f"deletionVector.{name}" for name in VECTOR_FIELDS.values()),
)
_KINDS = ("add", "remove", "cdc", "metaData", "protocol", "commitInfo")
FILE_KINDS = "('add', 'remove', 'cdc')"
_BLANK = r"E' \t\r\n\x0b\x0c'"
_OLDEST_MS, _NEWEST_MS = -62_135_596_800_000, 253_402_300_799_999


def time_of(epoch_ms: str) -> str:
    """The time in SQL; null outside the years 1 to 9999, which no clock gave."""
    return f"CASE WHEN {epoch_ms} BETWEEN {_OLDEST_MS} AND {_NEWEST_MS} THEN make_timestamp({epoch_ms} * 1000) END"


def parse_lines(con: Connection, lines: pa.Table) -> pa.Table:
    """ACTION columns and kind, text for rows of (file, line).

    `kind` is the action's, `torn` for a line that is none, null for one that an audit does not need; `text` is the JSON
    of protocol, metaData and of a commitInfo that records a vacuum.
    """
    parsed = duck.query(
        con,
        f"SELECT file, line, TRY(json_transform(line, {literal(json.dumps(_LINE))})) AS a FROM lines "
        f"WHERE trim(line, {_BLANK}) <> ''",
        lines=lines,
    )
    kinds = " ".join(f"WHEN a.{kind} IS NOT NULL THEN '{kind}'" for kind in _KINDS)
    flat = duck.query(
        con,
        f"""SELECT file, line, a IS NULL OR NOT starts_with(ltrim(line, {_BLANK}), '{{') AS no_object, CASE {kinds} END AS action,
            {_either("path")} AS path, {_either("size")} AS size, {_records("a.add.stats")} AS records,
            {_either("partitionValues")}::VARCHAR AS partition,
            a.remove.deletionTimestamp AS deleted_ms, {_vector_fields()},
            CASE WHEN a.commitInfo IS NULL THEN coalesce(a.metaData, a.protocol)
                 WHEN contains(line, 'VACUUM START') THEN a.commitInfo END::VARCHAR AS text FROM parsed""",
        parsed=parsed,
    )
    torn = (
        f"no_object OR CASE WHEN action IN {FILE_KINDS} AND {_is_odd()} THEN {_is_mistyped()} ELSE false END"
    )
    return duck.table(
        duck.query(con, f"SELECT * EXCLUDE (line, no_object), CASE WHEN {torn} THEN 'torn' ELSE action END AS kind "
                        "FROM flat", flat=flat)
    )  # fmt: skip


def on_files(con: Connection, parsed: pa.Table) -> pa.Table:
    """The ACTION rows among parsed lines."""
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
    """A value is missing whose name the line holds: it may be of another type than it must be."""
    odd = [
        f"({column} IS NULL AND contains(line, '\"{name}\"'))"
        for column, name in (
            ("size", "size"),
            ("deleted_ms", "deletionTimestamp"),
            ("vector_kind", "deletionVector"),
        )
    ]
    return f"(path IS NULL OR partition[1] <> '{{' OR {' OR '.join(odd)})"


def _is_mistyped() -> str:
    """Whether a value of the action is there and of no type that it may have."""
    types = {
        "": "OBJECT", ".partitionValues": "OBJECT", ".size": "", ".deletionTimestamp": "", ".deletionVector": "OBJECT"
    }  # fmt: skip
    null_but_there = {".size": "size", ".deletionTimestamp": "deleted_ms"}
    tests = []
    for place, wanted in types.items():
        there = f"coalesce(json_type(line, '$.' || action || '{place}'), 'NULL') NOT IN ('NULL', '{wanted}')"
        tests.append(there + (f" AND {null_but_there[place]} IS NULL" if place in null_but_there else ""))
    return "(" + " OR ".join(f"({test})" for test in tests) + ")"


def read_parquet(content: bytes) -> pa.Table:
    """The columns of a Parquet checkpoint that `checkpoint_actions` takes.

    Raises:
        ArrowException, OSError: it is damaged.
    """
    file = pq.ParquetFile(pa.BufferReader(content))
    return file.read(columns=[f"{action}.{leaf}" for action in ("add", "remove") for leaf in _LEAVES])


def checkpoint_actions(
    con: Connection, schema: pa.Schema, file: int, source: str, **tables: Rows
) -> Relation:
    """ACTION rows from a Parquet checkpoint of this schema; `source` is its rows in SQL.

    Actions of other kinds are not in it. Fields that the file's writer left out are null.
    """
    column = _Columns({name: _fields(schema, name) for name in ("add", "remove")})
    add_path, remove_path = column.one("add", "path"), column.one("remove", "path")
    sql = f"""SELECT {file} AS file, CASE WHEN {add_path} IS NOT NULL THEN 'add' ELSE 'remove' END AS action,
        coalesce({add_path}, {remove_path})::VARCHAR AS path, coalesce({column.each("size")}) AS size,
        coalesce({_records(column.one("add", "stats") + "::VARCHAR")}, {column.counted()}) AS records,
        {column.partition()} AS partition, {column.one("remove", "deletionTimestamp")} AS deleted_ms, {column.vector()}
        FROM {source}
        WHERE {add_path} IS NOT NULL OR {remove_path} IS NOT NULL OR coalesce({column.each("size")}) IS NOT NULL"""
    return duck.conform(con, duck.query(con, sql, **tables), ACTION)


class _Columns:
    """SQL for fields of `add` and `remove`, null where the file has no such column."""

    def __init__(self, there: Mapping[str, Mapping[str, pa.DataType]]) -> None:
        self._there = there
        self._vectors = {action: _fields_of(fields.get("deletionVector")) for action, fields in there.items()}

    def one(self, action: str, field: str) -> str:
        return f'"{action}"."{field}"' if field in self._there[action] else "NULL"

    def each(self, field: str) -> str:
        return f"{self.one('add', field)}, {self.one('remove', field)}"

    def counted(self) -> str:
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


def _pair() -> str:
    """What tells apart the entries of one file in one state: its deletion vector, and how it is addressed.

    Delta takes a relative and an absolute path for two files, so a state that has both reads the file twice.
    """
    vector = paths.vector_id("vector_kind", "vector_text", "vector_offset")
    absolute = f"CASE WHEN {paths.is_absolute('path')} THEN '/' ELSE '' END"
    return f"{absolute} || CASE WHEN has_vector THEN {vector} ELSE '' END"


_RESOLVED = f"""SELECT * EXCLUDE (file), {paths.bucket("path", "root_bucket")} AS bucket,
    {paths.key("path", "root_prefix")} AS key, action = 'add' AS added, {time_of("deleted_ms")} AS removed_at,
    CASE WHEN action = 'cdc' THEN 'changes' ELSE {_pair()} END AS pair,
    CASE WHEN action = 'cdc' THEN 'changes' ELSE 'data' END AS category
    FROM actions JOIN files USING (file)"""


def file_steps(con: Connection, actions: Rows, files: Rows) -> Relation:
    """STEP rows of the data and change files that actions name; those whose path cannot be understood are left out."""
    return _steps(con, f"SELECT * FROM ({_RESOLVED}) WHERE key IS NOT NULL", actions, files)


def vector_steps(con: Connection, actions: Rows, files: Rows) -> Relation:
    """STEP rows of the files that deletion vectors lie in."""
    named = f"""SELECT * EXCLUDE (bucket, key, pair, size, records, partition, category), {_vector_key()} AS key,
        {paths.vector_bucket("vector_kind", "vector_text", "root_bucket")} AS bucket,
        concat_ws(chr(10), bucket, key, pair) AS pair, NULL AS size, NULL AS records, NULL AS partition,
        'deletes' AS category
        FROM ({_RESOLVED}) WHERE has_vector AND vector_kind IS DISTINCT FROM 'i'"""
    return _steps(con, f"SELECT * FROM ({named}) WHERE key IS NOT NULL", actions, files)


def undecodable(con: Connection, actions: Rows, files: Rows) -> dict[int, int]:
    """How many actions have a path or deletion vector that cannot be understood, by the number of their file."""
    sql = f"""SELECT file, count(*) AS count FROM actions JOIN files USING (file)
        WHERE {_unknown()} GROUP BY file"""
    rows = duck.rows_of(duck.query(con, sql, actions=actions, files=files))
    return {row["file"]: row["count"] for row in rows}


class Survey(NamedTuple):
    """What one pass over a large checkpoint tells of it."""

    undecodable: int
    has_vectors: bool


def survey(con: Connection, actions: Relation, files: Rows, *, records: bool) -> Survey:
    """One pass over the columns, so that a file that is damaged inside raises a DuckError before its rows are used.

    `records` false leaves out the statistics, which may be larger than all the rest.
    """
    sql = f"""SELECT count(*) FILTER (WHERE {_unknown()}) AS undecodable,
        coalesce(bool_or(has_vector), false) AS has_vectors,
        bit_xor(hash(path, size, partition, deleted_ms, vector_offset{", records" * records})) AS digest
        FROM actions JOIN files USING (file)"""
    (row,) = duck.rows_of(duck.query(con, sql, actions=actions, files=files))
    return Survey(row["undecodable"], row["has_vectors"])


def _unknown() -> str:
    """Whether an action's path or deletion vector cannot be understood; paths without escapes always can."""
    path = f"(path IS NULL OR (contains(path, '%') AND {paths.key('path', 'root_prefix')} IS NULL))"
    vector = f"has_vector AND vector_kind IS DISTINCT FROM 'i' AND {_vector_key()} IS NULL"
    return f"({path} OR coalesce({vector}, false))"


def _vector_key() -> str:
    return paths.vector_key("vector_kind", "vector_text", "root_prefix")


def _steps(con: Connection, sql: str, actions: Rows, files: Rows) -> Relation:
    return duck.conform(con, duck.query(con, sql, actions=actions, files=files), STEP)

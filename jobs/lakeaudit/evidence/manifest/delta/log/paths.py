"""Turn actions of Delta logs into STEP rows, with the bucket and key of each file decoded exactly once.

`add.path`, `remove.path` and `cdc.path` are RFC 2396 text, relative to the table's root or absolute. Both Spark and
delta-rs escape a partition value for the folder name first (`:` to `%3A`) and the folder name for the log after that
(`%253A`), so one decoding gives the key as storage has it. Functions of a path take and give SQL text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from lakeaudit.evidence.aliases import true_columns
from lakeaudit.keys import AZURE_NAME, MOUNTS, Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal

KIND = "steps"
"""The kind of row that carries STEP rows."""

STEP = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # the reading of the table's log to which it belongs
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("version", pa.int64()),
        ("checkpoint", pa.bool_()),  # replaces every commit up to its version
        ("time", pa.timestamp("us")),  # of the commit, by its file
        ("in_commit_time", pa.timestamp("us")),  # that the commit carries, valid from a version on
        ("added", pa.bool_()),  # the action lists the file
        ("removed_at", pa.timestamp("us")),  # that the removal carries
        ("pair", pa.string()),  # the entry of the file: its deletion vector and its spelling
        ("size", pa.int64()),
        ("least_size", pa.int64()),  # for a deletion vector's file: where the vector ends in it
        ("records", pa.int64()),  # rows that readers see; for a deletion vector the rows that it deletes
        ("partition", pa.string()),  # partitionValues, as JSON text
        ("category", pa.string()),  # data | deletes | changes
        (
            "data_change",
            pa.bool_(),
        ),  # the action declares that it changes rows; null: not recorded, as in checkpoints
    ]
)
"""One file in one action."""

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The alphabet of ZeroMQ's base 85 (rfc.zeromq.org/spec/32), in which Delta writes the UUIDs of deletion vectors."""
UUID_CHARS = 20

_OLDEST_MS, _NEWEST_MS = -62_135_596_800_000, 253_402_300_799_999
_S3 = r"(?s)^(?i:s3|s3a|s3n|gs)://([^/@]+)(?:/(.*))?$"
_AZURE = rf"(?s)^{AZURE_NAME}(?:/(.*))?$"
_FILE = r"(?s)^(?i:file):(?://[^/]*)?/(.*)$"
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.\-]*:"
_OTHER = r"(?s)^([A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?)/?(.*)$"
_Z85_UUID = rf"^[{re.escape(Z85)}]{{{UUID_CHARS}}}$"
_POWERS = [85**power for power in range(4, -1, -1)]
_BAD_ESCAPE = r"%(?:\z|[^0-9A-Fa-f]|[0-9A-Fa-f](?:\z|[^0-9A-Fa-f]))"


def bucket(path: str, root_bucket: str) -> str:
    """Return SQL for the bucket of a path.

    A path of another kind of store keeps scheme and authority as its bucket, so that no source covers it.
    """
    return (
        f"CASE WHEN {_is_relative(path)} THEN {root_bucket} WHEN {_matches(path, _S3)} THEN {_group(path, _S3, 1)} "
        f"WHEN {_matches(path, _AZURE)} THEN {_group(path, _AZURE, 1)} || '@' || {_group(path, _AZURE, 2)} "
        f"WHEN {_matches(path, _FILE)} THEN '' WHEN {_matches(path, _SCHEME)} THEN {_group(path, _OTHER, 1)} "
        f"WHEN starts_with({path}, '/') THEN '' ELSE {root_bucket} END"
    )


def key(path: str, root_prefix: str) -> str:
    """Return SQL for the key of a path; null if the path is null or has a malformed escape."""
    relative = _normalise(f"{root_prefix} || {decoded(path)}", path)
    return (
        f"CASE WHEN {_is_relative(path)} THEN {relative} "
        f"WHEN {_matches(path, _S3)} THEN {decoded(_group(path, _S3, 2))} "
        f"WHEN {_matches(path, _AZURE)} THEN {decoded(_group(path, _AZURE, 3))} "
        f"WHEN {_matches(path, _FILE)} THEN {decoded(_group(path, _FILE, 1))} "
        f"WHEN {_matches(path, _SCHEME)} THEN {decoded(_group(path, _OTHER, 2))} "
        f"WHEN starts_with({path}, '/') THEN {decoded(f'substr({path}, 2)')} ELSE {relative} END"
    )


_ODD_PARTS = r"(^|/)\.{0,2}(/|$)"


def _normalise(text: str, path: str) -> str:
    """Return SQL for a relative path below its root as Spark opens it: Hadoop's Path drops empty parts and `.`.

    It also follows `..`. Nearly no path has such parts, also not behind an escape (`%2E`, `%2F`).
    """
    plain = f"NOT contains({path}, './') AND NOT contains({path}, '//') AND NOT contains({path}, '%2')"
    parts = f"list_filter(string_split({text}, '/'), lambda part: part NOT IN ('', '.'))"
    above = "regexp_replace(done, '/[^/]*$', '')"
    follows = "part = '..' AND done <> '' AND NOT ends_with(done, '/..')"
    walked = f"lambda done, part: CASE WHEN {follows} THEN {above} ELSE done || '/' || part END"
    return (
        f"CASE WHEN {plain} OR NOT {_matches(text, _ODD_PARTS)} THEN {text} "
        f"ELSE ltrim(list_reduce({parts}, {walked}, ''), '/') END"
    )


def is_absolute(path: str) -> str:
    """Return SQL that is true if a path has a scheme or begins with a slash."""
    return f"(starts_with({path}, '/') OR (contains({path}, ':') AND {_matches(path, _SCHEME)}))"


def decoded(text: str) -> str:
    """Return SQL that decodes percent-escapes once, as UTF-8; `+` stays. Null if one is malformed or not UTF-8."""
    return (
        f"CASE WHEN NOT contains({text}, '%') THEN {text} "
        f"WHEN NOT {_matches(text, _BAD_ESCAPE)} THEN TRY(url_decode({text})) END"
    )


def vector_bucket(kind: str, text: str, root_bucket: str) -> str:
    """Return SQL for the bucket of a deletion vector's file with this `storageType` and `pathOrInlineDv`."""
    return f"CASE WHEN {kind} = 'p' THEN {bucket(text, root_bucket)} ELSE {root_bucket} END"


def vector_key(kind: str, text: str, root_prefix: str) -> str:
    """Return SQL for the key of a deletion vector's file; null if the descriptor cannot be understood.

    Rule: "Derived Fields" of the Delta protocol. Inline vectors (`storageType` i) have no file.
    """
    folder = f"substr({text}, 1, greatest(length({text}) - {UUID_CHARS}, 0))"
    name = f"'deletion_vector_' || {z85_uuid(f'right({text}, {UUID_CHARS})')} || '.bin'"
    own = f"{root_prefix} || CASE WHEN {folder} = '' THEN '' ELSE {folder} || '/' END || {name}"
    return f"CASE {kind} WHEN 'u' THEN {own} WHEN 'p' THEN {key(text, root_prefix)} END"


def vector_id(kind: str, text: str, offset: str) -> str:
    """Return SQL for the protocol's uniqueId of a deletion vector."""
    return f"coalesce({kind}, '') || coalesce({text}, '') || coalesce('@' || {offset}, '')"


def z85_uuid(text: str) -> str:
    """Return SQL for the UUID in 20 characters of Z85: four words of five digits each. Null if they are not a UUID."""
    digit = f"(strpos({literal(Z85)}, substr({text}, 5 * word + place + 1, 1)) - 1)"
    total = f"list_sum(list_transform(range(5), lambda place: {digit} * {_POWERS}[place + 1]))"
    digits = (
        f"array_to_string(list_transform(range(4), lambda word: format('{{:08x}}', {total}::BIGINT)), '')"
    )
    whole = f"nullif(regexp_extract({digits}, '^.{{32}}$'), '')"  # longer: a word has more than 32 bits
    parts = "'^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\\1-\\2-\\3-\\4-\\5'"
    return f"CASE WHEN {_matches(text, _Z85_UUID)} THEN regexp_replace({whole}, {parts}) END"


def time_of(epoch_ms: str) -> str:
    """Return SQL for the time; null outside the years 1 to 9999, which no clock shows."""
    return f"CASE WHEN {epoch_ms} BETWEEN {_OLDEST_MS} AND {_NEWEST_MS} THEN make_timestamp({epoch_ms} * 1000) END"


def _is_relative(path: str) -> str:
    """Return SQL that is true for nearly all paths; the few others with a colon need the patterns."""
    return f"NOT contains({path}, ':') AND NOT starts_with({path}, '/')"


def _matches(text: str, pattern: str) -> str:
    return f"regexp_matches({text}, {literal(pattern)})"


def _group(text: str, pattern: str, number: int) -> str:
    return f"regexp_extract({text}, {literal(pattern)}, {number})"


SPELLED = " "
"""Ends the prefix of an entry whose path is spelled in an unusual way."""


def _pair() -> str:
    """Return SQL that identifies the entries of one file in one state: the spelling of its path, and its vector.

    Delta compares paths as URIs. It treats a relative and an absolute path, two schemes, and `+` and `%2B` as different
    files: a state that lists both reads the file twice, and a removal of one leaves the other. The case of escapes does
    not count.
    """
    vector = vector_id("vector_kind", "vector_text", "vector_offset")
    spelled = (
        f"CASE WHEN {_is_relative('path')} AND NOT contains(path, '%') THEN '' "
        f"WHEN starts_with(path, '/') OR {_matches('path', _FILE)} THEN '/{SPELLED}' "
        f"ELSE printf('%x{SPELLED}', hash(lower(path))) END"
    )
    return f"{spelled} || CASE WHEN has_vector THEN {vector} ELSE '' END"


def vector_of(pair: str) -> str:
    """Return SQL for the deletion vector of an entry, without the spelling of its path."""
    spelled, rest = f"contains({pair}, '{SPELLED}')", f"substr({pair}, strpos({pair}, '{SPELLED}') + 1)"
    return f"CASE WHEN {spelled} THEN {rest} ELSE {pair} END"


FRAMING = 8
"""Bytes around a vector: its size and its checksum, four bytes each ("Deletion Vector Files" of the protocol)."""
_FIRST = 1
"""A file of deletion vectors begins with a byte for its version."""


def _resolved(bucket: str, key: str, pair: str, source: str) -> str:
    """Return SQL for actions with the bucket and the key of their files, and the entries that they are about."""
    return f"""SELECT * EXCLUDE (file) REPLACE (records - coalesce(vector_rows, 0) AS records),
        CAST(NULL AS BIGINT) AS least_size, {bucket} AS bucket, {key} AS key, action = 'add' AS added,
        {time_of("deleted_ms")} AS removed_at, CASE WHEN action = 'cdc' THEN 'changes' ELSE {pair} END AS pair,
        CASE WHEN action = 'cdc' THEN 'changes' ELSE 'data' END AS category
        FROM {source}"""


_RESOLVED = _resolved(
    bucket("path", "root_bucket"), key("path", "root_prefix"), _pair(), "actions JOIN files USING (file)"
)

_UNDERSTOOD = "(path IS NOT NULL AND NOT contains(path, '%')) OR key IS NOT NULL"
"""True if a row of _RESOLVED has a key. A filter on the key alone makes DuckDB compute the key of every path twice."""


def file_steps(con: Connection, actions: Rows, files: Rows, aliases: Aliases = ()) -> Relation:
    """Return STEP rows of the data and change files that actions name, without those whose path is not understood."""
    return _steps(
        con, f"SELECT * FROM ({_RESOLVED}) WHERE {_UNDERSTOOD}", aliases, actions=actions, files=files
    )


def plain_steps(
    con: Connection, actions: Callable[..., Relation], file: Mapping[str, Any], aliases: Aliases = ()
) -> Relation:
    """Return the same rows of one file if all of its paths are plain, see `Survey`.

    Without the cases of a path this takes half of the time. `actions` returns ACTION rows, see `checkpoint_actions`,
    and `file` has the columns that the steps of the file share.
    """
    shared = ", ".join(f"{literal(value)} AS {name}" for name, value in file.items() if name != "file")
    sql = _resolved("root_bucket", "root_prefix || path", "''", f"(SELECT *, {shared} FROM actions)")
    # an alias in another bucket changes no name; paths of Databricks name mounts in several ways
    near = tuple(each for each in aliases if each[0].bucket in (file["root_bucket"], MOUNTS))
    steps = _steps(con, sql, near, actions=actions())
    if near:
        return steps

    def narrowed(among: duck.Among, rows: Mapping[str, Rows]) -> Relation:
        bucket, prefix = literal(file["root_bucket"]), literal(file["root_prefix"])
        wanted = actions(lambda path: among(bucket, f"{prefix} || {path}"), **rows)
        return _steps(con, sql, (), actions=wanted)

    return replace(steps, narrowed=narrowed)


def file_actions(con: Connection, actions: Rows, files: Rows, aliases: Aliases = ()) -> Relation:
    """Return the fields of actions on data files: reading, bucket, key, added, data_change, size, records."""
    sql = f"""SELECT reading, bucket, key, added, coalesce(data_change, true) AS data_change, size, records
        FROM ({_RESOLVED}) WHERE ({_UNDERSTOOD}) AND category = 'data'"""
    return duck.query(con, _with_true_names(sql, aliases), actions=actions, files=files)


MOST_ROOTS = 100
"""Most folders elsewhere that are reported for one table and some of its log files."""

_ABOVE_PARTITIONS = "(?s)^((?:[^/]+/)*?)(?:[^/=]+=[^/]*/)*[^/]+$"


def roots_elsewhere(
    con: Connection, actions: Rows, files: Rows, aliases: Aliases = ()
) -> list[dict[str, str]]:
    """Return the few folders elsewhere that hold files which tables list: table_name, bucket, key.

    A shallow clone lists its source's files in this way. The partitions of a folder count as one.
    """
    listed = f"""SELECT table_name, root_bucket, root_prefix, bucket, key FROM ({_RESOLVED})
        WHERE added AND key IS NOT NULL AND {is_absolute("path")}"""
    sql = f"""SELECT DISTINCT table_name, bucket,
            rtrim(regexp_extract(key, {literal(_ABOVE_PARTITIONS)}, 1), '/') AS key
        FROM ({_with_true_names(listed, aliases)}) WHERE bucket <> root_bucket OR NOT starts_with(key, root_prefix)
        QUALIFY row_number() OVER (PARTITION BY table_name ORDER BY bucket, key) <= {MOST_ROOTS}"""
    return duck.rows_of(duck.query(con, sql, actions=actions, files=files))


def vector_steps(con: Connection, actions: Rows, files: Rows, aliases: Aliases = ()) -> Relation:
    """Return STEP rows of the files that hold deletion vectors."""
    named = f"""SELECT * EXCLUDE (bucket, key, pair, size, records, partition, category, least_size),
        {_vector_key()} AS key,
        {vector_bucket("vector_kind", "vector_text", "root_bucket")} AS bucket,
        concat_ws(chr(10), bucket, key, pair) AS pair, NULL AS size, vector_rows AS records, NULL AS partition,
        'deletes' AS category, coalesce(vector_offset, {_FIRST}) + vector_size + {FRAMING} AS least_size
        FROM ({_RESOLVED}) WHERE has_vector AND vector_kind IS DISTINCT FROM 'i'"""
    return _steps(
        con, f"SELECT * FROM ({named}) WHERE key IS NOT NULL", aliases, actions=actions, files=files
    )


def undecodable(con: Connection, actions: Rows, files: Rows) -> dict[int, int]:
    """Count the actions whose path or deletion vector cannot be understood, by the number of their file."""
    sql = f"""SELECT file, count(*) AS count FROM actions JOIN files USING (file)
        WHERE {_ODD} AND {_is_unknown()} GROUP BY file"""
    rows = duck.rows_of(duck.query(con, sql, actions=actions, files=files))
    return {row["file"]: row["count"] for row in rows}


class Survey(NamedTuple):
    """Summarizes the paths of a large checkpoint.

    `plain`: each path is relative, without escapes and without parts that Hadoop's Path drops, and none has a vector.
    """

    undecodable: int = 0
    has_vectors: bool = False
    plain: bool = False


def survey(con: Connection, actions: Relation, files: Rows) -> Survey:
    """Check paths and deletion vectors in a few passes; a DuckError if these are damaged."""
    if not duck.count_of(duck.query(con, f"SELECT 1 FROM actions WHERE NOT {_IS_PLAIN}", actions=actions)):
        return Survey(plain=True)
    sql = f"""SELECT count(*) FILTER (WHERE {_is_unknown()}) AS undecodable,
        coalesce(bool_or(has_vector), false) AS has_vectors
        FROM actions JOIN files USING (file) WHERE {_ODD}"""
    (row,) = duck.rows_of(duck.query(con, sql, actions=actions, files=files))
    return Survey(row["undecodable"], row["has_vectors"])


_ODD = "(path IS NULL OR contains(path, '%') OR has_vector)"
"""Condition for actions that may not be understood. In most files no action meets it, and the test is fast."""
_IS_PLAIN = (
    f"(NOT {_ODD} AND {_is_relative('path')} AND NOT contains(path, './') AND NOT contains(path, '//'))"
)
"""Condition for actions whose key is the table's root and the path."""


def _is_unknown() -> str:
    """Return SQL that is true if an action's path or deletion vector cannot be understood."""
    path = f"{key('path', 'root_prefix')} IS NULL"
    vector = f"has_vector AND vector_kind IS DISTINCT FROM 'i' AND {_vector_key()} IS NULL"
    return f"({path} OR coalesce({vector}, false))"


def _vector_key() -> str:
    return vector_key("vector_kind", "vector_text", "root_prefix")


def _steps(con: Connection, sql: str, aliases: Aliases, **rows: Rows) -> Relation:
    return duck.conform(con, duck.query(con, _with_true_names(sql, aliases), **rows), STEP)


def _with_true_names(sql: str, aliases: Aliases) -> str:
    """Return SQL for the same rows under the true names of their places."""
    if not aliases:
        return sql
    mounted = any(alias.bucket == MOUNTS for alias, _ in aliases)
    bucket, key = true_columns(aliases, _PLAIN_BUCKET if mounted else "bucket", "key")
    return f"SELECT * REPLACE ({bucket} AS bucket, {key} AS key) FROM ({sql})"


_PLAIN_BUCKET = f"CASE WHEN bucket = '{MOUNTS}//' THEN '{MOUNTS}' ELSE bucket END"
"""`dbfs:///mnt/x` is `dbfs:/mnt/x`."""

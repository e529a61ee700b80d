"""Fold steps of many logs into claims: one row per table and key.

A state lists a file while it lists at least one of its (path, deletion vector) pairs. Each pair is replayed on its own,
and their number over the versions shows when the file came, left and came back. An update of a deletion vector removes
one pair and adds another in one commit, and so leaves no gap. A deletion vector's file is listed while any pair that
points into it is. Nearly all files of a large lake have a single step and need no replay.
"""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.manifest.delta.log.metadata import NULL_PARTITION
from lakeaudit.evidence.manifest.delta.log.paths import STEP
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal
from lakeaudit.schemas import CLAIM

TABLE = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # the reading whose steps count
        ("version", pa.int64()),  # the newest
        ("base", pa.int64()),  # of the checkpoint read; -1: from commit 0
        ("last_gap", pa.int64()),  # the last version whose actions are not all known; -1: none
        ("horizon", pa.timestamp("us")),
        ("promised_after", pa.timestamp("us")),  # files removed later are still promised to readers
        ("in_commit_times_from", pa.int64()),
        ("columns", pa.list_(pa.struct([("physical", pa.string()), ("logical", pa.string())]))),
        ("vacuums", pa.list_(pa.struct([("version", pa.int64()), ("cutoff", pa.timestamp("us"))]))),
        ("root_bucket", pa.string()),
        ("root_prefix", pa.string()),
    ]
)
"""The constants of one table for the fold."""

_FILE = "table_name, bucket, key"
_VALUES = ("size", "least_size", "records", "partition_path")
_ID = f"hash({_FILE})"
_TIME = """coalesce(
    CASE WHEN s.version >= t.in_commit_times_from AND NOT s.checkpoint THEN s.in_commit_time END, s.time)"""
"""The time of a step `s` of a table `t`: the one that its commit carries, if that is valid."""
_CATEGORY = """CASE WHEN bool_or(category = 'data') THEN 'data' WHEN bool_or(category = 'deletes') THEN 'deletes'
        ELSE 'changes' END AS category"""
_REPEATED = f"""SELECT {_ID} AS id,
        count(*) = 2 AND min(pair) = max(pair) AND min(version) < max(version) AND max(last_gap) < 0 AS twice
    FROM steps GROUP BY ALL HAVING count(*) > 1"""
"""Files with several steps, by their hash; `twice`: one pair came or left at two versions, and no version is unknown.

Files that share a hash are separated when they are replayed.
"""


def claims(tables: pa.Table, source: str, con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Return CLAIM rows from STEP rows; steps of tables, and of readings, that are not in `tables` are left out."""
    steps = duck.relation(con, rows.get("steps", STEP.empty_table()))
    return _claims(con, files_of(con, _with_metadata(con, steps, tables), tables), tables, source)


def fingerprints(tables: pa.Table, con: Connection, steps: Rows) -> Relation:
    """Return the claim of each step alone: table_name, bucket, key, category, size, claimed_at, plain.

    If a plain step is the only one of its file, `claims` makes a live claim of it, listed once, under the table's root.
    """
    sql = f"""SELECT s.table_name, s.bucket, s.key, s.category, s.size, {_TIME} AS claimed_at,
            {" AND ".join(PLAIN)} AS plain
        FROM steps s JOIN tables t ON s.table_name = t.table_name AND s.reading = t.reading"""
    return duck.query(con, sql, steps=steps, tables=tables)


FINGERPRINT_COLUMNS = ("table_name", "reading", "in_commit_times_from", "root_bucket", "root_prefix")
"""The columns of TABLE that `fingerprints` uses."""


PLAIN = (
    "s.added",
    "s.bucket = t.root_bucket",
    "starts_with(s.key, t.root_prefix)",
    "s.least_size IS NULL",
)
"""The conditions for a plain step, see `fingerprints`."""


def files_of(con: Connection, steps: Relation, tables: pa.Table, *, shortcut: bool = True) -> Relation:
    """Return one row per file: its final state. `shortcut` false: all of them are replayed in full."""
    if not shortcut:
        return _replay(con, steps, tables)
    repeated = duck.table(duck.query(con, _REPEATED, steps=steps))
    ways = pc.unique(repeated.column("twice")).to_pylist()
    parts = [_single(con, _of(con, steps, repeated, "ANTI JOIN repeated r ON {id} = r.id"))]
    if True in ways:
        twice = _of(con, steps, repeated, "SEMI JOIN repeated r ON {id} = r.id AND r.twice")
        parts.append(_twice(con, twice))
    if False in ways:
        others = _of(con, steps, repeated, "SEMI JOIN repeated r ON {id} = r.id AND NOT r.twice")
        parts.append(_replay(con, others, tables))
    return duck.union(con, parts)


def _of(con: Connection, steps: Relation, repeated: pa.Table, join: str) -> Relation:
    if not repeated.num_rows:
        return steps
    return duck.query(con, f"SELECT s.* FROM steps s {join.format(id=_ID)}", steps=steps, repeated=repeated)


def newest(con: Connection, steps: pa.Table, tables: pa.Table) -> pa.Table:
    """Return the state of each file after the newest of these commits: table_name, bucket, key, state."""
    by_version = f"""SELECT {_FILE}, version, bool_or(added) AS live, max(removed_at) AS removed_at
        FROM steps GROUP BY ALL"""
    last = f"""SELECT {_FILE}, arg_max(live, version) AS live, max(removed_at) AS removed_at
        FROM ({by_version}) GROUP BY ALL"""
    named = f"SELECT {_FILE}, {_state('live')} AS state FROM ({last}) JOIN tables USING (table_name)"
    placed = _with_metadata(con, duck.relation(con, steps), tables)
    return duck.table(duck.query(con, named, steps=placed, tables=tables))


def _with_metadata(con: Connection, steps: Relation, tables: pa.Table) -> Relation:
    """Add time, removal and partition path to steps, by their table's metadata.

    A file was removed when storage has the log's file that removes it, at the latest: a writer's clock may be ahead.
    """
    sql = f"""SELECT s.table_name, s.bucket, s.key, s.version, s.checkpoint, s.added, s.pair, s.size,
            s.least_size, s.records, s.category, t.last_gap, {_TIME} AS time,
            CASE WHEN NOT s.added THEN least(coalesce(s.removed_at, {_TIME}), s.time) END AS removed_at,
            CASE WHEN s.category = 'deletes' OR s.partition = '{{}}' THEN '' ELSE p.path END AS partition_path
        FROM steps s JOIN tables t ON s.table_name = t.table_name AND s.reading = t.reading
        LEFT JOIN paths p ON s.table_name = p.table_name AND s.partition = p.partition"""
    known = tables.select(["table_name", "reading", "in_commit_times_from", "last_gap"])
    return duck.query(con, sql, steps=steps, tables=known, paths=_partition_paths(con, steps, tables))


def _partition_paths(con: Connection, steps: Relation, tables: pa.Table) -> pa.Table:
    """Return `col=value/col=value` of each partition, in the table's order; an empty string counts as null."""
    given = "list_filter(t.columns, lambda c: map_contains(d.given, c.physical))"
    value = f"coalesce(nullif(d.given[c.physical], ''), {literal(NULL_PARTITION)})"
    path = f"array_to_string(list_transform({given}, lambda c: c.logical || '=' || {value}), '/')"
    distinct = "SELECT DISTINCT table_name, partition FROM steps WHERE partition <> '{}'"
    parsed = f"""SELECT *, TRY(from_json(partition, '"MAP(VARCHAR, VARCHAR)"')) AS given FROM ({distinct})"""
    named = (
        f"SELECT d.table_name, d.partition, {path} AS path FROM ({parsed}) d JOIN tables t USING (table_name)"
    )
    columns = tables.select(["table_name", "columns"])
    return duck.table(duck.query(con, named, steps=steps, tables=columns))


_LATEST_BY_VERSION = ", ".join(f"arg_max({name}, version) AS {name}" for name in _VALUES)
"""The newest values that are not null, if a version has at most one."""


def _single(con: Connection, steps: Relation) -> Relation:
    """Return the files that have one step each."""
    return duck.query(
        con,
        f"""SELECT {_FILE}, added::BIGINT AS listing, added::BIGINT AS listed,
            (added AND version >= last_gap)::BIGINT AS surely_listed, CASE WHEN added THEN version END AS since,
            CASE WHEN added THEN time END AS since_time, time AS first_time, version AS last, removed_at,
            size, least_size, records, partition_path, category FROM steps""",
        steps=steps,
    )


def _twice(con: Connection, steps: Relation) -> Relation:
    """Return the files with two steps of one pair at most, each at its own version."""
    pair = f"""SELECT {_FILE}, arg_min(added, version) AS first_added, arg_max(added, version) AS added,
            min(version) AS first, max(version) AS last, arg_min(time, version) AS came, arg_max(time, version) AS went,
            min(time) AS first_time, max(removed_at) AS removed_at, {_LATEST_BY_VERSION}, {_CATEGORY}
        FROM steps GROUP BY {_FILE}"""
    return duck.query(
        con,
        f"""SELECT {_FILE}, added::BIGINT AS listing, added::BIGINT AS listed, added::BIGINT AS surely_listed,
            CASE WHEN first_added THEN first WHEN added THEN last END AS since,
            CASE WHEN first_added THEN came WHEN added THEN went END AS since_time,
            first_time, last, removed_at, size, least_size, records, partition_path, category FROM ({pair})""",
        steps=steps,
    )


def _replay(con: Connection, steps: Relation, tables: pa.Table) -> Relation:
    """Return the files with any number of steps."""
    has_gaps = any(version >= 0 for version in tables.column("last_gap").to_pylist())
    beyond = _BEYOND_GAPS if has_gaps else "SELECT * FROM rows"
    return reduce(
        lambda rows, sql: duck.query(con, sql, rows=rows),
        (beyond, _MERGED, _PAIRS, _BY_VERSION, _LISTING, _BEGINS, _FILES, _VECTOR_FILES),
        steps,
    )


_BEYOND_GAPS = f"""SELECT * EXCLUDE (newest) FROM (
        SELECT *, max(version) OVER (PARTITION BY {_FILE}) AS newest FROM rows)
    WHERE version >= last_gap OR newest < last_gap OR category = 'deletes'"""
"""Where versions are unknown, a data file's pair before them proves nothing once the file is named after them.

A state has one pair of a data file. A deletion vector's file may have many, so all of its pairs are kept.
"""


def _latest(order: str) -> str:
    """Return SQL for the newest values that are not null; of two that are equally new, the larger one."""
    return ", ".join(
        f"arg_max({name}, ({order}, {name})) FILTER ({name} IS NOT NULL) AS {name}" for name in _VALUES
    )


_MERGED = f"""SELECT {_FILE}, pair, version, bool_or(added) AS listed,
        CASE WHEN bool_or(checkpoint) THEN count(*) FILTER (added) ELSE least(count(*) FILTER (added), 1) END AS copies,
        max(time) AS time, max(removed_at) FILTER (NOT added) AS removed_at, max(last_gap) AS last_gap,
        {_latest("added")}, {_CATEGORY}
    FROM rows GROUP BY {_FILE}, pair, version"""
"""One row per file, pair and version. In one commit an add wins over a remove; in a checkpoint adds may repeat."""

_PAIRS = f"""SELECT *, CASE WHEN version >= last_gap THEN live_copies ELSE 0 END AS sure_copies FROM (
    SELECT *, listed::BIGINT - coalesce(lag(listed) OVER by_pair, false)::BIGINT AS change,
        CASE WHEN lead(version) OVER by_pair IS NULL THEN copies ELSE 0 END AS live_copies
    FROM rows WINDOW by_pair AS (PARTITION BY {_FILE}, pair ORDER BY version))"""

_BY_VERSION = f"""SELECT {_FILE}, version, sum(change)::BIGINT AS change, sum(live_copies)::BIGINT AS live_copies,
        sum(sure_copies)::BIGINT AS sure_copies, max(time) AS time, max(removed_at) AS removed_at,
        sum(records) FILTER (live_copies > 0) AS live_records, max(least_size) FILTER (live_copies > 0) AS live_size,
        {_latest("listed")}, {_CATEGORY}
    FROM rows GROUP BY {_FILE}, version"""

_LISTING = f"""SELECT *, (sum(change) OVER (PARTITION BY {_FILE} ORDER BY version
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))::BIGINT AS listing FROM rows"""
"""How many pairs list the file from that version on."""

_BEGINS = f"""SELECT *,
        listing > 0 AND coalesce(lag(listing) OVER (PARTITION BY {_FILE} ORDER BY version), 0) = 0 AS begins
    FROM rows"""
"""Whether the file was not listed before that version and is listed from there on."""

_FILES = f"""SELECT {_FILE}, arg_max(listing, version) AS listing, sum(live_copies)::BIGINT AS listed,
        sum(sure_copies)::BIGINT AS surely_listed, max(version) FILTER (begins) AS since,
        arg_max(time, version) FILTER (begins) AS since_time, min(time) AS first_time, max(version) AS last,
        max(removed_at) AS removed_at, {_LATEST_BY_VERSION}, {_CATEGORY},
        sum(live_records)::BIGINT AS live_records, max(live_size) AS live_size
    FROM rows GROUP BY {_FILE}"""

_VECTOR_FILES = """SELECT * EXCLUDE (live_records, live_size) REPLACE (
        CASE WHEN category = 'deletes' AND listing > 0 THEN live_records ELSE records END AS records,
        CASE WHEN category = 'deletes' AND listing > 0 THEN live_size ELSE least_size END AS least_size)
    FROM rows"""
"""A file of deletion vectors counts for all live ones, and must be at least as long as the end of the last of them."""


def _claims(con: Connection, files: Relation, tables: pa.Table, source: str) -> Relation:
    runs = "list_filter(v.vacuums, lambda run: run.version > f.last AND f.removed_at <= run.cutoff)"
    # removed before the oldest state that can be read: no reader can request it
    unlisted = "f.category <> 'changes' AND f.listing = 0 AND f.since IS NULL AND t.last_gap < 0"
    explained = f"coalesce(len({runs}) > 0, false) OR ({unlisted})"
    first = "CASE WHEN category = 'changes' THEN first_time ELSE horizon END"
    standing = f"""SELECT f.*, t.* EXCLUDE (table_name), listing > 0 AS live, {explained} AS explained
        FROM files f JOIN tables t ON f.table_name = t.table_name
        LEFT JOIN vacuums v ON CASE WHEN f.listing = 0 THEN f.table_name END = v.table_name"""
    sql = f"""SELECT {literal(source)} AS source, 'delta' AS manifest_kind, {_FILE}, {_state("live")} AS state,
        category = 'changes' OR {_certain()} AS certain, category, coalesce(partition_path, '') AS partition_path, size,
        CASE WHEN live THEN least_size END AS least_size,
        NULL AS etag, NULL AS version_id, NULL AS checksum, records, coalesce(since_time, {first}) AS claimed_at,
        CASE WHEN NOT live THEN removed_at END AS removed_at,
        explained AND bucket = root_bucket AND starts_with(key, root_prefix) AS explained,
        CASE WHEN category = 'data' THEN listed ELSE live::BIGINT END AS listed,
        bucket = root_bucket AND starts_with(key, root_prefix) AS own_root,
        CASE WHEN since <> base THEN since::VARCHAR END AS commit_id, version AS table_version FROM ({standing})"""
    constants = tables.drop_columns(["reading", "in_commit_times_from", "columns", "vacuums"])
    vacuums = duck.query(con, "SELECT table_name, vacuums FROM tables WHERE len(vacuums) > 0", tables=tables)
    return duck.conform(con, duck.query(con, sql, files=files, tables=constants, vacuums=vacuums), CLAIM)


def _state(live: str) -> str:
    return f"CASE WHEN {live} THEN 'live' WHEN removed_at > promised_after THEN 'history' ELSE 'gone' END"


def _certain() -> str:
    """Return SQL that is true if no unknown version can have changed the file.

    For a deletion vector's file an unknown version may list another pair.
    """
    return "CASE WHEN live THEN surely_listed > 0 ELSE last > last_gap AND (category = 'data' OR last_gap < 0) END"

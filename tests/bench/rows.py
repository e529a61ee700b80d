"""Defines the files of a generated lake as DuckDB SQL: tables, hours, files, faults, and the objects in storage.

Only small tables are stored: every property of a file is computed from its number. An hour is a partition of up to 200
files. `class` of a file: live; removed (its object is still there); unlisted (only storage and the metadata store have
it); and of the newest ones fresh (listed and there), late (listed, not in the inventory yet), stray (not listed).
"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from tests.bench.spec import (
    BUCKET,
    CHECKPOINT,
    CHECKPOINT_AT,
    COMMITS,
    FAULTS,
    FILES_AN_HOUR,
    HUDI_TOKEN,
    LAST_HOUR,
    ON_FILES,
    SCAN,
    Spec,
)

Connection = duckdb.DuckDBPyConnection

SCHEMAS = ("sales", "web", "logistics", "finance", "ml")
SUBJECTS = ("orders", "events", "clicks", "payments", "shipments", "features", "sessions", "returns")
COMMITTED_UNTIL = CHECKPOINT_AT + timedelta(days=8)
SECOND_COMMIT = SCAN + timedelta(hours=12)


def lay_out(con: Connection, spec: Spec) -> None:
    """Create the small tables: tables, hours, commits, faults, extras."""
    _register(con, "tables", _tables(spec))
    _register(con, "commits", list(_commits(con)))
    con.execute(_HOURS)
    con.execute(f"CREATE MACRO is_real() AS {spec.is_real}")
    con.execute(f"CREATE MACRO file_name(k, id) AS {_NAMES.get(spec.format, _NAME)}")
    con.execute(f"CREATE MACRO digest(what, i) AS md5(what || '{spec.seed}:' || i)")
    con.execute("CREATE TABLE faults (i BIGINT, fault VARCHAR)")
    _draw_faults(con, spec)


def _register(con: Connection, name: str, rows: Sequence[dict[str, Any]]) -> None:
    given = pa.Table.from_pylist(list(rows))
    con.register("given", given)
    con.execute(f"CREATE TABLE {name} AS FROM given")
    con.unregister("given")


def _tables(spec: Spec) -> list[dict[str, Any]]:
    """Return `m` commits per table, of which the last `r` are recent; the first `committed` files are checkpointed."""
    rows, first = [], 0
    for t, files in enumerate(_shares(spec)):
        m = len(range(t, COMMITS, spec.tables))
        recent = files // 100 if spec.is_real else 0
        r = max(1, m // 4) if recent and m else 0
        each = max(1, min(20, spec.files // 2000))
        committed = max(0, files - recent - (m - r) * each)
        name = f"{SCHEMAS[t % 5]}.{SUBJECTS[t % 8]}" + (f"_{t:04d}" if spec.tables > 8 else "")
        rows.append(
            {"t": t, "name": name, "root": f"warehouse/{name}", "first": first, "total": files, "m": m, "r": r,
             "a": each, "committed": committed, "recent": files - recent}
        )  # fmt: skip
        first += files
    return rows


def _shares(spec: Spec) -> list[int]:
    """Return the number of files by table."""
    large = spec.files * 2 // 5 if spec.is_real and spec.tables > 1 else spec.files // spec.tables
    others = spec.tables - 1
    rest = [
        (spec.files - large) * (n + 1) // others - (spec.files - large) * n // others for n in range(others)
    ]
    return [large, *rest]


def _commits(con: Connection) -> Iterator[dict[str, Any]]:
    for t, m, r in con.sql("SELECT t, m, r FROM tables").fetchall():
        for c in range(m):
            old = CHECKPOINT_AT + (COMMITTED_UNTIL - CHECKPOINT_AT) * (c + 1) / (m + 1)
            new = SCAN - timedelta(hours=30) + timedelta(hours=28) * (c - m + r) / max(r, 1)
            time = (new if c >= m - r else old).replace(microsecond=0, tzinfo=None)
            yield {"t": t, "c": c, "version": CHECKPOINT + 1 + c, "time": time}


_HOURS = f"""CREATE TABLE hours AS
    SELECT row_number() OVER (ORDER BY t, p) - 1 AS h, *, first + p * {FILES_AN_HOUR} AS begins,
        least({FILES_AN_HOUR}, total - p * {FILES_AN_HOUR}) AS files, strftime(hour_at, 'dt=%Y-%m-%d/hour=%H') AS place
    FROM (SELECT *, TIMESTAMP '{LAST_HOUR:%Y-%m-%d %H:%M:%S}' - to_hours(hours - 1 - p) AS hour_at
          FROM (SELECT *, (total + {FILES_AN_HOUR - 1}) // {FILES_AN_HOUR} AS hours, unnest(range(hours)) AS p
                FROM tables))"""


_NAME = "'part-' || lpad(CAST(k AS VARCHAR), 5, '0') || '-' || id || '.c000.snappy.parquet'"
_NAMES = {"hudi": f"id || '-0{HUDI_TOKEN}.parquet'"}
"""By format the names of files, if they matter."""


def files(hours: str = "true") -> str:
    """Return SQL for the files of the hours that meet a condition, files with faults included."""
    return f"""
        SELECT f.*, faults.fault, time,
            root || '/' || path AS key,
            CASE WHEN f.c IS NULL AND class <> 'stray' THEN hour_at + to_seconds(300 + k * 10)
                ELSE coalesce(time, {sql_time(_STRAYS)}) - INTERVAL 5 MINUTE END AS modified,
            size_of(f.i) AS size, etag_of(f.i) AS etag
        FROM (SELECT *, {_COMMIT} AS c, {_path("i", "k")} AS path FROM (SELECT *, {_CLASS} AS class FROM (
            SELECT *, begins + k AS i, p * {FILES_AN_HOUR} + k AS n FROM (
                SELECT *, unnest(range(files)) AS k FROM hours WHERE {hours})))) f
        LEFT JOIN commits ON commits.t = f.t AND commits.c = f.c
        LEFT JOIN faults ON faults.i = f.i"""


MACROS = """
    CREATE MACRO size_of(i) AS 1000000 + (i * 7919) % 126999999;
    CREATE MACRO in_parts(i) AS size_of(i) >= 64 << 20;
    CREATE MACRO etag_of(i) AS digest('etag', i) || CASE WHEN in_parts(i) THEN '-2' ELSE '' END;
    CREATE MACRO version_of(i) AS digest('version', i);
"""

_STRAYS = SCAN - timedelta(hours=20)
_UNCOMMITTED = SCAN - timedelta(days=8)
_FORGOTTEN = CHECKPOINT_AT - timedelta(days=5)
DELETED = SCAN - timedelta(days=15)
_TURN = "(p + 3 * t)"
_CLASS = f"""CASE WHEN n >= recent THEN
        CASE WHEN m = 0 OR i % 10 >= 7 THEN 'stray' WHEN i % 10 >= 4 THEN 'late' ELSE 'fresh' END
    WHEN is_real() AND n < committed AND {_TURN} % 10 < 4 AND k % 4 < 3 THEN 'removed'
    WHEN is_real() AND n < committed AND {_TURN} % 20 = 9 THEN 'unlisted'
    ELSE 'live' END"""
_COMMIT = """CASE WHEN n >= recent THEN CASE WHEN m > 0 THEN m - r + (n - recent) * r // (total - recent) END
    WHEN n >= committed AND m > 0 THEN least((n - committed) // a, m - r - 1) END"""


def _path(number: str, k: str, what: str = "file") -> str:
    uuid = f"CAST(CAST(digest('{what}', {number}) AS UUID) AS VARCHAR)"
    return f"place || '/' || file_name({k}, {uuid})"


def sql_time(time: datetime) -> str:
    """Return a time as SQL, without a zone."""
    return f"TIMESTAMP '{time:%Y-%m-%d %H:%M:%S}'"


def _draw_faults(con: Connection, spec: Spec) -> None:
    """Draw files that the newest state lists, and extra files of random hours, numbered after the last file."""
    con.execute(MACROS)
    draw = random.Random(spec.seed)
    hours = {number // FILES_AN_HOUR for number in draw.sample(range(spec.files), min(4000, spec.files // 2))}
    found = con.sql(
        f"SELECT i FROM ({files(f'h IN ({_list(hours)})')}) WHERE class = 'live' ORDER BY i"
    ).fetchall()
    drawn = draw.sample([i for (i,) in found], sum(FAULTS[kind] for kind in ON_FILES))
    kinds = [kind for kind in ON_FILES for _ in range(FAULTS[kind])]
    con.executemany("INSERT INTO faults VALUES (?, ?)", list(zip(drawn, kinds, strict=True)))
    con.execute("CREATE TABLE extras (i BIGINT, fault VARCHAR, h BIGINT)")
    others = [kind for kind in FAULTS if kind not in ON_FILES for _ in range(FAULTS[kind])]
    count = con.sql("SELECT count(*) FROM hours").fetchall()[0][0]
    rows = [(spec.files + n, kind, draw.randrange(count)) for n, kind in enumerate(others)]
    con.executemany("INSERT INTO extras VALUES (?, ?, ?)", rows)


def _list(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


EXTRAS = f"""
    SELECT e.*, name, root, place, root || '/' || {_path("i", "900 + i % 100")} AS key,
        size_of(i) AS size, etag_of(i) AS etag,
        CASE fault WHEN 'uncommitted' THEN {sql_time(_UNCOMMITTED)} ELSE {sql_time(_FORGOTTEN)} END AS modified
    FROM extras e JOIN hours USING (h)"""
NEW = f"""
    SELECT *, root || '/' || path AS key, size_of(i) AS size, etag_of(i) AS etag,
        {sql_time(SECOND_COMMIT)} - INTERVAL 5 MINUTE AS modified
    FROM (SELECT *, {_path("i", "k", "new")} AS path FROM (
        SELECT *, 'dt={SECOND_COMMIT:%Y-%m-%d}/hour=' || lpad(CAST(n // {FILES_AN_HOUR} % 24 AS VARCHAR), 2, '0')
            AS place, n % {FILES_AN_HOUR} AS k, 2000000000 + first + n AS i
        FROM (SELECT *, unnest(range(greatest(1, total // 200))) AS n FROM tables)))"""
"""New files of one day: 0.5 %; as many are removed, see `GOES`."""


class LogFile(NamedTuple):
    """A file of a table's metadata: where it was written, with its root and folder."""

    path: Path
    root: str
    place: str
    at: datetime


def keep_log_files(con: Connection, logs: Sequence[LogFile]) -> None:
    """Create the rows of tables' metadata in storage and in the metadata store. None: the tables are Delta tables.

    Checkpoints represent all files of Delta logs, because a report includes everything in a table's folder. They are
    not `entered` in the metadata store.
    """
    con.execute(f"""CREATE TABLE log_files AS SELECT root, '_delta_log' AS place,
        root || '/_delta_log/{CHECKPOINT:020}.checkpoint.parquet' AS key, 3000000000 + t AS i,
        CAST(1000000 AS BIGINT) AS size, md5(name) AS etag, {sql_time(CHECKPOINT_AT)} AS modified, false AS entered
        FROM tables""")
    if logs:
        rows = [_log_row(number, each) for number, each in enumerate(logs)]
        con.execute("DELETE FROM log_files")
        con.executemany("INSERT INTO log_files VALUES (?, ?, ?, ?, ?, ?, ?, true)", rows)


def _log_row(number: int, file: LogFile) -> tuple[Any, ...]:
    key, content = f"{file.root}/{file.place}/{file.path.name}", file.path.read_bytes()
    digest = md5(content, usedforsecurity=False).hexdigest()
    at = file.at.astimezone(UTC).replace(tzinfo=None)
    return file.root, file.place, key, 3_000_000_000 + number, len(content), digest, at


GOES = "class = 'live' AND fault IS NULL AND i % 200 = 5"
GONE = f"SELECT *, root || '/' || {_path('i', 'k', 'gone')} AS gone_key FROM ({{}}) WHERE i % 10 = 7"
"""Vacuumed inputs of compactions, one for every tenth file: a noncurrent version below a delete marker."""


def storage(hours: str) -> str:
    """Return SQL for rows of the inventory."""
    there = "class <> 'late' AND fault IS DISTINCT FROM 'dropped'"
    size = "size + CASE WHEN fault = 'size_mismatch' THEN 1 + i % 97 ELSE 0 END"
    rows = [f"SELECT {_object('key', size=size)} FROM ({files(hours)}) WHERE {there}"]
    if_real = [
        f"SELECT {_object('key', what='older', latest=False)} FROM ({files(hours)}) WHERE {there} AND i % 20 = 3",
        f"SELECT {_object('gone_key', what='gone', latest=False)} FROM ({GONE.format(files(hours))})",
        f"SELECT {_marker()} FROM ({GONE.format(files(hours))})",
    ]
    return " UNION ALL ".join([*rows, *(f"SELECT * FROM ({sql}) WHERE is_real()" for sql in if_real)])


def extra_storage(*, second: bool) -> str:
    """Return SQL for rows of the inventory outside of the hours."""
    rows = [f"SELECT {_object('key')} FROM ({EXTRAS}) WHERE fault <> 'phantom'"]
    rows += [f"SELECT {_object('key')} FROM (FROM log_files)"]
    rows += [f"SELECT {_object('key')} FROM ({NEW})"] if second else []
    return " UNION ALL ".join(rows)


def _object(key: str, *, size: str = "size", what: str = "version", latest: bool = True) -> str:
    """Return SQL for a version; one that is not the latest was written a day earlier."""
    return f"""'{BUCKET}' AS bucket, {key} AS key, digest('{what}', i) AS version_id, {latest} AS is_latest,
        false AS is_delete_marker, CAST({size} AS BIGINT) AS size,
        modified - to_days({0 if latest else 1}) AS last_modified_date,
        {"etag" if latest else f"digest('{what}', i)"} AS e_tag, 'STANDARD' AS storage_class,
        in_parts(i) AND {latest} AS is_multipart_uploaded, 'SSE-S3' AS encryption_status"""


def _marker() -> str:
    """Return SQL for a delete marker, which has few attributes."""
    return f"""'{BUCKET}' AS bucket, gone_key AS key, digest('marker', i) AS version_id, true AS is_latest,
        true AS is_delete_marker, CAST(NULL AS BIGINT) AS size, {sql_time(DELETED)} AS last_modified_date,
        CAST(NULL AS VARCHAR) AS e_tag, CAST(NULL AS VARCHAR) AS storage_class,
        CAST(NULL AS BOOLEAN) AS is_multipart_uploaded, CAST(NULL AS VARCHAR) AS encryption_status"""


def truth(kind: str) -> str:
    """Return SQL for (kind, table_name, key) of every file that must be found in tables of a format."""
    left = "CASE class WHEN 'removed' THEN 'unvacuumed' WHEN 'unlisted' THEN 'unreferenced' END"
    every = f"""SELECT coalesce(fault, {left}) AS kind, name AS table_name, key FROM ({files()})
            WHERE fault IS NOT NULL OR class IN ('removed', 'unlisted')
        UNION ALL SELECT fault, name, key FROM ({EXTRAS})"""
    return f"SELECT * REPLACE ({seen_as('kind', kind)} AS kind) FROM ({every})"


def seen_as(fault: str, kind: str) -> str:
    """Return SQL for the kind of a finding: readers of Hudi tables list folders, and read files that no write lists."""
    if kind != "hudi":
        return fault
    return f"CASE WHEN {fault} IN ('uncommitted', 'unreferenced') THEN 'stale_visible' ELSE {fault} END"

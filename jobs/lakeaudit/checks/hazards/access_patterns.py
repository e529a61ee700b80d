"""Find patterns of access that lose data: reused names, overwritten objects, outdated answers of weak stores.

Each share of the recorded requests gives, per table, pattern and principal, the number of files and requests, and three
of the files. Names that readers skip are overwritten by design (a marker, a pointer to a checkpoint), so for overwrites
only data files count. Requests of one second have no order. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.findings.causes import REMOVALS, WRITES
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import ACCESS, SEEN

PATTERNS = ("overwrite_in_place", "reused_name", "probe_before_put", "list_after_put", "stale_read")
RETRY = timedelta(minutes=1)
"""A second write within this time is a retry of the first one."""
NEGATIVE_CACHE = timedelta(minutes=10)
"""How long a store may cache that a key does not exist."""
LAG = timedelta(minutes=1)
"""How long after a write a listing or a read of a weak store may show the old state."""
SAMPLES = 3
PRINCIPALS = 20
"""Principals of one table and pattern with a row each; the others share one row."""
OTHERS = "other principals"
_PATTERN = ("judged_table", "bucket", "deed", "found")


@dataclass(frozen=True)
class WatchedTables:
    """Tables by their locations, and the buckets whose listings lag: plain data that is sent to the tasks."""

    tables: Mapping[Location, str]
    weak: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[Location, str]:
        """Return for each location the length of its prefix and the name of its table."""
        return {place: f"{len(place.prefix)}:{name}" for place, name in self.tables.items()}

    @property
    def whole(self) -> tuple[str, ...]:
        """Return the locations as requests name them that omit the last slash."""
        return tuple(f"{place.bucket}/{place.key}" for place in self.tables)


def of_tables(watched: WatchedTables, con: Connection, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Yield the REQUEST rows of tables as SEEN rows: `accesses`, and for weak buckets `folder_accesses`."""
    weak = f"bucket IN ({duck.literals(watched.weak)}) IS TRUE"
    of_use = f"""
        ("action" IN ({duck.literals([*WRITES, *REMOVALS])}) AND succeeded)
        OR ({weak} AND ("action" = 'list' AND succeeded OR "action" IN ('get', 'head') AND (succeeded OR status = 404)))
    """
    folder = f"""CASE WHEN "action" <> 'list' THEN NULL WHEN ends_with(key, '/') THEN key
        WHEN bucket || '/' || key IN ({duck.literals(watched.whole)}) THEN key || '/'
        ELSE regexp_replace(key, '[^/]*$', '') END"""
    selected = f"SELECT *, {weak} AS weak, {folder} AS folder, coalesce({folder}, key) AS place FROM input"
    named = duck.query(con, f"SELECT * REPLACE (place AS key) FROM ({selected} WHERE {of_use})", input=rows)
    labelled = attach_label(con, named, watched.labels, "label")
    columns = {
        "table_name": "substr(label, strpos(label, ':') + 1)",
        "principal": _ROLE,
        "is_data": f"NOT regexp_matches(relative, {duck.pattern(_HIDDEN)})",
    }
    relative = "substr(key, CAST(split_part(label, ':', 1) AS BIGINT) + 1)"
    sql = f"SELECT *, {relative} AS relative FROM input WHERE label IS NOT NULL"
    accesses = duck.table(duck.conform(con, duck.query(con, sql, input=labelled), SEEN, columns))
    yield "accesses", duck.query(con, "SELECT * FROM input WHERE folder IS NULL", input=accesses)
    if watched.weak:
        yield "folder_accesses", duck.query(con, _FOLDERS, input=accesses)


_ROLE = r"""regexp_replace(coalesce(principal, 'unknown'), '^(arn:[^:]*:sts::[^:]*:assumed-role/[^/]+)/.*$', '\1')"""
"""All sessions of a role are one principal: each run of a job has its own session."""
_HIDDEN = f"{keys.UNSEEN}|{keys.OTHERS}"
_FOLDERS = """
    SELECT * FROM input WHERE "action" = 'list'
    UNION ALL BY NAME
    SELECT * EXCLUDE (parts) REPLACE (
        unnest(list_transform(range(1, len(parts)), lambda n: array_to_string(parts[1:n], '/') || '/')) AS folder)
    FROM (SELECT *, string_split(key, '/') AS parts FROM input WHERE weak AND "action" = 'put')
"""
"""A write concerns each folder around its key."""


def patterns(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Yield ACCESS rows from the SEEN rows of some keys and of some folders."""
    if "accesses" in rows:
        yield "patterns", duck.conform(con, duck.query(con, _sums(_BY_KEY), input=rows["accesses"]), ACCESS)
    if "folder_accesses" in rows:
        listed = duck.query(con, _sums(_BY_FOLDER), input=rows["folder_accesses"])
        yield "patterns", duck.conform(con, listed, ACCESS)


def _frame(name: str, start: str, end: str, by: str = "bucket, key") -> str:
    return f'{name} AS (PARTITION BY {by} ORDER BY "at" RANGE BETWEEN {start} AND {end})'


def _ago(span: timedelta) -> str:
    return f"INTERVAL {span // timedelta(seconds=1)} SECOND PRECEDING"


_SECOND = timedelta(seconds=1)
_REQUESTS = """requests AS (
    SELECT DISTINCT ON (bucket, key, folder, "action", coalesce(request_id, CAST("at" AS VARCHAR))) *,
        "action" IN ('put', 'copy') AS writes, "action" IN ('delete', 'expire') AND version_id IS NULL AS removes
    FROM input)"""
_BY_KEY = f"""{_REQUESTS},
    dated AS (
        SELECT *, max("at") FILTER (writes) OVER earlier AS last_write,
            max("at") FILTER (writes) OVER before AS any_write,
            max("at") FILTER (removes) OVER before AS last_removal,
            coalesce(bool_or(removes) OVER same, false) AS tied,
            max("at") FILTER (status = 404) OVER lately AS probed
        FROM requests WINDOW {_frame("earlier", "UNBOUNDED PRECEDING", _ago(RETRY))},
            {_frame("before", "UNBOUNDED PRECEDING", _ago(_SECOND))}, {_frame("same", "CURRENT ROW", "CURRENT ROW")},
            {_frame("lately", _ago(NEGATIVE_CACHE), "CURRENT ROW")}),
    found AS (
        SELECT *, max("at") FILTER (removes OR (writes AND any_write IS NOT NULL)) OVER just AS replaced
        FROM dated WINDOW {_frame("just", _ago(LAG), _ago(_SECOND))}),
    matched AS (
        SELECT *, CASE
            WHEN "action" = 'put' AND is_data AND NOT tied AND last_removal >= last_write THEN 'write removed'
            WHEN "action" = 'put' AND is_data AND NOT tied AND last_write IS NOT NULL THEN 'write written'
            WHEN "action" = 'put' AND any_write IS NULL AND NOT tied AND probed IS NOT NULL THEN 'write missing'
            WHEN "action" IN ('get', 'head') AND succeeded AND is_data AND replaced IS NOT NULL THEN 'read removed'
            END AS pattern
        FROM found)"""
_BY_FOLDER = f"""{_REQUESTS},
    matched AS (
        SELECT *, CASE WHEN "action" = 'list' AND max("at") FILTER ("action" = 'put') OVER just IS NOT NULL
            THEN 'list written' END AS pattern
        FROM requests WINDOW {_frame("just", _ago(LAG), "CURRENT ROW", "bucket, folder")})"""


def _sums(matched: str) -> str:
    """Return SQL that counts keys and requests by table, pattern and principal, with times and samples."""
    return f"""
        WITH {matched},
        of_key AS (
            SELECT table_name, bucket, pattern, principal, weak, key, count(*) AS requests, min("at") AS first_at,
                max("at") AS last_at
            FROM matched WHERE pattern IS NOT NULL GROUP BY ALL)
        SELECT table_name AS judged_table, bucket, split_part(pattern, ' ', 1) AS deed,
            split_part(pattern, ' ', 2) AS found, principal, weak, count(*) AS files,
            CAST(sum(requests) AS BIGINT) AS requests, min(first_at) AS first_at, max(last_at) AS last_at,
            min(key, {SAMPLES}) AS samples
        FROM of_key GROUP BY table_name, bucket, pattern, principal, weak
    """


def merge_patterns(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sum ACCESS rows of all shares; the principals of a table and pattern beyond a limit share one row."""
    by_principal: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        _add(by_principal, tuple(row[name] for name in (*_PATTERN, "principal")), row)
    ranked = sorted(by_principal.items(), key=lambda each: (each[0][:-1], -each[1]["requests"], each[0][-1]))
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    number: dict[tuple[str, ...], int] = {}
    for key, row in ranked:
        number[key[:-1]] = number.get(key[:-1], 0) + 1
        name = key[-1] if number[key[:-1]] <= PRINCIPALS else OTHERS
        _add(merged, (*key[:-1], name), row | {"principal": name})
    return list(merged.values())


def _add(known: dict[tuple[str, ...], dict[str, Any]], at: tuple[str, ...], row: Mapping[str, Any]) -> None:
    before = known.get(at)
    if before is None:
        known[at] = dict(row)
        return
    known[at] = before | {
        "files": before["files"] + row["files"],
        "requests": before["requests"] + row["requests"],
        "first_at": min(before["first_at"], row["first_at"]),
        "last_at": max(before["last_at"], row["last_at"]),
        "samples": sorted({*before["samples"], *row["samples"]})[:SAMPLES],
    }


def access_rows(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows for `group_verdicts`: ACCESS with an empty path, because a pattern has no path below the table."""
    schema = pa.schema([*ACCESS, ("relative", pa.string())])
    return pa.Table.from_pylist([{**row, "relative": None} for row in rows], schema)

"""Find bucket and key of many raw paths at once: the counterpart of `keys.place_by_name` in SQL.

Nearly all paths begin with one of few schemes and authorities, which Python resolves; the rest of a path is its key.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.aliases import true_columns
from lakeaudit.keys import MOUNTS, Aliases, elsewhere, identify, place_by_name
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, literal, literals

_HEAD = r"(?s)^[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?"
_HEADS = pa.schema(
    [
        ("head", pa.string()),  # scheme and authority, or a whole path that needs Python
        ("whole", pa.bool_()),
        ("bucket", pa.string()),
        ("whole_key", pa.string()),
        ("unknown", pa.bool_()),  # the store is unknown unless an alias names a known one
    ]
)


def with_places(con: Connection, rows: pa.Table, aliases: Aliases) -> Relation:
    """Add the columns `bucket` and `key` of the column `path` to rows; both are null in an unknown store."""
    if (head := _shared_head(rows["path"], aliases)) is not None:
        raw_bucket, _ = identify(f"{head}/x") or ("", "")
        bucket, key = true_columns(aliases, literal(raw_bucket), f"substr(path, {len(head) + 2})")
        return duck.query(con, f"SELECT *, {bucket} AS bucket, {key} AS key FROM input", input=rows)
    return _with_any_places(con, rows, aliases)


def _shared_head(paths: pa.ChunkedArray, aliases: Aliases) -> str | None:
    """Return the scheme and authority of a known store with which all paths begin, as they nearly always do."""
    if not len(paths) or paths.null_count:
        return None
    found = re.match(_HEAD, paths[0].as_py())
    head = found[0] if found else ""
    without_authority = head.endswith(":")  # another path may have one behind the same scheme
    if identify(f"{head}/x") is None or without_authority or head.startswith(MOUNTS):
        return None
    named = pa.array([f"{head}/{alias.key}" for alias, _ in aliases], pa.string())
    if not pc.all(pc.starts_with(paths, f"{head}/")).as_py() or pc.any(pc.is_in(paths, named)).as_py():
        return None
    return head


def _with_any_places(con: Connection, rows: pa.Table, aliases: Aliases) -> Relation:
    head = f"regexp_extract(path, {literal(_HEAD)})"
    named = literals(sorted({alias.key for alias, _ in aliases if alias.key}))
    whole = f"""(NOT starts_with(substr(path, length(head) + 1), '/') OR starts_with(head, {literal(MOUNTS)})
        OR coalesce(substr(path, length(head) + 2) IN ({named}), false))"""
    sql = f"""SELECT * EXCLUDE (head), {whole} AS whole, CASE WHEN {whole} THEN path ELSE head END AS head
        FROM (SELECT *, {head} AS head FROM input)"""
    split = duck.table(duck.query(con, sql, input=rows))
    pairs = split.group_by(["head", "whole"]).aggregate([]).to_pylist()
    known = [_head(pair["head"], pair["whole"], aliases) for pair in pairs if pair["head"] is not None]
    return duck.query(con, _joined(aliases), split=split, heads=duck.small(_HEADS, known))


def _head(head: str, whole: bool, aliases: Aliases) -> tuple[str, bool, str | None, str | None, bool]:
    if whole:
        place = place_by_name(aliases, head)
        return (head, True, *(place or (None, None)), False)
    known = identify(f"{head}/x")
    other = None if known else elsewhere(f"{head}/x")
    return head, False, (known or other or (None,))[0], None, known is None


def _joined(aliases: Aliases) -> str:
    bucket, key = true_columns(aliases, "raw_bucket", "raw_key")
    return f"""
        WITH raw AS (
            SELECT split.*, heads.bucket AS raw_bucket, unknown,
                CASE WHEN split.whole THEN whole_key ELSE substr(path, length(split.head) + 2) END AS raw_key
            FROM split LEFT JOIN heads ON split.head = heads.head AND split.whole = heads.whole),
        named AS (
            SELECT * REPLACE (CASE WHEN whole THEN raw_bucket ELSE {bucket} END AS raw_bucket,
                CASE WHEN whole THEN raw_key ELSE {key} END AS raw_key),
                unknown AND {bucket} = raw_bucket AND {key} = raw_key AS nowhere
            FROM raw)
        SELECT * EXCLUDE (head, whole, unknown, raw_bucket, raw_key, nowhere),
            CASE WHEN NOT nowhere THEN raw_bucket END AS bucket,
            CASE WHEN NOT nowhere AND raw_bucket IS NOT NULL THEN raw_key END AS key
        FROM named"""

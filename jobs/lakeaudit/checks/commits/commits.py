"""Find commits of Delta logs that were written twice, and the content of their lost versions.

Without put-if-absent, two writers may write one commit: the second file replaces the first one, whose data files no
state lists. Storage that keeps versions still has the first file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit.evidence import registry
from lakeaudit.evidence.protocol import CommitContent
from lakeaudit.keys import Location
from lakeaudit.rules.file_facts import MD5_TEXT
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import LOG_VERSIONS


def log_versions(con: Connection, older: Rows) -> Relation:
    """Return LOG_VERSIONS rows of commits of which storage keeps an older version with another ETag or size.

    `older` are rows of `marked_states.with_older_versions`.
    """
    md5 = f"""regexp_matches(etag, {duck.pattern(MD5_TEXT)}) AND NOT coalesce(multipart, false)
        AND encryption IN ('NONE', 'SSE-S3')"""
    sql = f"""
        WITH log AS (
            SELECT DISTINCT source, bucket, key, version_id, is_latest, is_delete_marker, size, etag, modified_at,
                coalesce({md5}, false) AS md5
            FROM input WHERE format IN ({duck.literals(registry.commit_formats())})),
        rewritten AS (
            SELECT source, bucket, key FROM log WHERE NOT is_delete_marker GROUP BY ALL
            HAVING count(*) FILTER (NOT is_latest) > 0 AND (count(DISTINCT etag) > 1 OR count(DISTINCT size) > 1))
        SELECT log.* FROM log SEMI JOIN rewritten USING (source, bucket, key)
    """
    return duck.conform(con, duck.made_of(con, sql, older), LOG_VERSIONS)


@dataclass(frozen=True)
class RewrittenCommit:
    """A commit's file that replaced another version of it.

    `sure`: sizes or MD5s differ. The lost version has been an older one since `replaced_at`, and `newer` versions and
    markers above it are not current. Times are UTC without a zone.
    """

    table: str
    root: Location
    version: int
    place: Location
    lost_version_id: str | None
    lost_at: datetime
    lost_etag: str | None
    version_id: str | None
    written_at: datetime
    etag: str | None
    sure: bool
    lost_size: int | None = None
    replaced_at: datetime | None = None
    newer: int | None = None


_PLACES = pa.schema(
    [("table_name", pa.string()), ("bucket", pa.string()), ("folder", pa.string()), ("since", pa.int64())]
)


def rewritten_commits(
    con: Connection, versions: Rows, places: Mapping[str, Location], since: Mapping[str, int]
) -> list[RewrittenCommit]:
    """Return the commits of these tables that replaced other versions, from LOG_VERSIONS rows; newest first.

    `places` has the tables' locations, `since` the version after which their commits are read: for older commits it is
    unknown which files were committed again. A table that was deleted and created again has a delete marker between.
    """
    folders = [
        (name, at.bucket, f"{at.prefix}_delta_log/", since[name])
        for name, at in places.items()
        if name in since
    ]
    sql = """
        WITH mine AS (
            SELECT DISTINCT v.* EXCLUDE (source), p.table_name, folder,
                TRY_CAST(substring(key, length(folder) + 1, 20) AS BIGINT) AS number, since
            FROM input v JOIN places p ON v.bucket = p.bucket
                AND starts_with(key, folder) AND length(key) = length(folder) + 25),
        newest AS (SELECT * FROM mine WHERE is_latest AND NOT is_delete_marker AND number > since),
        deleted AS (SELECT bucket, key, max(modified_at) AS at FROM mine WHERE is_delete_marker GROUP BY ALL)
        SELECT n.table_name, n.number, n.bucket, n.key, left(n.folder, length(n.folder) - 12) AS root,
            o.version_id AS lost_version_id, o.modified_at AS lost_at, o.etag AS lost_etag,
            n.version_id, n.modified_at AS written_at, n.etag,
            o.size <> n.size OR (o.md5 AND n.md5 AND o.etag <> n.etag) AS sure, o.size AS lost_size,
            (SELECT min(a.modified_at) FROM mine a WHERE a.bucket = o.bucket AND a.key = o.key
                AND (a.is_latest OR a.modified_at > o.modified_at)) AS replaced_at,
            (SELECT count(*) FROM mine a WHERE a.bucket = o.bucket AND a.key = o.key
                AND NOT a.is_latest AND a.modified_at > o.modified_at) AS newer
        FROM newest n JOIN mine o USING (bucket, key) LEFT JOIN deleted d USING (bucket, key)
        WHERE NOT o.is_latest AND NOT o.is_delete_marker AND coalesce(o.modified_at > d.at, true)
            AND (o.size <> n.size OR o.etag <> n.etag)
        ORDER BY n.table_name, n.number DESC, lost_at DESC, lost_version_id
    """
    rows = duck.rows_of(duck.made_of(con, sql, versions, places=duck.small(_PLACES, folders)))
    return [_rewritten(row) for row in rows]


def _rewritten(row: Mapping[str, Any]) -> RewrittenCommit:
    root, place = Location(row["bucket"], row["root"].removesuffix("/")), Location(row["bucket"], row["key"])
    return RewrittenCommit(
        row["table_name"], root, row["number"], place, row["lost_version_id"], row["lost_at"], row["lost_etag"],
        row["version_id"], row["written_at"], row["etag"], bool(row["sure"]),
        row["lost_size"], row["replaced_at"], row["newer"],
    )  # fmt: skip


@dataclass(frozen=True)
class Loss:
    """Actions that only the lost version of a commit records: files that it added, and files that it removed.

    `of_table`: it changed the metadata of the table, and its successor does not.
    """

    files: int = 0
    bytes: int = 0
    rows: int | None = None
    undone: int = 0
    of_table: bool = False
    sample: tuple[str, ...] = ()


SAMPLES = 3


@dataclass(frozen=True)
class Comparison:
    """Two versions of one commit of a table, by their numbers among the commits that were read."""

    table: str
    lost: int
    current: int


def losses(
    con: Connection, files: Rows, claims: Rows, pairs: Sequence[Comparison], commits: Sequence[CommitContent]
) -> list[Loss]:
    """Return the loss of each pair.

    Args:
        con: where the query runs.
        files: actions of commits on files, by the number of the commit in `commits`, see `CommitContents`.
        claims: table_name, bucket, key, state of these files in all readable states.
        pairs: which commits are compared with each other.
        commits: the other content of the commits.
    """
    sql = f"""
        WITH actions AS (
            SELECT f.*, pair, table_name, number = lost AS is_lost
            FROM (SELECT * FROM files WHERE data_change) f JOIN pairs ON number IN (lost, current)),
        alone AS (
            SELECT l.* FROM actions l
            ANTI JOIN (SELECT * FROM actions WHERE NOT is_lost) c USING (pair, bucket, key, added)
            WHERE l.is_lost),
        matched AS (SELECT alone.*, state FROM alone LEFT JOIN claims USING (table_name, bucket, key))
        SELECT pair, count(*) FILTER ({_LOST}) AS files, CAST(sum(size) FILTER ({_LOST}) AS BIGINT) AS bytes,
            CAST(sum(records) FILTER ({_LOST}) AS BIGINT) AS rows,
            count(*) FILTER (NOT added AND state = 'live') AS undone,
            min(key, {SAMPLES}) FILTER ({_LOST}) AS sample
        FROM matched GROUP BY pair
    """
    numbered = duck.small(_PAIRS, [(n, each.table, each.lost, each.current) for n, each in enumerate(pairs)])
    losses_of_pairs = duck.rows_of(duck.query(con, sql, files=files, claims=claims, pairs=numbered))
    rows = {row["pair"]: row for row in losses_of_pairs}
    return [
        _loss(rows.get(number, {}), commits[pair.lost], commits[pair.current])
        for number, pair in enumerate(pairs)
    ]


_PAIRS = pa.schema(
    [("pair", pa.int64()), ("table_name", pa.string()), ("lost", pa.int64()), ("current", pa.int64())]
)
_LOST = "added AND state IS NULL"


def _loss(row: Mapping[str, Any], lost: CommitContent, current: CommitContent) -> Loss:
    of_table = bool(set(lost.of_table) - set(current.of_table))
    names = tuple(key.rpartition("/")[2] for key in row.get("sample") or ())
    return Loss(
        row.get("files", 0), row.get("bytes") or 0, row.get("rows"), row.get("undone", 0), of_table, names
    )

"""Commits of Delta logs that were written twice: which files have lost a version, and what that says.

Where writers have no put-if-absent, two of them may write one commit: the second file takes the place of the first,
whose data files no state lists. Storage that keeps versions still has the first one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from lakeaudit.compare.facts import MD5_TEXT
from lakeaudit.evidence.protocol import CommitContent
from lakeaudit.keys import END, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import LOG_VERSIONS

RACE = timedelta(hours=1)
"""Two writers of one commit write within this; what is written again later may be a copy of a whole log."""
COPY = timedelta(minutes=10)
"""Neighbouring commits that were written within this of a late one were copied with it."""
_COMMIT = rf"/_delta_log/[0-9]{{20}}\.json{END}"
_LIKELY = "contains(key, '/_delta_log/0')"


def log_versions(con: Connection, versions: Rows) -> Relation:
    """LOG_VERSIONS rows of commits of which storage keeps an older version with another ETag or size."""
    md5 = f"""regexp_matches(etag, {duck.pattern(MD5_TEXT)}) AND NOT coalesce(multipart, false)
        AND encryption IN ('NONE', 'SSE-S3')"""
    sql = f"""
        WITH log AS (
            SELECT DISTINCT source, bucket, key, version_id, is_latest, is_delete_marker, size, etag, modified_at,
                coalesce({md5}, false) AS md5
            FROM input WHERE {_LIKELY} AND regexp_matches(key, {duck.pattern(_COMMIT)})),
        rewritten AS (
            SELECT source, bucket, key FROM log WHERE NOT is_delete_marker GROUP BY ALL
            HAVING count(*) FILTER (NOT is_latest) > 0 AND (count(DISTINCT etag) > 1 OR count(DISTINCT size) > 1))
        SELECT log.* FROM log SEMI JOIN rewritten USING (source, bucket, key)
    """
    return duck.conform(con, duck.query(con, sql, input=versions), LOG_VERSIONS)


@dataclass(frozen=True)
class Rewritten:
    """A commit's file that took the place of another one.

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


def rewritten(
    con: Connection, versions: Rows, places: Mapping[str, Location], since: Mapping[str, int]
) -> list[Rewritten]:
    """The commits of these tables, from LOG_VERSIONS rows, that took the place of others; newest first.

    `places` are the tables' locations, `since` the version after which their commits are read: of older ones nobody can
    say any more what was committed again. A table that was deleted and made anew has a delete marker between.
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
            FROM versions v JOIN places p ON v.bucket = p.bucket
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
    rows = duck.rows_of(duck.query(con, sql, versions=versions, places=duck.small(_PLACES, folders)))
    return [_rewritten(row) for row in rows]


def _rewritten(row: Mapping[str, Any]) -> Rewritten:
    root, place = Location(row["bucket"], row["root"].rstrip("/")), Location(row["bucket"], row["key"])
    return Rewritten(
        row["table_name"], root, row["number"], place, row["lost_version_id"], row["lost_at"], row["lost_etag"],
        row["version_id"], row["written_at"], row["etag"], bool(row["sure"]),
        row["lost_size"], row["replaced_at"], row["newer"],
    )  # fmt: skip


def is_copied(commit: Rewritten, neighbours: Iterable[datetime | None]) -> bool:
    """Whether a whole log was copied over another one, by when the commits before and after it were written."""
    near = [abs(commit.written_at - at) <= COPY for at in neighbours if at is not None]
    return commit.written_at - commit.lost_at > RACE and any(near)


@dataclass(frozen=True)
class Loss:
    """What the lost version of a commit said and nothing says since: files that it added, and that it removed.

    `of_table`: it changed the table as a whole, and its successor does not.
    """

    files: int = 0
    bytes: int = 0
    rows: int | None = None
    undone: int = 0
    of_table: bool = False
    sample: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.undone or self.of_table)


SAMPLES = 3


def added_by_lost(con: Connection, files: Rows) -> pa.Table:
    """bucket, key of the files that commits name whose numbers are even: the lost ones, see `losses`."""
    return duck.table(
        duck.query(con, "SELECT DISTINCT bucket, key FROM files WHERE number % 2 = 0", files=files)
    )


def losses(
    con: Connection, files: Rows, commits: Sequence[CommitContent], claims: Rows, tables: Sequence[str]
) -> list[Loss]:
    """What each lost version lost: those have even numbers in `files`, what took their places the next odd ones.

    `claims` (table_name, bucket, key, state) say what every state that can be read lists or has listed of these files;
    `tables` is the table of each lost version.
    """
    sql = f"""
        WITH said AS (SELECT *, number // 2 AS pair, number % 2 = 0 AS lost FROM files WHERE data_change),
        alone AS (
            SELECT l.*, table_name FROM said l JOIN pairs USING (pair)
            ANTI JOIN (SELECT * FROM said WHERE NOT lost) c USING (pair, bucket, key, added)
            WHERE l.lost),
        told AS (SELECT alone.*, state FROM alone LEFT JOIN claims USING (table_name, bucket, key))
        SELECT pair, count(*) FILTER ({_LOST}) AS files, CAST(sum(size) FILTER ({_LOST}) AS BIGINT) AS bytes,
            CAST(sum(records) FILTER ({_LOST}) AS BIGINT) AS rows,
            count(*) FILTER (NOT added AND state = 'live') AS undone,
            min(key, {SAMPLES}) FILTER ({_LOST}) AS sample
        FROM told GROUP BY pair
    """
    pairs = duck.small(_PAIRS, list(enumerate(tables)))
    rows = {r["pair"]: r for r in duck.rows_of(duck.query(con, sql, files=files, claims=claims, pairs=pairs))}
    return [_loss(rows.get(pair, {}), *commits[2 * pair : 2 * pair + 2]) for pair in range(len(tables))]


_PAIRS = pa.schema([("pair", pa.int64()), ("table_name", pa.string())])
_LOST = "added AND state IS NULL"


def _loss(row: Mapping[str, Any], lost: CommitContent, current: CommitContent) -> Loss:
    of_table = bool(set(lost.of_table) - set(current.of_table))
    names = tuple(key.rpartition("/")[2] for key in row.get("sample") or ())
    return Loss(
        row.get("files", 0), row.get("bytes") or 0, row.get("rows"), row.get("undone", 0), of_table, names
    )

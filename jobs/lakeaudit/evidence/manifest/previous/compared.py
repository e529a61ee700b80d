"""Compare the last storage snapshot with storage as it is now: its claims, and the next snapshot. Pure, in DuckDB.

A file of the last snapshot stays a claim until it is there as it was, a person has accepted the change, or its
retention is over. If a table does not say `append_only`, a job may rewrite a folder. The folder counts as rewritten if
the files that were written there since have at least half the bytes of the missing ones: if none of the claimed files
of the folder is left, the claims end, and if some are left, they are uncertain (`certain` is false). They are also
uncertain if several files are missing and fewer were written since: small files that were compacted take fewer bytes.
The claim of a file also ends if another file of its folder holds the same bytes.

A folder of Hive's ACID tables explains the files that its compaction replaced: `base_N` every base and delta up to N,
and `delta_M_N` every delta of the same sort from M to N (Hive, "ACID and Transactions", "Compactor").

Rows that meet here have one `base`: the folder, the folder around those of ACID, or the key if a table says
`append_only`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.manifest.previous.snapshot_store import FILE
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM

TABLES = pa.schema(
    [
        ("name", pa.string()),
        ("location_bucket", pa.string()),
        ("prefix", pa.string()),
        ("append_only", pa.bool_()),
        ("settled", pa.duration("us")),  # 0 with append_only
        ("keep", pa.duration("us")),  # null: for ever
    ]
)
"""A row holds the settings of a table with such a manifest."""

PICTURED = pa.schema([*FILE, ("base", pa.string())])
"""A row is a file of the last storage snapshot; rows of kind `pictured`."""

PLACED = pa.schema(
    [
        ("table_name", pa.string()),
        ("bucket", pa.string()),
        ("base", pa.string()),
        ("key", pa.string()),
        ("size", pa.int64()),
        ("etag", pa.string()),
        ("modified_at", pa.timestamp("us")),
        ("edge", pa.timestamp("us")),  # cutoff of the storage snapshot that shows it
    ]
)
"""A row is an object that readers of a table's folder find; rows of kind `placed`."""

ACCEPTED = pa.schema([(name, pa.string()) for name in ("table_name", "bucket", "key")])
"""A row is a file whose change people accepted."""

EDGES = pa.schema([("source", pa.string()), ("edge", pa.timestamp("us"))])

Owned = Callable[[Connection, Rows], Relation]
"""Adds `table_name` to rows (bucket, key): the table that holds the key, or null."""

_FOLDER = "CASE WHEN contains(key, '/') THEN regexp_extract(key, '^(.*)/', 1) ELSE '' END"
_ACID = r"(^|/)(base|delta|delete_delta)_([0-9]+)(?:_([0-9]+))?(?:_[0-9]+)?(?:_v[0-9]+)?$"
_AROUND = f"regexp_replace({_FOLDER}, {duck.literal(_ACID)}, '')"
_BASE = f"CASE WHEN append_only THEN key ELSE {_AROUND} END"


@dataclass(frozen=True)
class Comparison:
    """Holds the settings of a comparison: plain data that is sent to the tasks.

    `accepted` are ACCEPTED rows, `accepted_groups` tables, and partitions of tables, whose changes people accepted.
    """

    tables: pa.Table
    edges: pa.Table
    accepted: pa.Table
    accepted_groups: tuple[tuple[str, str | None], ...]
    owned: Owned
    source: str
    as_of: datetime

    def project(self, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
        """Yield the PLACED rows of storage, and all rows of the last storage snapshot."""
        if kind == "versions":
            yield "placed", self._current_objects(con, rows)
        elif kind == "pictured":
            yield kind, rows

    def _current_objects(self, con: Connection, versions: Rows) -> Relation:
        current = "SELECT * FROM input WHERE reject IS NULL AND is_latest AND NOT is_delete_marker"
        owned = self.owned(con, duck.query(con, current, input=versions))
        sql = f"""
            SELECT table_name, bucket, {_BASE} AS base, key, size, etag, modified_at, edge
            FROM input JOIN tables ON table_name = name JOIN edges USING (source)
            WHERE NOT regexp_matches(substring(key, len(prefix) + 1), {duck.pattern(keys.UNSEEN)})
        """
        return duck.conform(
            con, duck.query(con, sql, input=owned, tables=self.tables, edges=self.edges), PLACED
        )

    def compare(self, con: Connection, rows: Mapping[str, Rows]) -> tuple[Relation, Relation, Relation]:
        """Return (CLAIM rows, FILE rows of the next storage snapshot, NEW rows) of all rows of some bases."""
        met = duck.hold(
            con,
            duck.query(
                con,
                _MET.format(
                    as_of=duck.literal(self.as_of),
                    date=partition_date("relative"),
                    groups=self._in_accepted_group(),
                    folder=_FOLDER,
                    acid=duck.literal(_ACID),
                ),
                pictured=rows.get("pictured", PICTURED.empty_table()),
                placed=rows.get("placed", PLACED.empty_table()),
                tables=self.tables,
                accepted=self.accepted,
            ),
        )
        judged = duck.hold(con, duck.query(con, _JUDGED, met=met))
        following = duck.conform(con, duck.query(con, _NEXT, met=judged), FILE)
        return claims(con, judged, self.source), following, duck.query(con, _NEW, met=judged)

    def _in_accepted_group(self) -> str:
        each = [
            f"(known.table_name = {duck.literal(table)}"
            + (f" AND starts_with(relative, {duck.literal(partition + '/')}))" if partition else ")")
            for table, partition in self.accepted_groups
        ]
        return f"({' OR '.join(each) or 'false'})"


def lasting_files(con: Connection, rows: pa.Table, tables: pa.Table, *, whole: bool) -> Relation:
    """Return PICTURED rows of the FILE rows that should stay by the present settings of their tables."""
    ended = "false" if not whole else "ended"
    sql = f"""
        SELECT input.*, {_BASE} AS base FROM input JOIN tables ON table_name = name
        WHERE NOT {ended} AND bucket = location_bucket AND starts_with(key, prefix)
            AND coalesce(modified_at + settled <= seen_at, append_only)
    """
    return duck.conform(con, duck.query(con, sql, input=rows, tables=tables), PICTURED)


def claims(con: Connection, files: Rows, source: str) -> Relation:
    """Return CLAIM rows of claimed files: PICTURED rows, or those that `compare` has judged."""
    judged = "claimed" in duck.relation(con, files).columns
    own = f"SELECT * FROM input {'WHERE claimed' if judged else ''}"
    given = {
        "source": duck.literal(source),
        "manifest_kind": "'previous'",
        "state": "'live'",
        "certain": "NOT unsure" if judged else "true",
        "category": "'data'",
        "claimed_at": "coalesce(modified_at, first_seen_at)",
        "explained": "false",
        "listed": "1",
        "own_root": "true",
        "commit_id": "'picture of ' || strftime(seen_at, '%Y-%m-%dT%H:%M:%SZ')",
    }
    unknown = dict.fromkeys(
        ("partition_path", "least_size", "version_id", "checksum", "records", "removed_at", "table_version"),
        "NULL",
    )
    return duck.conform(con, duck.query(con, own, input=files), CLAIM, given | unknown)


def partition_date(relative: str) -> str:
    """Return SQL for the first day of the partition of a key below its table; null if its folders name none.

    Days are read as 2026-11-23 and 20261123, months as 2026-11, and both as year=2026/month=11/day=23 and 2026/11/23.
    """
    folder = f"regexp_extract({relative}, '^(.*)/', 1)"
    found = [
        f"list_transform([regexp_extract({folder}, {duck.literal(regex)}, ['y', 'm', 'd'])], lambda found:"
        " TRY_CAST(found.y || '-' || coalesce(nullif(found.m, ''), '1') || '-' || coalesce(nullif(found.d, ''), '1')"
        " AS DATE))[1]"
        for regex in _DATES
    ]
    return f"coalesce({', '.join(found)})"


_YEAR = r"((?:19|20)\d\d)"
_DATES = (
    rf"(?:^|[/=_.-]){_YEAR}-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?:[^0-9]|$)",
    rf"(?:^|/)y(?:ear)?={_YEAR}(?:/m(?:onth)?=(\d{{1,2}}))?(?:/d(?:ay)?=(\d{{1,2}}))?(?:/|$)",
    rf"(?:^|/){_YEAR}/(0[1-9]|1[0-2])(?:/(0[1-9]|[12]\d|3[01]))?(?:/|$)",
    rf"(?:^|[/=_.-]){_YEAR}-(0[1-9]|1[0-2])()(?:[^0-9-]|$)",
)

_MET = """
WITH now AS (
    SELECT table_name, bucket, base, key, true AS there, arg_max(row, ord) AS o
    FROM (SELECT *, {{'edge': edge, 'modified_at': modified_at}} AS ord,
            {{'size': size, 'etag': etag, 'modified_at': modified_at, 'edge': edge}} AS row FROM placed)
    GROUP BY ALL
),
met AS (
    SELECT * EXCLUDE (was, there), coalesce(was, false) AS was, coalesce(there, false) AS there
    FROM (SELECT *, true AS was FROM pictured) FULL JOIN now USING (table_name, bucket, base, key)
),
known AS (
    SELECT met.*, append_only, settled, keep, substring(key, len(prefix) + 1) AS relative,
        -- storage shows it as it was: by its ETag, else by size and time
        was AND there AND coalesce(size = o.size, true)
            AND CASE WHEN etag IS NOT NULL AND o.etag IS NOT NULL THEN etag = o.etag
                ELSE coalesce(o.modified_at <= modified_at, true) END AS same
    FROM met JOIN tables ON table_name = name
)
SELECT known.*, acid.sort AS sort, TRY_CAST(acid.first AS UBIGINT) AS first,
    TRY_CAST(coalesce(nullif(acid.last, ''), acid.first) AS UBIGINT) AS last,
    CASE WHEN acid.sort <> '' AND NOT append_only THEN folder ELSE base END AS place,
    -- a day early, since days of partitions have a zone of their own
    keep IS NOT NULL
        AND coalesce(coalesce({date}, modified_at, o.modified_at) + keep - INTERVAL 1 DAY <= {as_of}, false) AS expired,
    was AND NOT same AND (
        EXISTS (FROM accepted a WHERE a.table_name = known.table_name AND a.bucket = known.bucket AND a.key = known.key)
        OR {groups}) AS accepted
FROM (
    SELECT *, {folder} AS folder, regexp_extract({folder}, {acid}, ['cut', 'sort', 'first', 'last']) AS acid
    FROM known) AS known
"""

_DIGEST = "^[0-9a-f]{32}(-[0-9]+)?$"
"""An ETag of this form is a digest of the bytes of an object, of as many parts."""

_JUDGED = f"""
WITH copies AS (
    SELECT DISTINCT table_name, bucket, place, o.size AS size, o.etag AS etag FROM met
    WHERE there AND o.size > 0 AND regexp_matches(o.etag, '{_DIGEST}')
),
lost AS (
    SELECT table_name, bucket, place, min(seen_at) AS since, coalesce(sum(size), 0) AS bytes, count(*) AS files
    FROM met WHERE was AND NOT there AND NOT append_only AND NOT expired AND NOT accepted GROUP BY ALL
),
renewed AS (
    SELECT table_name, bucket, place,
        count(*) FILTER (was AND there) = 0 AND 2 * coalesce(sum(o.size) FILTER (new), 0) >= any_value(lost.bytes)
            AS rewritten
    FROM (SELECT met.*, NOT was AND o.modified_at > since AS new, lost
        FROM met JOIN lost USING (table_name, bucket, place))
    GROUP BY ALL
    HAVING count(*) FILTER (new) > 0 AND (2 * coalesce(sum(o.size) FILTER (new), 0) >= any_value(lost.bytes)
        OR (any_value(lost.files) > 1 AND count(*) FILTER (new) < any_value(lost.files)))
),
folders AS (
    SELECT table_name, bucket, base, place, sort, first, last, bool_or(there) AS there
    FROM met WHERE sort <> '' GROUP BY ALL
),
compacted AS (
    SELECT DISTINCT old.table_name, old.bucket, old.place
    FROM folders old JOIN folders new USING (table_name, bucket, base)
    WHERE old.place <> new.place AND new.there AND old.last <= new.last
        AND (new.sort = 'base' OR (new.sort = old.sort AND new.first <= old.first))
)
SELECT met.* EXCLUDE (rewritten, is_over),
    was AND NOT there AND is_over AS replaced,
    was AND NOT there AND NOT is_over AND coalesce(NOT rewritten, false) AS unsure,
    was AND NOT expired AND NOT accepted AND NOT (NOT there AND is_over) AS claimed
FROM (
    SELECT met.*, rewritten,
        compacted.place IS NOT NULL OR coalesce(rewritten, false) OR copies.etag IS NOT NULL AS is_over
    FROM met LEFT JOIN renewed USING (table_name, bucket, place)
    LEFT JOIN compacted USING (table_name, bucket, place)
    LEFT JOIN copies ON met.table_name = copies.table_name AND met.bucket = copies.bucket
        AND met.place = copies.place AND met.size = copies.size AND met.etag = copies.etag
) AS met
"""
"""A missing file is not lost if another file of its folder holds the same bytes: one of two copies was removed."""

_NEXT = """
SELECT table_name, bucket, key, o.size AS size, coalesce(o.etag, CASE WHEN same THEN etag END) AS etag,
    CASE WHEN same THEN coalesce(modified_at, o.modified_at) ELSE o.modified_at END AS modified_at,
    coalesce(first_seen_at, o.edge) AS first_seen_at, o.edge AS seen_at, false AS ended
FROM met
WHERE there AND NOT expired AND (NOT was OR accepted OR (same AND o.edge >= seen_at))
    AND (same OR coalesce(o.modified_at + settled <= o.edge, append_only))
UNION ALL
SELECT table_name, bucket, key, size, etag, modified_at, first_seen_at, seen_at, replaced
FROM met
WHERE was AND NOT expired AND NOT accepted AND NOT (there AND same AND o.edge >= seen_at)
ORDER BY table_name, bucket, key
"""

_NEW = """
SELECT table_name, count(*) AS files, CAST(coalesce(sum(o.size), 0) AS BIGINT) AS bytes
FROM met WHERE there AND NOT was AND NOT expired GROUP BY table_name
"""
"""Files of a table that storage has and that the last snapshot did not claim."""

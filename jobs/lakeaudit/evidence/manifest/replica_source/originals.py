"""Turn objects of another place into claims on their copies: pure, in DuckDB.

A copy is younger than its original, and has another version id, so neither is compared. Its ETag is the same or has no
meaning, unless both are MD5s of the content (S3 User Guide, "Checking object integrity"): an ETag that is certainly an
MD5 becomes the claim's checksum, and one that is certainly not, by its encryption, is left out.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.aliases import true_columns
from lakeaudit.evidence.manifest.previous.compared import partition_date
from lakeaudit.evidence.storage.head import MD5_ENCRYPTIONS
from lakeaudit.evidence.storage.versions import CURRENT
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM

KIND = "originals"
"""The kind of row that carries ORIGINAL rows."""

ORIGINAL = pa.schema([*CLAIM, ("reject", pa.string())])
"""A schemas.CLAIM row for one current object of the other place; or why its row cannot be understood."""

TABLES = pa.schema([("name", pa.string()), ("prefix", pa.string())])

Owned = Callable[[Connection, Rows], Relation]
"""Adds `table_name` to rows (bucket, key): the table that holds the key, or null."""
Make = Callable[[Connection, Rows], Relation]
"""Turns rows of storage into rows of KIND."""

_MD5 = f"regexp_matches(etag, {duck.pattern('^[0-9a-f]{32}' + keys.END)}) AND NOT coalesce(multipart, false)"
_SURELY_MD5 = f"coalesce({_MD5} AND encryption IN ({duck.literals(MD5_ENCRYPTIONS)}), false)"
_SURELY_NONE = f"coalesce(encryption NOT IN ({duck.literals(MD5_ENCRYPTIONS)}), false)"
_NOT_COPIED = f"{keys.TEMPORARY}|{keys.MARKER}"
"""Names that a copy need not have: work that was never committed, and placeholders of folders."""
_OF_FORMATS = (
    r"(^|/)(_delta_log|_change_data|\.hoodie|_spark_metadata|_symlink_format_manifest)/"
    rf"|(^|/)\.hoodie_partition_metadata(\.[^/]*)?{keys.END}|{keys.HUDI_LOG}"
)
"""Hidden names that a table's own format reads."""
_CRC = rf"(^|/)\.[^/]+\.crc{keys.END}"
_OPTIONAL = f"""(regexp_matches(relative, {duck.pattern(_CRC)})
    OR (regexp_matches(relative, {duck.pattern(keys.HIDDEN)})
        AND NOT regexp_matches(relative, {duck.pattern(_OF_FORMATS)})))
"""
"""Condition for files that a copy may lack: marks of the source's jobs (`_SUCCESS`, `.crc`) and other skipped names."""
_CATEGORY = f"""
    CASE WHEN starts_with(relative, '_delta_log/') THEN 'log'
        WHEN regexp_matches(relative, {duck.pattern(f"{keys.OTHERS}|{keys.HIDDEN}")}) THEN 'other' ELSE 'data' END
"""


def originals(
    con: Connection,
    versions: Rows,
    *,
    maps: Aliases,
    owned: Owned,
    tables: pa.Table,
    source: str,
    kind: str,
    as_of: datetime,
    keep: timedelta | None = None,
) -> Relation:
    """Return ORIGINAL rows of schemas.VERSION rows: the current objects that `maps` assign to one of `tables`.

    Files that readers skip, and files older than the copies' own retention (`keep`), may exist or not. An object whose
    age is unknown is claimed since `as_of`: late, never false.
    """
    bucket, key = true_columns(maps, "bucket", "key")
    mapped = f"""
        SELECT * REPLACE ({bucket} AS bucket, {key} AS key),
            row({bucket}, {key}) IS DISTINCT FROM row(bucket, key) AS moved
        FROM input WHERE reject IS NOT NULL OR ({CURRENT})
    """
    placed = owned(con, duck.query(con, mapped, input=versions))
    sql = f"""
        SELECT input.*, substring(key, len(prefix) + 1) AS relative
        FROM input LEFT JOIN tables ON table_name = name
        WHERE reject IS NOT NULL OR (moved AND name IS NOT NULL
            AND NOT regexp_matches(substring(key, len(prefix) + 1), {duck.pattern(_NOT_COPIED)}))
    """
    optional = f"({_OPTIONAL} OR {_is_expired(keep, as_of)})"
    given = {
        "source": duck.literal(source),
        "manifest_kind": duck.literal(kind),
        "state": f"CASE WHEN {optional} THEN 'history' ELSE 'live' END",
        "certain": "coalesce(is_latest AND is_delete_marker IS NOT NULL, false)",
        "category": _CATEGORY,
        "etag": f"CASE WHEN NOT {_SURELY_NONE} THEN etag END",
        "checksum": f"CASE WHEN {_SURELY_MD5} THEN 'md5:' || etag ELSE checksum END",
        "claimed_at": f"coalesce(modified_at, {duck.literal(as_of)})",
        "explained": optional,
        "listed": "1",
        "own_root": "true",
    }
    unknown = dict.fromkeys(
        ("partition_path", "least_size", "version_id", "records", "removed_at", "commit_id", "table_version"),
        "NULL",
    )
    return duck.conform(con, duck.query(con, sql, input=placed, tables=tables), ORIGINAL, given | unknown)


def _is_expired(keep: timedelta | None, as_of: datetime) -> str:
    """Return SQL that is true if a copy's own retention may have removed it, by its partition's day, else its age."""
    if keep is None:
        return "false"
    since = f"coalesce({partition_date('relative')}, modified_at)"
    return f"coalesce({since} + {duck.literal(keep)} - INTERVAL 1 DAY <= {duck.literal(as_of)}, false)"


def claims(con: Connection, rows: Mapping[str, Rows], *, source: str) -> Relation:
    """Return schemas.CLAIM rows of the ORIGINAL rows of a source: one for each key.

    A listing may name an object twice, and two places may be mapped to one: if they differ, the claim is uncertain.
    """
    sql = """
        WITH mine AS (SELECT * FROM originals WHERE source = $source),
        many AS (
            SELECT table_name, bucket, key, arg_max(mine, claimed_at) AS newest,
                count(DISTINCT size) < 2 AND count(DISTINCT etag) < 2 AS equal
            FROM mine GROUP BY table_name, bucket, key HAVING count(*) > 1
        )
        SELECT * FROM mine ANTI JOIN many USING (table_name, bucket, key)
        UNION ALL BY NAME
        SELECT newest.* REPLACE (newest.certain AND equal AS certain) FROM many
    """.replace("$source", duck.literal(source))
    held = duck.hold(con, rows.get(KIND, ORIGINAL.empty_table()))
    return duck.conform(con, duck.query(con, sql, originals=held), CLAIM)


PLAIN = ("(checksum IS NULL OR (etag IS NOT NULL AND checksum = 'md5:' || etag))",)
"""Conditions for a plain row, which a copy meets by its size and, if it has one, its ETag."""


def fingerprints(con: Connection, rows: Rows) -> Relation:
    """Return the claim of each ORIGINAL row alone, see `matching.prefilter`; a copy is always younger."""
    sql = f"""
        SELECT table_name, bucket, key, 'data' AS category, size, etag, TIMESTAMP '9999-01-01' AS claimed_at,
            coalesce({" AND ".join(("true", *PLAIN))}, false) AS plain
        FROM input
    """
    return duck.query(con, sql, input=rows)

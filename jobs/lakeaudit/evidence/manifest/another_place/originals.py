"""Objects of another place as claims on their copies: pure, in DuckDB.

A copy is younger than its original, and its version id is another one, so neither tells anything. Its ETag is the same
or tells nothing, unless both are MD5s of the content (S3 User Guide, "Checking object integrity"): an ETag that surely
is one is the claim's checksum, and one that surely is none, by its encryption, is left out.
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
"""The kind of row that ORIGINAL rows travel as."""

ORIGINAL = pa.schema([*CLAIM, ("reject", pa.string())])
"""A claim as schemas.CLAIM, of one current object of the other place; or why a row of it cannot be understood."""

TABLES = pa.schema([("name", pa.string()), ("prefix", pa.string())])

Owned = Callable[[Connection, Rows], Relation]
"""Rows (bucket, key) -> the same with `table_name`, the table that holds the key; null: none does."""
Make = Callable[[Connection, Rows], Relation]
"""Rows of storage -> rows of KIND."""

_MD5 = f"regexp_matches(etag, {duck.pattern('^[0-9a-f]{32}' + keys.END)}) AND NOT coalesce(multipart, false)"
_SURELY_MD5 = f"coalesce({_MD5} AND encryption IN ({duck.literals(MD5_ENCRYPTIONS)}), false)"
_SURELY_NONE = f"coalesce(encryption NOT IN ({duck.literals(MD5_ENCRYPTIONS)}), false)"
_UNWANTED = f"{keys.TEMPORARY}|{keys.MARKER}"
"""What a copy need not have: work that was never committed, and placeholders of folders."""
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
"""What a copy may lack: marks of the source's jobs (`_SUCCESS`, `.crc`) and other names that readers skip."""
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
    """ORIGINAL rows of schemas.VERSION rows: of the current objects that `maps` bring into one of `tables`.

    What readers skip, and what is older than the copies' own retention (`keep`), may be there and may be gone. An
    object of which nobody knows since when it was there is claimed since `as_of`: late, never false.
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
            AND NOT regexp_matches(substring(key, len(prefix) + 1), {duck.pattern(_UNWANTED)}))
    """
    optional = f"({_OPTIONAL} OR {_expired(keep, as_of)})"
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


def _expired(keep: timedelta | None, as_of: datetime) -> str:
    """SQL: whether a copy's own retention may have removed it, by the day of its partition, else its original's age."""
    if keep is None:
        return "false"
    since = f"coalesce({partition_date('relative')}, modified_at)"
    return f"coalesce({since} + {duck.literal(keep)} - INTERVAL 1 DAY <= {duck.literal(as_of)}, false)"


def claims(con: Connection, rows: Mapping[str, Rows], *, source: str) -> Relation:
    """schemas.CLAIM rows of the ORIGINAL rows of a source: one a key.

    A listing may name an object twice, and two places may be mapped to one: where they differ nobody can tell.
    """
    sql = """
        WITH mine AS (SELECT * FROM originals WHERE source = $source),
        many AS (
            SELECT table_name, bucket, key, arg_max(mine, claimed_at) AS newest,
                count(DISTINCT size) < 2 AND count(DISTINCT etag) < 2 AS alike
            FROM mine GROUP BY table_name, bucket, key HAVING count(*) > 1
        )
        SELECT * FROM mine ANTI JOIN many USING (table_name, bucket, key)
        UNION ALL BY NAME
        SELECT newest.* REPLACE (newest.certain AND alike AS certain) FROM many
    """.replace("$source", duck.literal(source))
    held = duck.hold(con, rows.get(KIND, ORIGINAL.empty_table()))
    return duck.conform(con, duck.query(con, sql, originals=held), CLAIM)


PLAIN = ("(checksum IS NULL OR (etag IS NOT NULL AND checksum = 'md5:' || etag))",)
"""All of these: one such row says all that is asked of a copy of this size and, where it has one, of this ETag."""


def traces(con: Connection, rows: Rows) -> Relation:
    """What one ORIGINAL row alone claims, see `matching.prefilter`; whenever it was copied, a copy is younger."""
    sql = f"""
        SELECT table_name, bucket, key, size, etag, TIMESTAMP '9999-01-01' AS claimed_at,
            coalesce({" AND ".join(("true", *PLAIN))}, false) AS plain
        FROM input
    """
    return duck.query(con, sql, input=rows)

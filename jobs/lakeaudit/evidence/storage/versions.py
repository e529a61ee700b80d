"""Folds the versions of a key to the one row that a storage source gives for it.

Most keys have exactly one version: their rows are projected. Only keys with several versions are aggregated, and each
aggregate holds one row of a key, so millions of versions of one key need no memory.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakeaudit.keys import NULL_VERSION, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import STORED

_LATEST = (
    "size",
    "etag",
    "version_id",
    "modified_at",
    "storage_class",
    "archived",
    "multipart",
    "encryption",
    "checksum",
)
_VERSION = f"coalesce(version_id, {duck.literal(NULL_VERSION)})"
CURRENT = "reject IS NULL AND coalesce(is_latest, true) AND NOT coalesce(is_delete_marker, false)"
"""SQL of VERSION rows of current objects; an object is current too if the source does not mark its newest version."""
REMOVED = "reject IS NULL AND coalesce(is_latest AND is_delete_marker, false)"
"""SQL of VERSION rows of delete markers that hide their objects."""
BELOW = "objects SEMI JOIN homes ON objects.bucket = homes.bucket AND starts_with(key, prefix)"
"""SQL of the VERSION rows `objects` below any of the places `homes`, see `prefixes_of`."""
_IS_OLDER = "NOT is_latest AND NOT is_delete_marker"


def prefixes_of(places: Iterable[Location]) -> pa.Table:
    """Places as rows (bucket, prefix), which travel to the tasks."""
    columns = pa.schema([("bucket", pa.string()), ("prefix", pa.string())])
    return duck.small(columns, [(place.bucket, place.prefix) for place in places])


def one_row_per_key(
    con: Connection, versions: Rows, repeats: Sequence[str] = (), older_alone: Sequence[str] = ()
) -> Relation:
    """STORED rows of VERSION rows, whose `reject` is null: one per (source, bucket, key).

    `present` or `absent` needs exactly one latest row that says whether it is a delete marker; else the key is
    `unclear`, and nothing more is known of its latest version. `repeats` are ids of sources that may name one version
    twice (live listings): there, several latest rows count as one if they name one version, and the newest is taken.
    `older_alone` are ids of sources of stores without delete markers: there, a key of older versions alone is absent.
    """
    held = versions if isinstance(versions, pa.Table) else duck.table(duck.relation(con, versions))
    folded = f"""
        WITH several AS MATERIALIZED (
            SELECT source, bucket, key FROM versions GROUP BY ALL HAVING count(*) > 1
        ), single_versions AS (
            SELECT v.* FROM versions v ANTI JOIN several USING (source, bucket, key)
        ), several_versions AS (
            SELECT v.* FROM versions v SEMI JOIN several USING (source, bucket, key)
        )
        ({_stored(_SINGLE, older_alone)}) UNION ALL ({_stored(_several(repeats), older_alone)})
        """
    return duck.conform(con, duck.query(con, folded, versions=held), STORED)


_OF_OLDER = ("size", "modified_at", "storage_class", "archived")
_SINGLE = f"""
    SELECT source, bucket, key, {", ".join(_LATEST)}, is_delete_marker AS delete_marker,
        is_latest AND is_delete_marker IS NOT NULL AS is_clear, {_IS_OLDER} AS all_older,
        CASE WHEN {_IS_OLDER} THEN {_VERSION} END AS older_version_id,
        CASE WHEN {_IS_OLDER} THEN size END AS older_size,
        CASE WHEN {_IS_OLDER} AND archived THEN storage_class END AS older_class,
        NULL AS older_since
    FROM single_versions
    """


def _several(repeats: Sequence[str]) -> str:
    """The same columns for keys with several versions.

    The older version was replaced when the latest was written, unless a marker that is not the latest lies between.
    """
    latest = ", ".join(f"latest.{name} AS {name}" for name in _LATEST)
    return f"""
        SELECT source, bucket, key, {latest}, latest.is_delete_marker AS delete_marker,
            is_one AND latest.is_delete_marker IS NOT NULL AS is_clear, all_older,
            older.version AS older_version_id,
            older.size AS older_size,
            CASE WHEN older.archived THEN older.storage_class END AS older_class,
            CASE WHEN older IS NOT NULL AND (newest_marker IS NULL OR newest_marker < older.modified_at)
                THEN latest.modified_at END AS older_since
        FROM (
            SELECT source, bucket, key, {_is_one(repeats)} AS is_one,
                bool_and(coalesce({_IS_OLDER}, false)) AS all_older,
                {_newest("is_delete_marker", *_LATEST)} FILTER (is_latest) AS latest,
                {_newest(*_OF_OLDER, version=_VERSION)} FILTER ({_IS_OLDER}) AS older,
                max(modified_at) FILTER (NOT is_latest AND is_delete_marker) AS newest_marker
            FROM several_versions
            GROUP BY source, bucket, key
        )
        """


def _is_one(repeats: Sequence[str]) -> str:
    """Whether the latest rows of a key are one version."""
    one_row = "count(*) FILTER (is_latest) = 1"
    if not repeats:
        return one_row
    one_version = f"min({_VERSION}) FILTER (is_latest) = max({_VERSION}) FILTER (is_latest)"
    return f"CASE WHEN source IN ({duck.literals(repeats)}) THEN {one_version} ELSE {one_row} END"


def _newest(*columns: str, **computed: str) -> str:
    """The row with the newest time, as a struct; the version id, then the other columns, decide between equal times."""
    order = ", ".join(f"{by}, 'ASC NULLS FIRST'" for by in ("modified_at", _VERSION, *columns))
    values = {name: name for name in columns} | computed
    row = ", ".join(f"{name} := {value}" for name, value in values.items())
    return f"arg_max(struct_pack({row}), create_sort_key({order}))"


def _stored(versions: str, older_alone: Sequence[str]) -> str:
    """The columns of STORED; of a latest version that is not clear nothing is given."""
    latest = ", ".join(f"CASE WHEN is_clear THEN {name} END AS {name}" for name in _LATEST)
    gone = f"all_older AND source IN ({duck.literals(older_alone)})" if older_alone else "false"
    return f"""
        SELECT source, bucket, key, {latest},
            CASE
                WHEN {gone} THEN 'absent'
                WHEN is_clear IS NOT TRUE THEN 'unclear'
                WHEN delete_marker THEN 'absent'
                ELSE 'present'
            END AS presence,
            CASE WHEN is_clear THEN delete_marker END AS delete_marker,
            older_version_id, older_size, older_class, CASE WHEN is_clear THEN older_since END AS older_since
        FROM ({versions})
        """

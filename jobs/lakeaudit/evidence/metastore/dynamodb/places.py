"""Compute the bucket and key of a store's items, which have the path of a folder and the name of a file."""

from collections.abc import Mapping

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal

_PLACES = """
    SELECT *,
        coalesce(starts_with(path, '/') AND NOT ends_with(path, '/') AND NOT contains(path, '//'), false) AS in_bucket,
        coalesce(name <> '' AND NOT contains(name, '/'), false) AS is_name,
        split_part(path, '/', 2) AS named_bucket,
        {bucket} AS bucket,
        substr(path, length(named_bucket) + 3) AS parent,
        CASE WHEN parent = '' THEN name ELSE parent || '/' || name END AS key
    FROM input"""


def with_places(con: Connection, rows: Rows, buckets: Mapping[str, str]) -> Relation:
    """Add the place (bucket, parent, key) to rows with `path` (`/bucket` or `/bucket/parent`) and `name`.

    `in_bucket` and `is_name` state whether path and name are valid; `buckets` has the true names of buckets by their
    other names.
    """
    return duck.query(con, _PLACES.format(bucket=_bucket(buckets)), input=rows)


def _bucket(names: Mapping[str, str]) -> str:
    renamed = "".join(f" WHEN {literal(name)} THEN {literal(bucket)}" for name, bucket in names.items())
    return f"CASE named_bucket{renamed} ELSE named_bucket END" if names else "named_bucket"

"""Where in storage the items of a store lie that names a file by its folder's path and its own name."""

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
    """Rows with `path` (`/bucket` or `/bucket/parent`) and `name`, and the place they are about: bucket, parent, key.

    `in_bucket` and `is_name` say whether path and name are such; `buckets` has the true names of buckets that are
    called by another.
    """
    return duck.query(con, _PLACES.format(bucket=_bucket(buckets)), input=rows)


def _bucket(names: Mapping[str, str]) -> str:
    renamed = "".join(f" WHEN {literal(name)} THEN {literal(bucket)}" for name, bucket in names.items())
    return f"CASE named_bucket{renamed} ELSE named_bucket END" if names else "named_bucket"

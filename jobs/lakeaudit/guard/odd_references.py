"""Handle files that manifests name by unusual paths, and in stores or access points that the lake file does not know.

Readers of manifests keep a path as it is written. Hadoop resolves it: `a//b` and `a/./b` are `a/b`.
"""

import posixpath
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.registry import row_kinds
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import UNKNOWN_STORE

UNKNOWN_STORES = "unknown stores"
"""The kind of UNKNOWN_STORE rows."""

_ACCESS_POINT = "(-s3alias|--ol-s3|--xa-s3)$"
"""Only access points have such names (S3 User Guide, "Bucket naming rules"), which are other names of a bucket."""
_IS_OF_OTHER = (
    f"(contains(bucket, ':') OR (contains(bucket, '-') AND regexp_matches(bucket, '{_ACCESS_POINT}')))"
)
IS_ODD = f"({_IS_OF_OTHER} OR contains(key, '//') OR starts_with(key, '/') OR contains(key, './'))"
"""SQL: whether rows may be about files in an unknown store, or with a path that programs resolve to another one."""


def resolved_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch whose path resolves to another one, with that path as their key."""
    keys = batch.column("key")
    odd = pc.or_(
        pc.or_(pc.match_substring(keys, "//"), pc.starts_with(keys, "/")), pc.match_substring(keys, "./")
    )
    if not pc.any(odd).as_py():
        return batch.slice(0, 0)
    rows = batch.filter(odd)
    resolved = pa.array([posixpath.normpath(f"/{key}").lstrip("/") for key in rows.column("key").to_pylist()])
    changed = pc.not_equal(rows.column("key"), resolved)
    at = rows.schema.get_field_index("key")
    return rows.set_column(at, rows.schema.field(at), resolved.cast(rows.schema.field(at).type)).filter(
        changed
    )


def unknown_stores(con: Connection, rows: Rows) -> Relation:
    """Return UNKNOWN_STORE rows of these rows, each once."""
    sql = f"SELECT DISTINCT table_name, bucket AS store FROM input WHERE {_IS_OF_OTHER}"
    return duck.conform(con, duck.query(con, sql, input=rows), UNKNOWN_STORE)


def with_odd_references(con: Connection, kind: str, batch: pa.RecordBatch) -> Iterator[tuple[str, Rows]]:
    """Yield the rows of a manifest's own kind, those of resolved paths, and the unknown stores that they name."""
    yield kind, batch
    if kind not in row_kinds() or not {"table_name", "bucket", "key"} <= {*batch.schema.names}:
        return
    resolved = resolved_rows(batch)
    if resolved.num_rows:
        yield kind, resolved
    if pc.any(pc.match_substring_regex(pc.unique(batch.column("bucket")), f":|{_ACCESS_POINT}")).as_py():
        yield UNKNOWN_STORES, unknown_stores(con, batch)


def with_resolved(rows: pa.Table) -> pa.Table:
    """Return the rows, and those rows again whose path resolves to another one, with that path."""
    return pa.Table.from_batches(
        [each for batch in rows.to_batches() for each in (batch, resolved_rows(batch))], rows.schema
    )

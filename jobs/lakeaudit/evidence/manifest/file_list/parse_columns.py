"""Turn columns of a plain writer manifest into rows of fold.EVENT, in DuckDB. Runs in tasks.

`parse_rows` parses row by row; this module handles the plain rows of many lines at once: adds and removes of valid
paths. Every other row is returned, for `parse_rows` to decide.
"""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.aliases import true_columns
from lakeaudit.evidence.manifest.file_list.columns import Columns
from lakeaudit.evidence.manifest.file_list.fold import EVENT, FOLDER
from lakeaudit.evidence.manifest.file_list.parse_rows import parse_time, partition_path
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Line, ListFile
from lakeaudit.keys import AZURE_NAME, NULL_VERSION
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

_EVENTS = pa.schema(EVENT.items())

_S3_URI = r"^(?:s3[an]?|gs)://([^/@]+)/((?s).+)\Z"
_AZURE_URI = rf"^{AZURE_NAME}/((?s).+)\Z"
_SCHEME = r"^([A-Za-z][A-Za-z0-9+.-]*://|file:/|dbfs:/)"
_CHECKSUM = r"^[A-Za-z0-9-]+:[0-9A-Fa-f]+\Z"


def column_events(con: Connection, columns: Columns, listed: ListFile) -> tuple[pa.Table, list[Line]]:
    """Return the plain rows as fold.EVENT, and the others as lines."""
    at, timed = _times(columns.rows.column("committed_at").combine_chunks(), plain_time(listed.modified_at))
    line = pa.array(range(columns.first, columns.last + 1), pa.int64())
    given = columns.rows.append_column("line", line).append_column("at", at).append_column("timed", timed)
    parsed = duck.table(duck.query(con, _SQL.format(**_constants(listed)), rows=given))
    plain = parsed.filter(parsed.column("plain"))
    below = plain.column("below").combine_chunks().dictionary_encode()
    partitions = pa.array([partition_path(each) for each in below.dictionary.to_pylist()], pa.string())
    events = plain.append_column("partition_path", partitions.take(below.indices))
    others = parsed.filter(pc.invert(parsed.column("plain")))
    return events.select(_EVENTS.names).cast(_EVENTS), _lines(columns, others)


def _lines(columns: Columns, others: pa.Table) -> list[Line]:
    numbers = others.column("line").to_pylist()
    rows = columns.rows.take([number - columns.first for number in numbers]).to_pylist() if numbers else []
    return [Line(number, row) for number, row in zip(numbers, rows, strict=True)]


def _times(column: pa.Array, default: datetime) -> tuple[pa.Array, pa.Array]:
    """Return the time of each row, at most the list's own, which is the default; and whether it is a valid time."""
    if pa.types.is_timestamp(column.type):
        given = column.fill_null(default)
        return pc.min_element_wise(given, pa.scalar(default, given.type)), pa.array([True] * len(column))
    texts = column.dictionary_encode()
    times = [_time(text, default) for text in texts.dictionary.to_pylist()]
    bounded = [None if time is None else min(time, default) for time in times]
    at = pa.array(bounded, pa.timestamp("us")).take(texts.indices).fill_null(default)
    timed = pa.array([time is not None for time in times], pa.bool_()).take(texts.indices).fill_null(True)
    return at, timed


def _time(text: str, default: datetime) -> datetime | None:
    try:
        return plain_time(parse_time(text)) if text else default
    except Fault:
        return None


def _constants(listed: ListFile) -> dict[str, str]:
    """Return the values of _SQL, as SQL."""
    values = {
        "table": listed.table,
        "number": listed.number,
        "home_bucket": listed.home.bucket,
        "home_prefix": listed.home.prefix,
        "local": listed.home.is_local,
        "below_home": len(listed.home.key) + 1,
        "null_version": NULL_VERSION,
    }
    patterns = {"s3_uri": _S3_URI, "azure_uri": _AZURE_URI, "scheme": _SCHEME, "checksum_form": _CHECKSUM}
    true_bucket, true_key = true_columns(listed.aliases, "named_bucket", "named_key")
    return {
        "folder": FOLDER,
        "true_bucket": true_bucket,
        "true_key": true_key,
        **{name: duck.literal(value) for name, value in values.items()},
        **{name: duck.pattern(regex) for name, regex in patterns.items()},
    }


_SQL = """
WITH named AS (
    SELECT *, regexp_matches(path, {s3_uri}) AS in_s3, regexp_matches(path, {azure_uri}) AS in_azure,
        in_s3 OR in_azure AS by_uri,
        CASE WHEN in_s3 THEN regexp_extract(path, {s3_uri}, 1)
            WHEN in_azure THEN regexp_extract(path, {azure_uri}, 1) || '@' || regexp_extract(path, {azure_uri}, 2)
            ELSE {home_bucket} END AS named_bucket,
        CASE WHEN in_s3 THEN regexp_extract(path, {s3_uri}, 2)
            WHEN in_azure THEN regexp_extract(path, {azure_uri}, 3) ELSE path END AS named_key,
        {true_bucket} AS bucket,
        {true_key} AS key,
        NOT regexp_matches(path, {scheme}) AND NOT ({local} AND starts_with(path, '/'))
            AND starts_with(path, {home_prefix}) AND path <> {home_prefix} AS by_key,
        {folder} AS folder,
        bucket = {home_bucket} AND starts_with(key, {home_prefix}) AS own_root
    FROM rows
)
SELECT {table} AS table_name, {number} AS list_no, line, "at", coalesce(nullif(action, ''), 'add') AS action,
    bucket, key, NULL AS scope_bucket, NULL AS scope_key, own_root,
    CASE WHEN NOT own_root THEN folder
        ELSE regexp_replace(substring(folder, {below_home}), '^/', '') END AS below,
    size, nullif(trim(etag, '"'), '') AS etag, nullif(nullif(version_id, ''), {null_version}) AS version_id,
    nullif(lower(checksum), '') AS checksum, records, nullif(job_id, '') AS commit_id,
    NULL AS fault, false AS unread,
    coalesce(
        timed AND path <> '' AND (by_uri OR by_key) AND coalesce(action, '') IN ('', 'add', 'remove')
        AND NOT contains(path, './') AND NOT ends_with(path, '/.') AND NOT ends_with(path, '/..')
        AND coalesce(size, 0) >= 0 AND coalesce(records, 0) >= 0
        AND (coalesce(checksum, '') = '' OR regexp_matches(checksum, {checksum_form}))
        AND NOT contains(concat_ws('', path, etag, version_id, job_id), chr(0)), false
    ) AS plain
FROM named
"""

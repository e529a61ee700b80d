"""Makes the items of the lake's S3Guard table: DuckDB SQL that returns a line of DynamoDB's JSON for each.

Attributes are those that Hadoop writes, see `tests.builders.s3guard`.
"""

from tests.bench.rows import DELETED, EXTRAS, GONE, NEW, files, sql_time
from tests.bench.spec import BUCKET, CHECKPOINT_AT

_PARENT = f"'/{BUCKET}/' || root || '/' || place"
_MARKER = '{"Item":{"parent":{"S":"../VERSION"},"child":{"S":"../VERSION"},"table_version":{"N":"100"}}}'


def entries(hours: str) -> str:
    """Return SQL for lines of the files and tombstones of some hours."""
    resized = "fault = 'size_mismatch' OR (fault = 'metastore_stale' AND i % 2 = 0)"
    size = f"size + CASE WHEN {resized} THEN 1 + i % 97 ELSE 0 END"
    etag = "CASE WHEN fault = 'metastore_stale' AND i % 2 = 1 THEN digest('stale', i) ELSE etag END"
    return f"""SELECT {_file(size, etag)} AS line FROM ({files(hours)}) WHERE fault IS DISTINCT FROM 'hidden'
        UNION ALL SELECT {_tombstone()} FROM ({GONE.format(files(hours))}) WHERE is_real()"""


def extra_entries(*, second: bool) -> str:
    """Return SQL for lines of the layout's marker, of all folders, and of entries outside of the hours."""
    phantoms = f"SELECT {_file('size', 'etag')} FROM ({EXTRAS}) WHERE fault = 'phantom'"
    new = f"SELECT {_file('size', 'etag')} FROM ({NEW})"
    lines = [
        f"SELECT '{_MARKER}' || chr(10) AS line",
        f"SELECT {_folder()} FROM ({_folders(second=second)})",
        phantoms,
        f"SELECT {_file('size', 'etag')} FROM log_files WHERE entered",
    ]
    return " UNION ALL ".join([*lines, *([new] if second else [])])


def _folders(*, second: bool) -> str:
    """Return SQL for (parent, child) of every folder that has a file below it."""
    placed = " UNION ALL ".join(
        f"SELECT root, place FROM {rows}" for rows in ("hours", *([f"({NEW})"] if second else []))
    )
    day, hour = "split_part(place, '/', 1)", "split_part(place, '/', 2)"
    return f"""SELECT '/{BUCKET}' AS parent, 'warehouse' AS child UNION SELECT '/{BUCKET}/warehouse', name FROM tables
        UNION SELECT '/{BUCKET}/' || root, {day} FROM ({placed})
        UNION SELECT '/{BUCKET}/' || root || '/' || {day}, {hour} FROM ({placed})
        UNION SELECT rtrim('/{BUCKET}/' || root || '/' || array_to_string(parts[:n], '/'), '/'), parts[n + 1]
            FROM (SELECT root, unnest(range(len(parts))) AS n, parts FROM (
                SELECT root, string_split(place, '/') AS parts FROM log_files WHERE entered))"""


def _file(size: str, etag: str) -> str:
    version = _attribute("version_id", "S", "version_of(i)")
    return _item(
        _attribute("parent", "S", _PARENT),
        _attribute("child", "S", _child("key")),
        _attribute("file_length", "N", size),
        _attribute("mod_time", "N", "epoch_ms(modified)"),
        """'"block_size":{"N":"33554432"},"is_deleted":{"BOOL":false}'""",
        _attribute("last_updated", "N", "epoch_ms(modified) + 137"),
        _attribute("etag", "S", etag),
        more=f"CASE WHEN is_real() THEN concat(',', {version}) END",
    )


def _tombstone() -> str:
    return _item(
        _attribute("parent", "S", _PARENT),
        _attribute("child", "S", _child("gone_key")),
        _attribute("mod_time", "N", f"epoch_ms({sql_time(DELETED)})"),
        """'"file_length":{"N":"0"},"block_size":{"N":"0"},"is_deleted":{"BOOL":true}'""",
        _attribute("last_updated", "N", f"epoch_ms({sql_time(DELETED)})"),
    )


def _folder() -> str:
    return _item(
        _attribute("parent", "S", "parent"),
        _attribute("child", "S", "child"),
        """'"is_dir":{"BOOL":true},"is_deleted":{"BOOL":false},"is_authoritative":{"BOOL":false}'""",
        _attribute("last_updated", "N", f"epoch_ms({sql_time(CHECKPOINT_AT)})"),
    )


def _item(*attributes: str, more: str = "''") -> str:
    """Return SQL for a line; `concat` leaves nulls out."""
    return f"""concat('{{"Item":{{', {", ',', ".join(attributes)}, {more}, '}}}}', chr(10))"""


def _attribute(name: str, kind: str, value: str) -> str:
    return f"""concat('"{name}":{{"{kind}":"', {value}, '"}}')"""


def _child(key: str) -> str:
    return f"substr({key}, length(root || place) + 3)"

"""Find the current objects of listed keys: request them from storage, or read the storage sources if they are many."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.collect.read_sources import read_storage
from lakeaudit.collect.storage_lookups import look, look_twice
from lakeaudit.config import Lake
from lakeaudit.engine.answers import answers_of, hold_answers
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import holds_any_file, list_files
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.s3_pages import holds_any
from lakeaudit.guard.share import OBJECTS, objects_found
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.threads import beside
from lakeaudit.schemas import FOUND_OBJECT, LIVE, STORED

BATCH = 10_000
THREADS = 16


def current_objects(
    lake: Lake,
    engine: AuditEngine,
    context: Context,
    con: Connection,
    found: Relation,
    limit: int,
    pause: Callable[[float], None],
) -> Relation:
    """Return FOUND_OBJECT rows of REFERENCED_KEY rows that no table needs.

    Up to `limit` objects are requested. If there are more, the storage sources are read, and only the objects that they
    lack are requested, since these may be newer than the sources' snapshots.
    """
    unneeded = "SELECT DISTINCT bucket, key FROM found WHERE r_live_table IS NULL AND r_history_table IS NULL"
    keys = duck.hold(con, duck.query(con, unneeded, found=found))
    storage = read_storage(lake, context) if duck.count_of(keys) > limit else ()
    stored = hold_answers(con, objects_found(engine, storage, keys) if storage else iter(()))
    # a name that ends in a slash, or an empty object, may stand for a folder
    known = duck.query(con, _STORED_OBJECT, rows=answers_of(con, stored, OBJECTS, STORED))
    sql = f"SELECT *, true AS current_only FROM keys ANTI JOIN known USING (bucket, key) ORDER BY 1, 2 LIMIT {limit}"
    some = duck.table(duck.query(con, sql, keys=keys, known=known))
    request = partial(look, clients=context.clients, rate=lake.settings.confirm.rate)
    answers = (
        _with_folders(look_twice(some.slice(start, BATCH), request, lake.is_weak, pause), context.clients)
        for start in range(0, some.num_rows, BATCH)
    )
    live = duck.hold_batches(con, _LIVE, (batch for each in answers for batch in each.to_batches()))
    requested = duck.query(con, _LIVE_OBJECT, rows=live)
    return duck.union(con, [duck.conform(con, each, FOUND_OBJECT) for each in (known, requested)])


_LIVE = LIVE.append(pa.field("is_folder", pa.bool_()))
_STORED_OBJECT = """SELECT bucket, key, presence, size, etag, version_id, modified_at,
    coalesce(multipart, contains(etag, '-')) AS by_parts, false AS is_folder FROM rows
    WHERE coalesce(size, 1) > 0 AND NOT ends_with(key, '/')"""
_LIVE_OBJECT = """SELECT bucket, key, l_presence AS presence, l_size AS size, l_etag AS etag,
    l_version_id AS version_id, l_modified_at AS modified_at,
    coalesce(l_multipart, contains(l_etag, '-')) AS by_parts, coalesce(is_folder, false) AS is_folder FROM rows"""


def _with_folders(answers: pa.Table, clients: Clients) -> pa.Table:
    """Add whether a name is a folder, or the beginning of names of objects; a symbolic link has no presence."""
    with beside(THREADS) as pool:
        rows = [*pool.map(partial(_with_folder, clients), answers.to_pylist())]
    return pa.Table.from_pylist(rows, _LIVE)


def _with_folder(clients: Clients, row: dict[str, Any]) -> dict[str, Any]:
    place = Location(row["bucket"], row["key"])
    if row["l_presence"] is None:
        return row | {"is_folder": False}
    if place.is_local:
        path = Path(place.spark_path)
        linked = path.resolve() != path
        return row | {"is_folder": path.is_dir()} | ({"l_presence": None} if linked else {})
    is_marker = row["l_size"] == 0 or place.key.endswith("/")
    if row["l_presence"] != "absent" and not is_marker:
        return row | {"is_folder": False}
    try:
        if row["l_presence"] != "absent":
            return row | {"is_folder": _holds_others(clients, place)}
        return row | {"is_folder": _begins_names(clients, Location(place.bucket, place.key.rstrip("/ ")))}
    except (SourceError, ClientError, BotoCoreError):
        return row | {"is_folder": False, "l_presence": None}


def _holds_others(clients: Clients, place: Location) -> bool:
    """Return whether an object is also the name of a folder with other objects: some programs delete these, too."""
    below = list_files(clients, Location(place.bucket, place.key.rstrip("/")))
    return any(file.place.key != place.key for file in islice(below, 2))


def _begins_names(clients: Clients, place: Location) -> bool:
    """Return whether objects have names that begin with a key."""
    if place.is_in_s3:
        return holds_any(clients.s3(*place), place.bucket, place.key)
    return holds_any_file(clients, place)

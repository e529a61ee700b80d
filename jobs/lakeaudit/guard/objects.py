"""Request the current objects of keys from storage, as far as a limit allows."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.collect.storage_lookups import look, look_twice
from lakeaudit.config import Lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import holds_any_file
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.s3_pages import holds_any
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.threads import beside
from lakeaudit.schemas import LIVE

BATCH = 10_000
THREADS = 16


def current_objects(
    lake: Lake,
    context: Context,
    con: Connection,
    found: Relation,
    limit: int,
    pause: Callable[[float], None],
) -> Relation:
    """Return LIVE rows of at most `limit` FOUND_KEY rows that no table needs and that no storage source has.

    A key that a storage source lacks may be newer than its snapshot.
    """
    unknown = "r_live_table IS NULL AND r_history_table IS NULL AND presence IS NULL"
    sql = f"SELECT bucket, key, true AS current_only FROM found WHERE {unknown} ORDER BY bucket, key LIMIT {limit}"
    some = duck.table(duck.query(con, sql, found=found))
    request = partial(look, clients=context.clients, rate=lake.settings.confirm.rate)
    answers = (
        _with_folders(look_twice(some.slice(start, BATCH), request, lake.is_weak, pause), context.clients)
        for start in range(0, some.num_rows, BATCH)
    )
    return duck.hold_batches(con, _OBJECT, (batch for each in answers for batch in each.to_batches()))


_OBJECT = LIVE.append(pa.field("is_folder", pa.bool_()))


def _with_folders(answers: pa.Table, clients: Clients) -> pa.Table:
    """Add whether a name is a folder, or the beginning of names of objects; a symbolic link has no presence."""
    with beside(THREADS) as pool:
        rows = [*pool.map(partial(_with_folder, clients), answers.to_pylist())]
    return pa.Table.from_pylist(rows, _OBJECT)


def _with_folder(clients: Clients, row: dict[str, Any]) -> dict[str, Any]:
    place = Location(row["bucket"], row["key"])
    if row["l_presence"] is None:
        return row | {"is_folder": False}
    if place.is_local:
        path = Path(place.spark_path)
        linked = path.resolve() != path
        return row | {"is_folder": path.is_dir()} | ({"l_presence": None} if linked else {})
    if row["l_presence"] != "absent":
        return row | {"is_folder": False}
    try:
        return row | {"is_folder": _begins_names(clients, Location(place.bucket, place.key.rstrip("/ ")))}
    except (SourceError, ClientError, BotoCoreError):
        return row | {"is_folder": False, "l_presence": None}


def _begins_names(clients: Clients, place: Location) -> bool:
    """Return whether objects have names that begin with a key."""
    if place.is_in_s3:
        return holds_any(clients.s3(*place), place.bucket, place.key)
    return holds_any_file(clients, place)

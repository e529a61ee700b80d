"""Find the current objects of keys: by storage sources of the lake file, and by a limited number of requests."""

from collections.abc import Callable
from functools import partial

from lakeaudit.collect.storage_lookups import look, look_twice
from lakeaudit.config import Lake
from lakeaudit.evidence.protocol import Context
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import LIVE

BATCH = 10_000
_FROM_STORED = ("size", "etag", "version_id", "modified_at", "multipart")


def current_objects(
    lake: Lake,
    context: Context,
    con: Connection,
    keys: Relation,
    stored: Relation,
    limit: int,
    pause: Callable[[float], None],
) -> Relation:
    """Return LIVE rows of the keys: of STORED rows, and of requests for at most `limit` others. The rest has no row.

    A key that a storage source lacks may be newer than its snapshot, so it is requested.
    """
    present = duck.hold(
        con, duck.query(con, "SELECT * FROM stored WHERE presence = 'present'", stored=stored)
    )
    others = "SELECT bucket, key, true AS current_only FROM keys ANTI JOIN present USING (bucket, key)"
    some = duck.table(
        duck.query(con, f"{others} ORDER BY bucket, key LIMIT {limit}", keys=keys, present=present)
    )
    request = partial(look, clients=context.clients, rate=lake.settings.confirm.rate)
    answers = (
        look_twice(some.slice(start, BATCH), request, lake.is_weak, pause)
        for start in range(0, some.num_rows, BATCH)
    )
    requested = duck.hold_batches(con, LIVE, (batch for each in answers for batch in each.to_batches()))
    renamed = {f"l_{name}": name for name in _FROM_STORED} | {"l_presence": "presence"}
    missing = {name: "NULL" for name in LIVE.names if name not in (*renamed, "bucket", "key")}
    return duck.union(con, [requested, duck.conform(con, present, LIVE, renamed | missing)])

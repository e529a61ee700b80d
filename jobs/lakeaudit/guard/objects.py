"""Request the current objects of keys from storage, as far as a limit allows."""

from collections.abc import Callable
from functools import partial

from lakeaudit.collect.storage_lookups import look, look_twice
from lakeaudit.config import Lake
from lakeaudit.evidence.protocol import Context
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import LIVE

BATCH = 10_000


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
        look_twice(some.slice(start, BATCH), request, lake.is_weak, pause)
        for start in range(0, some.num_rows, BATCH)
    )
    return duck.hold_batches(con, LIVE, (batch for each in answers for batch in each.to_batches()))

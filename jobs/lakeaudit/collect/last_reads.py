"""Finds the last read of files in recorded requests: a file that is read is not unused."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa

from lakeaudit.collect.read_sources import read_events
from lakeaudit.config import Lake
from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.references import Key
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import plain_time


@dataclass(frozen=True)
class LastRead:
    """The time of a file's last read, in UTC without a zone, and the reader if recorded."""

    at: datetime
    by: str | None

    @property
    def description(self) -> str:
        """The read as a reason to keep the file."""
        return f"it was read on {self.at:%Y-%m-%d %H:%M} by {self.by or 'somebody'}"


def last_reads(lake: Lake, engine: AuditEngine, context: Context, keys: pa.Table) -> dict[Key, LastRead]:
    """Return files (bucket, key) that were read within the `leftover_age` of the table around them.

    Records may be missing, so a file without a read may still be in use.
    """
    ages = {table.location: table.settings.leftover_age for table in lake.tables}
    oldest = context.now - max(ages.values(), default=timedelta(0))
    events, _ = read_events(lake, context)
    parts = [part for each in events for part in each.parts(max(oldest, each.since), True)]
    answers = engine.run(parts, [_last], Reading(select=partial(_gets, keys)))
    rows = [row for kind, batch in answers if kind == _ANSWER for row in batch.to_pylist()]
    return {
        place: LastRead(row["last_at"], row["principal"])
        for row in rows
        for place in [(row["bucket"], row["key"])]
        if any(
            row["last_at"] >= plain_time(context.now) - age
            for each, age in ages.items()
            if each.holds(*place)
        )
    }


_ANSWER = "last reads"


def _gets(keys: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if kind == "requests":
        sql = "SELECT rows.* FROM rows SEMI JOIN keys USING (bucket, key) WHERE action = 'get' AND succeeded"
        yield kind, duck.query(con, sql, rows=rows, keys=keys)
    else:
        yield kind, rows


def _last(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if "requests" in rows:
        newest = 'max("at") AS last_at, arg_max(principal, "at") AS principal'
        sql = f"SELECT bucket, key, {newest} FROM rows GROUP BY bucket, key"
        yield _ANSWER, duck.query(con, sql, rows=rows["requests"])

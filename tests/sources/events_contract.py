"""The contract of every reader of events. A new reader adds one world below these tests.

A world lays the requests of `REQUESTS` somewhere, in its own way, as far as its kind of record says them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Context, Events, Part
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import REQUEST

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEYS = (
    "t/plain.parquet",
    "t/day=2026-11-01/p+q r.parquet",
    "t/%41%2F/100%.parquet",
    "t/né🎉",
    "t/q='\"&<;>/f",
)
ANN, JOB = "ann", "job"


@dataclass(frozen=True)
class SentRequest:
    """Holds one request, so many hours before NOW; a removal by a lifecycle rule has no person."""

    action: str
    key: str
    hours: float
    by: str | None = ANN
    failed: bool = False

    @property
    def at(self) -> datetime:
        return NOW - timedelta(hours=self.hours)


REQUESTS = (
    *(SentRequest("put", key, 30, JOB) for key in KEYS),
    SentRequest("copy", KEYS[0], 20, JOB),
    SentRequest("delete", KEYS[1], 10),
    SentRequest("delete", KEYS[2], 9, failed=True),
    SentRequest("expire", KEYS[3], 8, None),
    SentRequest("get", KEYS[0], 7),
    SentRequest("head", "t/none", 6, failed=True),
    SentRequest("list", "t/day=2026-11-01/", 5),
)
CHANGES = ("put", "copy", "delete", "expire")


@dataclass(frozen=True)
class World:
    """Holds the events of a reader; `says` are the actions in its kind of record, `by` its names of people."""

    events: Events
    says: Collection[str]
    by: Mapping[str | None, str | None]
    failures: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)


def context(clients: Clients, as_of: datetime = NOW, *, live: bool = True) -> Context:
    return Context(InProcessEngine(2), clients, as_of=as_of, now=as_of, live=live)


def rows_of(parts: Collection[Part], kind: str = "requests") -> list[dict[str, Any]]:
    """Return the rows of one kind from the parts, without null values."""
    batches: Iterable[pa.RecordBatch]
    if kind == "requests":
        batches = InProcessEngine(2).keep(list(parts)).batches(kind)
    else:
        batches = (batch for each, batch in InProcessEngine(2).run(list(parts), ()) if each == kind)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def rejected(parts: Collection[Part]) -> int:
    """Count the rows that could not be understood."""
    return sum(row["rejected"] for row in rows_of(parts, "counted"))


def short_row(row: dict[str, Any]) -> tuple[Any, ...]:
    at = row["at"].replace(tzinfo=UTC)
    return row["action"], row["key"], at, row.get("principal"), row["succeeded"]


class EventsContract:
    """Subclasses define a class-scoped fixture `world`."""

    def _expected(self, world: World, actions: Collection[str]) -> list[tuple[Any, ...]]:
        return sorted(
            (each.action, each.key, each.at, world.by[each.by], not each.failed)
            for each in REQUESTS
            if each.action in actions and each.action in world.says and (world.failures or not each.failed)
        )

    def test_rows_are_requests(self, world: World) -> None:
        for batch in InProcessEngine().keep(world.events.parts(world.events.since, True)).batches("requests"):
            assert batch.schema.equals(REQUEST), pa.unify_schemas([batch.schema, REQUEST])
        assert {row["source"] for row in world.rows} == {world.events.info.id}

    def test_says_who_did_what_to_which_raw_key_and_when(self, world: World) -> None:
        rows = rows_of(world.events.parts(world.events.since, True))
        assert sorted(map(short_row, rows)) == self._expected(world, world.says)

    def test_reads_are_left_out_where_nobody_wants_them(self, world: World) -> None:
        rows = rows_of(world.events.parts(world.events.since, False))
        assert sorted(map(short_row, rows)) == self._expected(world, CHANGES)

    def test_what_is_older_than_what_is_wanted_is_left_out(self, world: World) -> None:
        since = NOW - timedelta(hours=15)
        rows = rows_of(world.events.parts(since, False))
        assert {row["action"] for row in rows} == {"delete", "expire"} & set(world.says)

    def test_every_row_has_its_request(self, world: World) -> None:
        assert all(row["request_id"] and row["operation"] for row in world.rows)

    def test_rejects_nothing_and_has_no_gap(self, world: World) -> None:
        assert rejected(world.events.parts(world.events.since, True)) == 0
        assert (world.events.holes, world.events.warnings) == ((), ())

    def test_has_an_info_of_its_role(self, world: World) -> None:
        info = world.events.info
        assert (info.role, info.cut is not None, bool(info.identity)) == ("events", True, True)

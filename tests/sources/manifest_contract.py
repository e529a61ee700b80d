"""The contract of every reader of manifests. A new reader adds one world below these tests.

A world lays the writing of FILES into the table `events` somewhere, in its own way, and a table of which no record is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa

from lakeaudit.config import ManifestSource, Settings, Table
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.previous.compared import ACCEPTED
from lakeaudit.evidence.protocol import Claims, Context, SnapshotComparison
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.evidence.storage.listing import reader as listing
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import CLAIM, DECLARED, SAME_SPLIT, plain_time
from tests.builders.connections import connection
from tests.builders.event_logs import UUIDS, part

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WRITTEN = NOW - timedelta(days=1)
FILES = {part(n, UUIDS[0]): (100 + n, 1000 + n) for n in range(3)}
"""By name rows and bytes."""


@dataclass(frozen=True)
class World:
    """Holds what a reader made of the records of `events`, and of a place without records.

    `sized`: its records have sizes. `unrecorded` is the state of a table without records: refused, not yet known, or
    empty, if records are searched among the objects of storage.
    """

    kind: str
    tables: Sequence[Table]
    context: Context
    claims: Claims
    sized: bool = True
    unrecorded: Literal["refused", "not yet", "nothing"] = "refused"


def world_of(
    folder: Path,
    recorded: ManifestSource,
    nowhere: ManifestSource | None = None,
    clients: Clients | None = None,
    **world: Any,
) -> World:
    """What the reader of these manifests says; the files themselves lie below `folder`, pictures in `pictures`."""
    home = Location.parse(str(folder / "events"))
    pictures = Location.parse(str(folder / "pictures"))
    tables = (
        Table(name="events", location=home, manifests=(recorded,), settings=Settings(), pictures=pictures),
        Table(
            name="unknown",
            location=Location.parse(str(folder / "unknown")),
            manifests=(nowhere or recorded,),
            settings=Settings(),
            pictures=pictures,
        ),
    )
    context = Context(InProcessEngine(2), clients or Clients(), as_of=NOW, now=NOW, live=True)
    stored = listing.read_place(home, context, "storage:0")
    owned = partial(
        attach_label, places={table.location: table.name for table in tables}, column="table_name"
    )
    seen = replace(
        context,
        storage=(stored,),
        oldest_cut=NOW,
        owned=owned,
        pictures=SnapshotComparison(owned, ACCEPTED.empty_table(), writes=False),
    )
    claims = MANIFESTS[recorded.kind].read(tables, seen, f"manifest:{recorded.kind}")
    return World(recorded.kind, tables, seen, claims, **world)


def claim_table(claims: Claims) -> pa.Table:
    """Return all claims of the rows."""
    kinds: dict[str, list[pa.Table]] = {}
    for source in claims.rows:
        kept = InProcessEngine().keep(source) if isinstance(source, tuple) else source
        for kind in kept.counts:
            kinds.setdefault(kind, []).extend(map(pa.Table.from_batches, [[b] for b in kept.batches(kind)]))
    con = connection()
    rows: dict[str, duck.Rows] = {kind: pa.concat_tables(tables) for kind, tables in kinds.items()}
    return duck.table(duck.conform(con, claims.fold(con, rows), CLAIM))


class ManifestContract:
    """Subclasses name the kind that they read, and define a class-scoped fixture `world`."""

    kind: ClassVar[str]

    def _rows(self, world: World) -> list[dict[str, Any]]:
        return list(claim_table(world.claims).to_pylist())

    def test_claims_what_was_written_with_its_size_once(self, world: World) -> None:
        home = world.tables[0].location.prefix
        live = [
            (r["key"].removeprefix(home), r["size"])
            for r in self._rows(world)
            if (r["state"], r["category"]) == ("live", "data")
        ]
        assert sorted(live) == sorted(
            (name, size if world.sized else None) for name, (_, size) in FILES.items()
        )

    def test_every_claim_says_whose_it_is_and_since_when(self, world: World) -> None:
        told = {
            (r["source"], r["manifest_kind"], r["table_name"], r["claimed_at"]) for r in self._rows(world)
        }
        assert told == {(world.claims.info.id, world.kind, "events", plain_time(WRITTEN))}

    def test_knows_every_table_and_refuses_the_one_without_records_alone(self, world: World) -> None:
        states = world.claims.states
        assert set(states) == {table.name for table in world.tables}
        told = {
            n: "refused" if s.refused else "not yet" if s.not_yet else "nothing" for n, s in states.items()
        }
        assert told == {"events": "nothing", "unknown": world.unrecorded}

    def test_has_an_info_of_its_kind(self, world: World) -> None:
        info = world.claims.info
        assert (info.role, info.kind, info.cut is not None, bool(info.identity)) == (
            "manifest",
            self.kind,
            True,
            True,
        )

    def test_has_no_gap_if_all_was_read(self, world: World) -> None:
        assert [hole for hole in world.claims.holes if hole.table != "unknown"] == []

    def test_nothing_has_changed_where_nothing_has(self, world: World) -> None:
        changes = MANIFESTS[world.kind].changes(world.claims, world.tables, world.context)
        assert duck.rows_of(duck.relation(connection(), changes.rows)) == []
        assert set(changes.unsure) <= {"unknown"}

    def test_whole_writes_and_attempts_are_rows_of_their_schemas(self, world: World) -> None:
        con = connection()
        if world.claims.totals is not None:
            short = duck.table(duck.relation(con, world.claims.totals.short))
            assert (short.schema.names, short.num_rows) == (DECLARED.names, 0)
            assert world.claims.totals.counts["events"] == 1
        if world.claims.attempts is not None:
            attempts = duck.table(duck.relation(con, world.claims.attempts))
            assert (attempts.schema.names, attempts.num_rows) == (SAME_SPLIT.names, 0)

"""Find all tables of a lake, also those that its lake file leaves out, and the states that audits have read."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from lakeaudit.audit.collapsed_locations import as_stored
from lakeaudit.config import Lake, Table
from lakeaudit.evidence.discovery import described
from lakeaudit.evidence.protocol import Context
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.new_tables import new_tables
from lakeaudit.ledger.last_states import last_states
from lakeaudit.ledger.renamed_tables import under_current_names
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.lake_standing import lost_states


@dataclass(frozen=True)
class KnownLake:
    """A lake with its discovered tables at the locations of their keys.

    Attributes:
        lake: the lake with its tables.
        context: has the clients that resolve the names of these tables.
        left_out: tables that `discover` leaves out; they may list files of others.
        doubts: why tables may be missing.
    """

    lake: Lake
    context: Context
    left_out: tuple[Table, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def known_lake(lake: Lake, context: Context) -> KnownLake:
    """Discover the tables of a lake by its inventories and catalogs, and those that are newer than the inventories."""
    doubts: tuple[Doubt, ...] = ()
    left_out: tuple[Table, ...] = ()
    if lake.finds_tables:
        found = described(lake, context, everything=True)
        lake, left_out = found.lake, found.left_out
        doubts = tuple(Doubt(lake.name, f"tables may be missing: {gap}") for gap in found.gaps)
    if lake.discoveries:
        new = new_tables(lake, (*lake.tables, *left_out), context.clients)
        left_out, doubts = (*left_out, *new.tables), (*doubts, *new.doubts)
    lake, clients = as_stored(lake, context.clients)
    return KnownLake(lake, replace(context, clients=clients), left_out, doubts)


def with_history(known: KnownLake, results: Results, now: datetime) -> KnownLake:
    """Add the states that audits have read, and doubts about tables of which a state is lost.

    Raises:
        CannotAudit: the results cannot be read.
    """
    audited = under_current_names(last_states(results, now, ""), known.lake.tables)
    doubts = (*known.doubts, *_lost_states(results, known.lake))
    return replace(known, context=replace(known.context, last_states=audited), doubts=doubts)


def _lost_states(results: Results, lake: Lake) -> Iterator[Doubt]:
    """Yield the tables of which audits miss a state or metadata: files may belong to what is lost."""
    places = {table.name: table.location for table in lake.tables}
    for name, kind in lost_states(results).items():
        if name in places:
            why = f"an audit reported {kind}, and that is not resolved: files may belong to what is lost"
            yield Doubt(name, why, places[name])

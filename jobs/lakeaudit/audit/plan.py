"""Plans one audit: discovers the tables of the lake and selects the requested tables and partitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakeaudit.audit.collapsed_locations import collapsed_locations, relocated
from lakeaudit.audit.preflight import first_of, nothing_to_read
from lakeaudit.collect.partitions import Partitions, partitions_of
from lakeaudit.config import Lake, Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import BadInput, CannotAudit, SourceError
from lakeaudit.evidence.discovery import NAMED, Described, described, discovery_of, formats_of
from lakeaudit.evidence.files import holds_any_file
from lakeaudit.evidence.lineage import LastState
from lakeaudit.evidence.protocol import Context, EvidenceGap, SourceInfo
from lakeaudit.evidence.registry import formats
from lakeaudit.keys import Aliases, Location, identify
from lakeaudit.results.read import UNRESOLVED, Results
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import Progress


@dataclass(frozen=True)
class Options:
    """The options of one audit; no tables means all tables, no partitions all of their partitions.

    `snapshots` has by kind and location of a source when the snapshot began that is read, to read again what an earlier
    audit has read.
    """

    tables: tuple[str, ...] = ()
    live: bool = False
    partitions: tuple[str, ...] = ()
    as_of: datetime | None = None
    run_id: str | None = None
    snapshots: Mapping[tuple[str, str], datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditPlan:
    """The lake with its discovered tables, the part of it that is audited, and why nothing of it can be read.

    Attributes:
        listed: the locations that a live audit lists.
        still_known: tables that discovery may have missed, so their discrepancies are not retired.
        infos: sources of the catalogs that discovery has read.
        all_found: whether discovery cannot have missed a table that the lake file describes.
        named: tables that the lake file itself names.
        collapsed: locations with empty parts, and the locations with single slashes that have their keys.
    """

    lake: Lake
    scope: tuple[Table, ...]
    partitions: Partitions
    listed: tuple[Location, ...] = ()
    nothing: CannotAudit | None = None
    still_known: frozenset[str] = frozenset()
    infos: tuple[SourceInfo, ...] = ()
    gaps: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    all_found: bool = False
    named: frozenset[str] = frozenset()
    collapsed: Aliases = ()

    @property
    def names(self) -> list[str]:
        return [table.name for table in self.scope]

    @property
    def existing(self) -> set[str]:
        """Return the names of all tables and watched places of the lake, audited now or not."""
        return {each.name for each in (*self.lake.tables, *self.lake.watched)} | self.still_known


def audit_context(
    options: Options, engine: AuditEngine, clients: Clients, now: datetime, rate: float
) -> Context:
    """Return the context of this run for readers.

    Raises:
        BadInput: the time is in the future, or a live audit of the past is requested.
    """
    as_of = options.as_of or now
    if as_of > now:
        raise BadInput("--as-of", f"{as_of:%Y-%m-%dT%H:%M:%SZ} lies in the future", "give a time up to now")
    live = options.as_of is None
    if options.live and not live:
        raise BadInput("--live", "lists storage now and cannot answer for --as-of", "leave one of them out")
    return Context(engine, clients, as_of, now, live, rate, snapshots=options.snapshots)


def plan_audit(
    lake: Lake, options: Options, past: Results, context: Context, engine: AuditEngine, progress: Progress
) -> AuditPlan:
    """Discover the tables that the lake file describes, and select the requested ones.

    Raises:
        BadInput: a requested table or partition does not exist.
        CannotAudit: no table was discovered.
    """
    declared = list(lake.tables) if lake.finds_tables else in_scope(lake, options)
    nothing = nothing_to_read(lake, declared, context.clients, live=options.live)
    if nothing is not None:
        return AuditPlan(lake, tuple(declared), in_partitions(declared, options), nothing=nothing)
    engine.begin()
    discovered = _with_lost_tables(_discover(lake, context, progress), context)
    moved = collapsed_locations(discovered.lake.tables, context.clients)
    discovered = replace(discovered, lake=relocated(discovered.lake, moved))
    scope = in_scope(discovered.lake, options)
    partitions = in_partitions(scope, options)
    return AuditPlan(
        lake=discovered.lake,
        scope=tuple(scope),
        partitions=partitions,
        listed=tuple(_listed(scope, partitions)) if options.live else (),
        still_known=frozenset(_unresolved(past)) if discovered.gaps else frozenset(),
        infos=discovered.infos,
        gaps=discovered.holes,
        warnings=(*discovered.warnings, *_missing_tables(discovered, past)),
        all_found=not discovered.gaps,
        named=frozenset(table.name for table in lake.tables),
        collapsed=moved,
    )


def in_scope(lake: Lake, options: Options) -> list[Table]:
    """Return the requested tables; all tables if none is named."""
    tables = {name: table for table in lake.tables for name in (table.name, *table.also)}
    unknown = [name for name in options.tables if name not in tables]
    if unknown:
        raise BadInput(
            "--table", f"no table {', '.join(unknown)}", f"the lake file names {', '.join(sorted(tables))}"
        )
    requested = {tables[name].name: tables[name] for name in options.tables}
    return list(requested.values()) if options.tables else list(lake.tables)


def in_partitions(scope: Sequence[Table], options: Options) -> Partitions:
    """Return the requested partitions."""
    if options.partitions and not options.live:
        raise BadInput("--partition", "is for a live audit", "add --live")
    return partitions_of(scope, options.partitions)


def _listed(scope: Sequence[Table], partitions: Partitions) -> list[Location]:
    return [place for table in scope for place in partitions.get(table.name, (table.location,))]


def _discover(lake: Lake, context: Context, progress: Progress) -> Described:
    """Return the lake with its discovered tables and reports; no request is sent if the lake file names all of them."""
    if not (lake.finds_tables or any(getattr(source, "expand", False) for source in lake.inventories)):
        return Described(lake)
    with progress.stage("find tables") as log:
        discovered = described(lake, context)
        log.note(inventories=len(discovered.lake.inventories), tables=len(discovered.lake.tables))
    if not discovered.lake.tables:
        gap = discovered.gaps[0] if discovered.gaps else "nothing names a table where they are discovered"
        raise CannotAudit(lake.name, f"no table was found: {gap}", "see lakeaudit doctor")
    return discovered


def _with_lost_tables(discovered: Described, context: Context) -> Described:
    """Add tables that an earlier audit read and that discovery no longer finds although they still have files.

    A table that was dropped with its files is not added.
    """
    if not discovered.lake.discoveries or discovered.gaps or not context.live:
        return discovered
    names = {each for table in discovered.lake.tables for each in (table.name, *table.also)}
    places = {table.location for table in discovered.lake.tables}
    lost: list[Table] = []
    for (kind, name), last in context.last_states.items():
        place = _place_of(last)
        if place is None or name in names or place in places or kind not in formats():
            continue
        by = discovery_of(discovered.lake, place)
        if by is not None and _lost_its_log(context, place, kind):
            lost.append(discovered.lake.found_table(name, place, by, kind))
    return replace(
        discovered, lake=discovered.lake.model_copy(update={"tables": (*discovered.lake.tables, *lost)})
    )


def _place_of(last: LastState) -> Location | None:
    named = identify(last.location)
    return None if named is None else Location(named[0], named[1].rstrip("/"))


def _lost_its_log(context: Context, place: Location, kind: str) -> bool:
    """Whether a folder has files but no log of that format; False if it cannot be listed."""
    try:
        there = holds_any_file(context.clients, place)
        return there and kind not in formats_of(context.clients, place)
    except SourceError:
        return False


def _missing_tables(discovered: Described, past: Results) -> tuple[str, ...]:
    """Warn about tables of the last audit that no longer exist: a deleted table looks like one that moved."""
    last = past.last_published() if discovered.lake.finds_tables and not discovered.gaps else None
    if not last:
        return ()
    audited = {row["table_name"] for row in past.coverage(last["run_id"])} | _unresolved(past)
    names = sorted(audited - {each.name for each in (*discovered.lake.tables, *discovered.lake.watched)})
    knows = "no catalog names" if discovered.lake.catalog_discoveries else "no inventory has a log of"
    warning = f"audited before, and {knows} it now: {first_of(names, NAMED)}"
    return (warning,) if names else ()


def _unresolved(past: Results) -> set[str]:
    """Return the tables with pending or open discrepancies in the ledger."""
    batches = past.discrepancies(UNRESOLVED)
    return {name for batch in batches for name in batch.column("table_name").to_pylist() if name}

"""What one audit is about: the tables and partitions that were asked for, of a lake whose tables are all known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from lakeaudit.audit.collapsed_locations import collapsed_locations, relocated
from lakeaudit.audit.preflight import first_of, nothing_to_read
from lakeaudit.collect.partitions import Partitions, partitions_of
from lakeaudit.config import Lake, Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import BadInput, CannotAudit, SourceError
from lakeaudit.evidence.discovery import NAMED, Described, described, discovery_of, formats_of
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.lineage import LastState
from lakeaudit.evidence.protocol import Context, EvidenceGap, SourceInfo
from lakeaudit.evidence.registry import formats
from lakeaudit.keys import Aliases, Location, identify
from lakeaudit.results.read import UNRESOLVED, Results
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.progress import Progress


@dataclass(frozen=True)
class Options:
    """What the command line asks of one audit; no tables means all, no partitions all of theirs."""

    tables: tuple[str, ...] = ()
    live: bool = False
    partitions: tuple[str, ...] = ()
    as_of: datetime | None = None
    run_id: str | None = None


@dataclass(frozen=True)
class AuditPlan:
    """The lake with all that its file only describes, what of it is audited, and why nothing of it can be read.

    `listed` are the places that a live audit lists. `still_known` are tables that may only have been missed by the
    discovery: what the ledger holds of them is not retired.
    """

    lake: Lake
    scope: tuple[Table, ...]
    partitions: Partitions
    listed: tuple[Location, ...] = ()
    nothing: CannotAudit | None = None
    still_known: frozenset[str] = frozenset()
    infos: tuple[SourceInfo, ...] = ()
    """Of catalogs that were read for it."""
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    all_found: bool = False
    """Whether no table that the lake file describes can have been missed."""
    named: frozenset[str] = frozenset()
    """Tables that the lake file itself names."""
    collapsed: Aliases = ()
    """Locations with empty parts, and the places with single slashes where their tables lie."""

    @property
    def names(self) -> list[str]:
        return [table.name for table in self.scope]

    @property
    def known(self) -> set[str]:
        """Tables and watched places that are there, whether or not they are audited now."""
        return {each.name for each in (*self.lake.tables, *self.lake.watched)} | self.still_known


def context_of(
    options: Options, engine: AuditEngine, clients: Clients, now: datetime, rate: float
) -> Context:
    """What readers may know of this run.

    Raises:
        BadInput: a time to come; a live audit of the past.
    """
    as_of = options.as_of or now
    if as_of > now:
        raise BadInput("--as-of", f"{as_of:%Y-%m-%dT%H:%M:%SZ} lies in the future", "give a time up to now")
    live = options.as_of is None
    if options.live and not live:
        raise BadInput("--live", "lists storage now and cannot answer for --as-of", "leave one of them out")
    return Context(engine, clients, as_of, now, live, rate)


def planned(
    lake: Lake, options: Options, past: Results, context: Context, engine: AuditEngine, progress: Progress
) -> AuditPlan:
    """Find the tables that the lake file describes, and what of them was asked for.

    Raises:
        BadInput: tables or partitions that are not there.
        CannotAudit: no table was found.
    """
    declared = list(lake.tables) if lake.finds_tables else in_scope(lake, options)
    nothing = nothing_to_read(lake, declared, context.clients, live=options.live)
    if nothing is not None:
        return AuditPlan(lake, tuple(declared), in_partitions(declared, options), nothing=nothing)
    engine.begin()
    found = _with_lost_tables(_described(lake, context, progress), context)
    moved = collapsed_locations(found.lake.tables, context.clients)
    found = replace(found, lake=relocated(found.lake, moved))
    scope = in_scope(found.lake, options)
    partitions = in_partitions(scope, options)
    return AuditPlan(
        lake=found.lake,
        scope=tuple(scope),
        partitions=partitions,
        listed=tuple(_listed(scope, partitions)) if options.live else (),
        still_known=frozenset(_unresolved(past)) if found.gaps else frozenset(),
        infos=found.infos,
        holes=found.holes,
        warnings=(*found.warnings, *_vanished(found, past)),
        all_found=not found.gaps,
        named=frozenset(table.name for table in lake.tables),
        collapsed=moved,
    )


def in_scope(lake: Lake, options: Options) -> list[Table]:
    """The tables that were asked for."""
    known = {name: table for table in lake.tables for name in (table.name, *table.also)}
    unknown = [name for name in options.tables if name not in known]
    if unknown:
        raise BadInput(
            "--table", f"no table {', '.join(unknown)}", f"the lake file names {', '.join(sorted(known))}"
        )
    wanted = {known[name].name: known[name] for name in options.tables}
    return list(wanted.values()) if options.tables else list(lake.tables)


def in_partitions(scope: Sequence[Table], options: Options) -> Partitions:
    """The partitions that were asked for."""
    if options.partitions and not options.live:
        raise BadInput("--partition", "is for a live audit", "add --live")
    return partitions_of(scope, options.partitions)


def _listed(scope: Sequence[Table], partitions: Partitions) -> list[Location]:
    return [place for table in scope for place in partitions.get(table.name, (table.location,))]


def _described(lake: Lake, context: Context, progress: Progress) -> Described:
    """The lake with what its file only describes; nothing is asked where it names everything."""
    if not (lake.finds_tables or any(getattr(source, "expand", False) for source in lake.inventories)):
        return Described(lake)
    with progress.stage("find tables") as log:
        found = described(lake, context)
        log.note(inventories=len(found.lake.inventories), tables=len(found.lake.tables))
    if not found.lake.tables:
        gap = found.gaps[0] if found.gaps else "nothing names a table where they are discovered"
        raise CannotAudit(lake.name, f"no table was found: {gap}", "see lakeaudit doctor")
    return found


def _with_lost_tables(found: Described, context: Context) -> Described:
    """With the tables that an earlier audit read and that no discovery finds now, though files of them are there.

    A table that was dropped whole is not among them.
    """
    if not found.lake.discoveries or found.gaps or not context.live:
        return found
    names = {each for table in found.lake.tables for each in (table.name, *table.also)}
    places = {table.location for table in found.lake.tables}
    lost: list[Table] = []
    for (kind, name), last in context.last_states.items():
        place = _place_of(last)
        if place is None or name in names or place in places or kind not in formats():
            continue
        by = discovery_of(found.lake, place)
        if by is not None and _lost_its_log(context, place, kind):
            lost.append(found.lake.found_table(name, place, by, kind))
    return replace(found, lake=found.lake.model_copy(update={"tables": (*found.lake.tables, *lost)}))


def _place_of(last: LastState) -> Location | None:
    named = identify(last.location)
    return None if named is None else Location(named[0], named[1].rstrip("/"))


def _lost_its_log(context: Context, place: Location, kind: str) -> bool:
    """Whether a folder has files and no log of that format; what cannot be listed is not known to have lost it."""
    try:
        there = any(True for _ in islice(list_files(context.clients, place), 1))
        return there and kind not in formats_of(context.clients, place)
    except SourceError:
        return False


def _vanished(found: Described, past: Results) -> tuple[str, ...]:
    """Tables of the last audit that are no more: a table that was deleted whole looks like one that moved."""
    last = past.last_published() if found.lake.finds_tables and not found.gaps else None
    if not last:
        return ()
    audited = {row["table_name"] for row in past.coverage(last["run_id"])} | _unresolved(past)
    names = sorted(audited - {each.name for each in (*found.lake.tables, *found.lake.watched)})
    knows = "no catalog names" if found.lake.catalog_discoveries else "no inventory has a log of"
    told = f"audited before, and {knows} it now: {first_of(names, NAMED)}"
    return (told,) if names else ()


def _unresolved(past: Results) -> set[str]:
    """Tables of which the ledger holds anything pending or open."""
    held = past.discrepancies(UNRESOLVED)
    return {name for batch in held for name in batch.column("table_name").to_pylist() if name}

"""One audit from top to bottom: load what is open, read, match, classify, look now, settle, publish."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from lakeaudit.compare.findings import Stamp
from lakeaudit.config import Lake, Table
from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.evidence.discovery import NAMED, Described, described
from lakeaudit.evidence.protocol import Context
from lakeaudit.gates import expectation_suites
from lakeaudit.gates.publish_gate import Guarded, guard, refusal
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import leased
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.ledger.load_open import abandoned_runs, load_open
from lakeaudit.ledger.update_ledger import Seen, update_ledger
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.pipeline.judge import Judgement, judge
from lakeaudit.pipeline.partitions import Partitions, partitions_of
from lakeaudit.pipeline.preflight import nothing_to_read, require_results
from lakeaudit.pipeline.read_sources import read_sources
from lakeaudit.pipeline.run_outcome import Outcome, conclude
from lakeaudit.results.read import UNRESOLVED, Results
from lakeaudit.results.upkeep import upkeep
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import task_connection
from lakeaudit.runtime.progress import Progress


@dataclass(frozen=True)
class Options:
    """What the command line asks of one audit; no tables means all, no partitions all of theirs."""

    tables: tuple[str, ...] = ()
    live: bool = False
    partitions: tuple[str, ...] = ()
    as_of: datetime | None = None
    run_id: str | None = None


DRIVER_MEMORY = "2GiB"
"""What the tail of an audit may take before it spills: suspects, findings, the rows of the ledger that change."""


def audit(
    lake: Lake,
    options: Options,
    *,
    engine: AuditEngine,
    clients: Clients,
    clock: Callable[[], datetime],
    progress: Progress,
    pause: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Audit the lake and publish what was found under one run id.

    Raises:
        BadInput: a table that the lake file does not name, a live audit of the past, partitions of one not live.
        CannotPublish: the results place cannot be written.
        Busy: another audit writes there.
        CannotAudit: no source can be reached.
    """
    started = clock()
    expectation_suites.preload()
    if not lake.discoveries:
        in_partitions(in_scope(lake, options), options)
    context = _context(options, engine, clients, started, lake.settings.confirm.rate)
    stamp = Stamp(options.run_id or new_run_id(started), lake.name, context.as_of)
    require_results(lake.results, clients)
    with leased(lake.results, clients, stamp.run_id, progress) as still_ours, _driver_connection() as con:
        past = Results(lake.results, clients, lake.name)
        found, scope, nothing = _plan(lake, options, context, engine, progress)
        lake, partitions = found.lake, in_partitions(scope, options)
        vanished = _vanished(found, past)
        names = [table.name for table in scope]
        with progress.stage("open results"):
            writer, ledger = _opened(past, still_ours, started)
            writer.put_run(_run_row(stamp, started, scope))
            if nothing is not None:
                ended = {"status": "failed", "finished_at": clock(), "error": str(nothing)}
                writer.put_run(_run_row(stamp, started, scope) | ended)
                raise nothing
            memory = load_open(ledger, past, names, stamp)
        with progress.stage("find evidence") as log:
            observed = read_sources(lake, context, _listed(scope, partitions) if options.live else ())
            log.note(sources=len(observed.infos))
        engine.ready(progress)
        run = AuditContext(lake, scope, partitions, observed, context, stamp, memory, con, pause)
        judgement = judge(run, engine, progress)
        with progress.stage("settle") as log:
            known, seen = ledger.rows(con, judgement.findings), _seen(judgement, found, past)
            changes = update_ledger(con, known, seen, stamp, context.now, ledger.found_since)
            log.note(**changes.counts)
        with progress.stage("gates") as log:
            earlier = past.again().runs()
            report = guard(con, lake, observed.infos, judgement, changes, earlier, stamp)
            log.note(broken=len(report.broken))
            _refuse(report, writer, lake, _run_row(stamp, started, scope) | {"finished_at": clock()})
        with progress.stage("publish") as log:
            publish(writer, judgement, stamp, () if partitions else names)
            ledger.publish(changes)
            standing = ledger.standing(context.now)
            outcome = conclude(con, observed, judgement, report, standing, stamp, started, clock())
            writer.put_run(outcome.run_row)
            log.note(findings=sum(outcome.summary["findings"].values()))
        untidy = upkeep(writer, earlier, outcome.run_row, lake.keep, context.now, progress)
    return replace(outcome, warnings=(*found.warnings, *vanished, *outcome.warnings, *untidy))


def _plan(
    lake: Lake, options: Options, context: Context, engine: AuditEngine, progress: Progress
) -> tuple[Described, list[Table], CannotAudit | None]:
    """The lake with all it describes, the tables that were asked for, and why nothing of it can be read."""
    declared = list(lake.tables) if lake.discoveries else in_scope(lake, options)
    nothing = nothing_to_read(lake, declared, context.clients, live=options.live)
    if nothing is not None:
        return Described(lake), declared, nothing
    engine.begin()
    found = _described(lake, context, progress)
    return found, in_scope(found.lake, options), None


def _vanished(found: Described, past: Results) -> tuple[str, ...]:
    """Tables of the last audit that are no more: a table that was deleted whole looks like one that moved."""
    last = past.last_published() if found.lake.discoveries and not found.gaps else None
    audited = (
        {row["table_name"] for row in past.coverage(last["run_id"])} | _unresolved(past) if last else set()
    )
    names = sorted(audited - {table.name for table in found.lake.tables})
    some = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return (f"audited before, and no inventory has a log of it now: {some}",) if names else ()


def _unresolved(past: Results) -> set[str]:
    """Tables of which the ledger holds anything pending or open."""
    held = past.discrepancies(UNRESOLVED)
    return {name for batch in held for name in batch.column("table_name").to_pylist() if name}


def _described(lake: Lake, context: Context, progress: Progress) -> Described:
    """The lake with what its file only describes; nothing is asked where it names everything."""
    if not (lake.discoveries or any(getattr(source, "expand", False) for source in lake.inventories)):
        return Described(lake)
    with progress.stage("find tables") as log:
        found = described(lake, context)
        log.note(inventories=len(found.lake.inventories), tables=len(found.lake.tables))
    if not found.lake.tables:
        gap = found.gaps[0] if found.gaps else "the inventories name no Delta log below what is discovered"
        raise CannotAudit(lake.name, f"no table was found: {gap}", "see lakeaudit doctor")
    return found


def _driver_connection() -> Any:
    return task_connection(DRIVER_MEMORY, threads=2)


def _opened(
    past: Results, still_ours: Callable[[], None], now: datetime
) -> tuple[ResultsWriter, LedgerTables]:
    """Results to write to, in which no run that was killed seems to be running."""
    writer = open_results(past, still_ours)
    ledger = LedgerTables(writer)
    ledger.fail_abandoned_runs(abandoned_runs(past), now)
    return writer, ledger


def _refuse(report: Guarded, writer: ResultsWriter, lake: Lake, ended: dict[str, Any]) -> None:
    """End the run as failed where a critical expectation does not hold."""
    if refused := refusal(report.broken, lake.results.uri):
        writer.put_run(ended | {"status": "failed", "error": str(refused), "gates": report.words})
        raise refused


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
    """What a live audit lists."""
    return [place for table in scope for place in partitions.get(table.name, (table.location,))]


def new_run_id(at: datetime) -> str:
    """Sortable by time, unique without a registry."""
    return f"{at:%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"


def publish(writer: ResultsWriter, judgement: Judgement, stamp: Stamp, names: Sequence[str]) -> None:
    """Write the run's rows in the contract's order; the ledger's and the final row of `runs` come after them.

    Of `names`, the tables that were audited whole, the leftover files of earlier runs go.
    """
    writer.put("coverage", judgement.coverage_rows, stamp.run_id)
    writer.write("leftover_files", judgement.leftover_files, stamp.run_id, tables=names)
    writer.write("findings", judgement.findings, stamp.run_id)


def _seen(judgement: Judgement, found: Described, past: Results) -> Seen:
    """A table that is no more is retired, unless it may only have been missed."""
    known = {table.name for table in found.lake.tables}
    if found.gaps:
        known |= _unresolved(past)
    return Seen(judgement.findings, judgement.words, judgement.observations, known, judgement.members)


def _context(options: Options, engine: AuditEngine, clients: Clients, now: datetime, rate: float) -> Context:
    as_of = options.as_of or now
    if as_of > now:
        raise BadInput("--as-of", f"{as_of:%Y-%m-%dT%H:%M:%SZ} lies in the future", "give a time up to now")
    live = options.as_of is None
    if options.live and not live:
        raise BadInput("--live", "lists storage now and cannot answer for --as-of", "leave one of them out")
    return Context(engine, clients, as_of, now, live, rate)


def _run_row(stamp: Stamp, started: datetime, scope: Sequence[Table]) -> dict[str, Any]:
    return {
        "run_id": stamp.run_id,
        "lake": stamp.lake,
        "as_of": stamp.as_of,
        "started_at": started,
        "status": "running",
        "tables_expected": len(scope),
    }

"""One audit from top to bottom: load what is open, read, match, classify, look now, settle, publish."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lakeaudit.audit.collapsed_locations import with_collapsed
from lakeaudit.audit.judge import Judgement, judge
from lakeaudit.audit.match_and_confirm import match_and_confirm
from lakeaudit.audit.outcome import Outcome, conclude, recent_commits
from lakeaudit.audit.plan import AuditPlan, Options, context_of, in_partitions, in_scope, planned
from lakeaudit.audit.preflight import require_results
from lakeaudit.audit.storage_snapshots import keep_pictures, pictures_of
from lakeaudit.checks.lineage.lineage_checks import check_witnesses
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.collect.metadata_aims import read_aims
from lakeaudit.collect.pointed_tables import catalog_sources, pointed_tables
from lakeaudit.collect.read_sources import Observed, read_sources
from lakeaudit.config import Lake
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.lineage import with_moved
from lakeaudit.evidence.protocol import Context
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.gates import expectation_suites
from lakeaudit.gates.publish_gate import Guarded, guard, refusal
from lakeaudit.ledger.last_states import ReadTables, last_states, state_rows
from lakeaudit.ledger.lease import leased
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.ledger.load_open import OpenDiscrepancies, abandoned_runs, load_open
from lakeaudit.ledger.renamed_tables import (
    renames,
    states_read,
    under_current_names,
    under_new_names,
    warnings,
)
from lakeaudit.ledger.update_ledger import Changes, RunFindings, update_ledger
from lakeaudit.matching.table_facts import table_facts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.results.read import Results
from lakeaudit.results.upkeep import upkeep
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows, task_connection
from lakeaudit.runtime.progress import Progress
from lakeaudit.schemas import STATES

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
    if not lake.finds_tables:
        in_partitions(in_scope(lake, options), options)
    context = context_of(options, engine, clients, started, lake.settings.confirm.rate)
    stamp = RunStamp(options.run_id or new_run_id(started), lake.name, context.as_of)
    require_results(lake.results, clients)
    with leased(lake.results, clients, stamp.run_id, progress) as still_ours, _driver_connection() as con:
        past = Results(lake.results, clients, lake.name).leased_by(still_ours)
        context = replace(context, last_states=last_states(past, context.as_of, stamp.run_id))
        plan = planned(lake, options, past, context, engine, progress)
        audited = under_current_names(context.last_states, plan.lake.tables)
        context = replace(
            context, clients=with_collapsed(context.clients, plan.collapsed), last_states=audited
        )
        run = _opened(_Begun(plan, stamp, context, clock, progress, con), past, still_ours)
        expectation_suites.preload()
        evidence = run.read(options, pause)
        engine.ready(progress)
        confirmed = match_and_confirm(check_witnesses(evidence), engine, progress)
        judgement = judge(confirmed, engine, progress)
        settled = run.settle(evidence, judgement)
        checked = run.check(evidence.observed, judgement, settled.changes)
        outcome = run.publish(evidence, judgement, settled.changes, checked.report)
        later = run.tidy(evidence.observed, judgement, outcome, checked.earlier)
    warnings = (*plan.warnings, *settled.warnings, *outcome.warnings, *later)
    return replace(outcome, warnings=warnings, tables=plan.lake.tables)


@dataclass(frozen=True)
class _Begun:
    """A run that has a name, and results that nobody else writes to."""

    plan: AuditPlan
    stamp: RunStamp
    context: Context
    clock: Callable[[], datetime]
    progress: Progress
    con: Connection

    def run_row(self, **ended: Any) -> dict[str, Any]:
        """The run's row of `runs`: as it runs, or as it has ended."""
        running = {
            "run_id": self.stamp.run_id,
            "lake": self.stamp.lake,
            "as_of": self.stamp.as_of,
            "started_at": self.context.now,
            "status": "running",
            "tables_expected": len(self.plan.scope),
        }
        return running | ({"status": "failed", "finished_at": self.clock()} | ended if ended else {})


@dataclass(frozen=True)
class _Settled:
    """What the findings change in the ledger, and warnings about renamed tables."""

    changes: Changes
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Checked:
    """The expectations that do not hold, and the rows of earlier runs that they were compared with."""

    report: Guarded
    earlier: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class _Run:
    """A run whose results are open: what it was begun with, what the ledger holds open, and its steps."""

    begun: _Begun
    past: Results
    writer: ResultsWriter
    ledger: LedgerTables
    memory: OpenDiscrepancies

    def read(self, options: Options, pause: Callable[[float], None]) -> Evidence:
        """Everything that can be known of the lake before the rows of its files are read."""
        begun = self.begun
        plan, context = begun.plan, begun.context
        with begun.progress.stage("find evidence") as log:
            pictures = pictures_of(plan.lake, options, self.ledger, context)
            observed = read_sources(plan.lake, replace(context, pictures=pictures), plan.listed)
            observed = observed.beside(plan.infos, plan.holes)
            log.note(sources=len(observed.infos))
        sources = catalog_sources(plan.lake)
        pointed = pointed_tables(begun.con, plan.scope, observed.catalogs, sources)
        aims = () if pointed is None or plan.partitions else read_aims(context.clients, pointed.named)
        return Evidence(
            lake=plan.lake,
            scope=plan.scope,
            partitions=plan.partitions,
            observed=observed,
            context=with_moved_tables(context, observed),
            stamp=begun.stamp,
            memory=self.memory,
            con=begun.con,
            facts=tuple(table_facts(plan.lake.tables, observed.sources.claims)),
            policy=finding_policy(plan.scope, plan.lake.ignores, begun.stamp.as_of.date()),
            lifecycles=Lifecycles(context.clients, live=context.live),
            pointed=pointed,
            metadata_aims=aims,
            named=plan.named,
            all_found=plan.all_found,
            pause=pause,
        )

    def settle(self, evidence: Evidence, judgement: Judgement) -> _Settled:
        """What the findings change in the ledger."""
        begun = self.begun
        with begun.progress.stage("settle") as log:
            known = self.ledger.rows(begun.con, judgement.findings)
            former, renaming = self._accepted_before(evidence)
            seen = RunFindings(
                judgement.findings,
                judgement.words,
                judgement.observations,
                begun.plan.known,
                judgement.members,
                former,
            )
            changes = update_ledger(
                begun.con,
                known,
                seen,
                begun.stamp,
                begun.context.now,
                self.ledger.found_since,
                begun.plan.lake.ledger.ack_growth,
            )
            log.note(**changes.counts)
        return _Settled(changes, renaming)

    def _accepted_before(self, evidence: Evidence) -> tuple[Rows | None, tuple[str, ...]]:
        """What is accepted of renamed tables, under their new names, and warnings; None: no table has another name."""
        begun = self.begun
        lake, con = begun.plan.lake, begun.con
        now = states_read(evidence.observed.sources.claims, lake.tables)
        renamed = renames(evidence.context.last_states, now, begun.plan.known)
        if not renamed:
            return None, ()
        rows = self.ledger.accepted_of(con, [*renamed.names, *renamed.doubtful], begun.context.now)
        accepted = {row["table_name"] for row in duck.rows_of(duck.made_of(con, _NAMES_OF, rows))}
        former = under_new_names(con, rows, renamed.names, lake.name) if renamed.names else None
        return former, warnings(renamed, accepted)

    def check(self, observed: Observed, judgement: Judgement, changes: Changes) -> _Checked:
        """Hold the run against the expectations; where a critical one does not hold, it ends as failed."""
        begun = self.begun
        lake = begun.plan.lake
        with begun.progress.stage("gates") as log:
            earlier = self.past.again().runs()
            report = guard(begun.con, lake, observed.infos, judgement, changes, earlier, begun.stamp)
            log.note(broken=len(report.broken))
            if refused := refusal(report.broken, lake.results.uri):
                self.writer.put_run(begun.run_row(error=str(refused), gates=report.messages))
                raise refused
        return _Checked(report, earlier)

    def publish(self, evidence: Evidence, judgement: Judgement, changes: Changes, report: Guarded) -> Outcome:
        """Write the run's rows in the contract's order: those of the ledger and the final row of `runs` come last."""
        begun, observed, run_id = self.begun, evidence.observed, self.begun.stamp.run_id
        with begun.progress.stage("publish") as log:
            self.writer.put("coverage", judgement.coverage_rows, run_id)
            self.writer.write("leftover_files", judgement.leftover_files, run_id)
            self.writer.write("commits", recent_commits(observed, begun.plan.names, begun.stamp), run_id)
            self.writer.write("states", self._states(evidence, judgement), run_id)
            self.writer.write("findings", judgement.findings, run_id)
            self.ledger.publish(changes)
            standing = self.ledger.standing(begun.context.now)
            outcome = conclude(
                begun.con,
                observed,
                judgement,
                report,
                standing,
                begun.stamp,
                begun.context.now,
                begun.clock(),
            )
            self.writer.put_run(outcome.run_row)
            log.note(findings=sum(outcome.summary["findings"].values()))
        return outcome

    def _states(self, evidence: Evidence, judgement: Judgement) -> pa.Table:
        begun = self.begun
        before, claims = evidence.context.last_states, evidence.observed.sources.claims
        seen = ReadTables(judgement.counted, judgement.hosts, judgement.stored, judgement.catalogued)
        rows = state_rows(claims, begun.plan.scope, before, judgement.lineage, seen, begun.stamp)
        return pa.Table.from_pylist(rows, STATES)

    def tidy(
        self, observed: Observed, judgement: Judgement, outcome: Outcome, earlier: Sequence[dict[str, Any]]
    ) -> tuple[str, ...]:
        """Keep the storage snapshot of a published run, and maintain the result tables; warnings of both."""
        begun, plan = self.begun, self.begun.plan
        unkept = keep_pictures(observed, judgement, outcome.status, begun.stamp.run_id)
        whole = () if plan.partitions else plan.names
        now = begun.context.now
        untidy = upkeep(self.writer, earlier, outcome.run_row, plan.lake.keep, now, begun.progress, whole)
        return (*unkept, *untidy)


def with_moved_tables(context: Context, observed: Observed) -> Context:
    """The run's context, in which tables that got another name and another place at once have their last states."""
    last = context.last_states
    for read in observed.sources.claims:
        last = with_moved(last, read.info.kind, ((name, each.state) for name, each in read.states.items()))
    return replace(context, last_states=last)


_NAMES_OF = "SELECT DISTINCT table_name FROM input"


def _opened(begun: _Begun, past: Results, still_ours: Callable[[], None]) -> _Run:
    """The run with its results open, in which no run that was killed seems to be running.

    Raises:
        CannotAudit: nothing of the lake can be read; the run's row says so.
    """
    with begun.progress.stage("open results"):
        writer = open_results(past, still_ours)
        ledger = LedgerTables(writer)
        ledger.fail_abandoned_runs(abandoned_runs(past), begun.context.now)
        writer.put_run(begun.run_row())
        if (nothing := begun.plan.nothing) is not None:
            writer.put_run(begun.run_row(error=str(nothing)))
            raise nothing
        return _Run(begun, past, writer, ledger, load_open(ledger, past, begun.plan.names, begun.stamp))


def _driver_connection() -> Any:
    return task_connection(DRIVER_MEMORY, threads=2)


def new_run_id(at: datetime) -> str:
    """Sortable by time, unique without a registry."""
    return f"{at:%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"

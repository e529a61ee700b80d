"""Runs one audit: it loads open discrepancies, reads, matches, classifies, confirms, settles and publishes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lakeaudit.audit.collapsed_locations import with_collapsed
from lakeaudit.audit.judge import Judgement, judge, without_tables
from lakeaudit.audit.lake_tables import put_tables
from lakeaudit.audit.lost_coverage import lost_in_scope, with_lost_coverage
from lakeaudit.audit.match_and_confirm import match_and_confirm
from lakeaudit.audit.outcome import Outcome, conclude, recent_commits
from lakeaudit.audit.plan import AuditPlan, Options, audit_context, in_partitions, in_scope, plan_audit
from lakeaudit.audit.preflight import require_gates, require_results
from lakeaudit.audit.preview import MOST_TABLES, Preview, serious, show_groups
from lakeaudit.audit.storage_snapshots import snapshot_comparison, store_snapshots
from lakeaudit.audit.verified_tables import verified_rows
from lakeaudit.checks.lineage.lineage_checks import check_witnesses
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.collect.listings import Listings
from lakeaudit.collect.metadata_aims import read_aims
from lakeaudit.collect.pointed_tables import catalog_sources, pointed_tables
from lakeaudit.collect.read_sources import Observed, read_sources
from lakeaudit.config import Lake, Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import AuditError, Busy
from lakeaudit.evidence.lineage import with_moved
from lakeaudit.evidence.protocol import Context
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.gates.publish_gate import Guarded, guard, refusal
from lakeaudit.gates.second_process import Checker, check_here
from lakeaudit.ledger.last_states import ReadTables, last_states, state_rows
from lakeaudit.ledger.lease import leased_soon, leased_when_free
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.ledger.load_open import OpenDiscrepancies, abandoned_runs, last_judged_by, load_open
from lakeaudit.ledger.renamed_tables import (
    renames,
    states_read,
    under_current_names,
    under_new_names,
    warnings,
)
from lakeaudit.ledger.settle import TRANSITIONS
from lakeaudit.ledger.update_ledger import Changes, RunFindings, update_ledger
from lakeaudit.matching.table_facts import table_facts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.results.check_file import write_check_file
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.last_judged import tables_with_lost_coverage
from lakeaudit.results.upkeep import upkeep
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows, task_connection
from lakeaudit.runtime.interrupt import was_interrupted
from lakeaudit.runtime.progress import Progress, SilentProgress
from lakeaudit.schemas import STATES

DRIVER_MEMORY = "2GiB"
"""Memory of the driver's connection before it spills: for suspects, findings and changed rows of the ledger."""


def audit(
    lake: Lake,
    options: Options,
    *,
    engine: AuditEngine,
    clients: Clients,
    clock: Callable[[], datetime],
    progress: Progress,
    pause: Callable[[float], None] = time.sleep,
    check: Checker = check_here,
    preview: Preview | None = None,
) -> Outcome:
    """Audit the lake and publish the results under one run id.

    With a `preview`, a live audit first judges groups of tables and shows their losses; the listings are made once.

    Raises:
        BadInput: a requested table is not in the lake file, a live audit has an `as_of`, or an audit with partitions is
            not live.
        CannotPublish: the results location cannot be written.
        Busy: another audit writes to the results location.
        CannotAudit: no source can be reached.
    """
    with _opened_run(lake, options, engine, clients, clock, progress, check) as run:
        if preview is not None and options.live:
            judge_alone = partial(run.judge_alone, options, engine, pause)
            # each group reads the catalogs again, so that there are few groups if there are catalogs
            most = None if lake.metastores else MOST_TABLES
            show_groups(run.setup.plan.scope, most, judge_alone, preview, progress)
        evidence = run.read(options, pause)
        engine.ready(progress)
        confirmed = match_and_confirm(check_witnesses(evidence), engine, progress)
        judgement = judge(confirmed, engine, progress)
        all_found = run.setup.plan.all_found
        judgement = with_lost_coverage(judgement, confirmed.evidence, run.past, all_found=all_found)
        with run.under_lease(pause) as writing:
            judgement = without_tables(judgement, writing.judged_meanwhile)
            settled = writing.settle(evidence, judgement)
            checked = writing.check(evidence.observed, judgement, settled.changes)
            outcome = writing.publish(evidence, judgement, settled.changes, checked.report)
            later = writing.tidy(evidence, judgement, outcome, checked.earlier)
    plan = run.setup.plan
    warnings = (*plan.warnings, *settled.warnings, *outcome.warnings, *later)
    return replace(outcome, warnings=warnings, tables=plan.lake.tables)


@contextmanager
def _opened_run(
    lake: Lake,
    options: Options,
    engine: AuditEngine,
    clients: Clients,
    clock: Callable[[], datetime],
    progress: Progress,
    check: Checker,
) -> "Iterator[_Run]":
    """Yield a run that has a plan, the lease of its results and a row in `runs`.

    A live audit gets both only to publish, so that it neither waits for a long audit before it reads nor delays one.
    """
    started = clock()
    if not lake.finds_tables:
        in_partitions(in_scope(lake, options), options)
    context = audit_context(options, engine, clients, started, lake.settings.confirm.rate)
    stamp = RunStamp(options.run_id or new_run_id(started), lake.name, context.as_of)
    require_gates(lake)
    require_results(lake.results, clients)
    lease = (
        nullcontext(_not_leased)
        if options.live
        else leased_soon(lake.results, clients, stamp.run_id, progress)
    )
    with lease as still_ours, _driver_connection() as con:
        past = Results(lake.results, clients, lake.name).leased_by(still_ours)
        context = replace(context, last_states=last_states(past, context.as_of, stamp.run_id))
        plan = plan_audit(lake, options, past, context, engine, progress)
        audited = under_current_names(context.last_states, plan.lake.tables)
        context = replace(
            context, clients=with_collapsed(context.clients, plan.collapsed), last_states=audited
        )
        setup = _RunSetup(plan, stamp, context, clock, progress, con, check)
        if options.live:
            yield replace(_begin_reading(setup, past), listings=Listings(plan.listed))
            return
        run = _begin_run(setup, past, still_ours)
        with _recorded_failure(run):
            yield run


def _not_leased() -> None:
    """Refuse every write of a run that does not hold the lease yet."""
    raise Busy("results", "this run does not hold the lease yet", "report this as a bug", retryable=False)


@contextmanager
def _recorded_failure(run: "_Run") -> Iterator[None]:
    """Write a failure of a run that has no final row yet to `runs` and the check file, as far as that is possible."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, AuditError) and was_interrupted():
            raise
        what = str(error) if isinstance(error, AuditError) else f"unexpected {type(error).__name__}"
        with suppress(Exception):  # the failure itself is raised
            if run.past.again().run(run.setup.stamp.run_id)["status"] == "running":
                _put_failure(run.setup, run.past, run.writer, what)
        raise


@dataclass(frozen=True)
class _RunSetup:
    """A run that has an id and holds the lease of its results."""

    plan: AuditPlan
    stamp: RunStamp
    context: Context
    clock: Callable[[], datetime]
    progress: Progress
    con: Connection
    check: Checker

    def run_row(self, **end: Any) -> dict[str, Any]:
        """Return the run's row in `runs`: `running`, or, if columns are given, `failed` with these columns."""
        running = {
            "run_id": self.stamp.run_id,
            "lake": self.stamp.lake,
            "as_of": self.stamp.as_of,
            "started_at": self.context.now,
            "status": "running",
            "tables_expected": len(self.plan.scope),
        }
        return running | ({"status": "failed", "finished_at": self.clock()} | end if end else {})


@dataclass(frozen=True)
class _LedgerUpdate:
    """The changes of the ledger, and warnings about renamed tables."""

    changes: Changes
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _GateResult:
    """The expectations that were not met, and the rows of the earlier runs that they compare with."""

    report: Guarded
    earlier: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class _Run:
    """The steps of a run whose results are open; `memory` has the open discrepancies of the ledger."""

    setup: _RunSetup
    past: Results
    writer: ResultsWriter
    ledger: LedgerTables
    memory: OpenDiscrepancies
    is_leased: bool = True
    judged_meanwhile: Mapping[str, str] = field(default_factory=dict)
    """Tables that other runs have judged since this run loaded the ledger, with these runs."""
    listings: Listings | None = None
    """What a live audit has listed."""

    @contextmanager
    def under_lease(self, pause: Callable[[float], None]) -> "Iterator[_Run]":
        """Yield this run, holding the lease of its results.

        Raises:
            Busy: another audit does not release the lease.
        """
        if self.is_leased:
            yield self
            return
        setup = self.setup
        lake, clients, stamp = setup.plan.lake, setup.context.clients, setup.stamp
        with leased_when_free(lake.results, clients, stamp.run_id, setup.progress, pause) as still_ours:
            past = Results(lake.results, clients, lake.name).leased_by(still_ours)
            meanwhile = _judged_meanwhile(setup, self.past, past)
            run = _begin_run(setup, past, still_ours, self.memory)
            run = replace(run, judged_meanwhile=meanwhile)
            with _recorded_failure(run):
                yield run

    def read(self, options: Options, pause: Callable[[float], None]) -> Evidence:
        """Collect the evidence that does not need the rows of the lake's files."""
        setup = self.setup
        plan, context = setup.plan, setup.context
        with setup.progress.stage("find evidence") as log:
            comparison = snapshot_comparison(plan.lake, options, self.ledger, context)
            observing = replace(context, pictures=comparison)
            observed = read_sources(plan.lake, observing, plan.listed, self.listings)
            observed = observed.beside(plan.infos, plan.gaps)
            log.note(sources=len(observed.infos))
        sources = catalog_sources(plan.lake)
        pointed = pointed_tables(setup.con, plan.scope, observed.catalogs, sources)
        aims = () if pointed is None or plan.partitions else read_aims(context.clients, pointed.named)
        return Evidence(
            lake=plan.lake,
            scope=plan.scope,
            partitions=plan.partitions,
            observed=observed,
            context=with_moved_tables(context, observed),
            stamp=setup.stamp,
            memory=self.memory,
            con=setup.con,
            facts=tuple(table_facts(plan.lake.tables, observed.sources.claims)),
            policy=finding_policy(plan.scope, plan.lake.ignores, setup.stamp.as_of.date()),
            lifecycles=Lifecycles(context.clients, live=context.live),
            pointed=pointed,
            metadata_aims=aims,
            named=plan.named,
            all_found=plan.all_found,
            pause=pause,
        )

    def judge_alone(
        self,
        options: Options,
        engine: AuditEngine,
        pause: Callable[[float], None],
        tables: Sequence[Table],
    ) -> list[dict[str, Any]]:
        """Judge some tables as if the lake had no others, and return their serious findings; see `preview.serious`."""
        silent, plan = SilentProgress(), self.setup.plan
        with _driver_connection() as con:
            alone = replace(
                plan,
                lake=plan.lake.model_copy(update={"tables": tuple(tables)}),
                scope=tuple(tables),
                listed=tuple(table.location for table in tables),
            )
            run = replace(self, setup=replace(self.setup, plan=alone, con=con, progress=silent))
            evidence = run.read(options, pause)
            confirmed = match_and_confirm(check_witnesses(evidence), engine, silent)
            return serious(con, judge(confirmed, engine, silent).findings)

    def settle(self, evidence: Evidence, judgement: Judgement) -> _LedgerUpdate:
        """Compute the changes of the ledger."""
        setup = self.setup
        with setup.progress.stage("update the ledger") as log:
            rows = self.ledger.rows(setup.con, judgement.findings)
            accepted, renaming = self._accepted_under_old_names(evidence)
            findings = RunFindings(
                judgement.findings,
                judgement.resolutions,
                judgement.observations,
                setup.plan.existing,
                judgement.members,
                evidence.owners,
                accepted,
            )
            changes = update_ledger(
                setup.con,
                rows,
                findings,
                setup.stamp,
                setup.context.now,
                self.ledger.found_since,
                setup.plan.lake.ledger.ack_growth,
            )
            log.note(
                **{TRANSITIONS.get(name, name.replace("_", " ")): n for name, n in changes.counts.items()}
            )
        return _LedgerUpdate(changes, renaming)

    def _accepted_under_old_names(self, evidence: Evidence) -> tuple[Rows | None, tuple[str, ...]]:
        """Return accepted findings of renamed tables under their new names, or None, and warnings."""
        setup = self.setup
        lake, con = setup.plan.lake, setup.con
        now = states_read(evidence.observed.sources.claims, lake.tables)
        renamed = renames(evidence.context.last_states, now, setup.plan.existing)
        if not renamed:
            return None, ()
        rows = self.ledger.accepted_of(con, [*renamed.names, *renamed.doubtful], setup.context.now)
        accepted = {row["table_name"] for row in duck.rows_of(duck.made_of(con, _NAMES_OF, rows))}
        former = under_new_names(con, rows, renamed.names, lake.name) if renamed.names else None
        return former, warnings(renamed, accepted)

    def check(self, observed: Observed, judgement: Judgement, changes: Changes) -> _GateResult:
        """Check the expectations.

        Raises:
            GateFailed: a critical expectation was not met; the run's row is `failed`.
        """
        setup = self.setup
        lake = setup.plan.lake
        with setup.progress.stage("check the results") as log:
            earlier = self.past.again().runs()
            report = guard(
                setup.con, lake, observed.infos, judgement, changes, earlier, setup.stamp, setup.check
            )
            log.note(**{"failed checks": len(report.broken)})
            if error := refusal(report.broken, lake.results.uri):
                _put_failure(setup, self.past, self.writer, str(error), gates=report.messages)
                raise error
        return _GateResult(report, earlier)

    def publish(self, evidence: Evidence, judgement: Judgement, changes: Changes, report: Guarded) -> Outcome:
        """Write the run's rows in the order of the contract: the ledger and the final row of `runs` come last."""
        setup, observed, run_id = self.setup, evidence.observed, self.setup.stamp.run_id
        with setup.progress.stage("publish") as log:
            self.writer.put("coverage", judgement.coverage_rows, run_id)
            self.writer.write("leftover_files", judgement.leftover_files, run_id)
            self.writer.write("commits", recent_commits(observed, setup.plan.names, setup.stamp), run_id)
            self.writer.write("states", self._states(evidence, judgement), run_id)
            self.writer.write("findings", judgement.findings, run_id)
            self.ledger.publish(changes)
            verified = verified_rows(evidence, judgement, self.past.again(), setup.context.now)
            self.writer.put("verified", verified, run_id)
            standing = self.ledger.standing(setup.context.now)
            lost = tables_with_lost_coverage(self.past.again(), setup.context.now)
            lost = lost_in_scope(lost, judgement, setup.plan.names, setup.plan.lake)
            outcome = conclude(
                setup.con,
                observed,
                judgement,
                report,
                standing,
                setup.stamp,
                setup.context.now,
                setup.clock(),
                coverage_lost=len(lost),
            )
            self.writer.put_run(outcome.run_row)
            log.note(findings=sum(outcome.summary["findings"].values()))
        return outcome

    def _states(self, evidence: Evidence, judgement: Judgement) -> pa.Table:
        setup = self.setup
        before, claims = evidence.context.last_states, evidence.observed.sources.claims
        read = ReadTables(judgement.counted, judgement.hosts, judgement.stored, judgement.catalogued)
        rows = state_rows(claims, setup.plan.scope, before, judgement.lineage, read, setup.stamp)
        return pa.Table.from_pylist(rows, STATES)

    def tidy(
        self, evidence: Evidence, judgement: Judgement, outcome: Outcome, earlier: Sequence[dict[str, Any]]
    ) -> tuple[str, ...]:
        """Write `tables` and the check file, store the snapshot, maintain the result tables; return all warnings."""
        setup, plan = self.setup, self.setup.plan
        table_warnings = put_tables(self.writer, evidence, judgement, outcome)
        check_warnings = write_check_file(self.past, plan.lake, setup.clock(), all_tables=plan.all_found)
        snapshot_warnings = store_snapshots(evidence.observed, judgement, outcome.status, setup.stamp.run_id)
        whole = () if plan.partitions else plan.names
        now = setup.context.now
        upkeep_warnings = upkeep(
            self.writer, earlier, outcome.run_row, plan.lake.keep, now, setup.progress, whole
        )
        return (*table_warnings, *check_warnings, *snapshot_warnings, *upkeep_warnings)


def with_moved_tables(context: Context, observed: Observed) -> Context:
    """Return the run's context with the last states of tables that changed both name and location."""
    last = context.last_states
    for read in observed.sources.claims:
        last = with_moved(last, read.info.kind, ((name, each.state) for name, each in read.states.items()))
    return replace(context, last_states=last)


_NAMES_OF = "SELECT DISTINCT table_name FROM input"


def _begin_reading(setup: _RunSetup, past: Results) -> _Run:
    """Open the results to read them; every write of this run is refused.

    Raises:
        CannotAudit: no source of the lake can be read.
    """
    with setup.progress.stage("open results"):
        if (error := setup.plan.nothing) is not None:
            raise error
        writer = ResultsWriter(past, _not_leased)
        ledger = LedgerTables(writer)
        memory = load_open(ledger, past, setup.plan.names, setup.stamp)
        return _Run(setup, past, writer, ledger, memory, is_leased=False)


def _judged_meanwhile(setup: _RunSetup, before: Results, now: Results) -> dict[str, str]:
    """Return the tables of this run that runs have judged since the ledger was read, with the last such run.

    The evidence of this run may be older than theirs, whatever their times say: nothing of these tables may be settled.
    Audits of other partitions of a table do not count for an audit of partitions.
    """
    known = {run["run_id"] for run in before.runs() if run["finished_at"] is not None}
    newer = [run["run_id"] for run in now.runs() if run["finished_at"] and run["run_id"] not in known]
    names, partitions = {table.name for table in setup.plan.scope}, setup.plan.partitions
    judged = last_judged_by(
        now, newer, {name: [place.uri for place in of] for name, of in partitions.items()}
    )
    return {table: run_id for table, run_id in judged.items() if table in names}


def _begin_run(
    setup: _RunSetup,
    past: Results,
    still_ours: Callable[[], None],
    memory: OpenDiscrepancies | None = None,
) -> _Run:
    """Open the results, and mark runs that were killed as failed; `memory` is loaded if it is not given.

    Raises:
        CannotAudit: no source of the lake can be read; the run's row has the error.
    """
    with setup.progress.stage("open results"):
        writer = open_results(past, still_ours)
        ledger = LedgerTables(writer)
        ledger.fail_abandoned_runs(abandoned_runs(past), setup.context.now)
        writer.put_run(setup.run_row())
        if (error := setup.plan.nothing) is not None:
            _put_failure(setup, past, writer, str(error))
            raise error
        memory = memory or load_open(ledger, past, setup.plan.names, setup.stamp)
        return _Run(setup, past, writer, ledger, memory)


def _put_failure(setup: _RunSetup, past: Results, writer: ResultsWriter, error: str, **columns: Any) -> None:
    """Write the final row of a run that failed, and what the check file says since then."""
    writer.put_run(setup.run_row(error=error, **columns))
    write_check_file(past, setup.plan.lake, setup.clock(), all_tables=setup.plan.all_found)


def _driver_connection() -> Any:
    return task_connection(DRIVER_MEMORY, threads=2)


def new_run_id(at: datetime) -> str:
    """Return a unique run id that sorts by time."""
    return f"{at:%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"

"""The steps of one audit, from its plan to the published results; `audit.run` calls them in this order."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit.audit.judge import Judgement, judge
from lakeaudit.audit.lake_tables import put_tables
from lakeaudit.audit.lost_coverage import lost_in_scope
from lakeaudit.audit.match_and_confirm import match_and_confirm
from lakeaudit.audit.outcome import Outcome, conclude, recent_commits
from lakeaudit.audit.plan import AuditPlan, Options
from lakeaudit.audit.preview import serious
from lakeaudit.audit.storage_snapshots import snapshot_comparison, store_snapshots
from lakeaudit.audit.verified_tables import verified_rows
from lakeaudit.checks.lineage.lineage_checks import check_witnesses
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.collect.listings import Listings
from lakeaudit.collect.metadata_aims import read_aims
from lakeaudit.collect.pointed_tables import catalog_sources, pointed_tables
from lakeaudit.collect.read_sources import Observed, read_sources
from lakeaudit.config import Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import AuditError, Busy
from lakeaudit.evidence.lineage import with_moved
from lakeaudit.evidence.protocol import Context
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.gates.publish_gate import Guarded, guard, refusal
from lakeaudit.gates.second_process import Checker
from lakeaudit.ledger.last_states import ReadTables, state_rows
from lakeaudit.ledger.lease import Check, both, leased_when_free, ledger_lease_when_free
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.ledger.load_open import OpenDiscrepancies, abandoned_runs, last_judged_by, load_open
from lakeaudit.ledger.renamed_tables import (
    renames,
    states_read,
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
from lakeaudit.runtime.duck import Connection, Rows, task_connection
from lakeaudit.runtime.interrupt import was_interrupted
from lakeaudit.runtime.progress import Progress, SilentProgress
from lakeaudit.schemas import STATES

DRIVER_MEMORY = "2GiB"
"""Memory of the driver's connection before it spills: for suspects, findings and changed rows of the ledger."""


@dataclass(frozen=True)
class RunSetup:
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
class Run:
    """The steps of a run whose results are open; `memory` has the open discrepancies of the ledger."""

    setup: RunSetup
    past: Results
    writer: ResultsWriter
    ledger: LedgerTables
    memory: OpenDiscrepancies
    only_audit: Check | None = None
    """The check of the audit lease, which an audit of inventories holds; None: the audit is live."""
    judged_meanwhile: Mapping[str, str] = field(default_factory=dict)
    """Tables that other runs have judged since this run loaded the ledger, with these runs."""
    listings: Listings | None = None
    """What a live audit has listed."""

    @contextmanager
    def under_lease(self, pause: Callable[[float], None]) -> Iterator["Run"]:
        """Yield this run, holding both leases of its results.

        Raises:
            Busy: another audit does not release the lease.
        """
        if self.only_audit is not None:
            with self.with_ledger_lease(pause) as run, _recorded_failure(run):
                yield run
            return
        setup = self.setup
        lake, clients, stamp = setup.plan.lake, setup.context.clients, setup.stamp
        with leased_when_free(lake.results, clients, stamp.run_id, setup.progress, pause) as still_ours:
            past = Results(lake.results, clients, lake.name).leased_by(still_ours)
            meanwhile = _judged_meanwhile(setup, self.past, past)
            run = begin_run(setup, past, still_ours, self.memory)
            run = replace(run, judged_meanwhile=meanwhile)
            with _recorded_failure(run):
                yield run

    @contextmanager
    def with_ledger_lease(self, pause: Callable[[float], None] = time.sleep) -> Iterator["Run"]:
        """Yield this run, which holds the audit lease, with the ledger lease and the results as they are now."""
        setup, only_audit = self.setup, self.only_audit or not_leased
        lake, clients, run_id = setup.plan.lake, setup.context.clients, setup.stamp.run_id
        with ledger_lease_when_free(
            lake.results, clients, run_id, setup.progress, pause=pause
        ) as only_writer:
            still_ours = both(only_audit, only_writer)
            past = self.past.again().leased_by(still_ours)
            writer = ResultsWriter(past, still_ours)
            yield replace(self, past=past, writer=writer, ledger=LedgerTables(writer))

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
        with driver_connection() as con:
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
            verified = verified_rows(evidence, judgement, self.past.again(), self.ledger, setup.context.now)
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


def begin_reading(setup: RunSetup, past: Results) -> Run:
    """Open the results to read them; every write of this run is refused.

    Raises:
        CannotAudit: no source of the lake can be read.
    """
    with setup.progress.stage("open results"):
        if (error := setup.plan.nothing) is not None:
            raise error
        writer = ResultsWriter(past, not_leased)
        ledger = LedgerTables(writer)
        memory = load_open(ledger, past, setup.plan.names, setup.stamp)
        return Run(setup, past, writer, ledger, memory)


def begin_run(
    setup: RunSetup,
    past: Results,
    still_ours: Check,
    memory: OpenDiscrepancies | None = None,
) -> Run:
    """Open the results, and mark runs that were killed as failed; `memory` is loaded if it is not given.

    Raises:
        CannotAudit: no source of the lake can be read; the run's row has the error.
    """
    with setup.progress.stage("open results"):
        past = past.leased_by(still_ours)
        writer = open_results(past, still_ours)
        ledger = LedgerTables(writer)
        ledger.fail_abandoned_runs(abandoned_runs(past), setup.context.now)
        writer.put_run(setup.run_row())
        if (error := setup.plan.nothing) is not None:
            _put_failure(setup, past, writer, str(error))
            raise error
        memory = memory or load_open(ledger, past, setup.plan.names, setup.stamp)
        return Run(setup, past, writer, ledger, memory)


def only_reading(run: Run, only_audit: Check) -> Run:
    """Return a run that has begun and holds the audit lease alone: it refuses every write."""
    past = run.past.again().leased_by(not_leased)
    writer = ResultsWriter(past, not_leased)
    return replace(run, past=past, writer=writer, ledger=LedgerTables(writer), only_audit=only_audit)


def _judged_meanwhile(setup: RunSetup, before: Results, now: Results) -> dict[str, str]:
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


@contextmanager
def _recorded_failure(run: Run) -> Iterator[None]:
    """Record a failure of a run that holds both leases."""
    try:
        yield
    except Exception as error:
        _record_failure(run, error)
        raise


@contextmanager
def failure_under_lease(run: Run) -> Iterator[None]:
    """Record a failure of a run that holds the audit lease alone."""
    try:
        yield
    except Exception as error:
        with suppress(Exception), run.with_ledger_lease() as writing:  # the failure itself is raised
            _record_failure(writing, error)
        raise


def _record_failure(run: Run, error: Exception) -> None:
    """Write a failure of a run that has no final row yet to `runs` and the check file, as far as that is possible."""
    if not isinstance(error, AuditError) and was_interrupted():
        return
    what = str(error) if isinstance(error, AuditError) else f"unexpected {type(error).__name__}"
    with suppress(Exception):  # the failure itself is raised
        if run.past.again().run(run.setup.stamp.run_id)["status"] == "running":
            _put_failure(run.setup, run.past, run.writer, what)


def _put_failure(setup: RunSetup, past: Results, writer: ResultsWriter, error: str, **columns: Any) -> None:
    """Write the final row of a run that failed, and what the check file says since then."""
    writer.put_run(setup.run_row(error=error, **columns))
    write_check_file(past, setup.plan.lake, setup.clock(), all_tables=setup.plan.all_found)


def not_leased() -> None:
    """Refuse every write of a run that does not hold the leases yet."""
    raise Busy("results", "this run does not hold the lease yet", "report this as a bug", retryable=False)


def driver_connection() -> AbstractContextManager[Connection]:
    """Return a connection for suspects, findings and changed rows of the ledger."""
    return task_connection(DRIVER_MEMORY, threads=2)

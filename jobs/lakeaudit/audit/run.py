"""Runs one audit: it loads open discrepancies, reads, matches, classifies, confirms, settles and publishes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import uuid4

from lakeaudit.audit.collapsed_locations import with_collapsed
from lakeaudit.audit.judge import judge, without_tables
from lakeaudit.audit.lost_coverage import with_lost_coverage
from lakeaudit.audit.match_and_confirm import match_and_confirm
from lakeaudit.audit.outcome import Outcome
from lakeaudit.audit.plan import Options, audit_context, in_partitions, in_scope, plan_audit
from lakeaudit.audit.preflight import require_gates, require_results
from lakeaudit.audit.preview import MOST_TABLES, Preview, show_groups
from lakeaudit.audit.run_steps import (
    Run,
    RunSetup,
    begin_reading,
    begin_run,
    driver_connection,
    failure_under_lease,
    not_leased,
    only_reading,
)
from lakeaudit.checks.lineage.lineage_checks import check_witnesses
from lakeaudit.collect.listings import Listings
from lakeaudit.config import Lake
from lakeaudit.engine.local import AuditEngine
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.gates.second_process import Checker, check_here
from lakeaudit.ledger.last_states import last_states
from lakeaudit.ledger.lease import audit_lease_soon, both, ledger_lease_when_free
from lakeaudit.ledger.renamed_tables import (
    under_current_names,
)
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import Progress


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
) -> Iterator[Run]:
    """Yield a run that has a plan, the audit lease of its results and a row in `runs`.

    A live audit gets both only to publish, so that it neither waits for a long audit before it reads nor delays one.
    The ledger lease is held to begin and to publish (`under_lease`): `follow` reports losses while an audit reads.
    """
    started = clock()
    if not lake.finds_tables:
        in_partitions(in_scope(lake, options), options)
    context = audit_context(options, engine, clients, started, lake.settings.confirm.rate)
    stamp = RunStamp(options.run_id or new_run_id(started), lake.name, context.as_of)
    require_gates(lake)
    require_results(lake.results, clients)
    lease = (
        nullcontext(not_leased)
        if options.live
        else audit_lease_soon(lake.results, clients, stamp.run_id, progress)
    )
    with lease as only_audit, driver_connection() as con:
        past = Results(lake.results, clients, lake.name)
        context = replace(context, last_states=last_states(past, context.as_of, stamp.run_id))
        plan = plan_audit(lake, options, past, context, engine, progress)
        audited = under_current_names(context.last_states, plan.lake.tables)
        context = replace(
            context, clients=with_collapsed(context.clients, plan.collapsed), last_states=audited
        )
        setup = RunSetup(plan, stamp, context, clock, progress, con, check)
        if options.live:
            yield replace(begin_reading(setup, past), listings=Listings(plan.listed))
            return
        with ledger_lease_when_free(lake.results, clients, stamp.run_id, progress) as only_writer:
            run = begin_run(setup, past, both(only_audit, only_writer))
        run = only_reading(run, only_audit)
        with failure_under_lease(run):
            yield run


def new_run_id(at: datetime) -> str:
    """Return a unique run id that sorts by time."""
    return f"{at:%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"

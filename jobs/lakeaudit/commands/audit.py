"""Run `lakeaudit audit`: one audit with its session, status file, printed result and exit code."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from lakeaudit.commands.on_spark import spark_engine
from lakeaudit.commands.option_values import time_option
from lakeaudit.commands.status import CommandResult, StatusFile, failure
from lakeaudit.config import Lake
from lakeaudit.errors import AuditError, CannotAudit, CannotPublish
from lakeaudit.formatting import iso
from lakeaudit.gates.second_process import Checker, check_here
from lakeaudit.json_documents import AuditedAnswer, AuditSummary
from lakeaudit.kinds import SEVERITIES
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.console import console_on
from lakeaudit.runtime.interrupt import at_interrupt
from lakeaudit.runtime.progress import Progress

if TYPE_CHECKING:
    from lakeaudit.audit.outcome import Outcome
    from lakeaudit.audit.plan import Options
    from lakeaudit.audit.preview import Preview

EXIT_ORDER = (2, 70, 14, 13, 12, 11, 10, 1, 3, 0)
"""If several codes apply, the command exits with the one that comes first here."""

WORST_SHOWN = 50


@dataclass(frozen=True)
class Request:
    """The arguments of the command. `fail_on` is a severity or `never`."""

    lake_file: str
    options: "Options"
    fail_on: str = "critical"
    format: str = "text"
    status: StatusFile = field(default_factory=lambda: StatusFile(None))
    spark: bool = False
    """Use Spark even if the audit does not need it."""


def run(
    request: Request,
    lake: Lake,
    *,
    clock: Callable[[], datetime],
    progress: Progress,
    out: TextIO,
    check: Checker = check_here,
) -> CommandResult:
    """Audit the lake, print the result on `out` and keep the status file up to date.

    Raises:
        AuditError: as `audit.run.audit`; the status file then contains `failed` and the reason.
    """
    from lakeaudit.audit.plan import in_partitions, in_scope

    if not lake.finds_tables:
        in_partitions(in_scope(lake, request.options), request.options)
    clients = clients_of(lake)
    running = _running_summary(request, lake, clock())
    request.status.write(running)

    def failed_with(error: BaseException) -> AuditSummary:
        return {**running, "status": "failed", "finished_at": iso(clock()), **failure(error)}

    try:
        with at_interrupt(lambda: request.status.write(failed_with(KeyboardInterrupt()))):
            outcome = run_audit(lake, request.options, clients, clock, progress, check, at_once=request.spark)
    except BaseException as error:
        failed = failed_with(error)
        request.status.write(failed)
        if request.format == "json":
            print(json.dumps(failed), file=out)
        if isinstance(error, (CannotAudit, CannotPublish)):
            _send_alerts(request, lake, clients, clock(), progress, error=error)
        raise
    code = highest(outcome.exit_code, 1 if fails(outcome.pressing, request.fail_on) else 0)
    audited = lake.model_copy(update={"tables": outcome.tables})
    reported = request.status.is_written or request.format == "json"
    answers = _answers(audited, clients, outcome.run_id, clock()) if reported and lake.assets else {}
    unaccepted = dict(outcome.pressing)
    summary: AuditSummary = {
        **outcome.summary, "exit_code": code, "answers": answers, "unaccepted": unaccepted,
    }  # fmt: skip
    request.status.write(summary)
    verdict = _print_result(request, lake, clients, outcome.run_id, summary, clock(), out)
    unsent = _send_alerts(request, audited, clients, clock(), progress, published=outcome.status != "failed")
    return CommandResult(verdict, code, warnings=(*outcome.warnings, *unsent), run_id=outcome.run_id)


def _answers(lake: Lake, clients: Clients, run_id: str, now: datetime) -> dict[str, AuditedAnswer]:
    """Return for the tables of `airflow.assets` that this run judged whether they may be used, as in `check`."""
    from lakeaudit.commands.check import check
    from lakeaudit.results.read import Results
    from lakeaudit.results.summaries.table_answers import Demand

    results = Results(lake.results, clients, lake.name)
    answers = check(lake, results, lake.assets, Demand(lake.overdue), now)
    return {each.record.table: each.in_short() for each in answers if each.record.run_id == run_id}


def highest(*codes: int) -> int:
    """Return the exit code of a command to which several apply."""
    return next(code for code in EXIT_ORDER if code in codes)


def fails(severities: Mapping[str, int], fail_on: str) -> bool:
    """Return whether there are findings at or above `fail_on`."""
    if fail_on == "never":
        return False
    return any(severities.get(name) for name in SEVERITIES[: SEVERITIES.index(fail_on) + 1])


def as_of_time(text: str | None) -> datetime | None:
    """Parse `--as-of`, an ISO-8601 time; without a zone it is UTC.

    Raises:
        BadInput: the text is not such a time.
    """
    return None if text is None else time_option("--as-of", text)


def run_audit(
    lake: Lake,
    options: "Options",
    clients: Clients,
    clock: Callable[[], datetime],
    progress: Progress,
    check: Checker,
    *,
    at_once: bool = False,
    preview: "Preview | None" = None,
) -> "Outcome":
    """Run an audit in this process; Spark starts if there is more to read, or at once."""
    from lakeaudit.audit.run import audit
    from lakeaudit.runtime.duck import interrupts

    # Spark starts after the lease is held and everything can be reached, so that earlier failures end at once
    with interrupts(), spark_engine(lake, at_once=at_once) as engine:
        return audit(
            lake,
            options,
            engine=engine,
            clients=clients,
            clock=clock,
            progress=progress,
            check=check,
            preview=preview,
        )


def _send_alerts(
    request: Request,
    lake: Lake,
    clients: Clients,
    now: datetime,
    progress: Progress,
    *,
    published: bool = True,
    error: AuditError | None = None,
) -> tuple[str, ...]:
    """Send alerts, lineage and heartbeat; return warnings about those that were not sent."""
    if not (lake.alerts or lake.heartbeat_url_env or lake.openlineage_url_env or lake.prometheus_textfile):
        return ()
    from lakeaudit.commands.alert import FailedRun, after_audit

    failed = FailedRun(request.options.run_id or "", error) if error else None
    with progress.stage("alert"):
        return after_audit(lake, request.lake_file, clients, now, published=published, failed=failed)


def _print_result(
    request: Request,
    lake: Lake,
    clients: Clients,
    run_id: str,
    summary: AuditSummary,
    now: datetime,
    out: TextIO,
) -> str:
    """Print the published result, which is read back from the result tables; return the verdict."""
    from lakeaudit.explain import text_output
    from lakeaudit.report.gather import gather
    from lakeaudit.results.read import Results

    results = Results(lake.results, clients, lake.name)
    names = [table.name for table in lake.tables]
    page = gather(results, results.run(run_id), request.lake_file, now, WORST_SHOWN, names, drawn=False)
    if request.format == "json":
        print(json.dumps(summary, default=iso), file=out)
    else:
        text_output.audit(console_on(out), page)
    return text_output.verdict_line(page)


def _running_summary(request: Request, lake: Lake, now: datetime) -> AuditSummary:
    """Return the summary object of an audit that has just started."""
    options = request.options
    return {
        "run_id": options.run_id,
        "lake": lake.name,
        "status": "running",
        "as_of": iso(options.as_of or now),
        "started_at": iso(now),
        "finished_at": None,
        "tables": {},
        "sources": [],
        "coverage": {},
        "findings": {},
        "severities": {},
        "states": {},
        "coverage_lost": 0,
        "exit_code": None,
        "error": None,
        "retry": None,
        "answers": {},
        "unaccepted": {},
    }

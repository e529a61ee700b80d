"""`lakeaudit audit`: one audit with its session, its status file, what is printed and the exit code."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from lakeaudit.commands.on_spark import spark_engine
from lakeaudit.commands.status import StatusFile, failure
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.formatting import in_utc, iso
from lakeaudit.kinds import SEVERITIES
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.endpoints import clients_of
from lakeaudit.runtime.interrupt import at_interrupt
from lakeaudit.runtime.java import under_submit
from lakeaudit.runtime.progress import Progress

if TYPE_CHECKING:
    from lakeaudit.audit.outcome import Outcome
    from lakeaudit.audit.plan import Options

EXIT_ORDER = (2, 70, 14, 13, 12, 11, 10, 1, 3, 0)
"""Of all codes that apply, the first of these is the command's."""

WORST_SHOWN = 50


@dataclass(frozen=True)
class Told:
    """What is left to say after an audit: what the sources warn of, the verdict's line and the exit code."""

    warnings: tuple[str, ...]
    verdict: str
    exit_code: int


@dataclass(frozen=True)
class Request:
    """What was typed. `fail_on` is a severity or `never`."""

    lake_file: str
    options: "Options"
    fail_on: str = "critical"
    format: str = "text"
    status: StatusFile = field(default_factory=lambda: StatusFile(None))
    spark: bool = False
    """Spark even where the audit could do without."""


def run(
    request: Request, lake: Lake, *, clock: Callable[[], datetime], progress: Progress, out: TextIO
) -> Told:
    """Audit the lake, print the result on `out` and keep the status file true to the last.

    Raises:
        AuditError: as `audit.run.audit`; the status file then says failed, and why.
    """
    from lakeaudit.audit.plan import in_partitions, in_scope

    if not lake.finds_tables:
        in_partitions(in_scope(lake, request.options), request.options)
    clients = clients_of(lake)
    begun = _unfinished(request, lake, clock())
    request.status.write(begun)
    ended: Callable[[BaseException], dict[str, Any]] = lambda error: (  # noqa: E731
        begun | {"status": "failed", "finished_at": iso(clock())} | failure(error)
    )
    try:
        with at_interrupt(lambda: request.status.write(ended(KeyboardInterrupt()))):
            outcome = _audited(request, lake, clients, clock, progress)
    except BaseException as error:
        failed = ended(error)
        request.status.write(failed)
        if request.format == "json":
            print(json.dumps(failed), file=out)
        if isinstance(error, CannotAudit):
            _told(request, lake, clients, clock(), progress, published=False)
        raise
    code = highest(outcome.exit_code, 1 if fails(outcome.pressing, request.fail_on) else 0)
    summary = outcome.summary | {"exit_code": code}
    request.status.write(summary)
    verdict = _printed(request, lake, clients, outcome.run_id, summary, clock(), out)
    found = lake.model_copy(update={"tables": outcome.tables})
    untold = _told(request, found, clients, clock(), progress, published=outcome.status != "failed")
    return Told((*outcome.warnings, *untold), verdict, code)


def highest(*codes: int) -> int:
    """The exit code of a command to which several apply."""
    return next(code for code in EXIT_ORDER if code in codes)


def fails(severities: Mapping[str, int], fail_on: str) -> bool:
    """Whether there are findings at or above `fail_on`."""
    if fail_on == "never":
        return False
    return any(severities.get(name) for name in SEVERITIES[: SEVERITIES.index(fail_on) + 1])


def as_of_time(text: str | None) -> datetime | None:
    """`--as-of`: an ISO-8601 time; without a zone it is UTC.

    Raises:
        BadInput: it is no such time.
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"--as-of {text}", "is no time", "write 2026-11-21T08:00:00Z") from None
    return in_utc(at)


def _audited(
    request: Request, lake: Lake, clients: Clients, clock: Callable[[], datetime], progress: Progress
) -> "Outcome":
    """A live audit of a small scope needs no JVM; one that proves to be larger begins again on Spark."""
    from lakeaudit.audit.run import audit, new_run_id
    from lakeaudit.engine.local import InProcessEngine, TooMuchError
    from lakeaudit.runtime.duck import interrupts

    run_id = request.options.run_id or new_run_id(clock())
    options = replace(request.options, run_id=run_id)
    run = partial(audit, lake, options, clients=clients, clock=clock, progress=progress)
    with interrupts():
        if options.live and not request.spark and not under_submit():
            with suppress(TooMuchError):
                return run(engine=InProcessEngine(limit=ROWS_IN_PROCESS))
        # Spark starts once the lease is held and all can be reached: whatever ends an audit before ends it at once
        with spark_engine(lake) as engine:
            return run(engine=engine)


ROWS_IN_PROCESS = 300_000
"""Rows of evidence that a live audit takes without Spark: about 100,000 claimed files."""


def _told(
    request: Request, lake: Lake, clients: Clients, now: datetime, progress: Progress, *, published: bool
) -> tuple[str, ...]:
    """Tell people; warnings of what could not be told."""
    if not (lake.alerts or lake.heartbeat_url_env or lake.openlineage_url_env or lake.prometheus_textfile):
        return ()
    from lakeaudit.commands.alert import after_audit

    with progress.stage("alert"):
        return after_audit(lake, request.lake_file, clients, now, published=published)


def _printed(
    request: Request,
    lake: Lake,
    clients: Clients,
    run_id: str,
    summary: Mapping[str, Any],
    now: datetime,
    out: TextIO,
) -> str:
    """Print what was asked for; the verdict's line. Both are of what was published, read back."""
    from rich.console import Console

    from lakeaudit.explain import text_output
    from lakeaudit.report.gather import gather
    from lakeaudit.results.read import Results

    results = Results(lake.results, clients, lake.name)
    names = [table.name for table in lake.tables]
    page = gather(results, results.run(run_id), request.lake_file, now, WORST_SHOWN, names, drawn=False)
    if request.format == "json":
        print(json.dumps(summary, default=iso), file=out)
    else:
        text_output.audit(Console(file=out, highlight=False), page)
    return text_output.verdict_line(page)


def _unfinished(request: Request, lake: Lake, now: datetime) -> dict[str, Any]:
    """The summary object while there is nothing to say yet."""
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
        "exit_code": None,
        "error": None,
        "retry": None,
    }

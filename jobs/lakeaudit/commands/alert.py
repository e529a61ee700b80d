"""Send the alerts that are due: for `lakeaudit alert`, and at the end of an audit."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from socket import gethostname
from time import sleep
from typing import TYPE_CHECKING

from lakeaudit.advice.command_place import absolute_lake_file
from lakeaudit.alerts.deliver import CannotDeliver, ping, post
from lakeaudit.alerts.dispatch import Round, round_of
from lakeaudit.alerts.notice_rows import AlertContext
from lakeaudit.alerts.unrecorded import send_unrecorded
from lakeaudit.config import Lake
from lakeaudit.errors import AuditError, Busy, CannotPublish
from lakeaudit.formatting import number
from lakeaudit.ledger.lease import LONGEST_BRIEF, ledger_lease_when_free
from lakeaudit.results.read import PUBLISHED, Results
from lakeaudit.results.summaries.last_judged import tables_with_lost_coverage
from lakeaudit.results.summaries.scheduled_runs import without_live_audits
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.extras import install_hint
from lakeaudit.runtime.progress import SilentProgress

if TYPE_CHECKING:
    from lakeaudit.commands.alert_test import Delivery


def send(
    lake: Lake,
    lake_file: str,
    clients: Clients,
    now: datetime,
    *,
    patience: float = 0.0,
    pause: Callable[[float], None] = sleep,
) -> Round:
    """Send the due messages under the ledger lease: two rounds at once would send each message twice.

    With `patience`, wait up to so many seconds for the lease.

    Raises:
        Busy: another round runs, or an audit publishes and sends the due messages afterwards.
        AuditError: the results cannot be read or written.
    """
    results = Results(lake.results, clients, lake.name)
    with ledger_lease_when_free(
        lake.results, clients, "alert", SilentProgress(), pause=pause, longest=patience
    ) as still_ours:
        sent = round_of(_context(lake, lake_file, results.leased_by(still_ours), clients, now))
    return replace(sent, failures=(*sent.failures, *_write_metrics(lake, results.again(), now)))


def try_routes(
    lake: Lake, lake_file: str, clients: Clients, now: datetime, only: str | None
) -> "list[Delivery]":
    """Send an example through the routes, see `alert_test.try_routes`."""
    from lakeaudit.commands import alert_test

    results = Results(lake.results, clients, lake.name)
    return alert_test.try_routes(_context(lake, lake_file, results, clients, now), only)


def _context(lake: Lake, lake_file: str, results: Results, clients: Clients, now: datetime) -> AlertContext:
    """Return the context of messages, whose commands name the lake file by its whole path and the machine."""
    path, is_here = absolute_lake_file(lake_file), "://" not in lake_file
    footer = f"Run commands on {gethostname()}, where the lake file has this path" if is_here else ""
    return AlertContext(lake, path, results, clients, os.environ, now, footer)


def _write_metrics(lake: Lake, results: Results, now: datetime) -> tuple[str, ...]:
    if lake.prometheus_textfile is None:
        return ()
    try:
        from lakeaudit.alerts.metrics import write_metrics

        write_metrics(results, lake, Path(lake.prometheus_textfile), now)
    except OSError as error:
        return (f"prometheus_textfile: {lake.prometheus_textfile} cannot be written ({error.strerror})",)
    except ModuleNotFoundError as error:
        return (f"prometheus_textfile: {error.name} is not installed ({install_hint('alerts')})",)
    return ()


def verdict(sent: Round, lake: Lake) -> str:
    """Return the last line of the command."""
    messages = f"{number(sent.sent, 'message')} sent" if lake.alerts else NO_RECEIVER
    return messages + (f"; not sent: {'; '.join(sent.failures)}" if sent.failures else "")


NO_RECEIVER = "no alert was sent: the lake file names no receiver; add `alerts` to it"


@dataclass(frozen=True)
class FailedRun:
    """An audit that ended with an error: its id and the error."""

    run_id: str
    error: AuditError


def after_audit(
    lake: Lake,
    lake_file: str,
    clients: Clients,
    now: datetime,
    *,
    published: bool = True,
    failed: FailedRun | None = None,
    pause: Callable[[float], None] = sleep,
) -> tuple[str, ...]:
    """Send the alerts of the audit that has just ended, and if it was published its lineage and the heartbeat.

    A failure does not change the outcome of the audit: the next `lakeaudit alert` tries again. If the audit `failed`
    because its results cannot be read or written, a message is sent without them.

    Returns:
        Warnings about messages that were not sent.
    """
    unusable: AuditError | None = failed.error if failed and isinstance(failed.error, CannotPublish) else None
    try:
        # `follow` may hold the lease without a message to send, so that nobody else would send those of the audit
        sent = send(lake, lake_file, clients, now, patience=LONGEST_BRIEF, pause=pause)
        failures = sent.failures
    except Busy:
        failures = ()
    except AuditError as error:
        failures, unusable = (str(error),), error
    if failed and unusable:
        context = _context(lake, lake_file, Results(lake.results, clients, lake.name), clients, now)
        failures = (*failures, *send_unrecorded(context, failed.run_id, str(unusable)))
    unsent = tuple(f"alert not sent: {failure}" for failure in failures)
    if failed or not published:
        return unsent
    return (*unsent, *_send_lineage(lake, clients), *_send_heartbeat(lake, clients, now))


def _send_lineage(lake: Lake, clients: Clients) -> tuple[str, ...]:
    if lake.openlineage_url_env is None:
        return ()
    from lakeaudit.alerts.lineage import events

    results = Results(lake.results, clients, lake.name)
    places = {table.name: table.location for table in lake.tables}
    sent, due = 0, []
    try:
        due = events(results, places, lake.dashboard_url, of_tables=lake.openlineage_tables)
        for event in due:
            post(lake.openlineage_url_env, os.environ, event)
            sent += 1
    except (CannotDeliver, AuditError) as error:  # a collector that does not answer once is not asked again
        part = f" ({sent} of {len(due)} events were sent)" if sent else ""
        return (f"lineage not sent: {error}{part}",)
    return ()


def _send_heartbeat(lake: Lake, clients: Clients, now: datetime) -> tuple[str, ...]:
    """Signal that the audit was published and lacks no coverage that earlier audits had; return warnings.

    A live audit of some tables sends no signal: it would hide that the audit of the lake does not run.
    """
    if lake.heartbeat_url_env is None:
        return ()
    try:
        results = Results(lake.results, clients, lake.name)
        published = [run for run in results.runs() if run["status"] in PUBLISHED]
        if published and published[-1] not in without_live_audits(published, lake):
            return ()
        lost = tables_with_lost_coverage(results, now)
        if lost:
            return (f"no heartbeat was sent, because coverage is lost in {number(len(lost), 'table')}",)
        ping(lake.heartbeat_url_env, os.environ)
    except (CannotDeliver, AuditError) as error:
        return (f"heartbeat not sent: {error}",)
    return ()

"""`lakeaudit alert`: send what is due; and the same at the end of an audit."""

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lakeaudit.alerts.deliver import CannotDeliver, ping, post_all
from lakeaudit.alerts.dispatch import AlertContext, Round, round_of
from lakeaudit.config import Lake
from lakeaudit.errors import AuditError, Busy
from lakeaudit.formatting import number
from lakeaudit.ledger.lease import leased
from lakeaudit.results.read import Results
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.progress import SilentProgress


def send(lake: Lake, lake_file: str, clients: Clients, now: datetime) -> Round:
    """One round, with the lease of the results: two at once would tell everything twice.

    Raises:
        Busy: an audit or another round is at work; what is due is sent at its end.
        AuditError: the results cannot be read or written.
    """
    results = Results(lake.results, clients, lake.name)
    with leased(lake.results, clients, "alert", SilentProgress()) as still_ours:
        done = round_of(
            AlertContext(lake, lake_file, results.leased_by(still_ours), clients, os.environ, now)
        )
    return replace(done, failures=(*done.failures, *_measured(lake, results.again(), now)))


def _measured(lake: Lake, results: Results, now: datetime) -> tuple[str, ...]:
    if lake.prometheus_textfile is None:
        return ()
    from lakeaudit.alerts.metrics import write_metrics

    try:
        write_metrics(results, _table_names(lake, results), Path(lake.prometheus_textfile), now)
    except OSError as error:
        return (f"prometheus_textfile: {lake.prometheus_textfile} cannot be written ({error.strerror})",)
    return ()


def _table_names(lake: Lake, results: Results) -> list[str]:
    """Those that the lake file names, and those that the last audit found."""
    last = results.last_published() if lake.finds_tables else None
    found = [row["table_name"] for row in results.coverage(last["run_id"])] if last else []
    return list(dict.fromkeys([*(table.name for table in lake.tables), *found]))


def said(done: Round, lake: Lake) -> str:
    """The verdict's line."""
    sent = f"{number(done.sent, 'message')} sent" if lake.alerts else NOBODY
    failed = f"; not sent: {'; '.join(done.failures)}" if done.failures else ""
    return f"{sent}{failed}"


NOBODY = "no receiver is named, so nobody is told: add `alerts` to the lake file"


def after_audit(
    lake: Lake, lake_file: str, clients: Clients, now: datetime, *, published: bool = True
) -> tuple[str, ...]:
    """Tell of the audit that has just ended, and beat the heart if it was published; what could not be told.

    What goes wrong here changes nothing of the audit: the next `lakeaudit alert` tries again.
    """
    try:
        failures = send(lake, lake_file, clients, now).failures
    except Busy:
        failures = ()
    except AuditError as error:
        failures = (str(error),)
    untold = tuple(f"alert not sent: {failure}" for failure in failures)
    return (*untold, *_lineage(lake, clients), *_beat(lake)) if published else untold


def _lineage(lake: Lake, clients: Clients) -> tuple[str, ...]:
    if lake.openlineage_url_env is None:
        return ()
    from lakeaudit.alerts.lineage import events

    results = Results(lake.results, clients, lake.name)
    try:
        told = events(results, {table.name: table.location for table in lake.tables})
        post_all(lake.openlineage_url_env, os.environ, told)
    except (CannotDeliver, AuditError) as error:
        return (f"lineage not sent: {error}",)
    return ()


def _beat(lake: Lake) -> tuple[str, ...]:
    if lake.heartbeat_url_env is None:
        return ()
    try:
        ping(lake.heartbeat_url_env, os.environ)
    except CannotDeliver as error:
        return (f"heartbeat not sent: {error}",)
    return ()

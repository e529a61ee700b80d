"""Writes the state of a lake as a file for the textfile collector of Prometheus's node exporter."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Enum, Gauge, write_to_textfile

from lakeaudit.kinds import SEVERITIES
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.summaries.change_summary import open_now

STATUSES = tuple(dict.fromkeys((*PUBLISHED, "suspect", "failed")))
"""Possible final states of an audit."""


def write_metrics(results: Results, tables: Sequence[str], path: Path, now: datetime) -> None:
    """Replace the file atomically; it is world-readable, as node exporter requires.

    Raises:
        OSError: the file cannot be written.
        CannotAudit: the results cannot be read.
    """
    registry = CollectorRegistry()
    finished = [run for run in results.runs() if run["finished_at"] is not None]
    if finished:
        _runs(registry, results, finished)
        _open(registry, results, tables, now)
    write_to_textfile(str(path), registry)


def _runs(registry: CollectorRegistry, results: Results, finished: Sequence[Row]) -> None:
    lake, last = results.lake, finished[-1]
    at = Gauge(
        "lakeaudit_last_run_timestamp_seconds", "When the last audit ended.", ["lake"], registry=registry
    )
    at.labels(lake).set(last["finished_at"].timestamp())
    status = Enum(
        "lakeaudit_last_run", "How the last audit ended.", ["lake"], states=list(STATUSES), registry=registry
    )
    status.labels(lake).state(last["status"])
    published = results.last_published()
    if published is None:
        return
    at = Gauge(
        "lakeaudit_last_published_timestamp_seconds",
        "When the last audit was published.",
        ["lake"],
        registry=registry,
    )
    at.labels(lake).set(published["finished_at"].timestamp())
    share = Gauge(
        "lakeaudit_decided_share", "Files of an axis that the last published audit could decide on, of all.",
        ["lake", "table", "axis"], registry=registry,
    )  # fmt: skip
    for row in results.coverage(published["run_id"]):
        if row["decided_share"] is not None:
            share.labels(lake, row["table_name"], row["axis"]).set(row["decided_share"])


def _open(registry: CollectorRegistry, results: Results, tables: Sequence[str], now: datetime) -> None:
    """Set a number for every table and severity, even 0, since alarms ignore a metric that disappears."""
    gauge = Gauge(
        "lakeaudit_open_discrepancies", "Open and not accepted; without a table: about evidence.",
        ["lake", "table", "severity"], registry=registry,
    )  # fmt: skip
    by_table = open_now(results, now)
    for table in dict.fromkeys([*tables, "", *(name or "" for name in by_table)]):
        for severity in SEVERITIES:
            gauge.labels(results.lake, table, severity).set(by_table.get(table or None, {}).get(severity, 0))

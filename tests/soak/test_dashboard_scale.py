"""Every page's questions over a ledger of a million rows and a run of 300,000 findings: each page under two seconds.

`LAKEAUDIT_SOAK_LEDGER` sets another number of rows.
"""

import os
import resource
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakeaudit.config import load_lake
from lakeaudit.dashboard.queries import runs as of_runs
from lakeaudit.dashboard.queries import subject as of_subject
from lakeaudit.dashboard.queries import table as of_table
from lakeaudit.dashboard.queries.history import Period, days_in, kind_times
from lakeaudit.dashboard.queries.lake import lake_days, lake_figures
from lakeaudit.dashboard.queries.table import PAGE_ROWS, ListFilter
from lakeaudit.dashboard.queries.timeline import timeline
from lakeaudit.dashboard.queries.worst import worst_discrepancies
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.trends import changes
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.manyrows import PARTITIONS, TABLES, lay
from tests.builders.results import LAKE, NOON, lake_file

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

ROWS = int(os.environ.get("LAKEAUDIT_SOAK_LEDGER", "1000000"))
FINDINGS = ROWS * 3 // 10
BOUND = 2.0
"""Seconds a page may take, asked for the first time."""


def table_page(results: Results, table: str) -> of_table.Listed:
    of_table.broken(results, table, NOON)
    found = of_table.partitions(results, table, NOON)
    assert len(found.shown) == PARTITIONS
    of_table.commits(results, table, NOON)
    told = of_table.changes(changes(results), table)
    period = Period(NOON.date() - timedelta(days=365), NOON.date())
    assert days_in(results, table, told, period)
    assert kind_times(results, table, period)
    timeline(results, table, NOON, told)
    return of_table.listed(results, table, ListFilter(), NOON, 1)


def a_file(results: Results, discrepancy_id: str) -> of_subject.Subject:
    asked = of_subject.row_of(results, discrepancy_id)
    assert asked is not None
    return of_subject.subject_of(results, asked)


def test_a_million_rows_stay_under_two_seconds_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Location.parse(str(tmp_path / "results"))
    lay(place, ROWS, FINDINGS)
    lake = load_lake(lake_file(tmp_path, place), {})
    results = Results(place, Clients(), LAKE)
    first = lake_figures(results, lake, NOON)
    assert {health.level for health in first.tables if health.table in TABLES} == {"critical"}
    assert sum(first.totals.number(of) for of in ("open", "accepted", "pending")) > ROWS // 2
    listed = table_page(results, TABLES[0])
    assert len(listed.rows) == PAGE_ROWS
    some = listed.rows[0]["discrepancy_id"]
    like = ListFilter(like="0ab", partition=f"region=eu/dt={NOON.date()}")
    pages: dict[str, Callable[[], object]] = {
        "the lake": lambda: (lake_figures(results.again(), lake, NOON), lake_days(results.again(), NOON)),
        "a table": lambda: table_page(results.again(), TABLES[1]),
        "its list, narrowed down": lambda: of_table.listed(results, TABLES[1], like, NOON, 1),
        "its list, page 100": lambda: of_table.listed(results, TABLES[1], ListFilter(), NOON, 100),
        "a file": lambda: a_file(results.again(), some),
        "the worst, without a file": lambda: worst_discrepancies(results.again(), NOON),
        "a part of a name": lambda: worst_discrepancies(results.again(), NOON, "0ab"),
        "a run": lambda: of_runs.run_figures(results.again(), "r1"),
    }
    seconds = {name: _timed(page) for name, page in pages.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with capsys.disabled():
        print(f"\n{ROWS} rows, {FINDINGS} findings: {seconds}, peak RSS {peak:.0f} MiB")  # noqa: T201 - the figures
    assert {name: taken for name, taken in seconds.items() if taken > BOUND} == {}


def _timed(page: Callable[[], object]) -> float:
    begun = time.monotonic()
    page()
    return round(time.monotonic() - begun, 2)

"""Complete audits, in this process or on a Spark session, and their published results."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeaudit.audit.outcome import Outcome
from lakeaudit.audit.plan import Options
from lakeaudit.audit.run import audit
from lakeaudit.config import Lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.engine.spark import SparkEngine
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import Progress, SilentProgress
from lakeaudit.schemas import rows_of
from tests.builders.spilling import SharingEngine


def _now() -> datetime:
    return datetime.now(UTC)


def audited(
    lake: Lake,
    spark: SparkSession | None = None,
    *,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = _now,
    pause: Callable[[float], None] = time.sleep,
    shares: int = 0,
    **options: Any,
) -> Outcome:
    """One audit, in this process where no session is given; `options` are those of `audit.plan.Options`.

    On a session all of it runs in Spark's own tasks, however little there is to do. With `shares`, all rows of this
    process wait in files.
    """
    here = SharingEngine(shares) if shares else InProcessEngine()
    with closing(here if spark is None else SparkEngine(lambda: spark, bytes_here=0)) as engine:
        return audit(
            lake, Options(**options), engine=engine, clients=clients_of(lake), clock=clock,
            progress=progress or SilentProgress(), pause=pause,
        )  # fmt: skip


def includes_soak(request: pytest.FixtureRequest) -> bool:
    """Whether long tests of this file were selected: its lake then needs their tables as well."""
    items = (item for item in request.session.items if item.path == request.path)
    return any(item.get_closest_marker("soak") for item in items)


def findings_by_table(lake: Lake, run_id: str, tables: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Findings above info of one run; a table without any has an empty list."""
    by_table: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    for row in rows_of(results_of(lake).findings(run_id)):
        if row["severity"] != "info":
            by_table[row["table_name"]].append(row)
    return by_table


def leftover_status(lake: Lake, run_id: str) -> dict[str, str]:
    """By table the status of its axis `leftover`."""
    rows = results_of(lake).coverage(run_id)
    return {row["table_name"]: row["status"] for row in rows if row["axis"] == "leftover"}


def results_of(lake: Lake) -> Results:
    return Results(lake.results, clients_of(lake), lake.name)

"""Whole audits in the tests' own session, and what they published."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from lakeaudit.config import Lake
from lakeaudit.pipeline.audit import Options, audit
from lakeaudit.pipeline.run_outcome import Outcome
from lakeaudit.results.read import Results
from lakeaudit.runtime.endpoints import clients_of
from lakeaudit.runtime.progress import Progress, SilentProgress


def _now() -> datetime:
    return datetime.now(UTC)


def audited(
    spark: SparkSession,
    lake: Lake,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = _now,
    **options: Any,
) -> Outcome:
    """One audit; `options` are those of `run.Options`."""
    return audit(
        lake, Options(**options), spark=spark, clients=clients_of(lake), clock=clock,
        progress=progress or SilentProgress(),
    )  # fmt: skip


def results_of(lake: Lake) -> Results:
    return Results(lake.results, clients_of(lake), lake.name)

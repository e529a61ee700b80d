"""A list of findings, without results in storage."""

from collections.abc import Iterable
from typing import Any

from lakeaudit.explain.formats.listing import Listing
from lakeaudit.schemas import COVERAGE, FINDINGS, RUNS
from tests.builders.results import NOON, covered, run

Row = dict[str, Any]
HEALTHY = [covered()]


def listing(coverage: Iterable[Row] = HEALTHY, tables: Iterable[str] = (), **given: Any) -> Listing:
    """A list of findings of a run with this coverage; `tables` are those of the lake file."""
    rows = [dict.fromkeys(COVERAGE.names) | row for row in coverage]
    about: dict[str, Any] = {
        "name": "findings", "columns": FINDINGS.names, "show": lambda console, row: console.print(row["kind"]),
        "summary": lambda n: f"{n} findings of run r1", "command": "lakeaudit findings lake.yaml",
        "run": dict.fromkeys(RUNS.names) | run(), "coverage": lambda: rows,
        "locations": {name: f"s3://lake/{name}" for name in tables}, "doubts": (), "lake_file": "lake.yaml",
        "now": NOON,
    }  # fmt: skip
    return Listing(**about | given)

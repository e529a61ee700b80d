"""One lake audited in this process and on a Spark session, each with results of its own, which must be equal rows.

In this process the rows wait in files, as those of a large lake do.
"""

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.keys import Location
from tests.builders.audits import audited

COMPARED = ("runs", "coverage", "leftover_files", "commits", "findings", "transitions", "discrepancies")
WHEN_READ = {
    *("seconds", "finished_at", "cut_from", "cut_to", "storage_cut_from", "storage_cut_to"),
    *("first_seen_at", "last_evidence_at"),
}
"""Columns of when a source was read, or how long it took; the clock of both audits is the same."""
LOOKED_NOW = "; storage as of"
"""The text in an explanation that is followed by the time of the live check."""


def audited_both_ways(lake: Lake, spark: SparkSession, **options: Any) -> Outcome:
    """The outcome of the audit in this process, whose results are the lake's, once Spark's have proved equal."""
    began = datetime.now(UTC)
    given: dict[str, Any] = {"run_id": f"{began:%H%M%S%f}", "clock": lambda: began} | options
    here = audited(lake, shares=3, **given)
    there = audited(on_spark(lake), spark, **given)
    assert (here.status, here.exit_code, here.pressing) == (there.status, there.exit_code, there.pressing)
    assert here.summary["findings"] == there.summary["findings"]
    assert_equal_results(lake, on_spark(lake))
    return here


def on_spark(lake: Lake) -> Lake:
    """The same lake, whose results lie beside those of the audits in this process."""
    place = Location(lake.results.bucket, f"{lake.results.key}-spark")
    return lake.model_copy(update={"results": place})


def assert_equal_results(here: Lake, there: Lake) -> None:
    """Every row of every table; a failure shows only those that differ."""
    for name in COMPARED:
        one, other = (_rows(Path(lake.results.spark_path) / name) for lake in (here, there))
        assert one == other, f"{name}: of this process {_first(one - other)}, of Spark {_first(other - one)}"


def _first(rows: Counter[str]) -> str:
    return f"alone {rows.total()}, as {min(rows, default='')}"


def _rows(table: Path) -> Counter[str]:
    if not table.exists():
        return Counter()
    return Counter(_text(row) for row in DeltaTable(str(table)).to_pyarrow_table().to_pylist())


def _text(row: dict[str, Any]) -> str:
    kept = {name: value for name, value in row.items() if name not in WHEN_READ}
    if kept.get("explanation"):
        kept["explanation"] = kept["explanation"].partition(LOOKED_NOW)[0]
    if kept.get("sources"):
        kept["sources"] = [_untimed(source) for source in kept["sources"]]
    return repr(sorted(kept.items()))


def _untimed(source: dict[str, Any]) -> dict[str, Any]:
    """A live source's identity holds the time at which it was read."""
    kept = {name: value for name, value in source.items() if name not in WHEN_READ}
    return kept | {"identity": re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+", "", source["identity"])}

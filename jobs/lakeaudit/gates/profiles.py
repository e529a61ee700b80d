"""Profiles: what the gates look at, a few rows each, from what a run has at hand anyway.

Every row has a `subject`; a column that does not concern it is None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.config import Lake, S3Inventory
from lakeaudit.evidence.protocol import SourceInfo
from lakeaudit.kinds import KINDS
from lakeaudit.results.read import PUBLISHED, Row

RUNS_BEFORE = 5
"""Published runs whose median a source's rows are held against."""

UNREADABLE = "unreadable"
_SAME_SOURCE = ("role", "kind", "location")


def of_sources(
    lake: Lake,
    infos: Sequence[SourceInfo],
    counts: Mapping[str, Mapping[str, Any]],
    coverage: Sequence[Row],
    runs: Sequence[Row],
    as_of: datetime,
) -> list[Row]:
    """A row per source (readable, age_of_max, unreadable_share, share_of_before), and one per table (covered)."""
    ages = {
        source.location.uri: source.max_age for source in lake.inventories if isinstance(source, S3Inventory)
    }
    before = _of_the_whole_lake(lake, coverage, runs)
    sources = [_source(info, counts.get(info.id, {}), ages, before, as_of) for info in infos]
    tables = [
        {"subject": row["table_name"], "covered": row["storage_cut_from"] is not None}
        for row in coverage
        if row["axis"] == "content" and row["status"] in ("complete", "partial")
    ]
    return [*sources, *tables]


def _of_the_whole_lake(lake: Lake, coverage: Sequence[Row], runs: Sequence[Row]) -> Sequence[Row]:
    """The last published runs over all tables, if this is one: what was read for some is no measure for others."""
    if len({row["table_name"] for row in coverage}) < len(lake.tables):
        return ()
    whole = [run for run in runs if run["status"] in PUBLISHED and run["tables_expected"] == len(lake.tables)]
    return whole[-RUNS_BEFORE:]


def _source(
    info: SourceInfo, counts: Mapping[str, Any], ages: Mapping[str, Any], runs: Sequence[Row], as_of: datetime
) -> Row:
    rows, rejected = counts.get("rows", info.rows), counts.get("rejected", info.rejected)
    before = [
        source["rows"]
        for run in runs
        for source in run["sources"] or ()
        if source["rows"] and all(source[name] == getattr(info, name) for name in _SAME_SOURCE)
    ]
    max_age = ages.get(info.location)
    return {
        "subject": f"{info.kind} {info.location}",
        "readable": info.identity != UNREADABLE,
        "age_of_max": (as_of - info.cut.start) / max_age if info.cut and max_age else None,
        "unreadable_share": rejected / rows if rows and rejected is not None else None,
        "share_of_before": rows / median(before) if before and rows is not None else None,
    }


@dataclass(frozen=True)
class Tally:
    """What a run found, counted: a row per kind and severity (count, nameless), and ids that stand there again."""

    kinds: Sequence[Row]
    repeated: int


def tally(found: DataFrame) -> Tally:
    """Count FINDINGS, in one job; small: kinds x severities."""
    nameless = _number(F.col("subject").isNull()).alias("nameless")
    counted = found.rollup("kind", "severity").agg(*_total(), F.count(F.lit(1)).alias("count"), nameless)
    rows = [row.asDict() for row in counted.collect()]
    return Tally([row for row in rows if not row["level"]], _repeated(rows, _ALL_KINDS))


def of_findings(tally: Tally) -> list[Row]:
    """A row per kind and severity (kind, severity, known, unclassified, nameless), and one for all (repeated)."""
    kinds = [
        {
            "subject": f"{row['kind']}, {row['severity']}",
            **{name: row[name] for name in ("kind", "severity", "nameless")},
            "known": row["kind"] in KINDS,
            "unclassified": row["kind"] == "unclassified",
        }
        for row in tally.kinds
    ]
    return [*kinds, {"subject": "all findings", "kind": "any", "repeated": tally.repeated}]


def of_ledger(changed: DataFrame) -> list[Row]:
    """A row per state of what changed, with how many rows break each rule, and one for all (repeated)."""
    resolved, opened = F.col("state") == "resolved", F.col("opened_at").isNotNull()
    ended = F.col("resolved_at").isNotNull() & F.col("resolution").isNotNull()
    begun = F.col("resolved_at").isNull() & F.col("resolution").isNull()
    acks = [F.col(name).isNotNull().cast("int") for name in ("ack_by", "ack_reason", "ack_until")]
    wrong = {
        "ill_resolved": ~F.when(resolved, ended).otherwise(begun),
        "never_opened": (F.col("state") == "open") & ~opened,
        "backwards": F.col("last_evidence_at") < F.col("first_seen_at"),
        "ill_accepted": ~(acks[0] + acks[1] + acks[2]).isin(0, 3),
        "ill_reopened": (F.col("reopened") > 0) & ~opened,
    }
    numbers = [_number(broken).alias(name) for name, broken in wrong.items()]
    rows = [row.asDict() for row in changed.rollup("state").agg(*_total(), *numbers).collect()]
    states = [{"subject": f"state {row['state']}", **row} for row in rows if not row["level"]]
    return [
        *states,
        {"subject": "all that changed", "state": "open", "repeated": _repeated(rows, _ALL_STATES)},
    ]


_ALL_KINDS, _ALL_STATES = 3, 1
"""Spark's grouping id of the row that stands for all, by the number of columns rolled up."""


def _total() -> tuple[Column, Column]:
    repeated = F.count(F.lit(1)) - F.count_distinct("discrepancy_id")
    return F.grouping_id().alias("level"), repeated.alias("repeated")


def _number(condition: Column) -> Column:
    return F.coalesce(F.sum(F.coalesce(condition, F.lit(False)).cast("long")), F.lit(0))


def _repeated(rows: Sequence[Row], level: int) -> int:
    """Of the row that stands for all; where there is nothing, nothing is repeated."""
    return sum(row["repeated"] for row in rows if row["level"] == level)

"""Looks: how well a run looked at each axis of each table, and how far its picture reaches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeaudit.compare.ceiling import BAD, of_table
from lakeaudit.compare.coverage import METASTORE_AXES, Means
from lakeaudit.evidence.protocol import Cut
from lakeaudit.pipeline.dataframes import small

SOURCE = "source"
"""The axis of findings about a source at large, which belong to no table."""
RECHECKED = ("content", "metastore")
"""Axes whose open files are looked at live by every run, each with a verdict of its own."""

_SCHEMA = (
    "table_name string, axis string, a_audited boolean, a_complete boolean, a_off boolean, "
    "a_evidence_at timestamp, a_edge timestamp"
)


@dataclass(frozen=True)
class Look:
    """One axis of one table: its status in coverage, and of when the picture is; `bad` evidence says nothing at all.

    What happened before `edge` is in the picture for certain; null where there was no picture. `unsure` files had no
    verdict: where a finding is about many files (a group of leftovers, copies), it may be hidden among them.
    """

    table: str
    axis: str
    status: str
    at: datetime
    edge: datetime | None
    unsure: int = 0

    @property
    def complete(self) -> bool:
        """Whether what was not found is not there: of single files their own verdicts say it."""
        return self.status == "complete" and (self.axis in RECHECKED or not self.unsure)


def looks(
    coverage: Sequence[Mapping[str, Any]], means: Means, as_of: datetime, *, all_sources: bool
) -> list[Look]:
    """The looks of a run; without `all_sources` nothing is said of those it did not ask."""
    of_tables = [_look(row, means, as_of) for row in coverage]
    return [*of_tables, Look("", SOURCE, "complete" if all_sources else "partial", as_of, as_of)]


def look_frame(spark: SparkSession, taken: Sequence[Look]) -> DataFrame:
    """The looks as a small frame: table_name, axis, and the `a_` columns of SETTLE."""
    rows = [
        (look.table, look.axis, look.status in ("complete", "partial"), look.complete,
         look.status == "off", look.at, look.edge)
        for look in taken
    ]  # fmt: skip
    return small(spark, rows, _SCHEMA)


def _look(row: Mapping[str, Any], means: Means, as_of: datetime) -> Look:
    cuts = list(_cuts(row["table_name"], row["axis"], means))
    trials = of_table(means.trials, row["table_name"], row["axis"])
    status = "bad" if any(trial.verdict == BAD for trial in trials) else row["status"]
    at = min((cut.start for cut in cuts), default=as_of)
    edge = min((cut.start - cut.margin for cut in cuts), default=None)
    unsure = row["undecided"] + row["uncovered"]
    return Look(row["table_name"], row["axis"], status, at, edge, unsure)


def _cuts(table: str, axis: str, means: Means) -> Iterator[Cut]:
    """The pictures that a verdict on this axis rests on: the oldest decides how much it can say."""
    if table in means.storage_cuts:
        yield means.storage_cuts[table]
    if axis in METASTORE_AXES:
        yield from means.metastore_cuts.get(table, ())

"""Coverage: per table and axis what could be judged, and what could not and why. Plain rows from small counts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare.tables import TableFacts

OUTCOMES = ("consistent", "finding", "ignored", "out_of_window", "undecided", "moved_on", "uncovered")
AXES = ("content", "metastore", "metastore_tree", "leftover", "duplicate")


@dataclass(frozen=True)
class Tally:
    """Files by outcome for one (table, axis)."""

    outcomes: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    unconfirmed: int = 0
    refuted: int = 0

    def plus(self, other: "Tally") -> "Tally":
        names = {*self.outcomes, *other.outcomes}
        outcomes = {name: self.outcomes.get(name, 0) + other.outcomes.get(name, 0) for name in names}
        return Tally(outcomes, self.bytes + other.bytes, self.unconfirmed + other.unconfirmed,
                     self.refuted + other.refuted)  # fmt: skip

    @property
    def files(self) -> int:
        return sum(self.outcomes.values())

    @property
    def decided_share(self) -> float | None:
        """(consistent + finding + ignored) / (files - out_of_window); null where that is 0."""
        judgeable = self.files - self.outcomes.get("out_of_window", 0)
        decided = sum(self.outcomes.get(name, 0) for name in ("consistent", "finding", "ignored"))
        return decided / judgeable if judgeable else None


Tallies = dict[tuple[str, str], Tally]


def count(rows: DataFrame) -> DataFrame:
    """Verdict rows of PAIR -> one row per (judged_table, axis, outcome): files, bytes, unconfirmed, refuted."""
    finding = F.col("outcome") == "finding"
    unsure = finding & F.col("l_confirmation").isin("limit", "denied", "error")
    cleared = ~finding & (F.col("l_confirmation") == "live")
    return _counted(rows, F.coalesce("s_size", "c_size"), unsure, cleared, F.lit(1))


def count_others(rows: DataFrame) -> DataFrame:
    """The same for rows (judged_table, axis, outcome, size, files) that no live check looks at."""
    return _counted(rows, F.col("size"), F.lit(False), F.lit(False), F.col("files"))


def _counted(rows: DataFrame, size: Column, unsure: Column, cleared: Column, files: Column) -> DataFrame:
    return rows.groupBy("judged_table", "axis", "outcome").agg(
        F.sum(files).alias("files"),
        F.coalesce(F.sum(size), F.lit(0)).alias("bytes"),
        F.sum(unsure.cast("long")).alias("unconfirmed"),
        F.sum(cleared.cast("long")).alias("refuted"),
    )


def tallies(counts: Iterable[Mapping[str, Any]]) -> Tallies:
    """Rows of `count` by (table, axis)."""
    found: Tallies = {}
    for row in counts:
        place = (row["judged_table"], row["axis"])
        one = Tally({row["outcome"]: row["files"]}, row["bytes"], row["unconfirmed"], row["refuted"])
        found[place] = found.get(place, Tally()).plus(one)
    return found


def together(*parts: Tallies) -> Tallies:
    """The sum of several tallies."""
    whole: Tallies = {}
    for part in parts:
        for place, tally in part.items():
            whole[place] = whole.get(place, Tally()).plus(tally)
    return whole


@dataclass(frozen=True)
class AxisState:
    """Whether an axis could be asked of a table at all, and what stood in the way."""

    status: str
    reason: str = ""


@dataclass(frozen=True)
class Means:
    """What there is to judge with: which tables storage and metastores cover, and the deciding cuts."""

    storage_cuts: Mapping[str, tuple[datetime, datetime | None]]
    metastore_tables: frozenset[str]
    holed_sources: Sequence[str] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


def axis_state(axis: str, facts: TableFacts, means: Means, tally: Tally) -> AxisState:
    """off: nothing is configured for the axis; partial: something that is configured could not be used whole."""
    name = facts.table.name
    if axis == "content" and not facts.table.manifests:
        return AxisState("off", "no manifest is configured")
    if axis in ("metastore", "metastore_tree") and name not in means.metastore_tables:
        return AxisState("off", "no metastore covers the table")
    if facts.refused and axis in ("content", "duplicate", "leftover"):
        return AxisState("partial", facts.refused)
    if name not in means.storage_cuts:
        return AxisState("partial", means.reasons.get("storage", "no storage source covers the table"))
    if facts.holes and axis in ("content", "duplicate", "leftover"):
        return AxisState("partial", facts.holes[0].reason)
    if means.holed_sources and tally.outcomes.get("undecided", 0):
        return AxisState("partial", f"holes in {', '.join(means.holed_sources)}")
    if tally.outcomes.get("uncovered", 0):
        return AxisState("partial", "some files lie where no storage source covers")
    return AxisState("complete")


def rows(
    tables: Sequence[TableFacts], tally: Tallies, means: Means, run_id: str, lake: str
) -> list[dict[str, Any]]:
    """The rows of the `coverage` table, every axis of every table in scope."""
    return [_row(facts, axis, tally, means, run_id, lake) for facts in tables for axis in AXES]


def _row(
    facts: TableFacts, axis: str, tally: Tallies, means: Means, run_id: str, lake: str
) -> dict[str, Any]:
    name = facts.table.name
    counted = tally.get((name, axis), Tally())
    state = axis_state(axis, facts, means, counted)
    cut_from, cut_to = means.storage_cuts.get(name, (None, None))
    outcome = counted.outcomes
    return {
        "run_id": run_id,
        "lake": lake,
        "table_name": name,
        "axis": axis,
        "status": state.status,
        "reason": state.reason or None,
        "table_version": facts.version,
        "storage_cut_from": cut_from,
        "storage_cut_to": cut_to,
        "history_horizon": facts.horizon,
        "files": counted.files,
        "bytes": counted.bytes,
        "consistent": outcome.get("consistent", 0),
        "findings": outcome.get("finding", 0),
        "ignored": outcome.get("ignored", 0),
        "out_of_window": outcome.get("out_of_window", 0),
        "undecided": outcome.get("undecided", 0),
        "moved_on": outcome.get("moved_on", 0),
        "uncovered": outcome.get("uncovered", 0),
        "unconfirmed": counted.unconfirmed,
        "refuted": counted.refuted,
        "decided_share": counted.decided_share,
    }

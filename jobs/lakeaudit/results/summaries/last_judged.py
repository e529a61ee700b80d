"""Reads how earlier audits judged the axes of tables, and which tables have lost coverage."""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

import pyarrow.compute as pc

from lakeaudit.judged import CONTENT, About, LastJudged, is_part, judged_share
from lakeaudit.kinds import COVERAGE_LOST
from lakeaudit.results.read import UNRESOLVED, Results, Row
from lakeaudit.results.summaries.change_summary import pressing
from lakeaudit.schemas import rows_of

MOST_RUNS = 100
"""Number of audits that are searched for the coverage of an axis."""
OLDER_RUNS = 10
"""Number of audits up to the last one that judged a table, which are searched if that is longer ago."""
MUCH = 0.5
"""Coverage is lost if an audit judges less than this part of the share that an earlier audit judged."""

_COLUMNS = (
    *("run_id", "table_name", "axis", "status", "reason", "files", "decided_share"),
    *("consistent", "findings", "ignored", "out_of_window", "undecided", "uncovered", "storage_cut_from"),
)


def last_judged(
    results: Results, runs: Sequence[Row], wanted: AbstractSet[About], last_audited: Mapping[str, datetime]
) -> dict[About, LastJudged]:
    """Return the coverage of each axis in earlier runs; missing: no run judged it as a whole.

    The last audits are searched, and those around the last one that judged the table: a gap that the lake file expects
    may last longer than a hundred audits.

    Args:
        results: the results of earlier runs.
        runs: scheduled runs, the newest first.
        wanted: tables and axes.
        last_audited: when tables were last judged.

    Raises:
        CannotAudit: the results cannot be read.
    """
    found = _coverage_in(results, runs[:MOST_RUNS], wanted)
    rest = runs[MOST_RUNS:]
    older: dict[datetime, set[About]] = {}
    for about in wanted - found.keys() if rest else ():
        if (at := last_audited.get(about[0])) is not None and at <= rest[0]["as_of"]:
            older.setdefault(at, set()).add(about)
    for at, abouts in older.items():
        begin = bisect_left(rest, -at.timestamp(), key=lambda run: -run["as_of"].timestamp())
        found |= _coverage_in(results, rest[begin : begin + OLDER_RUNS], abouts)
    return found


def _coverage_in(results: Results, runs: Sequence[Row], wanted: Collection[About]) -> dict[About, LastJudged]:
    if not runs:
        return {}
    at = {run["run_id"]: run["as_of"] for run in runs}
    axes, tables = {axis for _, axis in wanted}, {table for table, _ in wanted}
    condition = pc.field("run_id").isin([*at]) & pc.field("axis").isin([*axes])
    condition &= pc.field("table_name").isin([*tables])
    found: dict[About, list[LastJudged]] = {}
    for row in rows_of(results.batches("coverage", condition, _COLUMNS, rows=1 << 16)):
        about, share = (row["table_name"], row["axis"]), judged_share(row)
        if share and about in wanted and not is_part(row["reason"] or ""):
            known = LastJudged(at[row["run_id"]], share, row["files"], row["storage_cut_from"])
            found.setdefault(about, []).append(known)
    return {about: _best(known) for about, known in found.items()}


def _best(known: Sequence[LastJudged]) -> LastJudged:
    share = max(each.share for each in known)
    last = max((each for each in known if each.share >= share * MUCH), key=lambda each: each.at)
    return replace(last, share=share)


def judged_tables(results: Results, run_id: str) -> set[str]:
    """Return the tables whose content a run judged.

    Raises:
        CannotAudit: the results cannot be read.
    """
    condition = (pc.field("run_id") == run_id) & (pc.field("axis") == CONTENT)
    rows = rows_of(results.batches("coverage", condition, _COLUMNS))
    return {row["table_name"] for row in rows if judged_share(row)}


def known_lost(results: Results) -> dict[str, LastJudged]:
    """Return the tables whose lost coverage is an unresolved discrepancy, since when, and their files then.

    Raises:
        CannotAudit: the results cannot be read.
    """
    condition = (pc.field("kind") == COVERAGE_LOST) & pc.field("state").isin(UNRESOLVED)
    columns = ("table_name", "cause_at", "first_seen_at", "files")
    return {
        row["table_name"]: LastJudged(row["cause_at"] or row["first_seen_at"], 1.0, row["files"])
        for row in rows_of(results.batches("discrepancies", condition, columns))
    }


def tables_with_lost_coverage(results: Results, now: datetime) -> set[str]:
    """Return the tables whose lost coverage has a severity above info and nobody has accepted.

    Raises:
        CannotAudit: the results cannot be read.
    """
    condition = pressing(now) & (pc.field("kind") == COVERAGE_LOST) & (pc.field("severity") != "info")
    return {
        row["table_name"] for row in rows_of(results.batches("discrepancies", condition, ("table_name",)))
    }

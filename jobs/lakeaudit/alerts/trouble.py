"""Decides whether trouble of audits lasts: only an audit whose scope covers that of a failed audit ends it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from lakeaudit.config import Lake
from lakeaudit.judged import is_part
from lakeaudit.results.read import Results, Row
from lakeaudit.schemas import rows_of

GOOD = ("complete", "partial")
"""States of an audit that worked."""
SAME_LAKE = 0.9
"""The part of the earlier tables that an audit of a lake with discovery has to cover: others may be dropped since."""


@dataclass(frozen=True)
class Scope:
    """The tables that a run audited as a whole, and their number; a run that was killed names none of them."""

    tables: frozenset[str]
    number: int

    def covers(self, failed: "Scope", existing: Collection[str] | None) -> bool:
        """Return whether this scope covers that of a failed run.

        Args:
            failed: the scope of the failed run.
            existing: the tables that the lake has now; None: discovery finds them.
        """
        if not failed.tables:
            return self.number >= failed.number or (bool(existing) and self.tables >= set(existing or ()))
        if existing is None:
            return len(self.tables & failed.tables) >= SAME_LAKE * len(failed.tables)
        return self.tables >= failed.tables & set(existing)


def lasts(first: Scope, later: Iterable[tuple[Scope, bool]], existing: Collection[str] | None) -> bool:
    """Return whether trouble that began with a run lasts after later runs; each has a scope and whether it worked."""
    failed = [first]
    for scope, is_good in later:
        failed = (
            [each for each in failed if not scope.covers(each, existing)] if is_good else [*failed, scope]
        )
    return bool(failed)


def lasting(
    results: Results, lake: Lake, begun: Mapping[str, str], run: Row, runs: Sequence[Row]
) -> set[str]:
    """Return the receivers whose trouble this run does not end.

    Args:
        results: the results of the lake.
        lake: its tables are those of now.
        begun: the run with which the trouble of each receiver began.
        run: a run that ended after it.
        runs: all runs, in their order.
    """
    at = {each["run_id"]: number for number, each in enumerate(runs)}
    end = at[run["run_id"]]
    # a run with a slow clock comes before the one with which the trouble began
    spans = {
        receiver: [runs[at[first]], *runs[min(at[first], end - 1) + 1 : end + 1]]
        for receiver, first in begun.items()
        if first in at and first != run["run_id"]
    }
    scopes = _scopes(results, {each["run_id"]: each for span in spans.values() for each in span})
    existing = None if lake.finds_tables else {each.name for each in (*lake.tables, *lake.watched)}
    return {
        receiver for receiver, (first, *later) in spans.items()
        if lasts(
            scopes[first["run_id"]],
            [(scopes[each["run_id"]], each["status"] in GOOD) for each in later if each["finished_at"]],
            existing,
        )
    }  # fmt: skip


def _scopes(results: Results, runs: Mapping[str, Row]) -> dict[str, Scope]:
    if not runs:
        return {}
    columns = ("run_id", "table_name", "reason")
    tables: dict[str, set[str]] = {run_id: set() for run_id in runs}
    parts: dict[str, set[str]] = {run_id: set() for run_id in runs}
    for row in rows_of(results.batches("coverage", pc.field("run_id").isin([*runs]), columns)):
        of = parts if is_part(row["reason"] or "") else tables
        of[row["run_id"]].add(row["table_name"])
    return {
        run_id: Scope(
            frozenset(tables[run_id] - parts[run_id]),
            len(tables[run_id] - parts[run_id]) if parts[run_id] else run["tables_expected"] or 0,
        )
        for run_id, run in runs.items()
    }

"""Reads a table's commits with their open discrepancies, and the times at which discrepancies changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.dashboard.queries.table import Change, of_table
from lakeaudit.kinds import rank
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask
from lakeaudit.results.summaries.lake_standing import PUBLISHED_RUNS, standing

MARKED = 200
"""Number of newest moments with a change that are marked."""


@dataclass(frozen=True)
class LoggedCommit:
    """One of the newest commits, as the last audit that read the log recorded it.

    `added` and `removed` are numbers of files, None if the log does not have them; `open` has by severity, worst first,
    the number of open discrepancies of files that it added, or of itself.
    """

    version: int | None
    commit_id: str
    at: datetime
    operation: str | None
    added: int | None
    removed: int | None
    open: Mapping[str, int]


@dataclass(frozen=True)
class Timeline:
    """Commits and changes, oldest first; `earlier` open discrepancies belong to commits before the first of these."""

    commits: tuple[LoggedCommit, ...] = ()
    changes: tuple[Change, ...] = ()
    earlier: int = 0


def timeline(results: Results, table: str, now: datetime, changed: Sequence[Change] = ()) -> Timeline:
    """Return the newest commits of a table, and the changes since the first of them.

    The result is empty if no audit recorded commits, as in older versions.
    """
    rows = _logged(results, table)
    if not rows:
        return Timeline()
    by_commit = _open(results, table, now)
    commits = tuple(
        LoggedCommit(
            row["version"], row["commit_id"], row["committed_at"], row["operation"], row["files_added"],
            row["files_removed"], by_commit.pop(row["commit_id"], {}),
        ) for row in rows
    )  # fmt: skip
    earlier = sum(sum(by.values()) for by in by_commit.values())
    since = [change for change in changed if change.at >= commits[0].at]
    return Timeline(commits, tuple(since[-MARKED:]), earlier)


def _logged(results: Results, table: str) -> list[Row]:
    """Return the commits of the published run that read the log last."""
    sql = f"""SELECT commits.* FROM commits JOIN (
            SELECT runs.run_id FROM runs WHERE {PUBLISHED_RUNS}
                AND runs.run_id IN (SELECT run_id FROM commits WHERE {of_table(table)})
            ORDER BY finished_at DESC, runs.run_id DESC LIMIT 1) last ON commits.run_id = last.run_id
        WHERE {of_table(table)} AND committed_at IS NOT NULL AND commit_id IS NOT NULL
        ORDER BY committed_at, version"""
    return ask(results, sql, "commits", "runs")


def _open(results: Results, table: str, now: datetime) -> dict[str, dict[str, int]]:
    sql = f"""SELECT commit_id, severity, count(*) AS number FROM discrepancies
        WHERE state = 'open' AND {standing(now)} = 'open' AND {of_table(table)} AND commit_id IS NOT NULL
        GROUP BY commit_id, severity"""
    numbers: dict[str, dict[str, int]] = {}
    for row in sorted(ask(results, sql, "discrepancies"), key=_worst_first):
        numbers.setdefault(row["commit_id"], {})[row["severity"]] = row["number"]
    return numbers


def _worst_first(row: Row) -> tuple[int, str]:
    return rank(row["severity"]), row["commit_id"]

"""A table's commits over time, and on them what of each is lost, and when discrepancies opened and were resolved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.dashboard.queries.table import Change, of_table
from lakeaudit.kinds import rank
from lakeaudit.results.lake_standing import PUBLISHED_RUNS, standing
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask

MARKED = 200
"""Moments with a change that are marked, the newest."""


@dataclass(frozen=True)
class LoggedCommit:
    """One of the newest commits as the last audit that read the log has seen it.

    `added` and `removed` are numbers of files, None where the log does not say; `open` has by severity, worst first,
    how many open discrepancies are about files that it added, or about itself.
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
    """Commits and changes, oldest first; `earlier` open discrepancies go back to commits before the first of these."""

    commits: tuple[LoggedCommit, ...] = ()
    changes: tuple[Change, ...] = ()
    earlier: int = 0


def timeline(results: Results, table: str, now: datetime, told: Sequence[Change] = ()) -> Timeline:
    """The newest commits of a table, and the changes since the first of them.

    Nothing where no audit has kept any commits, as those of older versions.
    """
    rows = _logged(results, table)
    if not rows:
        return Timeline()
    held = _open(results, table, now)
    commits = tuple(
        LoggedCommit(
            row["version"], row["commit_id"], row["committed_at"], row["operation"], row["files_added"],
            row["files_removed"], held.pop(row["commit_id"], {}),
        ) for row in rows
    )  # fmt: skip
    earlier = sum(sum(by.values()) for by in held.values())
    since = [change for change in told if change.at >= commits[0].at]
    return Timeline(commits, tuple(since[-MARKED:]), earlier)


def _logged(results: Results, table: str) -> list[Row]:
    """Those of the published run that read the log last; `runs` first, since a table may lack them."""
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
    found: dict[str, dict[str, int]] = {}
    for row in sorted(ask(results, sql, "discrepancies"), key=_worst_first):
        found.setdefault(row["commit_id"], {})[row["severity"]] = row["number"]
    return found


def _worst_first(row: Row) -> tuple[int, str]:
    return rank(row["severity"]), row["commit_id"]

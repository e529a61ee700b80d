"""Removes replaced and old rows of the result tables, joins small files, and removes files of old versions.

A run does this after it was published, while it still holds the lease. A step that fails is a warning of the run, and
the next run tries again. Nothing is written where there is nothing to do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow.compute as pc

from lakeaudit.errors import one_line
from lakeaudit.results import delta_files
from lakeaudit.results.delta_writer import texts
from lakeaudit.results.read import PUBLISHED
from lakeaudit.results.sql import moment
from lakeaudit.results.write import ResultsWriter
from lakeaudit.runtime.progress import Progress
from lakeaudit.schemas import RESULTS

READABLE_FOR = timedelta(days=7)
"""How long files stay that the newest version of a table does not list, for readers of an older version."""

MANY, SMALL = 100, 32 << 20
"""A table is compacted when it has more than MANY files smaller than SMALL bytes."""

MOST_RUNS = 1000
"""Number of runs whose rows are removed at a time, the oldest first: one condition lists their ids."""

OF_LAST_RUN = ("leftover_files", "commits", "states")
"""Result tables that hold for each table only the rows of the last run that audited it."""

Run = Mapping[str, Any]
Step = tuple[str, Callable[[], int]]
"""The name of a count, and a function that does the work and returns the count."""


@dataclass(frozen=True)
class Retention:
    """Rows to remove: those of these runs, and discrepancies that were resolved before `until`."""

    runs: Sequence[Run]
    until: datetime


def upkeep(
    writer: ResultsWriter,
    runs: Sequence[Run],
    this: Run,
    keep: timedelta | None,
    now: datetime,
    progress: Progress,
    audited: Sequence[str] = (),
) -> tuple[str, ...]:
    """Do the steps that are due, and return a warning for each that failed.

    Args:
        writer: the writer of the run, which holds the lease.
        runs: rows of `runs` of the lake, oldest first, as they were before the run ended.
        this: the final row of the run.
        keep: how long rows of runs are kept; None: forever.
        now: the run's clock reading.
        progress: shows the stage, if anything is due.
        audited: the tables that the run has audited whole. Rows of `OF_LAST_RUN` that other runs wrote for them are
            removed, after publication, since people read the rows of the last published run.
    """
    due = retention([*runs, *writer.results.followed()], this, keep, now)
    steps: list[Step] = [("rows removed", partial(_removed, writer, due))] if due else []
    warnings: list[str] = []
    with _warned(warnings):
        steps += _replaced(writer, this["run_id"], audited)
        steps += _files(writer, now, first=_first_today(runs, this, now))
    if steps:
        with progress.stage("clean up old results") as log:
            log.note(**_counts(steps, warnings))
    return tuple(dict.fromkeys(warnings))


def _counts(steps: Sequence[Step], warnings: list[str]) -> dict[str, int]:
    """Do the steps and return their counts."""
    counts: dict[str, int] = {}
    for what, step in steps:
        with _warned(warnings):
            counts[what] = counts.get(what, 0) + step()
    return counts


@contextmanager
def _warned(warnings: list[str]) -> Iterator[None]:
    """Turn any failure inside the block into a warning: the run is published already."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        cause = one_line(str(error), 200) or type(error).__name__
        warnings.append(f"the results were not tidied up: {cause}")


def retention(runs: Sequence[Run], this: Run, keep: timedelta | None, now: datetime) -> Retention | None:
    """Return which runs are old enough to be removed, or None. The last published run always stays."""
    if keep is None:
        return None
    until = now - keep
    others = [run for run in runs if run["run_id"] != this["run_id"]]
    last = next((run["run_id"] for run in reversed([*others, this]) if run["status"] in PUBLISHED), None)
    old = [run for run in others if run["as_of"] and run["as_of"] < until and run["run_id"] != last]
    old.sort(key=lambda run: run["as_of"])
    return Retention(old[:MOST_RUNS], until) if old else None


def _removed(writer: ResultsWriter, due: Retention) -> int:
    """Remove the rows, those of `runs` last: after a failure the next run then finds the same runs again."""
    of_runs = f"run_id IN ({texts([run['run_id'] for run in due.runs])})"
    last_day = max(run["as_of"] for run in due.runs).date()
    of_nobody = f"(run_id IS NULL AND at < {moment(due.until)})"
    conditions = {
        "findings": f"as_of_date <= DATE '{last_day}' AND {of_runs}",
        "coverage": of_runs,
        "transitions": f"{of_runs} OR {of_nobody}",
        "notices": of_runs,
        "verified": of_runs,
        "discrepancies": f"state = 'resolved' AND resolved_at < {moment(due.until)}",
        "runs": of_runs,
    }
    return sum(writer.delete(table, condition) for table, condition in conditions.items())


def _replaced(writer: ResultsWriter, run_id: str, audited: Sequence[str]) -> Iterator[Step]:
    """Yield the steps that remove rows of `OF_LAST_RUN` which other runs wrote, even failed ones."""
    others = (pc.field("run_id") != run_id) & pc.field("table_name").isin(list(audited))
    condition = f"run_id <> {texts([run_id])} AND table_name IN ({texts(audited)})"
    for table in OF_LAST_RUN if audited else ():
        if writer.results.holds_any(table, others):
            yield "rows removed", partial(writer.delete, table, condition)


def _first_today(runs: Sequence[Run], this: Run, now: datetime) -> bool:
    """Return whether no other run was published on this day (UTC): it would have removed old files already."""
    ended = [
        run["finished_at"] for run in runs if run["status"] in PUBLISHED and run["run_id"] != this["run_id"]
    ]
    return not any(at is not None and at.date() == now.date() for at in ended)


def _files(writer: ResultsWriter, now: datetime, *, first: bool) -> Iterator[Step]:
    """Yield the steps for the files of each table; tables are checked in parallel, since most of it is waiting."""
    with ThreadPoolExecutor(len(RESULTS)) as pool:
        due = pool.map(partial(_due, writer, now, first), RESULTS)
    for table, (compact, vacuum) in zip(RESULTS, due, strict=True):
        if compact:
            yield "files joined", partial(writer.compact, table)
        if vacuum:
            yield "files removed", partial(writer.vacuum, table, READABLE_FOR)


def _due(writer: ResultsWriter, now: datetime, first: bool, table: str) -> tuple[bool, bool]:
    """Return whether to compact and whether to vacuum a table: each at most once a day (UTC), by its own history."""
    results, today = writer.results, now.date()
    many = delta_files.small_files(results, table, SMALL) > MANY
    created = delta_files.created_at(results, table)
    old = first and created is not None and created < now - READABLE_FOR
    return (
        many and not delta_files.ran_since(results, table, delta_files.COMPACTED, today),
        old and not delta_files.ran_since(results, table, delta_files.VACUUMED, today),
    )

"""The state before the one that a table is read from: an older checkpoint, or commit 0, with the commits after it.

The checkpoint that a log is read from is held against it, by the sums of their entries. For that a few commits more are
read, and of no table, and in no run, more than the limits below.
"""

from collections.abc import Collection
from dataclasses import dataclass

from lakeaudit.evidence.manifest.delta.checkpoint_runs import Checkpoint
from lakeaudit.evidence.manifest.delta.checkpoints import Content
from lakeaudit.evidence.manifest.delta.commit_runs import CommitRuns
from lakeaudit.evidence.manifest.delta.log import FROM_THE_START, Log
from lakeaudit.keys import Location

MOST_COMMITS, MOST_BYTES = 100, 8 << 20
"""Commits of one table that are read for this, and their bytes."""
MOST_OF_RUN = 500
"""Commits of all tables of a run."""


@dataclass(frozen=True)
class EarlierState:
    """An older state, and the commits from there up to the base.

    Attributes:
        point: the older checkpoint; None: commit 0 is there.
        commits: all commits after it up to the base.
        content: what the older checkpoint holds; None: it was not looked into.
    """

    point: Checkpoint | None
    commits: CommitRuns
    content: Content | None = None


def earlier_state(log: Log, base: Checkpoint | None, broken: Collection[Location]) -> EarlierState | None:
    """The newest state before the base from which every commit up to the base is there; None: there is none."""
    if base is None:
        return None
    older = [
        point for point in log.checkpoints[: log.checkpoints.before(base.version)][-1:] if not point.is_json
    ]
    start = older[0].version if older else FROM_THE_START
    commits = log.made.after(start).up_to(base.version)
    if len(commits) != base.version - start or len(commits) > MOST_COMMITS or commits.weight > MOST_BYTES:
        return None
    if older and not older[0].places.isdisjoint(broken):
        return None
    return EarlierState(older[0] if older else None, commits)

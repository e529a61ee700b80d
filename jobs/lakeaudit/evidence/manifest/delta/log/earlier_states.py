"""Find the state before the one from which a table is read: an older checkpoint, or commit 0, and the commits after it.

The checkpoint from which a log is read is compared with that state, by the sums of their entries. This reads a few more
commits, and never more than the limits below for one table or one run.
"""

from collections.abc import Collection
from dataclasses import dataclass

from lakeaudit.evidence.manifest.delta.log.checkpoint_runs import Checkpoint
from lakeaudit.evidence.manifest.delta.log.checkpoints import Content
from lakeaudit.evidence.manifest.delta.log.commit_runs import CommitRuns
from lakeaudit.evidence.manifest.delta.log.layout import FROM_THE_START, Log
from lakeaudit.keys import Location

MOST_COMMITS, MOST_BYTES = 100, 8 << 20
"""Most commits of one table that are read for this, and their bytes."""
MOST_OF_RUN = 500
"""Most commits of all tables of a run."""


@dataclass(frozen=True)
class EarlierState:
    """Holds an older state, and the commits from there up to the base.

    Attributes:
        point: the older checkpoint; None if commit 0 exists.
        commits: all commits after it up to the base.
        content: the content of the older checkpoint; None if it was not read.
    """

    point: Checkpoint | None
    commits: CommitRuns
    content: Content | None = None


def earlier_state(log: Log, base: Checkpoint | None, broken: Collection[Location]) -> EarlierState | None:
    """Return the newest state before the base from which every commit up to the base exists; None if there is none."""
    if base is None:
        return None
    older = [
        point for point in log.checkpoints[: log.checkpoints.before(base.version)][-1:] if not point.is_json
    ]
    start = older[0].version if older else FROM_THE_START
    commits = log.commits_as_made.after(start).up_to(base.version)
    if len(commits) != base.version - start or len(commits) > MOST_COMMITS or commits.weight > MOST_BYTES:
        return None
    if older and not older[0].places.isdisjoint(broken):
        return None
    return EarlierState(older[0] if older else None, commits)

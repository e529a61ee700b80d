"""`lakeaudit demo`: a whole lake in one process, broken on purpose, audited, and the audit held to account."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeaudit.runtime.progress import Progress

MOST_FAULTS = 100
"""Enough for every act of the breaker."""
USUAL_FAULTS = (12, 40)


MARK = ".lakeaudit-demo"
"""A file in every folder that a demo left."""


def ended(lake_file: Path, endpoint: str | None) -> bool:
    """Whether the file is of a demo's lake whose server is not there any more."""
    from lakeaudit.runtime.reach import listens

    return endpoint is not None and (lake_file.parent / MARK).is_file() and not listens(endpoint)


def run(
    dir: Path,  # noqa: A002
    *,
    seed: int | None,
    faults: int | None,
    progress: "Progress",
    keep: bool = False,
) -> int:
    """Build a lake, break it, audit it, and leave lake.yaml, results and report.html in `dir`, which is replaced.

    Args:
        dir: a folder of the demo's own: missing, empty, or left by an earlier demo.
        seed: draws the faults; None draws a seed.
        faults: how many acts, 0 to MOST_FAULTS; None draws a number.
        progress: told of every stage.
        keep: let the server stay until Ctrl-C, for commands on the lake.

    Returns:
        0 exactly when the audit found what was broken and nothing else, else 1.

    Raises:
        BadInput: the folder holds something else, or that many faults cannot be made.
    """
    from lakeaudit.demo.scenario import tell

    return tell(dir, seed=seed, faults=faults, progress=progress, keep=keep)

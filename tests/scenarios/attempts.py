"""Two files of one split of one job, of which one is of a run or attempt that does not count."""

from datetime import timedelta

from tests.builders.group_scenario import NOON, GroupScenario, group, minutes
from tests.builders.scenario import Row

TWICE = "duplicate_attempt"
NOWHERE: Row = {"edge": None}
BY_LOG: Row = {"by_folder": False}
HOUR = 60


def attempt(
    name: str, verdict: str, *more: Row, stored: float = -3000, ended: float = -3000
) -> GroupScenario:
    """Both files were stored, and the run that counts ended, so many minutes after the edge, which is noon."""
    times = {"modified_at": minutes(stored), "ended_at": minutes(ended), "edge": NOON, "cut": NOON}
    known: Row = times | {"grace": timedelta(hours=1), "by_folder": True}
    return group(
        "attempts", name, verdict, {key: value for row in (known, *more) for key, value in row.items()}
    )


SCENARIOS = (
    # healthy
    attempt("readers of a Delta log read only the files that the log lists, not both attempts", "none", BY_LOG),
    attempt("a log is read, at a place that no report covers", "none", BY_LOG, NOWHERE),
    attempt("a log is read, and the retry ended just now", "none", BY_LOG, ended=-1),
    # both are read
    attempt("a failed run's file beside that of its retry", TWICE),
    attempt("the retry ended the grace before the report", TWICE, stored=-HOUR, ended=-HOUR),
    attempt("the younger file was stored as the report was begun", TWICE, stored=0),
    # cannot be told
    attempt("no source covers the place", "uncovered", NOWHERE),
    attempt("no source covers the place, and the retry ended just now", "uncovered", NOWHERE, ended=-1),
    attempt("the retry ended just now, and may still clean up", "young", ended=-HOUR + 1),
    attempt("one of the files was stored after the report was begun", "young", stored=1),
)  # fmt: skip

"""Report half-moved folders: their files are under both the old and the new name."""

from lakeaudit.checks.folders import half_moved
from lakeaudit.checks.protocol import CheckInput, CheckResult
from lakeaudit.engine.answers import tallies_of
from lakeaudit.runtime import duck


def judge_half_moved(given: CheckInput) -> CheckResult:
    """Report pairs of folders with the same files."""
    con, evidence = given.evidence.con, given.evidence
    moved = duck.hold_any(con, half_moved.half_moved(con, given.matched.rows("moves"), evidence.policy))
    findings = half_moved.findings(con, moved, evidence.stamp)
    return CheckResult((findings,), tallies=tallies_of(half_moved.tally_rows(con, moved)))

"""A check selects rows in the tasks, judges them on the driver, and returns one result.

`registry.py` lists the checks; docs/add-a-check.md shows how to add one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeaudit.checks.hazards.request_causes import Causes
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.match_result import MatchResult
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import CannotAudit
from lakeaudit.evidence.protocol import SnapshotWindow
from lakeaudit.findings import coverage
from lakeaudit.findings.coverage import Tallies
from lakeaudit.kinds import KINDS
from lakeaudit.matching.share import Combine, Select
from lakeaudit.runtime.duck import Relation


@dataclass(frozen=True)
class CheckInput:
    """Input of a check.

    Attributes:
        evidence: all evidence of the run.
        engine: reads claims or metadata stores again, in tasks.
        matched: rows that the tasks selected, see `MatchResult.rows`.
        tallies: files by table and axis, as the rules about single files judged them.
        causes: causes and patterns of access that recorded requests show.
    """

    evidence: Evidence
    engine: AuditEngine
    matched: MatchResult
    tallies: Tallies
    causes: Causes


@dataclass(frozen=True)
class CheckResult:
    """Result of a check, which is added to the results of the run.

    Attributes:
        findings: FINDINGS rows, see `findings.finding_rows.finished`.
        rows: a few more of them as plain rows; columns that a row lacks are null.
        tallies: how many subjects had which outcome, by table and axis.
        remarks: why subjects are undecided, by table and axis.
        warnings: one line each, for the end of the audit.
        restored: ids of open discrepancies whose subject proved to be whole.
        coverage_rows: COVERAGE rows of places other than tables.
        storage_cuts: the snapshot windows on which these rows are based.
        copies: files of equal content that this check leaves to other reports; None: the check judges no copies.
    """

    findings: tuple[Relation, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    tallies: Tallies = field(default_factory=dict)
    remarks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    coverage_rows: tuple[dict[str, Any], ...] = ()
    storage_cuts: Mapping[str, SnapshotWindow] = field(default_factory=dict)
    copies: Relation | None = None


NOTHING = CheckResult()


@dataclass(frozen=True)
class Check:
    """A check: its name and its functions.

    Attributes:
        judge: returns findings, tallies and reasons. It runs on the driver after suspects were confirmed.
        select: the selection in the tasks; None: the check needs no rows of files.
        combine: joins selected rows of several keys; None: each row stands for itself.
        routes: by kind of row that `select` yields for `combine`, SQL of the hash by which its rows meet. A selected
            kind without a route goes to the driver.
        every_key: whether `select` also needs files on which all sources agree. An audit with such a check has no
            prefilter, so it reads all columns of every row: it takes about twice as long.
        of_partitions: whether an audit of single partitions can judge it; most checks need whole tables.
    """

    name: str
    judge: Callable[[CheckInput], CheckResult] | None = None
    select: Select | None = None
    combine: Combine | None = None
    of_partitions: bool = False
    every_key: bool = False
    routes: Mapping[str, str] = field(default_factory=dict)


def run_checks(checks: Iterable[Check], given: CheckInput) -> CheckResult:
    """Run all checks that this audit can judge, and add up their results."""
    whole = not given.evidence.partitions
    return add_results(
        [
            _of_known_kinds(check, check.judge(given))
            for check in checks
            if check.judge and (whole or check.of_partitions)
        ]
    )


def _of_known_kinds(check: Check, result: CheckResult) -> CheckResult:
    """Return the result. Raises CannotAudit: a row has a kind of finding that lakeaudit does not know."""
    for row in result.rows:
        if row["kind"] not in KINDS:
            what = f"its finding has the kind {row['kind']!r}, which docs/kinds.md does not have"
            raise CannotAudit(f"check {check.name}", what, "use one of its kinds")
    return result


def add_results(results: list[CheckResult]) -> CheckResult:
    """Merge the results of several checks; the reasons for one table and axis are joined in their order."""
    remarks: dict[tuple[str, str], str] = {}
    for result in results:
        for about, why in result.remarks.items():
            remarks[about] = f"{remarks[about]}; {why}" if about in remarks else why
    return CheckResult(
        findings=tuple(each for result in results for each in result.findings),
        rows=tuple(row for result in results for row in result.rows),
        tallies=coverage.together(*(result.tallies for result in results)),
        remarks=remarks,
        warnings=tuple(line for result in results for line in result.warnings),
        restored=tuple(id_ for result in results for id_ in result.restored),
        coverage_rows=tuple(row for result in results for row in result.coverage_rows),
        storage_cuts={source: cut for result in results for source, cut in result.storage_cuts.items()},
        copies=next((result.copies for result in results if result.copies is not None), None),
    )

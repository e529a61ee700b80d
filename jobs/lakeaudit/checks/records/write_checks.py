"""Compare writers' own records with storage: writes of which files are missing, and attempts with extra files."""

from collections import Counter
from collections.abc import Collection

from lakeaudit.checks.protocol import CheckInput, CheckResult, add_results
from lakeaudit.checks.records import attempts, write_totals
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import sources_with_gaps
from lakeaudit.engine.answers import tallies_of
from lakeaudit.evidence.protocol import Totals
from lakeaudit.findings.coverage import Tally
from lakeaudit.runtime import duck
from lakeaudit.schemas import SAME_SPLIT

AXIS = "commit"


def judge_writes(given: CheckInput) -> CheckResult:
    """Report writes of which storage has less than declared, by every manifest that declares totals."""
    gaps = sources_with_gaps(given.matched.holes)
    declared = [read.totals for read in given.evidence.observed.sources.claims if read.totals is not None]
    return add_results([_judge(given.evidence, totals, gaps) for totals in declared])


def _judge(evidence: Evidence, totals: Totals, gaps: Collection[str]) -> CheckResult:
    con, doubts = evidence.con, dict(totals.doubts)
    judged = duck.hold(
        con,
        write_totals.judged_writes(con, totals.short, evidence.source_facts, doubts, gaps, evidence.policy),
    )
    outcomes = write_totals.outcomes(con, judged)
    tallies = {
        (table.name, AXIS): _tally(totals.counts[table.name], outcomes[table.name])
        for table in evidence.scope
        if table.name in totals.counts and not table.state_manifests
    }
    remarks = {
        (table, AXIS): why for table, why in write_totals.undecided_reasons(con, judged, doubts).items()
    }
    return CheckResult(
        (write_totals.findings(con, judged, evidence.stamp),), tallies=tallies, remarks=remarks
    )


def _tally(writes: int, outcomes: Counter[str]) -> Tally:
    """Count every write once: a write without a verdict is consistent."""
    whole = max(writes - outcomes.total(), 0)
    return Tally({**outcomes, "consistent": outcomes["consistent"] + whole})


def judge_attempts(given: CheckInput) -> CheckResult:
    """Report files of repeated attempts at one split of a job; such a file is not also reported as a copy."""
    evidence, copies = given.evidence, given.matched.rows("copies")
    con = evidence.con
    splits = [read.attempts for read in evidence.observed.sources.claims if read.attempts is not None]
    repeated = duck.union(con, [SAME_SPLIT.empty_table(), *(() if evidence.partitions else splits)])
    judged = duck.hold_any(
        con, attempts.judged_attempts(con, repeated, evidence.source_facts, evidence.policy)
    )
    return CheckResult(
        (attempts.findings(con, judged, evidence.stamp),),
        tallies=tallies_of(attempts.tally_rows(con, judged, copies)),
        copies=attempts.other_copies(con, copies, judged),
    )

"""What writers' own records say of whole writes, of which storage has less, and of attempts, of which it has more."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lakeaudit.checks import attempts, write_totals
from lakeaudit.collect.evidence import Evidence
from lakeaudit.engine.answers import tallies_of
from lakeaudit.findings.coverage import Tallies, Tally, together
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation, Rows
from lakeaudit.schemas import SAME_SPLIT

AXIS = "commit"


@dataclass(frozen=True)
class WriteChecks:
    """FINDINGS rows, how many writes were judged how, and by table why some were not."""

    findings: tuple[Relation, ...] = ()
    tallies: Tallies = field(default_factory=dict)
    unsure: Mapping[str, str] = field(default_factory=dict)


def write_checks(evidence: Evidence, holed: Collection[str]) -> WriteChecks:
    """What storage lacks of whole writes, by every manifest that declares totals; of parts of tables nothing."""
    found: list[Relation] = []
    tallies: Tallies = {}
    unsure: dict[str, str] = {}
    for read in evidence.observed.sources.claims:
        if read.totals is None or evidence.partitions:
            continue
        doubts = dict(read.totals.doubts)
        judged = duck.hold(
            evidence.con,
            write_totals.judged_writes(
                evidence.con, read.totals.short, evidence.source_facts, doubts, holed, evidence.policy
            ),
        )
        found.append(write_totals.findings(evidence.con, judged, evidence.stamp))
        unsure |= write_totals.undecided(evidence.con, judged, doubts)
        outcomes = write_totals.outcomes(evidence.con, judged)
        counted = {
            (table.name, AXIS): _tally(read.totals.counts[table.name], outcomes[table.name])
            for table in evidence.scope
            if table.name in read.totals.counts and not table.state_manifests
        }
        tallies = together(tallies, counted)
    return WriteChecks(tuple(found), tallies, unsure)


def _tally(writes: int, outcomes: Counter[str]) -> Tally:
    """Every write once: what is not told to lack anything is whole."""
    whole = max(writes - outcomes.total(), 0)
    return Tally({**outcomes, "consistent": outcomes["consistent"] + whole})


@dataclass(frozen=True)
class AttemptChecks:
    """FINDINGS rows of files of attempts that do not count, and the copies of equal bytes that are none of these."""

    findings: Relation
    copies: Relation
    tallies: Tallies


def attempt_checks(evidence: Evidence, copies: Rows) -> AttemptChecks:
    """Files that are one split of one job by what any manifest says; of `copies` a file has one verdict."""
    con = evidence.con
    told = [read.attempts for read in evidence.observed.sources.claims if read.attempts is not None]
    repeated = duck.union(con, [SAME_SPLIT.empty_table(), *(() if evidence.partitions else told)])
    judged = duck.hold_any(
        con, attempts.judged_attempts(con, repeated, evidence.source_facts, evidence.policy)
    )
    return AttemptChecks(
        attempts.findings(con, judged, evidence.stamp),
        attempts.other_copies(con, copies, judged),
        tallies_of(attempts.tally_rows(con, judged, copies)),
    )

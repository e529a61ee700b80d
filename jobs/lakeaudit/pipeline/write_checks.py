"""The commit axis of writers' own records: whole writes of which storage has less than was committed."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from lakeaudit.compare import write_totals
from lakeaudit.compare.coverage import Tallies, Tally, together
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation

AXIS = "commit"


@dataclass
class WriteChecks:
    """FINDINGS rows, how many writes were judged how, and by table why some were not."""

    findings: list[Relation] = field(default_factory=list)
    tallies: Tallies = field(default_factory=dict)
    unsure: dict[str, str] = field(default_factory=dict)


def write_checks(audit: AuditContext, holed: Collection[str]) -> WriteChecks:
    """What storage lacks of whole writes, by every manifest that declares totals; of parts of tables nothing."""
    found = WriteChecks()
    for read in audit.observed.evidence.claims:
        if read.totals is None or audit.partitions:
            continue
        doubts = dict(read.totals.doubts)
        judged = duck.hold(
            audit.con,
            write_totals.judged_writes(
                audit.con, read.totals.short, audit.sources, doubts, holed, audit.words
            ),
        )
        found.findings.append(write_totals.findings(audit.con, judged, audit.stamp))
        found.unsure |= write_totals.undecided(audit.con, judged, doubts)
        outcomes = write_totals.outcomes(audit.con, judged)
        counted = {
            (table.name, AXIS): _tally(read.totals.counts[table.name], outcomes[table.name])
            for table in audit.scope
            if table.name in read.totals.counts
        }
        found.tallies = together(found.tallies, counted)
    return found


def _tally(writes: int, outcomes: Counter[str]) -> Tally:
    """Every write once: what is not told to lack anything is whole."""
    whole = max(writes - outcomes.total(), 0)
    return Tally({**outcomes, "consistent": outcomes["consistent"] + whole})

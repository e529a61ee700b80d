"""Guard: what a run found, before it is published, against the gates."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakeaudit.compare.findings import Stamp
from lakeaudit.config import Lake
from lakeaudit.errors import Refused
from lakeaudit.gates import profiles
from lakeaudit.gates.expectation_suites import Broken, check
from lakeaudit.ledger.update_ledger import Changes
from lakeaudit.pipeline.judge import Judgement
from lakeaudit.pipeline.read_sources import Observed
from lakeaudit.results.read import Row


@dataclass(frozen=True)
class Guarded:
    """What was found, counted, and what of the gates does not hold."""

    tally: profiles.Tally
    broken: Sequence[Broken]

    @property
    def words(self) -> list[str]:
        """A line for people per expectation that does not hold."""
        return [each.words for each in self.broken]


def guard(
    lake: Lake, observed: Observed, judgement: Judgement, changes: Changes, runs: Sequence[Row], stamp: Stamp
) -> Guarded:
    """What does not hold of the sources, the findings and what changes in the ledger."""
    sources = profiles.of_sources(
        lake, observed.infos, judgement.counts, judgement.coverage_rows, runs, stamp.as_of
    )
    tally = profiles.tally(judgement.findings)
    broken = [*check("sources", sources), *check("findings", profiles.of_findings(tally))]
    if changes.counts:
        broken += check("ledger", profiles.of_ledger(changes.discrepancies))
    return Guarded(tally, broken)


def refusal(broken: Sequence[Broken], place: str) -> Refused | None:
    """What ends the run, if anything that must hold does not."""
    refusing = [each.words for each in broken if each.refuses]
    if not refusing:
        return None
    way_out = "mend the evidence, or edit the suite in expectations/; nothing was published"
    return Refused(place, "; ".join(refusing), way_out)

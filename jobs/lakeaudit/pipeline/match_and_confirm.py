"""Match all rows and confirm the suspects; where evidence proves incomplete on the way, start over with that gap."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakeaudit.compare.ceiling import Trial, uncovered
from lakeaudit.compare.lost_states import files_of_contested_states, files_written_again
from lakeaudit.pipeline import recheck
from lakeaudit.pipeline.commit_witnesses import commit_witnesses
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.pipeline.evidence import Evidence
from lakeaudit.pipeline.evidence_gaps import sources_with_gaps
from lakeaudit.pipeline.first_reading import FirstReading, match, read_rows, with_gaps_of_rows
from lakeaudit.pipeline.lineage_checks import audited_before, check_what_was_read, contested_commits
from lakeaudit.pipeline.older_versions import of_older_versions
from lakeaudit.pipeline.recheck import Rechecked
from lakeaudit.pipeline.state_counts import counted_whole, less_listed, repeated_entries, with_leftovers
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation
from lakeaudit.runtime.progress import Progress


@dataclass(frozen=True)
class Confirmed:
    """The evidence with all of its gaps, the verdicts that it gives, and its suspects as they were confirmed."""

    evidence: Evidence
    first: FirstReading
    again: Rechecked

    @property
    def remaining(self) -> Relation:
        return self.again.rows

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.again.trials

    @property
    def answers(self) -> pa.Table:
        return self.again.answers


def match_and_confirm(evidence: Evidence, engine: AuditEngine, progress: Progress) -> Confirmed:
    """Read, match and confirm until no step shows a gap that was not known before it.

    Gaps are never taken back, so the loop ends. The states of tables are checked once, and once more where a live look
    has shown that a report does not cover a table.
    """
    states_checked = False
    while True:
        with progress.stage("match and classify") as log:
            read = read_rows(evidence, engine)
            known_gaps = read.evidence.gaps
            evidence = with_gaps_of_rows(read)
            if evidence.gaps != known_gaps:
                continue
            first = match(read, engine)
            log.note(
                files=sum(tally.files for (_, axis), tally in first.tallies.items() if axis == "content")
            )
            if not states_checked:
                evidence, states_checked = _with_checked_states(evidence, engine, first), True
            if evidence.gaps != known_gaps:
                continue
        again = _confirm(evidence, first, progress)
        complete, evidence = evidence, evidence.with_uncovered(_uncovered_tables(evidence, again))
        if evidence.gaps == known_gaps:
            return Confirmed(complete, first, again)
        states_checked = False


def _with_checked_states(evidence: Evidence, engine: AuditEngine, first: FirstReading) -> Evidence:
    """The evidence with what the rows show of states that were lost, replaced or never read."""
    of_commits = commit_witnesses(evidence, engine, first)
    counted = counted_whole(evidence, first.live, first.holes)
    witnesses = [
        *of_older_versions(evidence, first.replaced_versions),
        *of_commits,
        *repeated_entries(evidence, first.suspects),
        *less_listed(evidence, counted, partial(with_leftovers, evidence, first.leftovers)),
    ]
    return check_what_was_read(evidence, first.marked_states, first.live, first.leftovers, witnesses)


def _confirm(evidence: Evidence, first: FirstReading, progress: Progress) -> Rechecked:
    """The suspects, judged again with everything that can clear them."""
    with progress.stage("check findings again") as log:
        vacuumed = [row["vacuumed"] for row in first.vacuums]
        holed = sources_with_gaps(first.holes)
        again = recheck.confirm(evidence, first.suspects, first.fresh, first.claimed, holed, vacuumed)
        rewritten = files_written_again(evidence.con, again.rows, audited_before(evidence))
        certain = files_of_contested_states(evidence.con, rewritten, contested_commits(evidence))
        log.note(
            suspects=duck.count_of(first.suspects),
            fresh=duck.count_of(first.fresh),
            looked_at=again.answers.num_rows,
        )
        return replace(again, rows=duck.hold(evidence.con, certain))


def _uncovered_tables(evidence: Evidence, again: Rechecked) -> Collection[str]:
    """Tables without a log that live looks find, and that the report which decides there does not cover."""
    if evidence.observed.listed:
        return ()
    return {*uncovered(again.trials)} & {fact.table.name for fact in evidence.facts if fact.log_since is None}

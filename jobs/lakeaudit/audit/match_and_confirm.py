"""Matches all rows and confirms the suspects; if a step shows a new evidence gap, it starts over with that gap."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakeaudit.audit.match import match, read_rows, with_gaps_of_rows
from lakeaudit.checks.commits.commit_witnesses import commit_witnesses
from lakeaudit.checks.lineage.lineage_checks import audited_before, check_what_was_read, contested_commits
from lakeaudit.checks.lineage.lost_states import files_of_contested_states, files_written_again
from lakeaudit.checks.lineage.older_versions import of_older_versions
from lakeaudit.checks.lineage.state_counts import (
    counted_whole,
    less_listed,
    repeated_entries,
    with_unused_files,
)
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import sources_with_gaps
from lakeaudit.collect.match_result import MatchResult
from lakeaudit.confirm import suspects
from lakeaudit.confirm.suspects import ConfirmResult
from lakeaudit.engine.local import AuditEngine
from lakeaudit.findings.absence_ceiling import SampleCheck, uncovered_tables
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation
from lakeaudit.runtime.progress import Progress


@dataclass(frozen=True)
class Confirmed:
    """The evidence with all of its gaps, its verdicts, and its suspects after they were confirmed."""

    evidence: Evidence
    matched: MatchResult
    again: ConfirmResult

    @property
    def remaining(self) -> Relation:
        return self.again.rows

    @property
    def sample_checks(self) -> tuple[SampleCheck, ...]:
        return self.again.sample_checks

    @property
    def answers(self) -> pa.Table:
        return self.again.answers


def match_and_confirm(evidence: Evidence, engine: AuditEngine, progress: Progress) -> Confirmed:
    """Read, match and confirm until no step shows a new gap.

    Gaps are never removed, so the loop ends. The states of tables are checked once, and again if a live check has shown
    that a report does not cover a table.
    """
    states_checked = False
    while True:
        with progress.stage("match and classify") as log:
            log.watch(engine.work)
            read = read_rows(evidence, engine)
            known_gaps = read.evidence.gaps
            evidence = with_gaps_of_rows(read)
            if evidence.gaps != known_gaps:
                continue
            matched = match(read, engine)
            contents = [tally.files for (_, axis), tally in matched.tallies.items() if axis == "content"]
            log.note(**{"files without a problem": sum(contents)})
            if not states_checked:
                evidence, states_checked = _with_checked_states(evidence, engine, matched), True
            if evidence.gaps != known_gaps:
                continue
        again = _confirm(evidence, matched, progress)
        complete, evidence = evidence, evidence.with_uncovered(_uncovered_tables(evidence, again))
        if evidence.gaps == known_gaps:
            return Confirmed(complete, matched, again)
        states_checked = False


def _with_checked_states(evidence: Evidence, engine: AuditEngine, matched: MatchResult) -> Evidence:
    """Add the witnesses in the rows of states that were lost, replaced or never read."""
    of_commits = commit_witnesses(evidence, engine, matched)
    counted = counted_whole(evidence, matched.live, matched.holes)
    witnesses = [
        *of_older_versions(evidence, matched.few("replaced_versions")),
        *of_commits,
        *repeated_entries(evidence, matched.suspects),
        *less_listed(evidence, counted, partial(with_unused_files, evidence, matched.leftovers)),
    ]
    return check_what_was_read(
        evidence, matched.few("marked_states"), matched.live, matched.leftovers, witnesses
    )


def _confirm(evidence: Evidence, matched: MatchResult, progress: Progress) -> ConfirmResult:
    """Judge the suspects again with all evidence that can clear them."""
    with progress.stage("check suspects again") as log:
        vacuumed = [row["vacuumed"] for row in matched.vacuums]
        gaps = sources_with_gaps(matched.holes)
        again = suspects.confirm(evidence, matched.suspects, matched.fresh, matched.claimed, gaps, vacuumed)
        rewritten = files_written_again(evidence.con, again.rows, audited_before(evidence))
        certain = files_of_contested_states(evidence.con, rewritten, contested_commits(evidence))
        log.note(
            **{
                "suspects": duck.count_of(matched.suspects),
                "young files to check": duck.count_of(matched.fresh),
                "live checks": again.answers.num_rows,
            }
        )
        return replace(again, rows=duck.hold(evidence.con, certain))


def _uncovered_tables(evidence: Evidence, again: ConfirmResult) -> Collection[str]:
    """Return tables without a known log that exist by the live check but that their deciding report does not cover."""
    if evidence.observed.listed:
        return ()
    return {*uncovered_tables(again.sample_checks)} & {
        fact.table.name for fact in evidence.facts if fact.log_since is None
    }

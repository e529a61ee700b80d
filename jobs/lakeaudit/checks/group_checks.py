"""What is no single file: folders half moved, commits, whole writes, clones, and what lifecycle rules will do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.checks import half_moved
from lakeaudit.checks.checksum_checks import ChecksumChecks, checksum_checks
from lakeaudit.checks.clones import clone_findings, clone_outcomes
from lakeaudit.checks.commits.commit_checks import CommitChecks, commit_checks
from lakeaudit.checks.hazards.access_hazards import access_hazards
from lakeaudit.checks.hazards.expiring_files import Hazards
from lakeaudit.checks.hazards.lifecycle_hazards import hazards, lifecycles_of, places_elsewhere
from lakeaudit.checks.hazards.request_causes import Traced
from lakeaudit.checks.log_store_checks import LogStoreChecks, log_store_checks
from lakeaudit.checks.pointers.pointer_checks import PointerChecks, pointer_checks
from lakeaudit.checks.watch_checks import WatchChecks, watch_checks
from lakeaudit.checks.write_checks import AttemptChecks, WriteChecks, attempt_checks, write_checks
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import sources_with_gaps
from lakeaudit.collect.match_result import MatchResult
from lakeaudit.engine.answers import tallies_of
from lakeaudit.engine.local import AuditEngine
from lakeaudit.findings.coverage import Tallies, Tally, together
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation

HAZARD = "hazard"
ROLE = "events:"
"""What ids of sources of requests begin with."""


@dataclass(frozen=True)
class GroupChecks:
    """`moved` are pairs of folders, `writes` whole writes, `attempts` files of several attempts.

    `checksums` is what writers counted of tables, `log_entries` what log stores know of commits, `pointers` what
    catalogs point at, `watched` what lies in watched places, `rows` are plain rows for FINDINGS, `remarks` say by
    table and axis why something is undecided.
    """

    moved: Relation
    commits: CommitChecks
    checksums: ChecksumChecks
    writes: WriteChecks
    attempts: AttemptChecks
    log_entries: LogStoreChecks
    pointers: PointerChecks
    watched: WatchChecks
    rows: tuple[dict[str, Any], ...]
    tallies: Tallies
    remarks: Mapping[tuple[str, str], str]
    warnings: tuple[str, ...]


def group_checks(
    evidence: Evidence, engine: AuditEngine, matched: MatchResult, tallies: Tallies, known: Traced
) -> GroupChecks:
    """All of it, for the tables in scope. An audit of partitions judges no whole table."""
    moved = duck.hold_any(evidence.con, half_moved.half_moved(evidence.con, matched.moves, evidence.policy))
    of_moved = tallies_of(half_moved.tally_rows(evidence.con, moved))
    commits = commit_checks(evidence, engine, matched.log_versions, matched.repeated)
    checksums = checksum_checks(evidence, matched)
    writes = write_checks(evidence, sources_with_gaps(matched.holes))
    attempts = attempt_checks(evidence, matched.copies)
    stores = log_store_checks(evidence, engine)
    pointers = pointer_checks(evidence, engine, matched, sources_with_gaps(matched.holes))
    places = watch_checks(evidence, matched)
    if evidence.partitions:
        parts = (moved, commits, checksums, writes, attempts, stores, pointers, places)
        return GroupChecks(*parts, (), of_moved, {}, ())
    threats = _hazards(evidence, engine, matched, tallies)
    unsure = _unsure(evidence, commits, writes, stores)
    blind = _unread_requests(evidence, known)
    accesses = access_hazards(evidence.con, known.patterns, evidence.scope, evidence.policy)
    return GroupChecks(
        moved,
        commits,
        checksums,
        writes,
        attempts,
        stores,
        pointers,
        places,
        (*commits.rows, *clone_findings(evidence.con, matched.cloned), *threats.rows, *accesses),
        together(
            of_moved,
            commits.tallies,
            checksums.tallies,
            writes.tallies,
            attempts.tallies,
            stores.tallies,
            pointers.tallies,
            _of_hazards(evidence, matched, threats, blind),
        ),
        unsure
        | {
            (table, HAZARD): "; ".join([*why, *blind])
            for table, why in threats.reasons.items()
            if why or blind
        },
        (
            *commits.warnings(),
            *checksums.warnings,
            *pointers.warnings,
            *(threats.untold if evidence.context.live else ()),
        ),
    )


def _unsure(
    evidence: Evidence, commits: CommitChecks, writes: WriteChecks, stores: LogStoreChecks
) -> dict[tuple[str, str], str]:
    """By table why not every commit and write of it has a verdict."""
    logged = {fact.table.name for fact in evidence.facts_in_scope if fact.stateful}
    told: dict[str, list[str]] = {name: [_NO_VERSIONS] for name in logged if evidence.observed.listed}
    told |= {table: [why] for table, why in commits.unsure.items()}
    for table, why in (*writes.unsure.items(), *stores.unsure.items()):
        told.setdefault(table, []).append(why)
    return {(table, "commit"): "; ".join(why) for table, why in told.items()}


_NO_VERSIONS = "a listing shows no older versions of the log's files"


def _hazards(evidence: Evidence, engine: AuditEngine, matched: MatchResult, tallies: Tallies) -> Hazards:
    """What lifecycle rules will do to live files; the files of a table are those that its content is judged by."""
    elsewhere = places_elsewhere(matched.elsewhere)
    lifecycles = lifecycles_of(evidence.scope, evidence.lifecycles, elsewhere)
    files = {table: tally.files for (table, axis), tally in tallies.items() if axis == "content"}
    claims = evidence.observed.sources.claims
    return hazards(
        engine, evidence.con, evidence.facts_in_scope, claims, lifecycles, evidence.policy, files, elsewhere
    )


def _unread_requests(evidence: Evidence, known: Traced) -> list[str]:
    """Why patterns of access may have gone unseen, so that none that was seen before has ended."""
    holes = [hole for hole in evidence.observed.holes if hole.source.startswith(ROLE)]
    return ["records of requests were not read whole"] if holes or known.holes else []


def _of_hazards(evidence: Evidence, matched: MatchResult, threats: Hazards, blind: Sequence[str]) -> Tallies:
    """Files by what is to come of them: a clone's file at risk is none of those that no rule concerns."""
    clones = clone_outcomes(evidence.con, matched.cloned)
    return {
        (table.name, HAZARD): _hazard_tally(
            threats.outcomes[table.name], clones[table.name], "undecided" if blind else "consistent"
        )
        for table in evidence.scope
    }


def _hazard_tally(of_rules: Mapping[str, int], of_clones: Mapping[str, int], rest: str) -> Tally:
    at_risk = Counter({name: files for name, files in of_clones.items() if name != "consistent"})
    quiet = max(of_rules.get("consistent", 0) - at_risk.total(), 0)
    others = Counter({name: files for name, files in of_rules.items() if name != "consistent"})
    return Tally(dict(others + at_risk + Counter({rest: quiet})))

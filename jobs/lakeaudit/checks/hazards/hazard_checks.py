"""Report upcoming losses of live files by lifecycle rules and by clean-ups of other tables, and risky access."""

from collections import Counter
from collections.abc import Mapping, Sequence

from lakeaudit.checks.clones import clone_findings, clone_outcomes
from lakeaudit.checks.hazards.access_hazards import access_hazards
from lakeaudit.checks.hazards.expiring_files import Hazards
from lakeaudit.checks.hazards.lifecycle_hazards import hazards, lifecycles_of, places_elsewhere
from lakeaudit.checks.protocol import CheckInput, CheckResult
from lakeaudit.findings.coverage import Tallies, Tally

HAZARD = "hazard"
REQUESTS = "events:"
"""Beginning of the ids of sources of requests."""


def judge_clones(given: CheckInput) -> CheckResult:
    """Report clones whose files the source's next clean-up deletes."""
    return CheckResult(rows=tuple(clone_findings(given.evidence.con, given.matched.rows("cloned"))))


def judge_lifecycles(given: CheckInput) -> CheckResult:
    """Report live files that a lifecycle rule will delete or archive."""
    threats, unread = _threats(given), _unread_requests(given)
    remarks = {
        (table, HAZARD): "; ".join([*why, *unread]) for table, why in threats.reasons.items() if why or unread
    }
    return CheckResult(
        rows=threats.rows,
        tallies=_tallies(given, threats, unread),
        remarks=remarks,
        warnings=threats.all_reasons if given.evidence.context.live else (),
    )


def _threats(given: CheckInput) -> Hazards:
    """Return the hazards of lifecycle rules; the files of a table are those whose content is judged."""
    evidence = given.evidence
    elsewhere = places_elsewhere(given.matched.few("elsewhere"))
    lifecycles = lifecycles_of(evidence.scope, evidence.lifecycles, elsewhere)
    files = {table: tally.files for (table, axis), tally in given.tallies.items() if axis == "content"}
    claims, facts = evidence.observed.sources.claims, evidence.facts_in_scope
    return hazards(given.engine, evidence.con, facts, claims, lifecycles, evidence.policy, files, elsewhere)


def judge_access(given: CheckInput) -> CheckResult:
    """Report patterns of recorded requests that lose files or read old ones."""
    evidence, patterns = given.evidence, given.causes.patterns
    return CheckResult(rows=access_hazards(evidence.con, patterns, evidence.scope, evidence.policy))


def _unread_requests(given: CheckInput) -> list[str]:
    """Return why patterns of access may be missing; then no earlier finding about one ends."""
    gaps = [gap for gap in given.evidence.observed.holes if gap.source.startswith(REQUESTS)]
    return ["records of requests were not read whole"] if gaps or given.causes.holes else []


def _tallies(given: CheckInput, threats: Hazards, unread: Sequence[str]) -> Tallies:
    """Count files by outcome; files of a clone that are at risk are not counted as consistent."""
    clones = clone_outcomes(given.evidence.con, given.matched.rows("cloned"))
    rest = "undecided" if unread else "consistent"
    return {
        (table.name, HAZARD): _tally(threats.outcomes[table.name], clones[table.name], rest)
        for table in given.evidence.scope
    }


def _tally(by_rules: Mapping[str, int], by_clones: Mapping[str, int], rest: str) -> Tally:
    at_risk = Counter({name: files for name, files in by_clones.items() if name != "consistent"})
    quiet = max(by_rules.get("consistent", 0) - at_risk.total(), 0)
    others = Counter({name: files for name, files in by_rules.items() if name != "consistent"})
    return Tally(dict(others + at_risk + Counter({rest: quiet})))

"""Compare the checksums that writers store with tables' newest versions with the files that the logs list."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakeaudit.checks.protocol import CheckInput, CheckResult
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.match_result import Listed
from lakeaudit.engine.answers import tallies_of
from lakeaudit.evidence.protocol import DeclaredState
from lakeaudit.findings import coverage
from lakeaudit.findings.finding_rows import because, finished
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.matching.verdicts import group_verdicts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation
from lakeaudit.schemas import CHECKSUM

TABLE, AXIS = "checksums", "commit"
_NOT_COMPARED = (
    "the checksum file of the log states the number of files of the table; this number could not be checked"
)


def judge_checksums(given: CheckInput) -> CheckResult:
    """Report tables whose checksum counts other files or bytes than their log lists."""
    evidence, live = given.evidence, given.matched.live
    declared = list(_declared(evidence))
    known = [(fact, state, live.get(fact.table.name, (0, 0))) for fact, state in declared if not state.unread]
    rows = [_row(*one) for one in known]
    judged = duck.hold_any(
        evidence.con, group_verdicts(evidence.con, duck.small(CHECKSUM, rows), TABLE, evidence.policy)
    )
    return CheckResult(
        (_findings(evidence, judged),),
        tallies=tallies_of(coverage.count_others(evidence.con, judged, "0")),
        remarks={
            (fact.table.name, AXIS): f"{_NOT_COMPARED}, because {why}"
            for fact, state, listed in known
            if (why := _gap(fact, state, listed))
        },
        warnings=tuple(
            f"{state.place.uri} is not a checksum: {state.unread}" for _, state in declared if state.unread
        ),
    )


def checksum_doubts(evidence: Evidence, live: Mapping[str, Listed]) -> dict[str, str]:
    """Return by table how its checksum differs from its log: one of them lacks files, so no file is called unused."""
    if evidence.partitions:
        return {}
    differing = {
        fact.table.name: _difference(state, live.get(fact.table.name, (0, 0)))
        for fact, state in _declared(evidence)
        if not fact.has_gap
    }
    return {name: why for name, why in differing.items() if why}


def _difference(state: DeclaredState, listed: Listed) -> str:
    """Describe how a checksum differs from the log; empty if the two agree or the checksum has no counts."""
    pairs = zip((state.files, state.bytes), listed, ("files", "bytes"), strict=True)
    differences = [
        f"{own:,} {unit}, and the log lists {other:,}"
        for own, other, unit in pairs
        if own is not None and other is not None and own != other
    ]
    return "" if state.unread or not differences else f"{state.place.uri} counts {'; '.join(differences)}"


def _declared(evidence: Evidence) -> Iterator[tuple[TableFacts, DeclaredState]]:
    logs = [read.commits for read in evidence.observed.sources.claims if read.commits is not None]
    for fact in evidence.facts_in_scope:
        for each in logs:
            state = each.declared.get(fact.table.name)
            if state is not None and state.version == fact.version:
                yield fact, state


def _row(fact: TableFacts, state: DeclaredState, listed: Listed) -> tuple[Any, ...]:
    name, place = fact.table.name, state.place
    relative = place.key.removeprefix(fact.table.location.prefix)
    has_gap = bool(_gap(fact, state, listed))
    return name, relative, *place, state.version, state.files, state.bytes, *listed, has_gap


def _gap(fact: TableFacts, state: DeclaredState, listed: Listed) -> str:
    """Return why the files of the table are not all known; empty if they are."""
    if fact.holes or fact.refusal is not None:
        return fact.refusal or next((hole.reason for hole in fact.holes), "") or "a part of it cannot be read"
    if fact.doubt not in ("", _difference(state, listed)):
        return fact.doubt
    return fact.not_all_listed


def _findings(evidence: Evidence, judged: Relation) -> Relation:
    rows = duck.made_of(evidence.con, "SELECT * FROM input WHERE outcome = 'finding'", judged)
    given = {
        "subject_type": "'table'",
        "subject": "judged_table || '#checksum'",
        "category": "'log'",
        "commit_id": "CAST(table_version AS VARCHAR)",
        "manifest_kind": "'delta'",
        "manifest_size": "bytes",
        "files": "abs(files - files_listed)",
        "bytes_at_stake": "abs(bytes - bytes_listed)",
        "confirmation": "'not_needed'",
        "recoverable": "'unknown'",
        "explanation": f"""concat_ws('; ',
            'the checksum file ' || relative || ' of table version ' || table_version || ' counts '
            || concat_ws(', ', format('{{:,}} files', files), format('{{:,}} bytes', bytes)) || ', but the log lists '
            || concat_ws(', ', format('{{:,}} files', files_listed), format('{{:,}} bytes', bytes_listed)), {because()},
            'one of the two is wrong')""",
    }
    return finished(evidence.con, rows, given, evidence.stamp)

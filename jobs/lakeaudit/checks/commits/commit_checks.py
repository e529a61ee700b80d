"""The commit axis: commits that were written twice, and batches that were. Only the few suspicious ones are read.

What a lost version added is looked up in the claims of its table: what a later commit has added again is not lost.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakeaudit.checks.commits import commits
from lakeaudit.checks.commits.commit_rows import Finding, finding
from lakeaudit.checks.commits.commits import Comparison, Rewritten
from lakeaudit.checks.commits.repeated_batches import live_batches
from lakeaudit.checks.commits.suspect_commits import (
    Batches,
    Compared,
    Judged,
    Suspect,
    judged,
    one_a_commit,
    suspects,
)
from lakeaudit.checks.protocol import CheckInput, CheckResult, add_results
from lakeaudit.collect.claim_lookups import query_claims
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.lifecycles import ends
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import Claims, CommitContents, CommitFile, CommitLogs
from lakeaudit.findings.coverage import Tally
from lakeaudit.keys import digest
from lakeaudit.rules.file_rules import UNDECIDED
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, OLDER_VERSIONS

_TOO_MANY_VERSIONS = Compared(
    unread="more of its commits were written twice than are read in one run", asked=False
)
_TOO_MANY_BATCHES = Batches(unread="more of its commits look like one batch than are read in one run")
MOST_OF_TABLE, MOST = 20, 200
"""Commits that are read of one table, and of all of them, in one run, for either suspicion."""
AXIS = "commit"


def judge_commits(given: CheckInput) -> CheckResult:
    """Report what is wrong with single commits, from LOG_VERSIONS and REPEATED rows."""
    evidence = given.evidence
    versions, alike = given.matched.rows("log_versions"), given.matched.rows("repeated")
    results = [
        _check(evidence, given.engine, _suspects(evidence, versions, alike, read.commits), read, read.commits)
        for read in evidence.observed.sources.claims
        if read.commits is not None
    ]
    # of two logs of one table the last one counts
    tallies = {about: tally for each in results for about, tally in each.tallies.items()}
    remarks = {about: why for each in results for about, why in each.remarks.items()}
    logged = {fact.table.name for fact in evidence.facts_in_scope if fact.stateful}
    unlisted = {(name, AXIS): _NO_VERSIONS for name in logged if evidence.observed.listed}
    checked = add_results(results)
    warnings = [f"{table}: {why}" for (table, _), why in sorted(remarks.items())]
    return replace(
        checked,
        tallies=tallies,
        remarks={**unlisted, **remarks},
        warnings=(*warnings, *checked.warnings),
    )


_NO_VERSIONS = "a listing shows no older versions of the log's files"


def _check(
    evidence: Evidence,
    engine: AuditEngine,
    suspected: Sequence[Suspect],
    read: Claims,
    logs: CommitLogs,
) -> CheckResult:
    """Read the suspects, judge them, and count every commit of the logs once."""
    places = {table.name: table.location for table in evidence.scope}
    known = _known(evidence, engine, suspected, read, logs)
    verdicts = one_a_commit(judged(evidence.con, known, evidence.policy))
    rows, unknown_ends = _with_ends(evidence, [one for one in verdicts if one.outcome == "finding"])
    whole = (
        digest(evidence.stamp.lake, one.suspect.file.table, AXIS, "commit", one.suspect.file.place.uri)
        for one in verdicts
        if one.outcome not in ("finding", UNDECIDED) and one.suspect.compared
    )
    remarks = {
        (one.suspect.file.table, AXIS): one.suspect.unread for one in verdicts if one.outcome == UNDECIDED
    }
    tallies = {
        (name, AXIS): _tally(count, [one for one in verdicts if one.suspect.file.table == name])
        for name, count in logs.counts.items() if name in places
    }  # fmt: skip
    return CheckResult(
        rows=tuple(rows),
        tallies=tallies,
        remarks=remarks,
        warnings=tuple(unknown_ends),
        restored=tuple(whole),
    )


def _with_ends(evidence: Evidence, judged: Sequence[Judged]) -> tuple[list[Finding], list[str]]:
    """Rows for FINDINGS, with the time until which lost versions are kept; and for which it is not known."""
    found = [(_recoverable(one, row), row) for one in judged for row in [finding(one)]]
    lost = [(one.place.bucket, one.place.key, one.lost_version_id, one.lost_size, one.replaced_at, one.newer)
            for one, _ in found if one is not None]  # fmt: skip
    if not lost:
        return [row for _, row in found], []
    ended, unknown = ends(evidence.con, duck.small(OLDER_VERSIONS, lost), evidence.lifecycles)
    by_version = {(row["bucket"], row["key"], row["version_id"]): row for row in duck.rows_of(ended)}
    return [_with_end(row, one, by_version) for one, row in found], unknown


def _recoverable(one: Judged, row: Finding) -> Rewritten | None:
    """The lost version that can bring something back."""
    return one.suspect.other if row.get("recovery_version_id") else None


def _with_end(
    row: Finding, one: Rewritten | None, ended: Mapping[tuple[str, str, str | None], Finding]
) -> Finding:
    end = None if one is None else ended.get((one.place.bucket, one.place.key, one.lost_version_id))
    if end is None:
        return row
    explanation = f"{row['explanation']}; {end['kept_words']}"
    return {**row, "recoverable_until": end["recoverable_until"], "explanation": explanation}


def _tally(commits_read: int, verdicts: Sequence[Judged]) -> Tally:
    """Every commit that was read once: what nothing is suspected of is consistent."""
    outcomes = Counter(one.outcome for one in verdicts)
    quiet = max(commits_read - outcomes.total(), 0)
    return Tally({**outcomes, "consistent": outcomes["consistent"] + quiet})


def _suspects(evidence: Evidence, versions: Rows, alike: Rows, logs: CommitLogs) -> list[Suspect]:
    places = {table.name: table.location for table in evidence.scope}
    pairs = [
        pair
        for pair in duck.rows_of(duck.relation(evidence.con, alike))
        if pair["table_name"] in places and pair["table_name"] in logs.since
    ]
    doubts = [doubt for doubt in logs.doubts(evidence.context.clients) if doubt.commit.table in places]
    return suspects(commits.rewritten(evidence.con, versions, places, logs.since), doubts, pairs, logs)


def _known(
    evidence: Evidence, engine: AuditEngine, each: Sequence[Suspect], read: Claims, logs: CommitLogs
) -> list[Suspect]:
    """The suspects with what their commits say: these are read at once, and their files looked up at once."""
    versions = _limited([n for n, one in enumerate(each) if one.is_rewritten], each)
    batches = _limited([n for n, one in enumerate(each) if one.repeats], each)
    files = [
        *(file for n in versions for file in _both(each[n])),
        *(file for n in batches for file in _pair(each[n])),
    ]
    if not files:
        return list(each)
    said = logs.read(files, evidence.context.clients)
    claims = claims_of_commits(evidence, engine, read, said, files)
    compared = dict(
        zip(versions, _compared(evidence.con, said, claims, [each[n] for n in versions]), strict=True)
    )
    begin = 2 * len(versions)
    live = dict(zip(batches, _batches(evidence.con, said, claims, files, begin), strict=True))
    return [
        replace(
            one,
            compared=compared.get(n, _TOO_MANY_VERSIONS) if one.is_rewritten else None,
            batches=live.get(n, _TOO_MANY_BATCHES) if one.repeats else None,
        )
        for n, one in enumerate(each)
    ]


def _limited(numbers: Iterable[int], each: Sequence[Suspect]) -> list[int]:
    """As many as may be read in one run; a table's newest commits come first."""
    taken: Counter[str] = Counter()
    chosen: list[int] = []
    for number in numbers:
        table = each[number].file.table
        if taken[table] < MOST_OF_TABLE and len(chosen) < MOST:
            taken[table] += 1
            chosen.append(number)
    return chosen


def _both(one: Suspect) -> tuple[CommitFile, CommitFile]:
    """The lost version of a commit and the one that took its place."""
    if one.other is None:
        raise ValueError(f"{one.file.place.uri} has one version")
    other = one.other
    return replace(one.file, version_id=other.lost_version_id), replace(one.file, version_id=other.version_id)


def _pair(one: Suspect) -> tuple[CommitFile, CommitFile]:
    """The commit that it looks like, and itself."""
    if one.repeats is None:
        raise ValueError(f"{one.file.place.uri} looks like no other commit")
    return one.repeats.older, one.file


def _compared(
    con: Connection, said: CommitContents, claims: Relation, each: Sequence[Suspect]
) -> Iterator[Compared]:
    """What the lost version of each lost: those are the first commits that were read, two for each suspect."""
    pairs = [Comparison(one.file.table, 2 * n, 2 * n + 1) for n, one in enumerate(each)]
    for pair, loss in zip(pairs, commits.losses(con, said.files, claims, pairs, said.commits), strict=True):
        lost, current = said.commits[pair.lost], said.commits[pair.current]
        yield Compared(loss, lost.operation, lost.unread or current.unread)


def _batches(
    con: Connection, said: CommitContents, claims: Relation, files: Sequence[CommitFile], begin: int
) -> Iterator[Batches]:
    """What of each pair of batches is live: those are the commits from number `begin` on."""
    live = live_batches(con, said.files, claims, [file.table for file in files])
    for older in range(begin, len(files), 2):
        unread = said.commits[older].unread or said.commits[older + 1].unread
        yield Batches(live[older], live[older + 1], unread)


def claims_of_commits(
    evidence: Evidence, engine: AuditEngine, read: Claims, said: CommitContents, files: Sequence[CommitFile]
) -> Relation:
    """What the tables' states say of the files that these commits name: CLAIM rows."""
    keys = duck.table(duck.query(evidence.con, "SELECT DISTINCT bucket, key FROM f", f=said.files))
    if not keys.num_rows:
        return duck.relation(evidence.con, CLAIM.empty_table())
    batches = query_claims(engine, [read], {file.table for file in files}, _as_they_are, keys)
    return duck.relation(evidence.con, pa.Table.from_batches(batches, None if batches else CLAIM))


def _as_they_are(con: Connection, claims: Rows) -> Relation:
    return duck.relation(con, claims)

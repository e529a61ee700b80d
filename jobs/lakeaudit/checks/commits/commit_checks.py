"""Judge commits and batches that may have been written twice. Only the few suspicious commits are read.

Files that a lost version added are looked up in the claims of its table: a file that a later commit added is not lost.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakeaudit.checks.commits.commit_rows import Finding, finding
from lakeaudit.checks.commits.commits import Comparison, RewrittenCommit, losses, rewritten_commits
from lakeaudit.checks.commits.repeated_batches import live_batches
from lakeaudit.checks.commits.suspect_commits import (
    Batches,
    ComparedVersions,
    JudgedSuspect,
    Suspect,
    judge_suspects,
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

_TOO_MANY_VERSIONS = ComparedVersions(
    unread="more commits of this table were written twice than one run reads", requested=False
)
_TOO_MANY_BATCHES = Batches(unread="more commits of this table look like one batch than one run reads")
MOST_OF_TABLE, MOST = 20, 200
"""Commits that are read in one run for each suspicion: of one table, and of all tables."""
AXIS = "commit"


def judge_commits(given: CheckInput) -> CheckResult:
    """Report faults of single commits, from LOG_VERSIONS and REPEATED rows."""
    evidence = given.evidence
    versions, pairs = given.matched.rows("log_versions"), given.matched.rows("repeated")
    results = [
        _check(evidence, given.engine, _suspects(evidence, versions, pairs, read.commits), read, read.commits)
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


_NO_VERSIONS = "a listing does not show older versions of the log's files"


def _check(
    evidence: Evidence,
    engine: AuditEngine,
    suspected: Sequence[Suspect],
    read: Claims,
    logs: CommitLogs,
) -> CheckResult:
    """Read the suspects, judge them, and count every commit of the logs once."""
    places = {table.name: table.location for table in evidence.scope}
    known = _with_contents(evidence, engine, suspected, read, logs)
    verdicts = one_a_commit(judge_suspects(evidence.con, known, evidence.policy))
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


def _with_ends(evidence: Evidence, verdicts: Sequence[JudgedSuspect]) -> tuple[list[Finding], list[str]]:
    """Return rows for FINDINGS with the time until which lost versions are kept, and warnings where it is unknown."""
    findings = [(_recoverable(one, row), row) for one in verdicts for row in [finding(one)]]
    lost = [(one.place.bucket, one.place.key, one.lost_version_id, one.lost_size, one.replaced_at, one.newer)
            for one, _ in findings if one is not None]  # fmt: skip
    if not lost:
        return [row for _, row in findings], []
    ended, unknown = ends(evidence.con, duck.small(OLDER_VERSIONS, lost), evidence.lifecycles)
    by_version = {(row["bucket"], row["key"], row["version_id"]): row for row in duck.rows_of(ended)}
    return [_with_end(row, one, by_version) for one, row in findings], unknown


def _recoverable(one: JudgedSuspect, row: Finding) -> RewrittenCommit | None:
    """Return the lost version if it can restore something."""
    return one.suspect.other if row.get("recovery_version_id") else None


def _with_end(
    row: Finding, one: RewrittenCommit | None, ended: Mapping[tuple[str, str, str | None], Finding]
) -> Finding:
    end = None if one is None else ended.get((one.place.bucket, one.place.key, one.lost_version_id))
    if end is None:
        return row
    explanation = f"{row['explanation']}; {end['kept_words']}"
    return {**row, "recoverable_until": end["recoverable_until"], "explanation": explanation}


def _tally(commits_read: int, verdicts: Sequence[JudgedSuspect]) -> Tally:
    """Count every commit once: commits without a suspicion are consistent."""
    outcomes = Counter(one.outcome for one in verdicts)
    quiet = max(commits_read - outcomes.total(), 0)
    return Tally({**outcomes, "consistent": outcomes["consistent"] + quiet})


def _suspects(evidence: Evidence, versions: Rows, repeats: Rows, logs: CommitLogs) -> list[Suspect]:
    places = {table.name: table.location for table in evidence.scope}
    pairs = [
        pair
        for pair in duck.rows_of(duck.relation(evidence.con, repeats))
        if pair["table_name"] in places and pair["table_name"] in logs.since
    ]
    doubts = [doubt for doubt in logs.doubts(evidence.context.clients) if doubt.commit.table in places]
    return suspects(rewritten_commits(evidence.con, versions, places, logs.since), doubts, pairs, logs)


def _with_contents(
    evidence: Evidence, engine: AuditEngine, each: Sequence[Suspect], read: Claims, logs: CommitLogs
) -> list[Suspect]:
    """Return the suspects with the contents of their commits; all commits are read in one step."""
    versions = _limit([n for n, one in enumerate(each) if one.is_rewritten], each)
    batches = _limit([n for n, one in enumerate(each) if one.repeats], each)
    files = [
        *(file for n in versions for file in _both(each[n])),
        *(file for n in batches for file in _pair(each[n])),
    ]
    if not files:
        return list(each)
    content = logs.read(files, evidence.context.clients)
    claims = claims_of_commits(evidence, engine, read, content, files)
    compared = dict(
        zip(versions, _compare(evidence.con, content, claims, [each[n] for n in versions]), strict=True)
    )
    begin = 2 * len(versions)
    live = dict(zip(batches, _batches(evidence.con, content, claims, files, begin), strict=True))
    return [
        replace(
            one,
            compared=compared.get(n, _TOO_MANY_VERSIONS) if one.is_rewritten else None,
            batches=live.get(n, _TOO_MANY_BATCHES) if one.repeats else None,
        )
        for n, one in enumerate(each)
    ]


def _limit(numbers: Iterable[int], each: Sequence[Suspect]) -> list[int]:
    """Return as many numbers as may be read in one run; the newest commits of a table come first."""
    count: Counter[str] = Counter()
    selection: list[int] = []
    for number in numbers:
        table = each[number].file.table
        if count[table] < MOST_OF_TABLE and len(selection) < MOST:
            count[table] += 1
            selection.append(number)
    return selection


def _both(one: Suspect) -> tuple[CommitFile, CommitFile]:
    """Return the lost version of a commit and the version that replaced it."""
    if one.other is None:
        raise ValueError(f"{one.file.place.uri} has one version")
    other = one.other
    return replace(one.file, version_id=other.lost_version_id), replace(one.file, version_id=other.version_id)


def _pair(one: Suspect) -> tuple[CommitFile, CommitFile]:
    """Return the older commit of a repeated batch, and the younger one."""
    if one.repeats is None:
        raise ValueError(f"{one.file.place.uri} looks like no other commit")
    return one.repeats.older, one.file


def _compare(
    con: Connection, content: CommitContents, claims: Relation, each: Sequence[Suspect]
) -> Iterator[ComparedVersions]:
    """Yield the loss of each suspect; its two versions are among the first commits that were read."""
    pairs = [Comparison(one.file.table, 2 * n, 2 * n + 1) for n, one in enumerate(each)]
    each_loss = losses(con, content.files, claims, pairs, content.commits)
    for pair, loss in zip(pairs, each_loss, strict=True):
        lost, current = content.commits[pair.lost], content.commits[pair.current]
        yield ComparedVersions(loss, lost.operation, lost.unread or current.unread)


def _batches(
    con: Connection, content: CommitContents, claims: Relation, files: Sequence[CommitFile], begin: int
) -> Iterator[Batches]:
    """Yield the live files of each pair of batches, which are the commits from number `begin` on."""
    live = live_batches(con, content.files, claims, [file.table for file in files])
    for older in range(begin, len(files), 2):
        unread = content.commits[older].unread or content.commits[older + 1].unread
        yield Batches(live[older], live[older + 1], unread)


def claims_of_commits(
    evidence: Evidence,
    engine: AuditEngine,
    read: Claims,
    content: CommitContents,
    files: Sequence[CommitFile],
) -> Relation:
    """Look up the files that these commits name in the states of their tables; return CLAIM rows."""
    keys = duck.table(duck.query(evidence.con, "SELECT DISTINCT bucket, key FROM f", f=content.files))
    if not keys.num_rows:
        return duck.relation(evidence.con, CLAIM.empty_table())
    batches = query_claims(engine, [read], {file.table for file in files}, _as_relation, keys)
    return duck.relation(evidence.con, pa.Table.from_batches(batches, None if batches else CLAIM))


def _as_relation(con: Connection, claims: Rows) -> Relation:
    return duck.relation(con, claims)

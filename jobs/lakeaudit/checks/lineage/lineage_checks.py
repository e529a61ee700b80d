"""Judge signs of other states of tables than those that were read, before any file is called unused.

Witnesses of the readers are known before rows are matched, those of storage's own versions after that. A loss makes
the table's log an evidence gap; a doubt switches the leftover axis off.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from lakeaudit.checks.checksum_checks import checksum_doubts
from lakeaudit.checks.lineage.catalog_witnesses import catalog_witnesses
from lakeaudit.checks.lineage.foreign_states import foreign_states
from lakeaudit.checks.lineage.host_doubts import with_doubted_hosts
from lakeaudit.checks.lineage.lost_states import is_lost, newest_first, with_states_between
from lakeaudit.checks.lineage.missing_tables import missing_table_witnesses
from lakeaudit.checks.lineage.newer_states import newer_states
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.source_facts import storage_cuts
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import older_version
from lakeaudit.evidence.lineage import (
    ABSENT,
    DROPPED_BY_APPEND,
    FOREIGN_STATE,
    LESS_LISTED,
    LOST_STATE,
    MISSING_TABLE,
    UNMET_COUNTS,
    LostContent,
    Stake,
    Witness,
)
from lakeaudit.evidence.protocol import Claims, CommitFile, CommitLogs, EvidenceGap
from lakeaudit.findings.coverage import Tallies, Tally, together
from lakeaudit.findings.lineage import JudgedWitness, finding, judge_witnesses
from lakeaudit.keys import Location, identify
from lakeaudit.matching.prefix_match import label_around
from lakeaudit.rules.file_rules import RULES
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Relation
from lakeaudit.schemas import plain_time

MOST_LOOKED_UP = 200
"""Lost files of states whose older versions are looked up in one run."""
SAMPLES = 3
OF_OLDER_STATES = "files that older states list"


def check_witnesses(evidence: Evidence) -> Evidence:
    """Judge the witnesses of the readers, and find tables without a readable state.

    A past state that cannot be read now may have been cleaned up since: such a table is not missing.
    """
    of_readers = [
        replace(one, explained=True) if _may_be_explained(evidence, one) else one
        for read in evidence.observed.sources.claims
        for one in read.witnesses
    ]
    missing = missing_table_witnesses(evidence) if evidence.context.live else ()
    foreign = foreign_states(evidence, of_readers)
    witnesses = [*of_readers, *missing, *catalog_witnesses(evidence), *foreign]
    return with_doubted_hosts(_judge(evidence, witnesses))


def _may_be_explained(evidence: Evidence, one: Witness) -> bool:
    """Return whether the unused file that would explain a claim may be too young to count as unused."""
    if one.until is None:
        return False
    for table in (each for each in evidence.scope if each.name == one.table):
        if source := label_around(evidence.source_facts.deciding, table.location):
            cut = storage_cuts(evidence.observed.sources.storage)[source]
            age = table.settings.leftover_age + table.settings.max_upload
            return one.until + age > cut.start - cut.margin
    return True


def check_what_was_read(
    evidence: Evidence,
    marked: Sequence[Mapping[str, Any]],
    live: Mapping[str, tuple[int, int | None]],
    unused_files: Relation,
    others: Sequence[Witness] = (),
) -> Evidence:
    """Judge states of tables by evidence that only the rows show; losses and doubts become evidence gaps.

    Args:
        evidence: the evidence of the run.
        marked: MARKED_STATE rows.
        live: by table how many data files its newest state lists, and their bytes.
        unused_files: rows of unused files.
        others: witnesses of commits, older versions and counts.
    """
    by_rows = (newer_states(evidence, marked), _of_counts(evidence, live), _of_names(evidence, unused_files))
    witnesses = [*chain(*by_rows), *others]
    doubted = evidence.with_doubts(checksum_doubts(evidence, live))
    if not witnesses:
        return doubted
    return with_doubted_hosts(_judge(doubted, [*(one.witness for one in doubted.lineage), *witnesses]))


def lineage_findings(evidence: Evidence) -> list[dict[str, Any]]:
    """Return rows for FINDINGS."""
    return [finding(one) for one in evidence.lineage if one.outcome == "finding"]


def audited_before(evidence: Evidence) -> dict[str, datetime]:
    """Return by table that has lost a state the time of its last audit, without a zone."""
    lost = {one.witness.table for one in evidence.lineage if is_lost(one)}
    by_age = sorted(evidence.context.last_states.items(), key=lambda each: each[1].as_of)
    return {table: plain_time(last.as_of) for (_, table), last in by_age if table in lost}


def contested_commits(evidence: Evidence) -> list[tuple[str, str]]:
    """Return (table, commit id) of commits that may have lost a race."""
    doubts = [one.witness for one in evidence.lineage if one.is_doubt]
    return sorted({(each.table, commit) for each in doubts for commit in each.contested})


def listed_less(
    evidence: Evidence, live: Mapping[str, tuple[int, int | None]]
) -> dict[str, tuple[int | None, int | None]]:
    """Return by table with a lost state how many fewer files and bytes it lists (`live`) than at the last audit."""
    lost = {one.witness.table for one in evidence.lineage if is_lost(one)}
    before = {table: last for (_, table), last in evidence.context.last_states.items() if table in lost}
    return {
        table: _difference((last.files, last.bytes), live.get(table, (0, 0)))
        for table, last in before.items()
    }


def _difference(
    before: tuple[int | None, int | None], now: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    files, size = (
        None if one is None or other is None else one - other for one, other in zip(before, now, strict=True)
    )
    return files, size


def lineage_tallies(evidence: Evidence) -> Tallies:
    """Count claims by outcome on the axes that do not count files; claims about one subject are one finding."""
    counted = {
        (one.witness.table, axis, one.outcome, one.witness.subject if one.outcome == "finding" else number)
        for number, one in enumerate(evidence.lineage)
        if (axis := RULES[one.rule].axis) not in ("content", "leftover")
    }
    return together(*({(table, axis): Tally({outcome: 1})} for table, axis, outcome, _ in counted))


def _judge(evidence: Evidence, witnesses: Sequence[Witness]) -> Evidence:
    """Replace the run's lineage. An audit of a part of a table judges no states."""
    if evidence.partitions or not witnesses:
        return evidence
    exist = {name for read in evidence.observed.sources.claims for name, state in read.states.items()
             if state.missing not in ("", ABSENT)}  # fmt: skip
    known = {name for _, name in evidence.context.last_states} | set(evidence.named) | exist
    verdicts = judge_witnesses(
        evidence.con, _as_named(evidence, witnesses), evidence.scope, known, evidence.policy
    )
    lineage = tuple(
        _with_older_versions(evidence, newest_first(with_states_between(verdicts, _numbers(evidence))))
    )
    reported = {*evidence.observed.holes}
    lost = [gap for gap in _gaps(lineage) if gap not in reported]
    return replace(evidence, lineage=lineage).with_gaps(lost).with_doubts(_doubts(lineage))


def _as_named(evidence: Evidence, witnesses: Sequence[Witness]) -> list[Witness]:
    """Return the witnesses with locations spelled as the catalogs of their tables spell them."""
    named = {table.name: table for table in evidence.scope if table.scheme}
    return [
        replace(one, words=named[one.table].as_named(one.words)) if one.table in named else one
        for one in witnesses
    ]


def _numbers(evidence: Evidence) -> dict[str, int | None]:
    """Return by table the number of the state that was read."""
    return {
        name: state.state.number
        for read in evidence.observed.sources.claims
        for name, state in read.states.items()
        if state.state is not None
    }


def missing_tables(evidence: Evidence) -> frozenset[str]:
    """Return the tables that `table_missing` reports, which covers the missing files of their logs."""
    return frozenset(one.witness.table for one in evidence.lineage if one.witness.claim == MISSING_TABLE)


def _gaps(lineage: Sequence[JudgedWitness]) -> tuple[EvidenceGap, ...]:
    """Return gaps of the tables' own evidence: losses, which `lineage_findings` reports, and unknown older states."""
    return tuple(
        EvidenceGap("lineage", one.witness.words, one.witness.subject, one.witness.table, kind="")
        for one in lineage
        if one.is_loss
    ) + tuple(
        EvidenceGap("lineage", one.witness.words, one.witness.subject, one.witness.table, OF_OLDER_STATES)
        for one in lineage
        if one.is_gap
    )


def _doubts(lineage: Sequence[JudgedWitness]) -> dict[str, str]:
    return {one.witness.table: one.witness.words for one in lineage if one.is_doubt}


def _of_counts(evidence: Evidence, live: Mapping[str, tuple[int, int | None]]) -> Iterator[Witness]:
    """Yield witnesses of tables whose newest state lists another number of files than expected."""
    names = {table.name for table in evidence.scope}
    for read in evidence.observed.sources.claims:
        for name, files in read.expected_files.items():
            counted = live.get(name, (0, None))[0]
            if read.recount and name in names and files != counted and (witness := read.recount(name)):
                yield witness


def _of_names(evidence: Evidence, unused_files: Relation) -> Iterator[Witness]:
    """Yield witnesses of states that only the names of unlisted files show."""
    for read in evidence.observed.sources.claims:
        if read.unlisted is not None and not duck.is_empty(unused_files):
            yield from read.unlisted(evidence.con, unused_files)


_THERE = (LESS_LISTED, DROPPED_BY_APPEND, UNMET_COUNTS, FOREIGN_STATE)
"""Claims about a state whose own file exists: only the content of its older versions shows whether they help."""


def _with_older_versions(evidence: Evidence, verdicts: Sequence[JudgedWitness]) -> Iterator[JudgedWitness]:
    """Yield the verdicts; lost states get the versions that can restore them, and the files that they added."""
    readers = {name: read for read in evidence.observed.sources.claims for name in read.states}
    for number, one in enumerate(verdicts):
        if (
            not one.is_loss
            or one.witness.claim in _THERE
            or not evidence.context.live
            or number >= MOST_LOOKED_UP
        ):
            yield one
            continue
        witness = one.witness
        version = witness.version_id or _older_version(evidence, witness.subject)
        stake = _stake(evidence, witness, version, readers.get(witness.table)) if version else None
        yield replace(one, witness=replace(witness, version_id=version, **(stake or {})))


def _older_version(evidence: Evidence, subject: str) -> str | None:
    """Return the newest older version of a missing file; None if none is known."""
    place = identify(subject)
    if place is None:
        return None
    try:
        return older_version(evidence.context.clients, Location(*place))
    except SourceError:
        return None


def _stake(evidence: Evidence, witness: Witness, version: str, read: Claims | None) -> dict[str, Any] | None:
    """Return the stake of a lost state from its older version; None if that does not show it."""
    place = identify(witness.subject)
    if read is None or place is None or witness.number is None or witness.claim != LOST_STATE:
        return None
    if read.lost_content is not None:
        return _by_reader(evidence, read.lost_content, Location(*place), version)
    return None if read.commits is None else _by_commit(evidence, witness, version, read.commits)


def _by_reader(
    evidence: Evidence,
    lost_content: Callable[[Location, str, Clients], LostContent | None],
    place: Location,
    version: str,
) -> dict[str, Any] | None:
    try:
        content = lost_content(place, version, evidence.context.clients)
    except SourceError:
        return None
    return None if content is None else {"stake": content.stake, "sample": content.sample}


def _by_commit(evidence: Evidence, witness: Witness, version: str, logs: CommitLogs) -> dict[str, Any] | None:
    place = identify(witness.subject)
    if place is None or witness.number is None:
        return None
    table = next(table for table in evidence.scope if table.name == witness.table)
    lost = CommitFile(witness.table, table.location, witness.number, Location(*place), version)
    files = logs.read([lost], evidence.context.clients).files
    added = [row for row in files.to_pylist() if row["added"]]
    if not added:
        return None
    rows = [row["records"] for row in added]
    return {
        "stake": Stake(
            len(added), None if None in rows else sum(rows), sum(row["size"] or 0 for row in added)
        ),
        "sample": tuple(sorted(row["key"].rpartition("/")[2] for row in added)[:SAMPLES]),
    }

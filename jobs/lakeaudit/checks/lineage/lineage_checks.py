"""Lineage checks: other states of the tables than those that were read, judged before anything is called unused.

Witnesses of the readers are known before rows are matched, those of storage's own versions after. A loss makes the
table's log an evidence gap, a doubt switches the leftover axis off.
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
from lakeaudit.checks.lineage.lost_states import in_turn, is_lost, with_those_between
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
from lakeaudit.keys import Location, identify
from lakeaudit.matching.lineage import JudgedWitness, finding, judge_witnesses
from lakeaudit.matching.prefix_match import label_around
from lakeaudit.rules.file_rules import RULES
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Relation
from lakeaudit.schemas import plain_time

MOST_LOOKED_UP = 200
"""Lost files of states whose older versions are looked up in one run."""
SAMPLES = 3
OF_OLDER_STATES = "files that older states list"


def check_witnesses(evidence: Evidence) -> Evidence:
    """Judge what the readers' witnesses claim, and which tables have no state that can be read.

    A state of the past that cannot be read now may have been cleaned up since: such a table is not missing.
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
    """Whether the unused file that would explain a claim may be too young to count as unused."""
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
    leftovers: Relation,
    others: Sequence[Witness] = (),
) -> Evidence:
    """Judge what only the rows show of tables' states; losses and doubts become gaps of the evidence.

    Args:
        evidence: what the run knows.
        marked: MARKED_STATE rows.
        live: by table how many data files its newest state lists.
        leftovers: LEFTOVERS rows.
        others: what commits, older versions and counts contradict.
    """
    found = (newer_states(evidence, marked), _of_counts(evidence, live), _of_names(evidence, leftovers))
    witnesses = [*chain(*found), *others]
    doubted = evidence.with_doubts(checksum_doubts(evidence, live))
    if not witnesses:
        return doubted
    return with_doubted_hosts(_judge(doubted, [*(one.witness for one in doubted.lineage), *witnesses]))


def lineage_findings(evidence: Evidence) -> list[dict[str, Any]]:
    """Rows for FINDINGS."""
    return [finding(one) for one in evidence.lineage if one.outcome == "finding"]


def audited_before(evidence: Evidence) -> dict[str, datetime]:
    """When each table that has lost a state was last audited, without a zone."""
    lost = {one.witness.table for one in evidence.lineage if is_lost(one)}
    by_age = sorted(evidence.context.last_states.items(), key=lambda each: each[1].as_of)
    return {table: plain_time(last.as_of) for (_, table), last in by_age if table in lost}


def contested_commits(evidence: Evidence) -> list[tuple[str, str]]:
    """(table, commit id) of commits that may have lost a race."""
    doubts = [one.witness for one in evidence.lineage if one.is_doubt]
    return sorted({(each.table, commit) for each in doubts for commit in each.contested})


def listed_less(
    evidence: Evidence, live: Mapping[str, tuple[int, int | None]]
) -> dict[str, tuple[int | None, int | None]]:
    """By table that has lost a state how many files and bytes less it lists (`live`) than the last audit counted."""
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
    """Claims by outcome on the axes that do not count files; claims about one subject are one finding."""
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
    lineage = tuple(_looked_up(evidence, in_turn(with_those_between(verdicts, _numbers(evidence)))))
    reported = {*evidence.observed.holes}
    lost = [hole for hole in _holes(lineage) if hole not in reported]
    return replace(evidence, lineage=lineage).with_gaps(lost).with_doubts(_doubts(lineage))


def _as_named(evidence: Evidence, witnesses: Sequence[Witness]) -> list[Witness]:
    """The witnesses, whose words name places of tables as the catalogs of these do."""
    named = {table.name: table for table in evidence.scope if table.scheme}
    return [
        replace(one, words=named[one.table].as_named(one.words)) if one.table in named else one
        for one in witnesses
    ]


def _numbers(evidence: Evidence) -> dict[str, int | None]:
    """By table the number of the state that was read."""
    return {
        name: state.state.number
        for read in evidence.observed.sources.claims
        for name, state in read.states.items()
        if state.state is not None
    }


def missing_tables(evidence: Evidence) -> frozenset[str]:
    """Tables that `table_missing` reports, together with the files of their logs for want of which it does."""
    return frozenset(one.witness.table for one in evidence.lineage if one.witness.claim == MISSING_TABLE)


def _holes(lineage: Sequence[JudgedWitness]) -> tuple[EvidenceGap, ...]:
    """Gaps of the tables' own evidence: losses, whose findings are reported by `lineage_findings`, and older states."""
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
    """What contradicts the rows of tables whose newest state lists another number of files than was expected."""
    names = {table.name for table in evidence.scope}
    for read in evidence.observed.sources.claims:
        for name, files in read.expected_files.items():
            counted = live.get(name, (0, None))[0]
            if read.recount and name in names and files != counted and (witness := read.recount(name)):
                yield witness


def _of_names(evidence: Evidence, leftovers: Relation) -> Iterator[Witness]:
    """States that files name which no state lists."""
    for read in evidence.observed.sources.claims:
        if read.unlisted is not None and not duck.is_empty(leftovers):
            yield from read.unlisted(evidence.con, leftovers)


_THERE = (LESS_LISTED, DROPPED_BY_APPEND, UNMET_COUNTS, FOREIGN_STATE)
"""Claims about a state whose own file is there: what its older versions are worth only their content shows."""


def _looked_up(evidence: Evidence, verdicts: Sequence[JudgedWitness]) -> Iterator[JudgedWitness]:
    """Lost states with the versions that can bring them back, and with what they added."""
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
    """The newest older version of a file that is gone; None where none is known."""
    place = identify(subject)
    if place is None:
        return None
    try:
        return older_version(evidence.context.clients, Location(*place))
    except SourceError:
        return None


def _stake(evidence: Evidence, witness: Witness, version: str, read: Claims | None) -> dict[str, Any] | None:
    """What a lost state added, from its older version; None where that does not tell."""
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

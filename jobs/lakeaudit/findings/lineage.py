"""Judges witnesses: claims of other records about states of tables."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.lineage import (
    CATALOG,
    CUT_HISTORY,
    LESS_LISTED,
    LOSSES,
    LOST_STATE,
    RIVAL_LINE,
    Stake,
    Witness,
)
from lakeaudit.keys import Location, identify
from lakeaudit.kinds import KINDS
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.rules.file_rules import RULES
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import LINEAGE

Finding = dict[str, Any]


@dataclass(frozen=True)
class JudgedWitness:
    """A witness with its verdict; `severity` is None without a finding."""

    witness: Witness
    rule: str
    outcome: str
    severity: str | None = None

    @property
    def is_loss(self) -> bool:
        """Whether files that no readable state lists may belong to a lost state, even if the finding is ignored."""
        return self.witness.claim in LOSSES and RULES[self.rule].is_finding

    @property
    def is_doubt(self) -> bool:
        """Whether the state that was read may not be the current one."""
        return self.witness.claim in (*LOSSES, RIVAL_LINE) and self.outcome == "undecided"

    @property
    def is_gap(self) -> bool:
        """Whether older states are unknown, so that files that no state lists may be live."""
        return self.witness.claim == CUT_HISTORY and self.outcome == "undecided"


def merge_witnesses(witnesses: Iterable[Witness]) -> list[Witness]:
    """Merge witnesses that make the same claim about the same file."""
    found: dict[tuple[str, str, str], Witness] = {}
    for one in witnesses:
        at = (one.table, one.claim, one.subject)
        found[at] = _together(found[at], one) if at in found else one
    return list(found.values())


def _together(one: Witness, other: Witness) -> Witness:
    """Merge two witnesses: a value of either is used, and either may clear the claim."""
    return replace(
        one,
        evidence=tuple(dict.fromkeys([*one.evidence, *other.evidence])),
        words=one.words if other.words in one.words else f"{one.words}; {other.words}",
        number=one.number if one.number is not None else other.number,
        stake=_larger(one.stake, other.stake),
        built_on=max(one.built_on, other.built_on),
        recreated=one.recreated or other.recreated,
        explained=one.explained or other.explained,
        version_id=one.version_id or other.version_id,
        sample=one.sample or other.sample,
    )


def _larger(one: Stake, other: Stake) -> Stake:
    pairs = ((one.files, other.files), (one.rows, other.rows), (one.bytes, other.bytes))
    return Stake(*(max((each for each in pair if each is not None), default=None) for pair in pairs))


def judge_witnesses(
    con: Connection,
    witnesses: Sequence[Witness],
    tables: Sequence[Table],
    known: Collection[str],
    policy: FindingPolicy,
) -> list[JudgedWitness]:
    """Return the verdict of every witness about these tables.

    Args:
        con: where the rules are evaluated.
        witnesses: those of all tables.
        tables: the tables in scope.
        known: names of tables in the lake file, or read by an earlier audit.
        policy: the severities and ignores of the lake file.
    """
    locations = {table.name: table.location for table in tables}
    mine = [one for one in merge_witnesses(witnesses) if one.table in locations]
    rows = [(number, *_row(one, locations[one.table], known)) for number, one in enumerate(mine)]
    verdicts = duck.rows_of(group_verdicts(con, duck.small(_NUMBERED, rows), TABLE, policy))
    return [
        JudgedWitness(mine[row["number"]], row["rule"], row["outcome"], row["severity"])
        for row in sorted(verdicts, key=lambda row: row["number"])
    ]


TABLE = "lineage"
_NUMBERED = LINEAGE.insert(0, LINEAGE.field("built_on").with_name("number"))


def _row(one: Witness, location: Location, known: Collection[str]) -> tuple[object, ...]:
    bucket, key = identify(one.subject) or (location.bucket, location.prefix)
    relative = key.removeprefix(location.prefix)
    claim = (one.claim, one.proved, one.built_on, one.recreated, one.explained)
    return one.table, bucket, key, relative, *claim, one.table in known or CATALOG in one.evidence


def finding(one: JudgedWitness) -> Finding:
    """Return the FINDINGS row of a witness; a lost state adds its number as `lost_state`."""
    witness, rule = one.witness, RULES[one.rule]
    kind = KINDS[rule.verdict]
    bucket, key = identify(witness.subject) or (None, None)
    return {
        "table_name": witness.table,
        "axis": kind.axis,
        "kind": kind.name,
        "severity": one.severity,
        "subject_type": _subject_type(witness, kind.name, kind.axis),
        "subject": _subject(witness, kind.name),
        "bucket": bucket,
        "key": key,
        "category": "log",
        "table_version": witness.number,
        "commit_id": None if witness.number is None else str(witness.number),
        "files": witness.stake.files,
        "rows_at_stake": witness.stake.rows,
        "bytes_at_stake": witness.stake.bytes,
        "confirmation": "not_needed",
        "explanation": _explained(witness, rule.because),
        **_recovery(witness),
        **({"lost_state": witness.number} if witness.claim == LOST_STATE else {}),
    }


def _subject(witness: Witness, kind: str) -> str:
    """Return the subject of the finding: the table as a whole, or the file of the state."""
    return witness.table if kind in _SUBJECT_TYPES else witness.subject


_SUBJECT_TYPES = {"table_missing": "table"}


def _subject_type(witness: Witness, kind: str, axis: str) -> str:
    """Return the type of `subject`; the file of a state that lists less is intact and is not restored."""
    if axis == "commit" or witness.claim == LESS_LISTED:
        return "commit"
    return _SUBJECT_TYPES.get(kind, "file")


def _explained(witness: Witness, because: str) -> str:
    named = (
        f"; only {_state(witness)} of the table lists {', '.join(witness.sample)}" if witness.sample else ""
    )
    return f"{witness.words}; {because}{named}"


def _state(witness: Witness) -> str:
    if witness.number is not None:
        return f"version {witness.number}"
    return "the lost version" if witness.claim in LOSSES else "that version"


def _recovery(witness: Witness) -> Finding:
    if witness.claim not in LOSSES:
        return {}
    if witness.version_id is None:
        return {"recoverable": "unknown"}
    return {
        "recoverable": "yes",
        "recovery": "older_version",
        "recovery_version_id": witness.version_id,
    }

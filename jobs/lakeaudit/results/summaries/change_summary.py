"""Sums up by table and kind how discrepancies changed in one run, or which of them are open."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.advice.causes import added, causes_in_words, causes_of_all
from lakeaudit.advice.next_steps import EXPIRED, LOST_LOG, STALE_POINTER, may_be_meant
from lakeaudit.kinds import COVERAGE_LOST, WHOLE_PARTITION
from lakeaudit.results.blind_since import blind_since
from lakeaudit.results.read import Results, Row
from lakeaudit.results.recovery import Recovery

NAMED = 3
"""Number of partitions that are named; the others are counted."""

_SAME = ("table_name", "transition", "kind", "severity", "resolution")
_COLUMNS = (
    *(
        "discrepancy_id",
        "table_name",
        "kind",
        "severity",
        "resolution",
        "subject",
        "subject_type",
        "partition_path",
    ),
    *(
        "files",
        "rows_at_stake",
        "bytes_at_stake",
        "first_seen_at",
        "recoverable",
        "recoverable_until",
        "cause",
        "cause_at",
        "cause_principal",
        "explanation",
        "manifest_kind",
        "bucket",
        "key",
        "recovery",
        "recovery_version_id",
        "storage_version_id",
        "storage_size",
        "category",
    ),
)
MOST_IDS = 10
"""Number of discrepancies whose ids are named; the others are counted."""
NO_ANSWER = "no answer"
"""Stands for the null of `recoverable` in counts of findings that lose no file."""
_BACK = ("subject", "bucket", "key", "recovery", "recovery_version_id", "marker")
"""Columns from which the command that restores a file is made."""


@dataclass(frozen=True)
class Change:
    """Discrepancies of one table, kind and severity with the same transition and, once they are over, `resolution`.

    Files, rows and bytes are None where no finding states them, and a lower bound if a finding does not state them:
    `unstated` counts these findings by field. `since` is the earliest time at which one of them was
    caused, by a request or a delete marker; where that is unknown, or all are resolved, the time it was first seen.
    `recoverable` counts yes, no and unknown, `by_hand` those of them that no plan restores; `until` is when the first
    recoverable file expires; `by_cause` counts their known causes; `example` is a
    file, `back` the row of one recoverable file with the columns that its restore command needs.
    """

    table: str | None
    transition: str
    kind: str
    severity: str
    number: int
    resolution: str | None = None
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None
    unstated: Mapping[str, int] = field(default_factory=dict)
    since: datetime | None = None
    since_newest: datetime | None = None
    """The same of the newest of them; of lost coverage when an audit noticed it: `since` is the end of the evidence."""
    partitions: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    """Those of the partitions that lost every file."""
    more_partitions: int = 0
    recoverable: Mapping[str, int] = field(default_factory=dict)
    by_hand: Mapping[str, int] = field(default_factory=dict)
    until: datetime | None = None
    by_cause: Mapping[str, int] = field(default_factory=dict)
    needs_allow: Mapping[str, int] | None = None
    """By answer of `recoverable` how many a plan restores only with `--allow restore`; None: as the causes imply."""
    explanation: str | None = None
    """What audits cannot see, and why; None for other kinds than lost coverage."""
    example: str | None = None
    back: Mapping[str, Any] | None = None
    manifest_kind: str | None = None
    ids: tuple[str, ...] = ()
    """The least ids of its discrepancies, at most `MOST_IDS`."""

    @property
    def causes(self) -> tuple[str, ...]:
        """Return the causes, if every discrepancy has a known one; see `next_steps.may_be_meant`."""
        return causes_of_all(self.by_cause, self.number)

    @property
    def cause(self) -> str | None:
        """Return the cause of all of them, or how many have which cause; None: no cause is known."""
        return causes_in_words(self.by_cause, self.number) or None

    @property
    def recovery(self) -> Recovery:
        """Return how many are recoverable; those without an answer count as their kind implies."""
        unanswered = self.number - sum(self.recoverable.values()) - self.by_hand.get(NO_ANSWER, 0)
        by_hand = [
            (None if answer == NO_ANSWER else answer, number, "") for answer, number in self.by_hand.items()
        ]
        others = [(answer, n - self.by_hand.get(answer, 0), None) for answer, n in self.recoverable.items()]
        return Recovery.of_sums(
            [
                {
                    "kind": self.kind,
                    "table_name": self.table,
                    "recoverable": answer,
                    "recoverable_until": self.until,
                    "findings": number,
                    "by_hand": why,
                    "needs_allow": self._needing(answer, number),
                }
                for answer, number, why in [*by_hand, *others, (None, unanswered, None)]
                if number > 0
            ]
        )

    def _needing(self, answer: str | None, number: int) -> int:
        if self.needs_allow is not None:
            return min(self.needs_allow.get(answer or "", 0), number)
        return number if may_be_meant(self.kind, {"yes": number}, self.causes) else 0


def changes_of(results: Results, run_id: str) -> list[Change]:
    """Return the changes of one run; a discrepancy with a transition in a later run belongs to that run."""
    return _changes(_changed(results, run_id))


def _changed(results: Results, run_id: str) -> pa.Table | None:
    """Return the run's transitions, each with its row of the ledger, but for those that a later transition follows."""
    columns = ("discrepancy_id", "transition", "at")
    transitions = _read(results, "transitions", pc.field("run_id") == run_id, columns)
    if transitions is None:
        return None
    same = pc.field("discrepancy_id").isin(transitions["discrepancy_id"])
    ledger = _read(results, "discrepancies", same, _COLUMNS)
    later = pc.field("run_id").is_valid() & (pc.field("run_id") != run_id)
    later &= pc.field("at") > pc.max(transitions["at"])
    followed = _read(results, "transitions", same & later, ("discrepancy_id",))
    if ledger is None:
        return None
    changed = transitions.drop_columns("at").join(ledger, "discrepancy_id", join_type="inner")
    return changed if followed is None else changed.join(followed, "discrepancy_id", join_type="left anti")


def _read(results: Results, table: str, condition: pc.Expression, columns: Sequence[str]) -> pa.Table | None:
    batches = list(results.batches(table, condition, columns))
    return pa.Table.from_batches(batches) if batches else None


def _changes(changed: pa.Table | None) -> list[Change]:
    if changed is None or not changed.num_rows:
        return []
    changed = changed.append_column("by", _caused_by(changed))
    partitions, recoverable = _counts(changed, "partition_path"), _counts(changed, "recoverable")
    by_hand = _counts(_by_hand(changed), "answer")
    whole = _counts(changed.filter(pc.starts_with(changed["explanation"], WHOLE_PARTITION)), "partition_path")
    causes = _counts(changed, "by")
    expired = pc.fill_null(pc.starts_with(changed["cause"], EXPIRED), fill_value=False)
    needs_allow = _counts(changed.filter(pc.invert(expired)), "recoverable")
    is_file = pc.equal(changed["subject_type"], "file")
    changed = changed.append_column("example", pc.if_else(is_file, changed["subject"], None))
    changed = changed.append_column("back", _restorable_row(changed))
    is_blind = pc.equal(changed["kind"], COVERAGE_LOST)
    changed = changed.append_column("hidden", pc.if_else(is_blind, changed["explanation"], None))
    summed = [(name, how) for name in _SUMMED.values() for how in ("sum", "count")]
    changed = changed.append_column("since", _since(changed))
    names = ("since", "recoverable_until", "example", "back", "manifest_kind", "hidden")
    least = [*((name, "min") for name in names), ("since", "max")]
    grouped = changed.group_by(list(_SAME)).aggregate([*summed, *least, ([], "count_all")]).to_pylist()
    ids = _ids(changed)
    return sorted(
        (
            replace(
                _change(row, partitions, whole, recoverable, by_hand, causes, needs_allow), ids=ids[_key(row)]
            )
            for row in grouped
        ),
        key=lambda change: (
            change.table or "",
            change.transition,
            change.kind,
            change.severity,
            change.resolution or "",
        ),
    )


def _ids(changed: pa.Table) -> Mapping[tuple[Any, ...], tuple[str, ...]]:
    """Return the first ids of each group."""
    ordered = changed.select([*_SAME, "discrepancy_id"]).sort_by("discrepancy_id")
    grouped = ordered.group_by(list(_SAME), use_threads=False).aggregate([("discrepancy_id", "list")])
    first = grouped.set_column(
        grouped.schema.get_field_index("discrepancy_id_list"),
        "ids",
        pc.list_slice(grouped["discrepancy_id_list"], 0, MOST_IDS),
    )
    return {_key(row): tuple(row["ids"]) for row in first.to_pylist()}


def _since(changed: pa.Table) -> pa.ChunkedArray:
    # lost coverage states when its table was last judged, and not when the evidence was lost
    no_cause = pc.or_(pc.equal(changed["transition"], "resolved"), pc.equal(changed["kind"], COVERAGE_LOST))
    caused_at = pc.coalesce(changed["cause_at"], changed["first_seen_at"])
    return pc.if_else(no_cause, changed["first_seen_at"], caused_at)


def _restorable_row(changed: pa.Table) -> pa.ChunkedArray:
    """Join the columns of the restore command into one text, so that a group's minimum is of one row; else null."""
    marker = pc.if_else(pc.is_null(changed["storage_size"]), changed["storage_version_id"], None)
    changed = changed.append_column("marker", marker)
    parts = [pc.fill_null(changed[name], "") for name in _BACK]
    known = pc.and_(pc.equal(changed["recoverable"], "yes"), pc.equal(changed["subject_type"], "file"))
    return pc.if_else(known, pc.binary_join_element_wise(*parts, "\0"), None)


def _split(back: str | None) -> Row | None:
    """Return a row for `next_steps.way_back`; None for a key that contains the separator: nobody can type it."""
    parts = (back or "").split("\0")
    if len(parts) != len(_BACK):
        return None
    row: dict[str, Any] = dict(zip(_BACK, parts, strict=True))
    marker = row.pop("marker") or None
    return row | {
        "recoverable": "yes",
        "manifest_size": None,
        "storage_size": None,
        "storage_version_id": marker,
    }


_SUMMED = {"files": "files", "rows": "rows_at_stake", "bytes": "bytes_at_stake"}
_Counts = dict[tuple[Any, ...], Counter[str]]


def _by_hand(changed: pa.Table) -> pa.Table:
    """Return the rows that no plan repairs (`next_steps.is_by_hand`), with their `answer`: if recoverable, or none."""
    in_storage = pc.and_(pc.equal(changed["kind"], LOST_LOG), pc.is_valid(changed["storage_size"]))
    own = pc.and_(pc.equal(changed["kind"], STALE_POINTER), pc.equal(changed["category"], "log"))
    rows = changed.filter(pc.or_(in_storage, pc.fill_null(own, fill_value=False)))
    return rows.append_column("answer", pc.fill_null(rows["recoverable"], NO_ANSWER))


def _counts(changed: pa.Table, column: str) -> _Counts:
    counts: _Counts = {}
    for row in changed.group_by([*_SAME, column]).aggregate([([], "count_all")]).to_pylist():
        if row[column]:
            counts.setdefault(_key(row), Counter())[row[column]] += row["count_all"]
    return counts


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SAME)


def _change(
    row: Row,
    partitions: _Counts,
    whole: _Counts,
    recoverable: _Counts,
    by_hand: _Counts,
    causes: _Counts,
    needs_allow: _Counts,
) -> Change:
    since, newest = _times_of(row)
    places = partitions.get(_key(row), Counter())
    named = sorted(places.items(), key=lambda place: (-place[1], place[0]))[:NAMED]
    return Change(
        table=row["table_name"],
        transition=row["transition"],
        kind=row["kind"],
        severity=row["severity"],
        number=row["count_all"],
        resolution=row["resolution"],
        files=row["files_sum"],
        rows=row["rows_at_stake_sum"],
        bytes=row["bytes_at_stake_sum"],
        unstated={name: row["count_all"] - row[f"{column}_count"] for name, column in _SUMMED.items()},
        partitions=tuple(name for name, _ in named),
        whole=tuple(name for name, _ in named if name in whole.get(_key(row), ())),
        more_partitions=len(places) - len(named),
        recoverable=dict(recoverable.get(_key(row), Counter())),
        by_hand=dict(by_hand.get(_key(row), Counter())),
        until=row["recoverable_until_min"],
        by_cause=added([causes.get(_key(row), Counter())]),
        needs_allow=dict(needs_allow.get(_key(row), Counter())),
        explanation=row["hidden_min"],
        since=since,
        since_newest=newest,
        example=row["example_min"],
        back=_split(row["back_min"]),
        manifest_kind=row["manifest_kind_min"],
    )


def _times_of(row: Row) -> tuple[datetime | None, datetime | None]:
    """Return since when the oldest and the newest exist; lost coverage from the end of the evidence, if it is known."""
    if row["kind"] == COVERAGE_LOST and row["transition"] != "resolved":
        return blind_since(row["hidden_min"]) or row["since_min"], row["since_min"]
    return row["since_min"], row["since_max"]


def _caused_by(changed: pa.Table) -> pa.ChunkedArray:
    """Return the cause of each and its principal as one text; null where it is unknown."""
    principal = pc.fill_null(changed["cause_principal"], "")
    by = pc.if_else(pc.equal(principal, ""), "", pc.binary_join_element_wise(", by ", principal, ""))
    return pc.binary_join_element_wise(changed["cause"], by, "")


def still_open(results: Results, now: datetime, severity: str | None = None) -> list[Change]:
    """Return everything that is open and not accepted, as changes with the transition `open`.

    `severity` None: of every severity.
    """
    condition = pressing(now) if severity is None else pressing(now) & (pc.field("severity") == severity)
    rows = _read(results, "discrepancies", condition, _COLUMNS)
    if rows is None:
        return []
    return _changes(rows.append_column("transition", pa.array(["open"] * rows.num_rows)))


def ended_acceptances(
    results: Results, since: datetime, now: datetime, reported: Mapping[str | None, datetime]
) -> list[Change]:
    """Return what is open and was accepted until a time after `since`, as changes with the transition `open`.

    `reported` has, by table, the time until which such ends are left out.
    """
    until = pc.field("ack_until")
    ended = (pc.field("state") == "open") & (until > pa.scalar(since)) & (until <= pa.scalar(now))
    rows = _read(results, "discrepancies", ended, (*_COLUMNS, "ack_until"))
    if rows is None:
        return []
    ends = zip(rows["table_name"].to_pylist(), rows["ack_until"].to_pylist(), strict=True)
    rows = rows.filter(pa.array([end > reported.get(table, since) for table, end in ends], pa.bool_()))
    opened = pa.array(["open"] * rows.num_rows, pa.string())
    return _changes(rows.drop_columns("ack_until").append_column("transition", opened))


def pressing(now: datetime) -> pc.Expression:
    """Return the condition for discrepancies that are open and not accepted."""
    until = pc.field("ack_until")
    return (pc.field("state") == "open") & (until.is_null() | (until <= pa.scalar(now)))


KindsOpen = Mapping[str | None, Mapping[tuple[str, str], int]]
"""By table the number of open discrepancies of each kind and severity that nobody has accepted."""


def open_kinds(results: Results, now: datetime) -> KindsOpen:
    """Count by table, kind and severity the discrepancies that are open and not accepted."""
    rows = _read(results, "discrepancies", pressing(now), ("table_name", "kind", "severity"))
    found: dict[str | None, dict[tuple[str, str], int]] = {}
    by = ["table_name", "kind", "severity"]
    for row in rows.group_by(by).aggregate([([], "count_all")]).to_pylist() if rows else []:
        found.setdefault(row["table_name"], {})[row["kind"], row["severity"]] = row["count_all"]
    return found


def open_now(results: Results, now: datetime) -> dict[str | None, dict[str, int]]:
    """Count by table and severity the discrepancies that are open and not accepted."""
    return by_severity(open_kinds(results, now))


def by_severity(kinds: KindsOpen) -> dict[str | None, dict[str, int]]:
    """Return the numbers of `open_kinds` by table and severity."""
    found: dict[str | None, dict[str, int]] = {}
    for table, numbers in kinds.items():
        for (_, severity), number in numbers.items():
            of_table = found.setdefault(table, {})
            of_table[severity] = of_table.get(severity, 0) + number
    return found

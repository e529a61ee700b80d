"""A run's findings and observations meet the ledger: by a table, and DuckDB's settling against plain Python's."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.keys import digest
from lakeaudit.kinds import SEVERITIES
from lakeaudit.ledger import settle
from lakeaudit.ledger.axis_observation import AxisObservation
from lakeaudit.ledger.update_ledger import Changes, RunFindings, ledger_actions, update_ledger
from lakeaudit.runtime import duck
from lakeaudit.schemas import DISCREPANCIES, FINDINGS, TRANSITIONS, plain_time, without_zone
from tests.builders.connections import connection

Row = dict[str, Any]


def at(hour: float) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour)


NOW, CUT, EDGE = at(40), at(36), at(35)
TABLES = {"orders", "unread", "settled", "plain", "doubted"}
OBSERVATIONS = [
    *(
        AxisObservation("orders", axis, "complete", CUT, EDGE)
        for axis in ("content", "metastore", "leftover")
    ),
    AxisObservation("unread", "content", "partial", CUT, EDGE),
    AxisObservation("settled", "content", "overtaken", CUT, EDGE),
    AxisObservation("plain", "content", "off", CUT, EDGE),
    *(AxisObservation("doubted", axis, "complete", CUT, EDGE, unsure=1) for axis in ("content", "leftover")),
    AxisObservation("", "source", "complete", NOW, NOW),
]


def entry(state: str = "open", table: str | None = "orders", axis: str = "content", **given: Any) -> Row:
    """A row of the ledger, last found at 10 o'clock."""
    told = {"opened_at": at(11)} if state != "pending" else {}
    ended = {"resolved_at": at(12), "resolution": "restored"} if state == "resolved" else {}
    return {
        "state": state, "table_name": table, "axis": axis, "lake": "shop", "kind": "dropped", "severity": "critical",
        "subject_type": "file", "category": "data", "first_seen_at": at(1), "last_evidence_at": at(10), "reopened": 0,
        "first_run_id": "first", "last_run_id": "last", "files": 1,
    } | told | ended | given  # fmt: skip


def finding(table: str | None = "orders", axis: str = "content", **given: Any) -> Row:
    """A finding that a live check confirmed."""
    return {
        "table_name": table, "axis": axis, "lake": "shop", "kind": "dropped", "severity": "critical",
        "subject_type": "file", "category": "data", "confirmation": "live", "files": 1,
    } | given  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The ledger row, the finding, the resolution (and whether it is live), and the expected result."""

    held: Row | None
    found: Row | None
    said: tuple[str | None, bool] | None
    after: Mapping[str, Any] | None
    told: str | None = None


OF_CUT = {"confirmation": "none"}
ACK: Row = {"ack_by": "ann", "ack_reason": "known", "ack_until": at(99)}
BY_ANN: Row = {"cause": "deleted (REST.DELETE.OBJECT)", "cause_at": at(5), "cause_principal": "ann"}
DOUBT: Row = {"kind": "overwritten", "severity": "warning", "files": 100}
NO_ACK = dict.fromkeys(ACK)
A_STATE: Row = {"kind": "missing_metadata", "files": None, "explanation": "version 6 is gone"}
TWO_STATES: Row = A_STATE | {"explanation": "version 6 is gone; 2 states are lost together: 5, 6"}
"""Lost states whose additions are not known."""
GROUP: Row = {"axis": "leftover", "kind": "uncommitted", "severity": "warning", "subject_type": "table",
              "confirmation": "not_needed", "files": 2, "bytes_at_stake": 20, "storage_time": at(2)}  # fmt: skip
HELD_GROUP: Row = {name: value for name, value in GROUP.items() if name != "confirmation"} | ACK
OTHERS: Row = GROUP | {"storage_time": at(20)}

CASES = {
    "found and confirmed": Case(None, finding(), None, {"state": "open", "first_seen_at": NOW}, "opened"),
    "found by a cut alone": Case(None, finding(**OF_CUT), None, {"state": "pending", "last_evidence_at": CUT}),
    "needs no confirmation": Case(None, finding(confirmation="not_needed"), None, {"state": "open"}, "opened"),
    "a second cut": Case(entry("pending"), finding(**OF_CUT), None, {"state": "open", "opened_at": NOW}, "opened"),
    "unchanged": Case(entry(), finding(), None, None),
    "another kind": Case(
        entry(), finding(kind="size_mismatch"), None, {"kind": "size_mismatch", "state": "open"}, "reclassified"
    ),
    "worse than was accepted": Case(
        entry(severity="warning", **ACK), finding(), None, {"severity": "critical", **NO_ACK}, "escalated"
    ),
    "accepted and unchanged": Case(entry(**ACK), finding(), None, None),
    "accepted, and more files": Case(entry(**ACK), finding(files=2), None, {"files": 2, **NO_ACK}, "escalated"),
    "accepted, and more bytes": Case(
        entry(bytes_at_stake=9, **ACK), finding(bytes_at_stake=10), None, {"bytes_at_stake": 10, **NO_ACK}, "escalated"
    ),
    "accepted, and rows that were not known": Case(
        entry(**ACK), finding(rows_at_stake=10), None, {"rows_at_stake": 10, "state": "open"}
    ),
    "an accepted lost state, and the one before it": Case(
        entry(**A_STATE, **ACK), finding(**TWO_STATES), None,
        NO_ACK, "escalated",
    ),
    "two accepted lost states, and one more": Case(
        entry(**TWO_STATES, **ACK), finding(**A_STATE | {"explanation": "3 states are lost together"}), None,
        NO_ACK, "escalated",
    ),
    "two accepted lost states, in other words": Case(
        entry(**TWO_STATES, **ACK), finding(**A_STATE | {"explanation": "2 states are lost together"}), None,
        None,
    ),
    "two accepted lost states, of which one is back": Case(
        entry(**TWO_STATES, **ACK), finding(**A_STATE), None, None,
    ),
    "an accepted warning, and a tenth more": Case(entry(**DOUBT, **ACK), finding(**DOUBT | {"files": 110}), None, None),
    "an accepted warning, and more than a tenth more": Case(
        entry(**DOUBT, **ACK), finding(**DOUBT | {"files": 111}), None, {"files": 111, **NO_ACK}, "escalated"
    ),
    "accepted info, and much more": Case(
        entry(severity="info", **ACK), finding(severity="info", files=99), None, {"files": 99, "ack_by": "ann"}
    ),
    "an accepted group of the same files": Case(entry(**HELD_GROUP), finding(**GROUP), None, None),
    "an accepted group, and other files came": Case(
        entry(**HELD_GROUP), finding(**OTHERS), None, {"storage_time": at(20), **NO_ACK}, "escalated"
    ),
    "an accepted group, and fewer bytes of other files": Case(
        entry(**HELD_GROUP), finding(**OTHERS | {"bytes_at_stake": 9}), None,
        {"bytes_at_stake": 9, **NO_ACK}, "escalated"
    ),
    "an accepted error, and other files came": Case(
        entry(**HELD_GROUP | {"kind": "stale_visible", "severity": "error"}),
        finding(**OTHERS | {"kind": "stale_visible", "severity": "error"}), None, {**NO_ACK}, "escalated"
    ),
    "an accepted group, of which the oldest file is gone": Case(
        entry(**HELD_GROUP), finding(**OTHERS | {"files": 1}), None, {"files": 1, "ack_by": "ann"}
    ),
    "an accepted warning of other files": Case(
        entry(**HELD_GROUP | {"kind": "unreferenced"}), finding(**OTHERS | {"kind": "unreferenced"}), None, None
    ),
    "more files": Case(entry(), finding(files=7), None, {"files": 7, "state": "open"}),
    "its cause is known now": Case(entry(), finding(**BY_ANN), None, {**BY_ANN, "state": "open"}),
    "its cause was known before": Case(entry(**BY_ANN), finding(), None, None),
    "more files, and its cause was known before": Case(entry(**BY_ANN), finding(files=7), None, {"files": 7, **BY_ANN}),
    "back again, for another cause": Case(
        entry("resolved", **BY_ANN), finding(), None, {"cause": None, "cause_principal": None}, "reopened"),
    "of another kind, for another cause": Case(
        entry(**BY_ANN), finding(kind="size_mismatch"), None, {"cause": None, "cause_at": None}, "reclassified"),
    "back again": Case(entry("resolved"), finding(), None, {"state": "open", "reopened": 1, "resolution": None},
                       "reopened"),
    "put back": Case(entry(), None, ("restored", True), {"state": "resolved", "resolution": "restored"}, "resolved"),
    "put back, by the picture": Case(entry(), None, ("restored", False), {"state": "resolved", "resolved_at": NOW},
                                     "resolved"),
    "found after the picture": Case(entry(last_evidence_at=EDGE), None, ("restored", False), None),
    "could not be judged": Case(entry(), None, (None, False), None),
    "nobody lists it any more": Case(entry(), None, None, {"resolution": "reference_removed"}, "resolved"),
    "its log is whole again": Case(entry(category="log"), None, None, {"resolution": "restored"}, "resolved"),
    "no entry any more": Case(entry(axis="metastore"), None, None, {"resolution": "metastore_mended"}, "resolved"),
    "cleaned up": Case(entry(axis="leftover", subject_type="partition"), None, None, {"resolution": "restored"},
                       "resolved"),
    "cleaned up, or hidden among what could not be judged": Case(
        entry(table="doubted", axis="leftover", subject_type="partition"), None, None, None
    ),
    "put back beside what could not be judged": Case(
        entry(table="doubted"), None, ("restored", False), {"resolution": "restored"}, "resolved"
    ),
    "pending and gone": Case(entry("pending"), None, ("restored", True), {"state": "resolved", "opened_at": None}),
    "in a table read with gaps": Case(entry(table="unread"), None, ("restored", False), None),
    "in a table read with gaps, checked live": Case(entry(table="unread"), None, ("restored", True),
                                                 {"resolution": "restored"}, "resolved"),
    "newly found in a table read with gaps": Case(None, finding("unread"), None, {"state": "open"}, "opened"),
    "in a table that a newer run settled": Case(entry(table="settled"), None, ("restored", True), None),
    "newly found where a newer run was": Case(None, finding("settled"), None, None),
    "of a table without manifests now": Case(entry(table="plain"), None, None, {"resolution": "retired"}, "resolved"),
    "of a table not in the lake file": Case(entry(table="gone"), None, None, {"resolution": "retired"}, "resolved"),
    "of a table not asked for": Case(entry(axis="duplicate"), None, None, None),
    "a source": Case(None, finding(None, "source", confirmation="not_needed"), None, {"state": "open"}, "opened"),
    "a source that is whole again": Case(entry(table=None, axis="source"), None, None, {"resolution": "restored"},
                                         "resolved"),
    "resolved and quiet": Case(entry("resolved"), None, None, None),
    "found as it was before": Case(entry(), None, ("restored", False), None),
}  # fmt: skip
FOUND_LATER = "found as it was before"
"""By a run since, on evidence from after the edge: the findings know, the ledger does not."""


SINCE = duck.small(
    pa.schema([("discrepancy_id", pa.string()), ("l_found_at", pa.timestamp("us"))]),
    [(FOUND_LATER, plain_time(at(35.5)))],
)
WORDS = pa.schema([("discrepancy_id", pa.string()), ("n_resolution", pa.string()), ("n_live", pa.bool_()),
                   ("n_words", pa.string())])  # fmt: skip


@pytest.fixture(scope="module", params=["without a zone", "with a zone"])
def changes(request: pytest.FixtureRequest) -> Changes:
    """By rows as an audit holds them, and as the result tables do: on a machine far from Greenwich."""
    cases = CASES.items()
    ledger = table(DISCREPANCIES, [c.held | {"discrepancy_id": n} for n, c in cases if c.held])
    findings = table(FINDINGS, [c.found | {"discrepancy_id": n} for n, c in cases if c.found])
    if request.param == "without a zone":
        ledger, findings = ledger.cast(without_zone(DISCREPANCIES)), findings.cast(without_zone(FINDINGS))
    words = duck.small(WORDS, [(name, *case.said, None) for name, case in cases if case.said])
    con = connection()
    con.execute("SET TimeZone = 'Pacific/Auckland'")
    return update_ledger(
        con,
        duck.relation(con, ledger),
        RunFindings(findings, words, OBSERVATIONS, TABLES),
        RunStamp("tonight", "shop", NOW),
        NOW,
        lambda con, ended: duck.query(
            con, "SELECT discrepancy_id, l_found_at FROM ended JOIN since USING (discrepancy_id)", ended=ended,
            since=SINCE,
        ),
        growth=0.1,
    )  # fmt: skip


def table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


@pytest.fixture(scope="module")
def after(changes: Changes) -> dict[str, Row]:
    return {row["discrepancy_id"]: zoned(row) for row in rows_of(changes.discrepancies)}


def rows_of(rows: duck.Rows) -> list[Row]:
    return duck.rows_of(duck.relation(connection(), rows))


def zoned(row: Row) -> Row:
    return {n: v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for n, v in row.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_ledger_after_a_run(name: str, after: dict[str, Row]) -> None:
    wanted = CASES[name].after
    if wanted is None:
        assert name not in after, "it was not to change"
        return
    assert {column: after[name][column] for column in wanted} == wanted
    assert after[name]["last_run_id"] == "tonight"


def test_the_transitions_of_changes(changes: Changes) -> None:
    rows = rows_of(changes.transitions)
    assert {row["discrepancy_id"]: row["transition"] for row in rows} == {
        name: case.told for name, case in CASES.items() if case.told
    }
    assert len({row["transition_id"] for row in rows}) == len(rows)
    assert all(row["reason"] for row in rows)
    assert all(
        row["transition_id"] == digest("tonight", row["discrepancy_id"], row["transition"]) for row in rows
    )


def test_what_is_counted(changes: Changes) -> None:
    assert sum(changes.counts.values()) == sum(case.after is not None for case in CASES.values())
    assert settle.NO_CHANGE not in changes.counts


def test_columns_are_those_of_the_contract(changes: Changes) -> None:
    for rows, schema in ((changes.discrepancies, DISCREPANCIES), (changes.transitions, TRANSITIONS)):
        assert duck.table(duck.relation(connection(), rows)).schema == without_zone(schema)


def test_a_ledger_and_a_run_without_anything_change_nothing() -> None:
    con = connection()
    nothing = RunFindings(FINDINGS.empty_table(), WORDS.empty_table(), OBSERVATIONS, TABLES)
    changes = update_ledger(
        con, DISCREPANCIES.empty_table(), nothing, RunStamp("tonight", "shop", NOW), NOW, lambda *_: SINCE
    )
    assert (changes.counts, rows_of(changes.discrepancies), rows_of(changes.transitions)) == ({}, [], [])


# --- DuckDB against plain Python ------------------------------------------------------------------------------

TIMES, TEXTS, FLAGS = (None, *map(at, range(4))), (None, "a", "b"), (None, True, False)
KINDS, RANKS = (None, "dropped", "size_mismatch"), (None, 0, 1, 2)
INSTANT = pa.timestamp("us", "UTC")
COLUMNS: dict[str, tuple[Sequence[Any], pa.DataType]] = {
    "l_state": ((None, "pending", "open", "resolved"), pa.string()),
    **dict.fromkeys(("p_ack_by", "p_ack_reason"), (TEXTS, pa.string())), "p_ack_until": (TIMES, INSTANT),
    **dict.fromkeys(("l_first_seen_at", "l_last_evidence_at", "l_opened_at", "l_resolved_at", "l_ack_until",
                     "l_found_at", "r_evidence_at", "n_evidence_at", "a_edge",
                     "a_refuted_at"), (TIMES, INSTANT)),
    **dict.fromkeys(("l_resolution", "l_first_run_id", "l_last_run_id", "l_ack_by", "l_ack_reason", "n_resolution"),
                    (TEXTS, pa.string())),
    **dict.fromkeys(("l_kind", "r_kind"), (KINDS, pa.string())),
    **dict.fromkeys(("l_severity", "r_severity"), ((None, *SEVERITIES), pa.string())),
    "l_reopened": (RANKS, pa.int64()), "l_rank": (RANKS, pa.int32()), "r_rank": (RANKS, pa.int32()),
    **dict.fromkeys(("r_larger", "r_much_larger"), (FLAGS, pa.bool_())),
    **dict.fromkeys(("r_confirmed", "r_grown", "n_live", "n_folded", "a_complete"), (FLAGS, pa.bool_())),
    "a_audited": ((True, True, True, False), pa.bool_()),
    "now": ((NOW,), INSTANT), "run_id": (("r",), pa.string()),
}  # fmt: skip


SETTLE = pa.schema([(name, kind) for name, (_, kind) in COLUMNS.items()])


@settings(max_examples=3)
@given(st.integers(0, 2**32))
def test_duckdb_settles_as_plain_python_does(seed: int) -> None:
    chance = random.Random(seed)
    rows = [{name: chance.choice(values) for name, (values, _) in COLUMNS.items()} for _ in range(400)]
    given = pa.Table.from_pylist(rows, SETTLE).cast(without_zone(SETTLE))
    fired = set()
    for row, got in zip(rows, map(zoned, duck.rows_of(ledger_actions(connection(), given))), strict=True):
        rule = settle.action_of(row)
        fired.add(rule.id)
        assert (got["rule_settle"], got["action"]) == (rule.id, rule.verdict)
        assert {n: got[f"x_{n}"] for n in settle.NEXT} == settle.settled(row)
    assert len(fired) > len(settle.RULES) / 2, "too few rules were tried"

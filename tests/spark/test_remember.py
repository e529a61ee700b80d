"""A run's findings and looks meet the ledger: by a table, and Spark's settling against plain Python's."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeaudit.compare.findings import Stamp
from lakeaudit.kinds import SEVERITIES
from lakeaudit.ledger import settle
from lakeaudit.ledger.axis_observation import Look
from lakeaudit.ledger.update_ledger import Changes, Seen, _acted, remember
from lakeaudit.schemas import DISCREPANCIES, FINDINGS, TRANSITIONS

Row = dict[str, Any]


def at(hour: float) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour)


NOW, CUT, EDGE = at(40), at(36), at(35)
TABLES = {"orders", "unread", "settled", "plain", "doubted"}
LOOKS = [
    *(Look("orders", axis, "complete", CUT, EDGE) for axis in ("content", "metastore", "leftover")),
    Look("unread", "content", "partial", CUT, EDGE),
    Look("settled", "content", "overtaken", CUT, EDGE),
    Look("plain", "content", "off", CUT, EDGE),
    *(Look("doubted", axis, "complete", CUT, EDGE, unsure=1) for axis in ("content", "leftover")),
    Look("", "source", "complete", NOW, NOW),
]


def held(state: str = "open", table: str | None = "orders", axis: str = "content", **given: Any) -> Row:
    """A row of the ledger, last found at 10 o'clock."""
    told = {"opened_at": at(11)} if state != "pending" else {}
    ended = {"resolved_at": at(12), "resolution": "restored"} if state == "resolved" else {}
    return {
        "state": state, "table_name": table, "axis": axis, "lake": "shop", "kind": "dropped", "severity": "critical",
        "subject_type": "file", "category": "data", "first_seen_at": at(1), "last_evidence_at": at(10), "reopened": 0,
        "first_run_id": "first", "last_run_id": "last", "files": 1,
    } | told | ended | given  # fmt: skip


def found(table: str | None = "orders", axis: str = "content", **given: Any) -> Row:
    """A finding that a live check confirmed."""
    return {
        "table_name": table, "axis": axis, "lake": "shop", "kind": "dropped", "severity": "critical",
        "subject_type": "file", "category": "data", "confirmation": "live", "files": 1,
    } | given  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What the ledger holds, what is found, what else is said (resolution, live); what comes of it."""

    held: Row | None
    found: Row | None
    said: tuple[str | None, bool] | None
    after: Mapping[str, Any] | None
    told: str | None = None


OF_CUT = {"confirmation": "none"}
ACK: Row = {"ack_by": "ann", "ack_reason": "known", "ack_until": at(99)}
NO_ACK = dict.fromkeys(ACK)

CASES = {
    "found and confirmed": Case(None, found(), None, {"state": "open", "first_seen_at": NOW}, "opened"),
    "found by a cut alone": Case(None, found(**OF_CUT), None, {"state": "pending", "last_evidence_at": CUT}),
    "needs no confirmation": Case(None, found(confirmation="not_needed"), None, {"state": "open"}, "opened"),
    "a second cut": Case(held("pending"), found(**OF_CUT), None, {"state": "open", "opened_at": NOW}, "opened"),
    "unchanged": Case(held(), found(), None, None),
    "another kind": Case(
        held(), found(kind="size_mismatch"), None, {"kind": "size_mismatch", "state": "open"}, "reclassified"
    ),
    "worse than was accepted": Case(
        held(severity="warning", **ACK), found(), None, {"severity": "critical", **NO_ACK}, "escalated"
    ),
    "accepted and unchanged": Case(held(**ACK), found(), None, None),
    "more files": Case(held(), found(files=7), None, {"files": 7, "state": "open"}),
    "back again": Case(held("resolved"), found(), None, {"state": "open", "reopened": 1, "resolution": None},
                       "reopened"),
    "put back": Case(held(), None, ("restored", True), {"state": "resolved", "resolution": "restored"}, "resolved"),
    "put back, by the picture": Case(held(), None, ("restored", False), {"state": "resolved", "resolved_at": NOW},
                                     "resolved"),
    "found after the picture": Case(held(last_evidence_at=EDGE), None, ("restored", False), None),
    "could not be judged": Case(held(), None, (None, False), None),
    "nobody lists it any more": Case(held(), None, None, {"resolution": "reference_removed"}, "resolved"),
    "its log is whole again": Case(held(category="log"), None, None, {"resolution": "restored"}, "resolved"),
    "no entry any more": Case(held(axis="metastore"), None, None, {"resolution": "metastore_mended"}, "resolved"),
    "cleaned up": Case(held(axis="leftover", subject_type="partition"), None, None, {"resolution": "restored"},
                       "resolved"),
    "cleaned up, or hidden among what could not be judged": Case(
        held(table="doubted", axis="leftover", subject_type="partition"), None, None, None
    ),
    "put back beside what could not be judged": Case(
        held(table="doubted"), None, ("restored", False), {"resolution": "restored"}, "resolved"
    ),
    "pending and gone": Case(held("pending"), None, ("restored", True), {"state": "resolved", "opened_at": None}),
    "in a table read with gaps": Case(held(table="unread"), None, ("restored", False), None),
    "in a table read with gaps, looked at": Case(held(table="unread"), None, ("restored", True),
                                                 {"resolution": "restored"}, "resolved"),
    "newly found in a table read with gaps": Case(None, found("unread"), None, {"state": "open"}, "opened"),
    "in a table that a newer run settled": Case(held(table="settled"), None, ("restored", True), None),
    "newly found where a newer run was": Case(None, found("settled"), None, None),
    "of a table without manifests now": Case(held(table="plain"), None, None, {"resolution": "retired"}, "resolved"),
    "of a table not in the lake file": Case(held(table="gone"), None, None, {"resolution": "retired"}, "resolved"),
    "of a table not asked for": Case(held(axis="duplicate"), None, None, None),
    "a source": Case(None, found(None, "source", confirmation="not_needed"), None, {"state": "open"}, "opened"),
    "a source that is whole again": Case(held(table=None, axis="source"), None, None, {"resolution": "restored"},
                                         "resolved"),
    "resolved and quiet": Case(held("resolved"), None, None, None),
    "found as it was before": Case(held(), None, ("restored", False), None),
}  # fmt: skip
FOUND_LATER = "found as it was before"
"""By a run since, on evidence from after the edge: the findings know, the ledger does not."""


@pytest.fixture(scope="module")
def changes(spark: SparkSession) -> Changes:
    cases = CASES.items()
    ledger = frame(spark, DISCREPANCIES, [c.held | {"discrepancy_id": n} for n, c in cases if c.held])
    findings = frame(spark, FINDINGS, [c.found | {"discrepancy_id": n} for n, c in cases if c.found])
    said = [(name, *case.said) for name, case in cases if case.said]
    words = spark.createDataFrame(said, "discrepancy_id string, n_said string, n_live boolean")
    since = spark.createDataFrame([(FOUND_LATER, at(35.5))], "discrepancy_id string, l_found_at timestamp")
    seen = Seen(findings, words, LOOKS, TABLES)
    return remember(
        ledger,
        seen,
        Stamp("tonight", "shop", NOW),
        NOW,
        lambda asked: asked.join(since, "discrepancy_id").select("discrepancy_id", "l_found_at"),
    )


def frame(spark: SparkSession, schema: StructType, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


@pytest.fixture(scope="module")
def after(changes: Changes) -> dict[str, Row]:
    rows = {row.discrepancy_id: row.asDict() for row in changes.discrepancies.collect()}
    return {name: {n: v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for n, v in row.items()}
            for name, row in rows.items()}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_ledger_after_a_run(name: str, after: dict[str, Row]) -> None:
    wanted = CASES[name].after
    if wanted is None:
        assert name not in after, "it was not to change"
        return
    assert {column: after[name][column] for column in wanted} == wanted
    assert after[name]["last_run_id"] == "tonight"


def test_what_is_told_and_what_is_not(changes: Changes) -> None:
    rows = [row.asDict() for row in changes.transitions.collect()]
    assert {row["discrepancy_id"]: row["transition"] for row in rows} == {
        name: case.told for name, case in CASES.items() if case.told
    }
    assert len({row["transition_id"] for row in rows}) == len(rows)
    assert all(row["reason"] for row in rows)


def test_columns_are_those_of_the_contract(changes: Changes) -> None:
    assert typed(changes.discrepancies.schema) == typed(DISCREPANCIES)
    assert typed(changes.transitions.schema) == typed(TRANSITIONS)


def typed(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema]


# --- Spark against plain Python ------------------------------------------------------------------------------

TIMES, TEXTS, FLAGS = (None, *map(at, range(4))), (None, "a", "b"), (None, True, False)
KINDS, RANKS = (None, "dropped", "size_mismatch"), (None, 0, 1, 2)
COLUMNS: dict[str, tuple[Sequence[Any], str]] = {
    "l_state": ((None, "pending", "open", "resolved"), "string"),
    **dict.fromkeys(("l_first_seen_at", "l_last_evidence_at", "l_opened_at", "l_resolved_at", "l_ack_until",
                     "l_found_at", "r_evidence_at", "r_edge", "n_evidence_at", "a_edge"), (TIMES, "timestamp")),
    **dict.fromkeys(("l_resolution", "l_first_run_id", "l_last_run_id", "l_ack_by", "l_ack_reason", "n_said"),
                    (TEXTS, "string")),
    **dict.fromkeys(("l_kind", "r_kind"), (KINDS, "string")),
    **dict.fromkeys(("l_severity", "r_severity"), ((None, *SEVERITIES), "string")),
    "l_reopened": (RANKS, "bigint"), "l_rank": (RANKS, "int"), "r_rank": (RANKS, "int"),
    **dict.fromkeys(("r_confirmed", "r_grown", "n_live", "a_complete"), (FLAGS, "boolean")),
    "a_audited": ((True, True, True, False), "boolean"),
    "now": ((NOW,), "timestamp"), "run_id": (("r",), "string"),
}  # fmt: skip


@settings(max_examples=3)
@given(st.integers(0, 2**32))
def test_spark_settles_as_plain_python_does(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    rows = [{name: chance.choice(values) for name, (values, _) in COLUMNS.items()} for _ in range(400)]
    schema = ", ".join(f"{name} {kind}" for name, (_, kind) in COLUMNS.items())
    given = spark.createDataFrame([tuple(row.values()) for row in rows], schema)
    fired = set()
    for row, got in zip(rows, _acted(given.coalesce(1)).collect(), strict=True):
        rule = settle.action_of(row)
        fired.add(rule.id)
        assert (got.rule_settle, got.action) == (rule.id, rule.verdict)
        assert {n: plain(got[f"x_{n}"]) for n in settle.NEXT} == settle.settled(row)
    assert len(fired) > len(settle.RULES) / 2, "too few rules were tried"


def plain(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value

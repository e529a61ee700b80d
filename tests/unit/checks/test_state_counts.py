"""Counts of states: when fewer files than an earlier audit counted are a loss, and which count stays on record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lakeaudit.checks.lineage.state_counts import counted_whole, less_listed
from lakeaudit.evidence.lineage import LESS_LISTED, LastState, StateRef
from lakeaudit.evidence.protocol import EvidenceGap, TableState
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.ledger.last_states import ReadTables, state_rows
from tests.builders.delta_lake import table

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
ORDERS = table("orders", "s3://lake/orders")
STATE = StateRef(4, "4.json", "id", NOON - timedelta(days=3), "etag", "s3://lake/orders/_delta_log/4.json")
READ = TableState("orders", NOON, None, state=STATE)
LAST = LastState(STATE, NOON - timedelta(days=1), "before", ORDERS.location.uri, 9, 900, comparable=True)


def audit(state: TableState, last: LastState, **given: Any) -> Any:
    reads = [SimpleNamespace(info=SimpleNamespace(kind="delta"), states={"orders": state})]
    reads += given.get("more", [])
    return SimpleNamespace(
        partitions=given.get("partitions", ()),
        scope=[ORDERS],
        observed=SimpleNamespace(sources=SimpleNamespace(claims=reads)),
        context=SimpleNamespace(live=given.get("live", True), last_states={("delta", "orders"): last}),
    )


def other(**given: Any) -> TableState:
    return replace(READ, state=replace(STATE, **given))


LISTED = replace(LAST, state=replace(STATE, number=None))
CASES: dict[str, tuple[TableState, LastState, dict[str, Any], bool]] = {
    "the same state": (READ, LAST, {}, True),
    "the same state, whose table id is not known now": (other(table_id=""), LAST, {}, True),
    "a file of its timeline is older than the last audit": (
        replace(READ, changed_at=NOON - timedelta(days=2)), LAST, {}, True,
    ),
    "as many files": (READ, replace(LAST, files=6), {}, False),
    "more files": (READ, replace(LAST, files=5), {}, False),
    "never counted": (READ, replace(LAST, files=None), {}, False),
    "counted by another version of lakeaudit": (READ, replace(LAST, comparable=False), {}, False),
    "a newer state": (other(number=5, name="5.json", etag="new"), LAST, {}, False),
    "the file of the state was written again": (other(etag="new"), LAST, {}, False),
    "a store without ETags": (other(etag=""), replace(LAST, state=replace(STATE, etag="")), {}, False),
    "another table": (other(table_id="new"), LAST, {}, False),
    "the table has moved": (READ, replace(LAST, location="s3://lake/old/"), {}, False),
    "a file was written to its timeline since": (
        replace(READ, changed_at=NOON - timedelta(hours=1)), LAST, {}, False,
    ),
    "not read whole": (replace(READ, complete=False), LAST, {}, False),
    "an evidence gap": (READ, LAST, {"holes": [EvidenceGap("m", "torn", "s3://lake/x", "orders")]}, False),
    "partitions alone": (READ, LAST, {"partitions": ("day=1",)}, False),
    "an audit of the past": (READ, LAST, {"live": False}, False),
    "lists without numbers, which went with their files": (other(number=None), LISTED, {}, False),
    "lists without numbers, and files that none names": (
        other(number=None), LISTED, {"unused": {"orders"}}, True,
    ),
    "a second manifest": (
        READ, LAST,
        {"more": [SimpleNamespace(info=SimpleNamespace(kind="file_list"), states={"orders": READ})]}, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_which_counts_show_a_loss(name: str) -> None:
    state, last, given, expected = CASES[name]
    run = audit(state, last, **given)
    counted = counted_whole(run, {"orders": (6, 600)}, given.get("holes", []))
    found = list(less_listed(run, counted, lambda: given.get("unused", ())))
    assert [each.claim for each in found] == ([LESS_LISTED] if expected else [])
    if expected:
        (witness,) = found
        assert (witness.stake.files, witness.stake.bytes, witness.subject) == (3, 300, STATE.uri)


@pytest.mark.parametrize(
    ("state", "last", "counted", "expected"),
    [
        (READ, LAST, {"orders": (6, 600)}, (9, 900)),
        (READ, LAST, {}, (9, 900)),
        (READ, LAST, {"orders": (12, 1200)}, (12, 1200)),
        (READ, replace(LAST, comparable=False), {"orders": (6, 600)}, (6, 600)),
        (other(number=5, name="5.json", etag="new"), LAST, {"orders": (6, 600)}, (6, 600)),
        (other(number=5, name="5.json", etag="new"), LAST, {}, (None, None)),
    ],
)
def test_the_largest_count_of_a_state_stays_on_record(
    state: TableState, last: LastState, counted: dict[str, tuple[int, int]], expected: tuple[int, int]
) -> None:
    reads = audit(state, last).observed.sources.claims
    before = {("delta", "orders"): last}
    (row,) = state_rows(reads, [ORDERS], before, (), ReadTables(counted), RunStamp("now", "shop", NOON))
    assert (row["files"], row["bytes"]) == expected

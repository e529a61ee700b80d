"""States of other tables: which ids are doubts, and whose state stays on record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lakeaudit.checks.lineage.foreign_states import foreign_states
from lakeaudit.evidence.lineage import FOREIGN_STATE, RIVAL_LINE, LastState, LostState, StateRef, Witness
from lakeaudit.evidence.protocol import TableState
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.findings.lineage import JudgedWitness
from lakeaudit.ledger.last_states import ReadTables, state_rows
from tests.builders.delta_lake import table

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
ORDERS, SALES = "s3://lake/orders", "s3://lake/sales"
TABLES = [table("orders", ORDERS), table("sales", SALES)]


def last(table_id: str, location: str = f"{ORDERS}/", **given: Any) -> LastState:
    return LastState(StateRef(4, "4.json", table_id), NOON - timedelta(days=1), "before", location, **given)


def audit(before: dict[str, LastState], now: dict[str, str], kind: str = "delta") -> Any:
    states = {
        name: TableState(name, NOON, None, state=StateRef(9, "9.json", table_id))
        for name, table_id in now.items()
    }
    read = SimpleNamespace(info=SimpleNamespace(kind="delta"), states=states)
    return SimpleNamespace(
        lake=SimpleNamespace(tables=TABLES),
        observed=SimpleNamespace(sources=SimpleNamespace(claims=[read])),
        context=SimpleNamespace(last_states={(kind, name): each for name, each in before.items()}),
    )


PLACES = {each.name: each.location.uri for each in TABLES}
A, B = last("a", PLACES["orders"]), last("b", PLACES["sales"])
CASES: dict[str, tuple[dict[str, LastState], dict[str, str], str, list[str]]] = {
    "the id of a table that was audited elsewhere": ({"orders": A, "sales": B}, {"orders": "b"}, "delta", ["orders"]),
    "the id of a table that this run reads elsewhere": (
        {"orders": A}, {"orders": "b", "sales": "b"}, "delta", ["orders"],
    ),
    "exchanged": ({"orders": A, "sales": B}, {"orders": "b", "sales": "a"}, "delta", ["orders", "sales"]),
    "the same table": ({"orders": A, "sales": B}, {"orders": "a", "sales": "b"}, "delta", []),
    "created again in place": ({"orders": A, "sales": B}, {"orders": "c", "sales": "b"}, "delta", []),
    "a registered copy": ({"sales": B}, {"orders": "b", "sales": "b"}, "delta", []),
    "a copy from the first audit on": (
        {"orders": last("b", PLACES["orders"]), "sales": B}, {"orders": "b"}, "delta", [],
    ),
    "a table that moved here and left its place": (
        {"orders": A, "gone": replace(B, departed=True)}, {"orders": "b"}, "delta", [],
    ),
    "moved from another place": ({"orders": last("a", "s3://lake/old/"), "sales": B}, {"orders": "b"}, "delta", []),
    "an id that is not known now": ({"orders": A, "sales": B}, {"orders": ""}, "delta", []),
    "an id that was not known": ({"orders": last("", PLACES["orders"]), "sales": B}, {"orders": "b"}, "delta", []),
    "another format": ({"orders": A, "sales": B}, {"orders": "b"}, "iceberg", []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_id_of_another_location_is_a_doubt_where_another_table_was_audited(case: str) -> None:
    before, now, kind, expected = CASES[case]
    found = list(foreign_states(audit(before, now, kind), ()))
    assert [each.table for each in found] == expected
    assert all(each.claim == FOREIGN_STATE and not each.proved for each in found)
    if expected == ["orders"]:
        assert f"belongs to the table at {PLACES['sales']}" in found[0].words
        assert list(foreign_states(audit(before, now, kind), found)) == []


@pytest.mark.parametrize(
    ("claim", "rule", "outcome", "expected"),
    [
        (FOREIGN_STATE, "pointer.state_foreign", "finding", [("a", "read"), ("a", "lost"), ("a", "elsewhere")]),
        (FOREIGN_STATE, "content.table_doubted", "undecided", [("a", "read"), ("a", "lost"), ("a", "elsewhere")]),
        (RIVAL_LINE, "content.line_doubted", "undecided", [("b", "read")]),
    ],
)  # fmt: skip
def test_the_own_state_stays_on_record_while_that_of_another_table_is_read(
    claim: str, rule: str, outcome: str, expected: list[tuple[str, str]]
) -> None:
    lost = (LostState(StateRef(5, "5.json", "a"), NOON - timedelta(days=2)),)
    before = {("delta", "orders"): replace(A, lost=lost, hosts=frozenset({"s3://lake/host/"}))}
    run = audit({"orders": A}, {"orders": "b"})
    judged = [JudgedWitness(Witness("orders", claim, (), f"{SALES}/9.json", "w"), rule, outcome)]
    seen = ReadTables({"orders": (6, 600)})
    rows = state_rows(
        run.observed.sources.claims, TABLES[:1], before, judged, seen, RunStamp("now", "shop", NOON)
    )
    assert [(row["table_id"], row["standing"]) for row in rows] == expected


def test_the_state_of_another_table_is_not_recorded_at_the_first_audit() -> None:
    run = audit({}, {"orders": "b"})
    witness = Witness("orders", FOREIGN_STATE, (), f"{SALES}/9.json", "w")
    judged = [JudgedWitness(witness, "content.table_doubted", "undecided")]
    given: Any = (TABLES[:1], {}, judged, ReadTables(), RunStamp("now", "shop", NOON))
    assert state_rows(run.observed.sources.claims, *given) == []

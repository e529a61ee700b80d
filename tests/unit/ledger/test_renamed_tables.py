"""Accepted findings of a table stay accepted under its new name if only the name changed."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.config import Table
from lakeaudit.evidence.lineage import LastState, StateRef, with_moved
from lakeaudit.findings.finding_rows import RunStamp, from_plain
from lakeaudit.keys import Location
from lakeaudit.ledger.axis_observation import AxisObservation
from lakeaudit.ledger.renamed_tables import (
    Renames,
    renames,
    under_current_names,
    under_new_names,
    warnings,
)
from lakeaudit.ledger.update_ledger import RunFindings, update_ledger
from lakeaudit.runtime import duck
from lakeaudit.schemas import DISCREPANCIES, FINDINGS
from tests.builders.connections import connection

HERE, THERE = "s3://lake/orders", "s3://lake/moved"
Row = dict[str, Any]


def at(hour: float) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour)


def state(hour: float = 1, table_id: str = "x", location: str = HERE) -> LastState:
    return LastState(StateRef(7, table_id=table_id), at(hour), "r", location)


def now(table_id: str = "x", location: str = HERE) -> tuple[str, StateRef]:
    return location, StateRef(8, table_id=table_id)


BOTH = "income and sales both have its location and table id"
BEFORE = {"orders": state()}
CASES: dict[str, tuple[Mapping[str, LastState], Mapping[str, tuple[str, StateRef]], set[str], Renames]] = {
    "another name": (BEFORE, {"sales": now()}, {"sales"}, Renames({"orders": "sales"})),
    "the name is still declared": (BEFORE, {"sales": now()}, {"orders", "sales"}, Renames()),
    "the location moved, the id is equal": (BEFORE, {"sales": now(location=THERE)}, {"sales"}, Renames()),
    "created again at the location": (BEFORE, {"sales": now("y")}, {"sales"}, Renames()),
    "a format that names no id": (
        {"orders": state(table_id="")}, {"sales": now("")}, {"sales"},
        Renames({}, {"orders": "sales has its location, and the format names no id of a table"}),
    ),
    "two new names": (
        BEFORE, {"sales": now(), "income": now()}, {"sales", "income"}, Renames({}, {"orders": BOTH}),
    ),
    "renamed back": (
        {"orders": state(1), "sales": state(2)}, {"orders": now()}, {"orders"}, Renames({"sales": "orders"}),
    ),
    "renamed twice": (
        {"orders": state(1), "sales": state(2)}, {"income": now()}, {"income"}, Renames({"sales": "income"}),
    ),
    "the new name was audited since": ({"orders": state(1), "sales": state(2)}, {"sales": now()}, {"sales"}, Renames()),
    "the new name was audited before": (
        {"orders": state(2), "sales": state(1)}, {"sales": now()}, {"sales"}, Renames({"orders": "sales"}),
    ),
    "no state could be read": (BEFORE, {}, {"sales"}, Renames()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_which_table_takes_over(name: str) -> None:
    before, now, known, wanted = CASES[name]
    found = renames(
        {("delta", table): state for table, state in before.items()},
        {("delta", table): state for table, state in now.items()},
        known,
    )
    assert found == wanted


MOVED: dict[str, tuple[Mapping[str, LastState], dict[str, int], str]] = {
    "another name and place": ({"orders": state()}, {"sales": 5}, "sales"),
    "the furthest of two copies": ({"orders": state()}, {"sales": 5, "trial": 3}, "sales"),
    "another place alone": ({"orders": state()}, {"orders": 5, "trial": 6}, ""),
    "a copy of a table that others have as well": (
        {"orders": state(), "twin": state(location="s3://lake/twin")}, {"sales": 5}, "",
    ),
    "an older table of that name departed": (
        {"orders": state(), "sales": state(table_id="y", location="s3://lake/old")}, {"sales": 5}, "sales",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MOVED)
def test_a_table_that_got_another_name_and_place_is_known_by_its_id(case: str) -> None:
    before, numbers, expected = MOVED[case]
    departed = {("delta", name): replace(last, departed=True) for name, last in before.items()}
    read = [(name, StateRef(number, table_id="x")) for name, number in numbers.items()]
    found = with_moved(departed, "delta", read)
    taken = {name for (_, name), last in found.items() if not last.departed}
    assert taken == ({expected} if expected else set())
    assert with_moved(departed, "iceberg", read) is departed


def test_states_of_places_without_a_table_are_marked() -> None:
    before = {("delta", "orders"): state(), ("delta", "old"): state(location=THERE)}
    table = Table(name="sales", location=Location.parse(HERE))
    found = under_current_names(before, [table])
    assert {name for (_, name), last in found.items() if last.departed} == {"old"}


def test_another_format_at_the_location_takes_nothing_over() -> None:
    assert renames({("delta", "orders"): state()}, {("iceberg", "sales"): now()}, {"sales"}) == Renames()


def test_a_warning_names_acceptances_that_do_not_carry_over() -> None:
    several = Renames({}, {"orders": BOTH})
    (said,) = warnings(several, {"orders"})
    assert said == f"acknowledgements of orders do not carry over: {BOTH}"
    assert warnings(several, ()) == ()


# --- the ledger -----------------------------------------------------------------------------------------------

NOW = at(40)
ACK: Row = {"ack_by": "ann", "ack_reason": "known", "ack_until": at(99)}
FILE = {"axis": "content", "subject_type": "file", "kind": "dropped", "severity": "critical", "files": 1}
GROUP = {"axis": "leftover", "subject_type": "table", "kind": "uncommitted", "severity": "info", "files": 4}


def ledger_row(about: Row, subject: str, **given: Any) -> Row:
    """A row of the ledger under the old name."""
    times = {"last_evidence_at": at(10), "opened_at": at(9), "first_seen_at": at(9), "reopened": 0}
    named = {"table_name": "orders", "lake": "shop", "subject": subject, "discrepancy_id": f"old {subject}"}
    return {
        **about,
        **times,
        **named,
        **ACK,
        "state": "open",
        "first_run_id": "r",
        "last_run_id": "r",
    } | given


def row(about: Row, subject: str, **given: Any) -> Row:
    return {**about, "table_name": "sales", "subject": subject, "confirmation": "live"} | given


LEDGER = {
    "equal": (ledger_row(FILE, "s3://lake/orders/a"), row(FILE, "s3://lake/orders/a"), ("open", "ann")),
    "retired with the old name": (
        ledger_row(FILE, "s3://lake/orders/b", state="resolved", resolution="retired", resolved_at=at(30)),
        row(FILE, "s3://lake/orders/b"), ("open", "ann"),
    ),
    "of the whole table": (
        ledger_row(GROUP, "orders#uncommitted"),
        row(GROUP, "sales#uncommitted", confirmation="not_needed"), ("open", "ann"),
    ),
    "one cut alone": (
        ledger_row(FILE, "s3://lake/orders/c"), row(FILE, "s3://lake/orders/c", confirmation="none"),
        ("pending", "ann"),
    ),
    "grown since": (ledger_row(FILE, "s3://lake/orders/d"), row(FILE, "s3://lake/orders/d", files=2), ("open", None)),
    "worse now": (
        ledger_row(FILE, "s3://lake/orders/e", severity="error"), row(FILE, "s3://lake/orders/e"), ("open", None),
    ),
    "another file": (ledger_row(FILE, "s3://lake/orders/f"), row(FILE, "s3://lake/orders/g"), ("open", None)),
}  # fmt: skip


def table(schema: pa.Schema, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


def test_what_was_accepted_is_accepted_under_the_new_name() -> None:
    con = connection()
    ledger = table(DISCREPANCIES, [old for old, _, _ in LEDGER.values()])
    stamp = RunStamp("tonight", "shop", NOW)
    findings = duck.hold(con, from_plain(con, [new for _, new, _ in LEDGER.values()], stamp))
    former = under_new_names(con, ledger, {"orders": "sales"}, "shop")
    observed = [
        AxisObservation("sales", axis, "complete", at(36), at(35)) for axis in ("content", "leftover")
    ]
    words = pa.schema([("discrepancy_id", pa.string()), ("n_resolution", pa.string()), ("n_live", pa.bool_()),
                       ("n_words", pa.string())]).empty_table()  # fmt: skip
    seen = RunFindings(findings, words, observed, {"sales"}, former=former)
    changes = update_ledger(con, ledger, seen, stamp, NOW, lambda *_: FINDINGS.empty_table())
    rows = {row["subject"]: row for row in duck.rows_of(duck.relation(con, changes.discrepancies))
            if row["table_name"] == "sales"}  # fmt: skip
    for name, (_, new, wanted) in LEDGER.items():
        row = rows[new["subject"]]
        assert (row["state"], row["ack_by"]) == wanted, name
    reasons = {
        row["discrepancy_id"]: row["reason"] for row in duck.rows_of(duck.relation(con, changes.transitions))
    }
    assert reasons[rows["s3://lake/orders/a"]["discrepancy_id"]].endswith(
        "; accepted under its former name orders"
    )
    assert "former name" not in reasons[rows["s3://lake/orders/d"]["discrepancy_id"]]


PLACES: dict[str, tuple[Mapping[str, LastState], dict[str, str], dict[str, LastState]]] = {
    "another name": (BEFORE, {"sales": HERE}, {"sales": state()}),
    "the name is still declared there": (BEFORE, {"orders": HERE, "sales": HERE}, {}),
    "the name is declared elsewhere now": (BEFORE, {"orders": THERE, "sales": HERE}, {"sales": state()}),
    "another location": (BEFORE, {"sales": THERE}, {}),
    "the new name was audited there": ({"orders": state(2), "sales": state(1)}, {"sales": HERE}, {}),
    "the new name was audited elsewhere": (
        {"orders": state(1), "sales": state(2, location=THERE)}, {"sales": HERE}, {"sales": state(1)},
    ),
    "renamed twice": ({"orders": state(1), "visits": state(2)}, {"sales": HERE}, {"sales": state(2)}),
}  # fmt: skip


@pytest.mark.parametrize("case", PLACES)
def test_the_last_states_of_a_renamed_table_are_those_of_its_location(case: str) -> None:
    before, places, expected = PLACES[case]
    tables = [
        Table(name=name, location=Location("lake", uri.rpartition("/")[2])) for name, uri in places.items()
    ]
    of_delta = {("delta", name): last for name, last in before.items()}
    marked = under_current_names(of_delta, tables)
    found = {place: replace(last, departed=False) for place, last in marked.items()}
    assert {name: last for (_, name), last in found.items() if before.get(name) != last} == expected

"""The ledger's tables in Delta: what a killed run left is put right, and what earlier runs know is found."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakeaudit.keys import Location
from lakeaudit.ledger.ledger_tables import ABANDONED, FEW, LedgerTables
from lakeaudit.ledger.update_ledger import Changes
from lakeaudit.results.read import Results
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import KNOWN, RESULTS, plain_time
from tests.builders.connections import connection

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]


@pytest.fixture
def writer(place: Location) -> ResultsWriter:
    return open_results(Results(place, Clients(), "shop"), lambda: None)


def table(name: str, *rows: Row) -> pa.Table:
    whole = [{n: ({"lake": "shop"} | row).get(n) for n in RESULTS[name].names} for row in rows]
    return pa.Table.from_pylist(whole, RESULTS[name])


def ids(place: Location, name: str, column: str) -> list[str]:
    return sorted(DeltaTable(place.join(name).spark_path).to_pyarrow_table()[column].to_pylist())


def run(run_id: str, status: str) -> Row:
    return {"run_id": run_id, "lake": "shop", "status": status, "as_of": NOON, "started_at": NOON}


def transition_row(number: int, of: str, run_id: str) -> Row:
    return {"transition_id": f"t{number}", "discrepancy_id": of, "run_id": run_id, "transition": "opened"}


def test_findings_that_the_ledger_shows_as_resolved_or_not_at_all(writer: ResultsWriter) -> None:
    states = {"a": "pending", "b": "open", "c": "resolved"}
    held = [{"discrepancy_id": name, "state": state} for name, state in states.items()]
    writer.replace_rows("discrepancies", table("discrepancies", *held), "discrepancy_id")
    found = pa.table({"discrepancy_id": ["a", "b", "c", "d"], "table_name": ["orders"] * 4})
    with connection() as con:
        left = duck.rows_of(LedgerTables(writer).not_in_ledger(con, found))
    assert sorted(row["discrepancy_id"] for row in left) == ["c", "d"]


def test_transitions_of_a_killed_run_stay_if_the_ledger_knows_them(
    writer: ResultsWriter, place: Location
) -> None:
    """Run k wrote both transitions, and of the ledger, before it was killed, nothing of b."""
    writer.put_run(run("k", "running"))
    writer.append(
        "transitions",
        table(
            "transitions",
            transition_row(1, "a", "k"),
            transition_row(2, "b", "k"),
            transition_row(3, "b", "x"),
        ),
    )
    held = [{"discrepancy_id": "a", "last_run_id": "k"}, {"discrepancy_id": "b", "last_run_id": "x"}]
    writer.replace_rows("discrepancies", table("discrepancies", *held), "discrepancy_id")
    ledger = LedgerTables(writer)
    for _ in range(2):
        ledger.fail_abandoned_runs([run("k", "running")], NOON)
    assert ids(place, "transitions", "transition_id") == ["t1", "t3"]
    (row,) = DeltaTable(place.join("runs").spark_path).to_pyarrow_table().to_pylist()
    assert (row["status"], row["finished_at"], row["error"]) == ("failed", NOON, ABANDONED)


def test_nobody_killed_and_nothing_changed_write_nothing(writer: ResultsWriter, place: Location) -> None:
    ledger, none = LedgerTables(writer), table("transitions")
    ledger.fail_abandoned_runs([], NOON)
    ledger.publish(Changes(table("discrepancies"), none, {}))
    assert not Path(place.join("transitions").spark_path).exists()
    assert not Path(place.join("discrepancies").spark_path).exists()
    assert ledger.still_open(["orders"], "r") is None
    assert ledger.standing(NOON).states == {}


def test_rows_of_another_lake_are_not_touched(writer: ResultsWriter, place: Location) -> None:
    other = open_results(Results(place, Clients(), "other"), lambda: None)
    theirs = {"discrepancy_id": "a", "state": "open", "lake": "other"}
    other.replace_rows("discrepancies", table("discrepancies", theirs), "discrepancy_id")
    mine = table("discrepancies", {"discrepancy_id": "a", "state": "resolved"})
    writer.replace_rows("discrepancies", mine, "discrepancy_id")
    writer.remove_rows("discrepancies", mine, "discrepancy_id")
    (row,) = DeltaTable(place.join("discrepancies").spark_path).to_pyarrow_table().to_pylist()
    assert (row["lake"], row["state"]) == ("other", "open")


def test_the_open_rows_of_the_ledger_and_the_rows_to_check_again(writer: ResultsWriter) -> None:
    file: Row = {"axis": "content", "subject_type": "file", "table_name": "orders", "state": "open",
                 "first_seen_at": NOON, "last_evidence_at": NOON, "first_run_id": "first",
                 "last_run_id": "earlier"}  # fmt: skip
    later, past = NOON + timedelta(days=1), NOON - timedelta(days=1)
    rows = [
        file | {"discrepancy_id": "open", "ack_until": later},
        file | {"discrepancy_id": "pending", "state": "pending", "ack_until": past},
        file | {"discrepancy_id": "mine", "state": "pending", "last_run_id": "r"},
        file | {"discrepancy_id": "opened", "last_run_id": "r"},
        file | {"discrepancy_id": "new", "first_run_id": "r", "last_run_id": "r"},
        file | {"discrepancy_id": "resolved", "state": "resolved"},
        file | {"discrepancy_id": "group", "axis": "leftover", "subject_type": "partition"},
        file | {"discrepancy_id": "elsewhere", "table_name": "customers"},
    ]
    writer.replace_rows("discrepancies", table("discrepancies", *rows), "discrepancy_id")
    ledger = LedgerTables(writer)
    found = ledger.still_open(["orders"], "r")
    assert found is not None
    assert found.schema == KNOWN
    assert set(found["judged_table"].to_pylist()) == {"orders"}
    told = {row["known_as"]: row["known_at"] for row in found.to_pylist()}
    assert told["open"] == plain_time(NOON)
    assert set(told) == {"open", "pending", "mine", "opened", "new"}
    assert {name for name, known in told.items() if known is None} == {"mine", "new"}, (
        "a finding of this run is not a second one"
    )
    for refuted_at, first in ((NOON, True), (past, False)):
        again = ledger.still_open(["orders"], "r", {("orders", "content"): refuted_at})
        assert again is not None
        told = {row["known_as"]: row["known_at"] for row in again.to_pylist()}
        assert (told["pending"] > plain_time(later)) is first, "refuted evidence is not the first one"
        assert (told["open"], told["mine"]) == (plain_time(NOON), None)
    standing = ledger.standing(NOON)
    assert standing.states == {"open": 5, "pending": 2, "resolved": 1}
    assert standing.accepted is not None
    assert standing.accepted["discrepancy_id"].to_pylist() == ["open"]


def test_the_newest_evidence_of_any_run(writer: ResultsWriter) -> None:
    """Return the run's own time for a live check, else the time of its snapshot."""
    day, cut = date(2026, 11, 21), NOON - timedelta(hours=6)
    about = {"table_name": "orders", "axis": "content"}
    found = {"discrepancy_id": "a", "as_of_date": day, "confirmation": "none", **about}
    live = found | {"discrepancy_id": "b", "confirmation": "live"}
    old = found | {"discrepancy_id": "c", "as_of_date": date(2026, 11, 1)}
    writer.write("findings", table("findings", *({"run_id": "r"} | f for f in (found, live, old))), "r")
    writer.put("coverage", [{"run_id": "r", "lake": "shop", "storage_cut_from": cut, **about}], "r")
    writer.put_run(run("r", "complete"))
    asked = pa.schema([*((name, pa.string()) for name in ("discrepancy_id", "table_name", "axis")),
                       ("l_last_evidence_at", pa.timestamp("us"))])  # fmt: skip
    con, last = connection(), plain_time(cut - timedelta(hours=1))
    ended = duck.relation(con, duck.small(asked, [(each, "orders", "content", last) for each in "abc"]))
    since = duck.rows_of(LedgerTables(writer).found_since(con, ended))
    assert {row["discrepancy_id"]: row["l_found_at"].replace(tzinfo=UTC) for row in since} == {
        "a": cut,
        "b": NOON,
    }


@pytest.mark.parametrize("few", [FEW, 1])
def test_of_a_ledger_only_what_may_change_is_loaded(
    writer: ResultsWriter, place: Location, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times lose their zone and not their hour, also on a machine far from Greenwich."""
    rows = [{"discrepancy_id": f"{state}{n}", "state": state, "first_seen_at": NOON}
            for state in ("pending", "open", "resolved") for n in range(2)]  # fmt: skip
    writer.replace_rows("discrepancies", table("discrepancies", *rows), "discrepancy_id")
    con = connection()
    con.execute("SET TimeZone = 'Pacific/Auckland'")
    monkeypatch.setattr("lakeaudit.ledger.ledger_tables.FEW", few)
    ledger = LedgerTables(writer)

    def loaded(*found: str) -> list[str]:
        findings = table("findings", *({"discrepancy_id": each} for each in found))
        return sorted(row["discrepancy_id"] for row in duck.rows_of(ledger.rows(con, findings)))

    unresolved = ["open0", "open1", "pending0", "pending1"]
    assert loaded() == unresolved
    assert loaded("open1", "resolved1", "new") == [*unresolved, "resolved1"]
    assert {row["first_seen_at"] for row in duck.rows_of(ledger.rows(con, table("findings")))} == {
        plain_time(NOON)
    }
    other = LedgerTables(open_results(Results(place, Clients(), "other"), lambda: None))
    assert duck.rows_of(other.rows(con, table("findings"))) == []


def test_rows_that_delta_rs_rewrote_are_read_as_before(writer: ResultsWriter, place: Location) -> None:
    """Its files hold string views, which pyarrow does not filter as they are."""
    for state in ("pending", "open"):
        rows = table("discrepancies", *({"discrepancy_id": f"{n}", "state": state} for n in range(3)))
        writer.replace_rows("discrepancies", rows, "discrepancy_id")
    (file,) = DeltaTable(place.join("discrepancies").spark_path).file_uris()
    assert pa.string_view() in pq.read_schema(file).types
    assert LedgerTables(writer).standing(NOON).states == {"open": 3}
    assert duck.table(LedgerTables(writer).rows(connection(), table("findings"))).num_rows == 3

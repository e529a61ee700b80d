"""The ledger's tables in Delta: what a killed run left is put right, and what earlier runs know is found."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from lakeaudit.keys import Location
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.ledger.update_ledger import Changes
from lakeaudit.results.read import Results
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime.aws import Clients
from lakeaudit.schemas import RESULTS

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]


@pytest.fixture
def place(tmp_path: Path) -> Location:
    return Location.parse(str(tmp_path / "results"))


@pytest.fixture
def writer(spark: SparkSession, place: Location) -> ResultsWriter:
    return open_results(spark, Results(place, Clients(), "shop"), lambda: None)


def frame(spark: SparkSession, name: str, *rows: Row) -> DataFrame:
    names = RESULTS[name].names
    return spark.createDataFrame(
        [tuple(({"lake": "shop"} | row).get(n) for n in names) for row in rows], RESULTS[name]
    )


def ids(place: Location, name: str, column: str) -> list[str]:
    return sorted(DeltaTable(place.join(name).spark_path).to_pyarrow_table()[column].to_pylist())


def run(run_id: str, status: str) -> Row:
    return {"run_id": run_id, "lake": "shop", "status": status, "as_of": NOON, "started_at": NOON}


def told(number: int, of: str, run_id: str) -> Row:
    return {"transition_id": f"t{number}", "discrepancy_id": of, "run_id": run_id, "transition": "opened"}


def test_transitions_of_a_killed_run_stay_if_the_ledger_knows_them(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    """Run k wrote both transitions, and of the ledger, before it was killed, nothing of b."""
    writer.put_run(run("k", "running"))
    writer.append(
        "transitions", frame(spark, "transitions", told(1, "a", "k"), told(2, "b", "k"), told(3, "b", "x"))
    )
    held = [{"discrepancy_id": "a", "last_run_id": "k"}, {"discrepancy_id": "b", "last_run_id": "x"}]
    writer.replace_rows("discrepancies", frame(spark, "discrepancies", *held), "discrepancy_id")
    ledger = LedgerTables(writer)
    for _ in range(2):
        ledger.bury([run("k", "running")], NOON)
    assert ids(place, "transitions", "transition_id") == ["t1", "t3"]
    (row,) = DeltaTable(place.join("runs").spark_path).to_pyarrow_table().to_pylist()
    assert (row["status"], row["finished_at"], row["error"]) == ("failed", NOON, "it ended without a word")


def test_nobody_killed_and_nothing_changed_write_nothing(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    ledger, none = LedgerTables(writer), frame(spark, "transitions")
    ledger.bury([], NOON)
    ledger.publish(Changes(frame(spark, "discrepancies"), none, {}))
    assert not Path(place.join("transitions").spark_path).exists()
    assert not Path(place.join("discrepancies").spark_path).exists()
    assert ledger.still_open(["orders"], "r") is None
    assert ledger.standing(NOON).states == {}


def test_rows_of_another_lake_are_not_touched(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    other = open_results(spark, Results(place, Clients(), "other"), lambda: None)
    theirs = {"discrepancy_id": "a", "state": "open", "lake": "other"}
    other.replace_rows("discrepancies", frame(spark, "discrepancies", theirs), "discrepancy_id")
    mine = frame(spark, "discrepancies", {"discrepancy_id": "a", "state": "resolved"})
    writer.replace_rows("discrepancies", mine, "discrepancy_id")
    writer.remove_rows("discrepancies", mine, "discrepancy_id")
    (row,) = DeltaTable(place.join("discrepancies").spark_path).to_pyarrow_table().to_pylist()
    assert (row["lake"], row["state"]) == ("other", "open")


def test_how_the_ledger_stands_and_what_is_looked_at_again(
    spark: SparkSession, writer: ResultsWriter
) -> None:
    file: Row = {"axis": "content", "subject_type": "file", "table_name": "orders", "state": "open",
                 "first_seen_at": NOON, "first_run_id": "first", "last_run_id": "earlier"}  # fmt: skip
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
    writer.replace_rows("discrepancies", frame(spark, "discrepancies", *rows), "discrepancy_id")
    ledger = LedgerTables(writer)
    found = ledger.still_open(["orders"], "r")
    assert found is not None
    told = {row.discrepancy_id: row.known_at for row in found.collect()}
    assert set(told) == {"open", "pending", "mine", "opened", "new"}
    assert {name for name, known in told.items() if known is None} == {"mine", "new"}, (
        "what this run found is no second look"
    )
    standing = ledger.standing(NOON)
    assert standing.states == {"open": 5, "pending": 2, "resolved": 1}
    assert standing.accepted is not None
    assert [row.discrepancy_id for row in standing.accepted.collect()] == ["open"]


def test_the_newest_evidence_of_any_run(spark: SparkSession, writer: ResultsWriter) -> None:
    """Of a live check the run's own time, else the time of the picture that the run judged by."""
    day, cut = date(2026, 11, 21), NOON - timedelta(hours=6)
    about = {"table_name": "orders", "axis": "content"}
    found = {"discrepancy_id": "a", "as_of_date": day, "confirmation": "none", **about}
    live = found | {"discrepancy_id": "b", "confirmation": "live"}
    old = found | {"discrepancy_id": "c", "as_of_date": date(2026, 11, 1)}
    writer.write(
        "findings", frame(spark, "findings", *({"run_id": "r"} | f for f in (found, live, old))), "r"
    )
    writer.put("coverage", [{"run_id": "r", "lake": "shop", "storage_cut_from": cut, **about}], "r")
    writer.put_run(run("r", "complete"))
    schema = "discrepancy_id string, table_name string, axis string, l_last_evidence_at timestamp"
    asked = [(each, "orders", "content", cut - timedelta(hours=1)) for each in "abc"]
    since = LedgerTables(writer).found_since(spark.createDataFrame(asked, schema))
    assert {row.discrepancy_id: row.l_found_at.replace(tzinfo=UTC) for row in since.collect()} == {
        "a": cut,
        "b": NOON,
    }

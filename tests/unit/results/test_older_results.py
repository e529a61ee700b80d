"""Results of an older version: tables without the columns and the comments that were added since."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from lakeaudit.descriptions import commented
from lakeaudit.errors import CannotPublish
from lakeaudit.keys import Location
from lakeaudit.results import sql
from lakeaudit.results.acknowledgements import Ack, append_transitions, put_ack_on_all
from lakeaudit.results.read import Results
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import RESULTS, rows_of
from tests.builders.results import NOON, discrepancy, finding, run, transition

Row = dict[str, Any]

LOST = finding("dropped", "orders/a", rows_at_stake=50)
OLD: dict[str, list[Row]] = {
    "runs": [run("r1", sources=[])],
    "findings": [LOST],
    "transitions": [transition(LOST, "opened")],
    "discrepancies": [discrepancy(LOST)],
}
OWNED = finding("dropped", "orders/b", "r2", owner="ann")
NEW: dict[str, list[Row]] = {
    "runs": [run("r2", sources=[])],
    "findings": [OWNED],
    "transitions": [transition(OWNED, "opened", transition_id="t2", owner="ann")],
    "discrepancies": [discrepancy(OWNED)],
}


def lay(place: Location, name: str, lacking: tuple[str, ...] = ("owner",)) -> None:
    """A result table as an older version wrote it."""
    schema = pa.schema([field for field in RESULTS[name] if field.name not in lacking])
    rows = [{column: row.get(column) for column in schema.names} for row in OLD[name]]
    write_deltalake(place.join(name).spark_path, pa.Table.from_pylist(rows, schema))


@pytest.fixture
def older(place: Location) -> Location:
    for name in OLD:
        lay(place, name)
    return place


def results_at(place: Location) -> Results:
    return Results(place, Clients(), "shop").leased_by(lambda: None)


def opened(place: Location) -> ResultsWriter:
    return open_results(results_at(place), lambda: None)


def delta(place: Location, name: str) -> DeltaTable:
    return DeltaTable(place.join(name).spark_path)


def rows_in(place: Location, name: str) -> list[Row]:
    """All rows with all columns, in the order of their ids."""
    rows = results_at(place).batches(name, pc.scalar(True))
    return sorted(rows_of(rows), key=lambda row: str(row.get("discrepancy_id")) + str(row.get("run_id")))


def whole(name: str, *rows: Row) -> list[Row]:
    return [{column: row.get(column) for column in RESULTS[name].names} for row in rows]


def write(writer: ResultsWriter, name: str) -> None:
    rows = pa.Table.from_pylist(whole(name, *NEW[name]), RESULTS[name])
    if name == "runs":
        writer.put(name, NEW[name], "r2")
    elif name == "findings":
        writer.write(name, rows, "r2")
    elif name == "transitions":
        writer.append(name, rows)
    else:
        writer.replace_rows(name, rows, "discrepancy_id")


@pytest.mark.parametrize("name", ["findings", "transitions", "discrepancies"])
def test_a_missing_column_is_null(older: Location, name: str) -> None:
    assert rows_in(older, name) == whole(name, *OLD[name])
    unowned = results_at(older).batches(name, pc.field("owner").is_null(), ["owner", "lake"])
    assert list(rows_of(unowned)) == [{"owner": None, "lake": "shop"}]
    assert sql.ask(results_at(older), f"SELECT owner, count(*) AS n FROM {name} GROUP BY owner", name) == [
        {"owner": None, "n": 1}
    ]


@pytest.mark.parametrize("name", OLD)
def test_older_rows_stay_as_they_are_when_new_rows_are_written(older: Location, name: str) -> None:
    write(opened(older), name)
    assert rows_in(older, name) == whole(name, *OLD[name], *NEW[name])


def test_older_discrepancies_are_accepted(older: Location) -> None:
    """`ack` and `baseline` write without an audit before them."""
    results = results_at(older)
    ack = Ack("ann", "rebuilt", NOON)
    rows = results.unresolved()
    put_ack_on_all(results, ack)
    append_transitions(results, rows, ack, NOON)
    assert [row["ack_by"] for row in rows_in(older, "discrepancies")] == ["ann"]
    written = {row["transition"]: row["owner"] for row in rows_in(older, "transitions")}
    assert written == {"opened": None, "acknowledged": None}


@pytest.mark.parametrize("name", OLD)
def test_the_next_write_adds_columns_and_comments_by_one_commit(older: Location, name: str) -> None:
    writer = opened(older)
    assert delta(older, name).version() == 0, "to open the results changes nothing"
    write(writer, name)
    assert delta(older, name).version() == 2
    assert comments(delta(older, name)) == {field.name: text_of(field) for field in commented(name)}
    write(opened(older), name)
    assert delta(older, name).version() == 3, "nothing is missing any more"


def comments(table: DeltaTable) -> dict[str, str]:
    return {field.name: field.metadata.get("comment", "") for field in table.schema().fields}


def text_of(field: pa.Field) -> str:
    return str(field.metadata[b"comment"].decode())


def test_a_comment_of_an_owner_of_the_table_stays(older: Location) -> None:
    delta(older, "findings").alter.set_column_metadata("kind", {"comment": "ours"})
    write(opened(older), "findings")
    found = comments(delta(older, "findings"))
    assert (found["kind"], found["severity"]) == ("ours", text_of(commented("findings").field("severity")))


def test_elements_of_lists_have_comments(older: Location) -> None:
    write(opened(older), "runs")
    fields = json.loads(delta(older, "runs").schema().to_json())["fields"]
    (sources,) = [field["type"]["elementType"]["fields"] for field in fields if field["name"] == "sources"]
    assert all(field["metadata"]["comment"] for field in sources)
    opened(older)  # the comments of elements do not change the type


@pytest.mark.parametrize("column", ["rows_at_stake", "verdict_of_next_year"])
def test_a_column_of_another_type_or_of_a_later_version_is_refused(place: Location, column: str) -> None:
    lay(place, "findings", ("owner", "rows_at_stake"))
    table = delta(place, "findings")
    table.alter.add_columns([Field(column, PrimitiveType("string"))])
    with pytest.raises(CannotPublish, match=rf"findings: .*another version .*columns {column}\)"):
        opened(place)

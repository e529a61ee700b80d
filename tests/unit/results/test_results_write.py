"""The rows of the result tables after runs, repeated runs and killed runs."""

import json
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.descriptions import describe
from lakeaudit.errors import CannotPublish
from lakeaudit.keys import Location
from lakeaudit.results import delta_writer
from lakeaudit.results.read import Results
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import COVERAGE, DISCREPANCIES, FINDINGS, LEFTOVER_FILES, RESULTS, without_zone
from tests.conftest import Aws

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = date(2026, 11, 21)
HERE = Clients()
SPARKS = Path(__file__).parents[2] / "data" / "spark_results"
"""`findings` and `discrepancies` as Spark wrote them."""


def alone() -> None:
    """Nobody else writes."""


def opened(place: Location, lake: str = "shop", at: Clients = HERE) -> ResultsWriter:
    return open_results(Results(place, at, lake), alone)


def rows(schema: pa.Schema, *given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in given], schema)


def run_row(run_id: str, status: str, lake: str = "shop") -> dict[str, Any]:
    source = {"role": "storage", "kind": "listing", "location": "s3://lake/wh", "identity": "x", "rows": 7}
    return {"run_id": run_id, "lake": lake, "status": status, "started_at": NOON, "sources": [source]}


def finding(run_id: str, key: str, day: date = DAY, lake: str = "shop") -> dict[str, Any]:
    return {"run_id": run_id, "lake": lake, "as_of_date": day, "kind": "dropped", "key": key}


def leftover(run_id: str, table: str, key: str) -> dict[str, Any]:
    return {"run_id": run_id, "lake": "shop", "table_name": table, "key": key}


@pytest.fixture
def writer(place: Location) -> ResultsWriter:
    writer = opened(place)
    writer.put_run(run_row("r1", "running"))
    return writer


def table(place: Location, name: str) -> pa.Table:
    """As delta-rs sees it: no deletion vectors, no column mapping."""
    return pa.table(DeltaTable(place.join(name).spark_path).to_pyarrow_table())


def keys(place: Location, name: str = "findings") -> list[str]:
    return sorted(table(place, name)["key"].to_pylist())


def test_a_run_has_one_row_whatever_its_state(writer: ResultsWriter, place: Location) -> None:
    assert table(place, "runs")["status"].to_pylist() == ["running"]
    writer.put_run(run_row("r1", "complete"))
    (row,) = table(place, "runs").to_pylist()
    assert (row["status"], row["started_at"]) == ("complete", NOON)
    assert row["sources"][0]["location"] == "s3://lake/wh"
    assert row["sources"][0]["cut_from"] is None
    writer.put_run(run_row("r1", "running"))
    assert table(place, "runs")["status"].to_pylist() == ["running"], "begun again is not finished"


def test_an_unknown_column_of_runs_is_a_fault_of_ours(writer: ResultsWriter) -> None:
    with pytest.raises(ValueError, match="wheather"):
        writer.put_run(run_row("r1", "complete") | {"wheather": "sunny"})


def test_a_run_repeated_replaces_its_own_rows_only(writer: ResultsWriter, place: Location) -> None:
    writer.write("findings", rows(FINDINGS, finding("r1", "a"), finding("r1", "b")), "r1")
    writer.write("findings", rows(FINDINGS, finding("r2", "c")), "r2")
    writer.write("findings", rows(FINDINGS, finding("r1", "b")), "r1")
    assert keys(place) == ["b", "c"]


def test_a_run_repeated_for_another_day_leaves_no_row_behind(writer: ResultsWriter, place: Location) -> None:
    writer.write("findings", rows(FINDINGS, finding("r1", "old", date(2026, 11, 20))), "r1")
    writer.write("findings", rows(FINDINGS, finding("r1", "new")), "r1")
    assert keys(place) == ["new"]


def test_a_run_that_finds_nothing_any_more_leaves_nothing(writer: ResultsWriter, place: Location) -> None:
    writer.write("findings", rows(FINDINGS, finding("r1", "a")), "r1")
    writer.write("findings", rows(FINDINGS), "r1")
    assert keys(place) == []


def test_lakes_that_share_a_place_and_a_run_id_keep_apart(writer: ResultsWriter, place: Location) -> None:
    writer.write("findings", rows(FINDINGS, finding("r1", "a")), "r1")
    other = opened(place, "it's\\other")
    other.put_run(run_row("r1", "running", lake="it's\\other"))
    other.write("findings", rows(FINDINGS, finding("r1", "b", lake="it's\\other")), "r1")
    assert keys(place) == ["a", "b"]
    assert table(place, "runs").num_rows == 2


def test_leftover_files_of_other_runs_stay_while_a_run_writes_its_own(
    writer: ResultsWriter, place: Location
) -> None:
    writer.write("leftover_files", rows(LEFTOVER_FILES, leftover("r1", "orders", "a")), "r1")
    for key in ("b", "c"):
        writer.write("leftover_files", rows(LEFTOVER_FILES, leftover("r2", "orders", key)), "r2")
    assert keys(place, "leftover_files") == ["a", "c"]


def relation(con: Connection, number: int, fault: str = "NULL") -> Relation:
    """Findings as an audit holds them: of DuckDB, times without a zone, in no order."""
    given = {"run_id": "'r1'", "lake": "'shop'", "as_of_date": f"DATE '{DAY}'", "axis": fault,
             "key": f"lpad((n * 7919 % {number})::VARCHAR, 9, '0')",
             "storage_time": "TIMESTAMP '2026-11-21 12:00:00'"}  # fmt: skip
    return duck.conform(
        con,
        duck.query(con, f"SELECT n FROM range({number}) AS numbers(n)"),
        without_zone(FINDINGS),
        dict.fromkeys(FINDINGS.names, "NULL") | given,
    )


def test_what_duckdb_holds_becomes_one_file_of_ordered_stretches(
    writer: ResultsWriter, place: Location
) -> None:
    """Its times are UTC, wherever the machine is."""
    con = duck.connect(threads=2)
    con.execute("SET TimeZone = 'Pacific/Auckland'")
    writer.write("findings", relation(con, 250_000), "r1")
    (file,) = DeltaTable(place.join("findings").spark_path).file_uris()
    in_file = pq.read_table(file)["key"].to_pylist()
    assert sum(one > other for one, other in pairwise(in_file)) <= 2, "three batches came"
    written = table(place, "findings")
    assert written.num_rows == 250_000
    assert pa.compute.unique(written["storage_time"]).to_pylist() == [NOON]


def test_of_nothing_over_nothing_there_is_no_commit(writer: ResultsWriter, place: Location) -> None:
    for _ in range(3):
        writer.write("findings", rows(FINDINGS), "r1")
    assert DeltaTable(place.join("findings").spark_path).version() == 0, "the table itself is there"


def test_rows_without_a_run_or_a_table_are_nobodys_to_replace(writer: ResultsWriter, place: Location) -> None:
    """A condition that is neither true nor false of a row keeps it."""
    nobodys = leftover("r0", "orders", "a") | {"run_id": None, "table_name": None}
    writer.append("leftover_files", rows(LEFTOVER_FILES, nobodys, leftover("r1", "orders", "b")))
    writer.write("leftover_files", rows(LEFTOVER_FILES), "r1")
    assert keys(place, "leftover_files") == ["a"]


def test_the_log_of_many_commits_is_short(writer: ResultsWriter, place: Location) -> None:
    for _ in range(21):
        writer.put_run(run_row("r1", "running"))
    log = Path(place.join("runs", "_delta_log").spark_path)
    assert [path.name[:20] for path in sorted(log.glob("*.checkpoint.parquet"))] == [
        f"{n:020}" for n in (10, 20)
    ]
    assert table(place, "runs").num_rows == 1


def test_tables_that_spark_wrote_go_on_being_used(place: Location) -> None:
    """They were created by releases that wrote with Spark, and have the properties of those."""
    shutil.copytree(SPARKS, place.spark_path)
    before = {name: DeltaTable(place.join(name).spark_path) for name in ("findings", "discrepancies")}
    writer = opened(place)
    writer.write("findings", rows(FINDINGS, finding("r1", "new")), "r1")
    changed = [{"discrepancy_id": f"d{n}", "lake": "shop", "state": "resolved"} for n in (2, 3)]
    writer.replace_rows("discrepancies", rows(DISCREPANCIES, *changed), "discrepancy_id")
    assert keys(place) == ["new"]
    states = table(place, "discrepancies")
    assert sorted(zip(states["discrepancy_id"].to_pylist(), states["state"].to_pylist(), strict=True)) == [
        ("d0", "open"), ("d1", "open"), ("d2", "resolved"), ("d3", "resolved"),
    ]  # fmt: skip
    for name, old in before.items():
        new = DeltaTable(place.join(name).spark_path)
        assert (new.protocol(), new.metadata().configuration) == (
            old.protocol(),
            old.metadata().configuration,
        )
        assert types(new) == types(old) | {"owner": "string"}


def types(table: DeltaTable) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in json.loads(table.schema().to_json())["fields"]}


# --- killed, and run again ---------------------------------------------------------------------------------

GIVEN: dict[str, list[dict[str, Any]]] = {
    "coverage": [{"run_id": "r1", "lake": "shop", "table_name": "orders", "axis": "content", "files": 3}],
    "leftover_files": [leftover("r1", "orders", "x")],
    "findings": [finding("r1", f"k{n}") for n in range(9)],
    "commits": [{"run_id": "r1", "lake": "shop", "table_name": "orders", "version": n} for n in range(3)],
    "states": [
        {"run_id": "r1", "lake": "shop", "table_name": "orders", "manifest_kind": "delta", "number": 3}
    ],
    "transitions": [{"transition_id": "t1", "run_id": "r1", "lake": "shop", "transition": "opened"}],
    "discrepancies": [{"discrepancy_id": f"d{n}", "lake": "shop", "state": "open"} for n in range(3)],
    "verified": [{"run_id": "r1", "lake": "shop", "table_name": "orders", "movement": "same"}],
    "tables": [{"lake": "shop", "table_name": name} for name in ("events", "orders")],
    "notices": [{"notice_id": "n1", "run_id": "r1", "lake": "shop", "status": "sent"}],
}
SMALL = ("coverage", "verified", "tables", "notices")
KEYED = {"transitions": "transition_id", "discrepancies": "discrepancy_id"}


class Killed(Exception):
    """The error that stops a run between two writes."""


def write(writer: ResultsWriter, name: str, *, breaks_off: bool = False) -> None:
    if name == "tables":
        writer.put_all(name, GIVEN[name])
        return
    if name in SMALL:
        writer.put(name, GIVEN[name], "r1")
        return
    given = rows(RESULTS[name], *GIVEN[name])
    frame: Rows = broken(given) if breaks_off else given
    if name in KEYED:
        writer.replace_rows(name, frame, KEYED[name])
    else:
        writer.write(name, frame, "r1")


def whole_run(writer: ResultsWriter, stop: str = "") -> None:
    """A run that stops before writing `stop`, or before its end."""
    writer.put_run(run_row("r1", "running"))
    for name in GIVEN:
        if name == stop:
            raise Killed
        write(writer, name)
    if stop == "finish":
        raise Killed
    writer.put_run(run_row("r1", "complete"))


class BrokenOffError(Exception):
    """The error of evidence while its rows are written."""


def broken(given: pa.Table) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from given.to_batches()
        raise BrokenOffError("the evidence broke off")

    return pa.RecordBatchReader.from_batches(given.schema, batches())


def holds_exactly(place: Location, names: Iterable[str] = GIVEN) -> bool:
    return all(
        sorted(map(str, table(place, name).to_pylist()))
        == sorted(str({column: row.get(column) for column in RESULTS[name].names}) for row in GIVEN[name])
        for name in names
    )


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> Location:
    """The results of a run that was killed between any two writes, and then ran to its end."""
    place = Location.parse(str(tmp_path_factory.mktemp("survived") / "results"))
    writer = opened(place)
    for stop in (*GIVEN, "finish"):
        with pytest.raises(Killed):
            whole_run(writer, stop=stop)
        assert table(place, "runs")["status"].to_pylist() == ["running"]
    whole_run(writer)
    return place


def test_killed_between_any_writes_and_run_again(survived: Location) -> None:
    assert table(survived, "runs")["status"].to_pylist() == ["complete"]
    assert holds_exactly(survived)


def test_plain_readers_can_read_every_table(survived: Location) -> None:
    for name, schema in RESULTS.items():
        log = Path(survived.join(name, "_delta_log", "0" * 20 + ".json").spark_path).read_text()
        actions = [json.loads(line) for line in log.splitlines()]
        (protocol,) = [action["protocol"] for action in actions if "protocol" in action]
        assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
        assert table(survived, name).column_names == schema.names
        fields = DeltaTable(survived.join(name).spark_path).schema().fields
        assert all(field.nullable for field in fields)
        assert [field.metadata["comment"] for field in fields] == [
            describe(name, each) for each in schema.names
        ]
    assert DeltaTable(survived.join("findings").spark_path).metadata().partition_columns == ["as_of_date"]


def test_killed_inside_any_write_and_run_again(writer: ResultsWriter, place: Location) -> None:
    for name in sorted(GIVEN.keys() - set(SMALL)):
        with pytest.raises(Exception, match="the evidence broke off"):
            write(writer, name, breaks_off=True)
        assert not Path(place.join(name, "_delta_log", "0" * 20 + ".json").spark_path).exists()
        write(writer, name)
    with pytest.raises(Exception, match="the evidence broke off"):
        write(writer, "findings", breaks_off=True)
    assert holds_exactly(place, GIVEN.keys() - set(SMALL)), "a broken write leaves what was there"


# --- refusals, before any long work ------------------------------------------------------------------------


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CannotPublish, match="no folder can be made there") as refused:
        opened(Location.parse(str(tmp_path / "file" / "results")))
    assert refused.value.exit_code == 14


def test_a_table_with_other_columns_is_refused(place: Location) -> None:
    others = rows(FINDINGS).append_column("verdict_of_next_year", pa.array([], pa.int32()))
    write_deltalake(place.join("findings").spark_path, others)
    with pytest.raises(CannotPublish, match=r"findings: .*another version .*verdict_of_next_year"):
        opened(place)


def test_a_table_that_plain_readers_lost_is_refused(place: Location) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    write_deltalake(place.join("coverage").spark_path, rows(COVERAGE), configuration=vectors)
    with pytest.raises(CannotPublish, match=r"coverage: .*Delta reader version 3"):
        opened(place)


def test_a_damaged_table_is_refused(place: Location) -> None:
    log = Path(place.join("runs", "_delta_log").spark_path)
    log.mkdir(parents=True)
    (log / f"{'0' * 20}.json").write_text('{"protocol": nonsense')
    with pytest.raises(CannotPublish, match=r"runs: .*cannot be written"):
        opened(place)


def test_a_bucket_that_does_not_exist_is_refused(clients: Clients) -> None:
    with pytest.raises(CannotPublish, match=r"s3://no-such-bucket-here/x: the bucket does not exist"):
        opened(Location("no-such-bucket-here", "x"), at=clients)


def test_a_bucket_that_disappears_is_reported_as_such(bucket: str, aws: Aws, s3: Endpoint) -> None:
    writer = opened(Location(bucket, "results"), at=Clients(s3))
    for found in aws.s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        aws.s3.delete_object(Bucket=bucket, Key=found["Key"])
    aws.s3.delete_bucket(Bucket=bucket)
    with pytest.raises(CannotPublish, match="the bucket does not exist"):
        writer.put_run(run_row("r1", "running"))


def test_a_refusal_is_reported_as_such(bucket: str, s3: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)  # the server now knows nobody
    with pytest.raises(CannotPublish, match="may not be written; grant"):
        opened(Location(bucket, "results"), at=Clients(s3))


def test_a_table_that_another_run_creates_meanwhile_does_not_get_the_rows_twice(place: Location) -> None:
    """The other run creates the table after this one has seen that there is none, and before its commit."""
    results, schema = Results(place, HERE, "shop").leased_by(alone), RESULTS["transitions"]
    row = rows(schema, {"lake": "shop", "run_id": "r1", "discrepancy_id": "d"})

    def created_meanwhile() -> Iterator[pa.RecordBatch]:
        other = Thread(target=delta_writer.append, args=(results.again(), "transitions", row))
        other.start()
        other.join()
        yield from row.to_batches()

    with pytest.raises(CannotPublish):
        delta_writer.append(
            results, "transitions", pa.RecordBatchReader.from_batches(schema, created_meanwhile())
        )
    assert table(place, "transitions")["discrepancy_id"].to_pylist() == ["d"]


def one_transition(place: Location, run_id: str, by: Results | None = None) -> None:
    row = rows(RESULTS["transitions"], {"lake": "shop", "run_id": run_id, "discrepancy_id": run_id})
    delta_writer.append(by or Results(place, HERE, "shop"), "transitions", row)


def transitions(results: Results) -> list[str]:
    batches = results.batches("transitions", pc.scalar(True), ["run_id"])
    return sorted(row["run_id"] for batch in batches for row in batch.to_pylist())


def test_results_again_open_only_the_tables_that_were_written_meanwhile(
    writer: ResultsWriter, place: Location
) -> None:
    writer.put_run(run_row("r1", "complete"))
    one_transition(place, "r1")
    before = Results(place, HERE, "shop")
    assert (len(before.runs()), transitions(before)) == (1, ["r1"])
    one_transition(place, "r2")
    again = before.again()
    assert (transitions(before), transitions(again)) == (["r1"], ["r1", "r2"])
    assert again.runs() == before.runs()
    assert again.delta("runs") is before.delta("runs")
    writer.put_run(run_row("r1", "failed"))
    assert [each.runs()[0]["status"] for each in (before, again, again.again())] == [
        "complete", "complete", "failed",
    ]  # fmt: skip


@pytest.mark.parametrize("writes", range(3))
def test_results_that_write_leave_others_the_rows_they_opened(place: Location, writes: int) -> None:
    one_transition(place, "r1")
    first = Results(place, HERE, "shop")
    first.version("transitions")
    second = first.again()
    second.version("transitions")
    third = second.again()
    every = (first, second, third)
    assert [each.version("transitions") for each in every] == [0, 0, 0]
    one_transition(place, "r2", by=every[writes])
    one_transition(place, "r3", by=every[writes])
    others = [each for each in every if each is not every[writes]]
    assert [transitions(each) for each in others] == [["r1"], ["r1"]]
    assert [transitions(each.again()) for each in every] == [["r1", "r2", "r3"]] * 3

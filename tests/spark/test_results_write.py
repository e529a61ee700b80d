"""What stands in the result tables after runs, runs again, and runs that were killed."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakeaudit.errors import CannotPublish
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime.aws import Clients, Endpoint
from lakeaudit.schemas import COVERAGE, FINDINGS, LEFTOVER_FILES, RESULTS
from tests.conftest import Aws

pytestmark = pytest.mark.spark

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = date(2026, 11, 21)
HERE = Clients()


def alone() -> None:
    """Nobody else writes."""


def opened(spark: SparkSession, place: Location, lake: str = "shop", at: Clients = HERE) -> ResultsWriter:
    return open_results(spark, Results(place, at, lake), alone)


def rows(spark: SparkSession, schema: StructType, *given: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in given], schema)


def run_row(run_id: str, status: str, lake: str = "shop") -> dict[str, Any]:
    source = {"role": "storage", "kind": "listing", "location": "s3://lake/wh", "identity": "x", "rows": 7}
    return {"run_id": run_id, "lake": lake, "status": status, "started_at": NOON, "sources": [source]}


def finding(run_id: str, key: str, day: date = DAY, lake: str = "shop") -> dict[str, Any]:
    return {"run_id": run_id, "lake": lake, "as_of_date": day, "kind": "dropped", "key": key}


def leftover(run_id: str, table: str, key: str) -> dict[str, Any]:
    return {"run_id": run_id, "lake": "shop", "table_name": table, "key": key}


@pytest.fixture
def place(tmp_path: Path) -> Location:
    return Location.parse(str(tmp_path / "results"))


@pytest.fixture
def writer(spark: SparkSession, place: Location) -> ResultsWriter:
    writer = opened(spark, place)
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


def test_a_run_repeated_replaces_its_own_rows_only(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    writer.write("findings", rows(spark, FINDINGS, finding("r1", "a"), finding("r1", "b")), "r1")
    writer.write("findings", rows(spark, FINDINGS, finding("r2", "c")), "r2")
    writer.write("findings", rows(spark, FINDINGS, finding("r1", "b")), "r1")
    assert keys(place) == ["b", "c"]


def test_a_run_repeated_for_another_day_leaves_no_row_behind(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    writer.write("findings", rows(spark, FINDINGS, finding("r1", "old", date(2026, 11, 20))), "r1")
    writer.write("findings", rows(spark, FINDINGS, finding("r1", "new")), "r1")
    assert keys(place) == ["new"]


def test_a_run_that_finds_nothing_any_more_leaves_nothing(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    writer.write("findings", rows(spark, FINDINGS, finding("r1", "a")), "r1")
    writer.write("findings", rows(spark, FINDINGS), "r1")
    assert keys(place) == []


def test_lakes_that_share_a_place_and_a_run_id_keep_apart(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    writer.write("findings", rows(spark, FINDINGS, finding("r1", "a")), "r1")
    other = opened(spark, place, "it's\\other")
    other.put_run(run_row("r1", "running", lake="it's\\other"))
    other.write("findings", rows(spark, FINDINGS, finding("r1", "b", lake="it's\\other")), "r1")
    assert keys(place) == ["a", "b"]
    assert table(place, "runs").num_rows == 2


def test_leftover_files_are_replaced_for_the_audited_tables(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    tables = ["orders", "o'dd \\name"]
    first = [leftover("r1", "orders", "a"), leftover("r1", "o'dd \\name", "b")]
    writer.write("leftover_files", rows(spark, LEFTOVER_FILES, *first), "r1", tables=tables)
    again = rows(spark, LEFTOVER_FILES, leftover("r2", "orders", "c"))
    writer.write("leftover_files", again, "r2", tables=["orders"])
    assert keys(place, "leftover_files") == ["b", "c"]


def test_many_small_partitions_become_few_files(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    row = {name: F.lit(value) for name, value in finding("r1", "").items()} | {"key": F.concat("id")}
    many = spark.range(0, 2000, 1, 50).select(
        F.col("id").cast("string").alias("id"),
        *[F.lit(None).alias(name) for name in FINDINGS.names if name not in row],
        *[value.alias(name) for name, value in row.items()],
    )
    writer.write("findings", many, "r1")
    assert len(keys(place)) == 2000
    assert len(DeltaTable(place.join("findings").spark_path).file_uris()) <= 4


# --- killed, and run again ---------------------------------------------------------------------------------

GIVEN: dict[str, list[dict[str, Any]]] = {
    "coverage": [{"run_id": "r1", "lake": "shop", "table_name": "orders", "axis": "content", "files": 3}],
    "leftover_files": [leftover("r1", "orders", "x")],
    "findings": [finding("r1", f"k{n}") for n in range(9)],
    "transitions": [{"transition_id": "t1", "run_id": "r1", "lake": "shop", "transition": "opened"}],
    "discrepancies": [{"discrepancy_id": f"d{n}", "lake": "shop", "state": "open"} for n in range(3)],
    "notices": [{"notice_id": "n1", "run_id": "r1", "lake": "shop", "status": "sent"}],
}
SMALL = ("coverage", "notices")
KEYED = {"transitions": "transition_id", "discrepancies": "discrepancy_id"}


class Killed(Exception):
    """What stops a run between two writes."""


def write(spark: SparkSession, writer: ResultsWriter, name: str, *, breaks_off: bool = False) -> None:
    if name in SMALL:
        writer.put(name, GIVEN[name], "r1")
        return
    frame = rows(spark, RESULTS[name], *GIVEN[name])
    frame = frame.unionByName(broken(frame)) if breaks_off else frame
    if name in KEYED:
        writer.replace_rows(name, frame, KEYED[name])
    else:
        writer.write(name, frame, "r1", tables=["orders"] if name == "leftover_files" else ())


def whole_run(spark: SparkSession, writer: ResultsWriter, stop: str = "") -> None:
    """A run that stops before writing `stop`, or before its end."""
    writer.put_run(run_row("r1", "running"))
    for name in GIVEN:
        if name == stop:
            raise Killed
        write(spark, writer, name)
    if stop == "finish":
        raise Killed
    writer.put_run(run_row("r1", "complete"))


def broken(frame: DataFrame) -> DataFrame:
    """Evidence that breaks off while its rows are being written."""
    fails = F.raise_error(F.lit("the evidence broke off")).cast("string")
    return frame.limit(1).withColumn("lake", F.when(F.rand() < 2, fails))


def holds_exactly(place: Location, names: Iterable[str] = GIVEN) -> bool:
    return all(
        sorted(map(str, table(place, name).to_pylist()))
        == sorted(str({column: row.get(column) for column in RESULTS[name].names}) for row in GIVEN[name])
        for name in names
    )


@pytest.fixture(scope="module")
def survived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Location:
    """The results of a run that was killed between any two writes, and then ran to its end."""
    place = Location.parse(str(tmp_path_factory.mktemp("survived") / "results"))
    writer = opened(spark, place)
    for stop in (*GIVEN, "finish"):
        with pytest.raises(Killed):
            whole_run(spark, writer, stop=stop)
        assert table(place, "runs")["status"].to_pylist() == ["running"]
    whole_run(spark, writer)
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
        assert all(field.nullable for field in DeltaTable(survived.join(name).spark_path).schema().fields)
    assert DeltaTable(survived.join("findings").spark_path).metadata().partition_columns == ["as_of_date"]


def test_killed_inside_any_write_and_run_again(
    spark: SparkSession, writer: ResultsWriter, place: Location
) -> None:
    for name in sorted(GIVEN.keys() - set(SMALL)):
        with pytest.raises(PySparkException, match="the evidence broke off"):
            write(spark, writer, name, breaks_off=True)
        assert not Path(place.join(name, "_delta_log", "0" * 20 + ".json").spark_path).exists()
        write(spark, writer, name)
    with pytest.raises(PySparkException, match="the evidence broke off"):
        write(spark, writer, "findings", breaks_off=True)
    assert holds_exactly(place, GIVEN.keys() - set(SMALL)), "a broken write leaves what was there"


# --- refusals, before any long work ------------------------------------------------------------------------


def test_a_place_below_a_file_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CannotPublish, match="no folder can be made there") as refused:
        opened(spark, Location.parse(str(tmp_path / "file" / "results")))
    assert refused.value.exit_code == 14


def foreign(spark: SparkSession, place: Location, name: str, frame: DataFrame, **options: str) -> None:
    frame.write.format("delta").options(**options).save(place.join(name).spark_path)


def test_a_table_with_other_columns_is_refused(spark: SparkSession, place: Location) -> None:
    foreign(spark, place, "findings", rows(spark, FINDINGS).withColumn("verdict_of_next_year", F.lit(1)))
    with pytest.raises(CannotPublish, match=r"findings: .*another version .*verdict_of_next_year"):
        opened(spark, place)


def test_a_table_that_plain_readers_lost_is_refused(spark: SparkSession, place: Location) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    foreign(spark, place, "coverage", rows(spark, COVERAGE), **vectors)
    with pytest.raises(CannotPublish, match=r"coverage: .*Delta reader version 3"):
        opened(spark, place)


def test_a_damaged_table_is_refused(spark: SparkSession, place: Location) -> None:
    log = Path(place.join("runs", "_delta_log").spark_path)
    log.mkdir(parents=True)
    (log / f"{'0' * 20}.json").write_text('{"protocol": nonsense')
    with pytest.raises(CannotPublish, match=r"runs: .*cannot be written"):
        opened(spark, place)


def test_a_bucket_that_does_not_exist_is_refused(spark: SparkSession) -> None:
    with pytest.raises(CannotPublish, match=r"s3://no-such-bucket-here/x: the bucket does not exist"):
        opened(spark, Location("no-such-bucket-here", "x"))


def test_a_bucket_that_goes_away_is_told_as_such(
    spark: SparkSession, bucket: str, aws: Aws, s3: Endpoint
) -> None:
    writer = opened(spark, Location(bucket, "results"), at=Clients(s3))
    for found in aws.s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        aws.s3.delete_object(Bucket=bucket, Key=found["Key"])
    aws.s3.delete_bucket(Bucket=bucket)
    with pytest.raises(CannotPublish, match="the bucket does not exist"):
        writer.put_run(run_row("r1", "running"))


def test_a_refusal_is_told_as_such(
    spark: SparkSession, bucket: str, s3: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)  # the server now knows nobody
    with pytest.raises(CannotPublish, match="may not be written; grant"):
        opened(spark, Location(bucket, "results"), at=Clients(s3))

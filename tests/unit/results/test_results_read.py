"""Which run is shown, and what of it: rows in, rows out, without a JVM."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.keys import Location
from lakeaudit.results.leftover_groups import expand_groups
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.resolve import delta_rs_options
from tests.builders.results import LAKE, NOON, covered, finding, group, leftover, publish, run


@pytest.fixture
def results(place: Location) -> Results:
    return Results(place, Clients(), LAKE)


def keys(batches: Any) -> list[str]:
    return [key for batch in batches for key in batch.column("key").to_pylist()]


LATER: dict[str, Any] = {"finished_at": NOON + timedelta(hours=1)}


@pytest.mark.parametrize(
    ("runs", "shown"),
    [
        ([run("a")], "a"),
        ([run("b"), run("a", **LATER)], "a"),
        ([run("a"), run("b", "running")], "a"),
        ([run("a"), run("b", "failed", **LATER)], "a"),
        ([run("a"), run("b", "partial", **LATER)], "b"),
        ([run("a"), run("b", "suspect", **LATER)], "b"),
        ([run("a"), run("b", lake="other", **LATER)], "a"),
    ],
)
def test_the_last_published_run_is_shown(
    place: Location, results: Results, runs: list[Any], shown: str
) -> None:
    publish(place, runs=runs)
    assert results.published(None)["run_id"] == shown
    assert (results.last_published() or {})["run_id"] == shown


def test_only_a_published_run_can_be_requested(place: Location, results: Results) -> None:
    publish(place, runs=[run("a"), run("b", "running")])
    assert results.published("a")["run_id"] == "a"
    with pytest.raises(BadInput, match="that run is running"):
        results.published("b")
    with pytest.raises(BadInput, match="no such run"):
        results.published("c")


def test_nothing_was_ever_published(place: Location, results: Results) -> None:
    assert results.runs() == []
    with pytest.raises(CannotAudit, match="holds no finished audit"):
        results.published(None)


def test_findings_come_worst_first_and_only_of_their_run(place: Location, results: Results) -> None:
    publish(place, findings=[finding("hidden", "i"), finding("phantom", "e"), finding("dropped", "c")])
    publish(place, findings=[finding("dropped", "x", run_id="r2"), finding("dropped", "y", lake="other")])
    publish(place, findings=[finding("uncommitted", "w"), finding("dropped", "odd", severity="dreadful")])
    assert keys(results.findings("r1")) == ["c", "e", "w", "i", "odd"]
    assert keys(results.findings("r1", RowFilter(kinds=["phantom", "hidden"]))) == ["e", "i"]
    assert keys(results.findings("r1", RowFilter(tables=["customers"]))) == []


def test_the_worst_have_most_bytes_at_stake(place: Location, results: Results) -> None:
    sizes = {"small": 1, "big": 9, "unknown": None}
    rows = [finding("dropped", key, bytes_at_stake=size) for key, size in sizes.items()]
    publish(place, findings=[finding("hidden", "i", bytes_at_stake=99), *rows])
    assert [row["key"] for row in results.worst("r1", 4)] == ["big", "small", "unknown", "i"]
    assert [row["key"] for row in results.worst("r1", 1)] == ["big"]


def test_totals_add_up_what_is_known(place: Location, results: Results) -> None:
    until: dict[str, Any] = {"recoverable_until": NOON + timedelta(days=1)}
    rows = [finding("dropped", "a", rows_at_stake=2, **until), finding("dropped", "b", rows_at_stake=3)]
    publish(place, findings=[*rows, finding("dropped", "c", table_name="customers")])
    totals = {row["table_name"]: row for row in results.totals("r1")}
    assert totals["orders"]["findings"] == 2
    assert totals["orders"]["rows_at_stake"] == 5
    assert totals["orders"]["bytes_at_stake"] is None
    assert totals["orders"]["recoverable_until"] == until["recoverable_until"]
    assert totals["customers"]["findings"] == 1
    assert results.totals("nobody") == []


def test_what_is_known_of_one_file(place: Location, results: Results) -> None:
    kept = finding("duplicate_content", "copy", related_key="a")
    publish(place, findings=[finding("dropped", "a"), kept, finding("dropped", "a/b")])
    assert [row["key"] for row in results.findings_of_file("r1", "lake", "a")] == ["a", "copy"]
    assert results.findings_of_file("r1", "lake2", "a") == []


def test_coverage_is_in_order(place: Location, results: Results) -> None:
    publish(place, coverage=[covered("b"), covered("a", "leftover"), covered("a"), covered("c", run_id="r2")])
    assert [(row["table_name"], row["axis"]) for row in results.coverage("r1")] == [
        ("a", "content"),
        ("a", "leftover"),
        ("b", "content"),
    ]


@pytest.mark.parametrize("publications", [24, pytest.param(30, marks=pytest.mark.soak)])
def test_memory_stays_small_however_many_findings_there_are(
    place: Location, results: Results, publications: int
) -> None:
    rows = [finding("dropped", f"{n:06}" + "x" * 400, explanation="y" * 400) for n in range(4000)]
    for _ in range(publications):
        publish(place, findings=rows)
    before, most, number = pa.total_allocated_bytes(), 0, 0
    for batch in results.findings("r1"):
        number += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert number == publications * 4000
    assert most < number * 800 / 3


# --- groups and their files --------------------------------------------------------------------------------

GROUP = group("uncommitted", "day=1", files=2, bytes_at_stake=10)
FILES = [leftover(GROUP, "day=1/a", size=3), leftover(GROUP, "day=1/b", size=7)]


def test_a_group_is_replaced_by_its_files(place: Location, results: Results) -> None:
    publish(place, findings=[finding("dropped", "d"), GROUP], leftover_files=FILES)
    first, *rows = expand_groups(results, "r1")
    assert first["key"] == "d"
    wanted = [
        {"kind": "uncommitted", "severity": "warning", "axis": "leftover", "subject_type": "file", "files": 1,
         "subject": f"s3://lake/day=1/{name}", "bucket": "lake", "key": f"day=1/{name}", "storage_size": size,
         "bytes_at_stake": size, "storage_etag": "e", "storage_time": NOON, "partition_path": "day=1",
         "rows_at_stake": None, "discrepancy_id": "d-day=1"}
        for name, size in (("a", 3), ("b", 7))
    ]  # fmt: skip
    assert [{name: row[name] for name in wanted[0]} for row in rows] == wanted
    assert all(row.keys() == first.keys() for row in rows)


def test_only_the_chosen_groups_are_spelled_out(place: Location, results: Results) -> None:
    publish(place, findings=[finding("dropped", "d"), GROUP], leftover_files=FILES)
    assert [row["key"] for row in expand_groups(results, "r1", RowFilter(["dropped"]))] == ["d"]
    assert [row["key"] for row in expand_groups(results, "r1", RowFilter(["uncommitted"]))] == [
        "day=1/a",
        "day=1/b",
    ]


def test_files_that_a_later_run_replaced_are_never_passed_off(place: Location, results: Results) -> None:
    publish(place, findings=[finding("dropped", "d"), GROUP], leftover_files=[FILES[0] | {"run_id": "r2"}])
    with pytest.raises(BadInput, match="no longer those of run r1"):
        next(expand_groups(results, "r1"))


# --- where results cannot be read --------------------------------------------------------------------------


def test_a_damaged_table_is_reported_in_one_line(place: Location, results: Results) -> None:
    log = Path(place.join("runs", "_delta_log").spark_path)
    log.mkdir(parents=True)
    (log / f"{'0' * 20}.json").write_text('{"protocol": nonsense')
    with pytest.raises(CannotAudit, match=r"runs: the table cannot be read") as refused:
        results.runs()
    assert "\n" not in str(refused.value)


def test_results_on_s3(clients: Clients, bucket: str) -> None:
    place = Location(bucket, "audit/results")
    publish(place, clients, runs=[run()], findings=[finding("dropped", "a=1/b c%20d")])
    results = Results(place, clients, LAKE)
    assert results.published(None)["run_id"] == "r1"
    assert keys(results.findings("r1")) == ["a=1/b c%20d"]


def test_a_bucket_that_does_not_exist(clients: Clients) -> None:
    results = Results(Location("no-such-bucket-here", "x"), clients, LAKE)
    with pytest.raises(CannotAudit, match="the bucket does not exist"):
        results.runs()


@pytest.mark.parametrize(
    ("at", "address"),
    [
        (
            Endpoint(),
            {"AWS_ENDPOINT_URL": "https://lake.s3.amazonaws.com", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"},
        ),
        (
            Endpoint(path_style=True),
            {"AWS_ENDPOINT_URL": "https://s3.amazonaws.com", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false"},
        ),
        (
            Endpoint("http://10.0.0.1:9000"),
            {"AWS_ENDPOINT_URL": "http://10.0.0.1:9000", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false"},
        ),
        (
            Endpoint("https://store.example"),
            {"AWS_ENDPOINT_URL": "https://store.example", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false"},
        ),
    ],
)
def test_delta_rs_goes_where_boto3_goes(at: Endpoint, address: dict[str, str]) -> None:
    options = delta_rs_options(at, "lake")
    assert options["AWS_ACCESS_KEY_ID"] == "test"
    assert {
        name: value for name, value in options.items() if name in ("AWS_ENDPOINT_URL", *address)
    } == address


def test_credentials_of_a_profile_reach_delta_rs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared = tmp_path / "credentials"
    shared.write_text("[night]\naws_access_key_id = K\naws_secret_access_key = S\naws_session_token = T\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    monkeypatch.setenv("AWS_PROFILE", "night")
    options = delta_rs_options(Endpoint(region="eu-west-1"), "b")
    assert (options["AWS_ACCESS_KEY_ID"], options["AWS_SESSION_TOKEN"]) == ("K", "T")
    assert options["AWS_REGION"] == "eu-west-1"


def test_missing_credentials_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, clients: Clients
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    nobody_built_yet = Clients(replace(clients.default, external_id="another"))
    with pytest.raises(CannotAudit, match="no AWS credentials found"):
        Results(Location("some-bucket", "x"), nobody_built_yet, LAKE).runs()

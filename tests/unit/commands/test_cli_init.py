"""`lakeaudit init`: the facts that it discovers, and that an audit accepts its lake file."""

from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.commands.init import Surroundings, lake_text, results_beside
from lakeaudit.config import load_lake
from lakeaudit.evidence.storage.inventory import S3Inventory
from lakeaudit.evidence.storage.inventory.configuration import WANTED
from lakeaudit.evidence.storage.listing import Listing
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.delta_lake import Log, add
from tests.builders.hudi import commit, stat, write_timeline
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata
from tests.builders.shop import Shop
from tests.conftest import Aws

Captured = pytest.CaptureFixture[str]


def init(capsys: Captured, *words: str) -> tuple[int, str]:
    code = cli.main(["init", *words])
    return code, capsys.readouterr().err.splitlines()[-1]


def test_a_local_folder_becomes_a_lake_that_audits(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_metadata(tmp_path / "data" / "returns", {1: Snapshot({"m": [Entry("a", 4)]})})
    (tmp_path / "data" / "returns" / "data").mkdir()
    (tmp_path / "data" / "returns" / "data" / "a").write_bytes(b"data")
    (tmp_path / "data" / "notes" / "metadata").mkdir(parents=True)
    write_timeline(tmp_path / "data" / "trips", {"20261101100000000.commit": commit(stat("a", 4))})
    (tmp_path / "data" / "trips" / "a").write_bytes(b"data")
    for name in ("sales/orders", "sales/ord${er}s 2", "crm"):
        Log(tmp_path / "data" / name).commits([add("part-0.parquet", size=4)])
        (tmp_path / "data" / name / "part-0.parquet").write_bytes(b"data")
    Log(tmp_path / "data" / "crm" / "nested").commits([add("part-0.parquet", size=4)])
    (tmp_path / "data" / "crm" / "nested" / "part-0.parquet").write_bytes(b"data")
    for name in ("raw/events/day=1", "raw/clicks"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "part-0.csv").write_bytes(b"1")
    (tmp_path / "data" / "_hidden" / "x" / "_delta_log").mkdir(parents=True)
    code, verdict = init(capsys, "./data")
    assert (code, verdict) == (
        0,
        "OK: wrote lake.yaml with 6 tables and a listing as source; next: lakeaudit doctor lake.yaml",
    )
    lake = load_lake("lake.yaml", {})
    assert [table.name for table in lake.tables] == [
        "crm", "returns", "trips", "crm.nested", "sales.ord${er}s 2", "sales.orders",
    ]  # fmt: skip
    text = Path("lake.yaml").read_text()
    assert " folders, 5 levels deep, also inside tables" in text
    plain = [line for line in text.splitlines() if "manifests: [{kind: previous}]" in line]
    assert [line.partition("name: ")[2].partition(",")[0] for line in plain] == [
        '"notes.metadata"',
        '"raw.clicks"',
        '"raw.events"',
    ]
    assert "spark_event_log" in text
    assert [each.kind for table in lake.tables for each in table.manifests] == [
        "delta",
        "iceberg",
        "hudi",
        "delta",
        "delta",
        "delta",
    ]
    assert lake.results == Location.parse(str(tmp_path / "lakeaudit-results"))
    outcome = audited(lake)
    assert (outcome.status, outcome.exit_code) == ("complete", 0)
    code, verdict = init(capsys, "./data")
    assert (code, "exists already" in verdict) == (2, True)


def test_a_bucket_with_an_inventory_becomes_a_lake_that_audits(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: Endpoint, bucket: str, aws: Aws
) -> None:
    monkeypatch.chdir(tmp_path)
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    shop.take_inventory(under=f"inv/{bucket}/all")
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    rule: Any = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}
    aws.s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    for name in ("all", "never-delivered"):
        place: Any = {"Bucket": f"arn:aws:s3:::{bucket}", "Format": "CSV", "Prefix": "inv"}
        configuration: Any = {
            "Id": name, "IsEnabled": True, "Destination": {"S3BucketDestination": place},
            "Filter": {"Prefix": "warehouse/"}, "IncludedObjectVersions": "All", "Schedule": {"Frequency": "Daily"},
            "OptionalFields": list(WANTED),
        }  # fmt: skip
        aws.s3.put_bucket_inventory_configuration(
            Bucket=bucket, Id=name, InventoryConfiguration=configuration
        )
    code, verdict = init(capsys, f"s3://{bucket}/warehouse", "-o", "w.yaml", "--endpoint", str(s3.endpoint))
    assert code == 0, verdict
    text = Path("w.yaml").read_text()
    assert "versioning is on" in text
    assert "1 lifecycle rule; old deletes current objects" in text
    assert "the inventory never-delivered is left out" in text
    lake = load_lake("w.yaml", {})
    (source,) = lake.inventories
    assert isinstance(source, S3Inventory)
    assert (source.location, source.covers) == (
        Location(bucket, f"inv/{bucket}/all"),
        (Location(bucket, "warehouse"),),
    )
    assert [table.name for table in lake.tables] == ["orders"]
    assert audited(lake).exit_code == 0


def test_a_place_without_tables_is_one_table_of_plain_files(tmp_path: Path) -> None:
    found = Surroundings(Location("lake", "raw/events"), {}, True, (), ())
    file = tmp_path / "lake.yaml"
    file.write_text(lake_text(found, "/results", None))
    lake = load_lake(file, {})
    assert [(table.name, table.location.uri) for table in lake.tables] == [("events", "s3://lake/raw/events")]
    assert isinstance(lake.inventories[0], Listing)


def test_hostile_names_and_very_many_tables_make_a_valid_lake_file(tmp_path: Path) -> None:
    names = ['a"b', "a: b", "#x", "line\nbreak", "${HOME}", "日本", "'q'", "- x", "{1}"]
    roots = dict.fromkeys([Location("lake", f"w/{name}") for name in names], "delta")
    notes = ("versioning is\noff",)
    file = tmp_path / "lake.yaml"
    file.write_text(lake_text(Surroundings(Location("lake", "w"), roots, False, (), notes), "/results", None))
    assert [table.location for table in load_lake(file, {}).tables] == list(roots)
    many = {Location("lake", f"w/t{n}"): ("delta", "iceberg")[n % 2] for n in range(5000)}
    reports = ((Location("inv", "lake/all"), "w/", "2 h old"),)
    file.write_text(lake_text(Surroundings(Location("lake", "w"), many, True, reports, ()), "/results", None))
    lake = load_lake(file, {})
    (discovery,) = lake.discoveries
    assert (lake.tables, discovery.under, discovery.formats) == (
        (),
        (Location("lake", "w"),),
        ("delta", "iceberg"),
    )
    assert len(file.read_text().splitlines()) < 20


def test_results_never_lie_inside_the_place(tmp_path: Path) -> None:
    inside = Location.parse(str(tmp_path))
    assert not inside.contains(Location.parse(results_beside(inside, tmp_path / "work")))
    assert results_beside(Location("lake", "w"), tmp_path) == f"{tmp_path}/lakeaudit-results"


@pytest.mark.parametrize(
    ("place", "code", "told"),
    [
        ("s3://no-such-bucket-at-all/x", 3, "the bucket does not exist"),
        ("/no/such/folder", 2, "is not a folder"),
        ("hdfs://bucket/x", 2, "is not a location"),
    ],
)
def test_an_invalid_place_is_refused(
    capsys: Captured, tmp_path: Path, s3: Endpoint, place: str, code: int, told: str
) -> None:
    file = tmp_path / "lake.yaml"
    found = init(capsys, place, "-o", str(file), "--endpoint", str(s3.endpoint))
    assert (found[0], told in found[1]) == (code, True), found
    assert not file.exists()

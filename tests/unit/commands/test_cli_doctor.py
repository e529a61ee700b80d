"""`lakeaudit doctor`: its checks, its output and its exit code, against an S3 and a DynamoDB server."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.evidence.storage.inventory.configuration import WANTED, lacks
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import inventory as reports
from tests.builders.described import DescribedLake, count_api_calls, fresh_name, roles_of_the_server
from tests.builders.results import lake_file
from tests.conftest import Aws

Captured = pytest.CaptureFixture[str]


def lake(tmp_path: Path, s3: Endpoint, place: str, **given: Any) -> str:
    reach = {"endpoint": s3.endpoint, "region": s3.region, "path_style": True}
    return lake_file(tmp_path, Location.parse(place), **{"s3": reach, **given})


def examined(capsys: Captured, file: str) -> tuple[int, list[str], str]:
    code = cli.main(["doctor", file])
    printed = capsys.readouterr()
    return code, printed.out.splitlines(), printed.err.splitlines()[-1]


def line(lines: list[str], about: str) -> str:
    return next(each for each in lines if about in each)


def tables(bucket: str, *names: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "location": f"s3://{bucket}/{name}", "manifests": [{"kind": "delta"}]}
        for name in names
    ]


def log_of(aws: Aws, bucket: str, table: str) -> None:
    aws.s3.put_object(Bucket=bucket, Key=f"{table}/_delta_log/{'0' * 20}.json", Body=b"{}")


def test_all_is_well(capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws) -> None:
    log_of(aws, bucket, "orders")
    listing = {"kind": "listing", "location": f"s3://{bucket}/"}
    file = lake(tmp_path, s3, f"s3://{bucket}-x/r", tables=tables(bucket, "orders"), inventories=[listing])
    aws.s3.create_bucket(Bucket=f"{bucket}-x")
    code, lines, verdict = examined(capsys, file)
    assert code == 0, lines
    assert verdict.startswith("OK: ")
    assert "can be listed and read" in line(lines, f"storage s3://{bucket}")
    assert "1 of 1 can be read" in line(lines, "tables: ")
    assert "a storage source covers every table" in line(lines, "coverage")
    assert "can be written" in line(lines, "results")
    assert aws.s3.list_objects_v2(Bucket=f"{bucket}-x")["KeyCount"] == 0


@pytest.mark.parametrize(
    ("airflow", "rules"),
    [
        ({}, ["has findings of severity critical that nobody accepted, can no longer judge"]),
        (
            {"fail_on": ["error"]},
            ["if the audit has findings of severity error or higher that nobody accepted"],
        ),
        ({"fail_on": ["never"]}, ["the task `audit` is green whatever the audit reports"]),
        (None, []),
    ],
)
def test_the_rule_of_the_dag(
    capsys: Captured,
    tmp_path: Path,
    s3: Endpoint,
    bucket: str,
    airflow: dict[str, Any] | None,
    rules: list[str],
) -> None:
    more = {} if airflow is None else {"airflow": airflow}
    _, lines, _ = examined(capsys, lake(tmp_path, s3, str(tmp_path / "r"), **more))
    printed = [each for each in lines if " Airflow: " in each]
    assert len(printed) == len(rules)
    assert all(rule in each for rule, each in zip(rules, printed, strict=True))


def test_doctor_asks_for_no_jars(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An audit loads no extensions, so doctor accepts a machine whose cache has none."""
    monkeypatch.setenv("LAKEAUDIT_CACHE", str(tmp_path / "cache"))
    log_of(aws, bucket, "orders")
    listing = {"kind": "listing", "location": f"s3://{bucket}/"}
    file = lake(tmp_path, s3, str(tmp_path / "r"), tables=tables(bucket, "orders"), inventories=[listing])
    code, lines, _ = examined(capsys, file)
    assert code == 0, lines
    assert not [each for each in lines if "jar" in each.replace(str(tmp_path), "")]


def test_a_table_without_storage_and_one_without_a_log(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws
) -> None:
    log_of(aws, bucket, "orders")
    listing = {"kind": "listing", "location": f"s3://{bucket}/orders/"}
    two = tables(bucket, "orders", "orders_2")
    code, lines, verdict = examined(
        capsys, lake(tmp_path, s3, str(tmp_path / "r"), tables=two, inventories=[listing])
    )
    assert code == 3
    assert "covers 1 of 2 tables: orders_2" in line(lines, "coverage")
    assert "no delta manifest there" in line(lines, "table orders_2")
    assert verdict.startswith("PARTIAL: 2 of ")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"kind": "listing", "location": "s3://no-such-bucket-here/x"}, "the bucket does not exist"),
        ({"kind": "s3_inventory", "location": "s3://{bucket}/inv/"}, "no complete inventory report"),
        ({"kind": "listing", "location": "/no/such/folder"}, "is not a folder"),
    ],
)
def test_a_storage_source_that_cannot_be_used(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws, source: dict[str, str], told: str
) -> None:
    log_of(aws, bucket, "orders")
    named = {name: value.replace("{bucket}", bucket) for name, value in source.items()}
    file = lake(tmp_path, s3, str(tmp_path / "r"), tables=tables(bucket, "orders"), inventories=[named])
    code, lines, _ = examined(capsys, file)
    assert code == 3
    assert told in line(lines, "FAIL storage")
    assert "FAIL coverage" in "\n".join(" ".join(each.split()) for each in lines)


def test_an_old_inventory(capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws) -> None:
    log_of(aws, bucket, "orders")
    inventory(aws, bucket, datetime(2026, 1, 2, tzinfo=UTC))
    source = {"kind": "s3_inventory", "location": f"s3://{bucket}/inv/"}
    file = lake(tmp_path, s3, str(tmp_path / "r"), tables=tables(bucket, "orders"), inventories=[source])
    code, lines, _ = examined(capsys, file)
    assert code == 3
    assert "old, max_age is 3d" in line(lines, "FAIL storage")


def inventory(aws: Aws, bucket: str, at: datetime) -> None:
    """A report that names no data file."""
    import hashlib

    told = {
        "sourceBucket": bucket, "destinationBucket": f"arn:aws:s3:::{bucket}", "version": "2016-11-30", "files": [],
        "creationTimestamp": str(int(at.timestamp() * 1000)), "fileFormat": "CSV", "fileSchema": "Bucket, Key",
    }  # fmt: skip
    folder, body = f"inv/{at:%Y-%m-%dT%H-%MZ}", json.dumps(told).encode()
    md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
    aws.s3.put_object(Bucket=bucket, Key=f"{folder}/manifest.json", Body=body)
    aws.s3.put_object(Bucket=bucket, Key=f"{folder}/manifest.checksum", Body=md5.encode())


def test_a_table_that_is_not_a_metastore(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws
) -> None:
    log_of(aws, bucket, "orders")
    name = f"other-{bucket}"
    aws.dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    stores = [{"kind": "s3guard", "table": name}, {"kind": "s3guard", "table": "no-such-table"}]
    listing = {"kind": "listing", "location": f"s3://{bucket}/"}
    given = {"tables": tables(bucket, "orders"), "inventories": [listing], "metastores": stores}
    code, lines, _ = examined(capsys, lake(tmp_path, s3, str(tmp_path / "r"), **given))
    assert code == 3
    assert "its keys are id" in line(lines, f"metastore {name}")
    assert "the table does not exist" in line(lines, "metastore no-such-table")


@pytest.mark.parametrize("place", ["s3://no-such-bucket-here/r", "/dev/null/r"])
def test_results_that_cannot_be_written(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws, place: str
) -> None:
    log_of(aws, bucket, "orders")
    listing = {"kind": "listing", "location": f"s3://{bucket}/"}
    file = lake(tmp_path, s3, place, tables=tables(bucket, "orders"), inventories=[listing])
    code, lines, verdict = examined(capsys, file)
    assert code == 10
    assert line(lines, "results").startswith("FAIL")
    assert verdict.startswith("NOTHING CAN BE AUDITED: ")


def test_no_java(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeaudit.runtime.java._candidates", lambda _: iter(()))
    log_of(aws, bucket, "orders")
    code, lines, _ = examined(
        capsys, lake(tmp_path, s3, str(tmp_path / "r"), tables=tables(bucket, "orders"))
    )
    assert code == 3
    assert line(lines, "Java").startswith("note")
    assert "no JDK 17 or 21 found" in line(lines, "Java")
    assert "only `--spark`, spark-submit and the demo need Java" in line(lines, "Java")


def test_ways_to_receivers_are_checked_and_nothing_is_sent(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("WELL", "UNSET", "ODD")
    routes = [{"kind": "apprise", "url_env": name} for name in names]
    file = lake(tmp_path, s3, f"s3://{bucket}/r", alerts=routes, heartbeat_url_env="BEAT")
    monkeypatch.setenv("WELL", "json://127.0.0.1:1/")
    monkeypatch.setenv("ODD", "hunter2")
    _, lines, _ = examined(capsys, file)
    assert "configured; no message was sent" in line(lines, "alerts to apprise:WELL")
    assert "the variable UNSET is not set" in line(lines, "alerts to apprise:UNSET")
    assert "ODD holds no address" in line(lines, "alerts to apprise:ODD")
    assert "the variable BEAT is not set" in line(lines, "heartbeat")
    assert not any("hunter2" in each for each in lines)


def configured(aws: Aws, bucket: str, **given: Any) -> None:
    """A report of the bucket in the bucket, and the configuration it was made by."""
    put: Any = lambda key, body: aws.s3.put_object(Bucket=bucket, Key=key, Body=body)  # noqa: E731
    rows = [reports.Version(f"orders/{n}", Bucket=bucket) for n in range(2)]
    made = datetime.now(UTC)
    reports.lay(
        put, [reports.csv(rows)], at=made, under=f"inv/{bucket}/all", source=bucket, destination=bucket
    )
    if given:
        place: Any = {"Bucket": f"arn:aws:s3:::{bucket}", "Format": "CSV", "Prefix": "inv"}
        configuration: Any = {**WHOLE, "Destination": {"S3BucketDestination": place}, **given}
        aws.s3.put_bucket_inventory_configuration(
            Bucket=bucket, Id="all", InventoryConfiguration=configuration
        )


WHOLE: dict[str, Any] = {
    "Id": "all",
    "IsEnabled": True,
    "IncludedObjectVersions": "All",
    "Schedule": {"Frequency": "Daily"},
    "OptionalFields": list(WANTED),
}
CONFIGURED: list[tuple[dict[str, Any], str, str | None]] = [
    # what the configuration says, the key that is covered, what is said of it
    ({}, "", None),
    ({"Filter": {"Prefix": "orders/"}}, "", "reports only s3://lake/orders/: name this prefix in `covers`"),
    ({"Filter": {"Prefix": "orders/"}}, "people", "reports only s3://lake/orders/"),
    ({"Filter": {"Prefix": "orders/"}}, "orders", None),
    ({"Filter": {"Prefix": "orders/"}}, "orders/eu", None),
    ({"Filter": {}}, "", None),
    (
        {"OptionalFields": ["Size", "ETag"]},
        "",
        "lacks the fields LastModifiedDate, StorageClass, IsMultipart",
    ),
    ({"Schedule": {"Frequency": "Weekly"}}, "", "is made weekly"),
    ({"IncludedObjectVersions": "Current"}, "", "names only current versions"),
    ({"IsEnabled": False}, "", "is disabled"),
]


@pytest.mark.parametrize(("given", "covers", "told"), CONFIGURED)
def test_what_the_configuration_of_an_inventory_lacks(
    given: dict[str, Any], covers: str, told: str | None
) -> None:
    said = list(lacks({**WHOLE, **given}, "lake", [Location("lake", covers)]))
    assert len(said) == (told is not None)
    assert (told or "") in "".join(said)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "no inventory configuration of {bucket} delivers here"),
        ({"Filter": {"Prefix": "orders/"}}, "its configuration all reports only s3://{bucket}/orders/"),
        ({"Schedule": {"Frequency": "Weekly"}}, "its configuration all is made weekly"),
    ],
)
def test_the_configuration_that_delivers_a_report_is_looked_up(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws, given: dict[str, Any], told: str
) -> None:
    log_of(aws, bucket, "orders/a")
    configured(aws, bucket, **given)
    source = {"kind": "s3_inventory", "location": f"s3://{bucket}/inv/"}
    file = lake(tmp_path, s3, str(tmp_path / "r"), tables=tables(bucket, "orders/a"), inventories=[source])
    code, lines, _ = examined(capsys, file)
    assert code == 0
    assert told.format(bucket=bucket) in line(lines, f"storage s3://{bucket}")


def test_a_configuration_that_cannot_be_read_is_reported(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws
) -> None:
    """The report is about a bucket that does not exist, so its configuration is unknown."""
    put: Any = lambda key, body: aws.s3.put_object(Bucket=bucket, Key=key, Body=body)  # noqa: E731
    gone = f"{bucket}-gone"
    rows = [reports.Version("orders/1", Bucket=gone)]
    reports.lay(put, [reports.csv(rows)], at=datetime.now(UTC), source=gone, destination=bucket)
    source = {"kind": "s3_inventory", "location": f"s3://{bucket}/inv/"}
    file = lake(tmp_path, s3, str(tmp_path / "r"), tables=tables(bucket, "a"), inventories=[source])
    _, lines, _ = examined(capsys, file)
    assert "its configuration cannot be read (the bucket does not exist)" in line(
        lines, f"storage s3://{bucket}"
    )


def test_each_right_is_tried_once_a_bucket_by_the_smallest_use_of_it(
    capsys: Captured, tmp_path: Path, s3: Endpoint, bucket: str, aws: Aws
) -> None:
    for name in ("orders", "people"):
        log_of(aws, bucket, name)
        aws.s3.put_object(Bucket=bucket, Key=f"{name}/part-0", Body=b"data")
    other = f"{bucket}-cold"
    aws.s3.create_bucket(Bucket=other)
    aws.s3.put_object(Bucket=other, Key="t/part-0", Body=b"data", StorageClass="GLACIER")
    log_of(aws, other, "t")
    three = [*tables(bucket, "orders", "people"), *tables(other, "t")]
    listings = [{"kind": "listing", "location": f"s3://{name}/"} for name in (bucket, other)]
    file = lake(tmp_path, s3, str(tmp_path / "r"), tables=three, inventories=listings)
    with count_api_calls() as seen:
        code, lines, _ = examined(capsys, file)
    assert code == 0
    assert line(lines, f"bucket {bucket}:").endswith("can be listed, and a byte of a file can be read")
    assert "the first object is archived" in "".join(lines)
    assert seen.calls["GetObject"] == 2
    assert "an audit of 3 named tables needs 6 LIST and 9 GET requests for logs" in line(lines, "estimate")


def test_a_described_lake_is_examined_without_looking_for_its_tables(
    capsys: Captured, tmp_path: Path, s3: Endpoint, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = DescribedLake(aws.s3, s3, fresh_name(), tables=4, buckets=2, roles=2).build()
    made.lake(tmp_path)
    with roles_of_the_server(s3, monkeypatch):
        code, lines, _ = examined(capsys, str(tmp_path / "lake.yaml"))
    assert code == 0, lines
    assert "each audit discovers the tables of 2 locations" in line(lines, "discovery")
    assert sum(each.split()[1] == "bucket" for each in lines if each.startswith("ok")) == 2
    assert "as arn:aws:iam::123456789010:role/audit: can be listed" in "\n".join(lines).replace(
        "\n     ", " "
    )

"""Whole audits of lakes whose stores and catalogs are reached by settings that stand outside of the lake file."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakeaudit import cli
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections import quick_reads
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders import stores
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.delta_lake import BORN, add
from tests.builders.rest_catalog import served
from tests.builders.unity_catalog import UnityCatalog
from tests.conftest import Aws

pytestmark = pytest.mark.variant

THEN = datetime.now(UTC) - timedelta(days=2)
Captured = pytest.CaptureFixture[str]


def put_table(aws: Aws, bucket: str, name: str, *paths: str, there: tuple[str, ...] = ()) -> None:
    """A Delta table that lists some files, of which some are there; a path with a scheme is another table's."""
    actions = [*BORN, *(add(path, size=40) for path in paths)]
    log = "".join(json.dumps(action) + "\n" for action in actions).encode()
    keys = {f"{name}/_delta_log/{0:020}.json": log, **{f"{name}/{each}": b"rows" * 10 for each in there}}
    for key, body in keys.items():
        aws.s3.put_object(Bucket=bucket, Key=key, Body=body)
        backdate(bucket, key, THEN)


def write_lake(folder: Path, bucket: str, **more: Any) -> Lake:
    data = {
        "version": 1,
        "lake": "shop",
        "results": f"s3://{bucket}/results",
        "inventories": [{"kind": "listing", "location": f"s3://{bucket}/wh"}],
        "defaults": {"grace": "0s", "leftover_age": "0s"},
    } | more
    (folder / "lake.yaml").write_text(yaml.safe_dump(data))
    return load_lake(folder / "lake.yaml", {})


def kinds_of(lake: Lake) -> set[tuple[str, str]]:
    results = results_of(lake)
    rows = rows_of(results.findings(results.published(None)["run_id"]))
    return {(row["kind"], row["key"] or row["subject"]) for row in rows}


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_clients: None) -> Iterator[str]:
    """An old store behind a private authority; a profile says where it is, whom to trust and with what keys."""
    authority, own = stores.authority(tmp_path)
    with stores.store(own, stores.before_checksums) as url:
        config, keys = tmp_path / "config", tmp_path / "credentials"
        config.write_text(
            f"[profile night]\nregion = us-east-1\nca_bundle = {authority}\nendpoint_url = {url}\n"
        )
        keys.write_text("[night]\naws_access_key_id = K\naws_secret_access_key = S\n")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION"):
            monkeypatch.delenv(name)
        for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_PROFILE", "night")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
        yield url
    quick_reads._left_to_boto.clear()


def test_a_profile_alone_reaches_tables_and_results(
    private: str, aws: Aws, bucket: str, tmp_path: Path, capsys: Captured
) -> None:
    """No `s3` block: endpoint, authority, region and keys are the profile's; the store knows no new checksums."""
    put_table(aws, bucket, "wh/orders", "a.parquet", "b.parquet", there=("a.parquet",))
    table = {"name": "orders", "location": f"s3://{bucket}/wh/orders", "manifests": [{"kind": "delta"}]}
    lake = write_lake(tmp_path, bucket, tables=[table])
    file = str(tmp_path / "lake.yaml")
    assert cli.main(["doctor", file]) == 0
    printed = capsys.readouterr().out
    assert "obstore" not in printed, "every client reaches the store"
    assert audited(lake).summary["status"] == "complete"
    assert kinds_of(lake) == {("dropped", "wh/orders/b.parquet")}
    assert bucket not in {each[1] for each in quick_reads._left_to_boto}
    there = {each["Key"] for each in aws.s3.list_objects_v2(Bucket=bucket, Prefix="results/")["Contents"]}
    assert not {key for key in there if "_probe" in key or "_canary" in key}


def test_doctor_says_which_client_fails(
    private: str, aws: Aws, bucket: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto may do what delta-rs cannot: the results are tried with the client that will write them."""
    put_table(aws, bucket, "wh/orders", "a.parquet", there=("a.parquet",))
    table = {"name": "orders", "location": f"s3://{bucket}/wh/orders", "manifests": [{"kind": "delta"}]}
    write_lake(tmp_path, bucket, tables=[table])
    monkeypatch.setattr("lakeaudit.runtime.connections.resolve.certificates_of", lambda _: None)
    assert cli.main(["doctor", str(tmp_path / "lake.yaml")]) == 10
    lines = capsys.readouterr().out.splitlines()
    (results,) = [line for line in lines if line.startswith("FAIL results")]
    assert "the certificate of the endpoint is not trusted" in results
    (noted,) = [line for line in lines if line.startswith("note bucket")]
    assert "small files are read with boto only" in noted
    assert all(line.isprintable() for line in lines)


def test_shallow_clones_of_unity_are_audited_and_registered(
    aws: Aws, bucket: str, s3: Endpoint, tmp_path: Path
) -> None:
    """The lake also has an unregistered table, and a view, which is not audited."""
    put_table(aws, bucket, "wh/orders", "a.parquet", "b.parquet", there=("a.parquet", "b.parquet"))
    named = [f"s3://{bucket}/wh/orders/{name}.parquet" for name in ("a", "b")]
    put_table(aws, bucket, "wh/clone", *named, "own.parquet", there=())
    put_table(aws, bucket, "wh/outer", named[0], there=())
    put_table(aws, bucket, "wh/nobody", "x.parquet", there=("x.parquet",))
    catalog = UnityCatalog()
    types = {"orders": "MANAGED", "clone": "MANAGED_SHALLOW_CLONE", "outer": "EXTERNAL_SHALLOW_CLONE"}
    catalog.infos |= {
        ("main", "s", name): {
            "storage_location": f"s3://{bucket}/wh/{name}", "data_source_format": "DELTA", "table_type": type_
        }
        for name, type_ in types.items()
    }  # fmt: skip
    with served(catalog):
        lake = write_lake(
            tmp_path,
            bucket,
            s3={"endpoint": s3.endpoint, "region": s3.region, "path_style": True},
            metastores=[{"kind": "unity", "uri": catalog.uri}],
            tables=[{"discover": {"from": "unity"}}],
            watch=[f"s3://{bucket}/wh/"],
        )
        outcome = audited(lake)
    assert set(outcome.summary["coverage"]) >= {f"main.s.{name}" for name in types}
    found = kinds_of(lake)
    assert ("dropped", "wh/clone/own.parquet") in found
    assert {kind for kind, subject in found if "nobody" in subject} == {"unregistered_table"}
    assert not {
        subject for kind, subject in found if kind == "unregistered_table" and "nobody" not in subject
    }
    assert not {subject for kind, subject in found if "outer" in subject}

"""Tables whose whole bucket does not exist: lost where an audit has read them there, an evidence gap elsewhere."""

import json
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.config import Lake, Table, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, add
from tests.builders.iceberg import NO_WAIT, IcebergLake
from tests.builders.rest_catalog import RestCatalog, served
from tests.builders.unity_catalog import UnityCatalog
from tests.conftest import Aws

pytestmark = pytest.mark.variant

FAR = "gs://other-cloud/wh/far"


def put_table(aws: Aws, bucket: str, key: str) -> str:
    body = "\n".join(map(json.dumps, [*BORN, add("own.parquet")])).encode()
    aws.s3.put_object(Bucket=bucket, Key=f"{key}/_delta_log/{0:020}.json", Body=body)
    aws.s3.put_object(Bucket=bucket, Key=f"{key}/own.parquet", Body=b"x" * 100)
    return f"s3://{bucket}/{key}"


def put_files(aws: Aws, bucket: str, key: str) -> str:
    aws.s3.put_object(Bucket=bucket, Key=f"{key}/a.parquet", Body=b"x" * 100)
    return f"s3://{bucket}/{key}"


def put_list(aws: Aws, bucket: str, key: str, *paths: str) -> None:
    rows = [{"path": f"s3://{path}", "size": 100, "committed_at": "2026-11-01T00:00:00Z"} for path in paths]
    lines = [*rows, {"end": True, "lines": len(rows)}]
    aws.s3.put_object(Bucket=bucket, Key=key, Body="\n".join(map(json.dumps, lines)).encode())


def remove_bucket(aws: Aws, bucket: str) -> None:
    for each in aws.s3.list_objects_v2(Bucket=bucket)["Contents"]:
        aws.s3.delete_object(Bucket=bucket, Key=each["Key"])
    aws.s3.delete_bucket(Bucket=bucket)


def lake_of(
    endpoint: Endpoint,
    folder: Path,
    buckets: list[str],
    tables: dict[str, tuple[str, str]],
    uri: str,
    unity: str,
) -> Lake:
    entries = "".join(
        f"- {{name: {name}, location: '{place}', manifests: [{{kind: {kind}}}]}}\n"
        for name, (place, kind) in tables.items()
    )
    sources = ", ".join(f"{{kind: listing, location: 's3://{bucket}/'}}" for bucket in buckets)
    path = folder / "lake.yaml"
    catalogs = f"{{kind: iceberg_rest, name: prod, uri: '{uri}'}}, {{kind: unity, uri: '{unity}'}}"
    discovered = "".join(f"- {{discover: {{from: {kind}}}}}\n" for kind in ("iceberg_rest", "unity"))
    path.write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
        f"s3: {{endpoint: '{endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{sources}]\nmetastores: [{catalogs}]\n"
        f"tables:\n{entries}{discovered}defaults: {{{NO_WAIT}}}\n"
    )
    return load_lake(path, {})


def test_a_bucket_that_does_not_exist_is_a_loss_only_of_tables_that_were_read_there(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    gone = [f"test-{uuid.uuid4().hex[:12]}" for _ in range(2)]
    for each in gone:
        aws.s3.create_bucket(Bucket=each)
    ice = IcebergLake(aws.s3, s3, gone[1])
    table, other = ice.table("ice"), IcebergLake(aws.s3, s3, bucket).table("near")
    never = f"s3://test-{uuid.uuid4().hex[:12]}/wh/never"
    tables = {
        "ok": (put_table(aws, bucket, "wh/ok"), "delta"),
        "delta": (put_table(aws, gone[0], "wh/delta"), "delta"),
        "ice": (table.metadata.location, "iceberg"),
        "never": (never, "delta"),
        "plain": (f"s3://{gone[0]}/wh/plain", "previous"),
        "never_plain": (never + "_plain", "previous"),
        "listed": (put_files(aws, gone[0], "wh/listed"), f"file_list, location: 's3://{bucket}/lists/'"),
    }
    put_files(aws, gone[0], "wh/plain")
    put_list(aws, bucket, "lists/1.jsonl", f"{gone[0]}/wh/listed/a.parquet")
    catalog = RestCatalog(tables={("sales", "near"): other, ("sales", "far"): other})

    def far(_: str, path: str, __: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        if not path.endswith("/tables/far"):
            return None
        metadata = json.loads(other.metadata.model_dump_json()) | {"location": FAR}
        return 200, {"metadata-location": f"{FAR}/metadata/00001-aa.metadata.json", "metadata": metadata}

    catalog.faults.append(far)
    put_table(aws, bucket, "wh/google")
    aws.s3.put_object(Bucket=bucket, Key=f"wh/google/_delta_log/{1:020}.crc", Body=b"{}")
    unity = UnityCatalog()
    for name, place in (("delta", f"{FAR}_delta"), ("near", f"gs://{bucket}/wh/google")):
        unity.infos["main", "far", name] = {
            "data_source_format": "DELTA", "table_type": "EXTERNAL", "storage_location": place,
            "updated_at": 1_790_000_000_000,
        }  # fmt: skip
    with served(catalog), served(unity):
        lake = lake_of(s3, tmp_path, [bucket, *gone], tables, catalog.uri, unity.uri.replace("/iceberg", ""))
        first = audited(lake, run_id="first")
        for each in gone:
            remove_bucket(aws, each)
        second = audited(lake, run_id="second")

    assert missing(lake, "first") == []
    lost = {row["table_name"]: row for row in missing(lake, "second")}
    assert {name: (row["severity"], row["files"]) for name, row in lost.items()} == {
        "delta": ("critical", 1), "ice": ("critical", 4), "plain": ("critical", None), "listed": ("critical", 1),
    }  # fmt: skip
    for name in ("plain", "listed"):
        assert f"the bucket does not exist at {s3.endpoint}" in lost[name]["explanation"]
    assert f"the bucket does not exist at {s3.endpoint}" in lost["delta"]["explanation"]
    assert "read version 0 with 1 files" in lost["delta"]["explanation"]
    for run_id in ("first", "second"):
        rows = {
            row["table_name"]: row for row in results_of(lake).coverage(run_id) if row["axis"] == "content"
        }
        assert [rows[name]["status"] for name in ("ok", "sales.near", "never", "sales.far")] == [
            "complete", "complete", "partial", "partial",
        ]  # fmt: skip
        assert rows["never_plain"]["status"] != "complete"
        assert f"the bucket does not exist at {s3.endpoint}; check the name" in rows["never"]["reason"]
        assert rows["sales.far"]["reason"].startswith(
            f"{FAR}/metadata/00001-aa.metadata.json: the bucket does not"
        )
        assert rows["main.far.delta"]["reason"].startswith(f"{FAR}_delta/_delta_log: the bucket does not")
    (near,) = (
        row for row in rows_of(results_of(lake).findings("first")) if row["table_name"] == "main.far.near"
    )
    assert near["explanation"].startswith(f"gs://{bucket}/wh/google/_delta_log/{1:020}.crc is the checksum")
    assert (first.exit_code, second.exit_code) == (3, 3)


def missing(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    return [row for row in rows_of(results_of(lake).findings(run_id)) if row["kind"] == "table_missing"]


def test_a_table_of_a_catalog_in_a_store_without_a_client_is_not_requested_from_aws(tmp_path: Path) -> None:
    table = Table(
        name="far", location=Location.parse(FAR), manifests=(DeltaManifest(kind="delta"),), scheme="gs://"
    )
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path}/r\ntables: [{{name: t, location: {tmp_path}/t}}]\n"
    )
    lake = load_lake(path, {}).model_copy(update={"tables": (table,)})
    clients = Clients(Endpoint(endpoint="https://s3.us-east-1.amazonaws.com", region="us-east-1"))
    now = datetime.now(UTC)
    with closing(InProcessEngine()) as engine:
        (read,), holes = read_manifests(lake, Context(engine, clients, now, now, live=True))
    assert (read.states["far"].refused or "").startswith(f"no client is configured for {FAR}: ")
    assert holes == []


@pytest.mark.parametrize(
    ("uri", "endpoint", "served_there"),
    [
        ("gs://b/x", "https://s3.us-east-1.amazonaws.com", False),
        ("gs://b/x", "https://storage.googleapis.com", True),
        ("s3://b/x", "https://s3.us-east-1.amazonaws.com", True),
    ],
)
def test_buckets_of_google_are_not_requested_from_aws(uri: str, endpoint: str, served_there: bool) -> None:
    clients = Clients(Endpoint(endpoint=endpoint, region="us-east-1"))
    assert (clients.why_unserved(uri, "b") == "") is served_there

"""Tables whose location has empty parts, of which Hadoop makes single slashes, and other clients two."""

import json
import time
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from lakeaudit.config import load_lake
from lakeaudit.explain.explanation import explain_named
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.delta_lake import BORN, add
from tests.builders.hudi import NO_WAIT, names_of, unpacked
from tests.builders.repair_plans import RepairPlans
from tests.builders.rest_catalog import served
from tests.builders.unity_catalog import UnityCatalog
from tests.conftest import Aws

pytestmark = pytest.mark.variant


def put_delta(aws: Aws, bucket: str, key: str, lost: str = "") -> None:
    names = ["a.parquet", "b.parquet"]
    body = "\n".join(map(json.dumps, [*BORN, *map(add, names)])).encode()
    aws.s3.put_object(Bucket=bucket, Key=f"{key}/_delta_log/{0:020}.json", Body=body)
    for name in names:
        if name != lost:
            aws.s3.put_object(Bucket=bucket, Key=f"{key}/{name}", Body=b"x" * 100)


def put_hudi(aws: Aws, bucket: str, key: str, folder: Path) -> None:
    name = names_of(1)[0]
    home = unpacked(folder, 1, [name]) / name
    for path in (path for path in home.rglob("*") if path.is_file()):
        name = f"{key}/{path.relative_to(home)}"
        aws.s3.put_object(Bucket=bucket, Key=name, Body=path.read_bytes())
        backdate(bucket, name, datetime.fromtimestamp(path.stat().st_mtime, UTC))


def test_tables_are_read_where_their_writer_put_them(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    put_delta(aws, bucket, "wh/hadoop", lost="b.parquet")
    put_delta(aws, bucket, "/wh/other")
    put_delta(aws, bucket, "wh/plain")
    put_delta(aws, bucket, "wh/catalogued")
    put_hudi(aws, bucket, "wh/hudi", tmp_path)
    tables = {
        "hadoop": (f"s3a://{bucket}//wh/hadoop", "delta"),
        "other": (f"s3a://{bucket}//wh/other", "delta"),
        "plain": (f"s3a://{bucket}/wh/plain", "delta"),
        "hudi": (f"s3a://{bucket}/wh//hudi", "hudi"),
        "nowhere": (f"s3a://{bucket}//wh/nowhere", "delta"),
    }
    entries = "".join(
        f"- {{name: {name}, location: '{place}', manifests: [{{kind: {kind}}}]}}\n"
        for name, (place, kind) in tables.items()
    )
    catalog = UnityCatalog()
    location = f"s3a://{bucket}//wh/catalogued/"
    catalog.infos[("main", "shop", "catalogued")] = {
        "data_source_format": "DELTA", "table_type": "EXTERNAL", "storage_location": location,
        "updated_at": 1_790_000_000_000,
    }  # fmt: skip
    with served(catalog):
        path = tmp_path / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {tmp_path / 'results'}\n"
            f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: 's3://{bucket}/'}}]\n"
            f"metastores: [{{kind: unity, uri: '{catalog.uri.replace('/iceberg', '')}'}}]\n"
            f"tables:\n{entries}- {{discover: {{from: unity}}}}\nwatch: ['s3://{bucket}/']\n"
            f"defaults: {{{NO_WAIT}}}\n"
        )
        time.sleep(1.1)
        lake = load_lake(path, {})
        outcome = audited(lake)
        lost, other = "wh/hadoop/b.parquet", "/wh/other/a.parquet"
        forms = {
            f"s3a://{bucket}//{lost}": lost, f"s3://{bucket}/{lost}": lost, f"{bucket}//{lost}": lost,
            f"s3://{bucket}//wh/hadoop/": "wh/hadoop/", f"s3://{bucket}/wh//hadoop": "wh/hadoop/",
            f"s3://{bucket}{other}": other, f"s3://{bucket}/{other}": other,
        }  # fmt: skip
        clients, results = clients_of(lake), results_of(lake)
        explained = {form: explain_named(lake, results, clients, form, deep=False) for form in forms}
        mending = RepairPlans(lake, tmp_path)
        mending.plan(StringIO())
    found = [
        (row["table_name"], row["kind"], row["key"])
        for row in rows_of(results_of(lake).findings(outcome.run_id))
    ]
    assert sorted(found) == [
        ("hadoop", "dropped", "wh/hadoop/b.parquet"),
        ("nowhere", "table_missing", "/wh/nowhere"),
    ]
    rows = {
        row["table_name"]: row
        for row in results_of(lake).coverage(outcome.run_id)
        if row["axis"] == "content"
    }
    assert {name for name, row in rows.items() if row["status"] != "complete"} == {"nowhere"}
    assert not [warning for warning in outcome.warnings if "the lake file says" in warning]
    assert {form: each.key for form, each in explained.items()} == forms
    assert {each.table for each in explained.values()} == {"hadoop", "other"}
    assert {len(each.findings) for form, each in explained.items() if forms[form] != other} == {1}
    (step,) = [line for line in mending.file.read_text().splitlines() if lost in line]
    assert "outside every table" not in step

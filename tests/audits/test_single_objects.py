"""Catalog locations that are a single object, which is its own content: counted, looked up, and under `watch`."""

from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.hive_lake import HiveLake
from tests.conftest import Aws

pytestmark = pytest.mark.variant


def single(hive: HiveLake, name: str, key: str) -> None:
    """A table of the catalog that lies at one object, and of the lake file by its name."""
    hive.put(key)
    hive.tables.append(f"{{name: {hive.catalog.database}.{name}, location: '{hive.uri(key)}'}}")
    hive.catalog.table(name, hive.uri(key), parameters={"numRows": "80"})


@pytest.mark.parametrize("confirm", ["", pytest.param("confirm: {mode: none}", marks=pytest.mark.soak)])
def test_an_object_is_its_own_content(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path, confirm: str
) -> None:
    hive = HiveLake(aws, clients, s3, bucket, tmp_path)
    single(hive, "csv", "wh/single/data.csv")
    single(hive, "bare", "wh/bare/rows")
    numbered = hive.table("numbered", "year")
    hive.partition("numbered", ["2026"], f"{numbered}/2026.parquet", files=False)
    hive.put(f"{numbered}/2026.parquet")
    if not confirm:  # no name of a file: only a look at storage tells
        hive.partition("numbered", ["2025"], f"{numbered}/2025", files=False)
        hive.put(f"{numbered}/2025")
    hive.put("wh/left/data.csv")
    hive.catalog.table("unlisted", hive.uri("wh/unlisted/data.csv"))
    hive.put("wh/unlisted/data.csv")
    lake = hive.lake(f"watch: ['{hive.uri('wh/')}']\ndefaults: {{{confirm}}}\n")
    audited(lake, run_id="healthy")
    assert kinds(lake, "healthy") == {"unowned": [hive.uri("wh/left/")]}
    for key in ("wh/single/data.csv", f"{numbered}/2026.parquet"):
        aws.s3.delete_object(Bucket=bucket, Key=key)
    audited(lake, run_id="broken")
    assert sorted(kinds(lake, "broken")) == ["empty_partition", "stale_pointer", "unowned"]


def kinds(lake: Lake, run_id: str) -> dict[str, Any]:
    subjects: dict[str, list[str]] = {}
    for row in rows_of(results_of(lake).findings(run_id)):
        subjects.setdefault(row["kind"], []).append(row["subject"])
    return subjects

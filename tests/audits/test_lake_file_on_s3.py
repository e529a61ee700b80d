"""A lake file on S3 is read with the credentials and the endpoint of the environment."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeaudit
from lake_check import write_s3
from lakeaudit import cli
from lakeaudit.runtime.connections.aws import Endpoint

pytestmark = pytest.mark.variant


@pytest.fixture
def on_s3(
    bucket: str, s3: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_clients: None
) -> str:
    """A lake file that a DAG has uploaded, with a table that lost a file."""
    write_deltalake(tmp_path / "lake" / "orders", pa.table({"id": [1]}))
    next((tmp_path / "lake" / "orders").glob("*.parquet")).unlink()
    text = (
        f"version: 1\nlake: shop\nresults: {tmp_path}/results\ndefaults: {{grace: 0s}}\n"
        f"inventories: [{{kind: listing, location: {tmp_path}/lake/}}]\n"
        f"tables: [{{name: orders, location: {tmp_path}/lake/orders, manifests: [{{kind: delta}}]}}]\n"
    )
    place = f"s3://{bucket}/status/shop.yaml"
    write_s3(place, text.encode(), {"endpoint": s3.endpoint, "region": "us-east-1", "path_style": True})
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(s3.endpoint))
    return place


def test_an_audit_with_a_lake_file_on_s3(on_s3: str, tmp_path: Path) -> None:
    assert cli.main(["audit", on_s3, "--status-file", str(tmp_path / "status.json")]) == 1
    assert json.loads((tmp_path / "status.json").read_text())["findings"] == {"dropped": 1}
    assert cli.main(["findings", on_s3]) == 0
    assert lakeaudit.open(on_s3).config.name == "shop"


def test_a_lake_file_that_is_not_there(on_s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", f"{on_s3}x"]) == 2
    assert f"{on_s3}x: no such lake file (upload it, or correct its address)" in capsys.readouterr().err


def test_a_store_that_does_not_answer(on_s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A retry can succeed, unlike after a wrong lake file."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert cli.main(["audit", on_s3, "--status-file", str(tmp_path / "status.json")]) == 10
    status = json.loads((tmp_path / "status.json").read_text())
    assert "the lake file cannot be read: " in status["error"]
    assert status["retry"] is True

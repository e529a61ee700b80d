"""An audit that cannot reach its sources ends before it reads: one message, within seconds, without Spark."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.audit.preflight import nothing_to_read
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients, Endpoint, forget_clients, why_unusable
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.connections.reach import listens
from tests.builders.results import LAKE, lake_file

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def dead() -> str:
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def lake_at(folder: Path, place: Location, endpoint: str, **changes: Any) -> str:
    return lake_file(
        folder, place, s3={"endpoint": endpoint, "region": "us-east-1", "path_style": True}, **changes
    )


def no_spark(*_: object) -> None:
    raise AssertionError("Spark must not start")


def test_a_dead_endpoint_ends_the_audit_at_once_and_is_reported_once(
    tmp_path: Path, place: Location, dead: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeaudit.commands.on_spark._session", no_spark)
    inventories = [
        {"kind": "s3_inventory", "location": "s3://inv/daily/"},
        {"kind": "listing", "location": "s3://lake/"},
    ]
    file = lake_at(tmp_path, place, dead, inventories=inventories)
    assert cli.main(["audit", file, "--run-id", "r9", "--format", "json"]) == 10
    printed = capsys.readouterr()
    told = (
        f"no source can be reached: bucket inv, bucket lake: the endpoint {dead} cannot be reached; "
        "check s3.endpoint and the network"
    )
    assert printed.err.splitlines()[-1] == f"lakeaudit: {LAKE}: {told}"
    assert json.loads(printed.out)["retry"] is True
    (run,) = Results(place, Clients(), LAKE).runs()
    assert (run["run_id"], run["status"], run["error"]) == ("r9", "failed", f"{LAKE}: {told}")


def test_results_that_cannot_be_reached_are_reported_before_the_lease(
    tmp_path: Path, dead: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeaudit.commands.on_spark._session", no_spark)
    file = lake_at(tmp_path, Location("results", "shop"), dead)
    assert cli.main(["audit", file]) == 14
    assert f"s3://results/shop: the endpoint {dead} cannot be reached" in capsys.readouterr().err


def test_a_lease_that_is_held_ends_the_audit_before_spark(
    tmp_path: Path, place: Location, s3: Endpoint, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeaudit.ledger.lease import leased
    from lakeaudit.runtime.progress import SilentProgress

    monkeypatch.setattr("lakeaudit.commands.on_spark._session", no_spark)
    file = lake_at(tmp_path, place, str(s3.endpoint))
    with leased(place, Clients(), "other", SilentProgress()):
        assert cli.main(["audit", file]) == 13
    assert "another audit writes here (other)" in capsys.readouterr().err


def test_one_source_that_can_be_reached_is_enough(
    tmp_path: Path, place: Location, dead: str, s3: Endpoint
) -> None:
    both = [
        {"kind": "listing", "location": "s3://lake/"},
        {"kind": "listing", "location": "s3://elsewhere/", "s3": {"endpoint": s3.endpoint}},
    ]
    lake = load_lake(lake_at(tmp_path, place, dead, inventories=both), {})
    assert nothing_to_read(lake, lake.tables, clients_of(lake), live=False) is None
    assert nothing_to_read(lake, lake.tables, clients_of(lake), live=True) is not None
    local = load_lake(
        lake_at(tmp_path, place, dead, inventories=[{"kind": "listing", "location": str(tmp_path)}]), {}
    )
    assert nothing_to_read(local, local.tables, clients_of(local), live=False) is None


def test_what_listens(s3: Endpoint, dead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert listens(str(s3.endpoint))
    assert not listens(dead)
    listens.cache_clear()
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert listens(dead), "only the proxy knows"
    listens.cache_clear()


def test_credentials_that_are_missing_name_the_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    config = tmp_path / "config"
    config.write_text("[profile audit]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_PROFILE", "audit")
    forget_clients()
    try:
        told = why_unusable(Endpoint(region="eu-west-1"))
        monkeypatch.setenv("AWS_PROFILE", "nobody")
        forget_clients()
        unknown = why_unusable(Endpoint(region="eu-west-1"))
    finally:
        monkeypatch.undo()
        forget_clients()
    assert told is not None
    assert told.what == "no AWS credentials found (profile audit)"
    assert unknown is not None
    assert unknown.what == "the AWS configuration has no profile nobody"

"""The status file of each command that a scheduler runs: what is in it, whatever the end. No JVM."""

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from lakeaudit import cli
from lakeaudit.errors import Busy, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.results.write_errors import refuse
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.aws_failures import explain
from tests.builders.results import covered, finding, lake_file, publish, run
from tests.conftest import Aws

COMMANDS = ("doctor", "audit", "alert", "report")


def status_after(command: str, lake: str, *more: str) -> dict[str, Any]:
    """Run a command; return its status file, whose exit code equals the command's."""
    status = Path(lake).with_name("status.json")
    code = cli.main([command, lake, *more, "--status-file", str(status)])
    said: dict[str, Any] = json.loads(status.read_text())
    assert said["exit_code"] == code
    return said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_lake_file_that_cannot_be_used(command: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake.yaml"
    lake.write_text("version: 1\nlake: shop\n")
    said = status_after(command, str(lake))
    assert (said["command"], said["exit_code"], said["retry"]) == (command, 2, False)
    assert f"{lake}:1: results: is missing" in said["error"]


def test_a_bad_option_is_reported_in_the_lakes_own_store(
    tmp_path: Path, place: Location, s3: Endpoint, aws: Aws, bucket: str
) -> None:
    """The status file is written although nothing was begun."""
    reach = {"endpoint": s3.endpoint, "region": s3.region, "path_style": True}
    lake = lake_file(tmp_path, place, s3=reach)
    status = f"s3://{bucket}/status.json"
    assert cli.main(["audit", lake, "--table", "no.such", "--status-file", status]) == 2
    said = json.loads(aws.s3.get_object(Bucket=bucket, Key="status.json")["Body"].read())
    assert (said["exit_code"], said["retry"]) == (2, False)
    assert said["error"].startswith("--table: no table no.such")


def test_a_report(lake: str, place: Location, tmp_path: Path) -> None:
    publish(place, runs=[run()], coverage=[covered()], findings=[finding("dropped", "orders/a")])
    said = status_after("report", lake, "--in-results")
    assert said == {"command": "report", "exit_code": 0, "retry": False, "verdict": said["verdict"]}
    assert said["verdict"].startswith("CRITICAL: 1 file dropped in 1 table")
    assert (tmp_path / "results" / "report.html").read_text().startswith("<!doctype html>")


def test_a_report_of_nothing(lake: str) -> None:
    said = status_after("report", lake)
    assert (said["exit_code"], said["retry"]) == (10, False)
    assert "holds no finished audit" in said["error"]


def test_alerts_that_were_sent_and_that_were_not(
    lake: str, place: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status_after("alert", lake) == {
        "command": "alert",
        "exit_code": 0,
        "retry": False,
        "verdict": "no alert was sent: the lake file names no receiver; add `alerts` to it",
    }
    monkeypatch.delenv("NOT_SET", raising=False)
    publish(place, runs=[run(status="failed", error="no evidence", finished_at=datetime.now(UTC))])
    said = status_after(
        "alert", lake_file(tmp_path, place, alerts=[{"kind": "apprise", "url_env": "NOT_SET"}])
    )
    assert (said["exit_code"], said["retry"]) == (3, True)
    assert "NOT_SET" in said["verdict"]


def test_a_doctor_who_may_find_it_well_later(tmp_path: Path, place: Location) -> None:
    nobody = {"endpoint": "http://127.0.0.1:9", "region": "us-east-1", "path_style": True}
    said = status_after("doctor", lake_file(tmp_path, place, s3=nobody))
    assert (said["exit_code"], said["retry"]) == (10, True)
    assert said["verdict"].startswith("NOTHING CAN BE AUDITED")


def answer(code: str, http: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": http}}, "Get")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (EndpointConnectionError(endpoint_url="http://x"), True),
        (ReadTimeoutError(endpoint_url="http://x"), True),
        (answer("SlowDown", 503), True),
        (answer("ThrottlingException"), True),
        (answer("InternalError", 500), True),
        (answer("ExpiredToken"), True),
        (answer("AccessDenied", 403), False),
        (answer("NoSuchBucket", 404), False),
        (NoCredentialsError(), False),
        (ValueError("odd"), False),
    ],
)
def test_which_failures_are_retryable(error: Exception, retryable: bool) -> None:
    assert explain(error).retryable is retryable


@pytest.mark.parametrize(
    ("cause", "retryable"),
    [
        ("java.net.ConnectException: Connection refused", True),
        ("io.delta.exceptions.ConcurrentAppendException", True),
        ("AccessDenied: no", False),
        ("something odd", False),
    ],
)
def test_which_refusals_of_the_results_are_retryable(cause: str, retryable: bool) -> None:
    with pytest.raises(CannotPublish) as caught:
        refuse(Location("audit", "shop"), [cause], ValueError())
    assert caught.value.retryable is retryable


def test_an_error_from_a_worker_stays_retryable() -> None:
    assert pickle.loads(pickle.dumps(Busy("a", "b", "c", retryable=True))).retryable

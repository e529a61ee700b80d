"""`lakeaudit audit --live` on the command line: a small scope is audited in this process, without a JVM."""

import json
from pathlib import Path
from typing import NoReturn

import pytest

from lakeaudit import cli
from lakeaudit.commands import audit as command
from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import results_of
from tests.builders.shop import DAYS, Shop
from tests.conftest import Aws

SPARK = CannotAudit("Java", "none in this test", "")


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for a Spark session ends the command."""

    def refuse_session(*_: object) -> NoReturn:
        raise SPARK

    monkeypatch.setattr("lakeaudit.commands.on_spark._session", refuse_session)


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Shop:
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    made.lake(tmp_path)
    return made


def test_a_live_audit_starts_no_jvm(shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = shop.keys("orders")[0]
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    assert cli.main(["audit", str(tmp_path / "lake.yaml"), "--live", "--run-id", "now"]) == 1
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1] == "CRITICAL: 1 dropped in 1 table"
    stages = [json.loads(line)["stage"] for line in printed.err.splitlines()[:-1]]
    assert "match and classify" in stages
    assert "start Spark" not in stages
    results = results_of(shop.lake(tmp_path))
    assert results.published(None)["run_id"] == "now"
    assert [row["key"] for row in results.worst("now", 9)] == [lost]


def test_a_live_audit_of_one_partition_starts_none_either(shop: Shop, tmp_path: Path) -> None:
    line = [
        "audit",
        str(tmp_path / "lake.yaml"),
        "--live",
        "--partition",
        f"day={DAYS[0]}",
        "--run-id",
        "now",
    ]
    assert cli.main(line) == 0
    (source,) = [
        each for each in results_of(shop.lake(tmp_path)).runs()[0]["sources"] if each["role"] == "storage"
    ]
    assert source["location"].endswith(f"orders/day={DAYS[0]}")


@pytest.mark.parametrize("options", [["--live", "--spark"], []])
def test_spark_is_started_on_request_and_for_any_other_audit(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    shop.take_inventory()
    assert cli.main(["audit", str(tmp_path / "lake.yaml"), *options]) == SPARK.exit_code
    assert "Java: none in this test" in capsys.readouterr().err


def test_spark_is_the_engine_where_spark_submit_has_started_it(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert shop.keys("orders")
    assert cli.main(["audit", str(tmp_path / "lake.yaml"), "--live"]) == SPARK.exit_code
    assert "Java: none in this test" in capsys.readouterr().err


def test_what_is_too_much_for_this_process_asks_for_spark(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROWS_IN_PROCESS", 10)
    assert len(shop.keys("orders")) * 2 > 10
    assert cli.main(["audit", str(tmp_path / "lake.yaml"), "--live"]) == SPARK.exit_code
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()[:-1]]
    assert [line["stage"] for line in lines if line["failed"]][-1] == "find evidence"


def test_a_gap_of_another_table_makes_no_audit_of_one_table_partial(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("lines", commits=3)
    shop.lake(tmp_path)
    shop.s3.delete_object(Bucket=shop.bucket, Key=f"warehouse/lines/_delta_log/{1:020}.json")
    file = str(tmp_path / "lake.yaml")
    assert cli.main(["audit", file, "--live", "--table", "orders", "--fail-on", "never"]) == 0
    assert "partial" not in capsys.readouterr().err.splitlines()[-1]
    assert cli.main(["audit", file, "--live", "--table", "lines", "--fail-on", "never"]) == 3

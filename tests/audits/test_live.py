"""`lakeaudit audit --live` on the command line: a small scope is audited in this process, without a JVM."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import pytest

from lakeaudit import cli
from lakeaudit.config import Lake
from lakeaudit.engine import spark
from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import results_of
from tests.builders.shop import DAYS, Shop
from tests.conftest import Aws

SPARK = CannotAudit("Java", "none in this test", "")


@pytest.fixture(scope="module", autouse=True)
def no_session() -> Iterator[None]:
    """A request for a Spark session ends the command."""

    def refuse_session(*_: object) -> NoReturn:
        raise SPARK

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lakeaudit.commands.on_spark._session", refuse_session)
        yield


@dataclass(frozen=True)
class LiveLake:
    """A lake whose table `orders` lost a file of the first day; the log of its table `lines` has a gap."""

    shop: Shop
    lake: Lake
    file: str
    key: str


@pytest.fixture(scope="module")
def live_lake(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> LiveLake:
    bucket, folder = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("live")
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders")
    shop.write("lines", commits=3)
    shop.take_inventory()
    lost = shop.keys("orders")[0]
    for key in (lost, f"warehouse/lines/_delta_log/{1:020}.json"):
        shop.s3.delete_object(Bucket=bucket, Key=key)
    return LiveLake(shop, shop.lake(folder), str(folder / "lake.yaml"), lost)


def test_a_live_audit_starts_no_jvm(live_lake: LiveLake, capsys: pytest.CaptureFixture[str]) -> None:
    """It is partial because of the gap in the log of `lines`."""
    assert cli.main(["audit", live_lake.file, "--live", "--run-id", "whole"]) == 1
    printed = capsys.readouterr()
    worst = "CRITICAL: 2 discrepancies in 2 tables: 1 file dropped, 1 metadata file missing (the audit is partial)"
    assert printed.err.splitlines()[-1] == worst
    stages = [json.loads(line)["stage"] for line in printed.err.splitlines()[:-1]]
    assert "match and classify" in stages
    assert "start Spark" not in stages
    results = results_of(live_lake.lake)
    assert results.published(None)["run_id"] == "whole"
    assert [row["key"] for row in results.worst("whole", 9) if row["kind"] == "dropped"] == [live_lake.key]


@pytest.mark.variant
def test_a_gap_of_another_table_makes_no_audit_of_one_table_partial(
    live_lake: LiveLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """The audit of the whole lake is partial; this one reads a partition that lost nothing."""
    line = [
        "audit",
        live_lake.file,
        "--live",
        "--table",
        "orders",
        "--partition",
        f"day={DAYS[1]}",
        "--run-id",
        "one",
    ]
    assert cli.main(line) == 0
    assert "partial" not in capsys.readouterr().err.splitlines()[-1]
    (run,) = (row for row in results_of(live_lake.lake).runs() if row["run_id"] == "one")
    (source,) = (each for each in run["sources"] if each["role"] == "storage")
    assert source["location"].endswith(f"orders/day={DAYS[1]}")


@pytest.mark.variant
def test_an_audit_of_a_small_inventory_starts_no_jvm(
    live_lake: LiveLake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["audit", live_lake.file, "--run-id", "listed"]) == 1
    assert "start Spark" not in capsys.readouterr().err
    assert results_of(live_lake.lake).published(None)["run_id"] == "listed"


@pytest.mark.variant
@pytest.mark.parametrize("options", [["--live", "--spark"], ["--spark"]])
def test_spark_is_started_on_request(
    live_lake: LiveLake, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert cli.main(["audit", live_lake.file, *options]) == SPARK.exit_code
    assert "Java: none in this test" in capsys.readouterr().err


def test_spark_is_the_engine_where_spark_submit_has_started_it(
    live_lake: LiveLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert cli.main(["audit", live_lake.file, "--live"]) == SPARK.exit_code
    assert "Java: none in this test" in capsys.readouterr().err


@pytest.mark.variant
def test_what_exceeds_the_memory_of_this_process_is_judged_without_spark(
    live_lake: LiveLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["audit", live_lake.file, "--live", "--run-id", "in-memory"]) == 1
    monkeypatch.setattr(spark, "ROWS_IN_PROCESS", 3)
    assert len(live_lake.shop.keys("orders")) > 3
    assert cli.main(["audit", live_lake.file, "--live", "--run-id", "in-files"]) == 1
    assert "start Spark" not in capsys.readouterr().err
    in_memory, in_files = (
        sorted((row["kind"], row["key"]) for row in rows_of(results_of(live_lake.lake).findings(run_id)))
        for run_id in ("in-memory", "in-files")
    )
    assert in_memory == in_files != []

"""The check file and the answers that audits leave on S3, for pipelines without lakeaudit."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lake_check
from lakeaudit import cli
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.shop import Shop
from tests.conftest import Aws

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    for name, value in {
        "ACCESS_KEY_ID": "test",
        "SECRET_ACCESS_KEY": "test",
        "DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    shop = Shop(aws.s3, s3, bucket)
    for table in ("orders", "returns"):
        shop.write(table, days=("2026-11-01",))
    return shop


@pytest.fixture
def lake_file(shop: Shop, tmp_path: Path) -> str:
    """A lake file whose results are on S3; its tables are listed."""
    shop.lake(
        tmp_path,
        inventories=f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse/'}}]",
        extra='airflow: {assets: [orders, "none.*"]}\n',
    )
    file = tmp_path / "lake.yaml"
    file.write_text(file.read_text().replace(str(tmp_path / "results"), f"s3://{shop.bucket}/results"))
    return str(file)


def audit(lake_file: str, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answers of one audit."""
    status = folder / "status.json"
    code = cli.main(["audit", lake_file, "--status-file", str(status), *options])
    return code, json.loads(status.read_text()).get("answers", {})


def answer(lake_file: str, table: str) -> str:
    content = lake_check.read_check_file(lake_file)
    return lake_check.answer_of(content, table, lake_check.Demand(), datetime.now(UTC))[0]


@pytest.mark.variant
def test_each_audit_replaces_the_answers(
    shop: Shop, lake_file: str, tmp_path: Path, capsys: Captured
) -> None:
    with pytest.raises(FileNotFoundError):
        lake_check.read_check_file(lake_file)
    assert cli.main(["check", lake_file, "--table", "orders"]) == 3

    code, answers = audit(lake_file, tmp_path)
    assert (code, {name: row["answer"] for name, row in answers.items()}) == (0, {"orders": "ok"})
    assert (answer(lake_file, "orders"), answer(lake_file, "returns")) == ("ok", "ok")

    shop.s3.delete_object(Bucket=shop.bucket, Key=shop.keys("orders")[0])
    code, answers = audit(lake_file, tmp_path, "--table", "returns")
    assert (code, answers) == (0, {}), "this audit did not judge the selected table"
    assert answer(lake_file, "orders") == "ok", "as of the audit before"

    code, answers = audit(lake_file, tmp_path)
    assert (code, answers["orders"]["answer"], answers["orders"]["open"]) == (
        1,
        "discrepancies",
        {"critical": 1},
    )
    assert (answer(lake_file, "orders"), answer(lake_file, "returns")) == ("discrepancies", "ok")
    capsys.readouterr()
    assert cli.main(["check", lake_file, "--table", "*", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert {row["table"]: row["answer"] for row in document["tables"]} == {
        "orders": "discrepancies",
        "returns": "ok",
    }


def test_a_failed_audit_makes_answers_unknown(lake_file: str, shop: Shop, tmp_path: Path) -> None:
    """The listing of another bucket covers no table, so that nothing can be judged."""
    assert audit(lake_file, tmp_path)[0] == 0
    file = Path(lake_file)
    shop.s3.create_bucket(Bucket=f"{shop.bucket}-x")
    place = f"location: 's3://{shop.bucket}/warehouse/'}}]"
    file.write_text(file.read_text().replace(place, place.replace("/warehouse/", "-x/")))
    code, _ = audit(lake_file, tmp_path)
    assert code == 10
    assert (answer(lake_file, "orders"), answer(lake_file, "returns")) == ("unknown", "unknown")
    assert cli.main(["check", lake_file, "--table", "orders"]) == 3


@pytest.mark.variant
def test_a_check_file_that_cannot_be_written_is_a_warning(
    shop: Shop, tmp_path: Path, capsys: Captured
) -> None:
    """The audit itself is published."""
    shop.lake(tmp_path, inventories=f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse/'}}]")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "check").write_text("a file in the place of the folder")
    assert audit(str(tmp_path / "lake.yaml"), tmp_path)[0] == 0
    printed = capsys.readouterr().err
    assert "check/shop.json was not written" in printed
    assert cli.main(["check", str(tmp_path / "lake.yaml"), "--table", "orders"]) == 0


@pytest.mark.variant
def test_a_pipeline_waits_for_verified_commits(lake_file: str, tmp_path: Path) -> None:
    assert audit(lake_file, tmp_path)[0] == 0
    content = lake_check.read_check_file(lake_file)
    now = datetime.now(UTC)
    through = lake_check.time_of(content["tables"]["orders"]["verified_through"])
    assert through is not None

    def answer_to(demanded: datetime) -> tuple[str, str]:
        return lake_check.answer_of(content, "orders", lake_check.Demand(verified_through=demanded), now)

    assert answer_to(through)[0] == "ok"
    answer, line = answer_to(now + timedelta(minutes=1))
    assert (answer, f"verified only through {through}" in line) == ("unknown", True)
    del content["tables"]["orders"]["verified_through"]
    assert answer_to(through)[0] == "unknown", "an older version of lakeaudit wrote the file"

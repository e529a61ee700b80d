"""Signed certificates of real audits: written, verified, and replayed with their evidence."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited
from tests.builders.backdate import age_all
from tests.builders.certificates import payload_of, write_key
from tests.builders.shop import Shop
from tests.conftest import Aws

AGO = timedelta(days=5)


@dataclass(frozen=True)
class Signed:
    """A lake with two certificates: of an audit without live checks (`stored`), and of one with them (`asked`)."""

    shop: Shop
    folder: Path
    at: datetime


Captured = pytest.CaptureFixture[str]


def run(*words: str) -> int:
    return cli.main(["certificate", *words])


@pytest.fixture(scope="module")
def signed(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Signed:
    folder, bucket = tmp_path_factory.mktemp("signed"), "signed-certificates"
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=2)
    shop.write("stock", commits=1)
    age_all(bucket, AGO)
    at = datetime.now(UTC) - timedelta(days=2)
    shop.take_inventory(at=at)
    age_all(bucket, timedelta(days=2), prefix="inventories/")
    shop.write("orders", commits=1)  # younger than the report, and newer than `--as-of`
    write_key(folder / "key.pem")
    for name, grace, confirm in (
        ("stored", "1h", "confirm: {mode: none}"),
        ("asked", "0s", "confirm: {mode: head}"),
    ):
        (folder / name).mkdir()
        lake = shop.lake(folder / name, defaults=f"grace: {grace}, {confirm}")
        audited(lake, run_id=name)
        words = ("write", str(folder / name / "lake.yaml"), "--key", str(folder / "key.pem"))
        assert run(*words, "-o", str(folder / f"{name}.json")) == 0
    return Signed(shop, folder, at)


SAME = (
    "good     replay: the same evidence gives the same 14 rows of tallies of 2 tables, without upcoming losses: nothing"
    " stores the lifecycle rules of that time"
)


def replayed(signed: Signed, name: str, capsys: Captured, lake: str | None = None) -> tuple[int, list[str]]:
    """Verify a certificate of the lake `name` with a replay; return the exit code and the lines about the replay."""
    capsys.readouterr()
    file = signed.folder / (lake or name) / "lake.yaml"
    code = run("verify", str(signed.folder / f"{name}.json"), "--replay", str(file))
    lines = capsys.readouterr().out.splitlines()
    return code, [line for line in lines if "replay" in line]


def test_a_replay_gives_the_same_tallies_for_ever(signed: Signed, capsys: Captured) -> None:
    """Newer commits, lost files and a report that was begun before the audit and delivered after it change nothing."""
    content = payload_of(signed.folder / "stored.json")["predicate"]
    assert content["has_live_checks"] is False
    assert (content["files_agreed"], content["files"], content["files_too_young"]) == (9, 12, 3)
    same = (0, [SAME])
    assert replayed(signed, "stored", capsys) == same
    results = sorted(path.name for path in (signed.folder / "stored" / "results" / "runs").glob("*.parquet"))
    signed.shop.write("orders", commits=1)
    signed.shop.s3.delete_object(Bucket=signed.shop.bucket, Key=signed.shop.keys("stock")[0])
    signed.shop.take_inventory(at=signed.at + timedelta(days=1))
    assert replayed(signed, "stored", capsys) == same
    assert (
        sorted(path.name for path in (signed.folder / "stored" / "results" / "runs").glob("*.parquet"))
        == results
    )


def test_the_evidence_of_a_certificate(signed: Signed) -> None:
    content = payload_of(signed.folder / "stored.json")["predicate"]
    report, log = content["evidence"]
    assert (report["kind"], log["kind"]) == ("s3_inventory", "delta")
    assert [each.partition(":")[0] for each in (*report["digests"], *log["digests"])] == ["md5", "sha256"]
    assert [(each["table"], [state["number"] for state in each["states"]]) for each in content["table_states"]] == [
        ("orders", [2]), ("stock", [0]),
    ]  # fmt: skip
    assert all(each["verified_through"] for each in content["table_states"])


def test_answers_of_live_checks_cannot_be_replayed(signed: Signed, capsys: Captured) -> None:
    content = payload_of(signed.folder / "asked.json")["predicate"]
    assert content["has_live_checks"] is True
    assert content["files_agreed"] == 12
    code, lines = replayed(signed, "asked", capsys)
    assert code == 3
    (line,) = lines
    assert line.startswith(
        "unknown  replay: orders: content: consistent 9 is now 6, out_of_window 0 is now 3;"
    )


def test_another_lake_file_may_explain_a_difference(signed: Signed, capsys: Captured) -> None:
    other = signed.folder / "other"
    other.mkdir()
    text = (signed.folder / "stored" / "lake.yaml").read_text()
    covers = f"margin: 0s, covers: ['s3://{signed.shop.bucket}/warehouse/orders/']"
    (other / "lake.yaml").write_text(text.replace("margin: 0s", covers))
    code, lines = replayed(signed, "stored", capsys, lake="other")
    assert (code, bool(lines)) == (3, True)
    assert all(line.endswith("the lake file has changed since the certificate") for line in lines[:10])
    (other / "lake.yaml").write_text(text.replace("lake: shop", "lake: bank"))
    assert replayed(signed, "stored", capsys, lake="other") == (
        3, ["unknown  replay: the lake file is of the lake bank"],
    )  # fmt: skip


def test_evidence_that_changed_gives_no_answer(signed: Signed, capsys: Captured) -> None:
    """The report was removed: the replay does not take another one for it."""
    s3, bucket = signed.shop.s3, signed.shop.bucket
    reports = s3.list_objects_v2(Bucket=bucket, Prefix=f"inventories/{signed.at:%Y-%m-%d}")
    for each in reports["Contents"]:
        s3.delete_object(Bucket=bucket, Key=each["Key"])
    code, lines = replayed(signed, "stored", capsys)
    assert code == 3
    assert any("the evidence is not the same: s3_inventory" in line for line in lines), lines

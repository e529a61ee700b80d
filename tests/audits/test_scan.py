"""`lakeaudit scan` judges the tables below a location once, and leaves nothing behind."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.commands.scan import dollars
from lakeaudit.runtime.connections.aws import Endpoint
from tests.audits.test_bounds import put
from tests.builders.backdate import backdate
from tests.builders.delta_lake import BORN, Log, add
from tests.conftest import Aws

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=9)
TABLES = ("customers", "sales/orders", "sales/returns")


def lay(root: Path) -> Path:
    """Three old tables of two files each, and a file in one of them that no version lists."""
    for name in TABLES:
        files = ("a.parquet", "b.parquet")
        Log(root / name).commit(0, *BORN, *(add(file, size=100) for file in files), when=LONG_AGO)
        for file in files:
            put(root / name / file, 100, LONG_AGO)
    put(root / "customers/unlisted.parquet", 5_000, LONG_AGO)
    return root


def lose(root: Path) -> None:
    (root / "sales/orders/a.parquet").unlink()


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return lay(tmp_path / "lake")


def scan(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["scan", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_lost_file_is_named_and_nothing_is_left_behind(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lose(lake)
    before = files_below(tmp_path)
    code, out, err = scan(capsys, str(lake))
    assert code == 1
    assert f"{lake}/sales/orders/a.parquet" in out
    assert "recoverable: no" in out
    assert "unreferenced: 1 file, 4.9 KiB" in out
    assert "3 of 3 tables fully judged" in out
    titles = [
        out.index(title) for title in ("Worst findings", "Data that no table needs", "Coverage", "Next")
    ]
    assert titles == sorted(titles)
    assert err.splitlines()[-1] == "CRITICAL: 1 dropped in 1 table"
    assert files_below(tmp_path) == before


def test_a_healthy_lake_is_quiet(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lake / "customers/unlisted.parquet").unlink()
    code, out, err = scan(capsys, "./lake")
    assert code == 0
    assert "Worst findings" not in out
    assert err.splitlines()[-1].startswith("OK: ")


def test_a_saved_lake_file_can_be_audited(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(lake)
    code, out, _ = scan(capsys, str(lake), "--save", "mine.yaml", "--fail-on", "never")
    assert code == 0
    assert "lakeaudit audit mine.yaml" in out
    assert "--save" not in out
    assert cli.main(["audit", "mine.yaml"]) == 1
    capsys.readouterr()
    code, _, err = scan(capsys, str(lake), "--save", "mine.yaml")
    assert (code, err.splitlines()[-1]) == (
        2,
        "lakeaudit: mine.yaml: exists already; name another file with -o",
    )


def test_programs_get_one_object(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(lake)
    code, out, _ = scan(capsys, str(lake), "--format", "json")
    found = json.loads(out)
    assert code == 1
    assert (found["tables"], found["all_found"], found["unneeded_bytes"]) == (3, True, 5_000)
    kinds = [(each["kind"], each["severity"], each["files"], each["bytes"]) for each in found["kinds"]]
    assert kinds == [("dropped", "critical", 1, 100), ("unreferenced", "info", 1, 5_000)]
    assert found["judged"] == {
        "customers": "complete",
        "sales.orders": "complete",
        "sales.returns": "complete",
    }


@pytest.mark.parametrize(
    ("place", "code", "told"),
    [
        ("./nowhere", 2, "is not a folder; name a folder that exists"),
        (
            "./empty",
            10,
            "no Delta log, no Iceberg metadata and no Hudi timeline was found in 1 folder of 5 levels",
        ),
        ("ftp://x", 2, "is not a location; write s3://bucket/prefix, or a path such as ./data"),
    ],
)
def test_a_location_that_cannot_be_scanned(
    lake: Path, capsys: pytest.CaptureFixture[str], place: str, code: int, told: str
) -> None:
    (lake.parent / "empty").mkdir()
    done, _, err = scan(capsys, place)
    assert done == code
    assert told in err.splitlines()[-1]


@pytest.fixture
def bucket(aws: Aws, tmp_path: Path) -> str:
    """A bucket with versions and the old tables; a file was deleted."""
    name = f"scan-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=name)
    aws.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for path in files_below(lay(tmp_path / "lake")):
        key = f"wh/{path.relative_to(tmp_path / 'lake')}"
        aws.s3.upload_file(str(path), name, key)
        backdate(name, key, LONG_AGO)
    aws.s3.delete_object(Bucket=name, Key="wh/customers/a.parquet")
    return name


def test_a_lost_object_that_can_be_restored_is_named(
    s3: Endpoint, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = scan(capsys, f"s3://{bucket}/wh", "--endpoint", str(s3.endpoint))
    assert code == 1, err
    assert f"s3://{bucket}/wh/customers/a.parquet" in out
    assert "recoverable: yes" in out


def test_a_bucket_that_does_not_exist_cannot_be_scanned(
    s3: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = scan(capsys, f"s3://none-{uuid.uuid4().hex}/wh", "--endpoint", str(s3.endpoint))
    assert (code, "bucket" in err.splitlines()[-1]) == (10, True), err


def test_prices_are_those_of_decimal_gigabytes() -> None:
    assert (dollars(0, 0.023), dollars(10**12, 0.023), dollars(10**15, 0.02)) == (
        "0.00",
        "23.00",
        "20,000.00",
    )

"""Watched places: partly covered ones, large ones, ones that catalogs name, and ones with a projection pass."""

from pathlib import Path

import pytest

from lakeaudit.audit import projection_pass
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.audits import audited
from tests.builders.hive_lake import HiveLake
from tests.builders.watched_place import Place, covered, kinds
from tests.conftest import Aws

pytestmark = pytest.mark.soak


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ("elsewhere", "no storage source covers the watched place"),
        ("wh/sales", "storage sources cover only parts of the watched place"),
    ],
)
def test_a_place_that_storage_evidence_does_not_cover_says_so(place: Place, listed: str, reason: str) -> None:
    (place.folder / "elsewhere").mkdir()
    place.put("old/1.csv")
    lake = place.lake(listed=listed)
    audited(lake, run_id="r1")
    row = covered(lake)
    assert (row["status"], row["reason"]) == ("partial", reason)
    assert kinds(lake) == {}


def test_more_prefixes_than_anybody_reads_are_one_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeaudit.matching.watched_folders.MOST_PREFIXES", 3)
    place.put(*(f"user{n}/x.csv" for n in range(4)), "t/_delta_log/0.json")
    lake = place.lake()
    audited(lake, run_id="r1")
    assert kinds(lake) == {"": ("unowned", 4), "t/": ("unregistered_table", 1)}


def test_a_projection_pass_gives_the_same_findings(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection_pass, "PREFILTER_FROM", 0)
    place.put("old/1.csv", "t/_delta_log/0.json", "t/day=1/p.parquet")
    lake = place.lake()
    audited(lake, run_id="r1")
    assert kinds(lake) == {"old/": ("unowned", 1), "t/": ("unregistered_table", 2)}


def test_tables_that_a_catalog_names_are_named(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    hive = HiveLake(aws, clients, s3, bucket, tmp_path)
    orders = hive.table("orders", "day")
    hive.partition("orders", ["2026-11-01"], f"{orders}/day=2026-11-01")
    hive.partition("orders", ["2026-11-02"], "wh/moved/day=2026-11-02")
    hive.catalog.table("elsewhere", hive.uri("wh/deep/elsewhere"), ())
    hive.put("wh/deep/elsewhere/_delta_log/0.json")
    hive.put("wh/deep/stray/_delta_log/0.json")
    hive.put("wh/marker/", b"")
    lake = hive.lake(f"watch: ['{hive.uri('wh/')}']\n")
    audited(lake, run_id="r1")
    assert kinds(lake) == {"deep/stray/": ("unregistered_table", 1)}

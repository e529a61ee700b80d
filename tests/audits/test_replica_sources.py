"""Copies of another place by its report of yesterday: what the other place has vacuumed since is not lost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.audits.test_migration import FILES, Move
from tests.builders.audits import audited, results_of
from tests.builders.inventory import Version, csv, lay
from tests.builders.refusals import Refusals, refusing
from tests.conftest import Aws

VACUUMED, LOST = FILES[:2]


def here(key: str) -> str:
    return key.replace("wh/", "lake/", 1)


@pytest.fixture
def move(aws: Aws, s3: Endpoint, tmp_path: Path) -> Move:
    """After a report of the old place one file was vacuumed there and here, and another one was lost here."""
    made = Move(aws, s3, tmp_path)
    listed = made.s3.list_objects_v2(Bucket=made.old, Prefix="wh/orders/")["Contents"]
    rows = [
        Version(each["Key"], None, Size=each["Size"], LastModifiedDate=each["LastModified"],
                ETag=each["ETag"].strip('"'), Bucket=made.old)
        for each in listed
    ]  # fmt: skip

    def put(key: str, body: bytes) -> Any:
        return made.s3.put_object(Bucket=made.old, Key=key, Body=body)

    lay(put, [csv(rows)], at=datetime.now(UTC) - timedelta(days=1), under="inv", source=made.old)
    for bucket, key in ((made.old, VACUUMED), (made.new, here(VACUUMED)), (made.new, here(LOST))):
        made.s3.delete_object(Bucket=bucket, Key=key)
    return made


def lake_of(move: Move, *more: dict[str, Any]) -> Lake:
    report = {"kind": "s3_inventory", "location": f"s3://{move.old}/inv/", "covers": [f"s3://{move.old}/wh/"]}
    place = f"s3://{move.new}/lake/orders"
    return move.lake(tables=[{"name": "orders", "location": place, "manifests": [report]}, *more])


def dropped(lake: Lake, run_id: str) -> list[str]:
    rows = rows_of(results_of(lake).findings(run_id))
    return sorted(row["key"] for row in rows if row["kind"] == "dropped")


def test_a_copy_without_an_original_is_consistent_and_one_with_it_is_lost(move: Move) -> None:
    """A copy that has a log of its own keeps its findings: its readers lose the rows, as those of a clone do."""
    clicks = "clicks/part-0.parquet"
    for bucket, key in ((move.old, f"wh/{clicks}"), (move.new, f"lake/{clicks}")):
        move.s3.delete_object(Bucket=bucket, Key=key)
    place = f"s3://{move.new}/lake/clicks"
    lake = lake_of(move, {"name": "clicks", "location": place, "manifests": [{"kind": "delta"}]})
    audited(lake, run_id="r1")
    assert dropped(lake, "r1") == sorted([here(LOST), f"lake/{clicks}"])
    (row,) = (
        r for r in results_of(lake).coverage("r1") if (r["axis"], r["table_name"]) == ("content", "orders")
    )
    assert (row["consistent"], row["findings"], row["status"]) == (len(FILES) - 1, 1, "complete")


def test_an_original_that_nobody_may_look_at_clears_nothing(move: Move) -> None:
    lake = lake_of(move)
    with refusing(Refusals(lambda request: request.startswith(f"HEAD {move.old}/wh/"), first=0)):
        audited(lake, run_id="r1")
    assert dropped(lake, "r1") == sorted([here(VACUUMED), here(LOST)])


def test_a_place_that_was_given_up_clears_nothing(move: Move) -> None:
    lake = lake_of(move)
    for key in FILES:
        move.s3.delete_object(Bucket=move.old, Key=key)
    for each in move.s3.list_objects_v2(Bucket=move.old, Prefix="wh/orders/").get("Contents", []):
        move.s3.delete_object(Bucket=move.old, Key=each["Key"])
    audited(lake, run_id="r1")
    assert dropped(lake, "r1") == sorted([here(VACUUMED), here(LOST)])

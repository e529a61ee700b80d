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

pytestmark = pytest.mark.variant

VACUUMED, LOST = FILES[:2]
CLICKS = "clicks/part-0.parquet"


def here(key: str) -> str:
    return key.replace("wh/", "lake/", 1)


def moved(aws: Aws, s3: Endpoint, folder: Path) -> Move:
    """After a report of the old place one file was vacuumed there and here, and another one was lost here."""
    made = Move(aws, s3, folder)
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


def orders(move: Move, name: str) -> dict[str, Any]:
    """The copied table in a lake file, by the report of its old place."""
    report = {"kind": "s3_inventory", "location": f"s3://{move.old}/inv/", "covers": [f"s3://{move.old}/wh/"]}
    return {"name": name, "location": f"s3://{move.new}/lake/orders", "manifests": [report]}


def abandon(move: Move) -> None:
    """Delete all files of the table in the old place."""
    for each in move.s3.list_objects_v2(Bucket=move.old, Prefix="wh/orders/").get("Contents", []):
        move.s3.delete_object(Bucket=move.old, Key=each["Key"])


def lose_clicks(move: Move) -> dict[str, Any]:
    """A copy that has a log of its own lost its only file, as its original did."""
    for bucket, key in ((move.old, f"wh/{CLICKS}"), (move.new, f"lake/{CLICKS}")):
        move.s3.delete_object(Bucket=bucket, Key=key)
    return {"name": "clicks", "location": f"s3://{move.new}/lake/clicks", "manifests": [{"kind": "delta"}]}


@pytest.fixture(scope="module")
def lake(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Copies of three old places, audited once: one that answers, one that refuses requests, and an abandoned one."""
    folder = tmp_path_factory.mktemp("copies")
    answering, refused, abandoned = (moved(aws, s3, folder) for _ in range(3))
    clicks = lose_clicks(answering)
    abandon(abandoned)
    moves = {"orders": answering, "refused": refused, "abandoned": abandoned}
    places = [(f"s3://{move.old}/wh/", f"s3://{move.new}/lake") for move in moves.values()]
    lake = answering.lake(
        inventories=[{"kind": "listing", "location": new} for _, new in places],
        maps=[{"from": old, "to": new} for old, new in places],
        tables=[*(orders(move, name) for name, move in moves.items()), clicks],
    )
    with refusing(Refusals(lambda request: request.startswith(f"HEAD {refused.old}/wh/"), first=0)):
        audited(lake, run_id="r1")
    return lake


def dropped(lake: Lake, *tables: str) -> list[str]:
    rows = rows_of(results_of(lake).findings("r1"))
    return sorted(row["key"] for row in rows if row["kind"] == "dropped" and row["table_name"] in tables)


def test_a_copy_without_an_original_is_consistent_and_one_with_it_is_lost(lake: Lake) -> None:
    """A copy that has a log of its own keeps its findings: its readers lose the rows, as those of a clone do."""
    assert dropped(lake, "orders", "clicks") == sorted([here(LOST), f"lake/{CLICKS}"])
    (row,) = (
        r for r in results_of(lake).coverage("r1") if (r["axis"], r["table_name"]) == ("content", "orders")
    )
    assert (row["consistent"], row["findings"], row["status"]) == (len(FILES) - 1, 1, "complete")


def test_an_original_that_nobody_may_look_at_clears_nothing(lake: Lake) -> None:
    assert dropped(lake, "refused") == sorted([here(VACUUMED), here(LOST)])


def test_a_place_that_was_given_up_clears_nothing(lake: Lake) -> None:
    assert dropped(lake, "abandoned") == sorted([here(VACUUMED), here(LOST)])

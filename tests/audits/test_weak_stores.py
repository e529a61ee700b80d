"""A store of weak consistency: an absence counts only if two responses, a minute apart, agree."""

import time
from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws


@pytest.mark.parametrize(
    ("consistency", "pauses", "dropped"),
    [
        pytest.param("weak", [60.0], {"gone"}, id="an old answer does not count, a loss does"),
        pytest.param("strong", [], {"gone", "back"}, id="a strong store is queried once"),
    ],
)
def test_an_absence_counts_after_a_second_look(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path,
    consistency: str, pauses: list[float], dropped: set[str],
) -> None:  # fmt: skip
    """Two files are absent; one is back a minute later."""
    shop = Shop(aws.s3, s3, bucket)
    for table in ("gone", "back"):
        shop.write(table, commits=1)
    lost, seen = {table: shop.keys(f"{table}/")[0] for table in shop.tables}, []
    body = shop.s3.get_object(Bucket=bucket, Key=lost["back"])["Body"].read()
    shop.take_inventory(lacks=[*lost.values()])
    for key in lost.values():
        shop.s3.delete_object(Bucket=bucket, Key=key)

    def pause(seconds: float) -> None:
        seen.append(seconds)
        shop.s3.put_object(Bucket=bucket, Key=lost["back"], Body=body)

    lake = shop.lake(tmp_path, extra=f"buckets: [{{match: '{bucket}', consistency: {consistency}}}]")
    outcome = audited(lake, pause=pause)
    rows = rows_of(results_of(lake).findings(outcome.run_id))
    assert (seen, {row["table_name"] for row in rows if row["kind"] == "dropped"}) == (pauses, dropped)


def test_a_listing_of_it_has_a_margin(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    """A file that was there a moment ago is too young to be missed in it."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    shop.s3.delete_object(Bucket=bucket, Key=shop.keys("orders")[0])
    time.sleep(1.1)
    weak = f"buckets: [{{match: '{bucket}', consistency: weak}}]"
    place = f"[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"
    lake = shop.lake(tmp_path, inventories=place, extra=weak, defaults="grace: 0s, confirm: {mode: none}")
    for live in (False, True):
        outcome = audited(lake, live=live)
        assert outcome.summary["findings"] == {}
        (row,) = (r for r in results_of(lake).coverage(outcome.run_id) if r["axis"] == "content")
        assert (row["consistent"], row["out_of_window"]) == (2, 1)

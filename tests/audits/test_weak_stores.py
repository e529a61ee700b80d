"""A store of weak consistency: what it says is absent is only believed when it says so twice, a minute apart."""

import time
from pathlib import Path

import pytest

from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.shop import Shop
from tests.conftest import Aws


@pytest.mark.parametrize(
    ("consistency", "comes_back", "pauses", "dropped"),
    [
        pytest.param("weak", True, [60.0], 0, id="an old answer"),
        pytest.param("weak", False, [60.0], 1, id="a loss"),
        pytest.param("strong", True, [], 1, id="a strong store is asked once"),
    ],
)
def test_an_absence_counts_after_a_second_look(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path,
    consistency: str, comes_back: bool, pauses: list[float], dropped: int,
) -> None:  # fmt: skip
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    lost, seen = shop.keys("orders")[0], []
    body = shop.s3.get_object(Bucket=bucket, Key=lost)["Body"].read()
    shop.take_inventory(lacks=[lost])
    shop.s3.delete_object(Bucket=bucket, Key=lost)

    def pause(seconds: float) -> None:
        seen.append(seconds)
        if comes_back:
            shop.s3.put_object(Bucket=bucket, Key=lost, Body=body)

    lake = shop.lake(tmp_path, extra=f"buckets: [{{match: '{bucket}', consistency: {consistency}}}]")
    outcome = audited(lake, pause=pause)
    assert (seen, outcome.summary["findings"].get("dropped", 0)) == (pauses, dropped)


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

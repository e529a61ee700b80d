"""Tables of different formats at one location are tables of their own: each is audited, in any order."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import age_all, backdate
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.shop import Shop
from tests.builders.two_formats import TwoFormats
from tests.conftest import Aws

pytestmark = pytest.mark.variant

FORMATS = {"orders": ("delta", "iceberg"), "rides": ("hudi", "delta"), "shown": ("delta", "symlink")}
NOW = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1MiB"
Subjects = set[tuple[str, str, str]]


@pytest.fixture
def lost_files(aws: Aws, s3: Endpoint, bucket: str) -> tuple[Shop, Subjects]:
    """Write three folders of two formats each; return (table, kind, key) of the files lost in the first two."""
    shop = Shop(aws.s3, s3, bucket)
    two = TwoFormats(shop)
    for append in (two.append_delta, two.append_delta, two.append_iceberg, two.append_iceberg):
        append()
    delta = [uri.split(f"{bucket}/")[1] for uri in two.delta_files]
    iceberg = sorted(two.keys - {*delta})
    rides = HudiHistory(shop, "rides", random.Random(1), itertools.count(1))
    rides.begin()
    rides.insert()
    hudi = sorted(rides.live)
    shop.write("rides", commits=1)
    shop.write("shown", commits=1)
    of_rides = sorted(set(shop.keys("rides/")) - rides.live)
    manifest = "\n".join(f"s3://{bucket}/{key}" for key in shop.keys("shown/"))
    aws.s3.put_object(Bucket=bucket, Key="warehouse/shown/_symlink_format_manifest/manifest", Body=manifest)
    died = two.leave("died")
    age_all(bucket, timedelta(days=5))
    backdate(bucket, died, datetime.now(UTC) - timedelta(days=4))
    gone = {
        "orders_delta": delta[0],
        "orders_iceberg": iceberg[0],
        "rides_hudi": hudi[0],
        "rides_delta": of_rides[0],
    }
    for key in gone.values():
        aws.s3.delete_object(Bucket=bucket, Key=key)
    return shop, {(table, "dropped", key) for table, key in gone.items()}


@pytest.mark.parametrize(
    "turned",
    [
        ("rides", "shown"),
        pytest.param((), marks=pytest.mark.soak),
        pytest.param(tuple(FORMATS), marks=pytest.mark.soak),
    ],
)
def test_each_format_is_audited(
    lost_files: tuple[Shop, Subjects], tmp_path: Path, turned: tuple[str, ...]
) -> None:
    """Files that either format lists are not unused; a file that neither lists is reported once.

    The entries of `turned` folders are in the other order, and have `same_location: alias`.
    """
    shop, dropped = lost_files
    named = [
        (folder, kind)
        for folder, kinds in FORMATS.items()
        for kind in (reversed(kinds) if folder in turned else kinds)
    ]
    listing = f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse/'}}]"
    warehouse = f"s3://{shop.bucket}/warehouse"
    entries = [
        f"- {{name: {folder}_{kind}, location: '{warehouse}/{folder}', manifests: [{{kind: {kind}}}]"
        f"{', same_location: alias' if folder in turned else ''}}}"
        for folder, kind in (reversed(named) if len(turned) == len(FORMATS) else named)
    ]
    lake = shop.lake(tmp_path, tables=entries, inventories=listing, defaults=NOW)
    outcome = audited(lake, live=True, run_id="one")
    rows = [row for batch in results_of(lake).findings("one") for row in batch.to_pylist()]
    assert {
        (row["table_name"], row["kind"], row["key"]) for row in rows if row["severity"] == "critical"
    } == dropped
    others = [(row["table_name"], row["kind"], row["files"]) for row in rows if row["severity"] != "critical"]
    assert others == [("orders_delta", "uncommitted", 1)]
    assert (outcome.status, outcome.warnings) == ("complete", ())
    judged = {row["table_name"] for row in results_of(lake).coverage("one") if row["axis"] == "content"}
    assert judged == {f"{folder}_{kind}" for folder, kind in named}

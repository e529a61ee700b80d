"""An applied plan is undone whatever happened to the lake file since."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.runtime.aws import Endpoint
from tests.builders.backdate import backdate
from tests.builders.mending import Mending, keys_of, publish_leftovers
from tests.builders.shop import Shop
from tests.conftest import Aws

LEFT = "warehouse/orders/day=2026-11-01/part-00000-left.parquet"


def renamed(file: Path) -> None:
    """The table has another name, and the lake another one, too."""
    file.write_text(
        file.read_text().replace("name: orders", "name: sales").replace("lake: shop", "lake: store")
    )


def without_quarantine(file: Path) -> None:
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "quarantine:" not in line))


def another_table(file: Path) -> None:
    file.write_text(file.read_text().replace("warehouse/orders'", "warehouse/others'"))


def removed(file: Path) -> None:
    file.unlink()


def torn(file: Path) -> None:
    file.write_text("version: 1\nlake: [")


def results_moved(file: Path) -> None:
    """The folder of the results was renamed, and the lake file says so."""
    before = file.parent / "results"
    before.rename(file.parent / "moved")
    file.write_text(file.read_text().replace(str(before), str(file.parent / "moved")))


@pytest.mark.parametrize("versions", [True, False])
def test_an_applied_plan_is_undone_whatever_happened_to_the_lake_file(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, *, versions: bool
) -> None:
    """Hidden, or in a quarantine that the lake file does not name any more."""
    if versions:
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop, happens = Shop(aws.s3, s3, bucket), (renamed, without_quarantine, another_table, torn, removed)
    shop.write("orders", commits=1)
    aws.s3.put_object(Bucket=bucket, Key=LEFT, Body=b"rows of a job")
    backdate(bucket, LEFT, datetime.now(UTC) - timedelta(minutes=30))
    place = f"quarantine: {{location: 's3://{bucket}/quarantine', keep: 30d}}\n"
    changes = (*happens, results_moved) if versions else happens[:2]
    for number, change in enumerate(changes):
        folder = tmp_path / str(number)
        folder.mkdir()
        mending = Mending(shop.lake(folder, extra=place), folder)
        publish_leftovers(shop, mending.lake, "uncommitted", LEFT)
        before = keys_of(shop)[LEFT][0][1:]
        mending.plan(io.StringIO(), allow=("older_than_onboarding",))
        assert mending.apply().exit_code == 0
        assert LEFT not in shop.keys("orders")
        change(folder / "lake.yaml")
        assert cli.main(["reconcile", "undo", str(mending.file)]) == 0, change
        assert keys_of(shop)[LEFT][0][1:] == before
        assert cli.main(["reconcile", "apply", str(mending.file)]) == 2, "what is undone is not applied again"
        backdate(bucket, LEFT, datetime.now(UTC) - timedelta(minutes=30))

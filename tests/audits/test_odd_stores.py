"""Stores that answer otherwise than S3: what they leave out is unknown, and a list without an end is no list."""

import io
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from lakeaudit.pipeline.run_outcome import Outcome
from lakeaudit.row_formats import rows_of
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.delta_lake import checkpoint_rows
from tests.builders.mending import Mending, an_hour_old
from tests.builders.odd_stores import (
    AGAIN,
    Habit,
    Request,
    Response,
    as_it_is,
    console,
    cut_off,
    habit,
    hiding,
    rewritten,
    uploads_by_key_alone,
    without,
)
from tests.builders.shop import Shop
from tests.conftest import Aws

LISTING = "[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"
LOG = "orders/_delta_log/"


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """Two tables of two commits, and a file in each that no commit lists; all an hour old."""
    made = Shop(aws.s3, s3, bucket)
    for table in ("orders", "stock"):
        made.write(table, days=("2026-11-01",))
        aws.s3.put_object(Bucket=bucket, Key=debris(table), Body=b"x" * 5000)
    an_hour_old(made)
    for table in made.tables:
        backdate(bucket, debris(table), datetime.now(UTC) - timedelta(minutes=30))
    return made


def debris(table: str) -> str:
    return f"warehouse/{table}/day=2026-11-01/part-00000-debris.parquet"


def lake_of(shop: Shop, folder: Path, **more: Any) -> Any:
    return shop.lake(folder, inventories=LISTING.format(bucket=shop.bucket), **more)


def told(lake: Any, outcome: Outcome) -> dict[str, Any]:
    """By table: (status of its content, kinds of its findings above info)."""
    rows = rows_of(results_of(lake).findings(outcome.run_id))
    loud = [(row["table_name"], row["kind"]) for row in rows if row["severity"] != "info"]
    return {
        each["table_name"]: (each["status"], sorted(kind for table, kind in loud if table == each["table_name"]))
        for each in results_of(lake).coverage(outcome.run_id) if each["axis"] == "content"
    }  # fmt: skip


WHOLE = ("complete", ["uncommitted"])
CUT_OFF = [
    pytest.param(cut_off(LOG, keep=1), id="it goes on and does not say where"),
    pytest.param(cut_off(LOG, keep=1, token=AGAIN), id="it goes on at the same place for ever"),
]


@pytest.mark.parametrize("change", CUT_OFF)
def test_a_log_listing_that_was_cut_off_is_a_gap_of_its_table(
    shop: Shop, tmp_path: Path, change: Habit
) -> None:
    lake = lake_of(shop, tmp_path)
    with habit(change):
        outcome = audited(lake)
    found = told(lake, outcome)
    assert found["orders"][0] == "partial"
    assert "uncommitted" not in found["orders"][1]
    assert found["stock"] == WHOLE
    assert outcome.exit_code == 3


def test_lists_that_end_as_they_should_are_whole(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    assert told(lake, audited(lake)) == {"orders": WHOLE, "stock": WHOLE}


def test_a_cut_off_listing_of_storage_concludes_nothing(shop: Shop, tmp_path: Path) -> None:
    """Files beyond the end are no losses, and the gap names the place."""
    lake = lake_of(shop, tmp_path, defaults="grace: 0s, confirm: {mode: none}")
    with habit(cut_off("warehouse/", keep=2)):
        outcome = audited(lake)
    assert outcome.exit_code in (3, 10)
    assert [
        row for row in rows_of(results_of(lake).findings(outcome.run_id)) if row["kind"] == "dropped"
    ] == []


@pytest.fixture
def planned(shop: Shop, tmp_path: Path) -> Mending:
    """A plan that moves a file which no commit listed when it was audited."""
    extra = f"quarantine: {{location: 's3://{shop.bucket}/quarantine', keep: 30d}}"
    mending = Mending(lake_of(shop, tmp_path, extra=extra, tables=None), tmp_path)
    audited(mending.lake)
    mending.plan(io.StringIO(), allow=("older_than_onboarding",))
    return mending


def commit(shop: Shop, version: int, table: str = "orders") -> None:
    """A commit that lists the debris."""
    added = {"path": debris(table).partition(f"{table}/")[2], "partitionValues": {"day": "2026-11-01"}, "size": 5000,
             "modificationTime": 0, "dataChange": True}  # fmt: skip
    key = f"warehouse/{table}/_delta_log/{version:020}.json"
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=json.dumps({"add": added}).encode())


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        pytest.param(as_it_is, {"orders": False, "stock": True}, id="the listing shows the new commit"),
        pytest.param(
            hiding(f"orders/_delta_log/{2:020}.json"), {"orders": False, "stock": False}, id="it hides it"
        ),
        pytest.param(cut_off(LOG, keep=1), {"orders": False, "stock": False}, id="it is cut off"),
    ],
)
def test_apply_requests_the_next_commit_by_its_name(
    shop: Shop, planned: Mending, change: Habit, moved: dict[str, bool]
) -> None:
    """A commit that was made since the plan lists the file, and the store may not list the commit."""
    commit(shop, 2)
    with habit(change):
        planned.apply()
    there = set(shop.keys())
    assert {table: debris(table) not in there for table in moved} == moved


def test_the_second_look_costs_one_request_more_a_table(shop: Shop, tmp_path: Path) -> None:
    """An audit without findings makes no second look at all."""
    for table in shop.tables:
        shop.s3.delete_object(Bucket=shop.bucket, Key=debris(table))
    lake = lake_of(shop, tmp_path)
    with habit(as_it_is) as seen:
        audited(lake)
    assert not [each for each in seen.requests if each.method == "HEAD" and "_delta_log" in each.key]


INCOMPLETE = [
    pytest.param(without("ETag", "Owner"), id="no ETag"),
    pytest.param(without("Size", "LastModified", heads=False), id="lists without size and time"),
    pytest.param(without("Size", "ETag", "LastModified", lists=False), id="HEAD without size, ETag and time"),
    pytest.param(rewritten("<LastModified>.*?</LastModified>|<Size>.*?</Size>",
                           "<LastModified>0001-01-01T00:00:00Z</LastModified><Size/>"), id="odd times and sizes"),
]  # fmt: skip


@pytest.mark.parametrize("change", INCOMPLETE)
def test_one_field_that_is_missing_ends_no_run(shop: Shop, tmp_path: Path, change: Habit) -> None:
    """A loss is found all the same, and nothing else is: what a response does not say is unknown."""
    lost = shop.keys("orders")[0]
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    shop.s3.delete_object(Bucket=shop.bucket, Key=debris("orders"))
    lake = lake_of(shop, tmp_path)
    with habit(change):
        outcome = audited(lake)
    found = {
        (r["kind"], r["key"]) for r in rows_of(results_of(lake).findings(outcome.run_id)) if r["key"] == lost
    }
    assert found == {("dropped", lost)}
    assert told(lake, outcome)["stock"][1] in ([], ["uncommitted"])


@pytest.fixture
def versioned(shop: Shop) -> str:
    """A file that was deleted and lies beneath a marker."""
    status: Any = {"Status": "Enabled"}
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration=status)
    key = shop.keys("stock")[0]
    body = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=body)
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    return key


@pytest.mark.parametrize(
    ("change", "recoverable", "warned"),
    [
        pytest.param(as_it_is, "yes", False, id="version ids"),
        pytest.param(rewritten("<VersionId>.*?</VersionId>", "<Generation>17</Generation>"), "unknown", True,
                     id="generations, as Google has them"),
    ],
)  # fmt: skip
def test_versions_without_ids_are_not_known(
    shop: Shop, versioned: str, tmp_path: Path, change: Habit, recoverable: str, *, warned: bool
) -> None:
    lake = lake_of(shop, tmp_path)
    with habit(change):
        outcome = audited(lake)
    (row,) = (r for r in rows_of(results_of(lake).findings(outcome.run_id)) if r["key"] == versioned)
    assert (row["kind"], row["recoverable"]) == ("dropped", recoverable)
    assert any("no version ids" in warning for warning in outcome.warnings) == warned


def test_a_console_that_answers_is_named(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    with habit(console):
        outcome = audited(lake)
    rows = rows_of(results_of(lake).findings(outcome.run_id))
    said = {row["explanation"] for row in rows if row["kind"] == "unreadable_evidence"}
    assert outcome.exit_code == 10
    assert said
    assert all(f"a web page answers at {shop.endpoint.endpoint}" in each for each in said)


def test_open_uploads_of_a_store_that_lists_them_by_key_alone_are_found(shop: Shop, tmp_path: Path) -> None:
    """As MinIO does; `test_listing` has the uploads of a store that lists them by prefix."""
    for key in ("warehouse/stock/begun.parquet", "elsewhere/begun.parquet"):
        shop.s3.create_multipart_upload(Bucket=shop.bucket, Key=key)
    time.sleep(1.1)
    lake = lake_of(shop, tmp_path)
    with habit(uploads_by_key_alone):
        outcome = audited(lake)
    rows = rows_of(results_of(lake).findings(outcome.run_id))
    assert [row["key"] for row in rows if row["kind"] == "unfinished_upload"] == ["warehouse/stock/"]


CLASSES = {"stock": "ColdArchive", "orders": "SOMETHING_NEW"}
SETTLED = "SOMETHING_NEW: readable, cold-archive: readable"


@pytest.fixture
def classed(shop: Shop) -> Habit:
    """A file of one table in an archive class of another cloud, one of the other in a class that nobody knows."""
    classes = {shop.keys(table)[0]: name for table, name in CLASSES.items()}

    def change(request: Request, response: Response) -> Response:
        if request.method == "HEAD" and request.key in classes:
            headers = {**response.headers, "x-amz-storage-class": classes[request.key]}
            return replace(response, headers=headers)
        text = response.body.decode() if request.is_listing else ""
        for key, name in classes.items():
            text = re.sub(rf"(<Key>{re.escape(quote(key))}</Key>.*?<StorageClass>)\w+", rf"\g<1>{name}", text, count=1,
                          flags=re.DOTALL)  # fmt: skip
        return replace(response, body=text.encode()) if request.is_listing else response

    return change


@pytest.mark.parametrize(
    ("rule", "undecided", "archived", "warned"),
    [
        pytest.param("", 1, {"stock"}, 1, id="one is known, one is not"),
        pytest.param(SETTLED, 0, set(), 0, id="readable, by the lake file"),
        pytest.param("something-new: archived", 0, {"orders", "stock"}, 0, id="archived, by the lake file"),
    ],
)
def test_classes_of_other_clouds(
    shop: Shop, classed: Habit, tmp_path: Path, rule: str, undecided: int, archived: set[str], warned: int
) -> None:
    extra = f"buckets: [{{match: '{shop.bucket}', storage_classes: {{{rule}}}}}]" if rule else ""
    lake = lake_of(shop, tmp_path, extra=extra)
    with habit(classed):
        outcome = audited(lake)
    content = [row for row in results_of(lake).coverage(outcome.run_id) if row["axis"] == "content"]
    rows = rows_of(results_of(lake).findings(outcome.run_id))
    assert sum(row["undecided"] for row in content) == undecided
    assert {row["table_name"] for row in rows if row["kind"] == "archived"} == archived
    assert sum("SOMETHING_NEW" in warning for warning in outcome.warnings) == warned


def test_a_table_below_two_slashes_is_audited_by_a_report_below_two_slashes(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """S3 delivers to `x/` below `x//`; the table's own location has an empty part and a checkpoint."""
    made = Shop(aws.s3, s3, bucket)
    made.write("orders", commits=1)
    pages = aws.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="warehouse/orders/")
    for each in [entry for page in pages for entry in page["Contents"]]:
        to = each["Key"].replace("warehouse/orders/", "warehouse//orders//")
        aws.s3.copy_object(Bucket=bucket, Key=to, CopySource={"Bucket": bucket, "Key": each["Key"]})
        aws.s3.delete_object(Bucket=bucket, Key=each["Key"])
    checkpoint(aws, bucket, "warehouse//orders//_delta_log/")
    lost = made.keys("/orders//")[0]
    aws.s3.delete_object(Bucket=bucket, Key=lost)
    made.take_inventory(under="reports/")
    report = f"[{{kind: s3_inventory, location: 's3://{bucket}/reports/', margin: 0s}}]"
    entry = f"- {{name: orders, location: 's3://{bucket}/warehouse//orders//', manifests: [{{kind: delta}}]}}"
    lake = made.lake(tmp_path, inventories=report, tables=[entry])
    outcome = audited(lake)
    assert told(lake, outcome) == {"orders": ("complete", ["dropped"])}
    rows = rows_of(results_of(lake).findings(outcome.run_id))
    assert [row["key"] for row in rows if row["kind"] == "dropped"] == [lost]


def checkpoint(aws: Aws, bucket: str, log: str) -> None:
    """A checkpoint of version 0, of the actions of commit 0."""
    commit = aws.s3.get_object(Bucket=bucket, Key=f"{log}{0:020}.json")["Body"].read()
    actions = [each for line in commit.splitlines() if "commitInfo" not in (each := json.loads(line))]
    sink = io.BytesIO()
    pq.write_table(checkpoint_rows(actions), sink)
    aws.s3.put_object(Bucket=bucket, Key=f"{log}{0:020}.checkpoint.parquet", Body=sink.getvalue())

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

from lakeaudit.audit.outcome import Outcome
from lakeaudit.runtime.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.delta_lake import checkpoint_rows
from tests.builders.inventory import Version, csv, lay
from tests.builders.mending import Mending, an_hour_old
from tests.builders.odd_stores import (
    AGAIN,
    Habit,
    Request,
    Response,
    about,
    as_it_is,
    console,
    cut_off,
    every,
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
    return more(Shop(aws.s3, s3, bucket), "orders", "stock")


def more(shop: Shop, *tables: str) -> Shop:
    """The shop with more such tables."""
    for table in tables:
        shop.write(table, days=("2026-11-01",))
        shop.s3.put_object(Bucket=shop.bucket, Key=debris(table), Body=b"x" * 5000)
    an_hour_old(shop)
    for table in shop.tables:
        backdate(shop.bucket, debris(table), datetime.now(UTC) - timedelta(minutes=30))
    return shop


def debris(table: str) -> str:
    return f"warehouse/{table}/day=2026-11-01/part-00000-debris.parquet"


def listed(shop: Shop, table: str) -> str:
    """A file that the table lists."""
    return next(key for key in shop.keys(table) if key != debris(table))


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
CUT_OFF = {
    "orders": cut_off(LOG, keep=1),
    "returns": cut_off("returns/_delta_log/", keep=1, token=AGAIN),
}
"""By table how the listing of its log says that it goes on: without a place, and at the same place for ever."""


def test_a_log_listing_that_was_cut_off_is_a_gap_of_its_table(shop: Shop, tmp_path: Path) -> None:
    more(shop, "returns")
    lake = lake_of(shop, tmp_path)
    with habit(every(*CUT_OFF.values())):
        outcome = audited(lake)
    found = told(lake, outcome)
    for table in CUT_OFF:
        assert found[table][0] == "partial"
        assert "uncommitted" not in found[table][1]
    assert found["stock"] == WHOLE, "its listing ends as it should"
    assert outcome.exit_code == 3


def test_a_cut_off_listing_of_storage_concludes_nothing(shop: Shop, tmp_path: Path) -> None:
    """Files beyond the end are no losses, and the gap names the place."""
    lake = lake_of(shop, tmp_path, defaults="grace: 0s, confirm: {mode: none}")
    with habit(cut_off("warehouse/", keep=2)):
        outcome = audited(lake)
    assert outcome.exit_code in (3, 10)
    assert [
        row for row in rows_of(results_of(lake).findings(outcome.run_id)) if row["kind"] == "dropped"
    ] == []


def planned(shop: Shop, tmp_path: Path) -> Mending:
    """A plan that moves files which no commit listed when they were audited."""
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


def test_apply_requests_the_next_commit_by_its_name(shop: Shop, tmp_path: Path) -> None:
    """A commit that was made since the plan lists the file, and the store may not list the commit."""
    mending = planned(more(shop, "returns", "parcels"), tmp_path)
    changes = {
        "orders": hiding(f"orders/_delta_log/{2:020}.json"),
        "returns": cut_off("returns/_delta_log/", keep=1),
        "parcels": as_it_is,
    }
    for table, change in changes.items():
        commit(shop, 2, table)
        with habit(change):
            mending.apply()
        gone = {debris(table) for table in shop.tables} - set(shop.keys())
        assert gone == ({debris("stock")} if change is as_it_is else set()), table


def test_the_second_look_costs_one_request_more_a_table(shop: Shop, tmp_path: Path) -> None:
    """An audit without findings makes no second look at all."""
    for table in shop.tables:
        shop.s3.delete_object(Bucket=shop.bucket, Key=debris(table))
    lake = lake_of(shop, tmp_path)
    with habit(as_it_is) as seen:
        audited(lake)
    assert not [each for each in seen.requests if each.method == "HEAD" and "_delta_log" in each.key]


ODD = "<LastModified>0001-01-01T00:00:00Z</LastModified><Size/>"
INCOMPLETE = {
    "no_etag": without("ETag", "Owner"),
    "bare_lists": without("Size", "LastModified", heads=False),
    "bare_heads": without("Size", "ETag", "LastModified", lists=False),
    "odd_values": rewritten("<LastModified>.*?</LastModified>|<Size>.*?</Size>", ODD),
    "negative": rewritten("<Size>.*?</Size>", "<Size>-1</Size>"),
    "no_class": without("StorageClass"),
    "empty_class": rewritten("<StorageClass>.*?</StorageClass>", "<StorageClass></StorageClass>"),
}
"""By table how responses about it are incomplete."""
UNNAMED = {
    "bare_lists": {"content": "LastModified Size", "duplicate": "LastModified", "leftover": "LastModified"},
    "negative": {"content": "Size"},
}
UNNAMED["odd_values"] = UNNAMED["bare_lists"]
"""By table the axes that are judged in part, with the fields that their reasons name; all others are judged whole."""


def test_one_field_that_is_missing_ends_no_run(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    """A loss is found all the same, and nothing else is: what a response does not say is unknown."""
    shop = more(Shop(aws.s3, s3, bucket), *INCOMPLETE, "stock")
    lost = {table: listed(shop, table) for table in INCOMPLETE}
    for key in lost.values():
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    listings = ", ".join(
        f"{{kind: listing, location: 's3://{bucket}/warehouse/{table}/'}}" for table in shop.tables
    )
    lake = shop.lake(tmp_path, inventories=f"[{listings}]")
    changes = (about(f"warehouse/{table}/", change) for table, change in INCOMPLETE.items())
    time.sleep(1.1)  # what is listed is older than the storage snapshot
    with habit(every(*changes)):
        outcome = audited(lake)
    rows, found = list(rows_of(results_of(lake).findings(outcome.run_id))), told(lake, outcome)
    for table, key in lost.items():
        assert [row["kind"] for row in rows if row["key"] == key] == ["dropped"], table
        assert found[table][1] in (["dropped"], ["dropped", "uncommitted"])
    assert found["stock"] == WHOLE
    partial = {(table, axis): fields for table, axes in UNNAMED.items() for axis, fields in axes.items()}
    for row in results_of(lake).coverage(outcome.run_id):
        if row["axis"] not in ("content", "duplicate", "leftover"):
            continue
        fields = partial.get((row["table_name"], row["axis"]))
        assert (row["status"], row["undecided"] > 0) == (
            ("partial", True) if fields else ("complete", False)
        ), row
        for name in ("LastModified", "Size", "StorageClass", "ETag"):
            assert (f"does not name {name}" in (row["reason"] or "")) == (name in (fields or "")), row
        assert f"(at {s3.endpoint})" in row["reason"] if fields else True
    assert outcome.exit_code == 3
    warnings = [each for each in outcome.warnings if "does not name" in each]
    named = "does not name LastModified, Size: files that need it are undecided"
    assert warnings == [f"s3://{bucket}: listing (at {s3.endpoint}) {named}"]


@pytest.fixture
def versioned(shop: Shop) -> str:
    """A file that was deleted and lies beneath a marker."""
    status: Any = {"Status": "Enabled"}
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration=status)
    key = next(key for key in shop.keys("stock") if key != debris("stock"))
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


def no_uploads(status: str, code: str) -> Habit:
    """The store does not list uploads."""

    def change(request: Request, response: Response) -> Response:
        if "uploads" not in request.asked:
            return response
        return Response(
            status, {"content-type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode()
        )

    return change


def test_a_bucket_whose_uploads_cannot_be_listed_is_named_once(shop: Shop, tmp_path: Path) -> None:
    lake = lake_of(shop, tmp_path)
    with habit(no_uploads("501 Not Implemented", "NotImplemented")):
        outcome = audited(lake, live=True)
    why = "open uploads may not be listed (the store lacks this operation)"
    assert [each for each in outcome.warnings if "uploads" in each] == [f"s3://{shop.bucket}: {why}"]
    assert (outcome.status, outcome.exit_code) == ("complete", 0)


CLASSES = {"stock": "ColdArchive", "orders": "SOMETHING_NEW"}
SETTLED = "SOMETHING_NEW: readable, cold-archive: readable"
ARCHIVES = "something-new: archived, cold-archive: archived"


RULES = {
    "known": ("", 2, set()),
    "readable": (SETTLED, 0, set()),
    "archived": (ARCHIVES, 0, {"orders", "stock"}),
}
"""By the name of a bucket the rule of the lake file, how many files are undecided, and tables with an archived one."""


def classed(classes: dict[tuple[str, str], str]) -> Habit:
    """Files, by bucket and key, in classes of other clouds."""

    def change(request: Request, response: Response) -> Response:
        if request.method == "HEAD" and (request.bucket, request.key) in classes:
            headers = {**response.headers, "x-amz-storage-class": classes[request.bucket, request.key]}
            return replace(response, headers=headers)
        if not request.is_listing:
            return response
        text = response.body.decode()
        for (bucket, key), name in classes.items():
            if bucket == request.bucket:
                text = re.sub(rf"(<Key>{re.escape(quote(key))}</Key>.*?<StorageClass>)\w+", rf"\g<1>{name}", text,
                              count=1, flags=re.DOTALL)  # fmt: skip
        return replace(response, body=text.encode())

    return change


def test_classes_of_other_clouds(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    """A file of one table in an archive class of another cloud, one of the other in a class that nobody knows."""
    shops: list[Shop] = []
    classes: dict[tuple[str, str], str] = {}
    entries: list[str] = []
    for name in RULES:
        aws.s3.create_bucket(Bucket=f"{bucket}-{name}")
        shops.append(made := more(Shop(aws.s3, s3, f"{bucket}-{name}"), *CLASSES))
        classes |= {(made.bucket, listed(made, table)): kind for table, kind in CLASSES.items()}
        entries += [
            f"- {{name: {name}.{table}, location: 's3://{made.bucket}/warehouse/{table}', "
            "manifests: [{kind: delta}]}"
            for table in CLASSES
        ]
    listings = ", ".join(f"{{kind: listing, location: 's3://{made.bucket}/warehouse/'}}" for made in shops)
    rules = ", ".join(
        f"{{match: '{made.bucket}', storage_classes: {{{rule}}}}}"
        for made, (rule, *_) in zip(shops, RULES.values(), strict=True) if rule
    )  # fmt: skip
    lake = shops[0].lake(tmp_path, inventories=f"[{listings}]", tables=entries, extra=f"buckets: [{rules}]")
    time.sleep(1.1)  # what is listed is older than the storage snapshot
    with habit(classed(classes)):
        outcome = audited(lake)
    content = [row for row in results_of(lake).coverage(outcome.run_id) if row["axis"] == "content"]
    rows = list(rows_of(results_of(lake).findings(outcome.run_id)))
    for name, (_, undecided, archived) in RULES.items():
        assert (
            sum(row["undecided"] for row in content if row["table_name"].startswith(f"{name}.")) == undecided
        )
        found = {row["table_name"] for row in rows if row["kind"] == "archived"}
        assert {each for each in found if each.startswith(f"{name}.")} == {
            f"{name}.{table}" for table in archived
        }
    (warning,) = (each for each in outcome.warnings if "SOMETHING_NEW" in each)
    assert f"{bucket}-known" in warning
    assert "ColdArchive" in warning


def test_classes_of_a_report(shop: Shop, versioned: str, tmp_path: Path) -> None:
    """Empty values leave files undecided, but for delete markers; so does a class that is a pool of this store."""
    more(shop, "returns")
    classes = {"orders": None, "returns": "COLD", "stock": "STANDARD"}

    def of_version(version: Version) -> Version:
        table = version.Key.split("/")[1]
        name = "COLD" if version.Key == versioned else classes[table]
        return version if version.IsDeleteMarker else replace(version, StorageClass=name)

    time.sleep(1.1)
    rows = [of_version(each) for each in shop.versions()]
    put: Any = lambda key, body: shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=body)  # noqa: E731
    lay(put, [csv(rows)], at=datetime.now(UTC), under="reports", source=shop.bucket)
    report = f"[{{kind: s3_inventory, location: 's3://{shop.bucket}/reports/', margin: 0s}}]"
    lake = shop.lake(tmp_path, inventories=report, defaults="grace: 0s, confirm: {mode: none}")
    outcome = audited(lake)
    content = {
        row["table_name"]: row
        for row in results_of(lake).coverage(outcome.run_id)
        if row["axis"] == "content"
    }
    assert {table: row["status"] for table, row in content.items()} == {
        "orders": "partial", "returns": "partial", "stock": "complete",
    }  # fmt: skip
    assert f"s3_inventory s3://{shop.bucket}/reports" in content["orders"]["reason"]
    assert "does not name StorageClass" in content["orders"]["reason"]
    assert "whether the storage class COLD has to be restored" in content["returns"]["reason"]
    assert outcome.exit_code == 3
    assert sum("does not name StorageClass" in each for each in outcome.warnings) == 1
    assert sum("storage_classes: {COLD: readable}" in each for each in outcome.warnings) == 1
    (lost,) = (row for row in rows_of(results_of(lake).findings(outcome.run_id)) if row["key"] == versioned)
    assert (lost["kind"], lost["recoverable"]) == ("dropped", "yes")
    assert "must be restored first" not in lost["explanation"]


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

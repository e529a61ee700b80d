"""Stores that answer otherwise than S3: fields that they leave out are unknown, and so is the end of a cut list."""

import io
import json
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate, copy, present
from tests.builders.delta_lake import checkpoint_rows
from tests.builders.inventory import Version, csv, lay
from tests.builders.odd_stores import (
    AGAIN,
    Habit,
    Request,
    RequestLog,
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
from tests.builders.repair_plans import RepairPlans, an_hour_old
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

LISTING = "[{{kind: listing, location: 's3://{bucket}/warehouse/'}}]"
LOG = "orders/_delta_log/"


WHOLE = ("complete", ["uncommitted"])


def with_copies(shop: Shop, *tables: str) -> Shop:
    """The shop with tables of two commits, all copies of one, but for their ids.

    Each has a file that no commit lists; all are an hour old.
    """
    shop.write("template", days=("2026-11-01",))
    shop.copy("template", *tables, own_ids=True)
    for key in present(shop.bucket, "warehouse/template/"):
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    for table in shop.tables:
        shop.s3.put_object(Bucket=shop.bucket, Key=debris(table), Body=b"x" * 5000)
    an_hour_old(shop)
    for table in shop.tables:
        backdate(shop.bucket, debris(table), datetime.now(UTC) - timedelta(minutes=30))
    return shop


def debris(table: str) -> str:
    return f"warehouse/{table}/day=2026-11-01/part-00000-debris.parquet"


def listed(shop: Shop, table: str) -> str:
    """A file that the table lists."""
    return next(key for key in shop.keys(f"{table}/") if key != debris(table))


def lake_of(shop: Shop, folder: Path, **more: Any) -> Any:
    return shop.lake(folder, inventories=LISTING.format(bucket=shop.bucket), **more)


def verdicts(lake: Any, outcome: Outcome) -> dict[str, Any]:
    """Return (status of its content, kinds of its findings above info) by table."""
    rows = rows_of(results_of(lake).findings(outcome.run_id))
    loud = [(row["table_name"], row["kind"]) for row in rows if row["severity"] != "info"]
    return {
        each["table_name"]: (each["status"], sorted(kind for table, kind in loud if table == each["table_name"]))
        for each in results_of(lake).coverage(outcome.run_id) if each["axis"] == "content"
    }  # fmt: skip


# --- buckets of one lake, each with a habit of its own -----------------------------------------------------------

CUT_OFF = {
    "orders": cut_off(LOG, keep=1),
    "returns": cut_off("returns/_delta_log/", keep=1, token=AGAIN),
}
"""How the listing of a table's log continues, by table: without a token, and with the same token for ever."""
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
"""How responses about a table are incomplete, by table."""
UNNAMED = {
    "bare_lists": {"content": "LastModified Size", "duplicate": "LastModified", "leftover": "LastModified"},
    "negative": {"content": "Size"},
}
UNNAMED["odd_values"] = UNNAMED["bare_lists"]
"""The axes judged in part, with the fields that their reasons name, by table; all others are judged whole."""
IDS: dict[str, tuple[Habit, str, bool]] = {
    "ids": (as_it_is, "yes", False),
    "generations": (rewritten("<VersionId>.*?</VersionId>", "<Generation>17</Generation>"), "unknown", True),
}
"""By bucket (the second one as Google's): the names of its versions, what is recoverable, and whether it warns."""
CLASSES = {"stock": "ColdArchive", "orders": "SOMETHING_NEW"}
SETTLED = "SOMETHING_NEW: readable, cold-archive: readable"
ARCHIVES = "something-new: archived, cold-archive: archived"
RULES = {
    "known": ("", 2, set()),
    "readable": (SETTLED, 0, set()),
    "archived": (ARCHIVES, 0, {"orders", "stock"}),
}
"""By bucket: the rule of the lake file, the number of undecided files, and the tables with an archived one."""
TABLES = {
    "cut": ("orders", "returns", "stock"),
    "incomplete": (*INCOMPLETE, "stock"),
    "uploads": ("stock",),
    **dict.fromkeys(IDS, ("stock",)),
    **dict.fromkeys(RULES, tuple(CLASSES)),
    "classes": ("orders", "stock", "returns"),
    "slashes": ("orders",),
}
"""The tables of each bucket."""
UNLISTED = {
    "console": (console, ("stock",)),
    "short": (cut_off("warehouse/", keep=2), ("orders", "stock")),
}
"""By bucket of another lake, since a gap of storage is one of the whole lake: its habit and its tables."""
REPORTED = ("classes", "slashes")
"""Buckets that are known by a report: of odd classes, and of a table below two slashes."""
UNCONFIRMED = ("short", *REPORTED)
"""Buckets for whose tables no request confirms a finding."""


@dataclass(frozen=True)
class Buckets:
    """The buckets of one lake, all audited at once, and what the audit reports."""

    shops: dict[str, Shop]
    lost: dict[str, str]
    """A listed file that is gone, by name of a table in `incomplete` or of a bucket of `IDS` or `REPORTED`."""
    outcome: Outcome
    findings: list[dict[str, Any]]
    coverage: list[dict[str, Any]]
    told: dict[str, Any]

    def warnings(self, name: str) -> list[str]:
        """Those that name the bucket."""
        return [each for each in self.outcome.warnings if self.shops[name].bucket in each]

    def rows(self, bucket: str) -> list[dict[str, Any]]:
        """The findings of the bucket's tables."""
        return [row for row in self.findings if (row["table_name"] or "").startswith(f"{bucket}.")]

    def unreadable(self) -> list[str]:
        """Return the explanations of evidence that cannot be read."""
        return [row["explanation"] for row in self.findings if row["kind"] == "unreadable_evidence"]

    def content(self, table: str) -> dict[str, Any]:
        """The coverage of a table's content."""
        (row,) = (r for r in self.coverage if (r["table_name"], r["axis"]) == (table, "content"))
        return row

    def kinds(self, key: str, bucket: str) -> list[str]:
        return [
            r["kind"] for r in self.findings if (r["bucket"], r["key"]) == (self.shops[bucket].bucket, key)
        ]


@pytest.fixture(scope="module")
def buckets(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Buckets:
    shops = {name: shop_of_copies(aws, s3, name, tables) for name, tables in TABLES.items()}
    lost = {table: listed(shops["incomplete"], table) for table in INCOMPLETE}
    for key in lost.values():
        aws.s3.delete_object(Bucket=shops["incomplete"].bucket, Key=key)
    lost |= {name: beneath_a_marker(shops[name]) for name in IDS}
    for key in ("warehouse/stock/begun.parquet", "elsewhere/begun.parquet"):
        aws.s3.create_multipart_upload(Bucket=shops["uploads"].bucket, Key=key)
    lost |= report(aws, shops)
    lake = lake_of_buckets(shops, tmp_path_factory.mktemp("buckets"))
    time.sleep(1.1)  # what is listed is older than the storage snapshot
    return audited_buckets(shops, lost, lake, every(*habits(shops)))


@pytest.fixture(scope="module")
def unlisted(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Buckets:
    shops = {name: shop_of_copies(aws, s3, name, tables) for name, (_, tables) in UNLISTED.items()}
    lake = lake_of_buckets(shops, tmp_path_factory.mktemp("unlisted"))
    changes = [of_bucket(shops[name], change) for name, (change, _) in UNLISTED.items()]
    return audited_buckets(shops, {}, lake, every(*changes))


def audited_buckets(shops: dict[str, Shop], lost: dict[str, str], lake: Any, change: Habit) -> Buckets:
    with habit(change):
        outcome = audited(lake)
    results = results_of(lake)
    rows, coverage = list(rows_of(results.findings(outcome.run_id))), list(results.coverage(outcome.run_id))
    return Buckets(shops, lost, outcome, rows, coverage, verdicts(lake, outcome))


def shop_of_copies(aws: Aws, s3: Endpoint, name: str, tables: tuple[str, ...]) -> Shop:
    """A bucket with its tables."""
    bucket = f"test-{uuid.uuid4().hex[:12]}-{name}"
    aws.s3.create_bucket(Bucket=bucket)
    return with_copies(Shop(aws.s3, s3, bucket), *tables)


def habits(shops: dict[str, Shop]) -> Iterator[Habit]:
    for each in CUT_OFF.values():
        yield of_bucket(shops["cut"], each)
    for table, change in INCOMPLETE.items():
        yield of_bucket(shops["incomplete"], about(f"warehouse/{table}/", change))
    for name, (change, *_) in IDS.items():
        yield of_bucket(shops[name], change)
    yield of_bucket(shops["uploads"], uploads_by_key_alone)
    yield classed(
        {
            (shops[name].bucket, listed(shops[name], table)): kind
            for name in RULES
            for table, kind in CLASSES.items()
        }
    )


def of_bucket(shop: Shop, change: Habit) -> Habit:
    """A habit of responses about one bucket."""
    return lambda request, response: change(request, response) if request.bucket == shop.bucket else response


def lake_of_buckets(shops: dict[str, Shop], folder: Path) -> Any:
    """The lake file; a table's name begins with that of its bucket."""
    entries = [
        f"- {{name: {name}.{table}, location: 's3://{shop.bucket}/{home_of(name, table)}', manifests: [{{kind: delta}}]"
        f"{', confirm: {mode: none}' if name in UNCONFIRMED else ''}}}"
        for name, shop in shops.items() for table in shop.tables
    ]  # fmt: skip
    places = [
        f"{shop.bucket}/warehouse/{table}"
        for name, shop in shops.items()
        if name not in REPORTED
        for table in ([f"{each}/" for each in shop.tables] if name == "incomplete" else [""])
    ]
    listings = ", ".join(
        [
            *(f"{{kind: listing, location: 's3://{place}'}}" for place in places),
            *(
                f"{{kind: s3_inventory, location: 's3://{shops[name].bucket}/reports/', margin: 0s}}"
                for name in REPORTED
                if name in shops
            ),
        ]
    )
    rules = ", ".join(
        f"{{match: '{shops[name].bucket}', storage_classes: {{{rule}}}}}"
        for name, (rule, *_) in RULES.items()
        if rule and name in shops
    )
    return next(iter(shops.values())).lake(
        folder, inventories=f"[{listings}]", tables=entries, extra=f"buckets: [{rules}]"
    )


def home_of(name: str, table: str) -> str:
    return f"warehouse//{table}//" if name == "slashes" else f"warehouse/{table}"


def report(aws: Aws, shops: dict[str, Shop]) -> dict[str, str]:
    """Write a report for each bucket of `REPORTED`; return a file of it that is lost, by bucket."""
    classes, slashes = (shops[name] for name in REPORTED)
    lost = {"classes": beneath_a_marker(classes), "slashes": below_two_slashes(aws, slashes)}
    rule: Any = {
        "ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 3},
    }  # fmt: skip
    configuration: Any = {"Rules": [rule]}
    aws.s3.put_bucket_lifecycle_configuration(Bucket=classes.bucket, LifecycleConfiguration=configuration)
    slashes.take_inventory(under="reports/")
    report_classes(classes, lost["classes"])
    return lost


def beneath_a_marker(shop: Shop) -> str:
    """A file that was deleted and lies beneath a marker."""
    status: Any = {"Status": "Enabled"}
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration=status)
    key = listed(shop, "stock")
    body = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=body)
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    return key


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


def test_a_log_listing_that_was_cut_off_is_a_gap_of_its_table(buckets: Buckets) -> None:
    for table in CUT_OFF:
        status, kinds = buckets.told[f"cut.{table}"]
        assert status == "partial"
        assert "uncommitted" not in kinds
    assert buckets.told["cut.stock"] == WHOLE, "its listing ends as it should"
    assert buckets.outcome.exit_code == 3


@pytest.mark.parametrize("table", INCOMPLETE)
def test_one_field_that_is_missing_ends_no_run(buckets: Buckets, s3: Endpoint, table: str) -> None:
    """The loss is the only finding: fields that a response leaves out are unknown."""
    assert buckets.kinds(buckets.lost[table], "incomplete") == ["dropped"]
    assert buckets.told[f"incomplete.{table}"][1] in (["dropped"], ["dropped", "uncommitted"])
    for row in buckets.coverage:
        if row["table_name"] != f"incomplete.{table}" or row["axis"] not in (
            "content",
            "duplicate",
            "leftover",
        ):
            continue
        fields = UNNAMED.get(table, {}).get(row["axis"])
        assert (row["status"], row["undecided"] > 0) == (
            ("partial", True) if fields else ("complete", False)
        ), row
        for name in ("LastModified", "Size", "StorageClass", "ETag"):
            assert (f"does not name {name}" in (row["reason"] or "")) == (name in (fields or "")), row
        assert f"(at {s3.endpoint})" in row["reason"] if fields else True


def test_fields_that_are_missing_are_one_warning_of_their_bucket(buckets: Buckets, s3: Endpoint) -> None:
    assert buckets.told["incomplete.stock"] == WHOLE
    assert buckets.outcome.exit_code == 3
    named = "does not name LastModified, Size: files that need it are undecided"
    place = f"s3://{buckets.shops['incomplete'].bucket}"
    assert [each for each in buckets.outcome.warnings if "does not name" in each and place in each] == [
        f"{place}: listing (at {s3.endpoint}) {named}"
    ]


@pytest.mark.parametrize("name", IDS)
def test_versions_without_ids_are_not_known(buckets: Buckets, name: str) -> None:
    _, recoverable, warned = IDS[name]
    (row,) = (
        r for r in buckets.findings
        if (r["bucket"], r["key"]) == (buckets.shops[name].bucket, buckets.lost[name])
    )  # fmt: skip
    assert (row["kind"], row["recoverable"]) == ("dropped", recoverable)
    assert any("no version ids" in warning for warning in buckets.warnings(name)) == warned


def test_open_uploads_of_a_store_that_lists_them_by_key_alone_are_found(buckets: Buckets) -> None:
    """As MinIO does; `test_listing` has the uploads of a store that lists them by prefix."""
    rows = [row for row in buckets.findings if row["kind"] == "unfinished_upload"]
    assert [(row["bucket"], row["key"]) for row in rows] == [
        (buckets.shops["uploads"].bucket, "warehouse/stock/")
    ]


@pytest.mark.parametrize("name", RULES)
def test_classes_of_other_clouds(buckets: Buckets, name: str) -> None:
    """A file of one table is in an archive class of another cloud, one of the other in an unknown class."""
    _, undecided, archived = RULES[name]
    mine = [row for row in buckets.coverage if row["table_name"].startswith(f"{name}.")]
    assert sum(row["undecided"] for row in mine if row["axis"] == "content") == undecided
    assert {
        row["table_name"]
        for row in buckets.findings
        if row["kind"] == "archived" and row["table_name"].startswith(f"{name}.")
    } == {f"{name}.{table}" for table in archived}


def test_only_classes_without_a_rule_are_a_warning(buckets: Buckets) -> None:
    (warning,) = (each for each in buckets.outcome.warnings if "SOMETHING_NEW" in each)
    assert buckets.shops["known"].bucket in warning
    assert "ColdArchive" in warning


def test_a_cut_off_listing_of_storage_concludes_nothing(unlisted: Buckets) -> None:
    """Files beyond the end are not losses, and the gap names the place."""
    bucket = unlisted.shops["short"].bucket
    assert unlisted.outcome.exit_code == 10
    assert [row for row in unlisted.findings if row["kind"] == "dropped"] == []
    assert any(bucket in each for each in unlisted.unreadable())
    for table in ("orders", "stock"):
        row = unlisted.content(f"short.{table}")
        assert row["status"] == "partial"
        assert row["reason"].startswith(
            f"s3://{bucket}/warehouse/{table}/_delta_log: the store's listing of this folder ends early"
        )


def test_a_console_that_answers_is_named(unlisted: Buckets, s3: Endpoint) -> None:
    page, bucket = f"a web page answers at {s3.endpoint}", unlisted.shops["console"].bucket
    assert unlisted.outcome.exit_code == 10
    explanations = [each for each in unlisted.unreadable() if bucket in each]
    assert explanations
    assert all(page in each for each in explanations)
    assert page in unlisted.content("console.stock")["reason"]


# --- stores that answer for a whole lake -------------------------------------------------------------------------


def planned(shop: Shop, tmp_path: Path) -> RepairPlans:
    """A plan that moves files which no commit listed when they were audited."""
    extra = f"quarantine: {{location: 's3://{shop.bucket}/quarantine', keep: 30d}}"
    mending = RepairPlans(lake_of(shop, tmp_path, extra=extra, tables=None), tmp_path)
    audited(mending.lake)
    mending.plan(io.StringIO(), allow=("older_than_onboarding",))
    return mending


def commit(shop: Shop, version: int, table: str = "orders") -> None:
    """A commit that lists the debris."""
    added = {"path": debris(table).partition(f"{table}/")[2], "partitionValues": {"day": "2026-11-01"}, "size": 5000,
             "modificationTime": 0, "dataChange": True}  # fmt: skip
    key = f"warehouse/{table}/_delta_log/{version:020}.json"
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=json.dumps({"add": added}).encode())


def test_apply_requests_the_next_commit_by_its_name(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """A commit that was made since the plan lists the file, and the store may not list the commit."""
    shop = with_copies(Shop(aws.s3, s3, bucket), "orders", "stock", "returns", "parcels")
    mending = planned(shop, tmp_path)
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


def no_uploads(status: str, code: str) -> Habit:
    """The store does not list uploads."""

    def change(request: Request, response: Response) -> Response:
        if "uploads" not in request.asked:
            return response
        return Response(
            status, {"content-type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode()
        )

    return change


@pytest.fixture(scope="module")
def healthy(
    aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Shop, Outcome, RequestLog]:
    """A lake without findings at a store that does not list uploads."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    for table in ("orders", "stock"):
        shop.write(table, days=("2026-11-01",))
    an_hour_old(shop)
    lake = lake_of(shop, tmp_path_factory.mktemp("healthy"))
    with habit(no_uploads("501 Not Implemented", "NotImplemented")) as seen:
        outcome = audited(lake, live=True)
    return shop, outcome, seen


def test_a_bucket_whose_uploads_cannot_be_listed_is_named_once(
    healthy: tuple[Shop, Outcome, RequestLog],
) -> None:
    shop, outcome, _ = healthy
    why = "open uploads may not be listed (the store lacks this operation)"
    assert [each for each in outcome.warnings if "uploads" in each] == [f"s3://{shop.bucket}: {why}"]
    assert (outcome.status, outcome.exit_code) == ("complete", 0)


def test_an_audit_without_findings_makes_no_second_look(healthy: tuple[Shop, Outcome, RequestLog]) -> None:
    """Neither at a file nor, at the cost of one request more a table, at a log: a refusal there changes nothing."""
    assert [each for each in healthy[2].requests if each.method == "HEAD"] == []


# --- reports -----------------------------------------------------------------------------------------------------


def report_classes(shop: Shop, lost: str) -> None:
    """A report without a class for one table, and with a class of another store for the next one and the lost file."""
    classes = {"orders": None, "returns": "COLD", "stock": "STANDARD"}

    def of_version(version: Version) -> Version:
        name = "COLD" if version.Key == lost else classes[version.Key.split("/")[1]]
        return version if version.IsDeleteMarker else replace(version, StorageClass=name)

    rows = [of_version(each) for each in shop.versions()]
    put: Any = lambda key, body: shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=body)  # noqa: E731
    lay(put, [csv(rows)], at=datetime.now(UTC), under="reports", source=shop.bucket)


def below_two_slashes(aws: Aws, shop: Shop) -> str:
    """Move the table to a location that has empty parts, with a checkpoint; return the key of a file that is lost."""
    shop.s3.delete_object(Bucket=shop.bucket, Key=debris("orders"))
    for key in present(shop.bucket, "warehouse/orders/"):
        copy(shop.bucket, key, key.replace("warehouse/orders/", "warehouse//orders//"))
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    checkpoint(aws, shop.bucket, "warehouse//orders//_delta_log/")
    lost = shop.keys("/orders//")[0]
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    return lost


def test_classes_of_a_report(buckets: Buckets) -> None:
    """Empty values leave files undecided, but for delete markers; so does a class that is a pool of this store."""
    content = {table: buckets.content(f"classes.{table}") for table in TABLES["classes"]}
    assert {table: row["status"] for table, row in content.items()} == {
        "orders": "partial", "returns": "partial", "stock": "complete",
    }  # fmt: skip
    place = f"s3_inventory s3://{buckets.shops['classes'].bucket}/reports"
    assert place in content["orders"]["reason"]
    assert "does not name StorageClass" in content["orders"]["reason"]
    assert "whether files of the storage class COLD must be restored" in content["returns"]["reason"]
    warnings = buckets.warnings("classes")
    assert sum("does not name StorageClass" in each for each in warnings) == 1
    assert sum("storage_classes: {COLD: readable}" in each for each in warnings) == 1
    (lost,) = (row for row in buckets.rows("classes") if row["key"] == buckets.lost["classes"])
    assert (lost["kind"], lost["recoverable"]) == ("dropped", "yes")
    assert "must be restored first" not in lost["explanation"]


def test_a_report_of_all_versions_says_when_one_was_replaced(buckets: Buckets) -> None:
    """The report's times and today's rules give the day; no request confirms it."""
    (lost,) = (row for row in buckets.rows("classes") if row["key"] == buckets.lost["classes"])
    shop = buckets.shops["classes"]
    (marker,) = shop.s3.list_object_versions(Bucket=shop.bucket, Prefix=lost["key"])["DeleteMarkers"]
    deleted = marker["LastModified"].replace(hour=0, minute=0, second=0, microsecond=0)
    dates = (lost["recoverable"], lost["recoverable_until"], lost["confirmation"])
    assert dates == ("yes", deleted + timedelta(days=1 + 3), "none")


def test_a_table_below_two_slashes_is_audited_by_a_report_below_two_slashes(buckets: Buckets) -> None:
    """S3 delivers to `x/` below `x//`."""
    assert buckets.told["slashes.orders"] == ("complete", ["dropped"])
    rows = buckets.rows("slashes")
    assert [row["key"] for row in rows if row["kind"] == "dropped"] == [buckets.lost["slashes"]]


def checkpoint(aws: Aws, bucket: str, log: str) -> None:
    """A checkpoint of version 0, of the actions of commit 0."""
    commit = aws.s3.get_object(Bucket=bucket, Key=f"{log}{0:020}.json")["Body"].read()
    actions = [each for line in commit.splitlines() if "commitInfo" not in (each := json.loads(line))]
    sink = io.BytesIO()
    pq.write_table(checkpoint_rows(actions), sink)
    aws.s3.put_object(Bucket=bucket, Key=f"{log}{0:020}.checkpoint.parquet", Body=sink.getvalue())

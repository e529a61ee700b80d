"""Every way back that documents, pages and `explain` recommend ends in `resolved`, as restored, at the next audit."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.delta_lake import add, features, remove, vector, vector_file
from tests.builders.mending import Mending
from tests.builders.shop import Shop
from tests.conftest import Aws


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """One table, written an hour ago into a bucket that keeps versions."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    made = Shop(aws.s3, s3, bucket)
    made.write("orders")
    listed = aws.s3.list_objects_v2(Bucket=bucket, Prefix="warehouse/")["Contents"]
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    for entry in listed:
        backdate(
            bucket,
            entry["Key"],
            an_hour_ago - timedelta(seconds=9 if "_delta_log" not in entry["Key"] else 0),
        )
    return made


def rows(lake: Lake, table: str, *columns: str) -> dict[str, tuple[Any, ...]]:
    """Columns of a result table by the end of a file's name or id."""
    found = results_of(lake)
    batches = (
        found.findings(found.published(None)["run_id"]) if table == "findings" else found.discrepancies()
    )
    every = [row for batch in batches for row in batch.to_pylist()]
    return {row["key"]: tuple(row[name] for name in columns) for row in every}


def reasons(lake: Lake) -> dict[str, str]:
    """By key why it was resolved."""
    results = results_of(lake)
    by_key = {row["discrepancy_id"]: row["key"] for b in results.discrepancies() for row in b.to_pylist()}
    history = results.history(list(by_key))
    return {
        by_key[row["discrepancy_id"]]: row["reason"] for row in history if row["transition"] == "resolved"
    }


def test_what_is_brought_back_is_resolved(shop: Shop, tmp_path: Path) -> None:
    s3, bucket = shop.s3, shop.bucket
    marked, copied, uploaded, purged, torn = keys = shop.keys("orders")[:5]
    bodies = {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
    versions = {key: s3.head_object(Bucket=bucket, Key=key)["VersionId"] for key in keys}
    markers = {key: s3.delete_object(Bucket=bucket, Key=key)["VersionId"] for key in keys[:4]}
    s3.delete_object(Bucket=bucket, Key=purged, VersionId=versions[purged])
    s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")

    lake = shop.lake(tmp_path)
    audited(lake, live=True, run_id="lost")
    told = rows(lake, "findings", "kind", "recoverable", "recovery", "recovery_version_id")
    by_marker = {
        key: ("dropped", "yes", "delete_marker", versions[key]) for key in (marked, copied, uploaded)
    }
    assert told == by_marker | {
        purged: ("dropped", "no", None, None),
        torn: ("size_mismatch", "yes", "older_version", versions[torn]),
    }
    hidden = rows(lake, "findings", "storage_version_id")
    assert [hidden[key] for key in (marked, copied, uploaded)] == [
        (markers[key],) for key in (marked, copied, uploaded)
    ]

    s3.delete_object(Bucket=bucket, Key=marked, VersionId=markers[marked])
    for key in (copied, torn):
        source = {"Bucket": bucket, "Key": key, "VersionId": versions[key]}
        s3.copy_object(Bucket=bucket, Key=key, CopySource=source)  # type: ignore[arg-type]
    for key in (uploaded, purged):
        s3.put_object(Bucket=bucket, Key=key, Body=bodies[key])
    outcome = audited(lake, live=True, run_id="back")
    assert (outcome.summary["findings"], outcome.exit_code) == ({}, 0)
    assert rows(lake, "discrepancies", "state", "resolution") == dict.fromkeys(keys, ("resolved", "restored"))
    verified, unverified = "looked at now; content verified", "looked at now; content not verified"
    assert reasons(lake) == dict.fromkeys(keys, verified) | {purged: unverified}


def test_a_deletion_vector_comes_back_like_a_data_file(shop: Shop, tmp_path: Path) -> None:
    """No log records the size of its file: the version that was current at the commit is it."""
    s3, bucket = shop.s3, shop.bucket
    gone, short = [shop.keys("orders")[n] for n in (0, 1)]
    files = {f"warehouse/orders/{vector_file(n)}": path for n, path in enumerate((gone, short))}
    commit = [features("deletionVectors")]
    for number, path in enumerate(files.values()):
        name = path.removeprefix("warehouse/orders/")
        size = s3.head_object(Bucket=bucket, Key=path)["ContentLength"]
        day = {"day": name.partition("/")[0].removeprefix("day=")}
        commit += [remove(name), add(name, vector(number), size=size, partitionValues=day)]
    versions = {key: s3.put_object(Bucket=bucket, Key=key, Body=b"v" * 60)["VersionId"] for key in files}
    body = "".join(json.dumps(action) + "\n" for action in commit).encode()
    s3.put_object(Bucket=bucket, Key=f"warehouse/orders/_delta_log/{2:020}.json", Body=body)
    lost, torn = files
    s3.delete_object(Bucket=bucket, Key=lost)
    s3.put_object(Bucket=bucket, Key=torn, Body=b"v" * 20)
    lake = shop.lake(tmp_path)
    audited(lake, live=True, run_id="lost")
    assert rows(lake, "findings", "kind", "category", "recoverable", "recovery", "recovery_version_id") == {
        lost: ("dropped", "deletes", "yes", "delete_marker", versions[lost]),
        torn: ("size_mismatch", "deletes", "yes", "older_version", versions[torn]),
    }
    mending = Mending(lake, tmp_path)
    mending.plan(io.StringIO())
    assert mending.apply().exit_code == 0
    assert mending.statuses()[lost] == "applied"
    assert s3.get_object(Bucket=bucket, Key=lost)["VersionId"] == versions[lost]


def test_a_file_of_a_promised_state_comes_back_too(shop: Shop, tmp_path: Path) -> None:
    s3, bucket = shop.s3, shop.bucket
    lost, kept = shop.keys("orders")[:2]
    info = {"commitInfo": {"timestamp": 1, "operation": "DELETE", "operationParameters": {}}}
    removed = datetime.now(UTC) - timedelta(minutes=9)
    names = [key.removeprefix("warehouse/orders/") for key in (lost, kept)]
    body = "".join(
        json.dumps(each) + "\n" for each in (info, *(remove(name, removed=removed) for name in names))
    )
    s3.put_object(Bucket=bucket, Key=f"warehouse/orders/_delta_log/{2:020}.json", Body=body.encode())
    version = s3.head_object(Bucket=bucket, Key=lost)["VersionId"]
    s3.delete_object(Bucket=bucket, Key=lost)
    lake = shop.lake(tmp_path)
    audited(lake, live=True)
    told = rows(lake, "findings", "kind", "recoverable", "recovery", "recovery_version_id")
    assert told == {lost: ("dropped_history", "yes", "delete_marker", version)}


def test_versions_decide_what_was_written_again(shop: Shop, tmp_path: Path) -> None:
    """Equal content is consistent whenever it was written; other bytes of one size are named for what they are."""
    s3, bucket = shop.s3, shop.bucket
    again, other, unknown = shop.keys("orders")[:3]
    for key in (again, other, unknown):
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        first = s3.head_object(Bucket=bucket, Key=key)["VersionId"]
        s3.put_object(Bucket=bucket, Key=key, Body=body if key == again else body[::-1])
        if key == unknown:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=first)
    lake = shop.lake(tmp_path)
    audited(lake, live=True)
    told = rows(lake, "findings", "kind", "recoverable", "recovery")
    assert told == {other: ("content_mismatch", "yes", "older_version"), unknown: ("overwritten", "no", None)}


def older_versions_end(shop: Shop, *rules: dict[str, Any]) -> None:
    """Lifecycle rules for older versions, each with what it adds to one for the whole bucket."""
    usual: dict[str, Any] = {"Status": "Enabled", "Filter": {"Prefix": ""}}
    configuration: Any = {"Rules": [usual | {"ID": f"rule-{n}"} | rule for n, rule in enumerate(rules)]}
    shop.s3.put_bucket_lifecycle_configuration(Bucket=shop.bucket, LifecycleConfiguration=configuration)


def after(days: int) -> dict[str, Any]:
    return {"NoncurrentVersionExpiration": {"NoncurrentDays": days}}


def test_until_when_what_was_lost_can_come_back(shop: Shop, tmp_path: Path) -> None:
    """By the rules of the bucket and the time at which the version was replaced; without rules nothing is said."""
    s3, bucket = shop.s3, shop.bucket
    marked, torn, often = shop.keys("orders")[:3]
    s3.delete_object(Bucket=bucket, Key=marked)
    s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    for body in (b"once", b"twice"):
        s3.put_object(Bucket=bucket, Key=often, Body=body)
    lake = shop.lake(tmp_path)
    told = ("recoverable", "recoverable_until")
    first = audited(lake, live=True, run_id="no-rules")
    assert rows(lake, "findings", *told) == dict.fromkeys((marked, torn, often), ("yes", None))
    assert first.warnings == ()

    older_versions_end(shop, after(3), after(30), {"Status": "Disabled", **after(1)})
    audited(lake, live=True, run_id="by-days")
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert rows(lake, "findings", *told) == dict.fromkeys(
        (marked, torn, often), ("yes", tomorrow + timedelta(days=3))
    )
    (words,) = rows(lake, "findings", "explanation")[marked]
    assert (
        f"lifecycle rule rule-0 deletes that version from {tomorrow + timedelta(days=3):%Y-%m-%d} on" in words
    )
    assert rows(lake, "discrepancies", "recoverable_until")[torn] == (tomorrow + timedelta(days=3),)

    older_versions_end(shop, after(3) | {"Filter": {"Tag": {"Key": "k", "Value": "v"}}})
    tagged = audited(lake, live=True, run_id="by-tags")
    assert rows(lake, "findings", *told)[marked] == ("yes", None)
    assert f"rule rule-0 of s3://{bucket} asks for tags" in " ".join(tagged.warnings)


def test_a_report_of_all_versions_says_when_one_was_replaced(shop: Shop, tmp_path: Path) -> None:
    """Where nobody may look, and of the past: today's rules say nothing of what was kept then."""
    s3, bucket = shop.s3, shop.bucket
    marked = shop.keys("orders")[0]
    s3.delete_object(Bucket=bucket, Key=marked)
    older_versions_end(shop, after(3))
    shop.take_inventory(all_versions=True)
    lake = shop.lake(tmp_path, defaults="grace: 0s, leftover_age: 0s, max_upload: 0s, confirm: {mode: none}")
    audited(lake, run_id="report")
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    said = rows(lake, "findings", "recoverable", "recoverable_until", "confirmation")
    assert said == {marked: ("yes", tomorrow + timedelta(days=3), "none")}

"""Every way back that documents, pages and `explain` recommend ends in `resolved`, as restored, at the next audit.

What one live audit says of its way back lies in one lake: a table a case, in buckets with and without lifecycle rules.
"""

import io
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.results.read import RowFilter
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import add, features, remove, vector, vector_file
from tests.builders.repair_plans import RepairPlans, an_hour_old
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant


def versioned(aws: Aws, s3: Endpoint, bucket: str, *tables: str) -> Shop:
    """Write tables, copies of one, as if an hour ago, into a versioned bucket."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    made = Shop(aws.s3, s3, bucket)
    made.write("template")
    made.copy("template", *tables, own_ids=True)
    an_hour_old(made)
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
    """Return the reason of each resolution, by key."""
    results = results_of(lake)
    by_key = {row["discrepancy_id"]: row["key"] for b in results.discrepancies() for row in b.to_pylist()}
    history = results.history(list(by_key))
    return {
        by_key[row["discrepancy_id"]]: row["reason"] for row in history if row["transition"] == "resolved"
    }


def older_versions_end(shop: Shop, *rules: dict[str, Any]) -> None:
    """Set lifecycle rules for older versions; each extends a rule for the whole bucket."""
    usual: dict[str, Any] = {"Status": "Enabled", "Filter": {"Prefix": ""}}
    configuration: Any = {"Rules": [usual | {"ID": f"rule-{n}"} | rule for n, rule in enumerate(rules)]}
    shop.s3.put_bucket_lifecycle_configuration(Bucket=shop.bucket, LifecycleConfiguration=configuration)


def after(days: int) -> dict[str, Any]:
    return {"NoncurrentVersionExpiration": {"NoncurrentDays": days}}


@dataclass(frozen=True)
class Back:
    """Files of the table `back`: their names, content, versions, and the markers of those that were deleted."""

    keys: list[str]
    bodies: dict[str, bytes]
    versions: dict[str, str]
    markers: dict[str, str]


def lose_in_every_way(shop: Shop) -> Back:
    """Four files are deleted, of the last one its version, too; the fifth is torn."""
    s3, bucket = shop.s3, shop.bucket
    keys = shop.keys("back/")[:5]
    bodies = {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
    versions = {key: s3.head_object(Bucket=bucket, Key=key)["VersionId"] for key in keys}
    markers = {key: s3.delete_object(Bucket=bucket, Key=key)["VersionId"] for key in keys[:4]}
    s3.delete_object(Bucket=bucket, Key=keys[3], VersionId=versions[keys[3]])
    s3.put_object(Bucket=bucket, Key=keys[4], Body=b"torn")
    return Back(keys, bodies, versions, markers)


@dataclass(frozen=True)
class LossAudit:
    """One live audit of tables in three buckets, of which one has no rules, one some by days and one some by tags."""

    shop: Shop
    days: Shop
    tags: Shop
    lake: Lake
    folder: Path
    outcome: Outcome
    versions: dict[str, str]
    """The version to restore, by key."""
    back: "Back"

    def columns(self, table: str, *columns: str) -> dict[str, tuple[Any, ...]]:
        """Return these columns of the findings of a table, by key."""
        every = rows_of(results_of(self.lake).findings("lost"))
        return {row["key"]: tuple(row[c] for c in columns) for row in every if row["table_name"] == table}


@pytest.fixture(scope="module")
def losses(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> LossAudit:
    buckets = [f"test-{uuid.uuid4().hex[:12]}" for _ in range(3)]
    for bucket in buckets:
        aws.s3.create_bucket(Bucket=bucket)
    shop = versioned(aws, s3, buckets[0], "vectors", "promised", "again", "no_rules", "back")
    days, tags = versioned(aws, s3, buckets[1], "by_days"), versioned(aws, s3, buckets[2], "by_tags")
    older_versions_end(days, after(3), after(30), {"Status": "Disabled", **after(1)})
    older_versions_end(tags, after(3) | {"Filter": {"Tag": {"Key": "k", "Value": "v"}}})
    versions = lose_vectors(shop) | lose_promised(shop)
    write_again(shop)
    back = lose_in_every_way(shop)
    for each, table in ((shop, "no_rules"), (days, "by_days"), (tags, "by_tags")):
        lose_marked_torn_and_twice_torn(each, table)
    folder = tmp_path_factory.mktemp("lost")
    tables = [
        f"- {{name: {table}, location: 's3://{each.bucket}/warehouse/{table}', manifests: [{{kind: delta}}]}}"
        for each in (shop, days, tags)
        for table in each.tables
    ]
    lake = shop.lake(folder, tables=tables)
    outcome = audited(lake, live=True, run_id="lost")
    return LossAudit(shop, days, tags, lake, folder, outcome, versions, back)


def test_what_is_brought_back_is_resolved(losses: LossAudit) -> None:
    s3, bucket, back = losses.shop.s3, losses.shop.bucket, losses.back
    marked, copied, uploaded, purged, torn = back.keys
    found = losses.columns("back", "kind", "recoverable", "recovery", "recovery_version_id")
    by_marker = {
        key: ("dropped", "yes", "delete_marker", back.versions[key]) for key in (marked, copied, uploaded)
    }
    assert found == by_marker | {
        purged: ("dropped", "no", None, None),
        torn: ("size_mismatch", "yes", "older_version", back.versions[torn]),
    }
    hidden = losses.columns("back", "storage_version_id")
    assert [hidden[key] for key in (marked, copied, uploaded)] == [
        (back.markers[key],) for key in (marked, copied, uploaded)
    ]

    s3.delete_object(Bucket=bucket, Key=marked, VersionId=back.markers[marked])
    for key in (copied, torn):
        source = {"Bucket": bucket, "Key": key, "VersionId": back.versions[key]}
        s3.copy_object(Bucket=bucket, Key=key, CopySource=source)  # type: ignore[arg-type]
    for key in (uploaded, purged):
        s3.put_object(Bucket=bucket, Key=key, Body=back.bodies[key])
    outcome = audited(losses.lake, live=True, run_id="back", tables=("back",))
    assert (outcome.summary["findings"], outcome.exit_code) == ({}, 0)
    resolved = rows(losses.lake, "discrepancies", "state", "resolution")
    assert {key: resolved[key] for key in back.keys} == dict.fromkeys(back.keys, ("resolved", "restored"))
    shown = "a live check no longer shows it"
    verified, unverified = f"{shown}; content verified", f"{shown}; content not verified"
    assert reasons(losses.lake) == dict.fromkeys(back.keys, verified) | {purged: unverified}


def lose_vectors(shop: Shop) -> dict[str, str]:
    """Files with deletion vectors, of which one is deleted and one is torn."""
    s3, bucket = shop.s3, shop.bucket
    gone, short = [shop.keys("vectors/")[n] for n in (0, 1)]
    files = {f"warehouse/vectors/{vector_file(n)}": path for n, path in enumerate((gone, short))}
    commit = [features("deletionVectors")]
    for number, path in enumerate(files.values()):
        name = path.removeprefix("warehouse/vectors/")
        size = s3.head_object(Bucket=bucket, Key=path)["ContentLength"]
        day = {"day": name.partition("/")[0].removeprefix("day=")}
        commit += [remove(name), add(name, vector(number), size=size, partitionValues=day)]
    versions = {key: s3.put_object(Bucket=bucket, Key=key, Body=b"v" * 60)["VersionId"] for key in files}
    body = "".join(json.dumps(action) + "\n" for action in commit).encode()
    s3.put_object(Bucket=bucket, Key=f"warehouse/vectors/_delta_log/{2:020}.json", Body=body)
    lost, torn = files
    s3.delete_object(Bucket=bucket, Key=lost)
    s3.put_object(Bucket=bucket, Key=torn, Body=b"v" * 20)
    return versions


def test_a_deletion_vector_comes_back_like_a_data_file(losses: LossAudit) -> None:
    """No log records the size of its file: the version that was current at the commit is it."""
    gone, torn = (f"warehouse/vectors/{vector_file(n)}" for n in (0, 1))
    assert losses.columns(
        "vectors", "kind", "category", "recoverable", "recovery", "recovery_version_id"
    ) == {
        gone: ("dropped", "deletes", "yes", "delete_marker", losses.versions[gone]),
        torn: ("size_mismatch", "deletes", "yes", "older_version", losses.versions[torn]),
    }
    mending = RepairPlans(losses.lake, losses.folder)
    mending.plan(io.StringIO(), row_filter=RowFilter(tables=("vectors",)))
    assert mending.apply().exit_code == 0
    assert (mending.statuses()[gone], mending.statuses()[torn]) == ("applied", "applied")
    now = {key: losses.shop.s3.get_object(Bucket=losses.shop.bucket, Key=key) for key in (gone, torn)}
    assert (now[gone]["VersionId"], now[torn]["Body"].read()) == (losses.versions[gone], b"v" * 60)


def lose_promised(shop: Shop) -> dict[str, str]:
    """A file that the newest state lists no more, and an older one that is promised does."""
    s3, bucket = shop.s3, shop.bucket
    lost, kept = shop.keys("promised/")[:2]
    info = {"commitInfo": {"timestamp": 1, "operation": "DELETE", "operationParameters": {}}}
    removed = datetime.now(UTC) - timedelta(minutes=9)
    names = [key.removeprefix("warehouse/promised/") for key in (lost, kept)]
    body = "".join(
        json.dumps(each) + "\n" for each in (info, *(remove(name, removed=removed) for name in names))
    )
    s3.put_object(Bucket=bucket, Key=f"warehouse/promised/_delta_log/{2:020}.json", Body=body.encode())
    version = s3.head_object(Bucket=bucket, Key=lost)["VersionId"]
    s3.delete_object(Bucket=bucket, Key=lost)
    return {lost: version}


def test_a_file_of_a_promised_state_comes_back_too(losses: LossAudit) -> None:
    (key,) = (key for key in losses.versions if "/promised/" in key)
    found = losses.columns("promised", "kind", "recoverable", "recovery", "recovery_version_id")
    assert found == {key: ("dropped_history", "yes", "delete_marker", losses.versions[key])}


def write_again(shop: Shop) -> None:
    """A file with its own bytes, and two with others, of which one has lost its first version."""
    s3, bucket = shop.s3, shop.bucket
    again, other, unknown = shop.keys("again/")[:3]
    for key in (again, other, unknown):
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        first = s3.head_object(Bucket=bucket, Key=key)["VersionId"]
        s3.put_object(Bucket=bucket, Key=key, Body=body if key == again else body[::-1])
        if key == unknown:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=first)


def test_versions_decide_what_was_written_again(losses: LossAudit) -> None:
    """Equal content is consistent whenever it was written; other bytes are a mismatch if the first version is there."""
    _, other, unknown = losses.shop.keys("again/")[:3]
    found = losses.columns("again", "kind", "recoverable", "recovery")
    assert found == {
        other: ("content_mismatch", "yes", "older_version"),
        unknown: ("overwritten", "no", None),
    }


def midnight_after(shop: Shop, key: str) -> datetime:
    """The first midnight after the object was deleted or last written."""
    listed = shop.s3.list_object_versions(Bucket=shop.bucket, Prefix=key)
    newest = max(
        each["LastModified"] for each in (*listed.get("Versions", []), *listed.get("DeleteMarkers", []))
    )
    return newest.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def lose_marked_torn_and_twice_torn(shop: Shop, table: str) -> None:
    marked, torn, often = shop.keys(f"{table}/")[:3]
    shop.s3.delete_object(Bucket=shop.bucket, Key=marked)
    shop.s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"torn")
    for body in (b"once", b"twice"):
        shop.s3.put_object(Bucket=shop.bucket, Key=often, Body=body)


def test_until_when_what_was_lost_can_come_back(losses: LossAudit) -> None:
    """The bucket's rules and the time at which the version was replaced give the day; without rules it is null."""
    until = ("recoverable", "recoverable_until")
    assert [*losses.columns("no_rules", *until).values()] == [("yes", None)] * 3

    by_days = losses.columns("by_days", *until)
    marked, torn = sorted(by_days)[:2]
    ends = midnight_after(losses.days, marked) + timedelta(days=3)
    assert [*by_days.values()] == [("yes", ends)] * 3
    (words,) = losses.columns("by_days", "explanation")[marked]
    assert (
        f"on {ends:%Y-%m-%d} or later, lifecycle rule rule-0 deletes the version that can be restored"
        in words
    )
    assert rows(losses.lake, "discrepancies", "recoverable_until")[torn] == (ends,)

    assert [*losses.columns("by_tags", *until).values()] == [("yes", None)] * 3
    (warning,) = losses.outcome.warnings
    assert f"rule rule-0 of s3://{losses.tags.bucket} selects objects by tags" in warning

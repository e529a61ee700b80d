"""Unused files move to the quarantine and back: plan, apply, undo, purge, and the four deletion guards."""

import io
import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from lakeaudit import cli
from lakeaudit.commands.repair import purge as command
from lakeaudit.emit import recorded
from lakeaudit.evidence.manifest.hudi import HudiManifest
from lakeaudit.guard.newest_claims import NewestClaims
from lakeaudit.keys import Location
from lakeaudit.reconcile import deletion_guards
from lakeaudit.reconcile.actions.files import quarantine
from lakeaudit.reconcile.actions.files.leftovers import same_bytes
from lakeaudit.reconcile.execution import apply as apply_module
from lakeaudit.reconcile.execution import batch_deletes, purge
from lakeaudit.reconcile.execution.journal import Journal
from lakeaudit.reconcile.manifest_precondition import MET, ManifestPrecondition
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import SilentProgress
from tests.builders import access_logs
from tests.builders.access_logs import PERSON, Line, content
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.conditional_deletes import each_by_its_etag
from tests.builders.delta_lake import add, change, remove, vector, vector_file
from tests.builders.iam_policies import printed_policy, unused, with_printed_policy
from tests.builders.ledger import opened
from tests.builders.odd_stores import every, habit, silent_writes, without
from tests.builders.repair_plans import (
    RepairPlans,
    actions_of,
    an_hour_old,
    found_set,
    keys_of,
    publish_leftovers,
)
from tests.builders.request_rights import granted_rights, required_rights
from tests.builders.saved_state import SavedState, saved
from tests.builders.shop import Shop
from tests.conftest import Aws

DEBRIS = "warehouse/orders/day=2026-11-01/part-00000-debris.parquet"
OLDER = ("older_than_onboarding",)


def shop_of(aws: Aws, s3: Endpoint, bucket: str, *, versions: bool) -> Shop:
    """One table, written an hour ago, and a file that no commit lists."""
    if versions:
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    made = Shop(aws.s3, s3, bucket)
    made.write("orders", commits=1)
    aws.s3.put_object(
        Bucket=bucket, Key=DEBRIS, Body=b"x" * 5000, Metadata={"job": "nightly"}, Tagging="team=a%20b",
        ContentType="x/parquet",
    )  # fmt: skip
    settled(made)
    return made


def debris(name: str, day: str = "2026-11-01") -> str:
    """Key of one more file that no commit lists."""
    return f"warehouse/orders/day={day}/part-00000-debris-{name}.parquet"


def strewn(shop: Shop, *keys: str, minutes: int = 30, size: int = 5000) -> None:
    """Files that no commit lists, written so long ago."""
    for key in keys:
        shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"x" * size, Metadata={"job": "nightly"})
        backdate(shop.bucket, key, datetime.now(UTC) - timedelta(minutes=minutes))


def settled(shop: Shop) -> None:
    """The table is an hour old, its debris half of that."""
    an_hour_old(shop)
    backdate(shop.bucket, DEBRIS, datetime.now(UTC) - timedelta(minutes=30))


def mending_of(
    shop: Shop,
    folder: Path,
    place: str = "",
    age: str = "0s",
    extra: str = "",
    tables: Sequence[str] | None = None,
) -> RepairPlans:
    where = f"quarantine: {{location: 's3://{place or shop.bucket}/quarantine', keep: 30d}}\n{extra}"
    report = f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse/'}}]"
    defaults = f"grace: 0s, leftover_age: {age}, max_upload: 0s"
    lake = shop.lake(folder, extra=where, inventories=report, defaults=defaults, tables=tables)
    return RepairPlans(lake, folder)


def rows(mending: RepairPlans) -> list[dict[str, Any]]:
    return [json.loads(line) for line in mending.file.read_text().splitlines()[1:]]


def planned(mending: RepairPlans) -> dict[str, str]:
    return {row["key"]: row["action"] for row in rows(mending)}


@dataclass(frozen=True)
class Start:
    """A bucket from which tests start: with an unused file, with a plan for it, and after the plan was applied."""

    shop: Shop
    mending: RepairPlans
    unused: SavedState
    planned: SavedState
    applied: SavedState


@pytest.fixture(scope="module")
def start_of(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Start]:
    """Return the start in a bucket with or without versions; each is prepared once."""

    @cache
    def prepared(versions: bool) -> Start:
        bucket, folder = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("start")
        aws.s3.create_bucket(Bucket=bucket)
        shop = shop_of(aws, s3, bucket, versions=versions)
        unused = saved(bucket, folder, name="unused")
        mending = audit_debris(shop, folder)
        mending.plan(io.StringIO(), allow=())
        planned_only = saved(bucket, folder, name="planned")
        assert mending.apply().exit_code == 0
        return Start(shop, mending, unused, planned_only, saved(bucket, folder, name="applied"))

    return prepared


@pytest.fixture(params=[False, True], ids=["unversioned", "versioned"])
def start(request: pytest.FixtureRequest, start_of: Callable[[bool], Start]) -> Start:
    started = start_of(request.param)
    started.unused.restore()
    return started


@pytest.fixture
def shop(start: Start) -> Shop:
    return start.shop


@pytest.fixture
def debris_planned(start: Start) -> RepairPlans:
    """The debris is recorded in the ledger and planned."""
    start.planned.restore()
    return start.mending


@pytest.fixture
def debris_applied(start: Start) -> RepairPlans:
    """The debris is in the quarantine, or hidden."""
    start.applied.restore()
    return start.mending


UNVERSIONED = pytest.param(False, id="unversioned")
soak_of_versions = pytest.mark.parametrize(
    "start", [UNVERSIONED, pytest.param(True, id="versioned", marks=pytest.mark.soak)], indirect=True
)
"""In a bucket that keeps versions it is long."""
unversioned_only = pytest.mark.parametrize("start", [UNVERSIONED], indirect=True)


@pytest.fixture
def plain(start_of: Callable[[bool], Start]) -> Shop:
    """In a bucket that keeps no versions."""
    started = start_of(False)
    started.unused.restore()
    return started.shop


def audit_debris(
    shop: Shop, folder: Path, *keys: str, first_audit: timedelta = timedelta(hours=1), **lake: Any
) -> RepairPlans:
    """Record the debris (or these files) in the ledger; the table was first audited `first_audit` ago."""
    mending = mending_of(shop, folder, **lake)
    watched = datetime.now(UTC) - first_audit
    publish_leftovers(shop, mending.lake, "uncommitted", *(keys or (DEBRIS,)), first_audit=watched)
    return mending


def listed(shop: Shop, *keys: str) -> None:
    """Write a commit that adds these files to the table."""
    adds = [add(key.removeprefix("warehouse/orders/"), size=5000) for key in keys]
    body = "".join(json.dumps(each) + "\n" for each in adds)
    log = f"warehouse/orders/_delta_log/{1:020}.json"
    shop.s3.put_object(Bucket=shop.bucket, Key=log, Body=body.encode())


def is_there(shop: Shop, key: str = DEBRIS) -> bool:
    return key in shop.keys("orders")


@pytest.mark.parametrize(
    "versions",
    [pytest.param(False, id="unversioned"), pytest.param(True, id="versioned", marks=pytest.mark.soak)],
)
def test_from_debris_to_resolved_and_back(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, *, versions: bool
) -> None:
    shop = shop_of(aws, s3, bucket, versions=versions)
    mending = mending_of(shop, tmp_path)
    audited(mending.lake, live=True)
    as_found, before = found_set(mending.lake), keys_of(shop)
    assert [kind for _, _, kind in as_found] == ["uncommitted"]

    mending.plan(io.StringIO(), allow=OLDER)
    assert planned(mending) == {DEBRIS: "hide_leftover" if versions else "quarantine"}
    assert keys_of(shop) == before, "a plan changes nothing"
    assert mending.apply().exit_code == 0
    assert mending.statuses() == {DEBRIS: "applied"}
    assert DEBRIS not in shop.keys("orders")
    audited(mending.lake, live=True)
    assert found_set(mending.lake) == set()

    assert mending.undo().exit_code == 0
    after = keys_of(shop)
    assert shop.s3.get_object(Bucket=bucket, Key=DEBRIS)["Body"].read() == b"x" * 5000
    head = shop.s3.head_object(Bucket=bucket, Key=DEBRIS)
    assert (head["Metadata"], head["ContentType"]) == ({"job": "nightly"}, "x/parquet")
    tags = shop.s3.get_object_tagging(Bucket=bucket, Key=DEBRIS)["TagSet"]
    assert tags == [{"Key": "team", "Value": "a b"}]
    kept = {key for key in after if key.startswith("quarantine/")}
    assert len(kept) == (not versions)
    if versions:
        assert after == before
        settled(shop)
        audited(mending.lake, live=True)
        assert found_set(mending.lake) == as_found
    assert purged(mending)[0] == 0
    assert (is_there(shop), of_debris(shop)) == (True, [DEBRIS]), "after an undo only the copy is removed"


@pytest.mark.variant
def test_a_store_that_leaves_fields_out_of_its_responses(shop: Shop, debris_planned: RepairPlans) -> None:
    """Version lists lack IsLatest, writes lack ETag: the finished steps are known anyway, and undone."""
    mending = debris_planned
    before = shop.s3.head_object(Bucket=shop.bucket, Key=DEBRIS)["ETag"]
    with habit(every(silent_writes, without("IsLatest"))):
        assert mending.apply().exit_code == 0
        assert (mending.statuses(), is_there(shop)) == ({DEBRIS: "applied"}, False)
        assert mending.undo().exit_code == 0
    assert (mending.statuses(), is_there(shop)) == ({DEBRIS: "undone"}, True)
    assert shop.s3.head_object(Bucket=shop.bucket, Key=DEBRIS)["ETag"] == before


# --- uploads ---------------------------------------------------------------------------------------------------


def open_upload(shop: Shop, folder: Path, age: str = "0s") -> tuple[RepairPlans, str]:
    """Open an upload to a key of the table (moto dates every upload to 2010), and return its id."""
    upload = shop.s3.create_multipart_upload(Bucket=shop.bucket, Key=DEBRIS)["UploadId"]
    mending = mending_of(shop, folder, age=age)
    row = {"kind": "unfinished_upload", "table_name": "orders", "bucket": shop.bucket, "key": DEBRIS}
    opened(mending.lake, [row])
    return mending, upload


def uploads(shop: Shop) -> set[str]:
    return {
        each["UploadId"] for each in shop.s3.list_multipart_uploads(Bucket=shop.bucket).get("Uploads", [])
    }


def test_uploads_are_aborted_when_that_is_allowed(
    plain: Shop, tmp_path: Path, patched: pytest.MonkeyPatch
) -> None:
    mending, upload = open_upload(plain, tmp_path)
    mending.plan(io.StringIO(), allow=OLDER)
    assert planned(mending) == {DEBRIS: "needs_person"}, "what is final is in no default plan"
    with habit(without("Initiated")):
        mending.plan(io.StringIO(), allow=("abort_upload",))
    assert [row["evidence"]["why"] for row in rows(mending)] == ["the store does not return its start time"]
    mending.plan(io.StringIO(), allow=("abort_upload",))
    (row,) = rows(mending)
    assert (row["action"], row["reversibility"], uploads(plain)) == ("abort_upload", "final", {upload})
    with patched.context() as watched:
        asked = required_rights(watched)
        with with_printed_policy(mending.folder / "lake.yaml"):
            assert mending.apply().exit_code == 0
    assert (mending.statuses(), uploads(plain), is_there(plain)) == ({DEBRIS: "applied"}, set(), True)
    assert asked[plain.bucket] == granted_rights("LAKE-BUCKET", uploads=True)
    assert mending.undo().exit_code == 3
    assert mending.statuses() == {DEBRIS: "kept"}


def test_an_upload_that_may_still_be_at_work_is_left_alone(plain: Shop, tmp_path: Path) -> None:
    mending, upload = open_upload(plain, tmp_path, age="9999d")
    mending.plan(io.StringIO(), allow=("abort_upload",))
    (row,) = rows(mending)
    assert (row["action"], row["evidence"]["why"]) == ("needs_person", "no upload of that age is open")
    assert uploads(plain) == {upload}


def test_an_upload_that_ended_meanwhile_is_left_alone(plain: Shop, tmp_path: Path) -> None:
    mending, upload = open_upload(plain, tmp_path)
    mending.plan(io.StringIO(), allow=("abort_upload",))
    plain.s3.abort_multipart_upload(Bucket=plain.bucket, Key=DEBRIS, UploadId=upload)
    other = plain.s3.create_multipart_upload(Bucket=plain.bucket, Key=DEBRIS)["UploadId"]
    assert mending.apply().exit_code == 3
    assert (mending.statuses(), uploads(plain)) == ({DEBRIS: "changed"}, {other})


# --- what somebody reads, or a table still needs ---------------------------------------------------------------


READ: dict[str, tuple[str, int, str, str]] = {
    debris("read"): ("REST.GET.OBJECT", 10, "200", "moved_on"),
    debris("refused"): ("REST.GET.OBJECT", 10, "403", "applied"),
    debris("before"): ("REST.GET.OBJECT", 25, "200", "applied"),
    debris("looked-at"): ("REST.HEAD.OBJECT", 10, "200", "applied"),
}
"""By file: the logged request, its age in minutes, its response, and the status of the file."""
OTHERWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "warehouse/orders/_change_data/cdc-0.parquet": ("changes", change("_change_data/cdc-0.parquet")),
    f"warehouse/orders/{vector_file(1)}": ("deletes", add("day=2026-11-01/other.parquet", vector(1))),
}
"""Keys of other files than data files: their category, and the action of a commit that names them."""
REMOVED = {debris("30-days"): (30, "applied"), debris("1-days"): (1, "moved_on")}
"""By file: the days since the table removed it, and its status; readers were promised seven."""


@dataclass(frozen=True)
class ApplyInUse:
    """One plan and apply of files that somebody reads, that the table removed, or that a commit names meanwhile."""

    planned: dict[str, str]
    exit_code: int
    statuses: dict[str, str]
    errors: dict[str, str]
    read_at: datetime

    def of(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the statuses of these files."""
        return {key: self.statuses[key] for key in keys}


@pytest.fixture(
    scope="module", params=[UNVERSIONED, pytest.param(True, id="versioned", marks=pytest.mark.soak)]
)
def in_use(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> ApplyInUse:
    """The table's leftover_age is 20 minutes; the bucket's access log names the readers."""
    bucket, now = f"test-{uuid.uuid4().hex[:12]}", datetime.now(UTC)
    aws.s3.create_bucket(Bucket=bucket)
    shop = shop_of(aws, s3, bucket, versions=request.param)
    strewn(shop, *READ, *REMOVED)
    strewn(shop, *OTHERWISE, minutes=25)
    removed_by_commits(shop)
    log_of_requests(shop, now)
    events = f"events: [{{kind: s3_access_log, location: 's3://{bucket}/logs/'}}]\n"
    mending = mending_of(shop, tmp_path_factory.mktemp("in_use"), age="20m", extra=events)
    categories = {key: category for key, (category, _) in OTHERWISE.items()}
    publish_leftovers(shop, mending.lake, "uncommitted", *READ, *OTHERWISE, category=categories)
    publish_leftovers(shop, mending.lake, "unvacuumed", *REMOVED, partition="removed", more=True)
    mending.plan(io.StringIO(), allow=OLDER)
    body = "".join(json.dumps(action) + "\n" for _, action in OTHERWISE.values())
    shop.s3.put_object(Bucket=bucket, Key=f"warehouse/orders/_delta_log/{5:020}.json", Body=body.encode())
    ended = mending.apply()
    errors = {row["key"]: row["error"] for row in actions_of(mending.lake) if row["error"]}
    return ApplyInUse(
        planned(mending), ended.exit_code, mending.statuses(), errors, now - timedelta(minutes=10)
    )


def log_of_requests(shop: Shop, now: datetime) -> None:
    """Write the bucket's access log of the requests in `READ`."""
    lines = [
        Line(operation, key, now - timedelta(minutes=ago), principal=PERSON, bucket=shop.bucket, status=http)
        for key, (operation, ago, http, _) in READ.items()
    ]
    shop.s3.put_object(Bucket=shop.bucket, Key=f"logs/{access_logs.name(now, 'F')}", Body=content(lines))


def removed_by_commits(shop: Shop) -> None:
    """Commit each file of `REMOVED`, and its removal."""
    for version, (key, (days, _)) in enumerate(REMOVED.items()):
        old, name = datetime.now(UTC) - timedelta(days=days), key.removeprefix("warehouse/orders/")
        for second, action in enumerate((add(name, size=5000), remove(name, removed=old)), 1):
            log = f"warehouse/orders/_delta_log/{2 * version + second:020}.json"
            shop.s3.put_object(Bucket=shop.bucket, Key=log, Body=json.dumps(action).encode())
            backdate(shop.bucket, log, old)


@pytest.mark.variant
def test_a_file_that_somebody_reads_is_not_unused(in_use: ApplyInUse) -> None:
    assert in_use.of(READ) == {key: status for key, (*_, status) in READ.items()}
    why = in_use.errors[debris("read")]
    assert f"it was read on {in_use.read_at:%Y-%m-%d %H:%M} by {PERSON}" in why
    assert not in_use.errors.keys() & {key for key, (*_, status) in READ.items() if status == "applied"}


def test_a_file_that_a_commit_names_in_another_way_is_left_alone(in_use: ApplyInUse) -> None:
    assert "needs_person" not in {in_use.planned[key] for key in OTHERWISE}
    assert in_use.exit_code == 0
    assert in_use.of(OTHERWISE) == dict.fromkeys(OTHERWISE, "moved_on")


def test_what_the_table_removed_is_moved_once_no_reader_may_ask_for_it(in_use: ApplyInUse) -> None:
    assert in_use.of(REMOVED) == {key: status for key, (_, status) in REMOVED.items()}


# --- the four deletion guards ---------------------------------------------------------------------------------


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
YESES = {yes: debris(yes) for yes in ("kind_allows", "is_old_enough", "is_unlisted", "is_since_first_audit")}
"""By guard, a file that only this guard protects."""
MINUTES = {"is_old_enough": 30, "is_since_first_audit": 120}
"""Ages of files; others are 45 minutes old. The plan requires 40, and the first audit was 50 minutes ago."""


SIZES = {yes: 5001 + number for number, yes in enumerate(YESES)}
"""By guard the size of its file: two guards see only the HEAD response."""


class UnlistedButOne(ManifestPrecondition):
    """Guard 3, which accepts its own file whatever the manifests list."""

    def check(self, step: Any, references: Any) -> tuple[str, str]:
        return (MET, "") if step.key == YESES["is_unlisted"] else super().check(step, references)


def without_guards_for_their_files(patched: pytest.MonkeyPatch) -> None:
    """Each guard accepts the file that it protects, and checks the others."""
    kind_allows, unlisted = deletion_guards.kind_allows, deletion_guards.is_unlisted()
    old_enough, since = deletion_guards.is_old_enough, deletion_guards.is_since_first_audit
    accepting: dict[str, Any] = {
        "kind_allows": lambda row: None if row["key"] == YESES["kind_allows"] else kind_allows(row),
        "is_old_enough": lambda table, head, now: (
            None if head.size == SIZES["is_old_enough"] else old_enough(table, head, now)
        ),
        "is_unlisted": lambda: UnlistedButOne(unlisted.states, own_table=unlisted.own_table),
        "is_since_first_audit": lambda head, first, *, allowed: (
            None if head.size == SIZES["is_since_first_audit"] else since(head, first, allowed=allowed)
        ),
    }
    assert accepting.keys() == YESES.keys()
    for yes, accepts in accepting.items():
        patched.setattr(deletion_guards, yes, accepts)


def refused_by_one(shop: Shop, folder: Path, *others: str) -> RepairPlans:
    """Plan a file for each guard, and others; one of them is listed between plan and apply."""
    strewn(shop, *others, minutes=45)
    for yes, key in YESES.items():
        strewn(shop, key, minutes=MINUTES.get(yes, 45), size=SIZES[yes])
    mending = mending_of(shop, folder, age="40m")
    publish_leftovers(
        shop, mending.lake, "uncommitted", *YESES.values(), *others, category={YESES["kind_allows"]: "other"},
        first_audit=datetime.now(UTC) - timedelta(minutes=50),
    )  # fmt: skip
    mending.plan(io.StringIO(), allow=())
    listed(shop, YESES["is_unlisted"])
    return mending


@pytest.mark.variant
@soak_of_versions
def test_each_of_the_deletion_guards_is_required(
    shop: Shop, tmp_path: Path, patched: pytest.MonkeyPatch
) -> None:
    """A file is deleted if the only guard that protects it accepts it.

    `test_what_has_changed_since_the_plan_stays_and_since_the_apply_is_not_overwritten` proves with the same files that
    each stays as long as its guard checks it.
    """
    without_guards_for_their_files(patched)
    # the commit in between lists a file of 45 minutes: a younger one would stay for that reason, too
    patched.setattr("lakeaudit.reconcile.execution.apply.may_be_in_commit", lambda *_: None)
    mending = refused_by_one(shop, tmp_path)
    assert mending.apply().exit_code == 0
    assert {each for each, key in YESES.items() if not is_there(shop, key)} == {*YESES}


def test_a_file_that_a_guard_protects_is_explained(plain: Shop, tmp_path: Path) -> None:
    reasons = {
        debris("young", "2026-11-02"): "so it is younger than leftover_age",
        debris("old"): "older than the first complete audit of its table",
    }
    for key, minutes in zip(reasons, (30, 120), strict=True):
        strewn(plain, key, minutes=minutes)
    mending = audit_debris(plain, tmp_path, *reasons, age="31m")
    mending.plan(io.StringIO(), allow=())
    assert planned(mending) == dict.fromkeys(reasons, "needs_person")
    for row in rows(mending):
        assert reasons[row["key"]] in row["evidence"]["why"]


def test_a_table_that_was_never_audited_whole_has_nothing_that_is_younger(
    plain: Shop, tmp_path: Path
) -> None:
    mending = mending_of(plain, tmp_path)
    publish_leftovers(plain, mending.lake, "uncommitted", DEBRIS, first_audit=LONG_AGO, status="partial")
    mending.plan(io.StringIO(), allow=())
    assert planned(mending) == {DEBRIS: "needs_person"}
    mending.plan(io.StringIO(), allow=OLDER)
    assert planned(mending) == {DEBRIS: "quarantine"}


def test_without_a_quarantine_a_person_is_needed(plain: Shop, tmp_path: Path) -> None:
    report = f"[{{kind: listing, location: 's3://{plain.bucket}/warehouse/'}}]"
    mending = RepairPlans(plain.lake(tmp_path, inventories=report), tmp_path)
    publish_leftovers(plain, mending.lake, "uncommitted", DEBRIS)
    mending.plan(io.StringIO(), allow=OLDER)
    (row,) = rows(mending)
    assert (row["key"], row["evidence"]["why"]) == (None, "the lake file names no quarantine")


def test_what_lies_in_a_hudi_table_is_left_to_its_own_cleaner(plain: Shop, tmp_path: Path) -> None:
    lake = mending_of(plain, tmp_path).lake
    tables = tuple(t.model_copy(update={"manifests": (HudiManifest(kind="hudi"),)}) for t in lake.tables)
    mending = RepairPlans(lake.model_copy(update={"tables": tables}), tmp_path)
    publish_leftovers(plain, mending.lake, "uncommitted", DEBRIS)
    mending.plan(io.StringIO(), allow=OLDER)
    (row,) = rows(mending)
    assert "is a Hudi table: its own cleaner removes files" in row["evidence"]["why"]


# --- doubles -------------------------------------------------------------------------------------------------


def delete_twin(shop: Shop, double: str, twin: str) -> None:
    shop.s3.delete_object(Bucket=shop.bucket, Key=twin)


def other_bytes(shop: Shop, double: str, twin: str) -> None:
    shop.s3.put_object(Bucket=shop.bucket, Key=twin, Body=b"y" * 5000)


def also_listed(shop: Shop, double: str, twin: str) -> None:
    listed(shop, *TWINS.values(), double)


def nothing(shop: Shop, double: str, twin: str) -> None:
    pass


DUPLICATES: dict[str, tuple[str, Callable[[Shop, str, str], None], str]] = {
    "attempt": ("duplicate_attempt", nothing, "applied"),
    "content": ("duplicate_content", nothing, "applied"),
    "attempt-gone": ("duplicate_attempt", delete_twin, "needs_person"),
    "content-gone": ("duplicate_content", delete_twin, "needs_person"),
    "content-other": ("duplicate_content", other_bytes, "needs_person"),
    "content-listed": ("duplicate_content", also_listed, "moved_on"),
}
"""By name of a duplicate of a listed file: its kind, what happens to the two meanwhile, and its status."""
TWINS = {name: debris(f"twin-{name}") for name in DUPLICATES}


@pytest.mark.variant
@soak_of_versions
def test_a_double_is_moved_where_its_twin_is_there_and_listed_and_it_is_not(
    shop: Shop, tmp_path: Path
) -> None:
    assert {kind for kind, *_ in DUPLICATES.values()} == set(deletion_guards.DUPLICATES)
    doubles = {name: debris(name) for name in DUPLICATES}
    strewn(shop, *doubles.values(), *TWINS.values())
    listed(shop, *TWINS.values())
    mending = mending_of(shop, tmp_path)
    row = {"table_name": "orders", "bucket": shop.bucket}
    opened(
        mending.lake,
        [
            row | {"kind": kind, "key": doubles[name], "related_key": TWINS[name]}
            for name, (kind, *_) in DUPLICATES.items()
        ],
    )
    mending.plan(io.StringIO(), allow=OLDER)
    for name, (_, meanwhile, _) in DUPLICATES.items():
        meanwhile(shop, doubles[name], TWINS[name])
    assert mending.apply().exit_code == 3
    assert mending.statuses() == {doubles[name]: became for name, (*_, became) in DUPLICATES.items()}
    moved = {name for name in DUPLICATES if not is_there(shop, doubles[name])}
    assert moved == {"attempt", "content"}
    assert mending.undo().exit_code == 0
    assert all(is_there(shop, each) for each in doubles.values())


# --- what happens between plan and apply, and meanwhile ------------------------------------------------------


def listed_since(shop: Shop, key: str) -> None:
    listed(shop, YESES["is_unlisted"], key)


def written_again(shop: Shop, key: str) -> None:
    """The very same bytes: only its time says that a job wrote it."""
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"x" * 5000)


def overwritten(shop: Shop, key: str) -> None:
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"other")


def laid_about(shop: Shop, key: str) -> None:
    """A table that nobody named, about the file."""
    log = f"{key.rpartition('/')[0]}/_delta_log/{0:020}.json"
    shop.s3.put_object(Bucket=shop.bucket, Key=log, Body=b"{}")


SINCE: dict[str, tuple[Callable[[Shop, str], None], str]] = {
    debris("listed"): (listed_since, "moved_on"),
    debris("written-again"): (written_again, "changed"),
    debris("overwritten"): (overwritten, "changed"),
    debris("inner", "2026-11-02"): (laid_about, "unknown"),
    debris("left"): (lambda *_: None, "applied"),
    debris("overwritten-later"): (lambda *_: None, "applied"),
}
"""By file: the event between plan and apply, and the status."""


@pytest.mark.variant
@soak_of_versions
def test_what_has_changed_since_the_plan_stays_and_since_the_apply_is_not_overwritten(
    shop: Shop, tmp_path: Path
) -> None:
    """A file that a deletion guard protects stays as well."""
    mending = refused_by_one(shop, tmp_path, *SINCE)
    assert "needs_person" not in {planned(mending)[key] for key in SINCE}
    for key, (happens, _) in SINCE.items():
        happens(shop, key)
    before = keys_of(shop)
    assert mending.apply().exit_code == 3
    statuses = mending.statuses()
    assert {key: statuses[key] for key in SINCE} == {key: became for key, (_, became) in SINCE.items()}
    stay = [key for key, (_, became) in SINCE.items() if became != "applied"] + [*YESES.values()]
    assert {key: keys_of(shop)[key] for key in stay} == {key: before[key] for key in stay}
    left, later = (key for key in SINCE if key not in stay)
    overwritten(shop, later)
    assert mending.undo().exit_code == 3
    assert mending.statuses() | {left: "undone", later: "kept"} == mending.statuses()
    assert shop.s3.get_object(Bucket=shop.bucket, Key=later)["Body"].read() == b"other"
    assert shop.s3.get_object(Bucket=shop.bucket, Key=left)["Body"].read() == b"x" * 5000
    mending.plan(io.StringIO(), allow=())
    (step,) = [row for row in rows(mending) if "inner" in str(row["key"])]
    assert "it is inside a table that the lake file does not name" in step["evidence"]["why"]


def torn(shop: Shop) -> str:
    """Write a commit that cannot be read, and return its key."""
    log = f"warehouse/orders/_delta_log/{1:020}.json"
    shop.s3.put_object(Bucket=shop.bucket, Key=log, Body=b"{torn")
    return log


@pytest.mark.variant
@soak_of_versions
def test_a_table_that_cannot_be_read_stops_it(shop: Shop, debris_planned: RepairPlans) -> None:
    """Before the act, which is what differs by the bucket."""
    mending = debris_planned
    torn(shop)
    before = keys_of(shop)
    assert mending.apply().exit_code == 3
    assert (mending.statuses(), keys_of(shop)) == ({DEBRIS: "unknown"}, before)


@pytest.mark.variant
@soak_of_versions
def test_an_uncertain_file_is_put_back_after_the_act_and_tried_again(
    shop: Shop, debris_planned: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    mending = debris_planned
    put_batch = Journal.put_batch

    def and_a_torn_commit(self: Journal, number: int, steps: Any, done: Any) -> None:
        put_batch(self, number, steps, done)
        torn(shop)

    with patched.context() as once:
        once.setattr(Journal, "put_batch", and_a_torn_commit)
        assert mending.apply().exit_code == 3
    assert (mending.statuses(), is_there(shop)) == ({DEBRIS: "unknown"}, True)
    shop.s3.delete_object(Bucket=shop.bucket, Key=torn(shop))
    mending.apply()
    has_versions = shop.s3.get_bucket_versioning(Bucket=shop.bucket).get("Status") == "Enabled"
    (row,) = (row for row in actions_of(mending.lake) if row["action"] != "put_back")
    again = ("applied", None) if has_versions else ("changed", apply_module._WRITTEN_BACK)
    assert ((row["status"], row["error"]), is_there(shop)) == (again, not has_versions)


def test_a_group_without_files_is_explained(plain: Shop, tmp_path: Path) -> None:
    """A later run has replaced them."""
    mending = mending_of(plain, tmp_path)
    publish_leftovers(plain, mending.lake, "temporary")
    mending.plan(io.StringIO(), allow=OLDER)
    (row,) = rows(mending)
    assert (row["action"], "run an audit" in row["evidence"]["why"]) == ("needs_person", True)


# --- what happens to some files in one act -------------------------------------------------------------------


LISTED, AGAIN, SENT_TWICE = (debris(name) for name in ("listed-in-between", "again-in-the-act", "sent-twice"))
UNPROVED = {debris(f"{size}-bytes"): (size, same) for size, same in ((100, False), (200, None))}
"""Copies that differ, or may differ: only a file that is moved has one."""


@dataclass(frozen=True)
class ApplyRace:
    """One plan and apply of files that others change meanwhile, and the results."""

    shop: Shop
    mending: RepairPlans
    before: Any
    """The HEAD response for the file that a commit lists in between."""
    exit_code: int
    statuses: dict[str, str]
    there: set[str]


@pytest.fixture(scope="module", params=[False, True], ids=["unversioned", "versioned"])
def race(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> ApplyRace:
    bucket, keys = f"test-{uuid.uuid4().hex[:12]}", [LISTED, AGAIN, SENT_TWICE]
    aws.s3.create_bucket(Bucket=bucket)
    shop = shop_of(aws, s3, bucket, versions=request.param)
    strewn(shop, *keys)
    if not request.param:
        for key, (size, _) in UNPROVED.items():
            strewn(shop, key, size=size)
        keys += UNPROVED
    mending = audit_debris(shop, tmp_path_factory.mktemp("acted"), *keys)
    mending.plan(io.StringIO(), allow=())
    before = shop.s3.head_object(Bucket=bucket, Key=LISTED)
    with pytest.MonkeyPatch.context() as patched:
        listed_in_between(patched, shop)
        written_in_the_act(patched, shop)
        sent_twice(patched)
        proved = dict(UNPROVED.values())
        patched.setattr(
            quarantine, "same_bytes", lambda known, kept: proved.get(known["size"], same_bytes(known, kept))
        )
        ended = mending.apply()
    return ApplyRace(shop, mending, before, ended.exit_code, mending.statuses(), {*shop.keys("orders")})


def listed_in_between(patched: pytest.MonkeyPatch, shop: Shop) -> None:
    """Between reading and acting: once it is recorded what is to be done."""
    put_batch = Journal.put_batch

    def and_a_commit(self: Journal, number: int, steps: Any, done: Any) -> None:
        put_batch(self, number, steps, done)
        listed(shop, LISTED)

    patched.setattr(Journal, "put_batch", and_a_commit)


def written_in_the_act(patched: pytest.MonkeyPatch, shop: Shop) -> None:
    """After it was decided on and copied, before it is deleted."""
    send = AWSRequest.prepare

    def and_a_writer(self: AWSRequest) -> Any:
        if self.method == "DELETE" and AGAIN.rpartition("/")[2] in str(self.url):
            with pytest.MonkeyPatch.context() as once:
                once.setattr(AWSRequest, "prepare", send)
                shop.s3.put_object(Bucket=shop.bucket, Key=AGAIN, Body=b"by a job")
        return send(self)

    patched.setattr(AWSRequest, "prepare", and_a_writer)


def sent_twice(patched: pytest.MonkeyPatch) -> None:
    """The client sends the delete again, and its condition meets what the first one did."""
    call: Any = vars(BaseClient)["_make_api_call"]
    refused: Any = {"Error": {"Code": "PreconditionFailed"}, "ResponseMetadata": {"HTTPStatusCode": 412}}

    def twice(self: Any, operation: str, given: Any) -> Any:
        answer = call(self, operation, given)
        if operation == "DeleteObject" and given["Key"] == SENT_TWICE:
            raise ClientError(refused, operation)
        return answer

    patched.setattr(BaseClient, "_make_api_call", twice)


@pytest.mark.variant
def test_what_a_table_lists_between_reading_and_acting_is_put_back_at_once(race: ApplyRace) -> None:
    assert race.statuses[LISTED] == "moved_on"
    after: Any = race.shop.s3.head_object(Bucket=race.shop.bucket, Key=LISTED)
    same = ("ETag", "ContentLength", "Metadata", "ContentType")
    assert all(after[name] == race.before[name] for name in same)


def test_what_is_written_again_in_the_act_stays(race: ApplyRace) -> None:
    assert (race.exit_code, race.statuses[AGAIN]) == (3, "changed")
    now = race.shop.s3.get_object(Bucket=race.shop.bucket, Key=AGAIN)["Body"].read()
    assert now == b"by a job"


def test_a_copy_that_is_not_proved_removes_nothing(race: ApplyRace) -> None:
    """The copy differs, or may differ."""
    unproved = {key: status for key, status in race.statuses.items() if key in UNPROVED}
    copied = race.shop.s3.get_bucket_versioning(Bucket=race.shop.bucket).get("Status") != "Enabled"
    assert unproved == (dict.fromkeys(UNPROVED, "needs_person") if copied else {})
    assert race.there >= unproved.keys()


def test_a_lost_response_is_not_a_refusal(race: ApplyRace) -> None:
    assert (race.statuses[SENT_TWICE], SENT_TWICE in race.there) == ("applied", False)
    assert (race.mending.undo().exit_code, is_there(race.shop, SENT_TWICE)) == (
        0,
        True,
    )


# --- conditions of the store, and what proves a copy ---------------------------------------------------------


def ignore(patched: pytest.MonkeyPatch, *names: str) -> None:
    """The store takes these conditions and ignores them, as if they had not been sent."""
    prepare = AWSRequest.prepare

    def without_conditions(self: AWSRequest) -> Any:
        for name in names:
            if self.method != "HEAD":
                del self.headers[name]
        return prepare(self)

    patched.setattr(AWSRequest, "prepare", without_conditions)


@pytest.mark.variant
@pytest.mark.parametrize(
    ("start", "ignored"),
    [
        pytest.param(False, "If-Match", id="unversioned-If-Match"),
        pytest.param(False, "If-None-Match", id="unversioned-If-None-Match"),
        pytest.param(True, "If-Match", id="versioned-If-Match"),
        pytest.param(True, "If-None-Match", id="versioned-If-None-Match", marks=pytest.mark.soak),
    ],
    indirect=["start"],
)
def test_a_store_that_ignores_conditions_keeps_the_file(
    shop: Shop, debris_planned: RepairPlans, patched: pytest.MonkeyPatch, ignored: str
) -> None:
    """A marker needs no way back but its id; a file that is moved needs both conditions."""
    mending = debris_planned
    before = keys_of(shop)
    ignore(patched, ignored)
    by_marker = planned(mending)[DEBRIS] == "hide_leftover" and ignored == "If-None-Match"
    assert mending.apply().exit_code == (0 if by_marker else 3)
    assert mending.statuses() == {DEBRIS: "applied" if by_marker else "needs_person"}
    assert by_marker or keys_of(shop) == before


@pytest.mark.variant
def test_what_was_uploaded_in_parts_is_moved_in_the_same_parts(plain: Shop, tmp_path: Path) -> None:
    """So that its copy has the same ETag; metadata, tags and class are carried there and back."""
    at: Any = {"Bucket": plain.bucket, "Key": DEBRIS}
    put: Any = {"Metadata": {"job": "nightly"}, "ContentType": "x/parquet", "StorageClass": "STANDARD_IA"}
    upload = {
        **at,
        "UploadId": plain.s3.create_multipart_upload(**at, **put, Tagging="team=a%20b")["UploadId"],
    }
    bodies = [b"a" * (5 << 20), b"b" * (5 << 20), b"c" * 100]
    parts: Any = [
        {"PartNumber": n, "ETag": plain.s3.upload_part(**upload, PartNumber=n, Body=body)["ETag"]}
        for n, body in enumerate(bodies, 1)
    ]
    etag = plain.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})["ETag"]
    backdate(plain.bucket, DEBRIS, datetime.now(UTC) - timedelta(minutes=30))
    mending = audit_debris(plain, tmp_path)
    mending.plan(io.StringIO(), allow=())
    assert planned(mending) == {DEBRIS: "quarantine"}
    assert (mending.apply().exit_code, is_there(plain)) == (0, False)
    (copy,) = [key for key in keys_of(plain) if key.startswith("quarantine/")]
    assert plain.s3.head_object(Bucket=plain.bucket, Key=copy)["ETag"] == etag
    assert mending.undo().exit_code == 0
    got: Any = plain.s3.head_object(**at)
    assert {name: got[name] for name in (*put, "ETag")} == {**put, "ETag": etag}
    assert plain.s3.get_object_tagging(**at)["TagSet"] == [{"Key": "team", "Value": "a b"}]
    assert plain.s3.get_object(**at)["Body"].read() == b"".join(bodies)


@pytest.mark.variant
def test_the_policy_grants_exactly_the_requested_rights(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, patched: pytest.MonkeyPatch
) -> None:
    """The lake's buckets need only the rights for unused files, the quarantine's bucket all rights."""
    place, kept = f"{bucket}-quarantine", f"{bucket}-versions"
    for name in (place, kept):
        aws.s3.create_bucket(Bucket=name)
    shops = [shop_of(aws, s3, name, versions=name == kept) for name in (bucket, kept)]
    mendings = []
    for shop in shops:
        (tmp_path / shop.bucket).mkdir()
        mendings.append(audit_debris(shop, tmp_path / shop.bucket, place=place))
    requested = required_rights(patched)
    unneeded: list[set[tuple[str, str]]] = []
    for mending in mendings:
        with with_printed_policy(mending.folder / "lake.yaml") as seen:
            mending.plan(io.StringIO(), allow=())
            assert (mending.apply().exit_code, mending.undo().exit_code) == (0, 0)
            assert purged(mending)[0] == 0
        printed = printed_policy(mending.folder / "lake.yaml", "reconcile")
        unneeded.append(unused(printed, seen, "HideUnusedFiles", "MoveUnusedFiles", "KeepQuarantine"))
    assert set.intersection(*unneeded) == {
        ("KeepQuarantine", "s3:DeleteObjectVersion"),  # purge, where the quarantine keeps versions
        ("KeepQuarantine", "s3:AbortMultipartUpload"),  # a copy in parts that fails
    }
    of_lake = requested[bucket] | requested[kept]
    of_leftovers = granted_rights("LAKE-BUCKET", leftovers=True) - granted_rights("LAKE-BUCKET")
    assert of_leftovers <= of_lake <= granted_rights("LAKE-BUCKET", leftovers=True)
    assert requested[place] == granted_rights("QUARANTINE-BUCKET", leftovers=True)


# --- killed anywhere -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


REQUESTS = [
    (versions, operation, answered)
    for versions, operation in ((False, "CopyObject"), (False, "DeleteObject"), (True, "DeleteObject"))
    for answered in (False, True)
]
"""By versions of the bucket: before each request and after it (`answered`)."""


def requests(*quick: tuple[bool, str, bool]) -> list[Any]:
    """All of them; those that are not `quick` are long."""
    return [pytest.param(*each, marks=[] if each in quick else pytest.mark.soak) for each in REQUESTS]


def dying_about(patched: pytest.MonkeyPatch, *operations: str, answered: bool) -> None:
    """The process ends before or after the first such request about the file."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def dying(self: Any, operation: str, given: Any) -> Any:
        if operation not in operations or "debris" not in given["Key"]:
            return call(self, operation, given)
        if answered:
            call(self, operation, given)
        raise Killed

    patched.setattr(BaseClient, "_make_api_call", dying)


def killed_in_apply(
    mending: RepairPlans, patched: pytest.MonkeyPatch, operation: str, *, answered: bool
) -> None:
    """The apply of this plan ends about a request."""
    with patched.context() as once:
        dying_about(once, operation, answered=answered)
        with pytest.raises(Killed):
            mending.apply()


@pytest.mark.variant
@pytest.mark.parametrize(
    ("start", "operation", "answered"),
    requests((False, "DeleteObject", True), (True, "DeleteObject", True)),
    indirect=["start"],
)
def test_killed_about_a_request(
    shop: Shop, debris_planned: RepairPlans, patched: pytest.MonkeyPatch, *, operation: str, answered: bool
) -> None:
    """The second run does what is left, and the undo takes it back; at any time the file is in one place at least."""
    mending, before = debris_planned, keys_of(shop)
    killed_in_apply(mending, patched, operation, answered=answered)
    assert mending.statuses() == {DEBRIS: "started"}
    assert is_there(shop) is not (answered and operation == "DeleteObject")
    assert mending.apply().exit_code == 0
    assert (mending.statuses(), is_there(shop)) == ({DEBRIS: "applied"}, False)
    with patched.context() as once:
        dying_about(once, "PutObject", "DeleteObject", answered=answered)
        with pytest.raises(Killed):
            mending.undo()
    assert mending.statuses() == {DEBRIS: "undoing"}
    assert mending.undo().exit_code == 0
    assert keys_of(shop)[DEBRIS][0][1:] == before[DEBRIS][0][1:]


@pytest.mark.variant
@pytest.mark.parametrize(
    ("start", "operation", "answered"),
    requests((False, "DeleteObject", False)),  # both the file and its copy are there
    indirect=["start"],
)
def test_an_undo_of_a_run_that_was_killed(
    shop: Shop, debris_planned: RepairPlans, patched: pytest.MonkeyPatch, *, operation: str, answered: bool
) -> None:
    mending, before = debris_planned, keys_of(shop)
    killed_in_apply(mending, patched, operation, answered=answered)
    assert mending.undo().exit_code == 0
    assert keys_of(shop)[DEBRIS][0][1:] == before[DEBRIS][0][1:]


# --- many by one request -----------------------------------------------------------------------------------------


def many(aws: Aws, s3: Endpoint, bucket: str, folder: Path) -> tuple[Shop, RepairPlans, list[str]]:
    """Plan three unused files; the test writes the last one again after apply has looked."""
    shop = shop_of(aws, s3, bucket, versions=True)
    keys = [debris(str(n)) for n in range(3)]
    strewn(shop, *keys)
    mending = mending_of(shop, folder)
    publish_leftovers(shop, mending.lake, "uncommitted", *keys)
    mending.plan(io.StringIO(), allow=OLDER)
    return shop, mending, keys


@pytest.mark.variant
@pytest.mark.parametrize("honoured", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_many_are_hidden_by_one_request_where_each_has_its_condition(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, patched: pytest.MonkeyPatch, *, honoured: bool
) -> None:
    """moto ignores these conditions, so it gets single requests; a file that is written again stays either way."""
    shop, mending, keys = many(aws, s3, bucket, tmp_path)
    requests = each_by_its_etag(patched) if honoured else []
    together = batch_deletes.delete_in_batches

    def after_another(*given: Any) -> Any:
        shop.s3.put_object(Bucket=bucket, Key=keys[2], Body=b"again")
        return together(*given)

    patched.setattr("lakeaudit.reconcile.execution.apply.delete_in_batches", after_another)
    assert mending.apply().exit_code == 3
    assert mending.statuses() == {keys[0]: "applied", keys[1]: "applied", keys[2]: "changed"}
    assert [key for key in shop.keys("orders") if key in keys] == keys[2:]
    assert [sorted(each) for each in requests if "canary" not in each[0]] == [keys] * honoured
    assert mending.undo().exit_code == 0
    assert [key for key in shop.keys("orders") if key in keys] == keys


# --- purge ---------------------------------------------------------------------------------------------------

LATER = timedelta(days=31, hours=1)


def purged(mending: RepairPlans, after: timedelta = LATER, *, yes: bool = True) -> tuple[int, str, str]:
    """Run purge; return (exit code, verdict, printed text)."""
    out, results = io.StringIO(), results_of(mending.lake)
    at = datetime.now(UTC) + after
    ended = command.purge(mending.lake, results, out, yes=yes, now=at, progress=SilentProgress())
    return ended.exit_code, ended.verdict, out.getvalue()


def of_debris(shop: Shop) -> list[str]:
    return [key for key in keys_of(shop) if "debris" in key]


def removed(shop: Shop, folder: Path, *keys: str) -> RepairPlans:
    """The debris (or these files) is in the quarantine, or hidden."""
    mending = audit_debris(shop, folder, *keys)
    mending.plan(io.StringIO(), allow=())
    assert mending.apply().exit_code == 0
    return mending


def listed_by_now(shop: Shop, key: str) -> None:
    listed(shop, key)


def changed_where_it_is_kept(shop: Shop, key: str) -> None:
    """The file that was hidden is there again; the copy in the quarantine is another."""
    marked: Any = shop.s3.list_object_versions(Bucket=shop.bucket, Prefix=key).get("DeleteMarkers", [])
    for marker in marked:
        shop.s3.delete_object(Bucket=shop.bucket, Key=key, VersionId=marker["VersionId"])
    name = key.rpartition("/")[2]
    for copy in [each for each in of_debris(shop) if each.startswith("quarantine/") and name in each]:
        shop.s3.put_object(Bucket=shop.bucket, Key=copy, Body=b"by somebody")


KEPT: dict[str, tuple[Callable[[Shop, str], None], str, str]] = {
    debris("one"): (lambda *_: None, "purged", ""),
    debris("listed"): (listed_by_now, "applied", "orders lists the file"),
    debris("changed"): (
        changed_where_it_is_kept, "applied", "the file exists again|the object in the quarantine was replaced",
    ),
}  # fmt: skip
"""By file: the event before the purge, the result, and the message."""


def test_purge_removes_what_was_kept_long_enough_and_is_as_it_was(shop: Shop, tmp_path: Path) -> None:
    """Purge ignores files that were not recorded, wherever they lie."""
    strewn(shop, *KEPT)
    mending = removed(shop, tmp_path, *KEPT)
    stranger = "quarantine/debris-of-others"
    shop.s3.put_object(Bucket=shop.bucket, Key=stranger, Body=b"x")
    assert purged(mending, timedelta(days=29)) == (0, "0 objects (0 B) removed permanently", "")
    for key, (happens, *_) in KEPT.items():
        happens(shop, key)
    before = keys_of(shop)
    code, verdict, printed = purged(mending, yes=False)
    assert verdict.startswith("3 objects (14.6 KiB) would be removed permanently")
    assert keys_of(shop) == before
    code, verdict, printed = purged(mending)
    assert (code, verdict) == (3, "1 object (4.9 KiB) removed permanently, 2 not removed")
    assert mending.statuses() == {key: became for key, (_, became, _) in KEPT.items()}
    assert all(re.search(told, printed) for _, _, told in KEPT.values())
    (one, *_) = KEPT
    gone = {key for key in before if one.rpartition("/")[2] in key}
    assert gone
    assert keys_of(shop) == {key: held for key, held in before.items() if key not in gone}
    assert mending.undo().exit_code == 3
    assert not [key for key in keys_of(shop) if key in gone]


@pytest.mark.variant
def test_purge_reads_the_tables_once_and_then_what_commits_did_since(
    plain: Shop, tmp_path: Path, patched: pytest.MonkeyPatch
) -> None:
    """Three batches: a commit lists the last file while the first ones are removed."""
    keys = [debris(str(n)) for n in range(3)]
    strewn(plain, *keys)
    mending = mending_of(plain, tmp_path)
    publish_leftovers(plain, mending.lake, "uncommitted", *keys)
    mending.plan(io.StringIO(), allow=OLDER)
    assert mending.apply().exit_code == 0
    wholly, remove = [], purge.Purge.remove

    def read(self: NewestClaims, *given: Any, **more: Any) -> None:
        wholly.append(self)
        made(self, *given, **more)

    def one(self: purge.Purge, kept: list[purge.QuarantinedObject], *given: Any) -> dict[str, str]:
        left = remove(self, kept, *given)
        gone.update(each.file[1] for each in kept)
        if len(gone) == 2:
            listed(plain, *(set(keys) - gone))
        return left

    gone, made = set[str](), NewestClaims.__init__
    patched.setattr(NewestClaims, "__init__", read)
    patched.setattr(purge.Purge, "remove", one)
    patched.setattr(purge, "TOGETHER", 1)
    code, _, printed = purged(mending)
    assert (code, len(wholly)) == (3, 1)
    assert "orders lists the file" in printed
    assert sorted(mending.statuses().values()) == ["applied", "purged", "purged"]


def test_purge_keeps_what_came_from_a_table_that_is_not_read(plain: Shop, tmp_path: Path) -> None:
    """A slow writer commits the file after its table left the lake file; back there, the table lists it."""
    keys = [debris(name) for name in ("late", "unused")]
    strewn(plain, *keys)
    mending = removed(plain, tmp_path, *keys)
    before = keys_of(plain)
    (orders,) = mending.lake.tables
    warehouse = Location(plain.bucket, "warehouse")
    elsewhere = orders.model_copy(update={"name": "clicks", "location": warehouse.join("clicks")})
    around = orders.model_copy(update={"name": "all", "location": warehouse})
    for tables, why in (
        ((), "the lake file has no table orders"),
        ((elsewhere, around), "the lake file has no table orders|all: "),
        ((orders.model_copy(update={"manifests": ()}),), "its table orders cannot be read completely"),
    ):
        code, verdict, printed = purged(
            replace(mending, lake=mending.lake.model_copy(update={"tables": tables}))
        )
        assert (code, verdict) == (3, "0 objects (0 B) removed permanently, 2 not removed")
        assert re.search(why, printed)
        assert keys_of(plain) == before
    listed(plain, keys[0])
    code, verdict, printed = purged(mending)
    assert (code, verdict) == (3, "1 object (4.9 KiB) removed permanently, 1 not removed")
    assert "orders lists the file" in printed
    assert mending.statuses() == {keys[0]: "applied", keys[1]: "purged"}


@pytest.mark.soak
def test_purge_after_an_undo_removes_only_the_copy(shop: Shop, debris_applied: RepairPlans) -> None:
    """As at the end of `test_from_debris_to_resolved_and_back`."""
    mending = debris_applied
    mending.undo()
    assert purged(mending)[0] == 0
    assert (is_there(shop), of_debris(shop)) == (True, [DEBRIS])


@unversioned_only
def test_purge_at_a_store_that_ignores_conditions_leaves_copies(
    shop: Shop, debris_applied: RepairPlans, patched: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """First by the command line, which removes nothing that is young, and nothing without a place."""
    mending = debris_applied
    lake_file = mending.folder / "lake.yaml"
    assert cli.main(["reconcile", "purge", str(lake_file), "--yes"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "lakeaudit: 0 objects (0 B) removed permanently"
    assert mending.statuses() == {DEBRIS: "applied"}
    lake_file.write_text(lake_file.read_text().replace("quarantine:", "#"))
    assert cli.main(["reconcile", "purge", str(lake_file)]) == 2
    assert "is not in the lake file" in capsys.readouterr().err
    ignore(patched, "If-Match")
    code, _, printed = purged(mending)
    assert (code, len(of_debris(shop)), "does not honour If-Match" in printed) == (3, 1, True)


AROUND = [(False, False), (False, True), (True, False), (True, True)]
"""Whether the bucket keeps versions, and whether the process ends after the request or before it."""


def killed_around_a_purge(
    shop: Shop, mending: RepairPlans, patched: pytest.MonkeyPatch, *, answered: bool
) -> None:
    """The next purge does what is left."""
    assert (mending.statuses(), is_there(shop)) == ({DEBRIS: "applied"}, False)
    with patched.context() as once:
        dying_about(once, "DeleteObject", answered=answered)
        with pytest.raises(Killed):
            purged(mending)
    assert mending.statuses() == {DEBRIS: "applied"}
    assert purged(mending)[0] == 0
    assert (of_debris(shop), mending.statuses()) == ([], {DEBRIS: "purged"})


@pytest.mark.variant
@unversioned_only
def test_killed_in_a_purge(shop: Shop, debris_applied: RepairPlans, patched: pytest.MonkeyPatch) -> None:
    killed_around_a_purge(shop, debris_applied, patched, answered=True)


@pytest.mark.soak
@pytest.mark.parametrize(("start", "answered"), AROUND, indirect=["start"])
def test_killed_in_an_apply_and_in_a_purge(
    shop: Shop, debris_planned: RepairPlans, patched: pytest.MonkeyPatch, *, answered: bool
) -> None:
    """A file whose apply was killed after it was copied or hidden is purged, too."""
    versions = shop.s3.get_bucket_versioning(Bucket=shop.bucket).get("Status") == "Enabled"
    first = "DeleteObject" if versions else "CopyObject"
    killed_in_apply(debris_planned, patched, first, answered=True)
    assert (debris_planned.statuses(), is_there(shop)) == ({DEBRIS: "started"}, not versions)
    assert debris_planned.apply().exit_code == 0
    killed_around_a_purge(shop, debris_planned, patched, answered=answered)


def test_a_rule_that_ends_the_quarantine_early_is_reported(shop: Shop, debris_planned: RepairPlans) -> None:
    """Copies are subject to rules of their own bucket, hidden versions to those of the table's bucket."""
    rule: Any = {"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": ""}}
    mending = debris_planned
    for days, warns in ((7, True), (90, False)):
        ends: Any = {
            "Expiration": {"Days": days},
            "NoncurrentVersionExpiration": {"NoncurrentDays": days},
        }
        shop.s3.put_bucket_lifecycle_configuration(
            Bucket=shop.bucket, LifecycleConfiguration={"Rules": [rule | ends]}
        )
        out = io.StringIO()
        mending.plan(out, allow=())
        assert ("warning: rule tidy" in out.getvalue()) is warns


@pytest.mark.variant
def test_a_list_that_may_lack_files_protects_the_files_that_it_names_and_the_log_decides_about_the_rest(
    plain: Shop, tmp_path: Path
) -> None:
    """The audit already decides by the log alone which files are unused, so `apply` must not wait for the list."""
    named = debris("named-by-the-list")
    strewn(plain, named)
    lists = f"s3://{plain.bucket}/lists/"
    kinds = f"{{kind: delta}}, {{kind: file_list, location: '{lists}', complete: false}}"
    orders = f"- {{name: orders, location: 's3://{plain.bucket}/warehouse/orders', manifests: [{kinds}]}}"
    mending = mending_of(plain, tmp_path, tables=[orders])
    with recorded(lists, job_id="load-1", clients=clients_of(mending.lake)) as written:
        written.add(f"s3://{plain.bucket}/{named}", size=5000)
    publish_leftovers(
        plain, mending.lake, "uncommitted", DEBRIS, named, first_audit=datetime.now(UTC) - timedelta(hours=1)
    )
    mending.plan(io.StringIO(), allow=OLDER)
    mending.apply()
    assert mending.statuses() == {DEBRIS: "applied", named: "moved_on"}
    assert (is_there(plain), is_there(plain, named)) == (False, True)

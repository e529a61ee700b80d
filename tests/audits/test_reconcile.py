"""Break, audit, plan, apply, audit: repaired findings are resolved; and undo leaves every key as it was."""

import hashlib
import io
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError

from lakeaudit import cli
from lakeaudit.config import load_lake
from lakeaudit.errors import BadInput
from lakeaudit.reconcile import canary, conditional_copies
from lakeaudit.reconcile.actions.files.remove_delete_marker import RemoveDeleteMarker
from lakeaudit.reconcile.actions.files.restore_version import RestoreVersion
from lakeaudit.reconcile.execution import apply, undo
from lakeaudit.reconcile.execution.journal import Journal
from lakeaudit.reconcile.execution.run import Run
from lakeaudit.reconcile.plans import ceiling, plan_file
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import remove
from tests.builders.iam_policies import printed_policy, unused, with_printed_policy
from tests.builders.ledger import opened
from tests.builders.refusals import DENIED, SHORTENED, UNAVAILABLE, Refusals, refusing
from tests.builders.repair_plans import (
    Keys,
    RepairPlans,
    actions_of,
    an_hour_old,
    finding_rows,
    keys_of,
    open_rows,
    states,
)
from tests.builders.request_rights import granted_rights, required_rights
from tests.builders.results import covered, publish
from tests.builders.results import run as run_row
from tests.builders.saved_state import SavedState, saved
from tests.builders.shop import Shop
from tests.conftest import Aws


@dataclass(frozen=True)
class WrittenTable:
    """A table that delta-rs wrote once, and its log's record of each file."""

    bucket: str
    keys: Sequence[str]
    rows: Mapping[str, dict[str, Any]]

    def findings_of(self, shop: Shop, kinds: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the findings as `mending.found` does, for a copy of the table."""
        log = shop.s3.head_object(Bucket=shop.bucket, Key=f"warehouse/orders/_delta_log/{0:020}.json")
        of_copy = {"bucket": shop.bucket, "manifest_time": log["LastModified"]}
        return [{**self.rows[key], **of_copy, "kind": kind} for key, kind in kinds.items()]


@dataclass(frozen=True)
class Prepared:
    """A table in a bucket that keeps versions: sound, broken with a plan, after a killed apply, and repaired."""

    shop: Shop
    mending: RepairPlans
    sound: SavedState
    planned: SavedState
    killed: SavedState
    """The act of the only batch is done, and only its files record that it began."""
    applied: SavedState


def new_bucket(aws: Aws) -> str:
    """That keeps versions."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=name)
    aws.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


@pytest.fixture(scope="module")
def written_table(aws: Aws, s3: Endpoint) -> WrittenTable:
    made = Shop(aws.s3, s3, new_bucket(aws))
    made.write("orders")
    rows = {row["key"]: row for row in finding_rows(made, dict.fromkeys(made.keys("orders"), "dropped"))}
    listed = aws.s3.list_objects_v2(Bucket=made.bucket)["Contents"]
    return WrittenTable(made.bucket, [each["Key"] for each in listed], rows)


def copy_of(written_table: WrittenTable, aws: Aws, s3: Endpoint, bucket: str) -> Shop:
    """Copy the table as if it had been written into this bucket an hour ago."""
    for key in written_table.keys:
        aws.s3.copy_object(Bucket=bucket, Key=key, CopySource=f"{written_table.bucket}/{key}")
    made = Shop(aws.s3, s3, bucket, ["orders"])
    an_hour_old(made)
    return made


@pytest.fixture(scope="module")
def prepared(
    aws: Aws, s3: Endpoint, written_table: WrittenTable, tmp_path_factory: pytest.TempPathFactory
) -> Prepared:
    made, folder = copy_of(written_table, aws, s3, new_bucket(aws)), tmp_path_factory.mktemp("broken")
    sound = saved(made.bucket, folder)
    mending = broken_one(made, folder, written_table)
    mending.plan(io.StringIO())
    planned_only = saved(made.bucket, folder, name="planned")
    with pytest.MonkeyPatch.context() as once:
        once.setattr(Journal, "fold", lambda _: None)
        killed_after_acting(once, mending)
    killed = saved(made.bucket, folder, name="killed")
    planned_only.restore()
    assert mending.apply().exit_code == 0
    return Prepared(made, mending, sound, planned_only, killed, saved(made.bucket, folder, name="applied"))


@pytest.fixture
def shop(prepared: Prepared) -> Shop:
    """One table, written an hour ago into a bucket that keeps versions."""
    prepared.sound.restore()
    return prepared.shop


@pytest.fixture
def broken(prepared: Prepared, shop: Shop) -> RepairPlans:
    """Lost: one file by a delete marker, one by two of them, one for good; one has other bytes. They are planned."""
    prepared.planned.restore()
    return prepared.mending


@pytest.fixture
def before(shop: Shop, broken: RepairPlans) -> Keys:
    """Every key before the apply."""
    assert broken.file.exists()
    return keys_of(shop)


@pytest.fixture
def killed(prepared: Prepared, before: Keys) -> RepairPlans:
    """The process of an apply ended when the batch was acted on, before that was recorded."""
    assert before
    prepared.killed.restore()
    return prepared.mending


@pytest.fixture
def applied(prepared: Prepared, before: Keys) -> RepairPlans:
    """The plan is applied."""
    assert before
    prepared.applied.restore()
    return prepared.mending


def broken_one(shop: Shop, folder: Path, written_table: WrittenTable) -> RepairPlans:
    kinds = lose(shop)
    lake = shop.lake(folder)
    opened(lake, written_table.findings_of(shop, kinds))
    return RepairPlans(lake, folder)


def lose(shop: Shop) -> dict[str, str]:
    """Damage and lose files; return the kinds that an audit finds, by key."""
    marked, twice, gone, torn = shop.keys("orders")[:4]
    for key in (marked, twice, twice):
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    version = shop.s3.head_object(Bucket=shop.bucket, Key=gone)["VersionId"]
    shop.s3.delete_object(Bucket=shop.bucket, Key=gone, VersionId=version)
    first = shop.s3.head_object(Bucket=shop.bucket, Key=torn)["VersionId"]
    shop.s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"torn")
    shop.s3.delete_object(Bucket=shop.bucket, Key=torn, VersionId=first)
    return dict.fromkeys((marked, twice, gone), "dropped") | {torn: "size_mismatch"}


def rows(mending: RepairPlans) -> list[dict[str, Any]]:
    return [json.loads(line) for line in mending.file.read_text().splitlines()[1:]]


def planned(mending: RepairPlans) -> dict[str, str]:
    return {row["key"]: row["action"] for row in rows(mending)}


def test_from_break_to_resolved_and_back(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], written_table: WrittenTable
) -> None:
    kinds = lose(shop)
    broken = RepairPlans(shop.lake(tmp_path), tmp_path)
    audited(broken.lake, live=True)
    lost = sorted(states(broken.lake))
    by_hand = [{**each} for each in written_table.findings_of(shop, kinds)]
    for each in by_hand:
        del each["manifest_time"]
    assert open_rows(broken.lake) == sorted(by_hand, key=lambda each: each["key"]), (
        "the other tests write this into the ledger by hand"
    )
    lake_file, plan = str(tmp_path / "lake.yaml"), str(broken.file)
    before = keys_of(shop)

    assert cli.main(["reconcile", "plan", lake_file, "-o", plan, "--allow", "restore"]) == 0
    assert keys_of(shop) == before, "a plan changes nothing"
    printed = capsys.readouterr()
    assert sorted(planned(broken).values()) == [
        "needs_person", "needs_person", "remove_delete_marker", "restore_version",
    ]  # fmt: skip
    assert (
        "critical needs a person: 1 size_mismatch of orders: no version of it matches the record"
        in printed.out
    )
    assert f"next: lakeaudit reconcile apply {plan}" in printed.err.splitlines()[-1]

    assert cli.main(["reconcile", "apply", plan]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"lakeaudit: 2 applied; to verify: lakeaudit audit {lake_file}"
    assert set(keys_of(shop)) == set(before), "canaries are removed again"
    assert shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=".lakeaudit").get("Contents") is None
    mended = {key for key, action in planned(broken).items() if action != "needs_person"}
    assert [states(broken.lake)[key][0] for key in mended] == ["open", "open"], "only an audit resolves"
    audited(broken.lake, live=True)
    after = states(broken.lake)
    assert {key: after[key] for key in mended} == dict.fromkeys(mended, ("resolved", "restored"))
    assert {key for key in lost if after[key][0] == "open"} == set(lost) - mended

    assert cli.main(["reconcile", "undo", plan]) == 0
    assert keys_of(shop) == before, "and an audit would report the same findings as at first"
    assert cli.main(["reconcile", "undo", plan]) == 0, "undone is undone"
    assert keys_of(shop) == before


def test_a_bucket_without_versions_has_nothing_to_bring_back(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, written_table: WrittenTable
) -> None:
    shop = copy_of(written_table, aws, s3, bucket)
    lost = shop.keys("orders")[0]
    shop.s3.delete_object(Bucket=bucket, Key=lost)
    mending = RepairPlans(shop.lake(tmp_path), tmp_path)
    opened(mending.lake, written_table.findings_of(shop, {lost: "dropped"}))
    mending.plan(io.StringIO())
    (row,) = rows(mending)
    assert row["action"] == "needs_person"
    assert row["evidence"]["why"].startswith("its bucket keeps no versions")
    assert mending.apply().exit_code == 0


def test_a_suspended_bucket_is_for_a_person(shop: Shop, broken: RepairPlans) -> None:
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Suspended"})
    broken.plan(io.StringIO())
    assert set(planned(broken).values()) == {"needs_person"}


@pytest.mark.variant
def test_versioning_that_was_suspended_since_the_plan_stops_it(shop: Shop, broken: RepairPlans) -> None:
    before = keys_of(shop)
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Suspended"})
    assert broken.apply().exit_code == 3
    assert set(broken.statuses().values()) == {"changed"}
    assert keys_of(shop) == before


def test_what_touches_too_much_of_a_table_is_refused_before_anything_is_done(
    shop: Shop, broken: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    """Two of its six files; a hundred are the least by default. Nothing is written of a plan that is refused."""
    patched.setattr(ceiling, "LEAST", 2)
    broken.file.unlink()
    coverage = [covered(table_name="orders", files=n) for n in (3, 6)]
    publish(broken.lake.results, runs=[run_row()], coverage=coverage)
    with pytest.raises(BadInput, match="would change 2 of its 6 files, more than the ceiling of 20%"):
        broken.plan(io.StringIO())
    assert not broken.file.exists()
    broken.plan(io.StringIO(), max_share=0.5)
    with pytest.raises(BadInput, match="--max-share 1 permits the plan"):
        broken.apply()
    assert actions_of(broken.lake) == []
    assert broken.apply(limit=1).exit_code == 3
    assert broken.apply(max_share=0.5).exit_code == 0


# --- conditions of the store ------------------------------------------------------------------------------


def ignore_conditions(patched: pytest.MonkeyPatch) -> None:
    """The store takes every condition and ignores it, as if none had been sent."""
    prepare = AWSRequest.prepare

    def without_conditions(self: AWSRequest) -> Any:
        for name in ("If-Match", "If-None-Match"):
            del self.headers[name]
        return prepare(self)

    patched.setattr(AWSRequest, "prepare", without_conditions)


def test_a_store_that_ignores_conditions_gets_none_that_matter(
    shop: Shop, broken: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    """The marker goes by its id; nothing is written, and no marker is put where it could hide something else."""
    before = keys_of(shop)
    ignore_conditions(patched)
    assert broken.apply().exit_code == 3
    assert sorted(broken.statuses().values()) == ["applied", "needs_person"]
    changed = {key for key, versions in keys_of(shop).items() if before[key] != versions}
    assert changed == {key for key, action in planned(broken).items() if action == "remove_delete_marker"}
    assert broken.undo().exit_code == 3
    assert sorted(broken.statuses().values()) == ["kept", "needs_person"]


@pytest.mark.variant
def test_results_in_the_same_bucket_hold_record_and_canaries(
    shop: Shop, tmp_path: Path, written_table: WrittenTable
) -> None:
    shop.lake(tmp_path)
    file = tmp_path / "lake.yaml"
    file.write_text(file.read_text().replace(f"{tmp_path / 'results'}", f"s3://{shop.bucket}/results"))
    lost = shop.keys("orders")[0]
    for _ in range(2):
        shop.s3.delete_object(Bucket=shop.bucket, Key=lost)
    mending = RepairPlans(load_lake(file, {}), tmp_path)
    opened(mending.lake, written_table.findings_of(shop, {lost: "dropped"}))
    before = keys_of(shop)[lost]
    mending.plan(io.StringIO())
    left_by_a_killed_run = "results/.lakeaudit-canary/a"
    shop.s3.create_multipart_upload(Bucket=shop.bucket, Key=left_by_a_killed_run)
    assert (mending.apply().exit_code, mending.statuses()) == (0, {lost: "applied"})
    assert (mending.undo().exit_code, keys_of(shop)[lost]) == (0, before)
    assert not [key for key in keys_of(shop) if "canary" in key]
    assert "Uploads" not in shop.s3.list_multipart_uploads(Bucket=shop.bucket)


@pytest.mark.variant
@pytest.mark.parametrize("answer", [DENIED, UNAVAILABLE])
@pytest.mark.parametrize(
    ("request_", "first", "lasting"), [("PUT", 0, True), ("DELETE", 0, True), ("", 2, True), ("", 3, False)]
)
def test_a_test_of_the_store_that_fails_proves_nothing(
    broken: RepairPlans, answer: tuple[str, str], request_: str, first: int, *, lasting: bool
) -> None:
    """The first two requests write the objects for the test, the fourth is PutObject with `If-None-Match`."""

    def of_canary(request: str) -> bool:
        return request.startswith(request_) and "canary" in request

    with refusing(Refusals(of_canary, first, lasting, answer, retried=False)):
        broken.apply()
    refused = answer == UNAVAILABLE or request_ != "DELETE"  # no step here deletes on a condition
    tested = {status for status in broken.statuses().values() if status != "applied"}
    assert tested == ({"failed"} if refused else set())
    if refused:
        assert (broken.apply().exit_code, {*broken.statuses().values()}) == (0, {"applied"})


@pytest.mark.variant
def test_a_version_of_which_too_few_bytes_arrive_is_not_written(shop: Shop, broken: RepairPlans) -> None:
    lost = [key for key, action in planned(broken).items() if action == "restore_version"]
    before = keys_of(shop)

    def of_lost(request: str) -> bool:
        return request.startswith("GET") and any(request.endswith(key) for key in lost)

    with refusing(Refusals(of_lost, first=0, answer=SHORTENED)):
        broken.apply()
    assert lost
    assert {broken.statuses()[key] for key in lost} == {"failed"}
    assert {key: keys_of(shop)[key] for key in lost} == {key: before[key] for key in lost}
    broken.apply()
    assert {broken.statuses()[key] for key in lost} == {"applied"}


@pytest.mark.variant
def test_copies_are_used_where_their_condition_is_honoured(
    shop: Shop, broken: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    """moto ignores it, so the canary gets the response of other stores."""
    patched.setattr(
        canary.Forms, "honoured", lambda *_: frozenset({canary.COPY_IF_ABSENT, canary.DELETE_IF_MATCH})
    )
    before = keys_of(shop)
    assert broken.apply().exit_code == 0
    assert broken.undo().exit_code == 0
    assert keys_of(shop) == before


@pytest.mark.variant
def test_what_a_version_bears_is_carried(shop: Shop, tmp_path: Path, written_table: WrittenTable) -> None:
    key = shop.keys("orders")[0]
    body = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()
    first = shop.s3.head_object(Bucket=shop.bucket, Key=key)["VersionId"]
    put: Any = {"Metadata": {"job": "nightly"}, "ContentType": "x/parquet", "StorageClass": "STANDARD_IA"}
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=body, Tagging="team=a%20b", **put)
    shop.s3.delete_object(Bucket=shop.bucket, Key=key, VersionId=first)
    an_hour_old(shop)
    for _ in range(2):
        shop.s3.delete_object(Bucket=shop.bucket, Key=key)
    mending = RepairPlans(shop.lake(tmp_path), tmp_path)
    opened(mending.lake, written_table.findings_of(shop, {key: "dropped"}))
    mending.plan(io.StringIO())
    assert planned(mending) == {key: "restore_version"}
    assert mending.apply().exit_code == 0
    got: Any = shop.s3.head_object(Bucket=shop.bucket, Key=key)
    assert {name: got[name] for name in put} == put
    assert shop.s3.get_object_tagging(Bucket=shop.bucket, Key=key)["TagSet"] == [
        {"Key": "team", "Value": "a b"}
    ]


@pytest.mark.variant
def test_the_policy_grants_exactly_the_requested_rights(
    shop: Shop, broken: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    """Only the lake's bucket needs rights; the results are a local folder here."""
    lost = next(key for key, found in keys_of(shop).items() if found[:2] == [("marker",)] * 2)
    version = keys_of(shop)[lost][2][0]
    tags: Any = {"TagSet": [{"Key": "team", "Value": "a"}]}
    shop.s3.put_object_tagging(Bucket=shop.bucket, Key=lost, VersionId=version, Tagging=tags)
    requested = required_rights(patched)
    with with_printed_policy(broken.folder / "lake.yaml") as seen:
        broken.plan(io.StringIO())
        assert (broken.apply().exit_code, broken.undo().exit_code) == (0, 0)
    assert set().union(*requested.values()) == granted_rights("LAKE-BUCKET")
    printed = printed_policy(broken.folder / "lake.yaml", "reconcile")
    assert unused(printed, seen) == {
        ("RestoreFiles", "s3:AbortMultipartUpload"),  # a copy in parts that fails
        ("FindTablesList", "s3:ListBucket"),  # only before files are removed
    }


@pytest.mark.variant
@pytest.mark.parametrize(("honoured", "status"), [(True, "applied"), (False, "needs_person")])
def test_what_one_request_cannot_copy_is_copied_in_its_own_parts(
    shop: Shop,
    tmp_path: Path,
    written_table: WrittenTable,
    patched: pytest.MonkeyPatch,
    honoured: bool,
    status: str,
) -> None:
    """As above 5 GiB, the written version has the recorded ETag."""
    patched.setattr(conditional_copies, "MOST_COPIED", 1 << 20)
    patched.setattr(conditional_copies, "MOST_READ", 1 << 10)
    key = shop.keys("orders")[0]
    at: Any = {"Bucket": shop.bucket, "Key": key}
    upload = {
        **at,
        "UploadId": shop.s3.create_multipart_upload(**at, Metadata={"job": "nightly"})["UploadId"],
    }
    bodies = [b"a" * (5 << 20), b"b" * 100]
    parts: Any = [
        {"PartNumber": n, "ETag": shop.s3.upload_part(**upload, PartNumber=n, Body=body)["ETag"]}
        for n, body in enumerate(bodies, 1)
    ]
    etag = shop.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})["ETag"]
    for _ in range(2):
        shop.s3.delete_object(**at)
    mending = RepairPlans(shop.lake(tmp_path), tmp_path)
    (row,) = written_table.findings_of(shop, {key: "dropped"})
    opened(mending.lake, [{**row, "manifest_size": row_size(bodies), "manifest_etag": etag.strip('"')}])
    mending.plan(io.StringIO())
    before = keys_of(shop)
    if not honoured:
        ignore_conditions(patched)
    mending.apply()
    assert mending.statuses() == {key: status}
    if honoured:
        got: Any = shop.s3.head_object(**at)
        assert (got["ETag"], got["Metadata"], got["ContentLength"]) == (
            etag,
            {"job": "nightly"},
            row_size(bodies),
        )
        assert mending.undo().exit_code == 0
    assert keys_of(shop) == before


def row_size(bodies: list[bytes]) -> int:
    return sum(map(len, bodies))


# --- what happens between plan and apply ---------------------------------------------------------------------


def lost_rows_text(shop: Shop, *keys: str) -> None:
    """A commit that removes these files from the table."""
    names = [key.removeprefix("warehouse/orders/") for key in keys]
    body = "".join(json.dumps(remove(name, removed=datetime.now(UTC))) + "\n" for name in names)
    shop.s3.put_object(
        Bucket=shop.bucket, Key=f"warehouse/orders/_delta_log/{2:020}.json", Body=body.encode()
    )


@pytest.mark.variant
def test_a_file_that_the_table_removed_does_not_come_back(shop: Shop, broken: RepairPlans) -> None:
    mended = [key for key, action in planned(broken).items() if action != "needs_person"]
    lost_rows_text(shop, *mended)
    before = keys_of(shop)
    assert broken.apply().exit_code == 0
    assert broken.statuses() == dict.fromkeys(mended, "moved_on")
    assert keys_of(shop) == before


@pytest.mark.variant
def test_a_file_that_the_table_removes_in_between_is_taken_back_at_once(
    shop: Shop, broken: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    mended = [key for key, action in planned(broken).items() if action != "needs_person"]
    before = keys_of(shop)
    put_batch = Journal.put_batch

    def and_a_commit(self: Journal, number: int, steps: Any, done: Any) -> None:
        put_batch(self, number, steps, done)
        lost_rows_text(shop, *mended)

    patched.setattr(Journal, "put_batch", and_a_commit)
    assert broken.apply().exit_code == 0
    assert broken.statuses() == dict.fromkeys(mended, "moved_on")
    after = keys_of(shop)
    assert {key: after[key] for key in before} == before
    backs = [row for row in actions_of(broken.lake) if row["action"] == "put_back"]
    assert {row["key"] for row in backs} == set(mended)
    assert {(row["status"], bool(row["done_at"])) for row in backs} == {("applied", True)}
    assert broken.undo().exit_code == 0, "what was put back is not undone again"


def test_what_somebody_wrote_meanwhile_stays(shop: Shop, broken: RepairPlans) -> None:
    mended = [key for key, action in planned(broken).items() if action != "needs_person"]
    for key in mended:
        shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"by somebody else")
    before = keys_of(shop)
    assert broken.apply().exit_code == 3
    assert broken.statuses() == dict.fromkeys(mended, "changed")
    assert keys_of(shop) == before


def test_what_somebody_wrote_since_the_apply_is_not_undone(shop: Shop, applied: RepairPlans) -> None:
    mended = list(applied.statuses())
    for key in mended:
        shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"by somebody else")
    before = keys_of(shop)
    assert applied.undo().exit_code == 3
    assert applied.statuses() == dict.fromkeys(mended, "kept")
    assert keys_of(shop) == before


@pytest.mark.variant
def test_the_only_copy_is_not_undone(shop: Shop, applied: RepairPlans) -> None:
    """The version that was written is the last one of those bytes once its source has expired."""
    (row,) = [row for row in rows(applied) if row["action"] == "restore_version"]
    shop.s3.delete_object(Bucket=shop.bucket, Key=row["key"], VersionId=row["precondition"]["version_id"])
    assert applied.undo().exit_code == 3
    assert applied.statuses()[row["key"]] == "kept"
    assert (
        shop.s3.head_object(Bucket=shop.bucket, Key=row["key"])["ContentLength"]
        == row["precondition"]["size"]
    )


# --- killed anywhere -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(
    "acted",
    [
        {RemoveDeleteMarker: False, RestoreVersion: True},
        pytest.param({RemoveDeleteMarker: True, RestoreVersion: False}, marks=pytest.mark.soak),
    ],
    ids=["before-after", "after-before"],
)
def test_killed_before_or_after_an_act(
    shop: Shop, broken: RepairPlans, patched: pytest.MonkeyPatch, acted: dict[Any, bool]
) -> None:
    """Between record and act, and between act and record: the second run does what is left, and nothing twice."""
    before, calls, both = keys_of(shop), list[str](), Barrier(2)
    with patched.context() as once:
        for action, acts in acted.items():

            def dying(self: Any, step: Any, target: Any, act: Any = action.act, acts: bool = acts) -> None:
                calls.append(step.key)
                both.wait(20)  # the first exception would cancel a step that has not begun
                if acts:
                    act(self, step, target)
                raise Killed

            once.setattr(action, "act", dying)
        with pytest.raises(Killed):
            broken.apply()
    changed = {key for key, versions in keys_of(shop).items() if versions != before[key]}
    assert changed == {key for key, action in planned(broken).items() if action in acting(acted)}
    assert set(broken.statuses().values()) == {"started"}
    assert broken.apply().exit_code == 0
    assert set(broken.statuses().values()) == {"applied"}
    assert sorted(calls) == sorted(broken.statuses())
    assert all(len(versions) <= len(before[key]) + 1 for key, versions in keys_of(shop).items())
    assert broken.undo().exit_code == 0
    assert keys_of(shop) == before


def acting(acted: dict[Any, bool]) -> set[str]:
    """Return the names of the actions that acted before the process ended."""
    return {action.name for action, acts in acted.items() if acts}


def killed_after_acting(once: pytest.MonkeyPatch, mending: RepairPlans) -> None:
    """The process ends when a batch was acted on, before that is recorded."""
    act_all = apply._act_unless_failing

    def dying(*given: Any) -> Any:
        act_all(*given)
        raise Killed

    once.setattr(apply, "_act_unless_failing", dying)
    with pytest.raises(Killed):
        mending.apply()


@pytest.mark.variant
def test_what_a_killed_run_recorded_is_folded_by_the_next(shop: Shop, killed: RepairPlans) -> None:
    """The table knows nothing of a batch whose files alone were written."""
    files = killed.folder / "results" / "_reconcile"
    assert [file.name for file in files.rglob("*.json")] == ["0.json"]
    acted = keys_of(shop)
    assert killed.apply().exit_code == 0
    assert set(killed.statuses().values()) == {"applied"}
    assert keys_of(shop) == acted, "nothing is done twice"
    assert not [*files.rglob("*.json")]


@pytest.mark.variant
@pytest.mark.parametrize("acted", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_killed_in_an_undo(
    shop: Shop, before: Keys, applied: RepairPlans, patched: pytest.MonkeyPatch, acted: bool
) -> None:
    take_back = RemoveDeleteMarker.take_back

    def dying(self: Any, undo: Any, target: Any) -> None:
        if acted:
            take_back(self, undo, target)
        raise Killed

    with patched.context() as once:
        once.setattr(RemoveDeleteMarker, "take_back", dying)
        with pytest.raises(Killed):
            applied.undo()
    assert set(applied.statuses().values()) == {"undoing"}
    assert applied.undo().exit_code == 0
    assert keys_of(shop) == before


@pytest.mark.variant
def test_an_undo_of_a_run_that_was_killed(shop: Shop, before: Keys, killed: RepairPlans) -> None:
    """A step with the status `started` is undone if it was done."""
    assert keys_of(shop) != before
    assert killed.undo().exit_code == 0
    assert keys_of(shop) == before


@pytest.mark.variant
def test_a_limit_leaves_the_rest_for_the_next_run(shop: Shop, broken: RepairPlans) -> None:
    first = broken.apply(limit=1)
    assert (first.exit_code, sorted(broken.statuses().values())) == (3, ["applied", "waiting"])
    assert first.verdict.startswith("1 applied, 1 not started; to verify: lakeaudit audit ")
    assert broken.apply(limit=1).exit_code in (0, 3)
    assert sorted(broken.statuses().values()) == ["applied", "applied"]
    with pytest.raises(BadInput, match="is applied already"):
        broken.apply()


@dataclass
class Order:
    """The keys of the steps that were applied and undone, in this order."""

    applied: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)

    def record(self, patched: pytest.MonkeyPatch) -> None:
        """Record the steps from now on."""
        each, take_back = Run.each, undo._take_back

        def watched(run: Run, steps: Any, what: Any) -> Any:
            self.applied.extend(step.key for step in steps if step.key not in self.applied)
            return each(run, steps, what)

        def undoing(run: Any, keys: Any, step: Any, was: Any) -> Any:
            self.undone.append(step.key)
            return take_back(run, keys, step, was)

        patched.setattr(Run, "each", watched)
        patched.setattr(undo, "_take_back", undoing)


def refuse(
    once: pytest.MonkeyPatch,
    what: str,
    code: str,
    status: int,
    *actions: type[RemoveDeleteMarker | RestoreVersion],
) -> None:
    """The store refuses this part of the steps, by default of both actions."""
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def raise_refusal(*_: Any) -> None:
        raise ClientError(answer, "any")

    for action in actions or (RemoveDeleteMarker, RestoreVersion):
        once.setattr(action, what, raise_refusal)


@pytest.mark.variant
def test_what_the_store_refuses_is_tried_again_by_the_next_run(
    shop: Shop, broken: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    """Each step is a batch: no batch begins after too many refusals; an undo begins with the last one."""
    patched.setattr(plan_file, "BATCH", 1)
    broken.plan(io.StringIO())
    before, order = keys_of(shop), Order()
    with patched.context() as once:
        refuse(once, "act", "SlowDown", 503)
        ended = broken.apply(failures=1)
        assert (ended.exit_code, ended.verdict.partition(";")[0]) == (
            3, "1 refused by the store, 1 not started",
        )  # fmt: skip
        refuse(once, "act", "AccessDenied", 403)
        ended = broken.apply(failures=5)
        assert (ended.exit_code, ended.verdict.partition(";")[0]) == (3, "2 refused by the store")
    assert keys_of(shop) == before
    order.record(patched)
    assert broken.apply().exit_code == 0
    assert sorted(broken.statuses().values()) == ["applied", "applied"]
    applied = [*order.applied]
    with patched.context() as once:
        refuse(once, "take_back", "AccessDenied", 403, RestoreVersion)
        assert broken.undo().exit_code == 3
    assert order.undone == applied[::-1]
    assert sorted(broken.statuses().values()) == ["undoing", "undone"]
    assert broken.undo().exit_code == 0
    assert keys_of(shop) == before


@pytest.mark.variant
def test_steps_that_the_store_refused_have_nothing_to_undo(shop: Shop, broken: RepairPlans) -> None:
    broken.plan(io.StringIO())
    before = keys_of(shop)
    with pytest.MonkeyPatch.context() as once:
        refuse(once, "act", "AccessDenied", 403, RestoreVersion)
        assert broken.apply().exit_code == 3
    assert sorted(broken.statuses().values()) == ["applied", "failed"]
    ended = broken.undo()
    assert (ended.exit_code, ended.verdict.partition(";")[0]) == (0, "2 undone")
    assert keys_of(shop) == before


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        (lambda key: f"s3://{{}}/{key}", ""),
        (lambda key: key.rpartition("/")[2], ""),
        (lambda _: "s3://{}/warehouse/orders/", "is not one file"),
        (lambda _: "nothing-of-this-name", "has no open discrepancy"),
    ],
    ids=["URI", "end of its path", "folder", "unknown"],
)
def test_a_plan_for_one_file_has_only_its_steps(
    broken: RepairPlans,
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    named: Callable[[str], str],
    complaint: str,
) -> None:
    everything = planned(broken)
    key = next(key for key, action in everything.items() if action != "needs_person")
    place = named(key).format(shop.bucket)
    command = ["reconcile", "plan", str(broken.folder / "lake.yaml"), "-o", str(broken.file)]
    code = cli.main([*command, "--allow", "restore", "--file", place])
    assert (code, complaint in capsys.readouterr().err) == (2 if complaint else 0, True)
    assert planned(broken) == (everything if complaint else {key: everything[key]})


# --- plans that lie elsewhere, and approvals --------------------------------------------------------------------


@pytest.mark.variant
def test_a_plan_on_s3_is_approved_applied_and_undone(
    shop: Shop, broken: RepairPlans, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the DAG does it: what the status file says of the plan is what apply is given."""
    lake_file, plan = str(broken.folder / "lake.yaml"), f"s3://{shop.bucket}/plans/p"
    status = tmp_path / "s.json"
    before = keys_of(shop)
    command = ["reconcile", "plan", lake_file, "-o", plan, "--allow", "restore", "--status-file", str(status)]
    assert cli.main(command) == 0
    report = json.loads(status.read_text())
    assert (report["plan"], report["steps"], report["for_person"], report["exit_code"]) == (plan, 2, 2, 0)
    apply_it = ["reconcile", "apply", "--lake", lake_file, plan, "--status-file", str(status)]
    assert cli.main([*apply_it, "--digest", "0" * 64]) == 2
    assert "is not the plan that was approved" in capsys.readouterr().err
    assert cli.main([*apply_it, "--digest", report["digest"], "--approved-by", "eve"]) == 0
    done = json.loads(status.read_text())
    assert (done["command"], done["counts"], done["exit_code"]) == ("reconcile apply", {"applied": 2}, 0)
    row = Journal(results_of(broken.lake), report["plan_id"]).plan()
    assert row is not None
    assert (row["approved_by"], row["status"]) == ("eve", "applied")
    assert cli.main(["reconcile", "undo", "--lake", lake_file, plan]) == 0
    after = keys_of(shop)
    assert {key: after[key] for key in before} == before


@pytest.mark.variant
def test_a_plan_beside_the_results_has_a_name_of_its_own(
    broken: RepairPlans, capsys: pytest.CaptureFixture[str]
) -> None:
    lake_file = str(broken.folder / "lake.yaml")
    assert cli.main(["reconcile", "plan", lake_file, "--in-results", "--allow", "restore"]) == 0
    (plan,) = (broken.folder / "results" / "_reconcile" / "plans").iterdir()
    assert f"next: lakeaudit reconcile apply {plan}" in capsys.readouterr().err
    assert cli.main(["reconcile", "apply", str(plan)]) == 0


# --- plans that are refused ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Waiting:
    """A plan that is not applied; the tests change neither it nor its lake."""

    shop: Shop
    mending: RepairPlans
    text: str


@pytest.fixture(scope="module")
def waiting(
    aws: Aws, s3: Endpoint, written_table: WrittenTable, tmp_path_factory: pytest.TempPathFactory
) -> Waiting:
    shop = copy_of(written_table, aws, s3, new_bucket(aws))
    mending = broken_one(shop, tmp_path_factory.mktemp("waiting"), written_table)
    mending.plan(io.StringIO())
    return Waiting(shop, mending, mending.file.read_text())


@pytest.mark.parametrize("place", ["s3://{bucket}/no-such-plan", "s3://no-such-bucket/plan"])
def test_a_plan_that_is_not_there(waiting: Waiting, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan, lake_file = place.format(bucket=waiting.shop.bucket), waiting.mending.folder / "lake.yaml"
    assert cli.main(["reconcile", "apply", "--lake", str(lake_file), plan]) == 2
    assert capsys.readouterr().err.startswith(f"lakeaudit: {plan}: ")


def edited(text: str) -> str:
    return text.replace("remove_delete_marker", "restore_version", 1)


def cut_off(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:-1])


def sealed_anew(text: str) -> str:
    """Edited, with a digest that fits."""
    head, *lines = edited(text).splitlines(keepends=True)
    header = json.loads(head)
    sealed = json.dumps(header | {"digest": ""}, sort_keys=True).encode() + b"\n" + "".join(lines).encode()
    return json.dumps(header | {"digest": hashlib.sha256(sealed).hexdigest()}) + "\n" + "".join(lines)


CHANGES: tuple[tuple[Callable[[str], str], str], ...] = (
    (edited, "was changed or truncated"),
    (cut_off, "was changed or truncated"),
    (lambda text: text + text.splitlines()[-1] + "\n", "was changed or truncated"),
    (sealed_anew, "was changed since it was written"),
    (lambda _: '{"lake": 1}\n', "is not a plan"),
    (lambda _: "", "is not a plan"),
    (lambda text: text.replace('"lakeaudit_plan": 1', '"lakeaudit_plan": 2', 1), "another version"),
)


def test_a_file_that_is_not_the_plan_is_refused(waiting: Waiting) -> None:
    before, mending = keys_of(waiting.shop), waiting.mending
    try:
        for change, told in CHANGES:
            mending.file.write_text(change(waiting.text))
            for run in (mending.apply, mending.undo):
                with pytest.raises(BadInput, match=told):
                    run()
    finally:
        mending.file.write_text(waiting.text)
    assert keys_of(waiting.shop) == before


def test_a_plan_is_good_for_a_day(waiting: Waiting) -> None:
    lake, folder = waiting.mending.lake, waiting.mending.folder
    later = RepairPlans(lake, folder, lambda: datetime.now(UTC) + timedelta(hours=25))
    with pytest.raises(BadInput, match="expired at"):
        later.apply()


def test_a_plan_of_another_lake_file_is_refused(waiting: Waiting) -> None:
    folder = waiting.mending.folder
    changed = waiting.shop.lake(folder, defaults="grace: 1s, leftover_age: 0s, max_upload: 0s")
    with pytest.raises(BadInput, match="for another lake, or the lake file has changed"):
        RepairPlans(changed, folder).apply()
    waiting.shop.lake(folder)


def test_a_plan_of_another_version_is_refused(waiting: Waiting, patched: pytest.MonkeyPatch) -> None:
    patched.setattr("lakeaudit.commands.repair.reconcile.__version__", "99.0")
    with pytest.raises(BadInput, match=r"was made by version .* and this is version 99\.0"):
        waiting.mending.apply()


def test_nothing_is_undone_that_was_not_applied(waiting: Waiting) -> None:
    with pytest.raises(BadInput, match="was not applied"):
        waiting.mending.undo()

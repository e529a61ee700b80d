"""A job writes the same bytes again between the look and the act: an ETag does not tell the two objects apart."""

import io
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from lakeaudit.commands.repair import purge as purge_command
from lakeaudit.commands.repair import reconcile as command
from lakeaudit.errors import BadInput, Busy
from lakeaudit.reconcile.copying import Copying
from lakeaudit.reconcile.execution import batch_deletes
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.audits import results_of
from tests.builders.backdate import backdate
from tests.builders.conditional_deletes import each_by_its_etag
from tests.builders.ledger import opened
from tests.builders.repair_plans import RepairPlans, actions_of, an_hour_old, finding_rows, publish_leftovers
from tests.builders.saved_state import SavedState, saved
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

LEFT = "warehouse/orders/day=2026-11-01/part-00000-left.parquet"
TORN = b"torn"


class Killed(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Planned:
    """A shop with a plan, both as they were before any run."""

    shop: Shop
    repair: RepairPlans
    saved: SavedState


@pytest.fixture(scope="module")
def planned(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """Plan the repair of a shop; publish the findings of an audit of its three files."""
    made, place = damaged_shop(aws, s3), tmp_path_factory.mktemp("planned")
    (folder := place / "lake").mkdir()
    marked, torn = files(made)
    repair = planned_repair(made, folder, {marked: "dropped", torn: "size_mismatch"}, LEFT)
    return Planned(made, repair, saved(made.bucket, folder))


def planned_repair(made: Shop, folder: Path, kinds: dict[str, str], *unused: str) -> RepairPlans:
    """Delete or tear listed files according to the kind of their finding; plan them and these unlisted files."""
    left = [
        {
            "kind": "uncommitted", "table_name": "orders", "bucket": made.bucket, "key": key, "category": "data",
            "storage_size": 13, "bytes_at_stake": 13, "files": 1,
        }
        for key in unused
    ]  # fmt: skip
    known = [*finding_rows(made, kinds), *left]
    for key, kind in kinds.items():
        if kind == "dropped":
            made.s3.delete_object(Bucket=made.bucket, Key=key)
        else:
            made.s3.put_object(Bucket=made.bucket, Key=key, Body=TORN)
    repair = RepairPlans(made.lake(folder, extra=quarantine(made)), folder)
    opened(repair.lake, known)
    repair.plan(io.StringIO(), allow=("restore", "older_than_onboarding"))
    return repair


def damaged_shop(aws: Aws, s3: Endpoint) -> Shop:
    """A table of an hour in a bucket that keeps versions, and a file that it does not list."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    made = Shop(aws.s3, s3, bucket)
    made.write("orders", commits=1)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in made.keys("orders"):  # a version id of its own instead of `null`
        aws.s3.copy_object(Bucket=bucket, Key=key, CopySource=f"{bucket}/{key}", MetadataDirective="REPLACE")
        aws.s3.delete_object(Bucket=bucket, Key=key, VersionId="null")
    an_hour_old(made)
    aws.s3.put_object(Bucket=bucket, Key=LEFT, Body=b"rows of a job")
    backdate(bucket, LEFT, datetime.now(UTC) - timedelta(minutes=30))
    return made


def quarantine(shop: Shop) -> str:
    return f"quarantine: {{location: 's3://{shop.bucket}/quarantine', keep: 30d}}\n"


@pytest.fixture
def shop(planned: Planned) -> Shop:
    """A table with an unlisted file, a file behind a marker, and one with other bytes."""
    planned.saved.restore()
    return planned.shop


@pytest.fixture
def repair(shop: Shop, planned: Planned) -> RepairPlans:
    """The plan that repairs all three."""
    return planned.repair


def files(shop: Shop) -> tuple[str, str]:
    """Keys of the file behind a marker and of the one with other bytes; the leftover sorts behind them."""
    listed: Any = shop.s3.list_object_versions(Bucket=shop.bucket, Prefix="warehouse/orders/day=")["Versions"]
    marked, torn, *_ = sorted({each["Key"] for each in listed} - {LEFT})
    return marked, torn


def body_of(shop: Shop, key: str) -> bytes | None:
    """Return the content that readers get, or None."""
    listed = shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=key).get("Contents", [])
    return shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read() if listed else None


def newest(shop: Shop, key: str) -> str:
    return shop.s3.head_object(Bucket=shop.bucket, Key=key)["VersionId"]


@contextmanager
def written_again(
    shop: Shop, key: str, body: bytes, operations: tuple[str, ...], *, killed: bool = False
) -> Iterator[list[str]]:
    """Right before the first such request about the key a job writes its bytes; then the process may end."""
    call: Any = vars(BaseClient)["_make_api_call"]
    written: list[str] = []

    def interrupted(self: Any, operation: str, given: dict[str, Any]) -> Any:
        if operation not in operations or given.get("Key") != key or "VersionId" in given or written:
            return call(self, operation, given)
        at = {"Bucket": shop.bucket, "Key": key, "Body": body}
        written.append(call(self, "PutObject", at)["VersionId"])
        answer = call(self, operation, given)
        if killed:
            raise Killed
        return answer

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", interrupted)
        yield written


OTHERS, QUIET = (LEFT.replace("left", name) for name in ("others", "quiet"))


@dataclass(frozen=True)
class Story:
    """A plan of three unlisted files, a marker and two torn files is applied and undone while a job writes."""

    shop: Shop
    keys: tuple[str, str, str]
    """The file behind a marker, the torn file that the job tears again, and the other torn file."""
    exit_codes: tuple[int, int]
    statuses: list[dict[str, str]]
    """The status of each step after the apply, and after the undo."""
    newest: list[dict[str, str]]
    """The newest versions of the job's files, by key: as the job wrote them, and as readers find them after the run."""
    put_back: set[str]
    """The keys that the apply put back."""
    bodies: list[dict[str, bytes | None]]
    """What readers get after the apply, and after the undo."""


@pytest.fixture(scope="module")
def story(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Story:
    made = damaged_shop(aws, s3)
    for key in (OTHERS, QUIET):
        made.s3.put_object(Bucket=made.bucket, Key=key, Body=b"rows of a job")
        backdate(made.bucket, key, datetime.now(UTC) - timedelta(minutes=30))
    marked, torn, quiet = sorted({*made.keys("orders")} - {LEFT, OTHERS, QUIET})
    kinds = {marked: "dropped", torn: "size_mismatch", quiet: "size_mismatch"}
    repair = planned_repair(made, tmp_path_factory.mktemp("story"), kinds, LEFT, OTHERS, QUIET)
    with (
        written_again(made, LEFT, b"rows of a job", ("DeleteObject",)) as hidden,
        written_again(made, torn, TORN, ("PutObject", "CopyObject")) as covered,
        deleted_by_its_job(made, OTHERS),
    ):
        code = repair.apply().exit_code
    written = {LEFT: hidden[0], torn: covered[0]}
    found = {key: newest(made, key) for key in written}
    return undone_story(made, repair, (marked, torn, quiet), code, [written, found])


def undone_story(
    made: Shop, repair: RepairPlans, keys: tuple[str, str, str], code: int, versions: list[dict[str, str]]
) -> Story:
    """Undo the applied plan while a job writes the file that was behind a marker."""
    every, marked = (*keys, LEFT, OTHERS, QUIET), keys[0]
    put_back = {row["key"] for row in actions_of(repair.lake) if row["action"] == "put_back"}
    statuses, bodies = [repair.statuses()], [{key: body_of(made, key) for key in every}]
    body = bodies[0][marked]
    assert body is not None
    with written_again(made, marked, body, ("DeleteObject",)) as again:
        codes = (code, repair.undo().exit_code)
    written, found = versions
    written[marked], found[marked] = again[0], newest(made, marked)
    statuses.append(repair.statuses())
    bodies.append({key: body_of(made, key) for key in every})
    return Story(made, keys, codes, statuses, [written, found], put_back, bodies)


@contextmanager
def deleted_by_its_job(shop: Shop, left: str) -> Iterator[None]:
    """A job writes other bytes right before the request that deletes its file, and deletes it right after that."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def replace_first(self: Any, operation: str, given: dict[str, Any]) -> Any:
        if operation != "DeleteObject" or given.get("Key") != left or "IfMatch" not in given:
            return call(self, operation, given)
        call(self, "PutObject", {"Bucket": shop.bucket, "Key": left, "Body": b"other rows"})
        try:
            return call(self, operation, given)
        finally:
            call(self, "DeleteObject", {"Bucket": shop.bucket, "Key": left})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", replace_first)
        yield


def test_what_a_job_wrote_again_stays_where_it_is(story: Story) -> None:
    """Hide, and a version over a wrong one: each is taken away at once. The others are done."""
    marked, torn, quiet = story.keys
    written, found = story.newest
    assert story.exit_codes[0] == 3
    assert (found[LEFT], found[torn]) == (written[LEFT], written[torn])
    changed, applied = (LEFT, torn, OTHERS), (marked, quiet, QUIET)
    assert story.statuses[0] == dict.fromkeys(changed, "changed") | dict.fromkeys(applied, "applied")
    assert story.put_back == {LEFT, torn}


def test_an_undo_hides_nothing_that_a_job_wrote_again(story: Story) -> None:
    """The undo of a removed marker writes one; the other two go back."""
    marked, _, quiet = story.keys
    written, found = story.newest
    after, undone = story.bodies
    assert after[QUIET] is None
    assert story.exit_codes[1] == 3
    assert found[marked] == written[marked]
    assert {key: story.statuses[1][key] for key in (QUIET, quiet, marked)} == {
        QUIET: "undone", quiet: "undone", marked: "kept",
    }  # fmt: skip
    assert (undone[QUIET], undone[quiet]) == (b"rows of a job", TORN)


def test_a_marker_of_somebody_else_stays(story: Story) -> None:
    """The request is refused, and a job deletes its own file: that marker belongs to the job."""
    assert story.statuses[0][OTHERS] == "changed"
    assert (story.bodies[0][OTHERS], OTHERS in story.put_back) == (None, False)


def applied_later(repair: RepairPlans) -> None:
    later = RepairPlans(repair.lake, repair.folder, lambda: datetime.now(UTC) + timedelta(hours=25))
    with pytest.raises(BadInput, match="expired at"):
        later.apply()


def undone(repair: RepairPlans) -> None:
    repair.undo()


def planned_again(repair: RepairPlans) -> None:
    other = repair.folder / "other"
    other.mkdir()
    RepairPlans(repair.lake, other).plan(io.StringIO())


def purged(repair: RepairPlans) -> None:
    at, results = datetime.now(UTC), results_of(repair.lake)
    purge_command.purge(repair.lake, results, io.StringIO(), yes=True, now=at, progress=SilentProgress())


@pytest.mark.parametrize(
    "run",
    [
        applied_later,
        pytest.param(planned_again, marks=pytest.mark.soak),
        pytest.param(undone, marks=pytest.mark.soak),
        pytest.param(purged, marks=pytest.mark.soak),
    ],
)
def test_a_run_that_was_killed_before_its_check_is_finished_by_the_next(
    shop: Shop, repair: RepairPlans, run: Callable[[RepairPlans], None]
) -> None:
    """Whatever runs next, and also after the plan has expired; a new plan finishes an undo in the next test."""
    again = written_again(shop, LEFT, b"rows of a job", ("DeleteObject",), killed=True)
    with again as written, pytest.raises(Killed):
        repair.apply()
    assert body_of(shop, LEFT) is None, "the marker hides what the job wrote"
    run(repair)
    assert [newest(shop, LEFT)] == written
    statuses = repair.statuses()
    assert statuses[LEFT] == "changed"
    assert "started" not in statuses.values()


def test_an_undo_that_was_killed_before_its_check_is_finished_by_the_next(
    shop: Shop, repair: RepairPlans
) -> None:
    marked, _ = files(shop)
    repair.apply()
    body = body_of(shop, marked)
    assert body is not None
    again = written_again(shop, marked, body, ("DeleteObject",), killed=True)
    with again as written, pytest.raises(Killed):
        repair.undo()
    assert body_of(shop, marked) is None
    planned_again(repair)
    assert [newest(shop, marked)] == written
    assert repair.statuses()[marked] == "kept"
    repair.undo()
    assert set(repair.statuses().values()) == {"kept", "undone"}


def test_the_lease_is_checked_before_each_act(
    shop: Shop, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that stood still for longer than its lease does nothing more."""
    checks = iter(range(100))

    def check() -> None:
        if next(checks) > 1:  # for the batch, before its acts, and then before each of them
            raise Busy("lease", "is lost", "run again")

    @contextmanager
    def hold_lease(*_: Any) -> Iterator[Callable[[], None]]:
        yield check

    monkeypatch.setattr(command, "audit_lease", hold_lease)
    before = {key: body_of(shop, key) for key in (*files(shop), LEFT)}
    with pytest.raises(Busy, match="is lost"):
        repair.apply()
    assert {key: body_of(shop, key) for key in before} == before


def test_a_version_beyond_the_first_page_is_not_gone(
    shop: Shop, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of one entry: the marker fills the first one; then a listing that is cut off without a way to go on."""
    assert repair.apply().exit_code == 0
    call: Any = vars(BaseClient)["_make_api_call"]
    lost = [True]

    def in_pages(self: Any, operation: str, given: dict[str, Any]) -> Any:
        if operation != "ListObjectVersions":
            return call(self, operation, given)
        page = call(self, operation, {**given, "MaxKeys": 1})
        if lost:
            page.pop("NextKeyMarker", None)
        return page

    monkeypatch.setattr(BaseClient, "_make_api_call", in_pages)
    for left in (1, 0):
        at, out = datetime.now(UTC) + timedelta(days=32), io.StringIO()
        results = results_of(repair.lake)
        ended = purge_command.purge(repair.lake, results, out, yes=True, now=at, progress=SilentProgress())
        assert (ended.exit_code, "truncated" in out.getvalue()) == (3 if left else 0, bool(left))
        assert repair.statuses()[LEFT] == ("applied" if left else "purged")
        lost.clear()
    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    page: Any = shop.s3.list_object_versions(Bucket=shop.bucket, Prefix=LEFT)
    assert (page.get("Versions"), page.get("DeleteMarkers")) == (None, None)


def test_equal_bytes_in_one_request_for_many(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each entry of DeleteObjects has the condition of its ETag, which holds for what the job wrote."""
    keys = [LEFT, LEFT.replace("left", "other")]
    shop.s3.put_object(Bucket=shop.bucket, Key=keys[1], Body=b"rows of a job")
    backdate(shop.bucket, keys[1], datetime.now(UTC) - timedelta(minutes=30))
    made = RepairPlans(shop.lake(tmp_path, extra=quarantine(shop)), tmp_path)
    publish_leftovers(shop, made.lake, "uncommitted", *keys)
    made.plan(io.StringIO(), allow=("older_than_onboarding",))
    each_by_its_etag(monkeypatch)
    together = batch_deletes.delete_in_batches

    def after_a_job(*given: Any) -> Any:
        shop.s3.put_object(Bucket=shop.bucket, Key=LEFT, Body=b"rows of a job")
        return together(*given)

    monkeypatch.setattr("lakeaudit.reconcile.execution.apply.delete_in_batches", after_a_job)
    assert made.apply().exit_code == 3
    assert made.statuses() == {LEFT: "changed", keys[1]: "applied"}
    assert (body_of(shop, LEFT), body_of(shop, keys[1])) == (b"rows of a job", None)


def test_equal_bytes_in_a_bucket_without_versions(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the time differs, which is checked right before the delete."""
    made = Shop(aws.s3, s3, bucket)
    made.write("orders", commits=1)
    aws.s3.put_object(Bucket=bucket, Key=LEFT, Body=b"rows of a job")
    an_hour_old(made)
    mending = RepairPlans(made.lake(tmp_path, extra=quarantine(made)), tmp_path)
    publish_leftovers(made, mending.lake, "uncommitted", LEFT)
    mending.plan(io.StringIO(), allow=("older_than_onboarding",))
    copy = Copying.copy

    def and_a_job(self: Copying, *given: Any) -> str | None:
        result = copy(self, *given)
        made.s3.put_object(Bucket=bucket, Key=LEFT, Body=b"rows of a job")
        return result

    monkeypatch.setattr(Copying, "copy", and_a_job)
    assert mending.apply().exit_code == 3
    assert (mending.statuses(), body_of(made, LEFT)) == ({LEFT: "changed"}, b"rows of a job")

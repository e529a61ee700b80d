"""Files that come back over a wrong object, from replicas, and by what is only probable."""

import io
import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.awsrequest import AWSRequest
from botocore.client import BaseClient
from deltalake import DeltaTable

from lakeaudit.advice.next_steps import repair_command
from lakeaudit.config import load_lake
from lakeaudit.reconcile import canary
from lakeaudit.reconcile.actions.files.copy_replica import CopyReplica
from lakeaudit.reconcile.actions.files.replace_version import ReplaceVersion
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step
from lakeaudit.results.read import RowFilter
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.iam_policies import printed_policy, unused, with_printed_policy
from tests.builders.repair_plans import Keys, RepairPlans, an_hour_old, finding_rows, keys_of, states
from tests.builders.repair_rows import ledger_row, planned
from tests.builders.saved_state import SavedState, saved
from tests.builders.shop import Shop
from tests.conftest import Aws

ALLOW = ("restore",)
PROBABLY = ("restore", "probable")


@pytest.fixture(scope="module")
def sound(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Shop, list[SavedState]]:
    """A table that was written an hour ago, in a bucket without versions, and its saved state and its replica's."""
    made = Shop(aws.s3, s3, f"test-{uuid.uuid4().hex[:12]}")
    for bucket in (made.bucket, backup(made)):
        aws.s3.create_bucket(Bucket=bucket)
    made.write("orders", commits=1)
    an_hour_old(made)
    return made, [saved(each, tmp_path_factory.mktemp("none")) for each in (made.bucket, backup(made))]


@pytest.fixture
def shop(sound: tuple[Shop, list[SavedState]]) -> Shop:
    """One table, written an hour ago, in a bucket without versions; the replica is empty."""
    made, states_before = sound
    for each in states_before:
        each.restore()
    return made


def versioned(shop: Shop) -> Shop:
    """Turn versioning on; existing objects have the id `null`."""
    shop.s3.put_bucket_versioning(Bucket=shop.bucket, VersioningConfiguration={"Status": "Enabled"})
    return shop


@pytest.fixture
def repair(shop: Shop, tmp_path: Path) -> RepairPlans:
    return with_replica(shop, tmp_path)


def with_replica(shop: Shop, folder: Path) -> RepairPlans:
    """Return the repair of a lake whose replica lies in a bucket of its own."""
    replicas = f"replicas: [{{of: 's3://{shop.bucket}/warehouse', at: 's3://{backup(shop)}/copies'}}]\n"
    listing = f"[{{kind: listing, location: 's3://{shop.bucket}/warehouse'}}]"
    return RepairPlans(shop.lake(folder, inventories=listing, extra=replicas), folder)


def backup(shop: Shop) -> str:
    return f"{shop.bucket}-backup"


def copied(shop: Shop, key: str, body: bytes | None = None) -> str:
    """The file in the replica, with other bytes where some are given; its ETag."""
    held = shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read() if body is None else body
    at = key.replace("warehouse/", "copies/", 1)
    put = shop.s3.put_object(Bucket=backup(shop), Key=at, Body=held, Metadata={"job": "nightly"})
    return put["ETag"].strip('"')


def steps(
    shop: Shop, repair: RepairPlans, kinds: Mapping[str, str], allow: Sequence[str] = ALLOW, **given: Any
) -> list[Step]:
    """The steps of a plan for these files of `orders`, by key a kind."""
    rows = [ledger_row(**(row | given)) for row in finding_rows(shop, kinds)]
    return planned(repair, rows, allow)


def step(shop: Shop, repair: RepairPlans, key: str, kind: str = "dropped", **given: Any) -> Step:
    (only,) = steps(shop, repair, {key: kind}, **given)
    return only


def read(shop: Shop, key: str) -> bytes:
    return shop.s3.get_object(Bucket=shop.bucket, Key=key)["Body"].read()


def lose(shop: Shop, key: str) -> None:
    shop.s3.delete_object(Bucket=shop.bucket, Key=key)


@dataclass(frozen=True)
class LostFiles:
    """An audited lake: one file was overwritten, one is only in the replica, one has a marker, one is gone for good."""

    shop: Shop
    mending: RepairPlans
    torn: str
    copied: str
    marked: str
    gone: str
    bodies: dict[str, bytes]
    """The original bytes of the first three."""
    given_up: list[str]
    """Files of the table `stock` that are gone for good."""
    open: list[dict[str, Any]]
    """The discrepancies that the first audit recorded in the ledger."""


@dataclass(frozen=True)
class Repaired:
    """The lake after a plan for each table, an audit and the undo of both plans."""

    lost: LostFiles
    objects: list[Keys]
    """Before the plan of `orders`, after it, and after its undo."""
    rows: dict[str, list[dict[str, Any]]]
    """The steps of the plan, by table."""
    bodies: dict[str, bytes]
    """The content after the apply."""
    states: dict[str, tuple[str, str | None]]
    """The ledger's record after the second audit, by key."""
    statuses: dict[str, str]
    """The status of each step of the plan of `stock`, by key."""
    listed: list[list[dict[str, Any]]]
    """The table `stock` as readers see it, before the plan, after the apply and after the undo."""
    read: int
    """Rows that they read after the apply."""


@pytest.fixture(scope="module")
def there(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> LostFiles:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    shop = Shop(aws.s3, s3, bucket)
    for name in (bucket, backup(shop)):
        aws.s3.create_bucket(Bucket=name)
    for name in ("orders", "stock"):
        shop.write(name)
    an_hour_old(shop)
    mending = with_replica(versioned(shop), tmp_path_factory.mktemp("there"))
    torn, in_replica, marked, gone = shop.keys("orders")[:4]
    given_up = shop.keys("stock")[:2]
    bodies = {key: read(shop, key) for key in (torn, in_replica, marked)}
    copied(shop, in_replica)
    shop.s3.put_object(Bucket=bucket, Key=torn, Body=b"torn")
    shop.s3.delete_object(Bucket=bucket, Key=marked)
    for key in (in_replica, gone, *given_up):
        shop.s3.delete_object(Bucket=bucket, Key=key, VersionId="null")
    audited(mending.lake, live=True)
    rows = list(rows_of(results_of(mending.lake).discrepancies(("open",))))
    return LostFiles(shop, mending, torn, in_replica, marked, gone, bodies, given_up, rows)


@pytest.fixture(scope="module")
def repaired(there: LostFiles, tmp_path_factory: pytest.TempPathFactory) -> Repaired:
    shop, orders = there.shop, there.mending
    stock = RepairPlans(orders.lake, tmp_path_factory.mktemp("stock"))
    shutil.copy(orders.folder / "lake.yaml", stock.folder)
    listed, objects, rows = [entries(shop)], [keys_of(shop)], {}
    for name, mending, allow in (("orders", orders, PROBABLY), ("stock", stock, ("remove_reference",))):
        mending.plan(io.StringIO(), allow=allow, row_filter=RowFilter(tables=[name]))
        rows[name] = [json.loads(line) for line in mending.file.read_text().splitlines()[1:]]
    objects.append(keys_of(shop))
    assert (orders.apply().exit_code, stock.apply().exit_code) == (0, 0)
    bodies = {key: read(shop, key) for key in there.bodies}
    listed.append(entries(shop))
    count = table_of(shop).to_pyarrow_table().num_rows
    statuses = {key: status for key, status in stock.statuses().items() if key in there.given_up}
    audited(orders.lake, live=True)
    ends = states(orders.lake)
    assert (stock.undo().exit_code, orders.undo().exit_code) == (0, 0)
    listed.append(entries(shop))
    objects.append(keys_of(shop))
    return Repaired(there, objects, rows, bodies, ends, statuses, listed, count)


def table_of(shop: Shop) -> DeltaTable:
    return DeltaTable(f"s3://{shop.bucket}/warehouse/stock", storage_options=shop.options)


def entries(shop: Shop) -> list[dict[str, Any]]:
    rows = pa.table(table_of(shop).get_add_actions()).to_pylist()
    return sorted(rows, key=lambda row: str(row["path"]))


@pytest.mark.soak
def test_from_break_to_resolved_and_back(repaired: Repaired) -> None:
    """Overwritten and lost files come back; the undo restores every byte."""
    there = repaired.lost
    of_orders = {row["key"]: row["kind"] for row in there.open if row["key"] not in there.given_up}
    assert of_orders == {there.torn: "size_mismatch"} | dict.fromkeys(
        (there.copied, there.marked, there.gone), "dropped"
    )
    assert {row["key"]: row["action"] for row in repaired.rows["orders"]} == {
        there.torn: "replace_version", there.copied: "copy_replica", there.marked: "remove_delete_marker",
        there.gone: NEEDS_PERSON,
    }  # fmt: skip
    before, planned_only, undone = repaired.objects
    assert planned_only == before, "a plan changes nothing"
    assert repaired.bodies == there.bodies
    ends = dict.fromkeys(there.bodies, ("resolved", "restored"))
    assert {key: repaired.states[key] for key in of_orders} == ends | {there.gone: ("open", None)}
    assert {key: each for key, each in undone.items() if "/stock/_delta_log/" not in key} == {
        key: each for key, each in before.items() if "/stock/_delta_log/" not in key
    }


@pytest.mark.variant
def test_from_break_to_removed_and_back(repaired: Repaired) -> None:
    """Files that are lost for good are taken out of their table, and put back into it."""
    keys, rows = repaired.lost.given_up, repaired.rows["stock"]
    before, after, undone = repaired.listed
    assert {row["key"]: row["action"] for row in rows} == dict.fromkeys(keys, "remove_reference")
    assert rows[0]["evidence"]["matched_by"] == "storage, which has no version of it: 50 rows are lost"
    assert (rows[0]["reversibility"], rows[0]["rows_at_stake"]) == ("compensable", 50)
    assert repaired.statuses == dict.fromkeys(keys, "applied")
    assert len(after) == len(before) - 2
    assert repaired.read == 50 * (len(before) - 2)
    assert {key: repaired.states[key] for key in keys} == dict.fromkeys(
        keys, ("resolved", "reference_removed")
    )
    assert undone == before


def test_what_pages_offer_for_a_loss_is_what_a_plan_has_steps_for(there: LostFiles) -> None:
    torn, lost, gone = there.torn, there.marked, there.gone
    rows = [row for row in there.open if row["key"] in (torn, lost, gone)]
    offered = {row["key"]: repair_command("L", None, row["kind"], {row["recoverable"]: 1}) for row in rows}
    assert offered == {
        torn: "lakeaudit reconcile plan L --kind size_mismatch --allow restore",
        lost: "lakeaudit reconcile plan L --kind dropped --allow restore",
        gone: "lakeaudit findings L --kind dropped --files",
    }
    done = {step.key: step.action for step in planned(there.mending, rows, ALLOW)}
    assert done == {torn: "replace_version", lost: "remove_delete_marker", gone: NEEDS_PERSON}
    why = {step.key: step.evidence["why"] for step in planned(there.mending, rows, ())}
    assert {key: "`--allow restore`" in told for key, told in why.items()} == {
        torn: True,
        lost: True,
        gone: False,
    }


# --- over a wrong object ----------------------------------------------------------------------------------------


@pytest.fixture
def torn(shop: Shop) -> str:
    """A file of a bucket that keeps versions, whose newest one has other bytes."""
    key = versioned(shop).keys("orders")[0]
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"torn")
    return key


def test_a_recorded_etag_selects_the_right_version(shop: Shop, repair: RepairPlans) -> None:
    key = versioned(shop).keys("orders")[0]
    body = read(shop, key)
    etag = shop.s3.head_object(Bucket=shop.bucket, Key=key)["ETag"].strip('"')
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"x" * len(body))
    done = step(shop, repair, key, "content_mismatch", manifest_etag=etag)
    assert (done.action, done.evidence["matched_by"]) == ("replace_version", "size and ETag")
    assert (repair.apply().exit_code, read(shop, key)) == (0, body)


def test_what_nothing_tells_from_the_object_is_for_a_person(
    shop: Shop, torn: str, repair: RepairPlans
) -> None:
    shop.s3.put_object(
        Bucket=shop.bucket, Key=torn, Body=b"x" * finding_rows(shop, {torn: "dropped"})[0]["manifest_size"]
    )
    why = step(shop, repair, torn, "size_mismatch").evidence["why"]
    assert why == "no recorded attribute distinguishes the object from the file that its table lists"
    lose(shop, torn)
    for allow in (ALLOW, ()):
        why = step(shop, repair, torn, "size_mismatch", allow=allow).evidence["why"]
        assert why == "storage has no object there", "no permission is requested for an impossible action"


@pytest.mark.variant
def test_other_content_of_the_same_size_is_recognized_by_the_version_at_the_time_of_the_listing(
    shop: Shop, repair: RepairPlans
) -> None:
    key = versioned(shop).keys("orders")[0]
    body = read(shop, key)
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"x" * len(body))
    why = step(shop, repair, key, "content_mismatch", allow=()).evidence["why"]
    assert why.startswith("it is not known who removed it, perhaps on purpose")
    done = step(shop, repair, key, "content_mismatch")
    only = (
        "this is the only version of the object that can have been current when the table added the file, and "
        "it has the size that the table records"
    )
    assert (done.action, done.evidence["matched_by"]) == ("replace_version", only)
    assert (repair.apply().exit_code, read(shop, key)) == (0, body)


@pytest.mark.variant
def test_an_object_that_somebody_wrote_in_between_stays(
    shop: Shop, torn: str, repair: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    assert step(shop, repair, torn, "size_mismatch").action == "replace_version"
    act = ReplaceVersion.act

    def after_another(self: Any, step: Any, target: Any) -> Any:
        shop.s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"by somebody else")
        return act(self, step, target)

    patched.setattr(ReplaceVersion, "act", after_another)
    assert repair.apply().exit_code == 3
    assert (repair.statuses(), read(shop, torn)) == ({torn: "changed"}, b"by somebody else")


@pytest.mark.variant
def test_an_object_that_somebody_wrote_since_is_not_undone(
    shop: Shop, torn: str, repair: RepairPlans
) -> None:
    step(shop, repair, torn, "size_mismatch")
    assert repair.apply().exit_code == 0
    shop.s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"by somebody else")
    assert repair.undo().exit_code == 3
    assert (repair.statuses(), read(shop, torn)) == ({torn: "kept"}, b"by somebody else")


@pytest.mark.variant
def test_copies_over_an_object_are_used_where_their_condition_is_honoured(
    shop: Shop, torn: str, repair: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    """moto ignores it, so the canary gets the response of other stores."""
    patched.setattr(canary.Forms, "honoured", lambda *_: frozenset({canary.COPY_IF_MATCH}))
    step(shop, repair, torn, "size_mismatch")
    before = keys_of(shop)
    assert (repair.apply().exit_code, repair.undo().exit_code) == (0, 0)
    assert keys_of(shop) == before


@pytest.mark.variant
def test_nothing_is_written_where_conditions_are_ignored(
    shop: Shop, torn: str, repair: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    lost = shop.keys("orders")[1]
    copied(shop, lost)
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost, VersionId="null")
    planned_steps = steps(shop, repair, {torn: "size_mismatch", lost: "dropped"}, PROBABLY)
    assert [each.action for each in planned_steps] == ["replace_version", "copy_replica"]
    before, prepare = keys_of(shop), AWSRequest.prepare

    def without_conditions(self: AWSRequest) -> Any:
        for name in ("If-Match", "If-None-Match"):
            del self.headers[name]
        return prepare(self)

    patched.setattr(AWSRequest, "prepare", without_conditions)
    assert repair.apply().exit_code == 3
    assert set(repair.statuses().values()) == {"needs_person"}
    assert keys_of(shop) == before


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.variant
@pytest.mark.parametrize("acted", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_killed_before_or_after_a_write(
    shop: Shop, torn: str, repair: RepairPlans, patched: pytest.MonkeyPatch, acted: bool
) -> None:
    lost = shop.keys("orders")[1]
    copied(shop, lost)
    shop.s3.delete_object(Bucket=shop.bucket, Key=lost, VersionId="null")
    steps(shop, repair, {torn: "size_mismatch", lost: "dropped"}, PROBABLY)
    before = keys_of(shop)
    with patched.context() as once:
        for action in (ReplaceVersion, CopyReplica):
            act: Any = action.act

            def dying(self: Any, step: Any, target: Any, act: Any = act) -> Any:
                if acted:
                    act(self, step, target)
                raise Killed

            once.setattr(action, "act", dying)
        with pytest.raises(Killed):
            repair.apply()
    assert repair.apply().exit_code == 0
    assert set(repair.statuses().values()) == {"applied"}
    assert all(len(versions) == len(before.get(key, [])) + 1 for key, versions in keys_of(shop).items()
               if key in (torn, lost))  # fmt: skip
    assert repair.undo().exit_code == 0
    assert keys_of(shop) == before


# --- from a replica ---------------------------------------------------------------------------------------------


def test_a_copy_is_compared_with_the_etag_that_the_metadata_store_recorded(
    shop: Shop, repair: RepairPlans
) -> None:
    """In a bucket without versions, too: there the undo is conditional."""
    key = shop.keys("orders")[0]
    body, etag = read(shop, key), copied(shop, key)
    lose(shop, key)
    done = step(shop, repair, key, metastore_etag=etag)
    assert (done.action, done.evidence["matched_by"]) == ("copy_replica", "size and ETag")
    assert (repair.apply().exit_code, read(shop, key)) == (0, body)
    assert shop.s3.head_object(Bucket=shop.bucket, Key=key)["Metadata"] == {"job": "nightly"}
    assert repair.undo().exit_code == 0
    assert key not in keys_of(shop)


@pytest.mark.parametrize(
    ("body", "allow", "given", "told"),
    [
        (None, ALLOW, {}, "no ETag was recorded to compare with the copy"),
        (None, PROBABLY, {}, "size, and 50 rows by its Parquet footer"),
        (None, PROBABLY, {"rows_at_stake": 51}, "its footer counts 50 rows, the table 51"),
        (None, PROBABLY, {"rows_at_stake": None}, "the table did not record the number of rows"),
        (b"x", PROBABLY, {}, "does not have the recorded size"),
        (b"x", PROBABLY, {"manifest_size": None}, "does not have the recorded size"),
        (b"x", PROBABLY, {"manifest_size": 1}, "its Parquet footer cannot be read"),
        (None, PROBABLY, {"manifest_etag": "other"}, "does not have the recorded ETag"),
        (None, (), {}, "it is not known who removed it"),
    ],
)
def test_which_copy_is_the_file(
    body: bytes | None,
    allow: Sequence[str],
    given: dict[str, Any],
    told: str,
    shop: Shop,
    repair: RepairPlans,
) -> None:
    key = shop.keys("orders")[0]
    copied(shop, key, body)
    lose(shop, key)
    done = step(shop, repair, key, allow=allow, **given)
    assert told in (done.evidence["why"] if done.needs_person else done.evidence["matched_by"])


def test_a_file_that_no_replica_has_is_for_a_person(shop: Shop, repair: RepairPlans, tmp_path: Path) -> None:
    key = shop.keys("orders")[0]
    lose(shop, key)
    assert "no replica has it" in step(shop, repair, key).evidence["why"]
    file = tmp_path / "lake.yaml"
    file.write_text(file.read_text().partition("replicas:")[0])
    unnamed = RepairPlans(load_lake(file, {}), tmp_path)
    assert "the lake file names no replica of it" in step(shop, unnamed, key).evidence["why"]
    file.write_text(
        file.read_text() + f"replicas: [{{of: 's3://{shop.bucket}', at: 's3://no-such-bucket/x'}}]"
    )
    lacking = RepairPlans(load_lake(file, {}), tmp_path)
    assert step(shop, lacking, key).needs_person


@pytest.mark.variant
def test_a_copy_or_a_key_that_changed_since_the_plan_stops_it(shop: Shop, repair: RepairPlans) -> None:
    kept, written = shop.keys("orders")[:2]
    for key in (kept, written):
        copied(shop, key)
        lose(shop, key)
    steps(shop, repair, dict.fromkeys((kept, written), "dropped"), PROBABLY)
    copied(shop, kept, b"another backup")
    shop.s3.put_object(Bucket=shop.bucket, Key=written, Body=b"by somebody else")
    before = keys_of(shop)
    assert repair.apply().exit_code == 3
    assert set(repair.statuses().values()) == {"changed"}
    assert keys_of(shop) == before


@pytest.mark.variant
def test_the_policy_grants_exactly_the_requests_to_a_replica(
    shop: Shop, repair: RepairPlans, patched: pytest.MonkeyPatch
) -> None:
    key = shop.keys("orders")[0]
    copied(shop, key)
    at = key.replace("warehouse/", "copies/", 1)
    tags: Any = {"TagSet": [{"Key": "team", "Value": "a"}]}
    shop.s3.put_object_tagging(Bucket=backup(shop), Key=at, Tagging=tags)
    lose(shop, key)
    requested: set[str] = set()
    call: Any = vars(BaseClient)["_make_api_call"]

    def record_call(self: Any, operation: str, given: dict[str, Any]) -> Any:
        if given.get("Bucket") == backup(shop):
            requested.add("s3:GetObjectTagging" if operation == "GetObjectTagging" else "s3:GetObject")
            assert operation in ("GetObject", "HeadObject", "GetObjectTagging")
        return call(self, operation, given)

    patched.setattr(BaseClient, "_make_api_call", record_call)
    with with_printed_policy(repair.folder / "lake.yaml") as seen:
        assert step(shop, repair, key, allow=PROBABLY).action == "copy_replica"
        assert (repair.apply().exit_code, repair.undo().exit_code) == (0, 0)
    printed = printed_policy(repair.folder / "lake.yaml", "reconcile")
    assert unused(printed, seen, "CopyFromReplicas", "ReadReplicas") == {
        ("CopyFromReplicas", "s3:DeleteObjectVersion"),  # the undo, where the bucket keeps versions
        ("CopyFromReplicas", "s3:AbortMultipartUpload"),  # a copy in parts that fails
        ("ReadReplicasList", "s3:ListBucket"),  # without it S3 answers 403 for a file that the replica lacks
    }
    policy = json.loads((Path(__file__).parents[2] / "conf" / "iam" / "reconcile-policy.json").read_text())
    of_replica = [each for each in policy["Statement"] if "REPLICA-BUCKET" in str(each["Resource"])]
    assert requested == {name for each in of_replica for name in each["Action"]}


# --- by what is only probable -----------------------------------------------------------------------------------


@pytest.fixture
def twice(shop: Shop, repair: RepairPlans) -> str:
    """A lost file of which two versions of one size were there about the time of the commit."""
    key = versioned(shop).keys("orders")[0]
    body = read(shop, key)
    shop.s3.put_object(Bucket=shop.bucket, Key=key, Body=b"x" * len(body))
    lose(shop, key)
    lose(shop, key)
    commit = shop.s3.head_object(Bucket=shop.bucket, Key=f"warehouse/orders/_delta_log/{0:020}.json")[
        "LastModified"
    ]
    backdate(
        shop.bucket,
        key,
        commit - timedelta(seconds=9),
        commit + timedelta(seconds=1),
        datetime.now(UTC),
        datetime.now(UTC),
    )
    return key


def test_a_version_by_size_time_and_rows(shop: Shop, repair: RepairPlans, twice: str) -> None:
    assert "--allow probable" in step(shop, repair, twice).evidence["why"]
    other = step(shop, repair, twice, allow=PROBABLY, rows_at_stake=49)
    assert "its footer counts 50 rows, the table 49" in other.evidence["why"]
    done = step(shop, repair, twice, allow=PROBABLY)
    assert (done.action, done.evidence["matched_by"]) == (
        "restore_probable", "size, time, and 50 rows by its Parquet footer",
    )  # fmt: skip
    before = keys_of(shop)
    assert repair.apply().exit_code == 0
    assert read(shop, twice)[:4] == b"PAR1"
    assert repair.undo().exit_code == 0
    assert keys_of(shop) == before

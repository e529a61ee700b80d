"""Entries of a live S3Guard table: broken, planned, repaired, resolved by the next audit, and restored."""

import io
import json
import shutil
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from botocore.client import BaseClient

from lakeaudit import formatting
from lakeaudit.config import load_lake
from lakeaudit.kinds import DELETED_IN_STORE
from lakeaudit.reconcile.actions.entries.entry_action import EntryAction
from lakeaudit.reconcile.execution import run
from lakeaudit.reconcile.execution.journal import Journal
from lakeaudit.reconcile.stores.entry_store import EntryStore
from lakeaudit.results.read import RowFilter
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import s3guard
from tests.builders.audits import audited, findings_by_table, results_of
from tests.builders.iam_policies import with_printed_policy
from tests.builders.repair_plans import (
    Keys,
    RepairPlans,
    actions_of,
    an_hour_old,
    finding_rows,
    found_set,
    keys_of,
    states,
)
from tests.builders.repair_rows import ledger_row, planned
from tests.builders.s3guard import Item
from tests.builders.saved_state import SavedState, saved
from tests.builders.shop import Shop
from tests.conftest import Aws

OLD = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
ROOT = "warehouse/orders"


class Guarded:
    """A bucket with a table `orders`, or more, and a metadata store that has all of them."""

    def __init__(
        self, aws: Aws, endpoint: Endpoint, bucket: str, folder: Path, tables: Sequence[str] = ("orders",)
    ) -> None:
        self.aws, self.endpoint, self.bucket, self.table = aws, endpoint, bucket, f"{bucket}-guard"
        self.shop = Shop(aws.s3, endpoint, bucket, list(tables))
        self.mending = RepairPlans(self._lake(folder, f"table: {self.table}"), folder)

    def _lake(self, folder: Path, how: str) -> Any:
        place = ROOT if self.shop.tables == ["orders"] else "warehouse"
        stores = f"metastores: [{{kind: s3guard, {how}, location: 's3://{self.bucket}/{place}'}}]\n"
        listing = f"[{{kind: listing, location: 's3://{self.bucket}/warehouse'}}]"
        return self.shop.lake(folder, inventories=listing, extra=stores)

    def lake_of_export(self, folder: Path) -> Any:
        return self._lake(folder, f"export: {folder}")

    def create(self, items: Sequence[Item] = ()) -> None:
        s3guard.create_table(self.aws.dynamodb, self.table, items)

    def client_items(self) -> list[Item]:
        """Return the items that a client of Hadoop 3.3 would enter; renamed, so that nothing expires."""
        listed = self.aws.s3.list_objects_v2(Bucket=self.bucket, Prefix="warehouse/")["Contents"]
        keys = [each["Key"] for each in listed]
        folders = {key.rsplit("/", depth)[0] for key in keys for depth in range(1, key.count("/") + 1)}
        files = [
            s3guard.file(
                self.bucket, each["Key"], each["Size"], mod_time=OLD, last_updated=None, etag=each["ETag"].strip('"')
            )
            for each in listed
        ]  # fmt: skip
        return [*files, *(s3guard.folder(self.bucket, name) for name in sorted(folders))]

    def put(self, key: str, body: bytes = b"rows") -> str:
        self.aws.s3.put_object(Bucket=self.bucket, Key=key, Body=body)
        return key

    def items(self) -> dict[str, Item]:
        """Return all items by path, without the marker."""
        found: Any = self.aws.dynamodb.scan(TableName=self.table, ConsistentRead=True)["Items"]
        by_path = {f"{item['parent']['S']}/{item['child']['S']}": item for item in found}
        return {path: item for path, item in by_path.items() if not path.startswith("..")}

    def paths(self, table: str) -> set[str]:
        """Return the paths of the items of a table and its folder."""
        return {path for path in self.items() if f"{path}/".startswith(f"/{self.bucket}/warehouse/{table}/")}

    def item(self, key: str) -> Item | None:
        return self.items().get(f"/{self.bucket}/{key}")

    def enter(self, *items: Item) -> None:
        s3guard.put_items(self.aws.dynamodb, self.table, items)

    def forget(self, *keys: str) -> None:
        for key in keys:
            self.aws.dynamodb.delete_item(TableName=self.table, Key=s3guard.place(self.bucket, key))

    def row(self, kind: str, key: str, **given: Any) -> dict[str, Any]:
        return ledger_row(kind, self.bucket, key, **given)


@dataclass(frozen=True)
class Start:
    """A store from which tests start: when it is empty, and with broken entries and a plan for them."""

    guarded: Guarded
    empty: SavedState
    keys: dict[str, str]
    planned: SavedState


@pytest.fixture(scope="module")
def start(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Start:
    bucket, folder = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("start")
    aws.s3.create_bucket(Bucket=bucket)
    guarded = Guarded(aws, s3, bucket, folder)
    guarded.create()
    empty = saved(bucket, folder, name="empty", table=guarded.table)
    keys = plan_for_broken_entries(guarded)
    return Start(guarded, empty, keys, saved(bucket, folder, name="planned", table=guarded.table))


@pytest.fixture
def guarded(start: Start) -> Guarded:
    """An empty store, and no object."""
    start.empty.restore()
    return start.guarded


def plain(items: dict[str, Item]) -> dict[str, dict[str, Any]]:
    """Without the plan that wrote them, and when."""
    return {path: s3guard.without(item, "lakeaudit_plan", "last_updated") for path, item in items.items()}


def versioned(aws: Aws, bucket: str) -> str:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


def lose(guarded: Guarded) -> None:
    """Of `orders`: two files each are tombstones, have no entry, or no folder that is entered; one's entry is sound."""
    keys, s3, bucket = guarded.shop.keys("orders"), guarded.aws.s3, guarded.bucket
    for number, key in enumerate([*keys[:6], keys[8]]):
        for _ in range(1 + number % 2):
            s3.delete_object(Bucket=bucket, Key=key)
    for key in keys[:2]:
        guarded.enter(s3guard.tombstone(bucket, key, at=datetime.now(UTC) - timedelta(minutes=1)))
    guarded.forget(*keys[2:4], f"{ROOT}/day=2026-11-02")


@dataclass(frozen=True)
class There:
    """Lost files of `orders`, broken entries of `stock`: audited, repaired by a plan each, audited, taken back."""

    kinds: dict[str, set[str]]
    """The kinds that the first audit found, by table."""
    trees: tuple[int, int]
    """How many findings of folders and entries its coverage counts, and how many there are."""
    items: list[dict[str, Item]]
    """Before, once `stock` was planned, and after the undo."""
    objects: list[Keys]
    """Before and after the undo."""
    done: list[str]
    """The actions that repaired `orders`."""
    mended: set[str]
    """The paths of `stock` with an entry after the repair; statuses of its steps; and states in the ledger."""
    statuses: set[str]
    states: set[str]
    left: set[tuple[Any, ...]]
    """The findings of the second audit."""
    sound: set[str]
    """The paths of `stock` that were entered before anything was broken."""


@pytest.fixture(scope="module")
def there(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> There:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    guarded = Guarded(aws, s3, versioned(aws, bucket), tmp_path_factory.mktemp("there"), ("orders", "stock"))
    guarded.shop.write("orders", commits=4)
    an_hour_old(guarded.shop)
    guarded.shop.write("stock")
    guarded.create(guarded.client_items())
    sound = guarded.paths("stock")
    lose(guarded)
    break_entries(guarded)
    orders, stock = guarded.mending, RepairPlans(guarded.mending.lake, tmp_path_factory.mktemp("stock"))
    shutil.copy(orders.folder / "lake.yaml", stock.folder)
    coverage = results_of(orders.lake).coverage(audited(orders.lake, live=True).run_id)
    trees = (
        sum(row["findings"] for row in coverage if row["axis"] == "metastore_tree"),
        sum(axis == "metastore_tree" for axis, _, _ in found_set(orders.lake)),
    )
    items, objects, kinds = [guarded.items()], [keys_of(guarded.shop)], defaultdict(set)
    for _, subject, kind in found_set(orders.lake):
        kinds["stock" if "/stock/" in subject else "orders"].add(kind)
    stock.plan(io.StringIO(), allow=(), row_filter=RowFilter(tables=["stock"]))
    items.append(guarded.items())
    assert stock.apply().exit_code == 0
    statuses, mended = set(stock.statuses().values()), guarded.paths("stock")
    orders.plan(io.StringIO(), row_filter=RowFilter(kinds=["dropped"]))
    first = {row["action_id"] for row in actions_of(orders.lake)}
    assert orders.apply().exit_code == 0
    rows = [row for row in actions_of(orders.lake) if row["action_id"] not in first]
    done = sorted(row["action"] for row in rows if row["status"] == "applied")
    audited(orders.lake, live=True)
    ends, left = {state for state, _ in states(orders.lake).values()}, found_set(orders.lake)
    assert (orders.undo().exit_code, stock.undo().exit_code) == (0, 0)
    items.append(guarded.items())
    objects.append(keys_of(guarded.shop))
    return There(dict(kinds), trees, items, objects, done, mended, statuses, ends, left, sound)


def break_entries(guarded: Guarded) -> None:
    """Every kind at once, of `stock`."""
    hidden, tombstoned, stale, *_ = keys = guarded.shop.keys("stock")
    in_lost_folder, bucket = keys[-1], guarded.bucket
    ghost = "warehouse/stock/day=2026-11-01/ghost.parquet"
    guarded.forget(hidden, in_lost_folder.rpartition("/")[0])
    guarded.enter(
        s3guard.tombstone(bucket, tombstoned, at=datetime.now(UTC) - timedelta(minutes=1)),
        s3guard.file(bucket, stale, 1, mod_time=OLD),
        s3guard.file(bucket, ghost, 9, mod_time=OLD),
    )


def test_from_break_to_repaired_and_back(there: There) -> None:
    """Every kind at once: the next audit resolves the repaired findings; the undo restores every item."""
    assert there.kinds["stock"] == {"hidden", "tombstoned", "metastore_stale", "phantom", "metastore_broken"}
    before, planned_only, undone = there.items
    assert planned_only == before, "a plan changes nothing"
    assert there.statuses == {"applied"}
    assert there.mended == there.sound
    assert there.states == {"resolved"}
    assert there.left == set()
    assert undone == before


def test_a_folder_that_is_not_entered_is_counted_as_a_finding(there: There) -> None:
    """It is found once beside the entries below it."""
    counted, rows = there.trees
    assert counted == rows > 2


def test_what_comes_back_is_entered_by_the_same_plan(there: There) -> None:
    """One plan, one apply, and the next audit finds nothing; and back."""
    assert there.kinds["orders"] >= {"dropped"}
    assert there.done == ["enter_restored"] * 6 + ["remove_delete_marker"] * 4 + ["restore_version"] * 3
    assert there.left == set()
    assert (there.items[-1], there.objects[-1]) == (there.items[0], there.objects[0])


@pytest.fixture
def lossy_store(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Guarded:
    guarded = Guarded(aws, s3, versioned(aws, bucket), tmp_path)
    guarded.shop.write("orders", commits=3)
    an_hour_old(guarded.shop)
    guarded.create(guarded.client_items())
    lose(guarded)
    return guarded


@pytest.mark.variant
def test_a_tombstone_does_not_list_a_lost_file(lossy_store: Guarded) -> None:
    """The finding says that the store has deleted it, instead of the tombstone's size."""
    lake = lossy_store.mending.lake
    by_table = findings_by_table(lake, audited(lake, live=True).run_id, ["orders"])
    lost = [row for row in by_table["orders"] if row["kind"] == "dropped"]
    answers = Counter(
        (formatting.presence(row)["metastore"], DELETED_IN_STORE in row["explanation"]) for row in lost
    )
    assert answers == {("deleted", True): 2, (None, False): 2, ("listed", False): 3}


@pytest.mark.variant
def test_nothing_is_entered_that_did_not_come_back(lossy_store: Guarded) -> None:
    """One was written again by somebody; the other waits for the limit of a run, and is entered by the next one."""
    mending, shop = lossy_store.mending, lossy_store.shop
    first, _, second, *_ = sorted(key for key in keys_of(shop) if key.endswith(".parquet"))
    steps = planned(
        mending,
        [ledger_row(**each) for each in finding_rows(shop, dict.fromkeys((first, second), "dropped"))],
    )
    assert [step.action for step in steps] == ["remove_delete_marker", "enter_restored"] * 2
    before = lossy_store.items()
    lossy_store.put(first, b"by somebody")
    assert mending.apply(limit=1).exit_code == 3
    assert lossy_store.items() == before
    assert mending.apply().exit_code == 3
    statuses = {(row["key"], row["action"]): row["status"] for row in actions_of(mending.lake)}
    assert statuses == {
        (first, "remove_delete_marker"): "changed", (first, "enter_restored"): "changed",
        (second, "remove_delete_marker"): "applied", (second, "enter_restored"): "applied",
    }  # fmt: skip
    changed = {path for path, item in lossy_store.items().items() if before.get(path) != item}
    assert changed == {f"/{lossy_store.bucket}/{second}"}


@pytest.mark.variant
def test_an_entry_is_what_s3guard_would_have_written(guarded: Guarded) -> None:
    """Parents first, no listing that is trusted, sizes and times as numbers, the ETag without quotes."""
    key = guarded.put(f"{ROOT}/day=1/a.parquet", b"some rows")
    head = guarded.aws.s3.head_object(Bucket=guarded.bucket, Key=key)
    (step,) = planned(guarded.mending, [guarded.row("hidden", key)], allow=())
    assert (step.action, step.reversibility) == ("put_entry", "reversible")
    assert guarded.mending.apply().exit_code == 0
    etag = head["ETag"].strip('"')
    file = s3guard.file(guarded.bucket, key, 9, mod_time=head["LastModified"], etag=etag)
    folders = [s3guard.folder(guarded.bucket, name) for name in ("warehouse", ROOT, f"{ROOT}/day=1")]
    assert plain(guarded.items()) == plain(
        {f"{item['parent']['S']}/{item['child']['S']}": item for item in [*folders, file]}
    )
    now = datetime.now(UTC).timestamp() * 1000
    assert all(now - 60_000 < int(item["last_updated"]["N"]) <= now + 1 for item in guarded.items().values())
    assert guarded.mending.undo().exit_code == 0
    assert guarded.items() == {}


def test_the_version_that_is_served_is_entered(guarded: Guarded) -> None:
    versioning: Any = {"Status": "Enabled"}
    guarded.aws.s3.put_bucket_versioning(Bucket=guarded.bucket, VersioningConfiguration=versioning)
    key = guarded.put(f"{ROOT}/a.parquet")
    head = guarded.aws.s3.head_object(Bucket=guarded.bucket, Key=key)
    planned(guarded.mending, [guarded.row("hidden", key)], allow=())
    guarded.mending.apply()
    assert (guarded.item(key) or {})["version_id"] == {"S": head["VersionId"]}


@pytest.mark.variant
def test_files_of_one_missing_folder_enter_it_once_and_take_it_out_together(guarded: Guarded) -> None:
    keys = [guarded.put(f"{ROOT}/day=1/{n}.parquet") for n in range(8)]
    guarded.enter(s3guard.tombstone(guarded.bucket, ROOT, at=OLD))
    before = guarded.items()
    planned(guarded.mending, [guarded.row("hidden", key) for key in keys], allow=())
    assert guarded.mending.apply().exit_code == 0
    assert len(guarded.items()) == 8 + 3
    assert guarded.mending.undo().exit_code == 0
    assert guarded.items() == before


def read_before_the_folder_goes(patched: pytest.MonkeyPatch, first: str, last: str) -> None:
    """Let `first` read its result after `last` removed its entry, and before `last` removes their common folder."""
    first_acted, last_acted, first_has_read = Event(), Event(), Event()
    take_back, remove, state_of = EntryAction.take_back, EntryStore.remove, run.state_of

    def in_turns(self: Any, undo: Any, target: Any) -> None:
        if target.key == last:
            assert first_acted.wait(20)
        take_back(self, undo, target)
        if target.key == first:
            first_acted.set()
            assert last_acted.wait(20)

    def late(self: Any, seen: Item) -> None:
        if "is_dir" in seen:
            last_acted.set()
            assert first_has_read.wait(20)
        remove(self, seen)

    def record_read(reader: Any, step: Any) -> Any:
        state = state_of(reader, step)
        if step.key == first:
            first_has_read.set()
        return state

    patched.setattr(EntryAction, "take_back", in_turns)
    patched.setattr(EntryStore, "remove", late)
    patched.setattr("lakeaudit.reconcile.execution.acting.state_of", record_read)


@pytest.mark.variant
def test_a_folder_that_another_step_is_about_to_remove_does_not_fail_the_undo(
    guarded: Guarded, patched: pytest.MonkeyPatch
) -> None:
    """An undo that met no refusal succeeds, whichever of its steps reads the shared folder first."""
    keys = [guarded.put(f"{ROOT}/day=1/{n}.parquet") for n in range(2)]
    guarded.enter(*(s3guard.folder(guarded.bucket, name) for name in ("warehouse", ROOT)))
    before = guarded.items()
    planned(guarded.mending, [guarded.row("hidden", key) for key in keys], allow=())
    assert guarded.mending.apply().exit_code == 0
    read_before_the_folder_goes(patched, *keys)
    ended = guarded.mending.undo()
    assert (ended.exit_code, guarded.mending.statuses()) == (0, dict.fromkeys(keys, "undone"))
    assert guarded.items() == before


@pytest.mark.variant
def test_a_folder_that_others_use_since_stays(guarded: Guarded) -> None:
    keys = [guarded.put(f"{ROOT}/day=1/{n}.parquet") for n in range(2)]
    planned(guarded.mending, [guarded.row("hidden", keys[0])], allow=())
    guarded.mending.apply()
    guarded.enter(s3guard.file(guarded.bucket, keys[1], 4, mod_time=OLD))
    assert guarded.mending.undo().exit_code == 0
    assert [path.rpartition("/")[2] for path in sorted(guarded.items())] == [
        "warehouse",
        "orders",
        "day=1",
        "1.parquet",
    ]


FOLDERS: dict[str, Callable[[str, str], list[Item]]] = {
    "missing": lambda *_: [],
    "a tombstone": lambda bucket, folder: [s3guard.tombstone(bucket, folder, at=OLD)],
    "a file": lambda bucket, folder: [s3guard.file(bucket, folder, 3, mod_time=OLD)],
    "trusted, and not complete": lambda bucket, folder: [s3guard.folder(bucket, folder, authoritative=True)],
}


@pytest.mark.variant
def test_a_folder_whose_entry_is_wrong(guarded: Guarded) -> None:
    """Live entries below it are left as they are; the old state comes back although they lie there."""
    folders = [f"{ROOT}/day={number}" for number in range(len(FOLDERS))]
    guarded.enter(*(s3guard.folder(guarded.bucket, name) for name in ("warehouse", ROOT)))
    for folder, wrong in zip(folders, FOLDERS.values(), strict=True):
        key = guarded.put(f"{folder}/a.parquet")
        guarded.enter(s3guard.file(guarded.bucket, key, 4, mod_time=OLD), *wrong(guarded.bucket, folder))
    before = guarded.items()
    rows = [guarded.row("metastore_broken", f"{folder}/") for folder in folders]
    assert [step.action for step in planned(guarded.mending, rows, allow=())] == ["put_folder"] * 4
    assert guarded.mending.apply().exit_code == 0
    after, paths = guarded.items(), {f"/{guarded.bucket}/{folder}": folder for folder in folders}
    assert plain({path: after[path] for path in paths}) == plain(
        {path: s3guard.folder(guarded.bucket, folder) for path, folder in paths.items()}
    ), list(FOLDERS)
    assert {path: item for path, item in after.items() if path not in paths} == {
        path: item for path, item in before.items() if path not in paths
    }
    assert guarded.mending.undo().exit_code == 0
    assert guarded.items() == before


@pytest.mark.variant
def test_a_folder_in_the_place_of_an_object_becomes_a_file(guarded: Guarded) -> None:
    key = guarded.put(f"{ROOT}/a.parquet")
    guarded.enter(s3guard.folder(guarded.bucket, key))
    before = guarded.items()
    (step,) = planned(guarded.mending, [guarded.row("metastore_broken", f"{key}/")], allow=())
    assert (step.action, guarded.mending.apply().exit_code) == ("put_entry", 0)
    assert "is_dir" not in (guarded.item(key) or {})
    assert guarded.mending.undo().exit_code == 0
    assert guarded.items() == before


@pytest.mark.variant
def test_a_sound_entry_below_missing_folders_is_not_touched(guarded: Guarded) -> None:
    key = guarded.put(f"{ROOT}/a.parquet")
    listed = guarded.client_items()[0]
    guarded.enter(listed)
    rows = [guarded.row("metastore_broken", each) for each in (key, f"{ROOT}/")]
    assert [step.action for step in planned(guarded.mending, rows, allow=())] == ["put_entry", "put_folder"]
    assert guarded.mending.apply().exit_code == 0
    assert (guarded.item(key), len(guarded.items())) == (listed, 3)
    assert guarded.mending.undo().exit_code == 0
    assert list(guarded.items().values()) == [listed]


# --- what a program leaves to a person --------------------------------------------------------------------------


def why(guarded: Guarded, *rows: dict[str, Any], mending: RepairPlans | None = None) -> list[str]:
    steps = planned(mending or guarded.mending, rows, allow=())
    assert {step.action for step in steps} == {"needs_person"}
    return [step.evidence["why"] for step in steps]


def test_what_an_export_alone_knows_is_for_a_person(guarded: Guarded, tmp_path: Path) -> None:
    mending = RepairPlans(guarded.lake_of_export(tmp_path), tmp_path)
    (reason,) = why(guarded, guarded.row("hidden", guarded.put(f"{ROOT}/a.parquet")), mending=mending)
    assert reason.startswith("the lake file names only an export of its metadata store")


@pytest.mark.parametrize(
    ("stores", "reason"),
    [
        ("metastores: [{kind: s3guard, table: one}, {kind: s3guard, table: two}]", "2 metadata stores of the"),
        ("", "0 metadata stores of the lake file contain its key"),
        ("metastores: [{kind: s3guard, table: GUARD}]\nbuckets: [{match: BUCKET, aliases: [other]}]", "its bucket has"),
        ("metastores: [{kind: s3guard, table: no-such-table}]", "metadata store no-such-table cannot be read"),
        (
            "metastores: [{kind: emrfs, table: view}]",
            f"only EMRFS can write its items: `emrfs import -m view s3://BUCKET/{ROOT}` enters the files of storage",
        ),
        ("metastores: [{kind: s3mper, table: listing}]", "`s3mper meta resolve s3://BUCKET/"),
    ],
)  # fmt: skip
def test_which_store_readers_go_by_has_to_be_plain(
    stores: str, reason: str, guarded: Guarded, tmp_path: Path
) -> None:
    file = tmp_path / "lake.yaml"
    head = (guarded.mending.folder / "lake.yaml").read_text().partition("metastores:")[0]
    file.write_text(head + stores.replace("GUARD", guarded.table).replace("BUCKET", guarded.bucket))
    mending = RepairPlans(load_lake(file, {}), tmp_path)
    assert why(guarded, guarded.row("hidden", guarded.put(f"{ROOT}/a.parquet")), mending=mending)[
        0
    ].startswith(reason.replace("BUCKET", guarded.bucket))


def test_an_entry_that_may_be_the_last_witness_stays(guarded: Guarded) -> None:
    """The object is the wrong one, by what its table lists, or it was written again since."""
    key = guarded.put(f"{ROOT}/a.parquet", b"torn")
    guarded.enter(s3guard.file(guarded.bucket, key, 9, mod_time=OLD))
    listed = {"manifest_time": OLD, "manifest_size": 9}
    of_size, of_etag, since = (
        guarded.row("metastore_stale", key, **listed),
        guarded.row("metastore_stale", key, **listed | {"manifest_size": 4, "manifest_etag": "e"}),
        guarded.row("metastore_stale", key, **listed | {"manifest_size": 4}),
    )
    reasons = why(guarded, of_size, of_etag, since)
    assert reasons[:2] == ["the object is not the one that its writer recorded: repair the object first"] * 2
    assert reasons[2].startswith("the object was overwritten since its table lists it")


def test_what_contradicts_itself_in_storage_is_for_a_person(guarded: Guarded) -> None:
    key = guarded.put(f"{ROOT}/a")
    guarded.put(f"{ROOT}/a/b.parquet")
    guarded.enter(
        s3guard.folder(guarded.bucket, key), s3guard.file(guarded.bucket, f"{ROOT}/c", mod_time=OLD)
    )
    there = "storage has an object there"
    assert why(
        guarded,
        guarded.row("hidden", f"{ROOT}/gone.parquet"),
        guarded.row("metastore_broken", f"{key}/"),
        guarded.row("phantom", key),
        guarded.row("hidden", f"{ROOT}/a:b"),
        guarded.row("hidden", guarded.put(f"{ROOT}/c/d.parquet")),
    ) == [
        "storage has no object there",
        "; ".join([f"{there} and keys below it", there, "the store has no entry of a file there"]),
        "the store has no entry of a file there",
        "Hadoop has no path for its key",
        f"the store has the folder /{guarded.bucket}/{ROOT}/c above it as a file: repair that entry first",
    ]  # fmt: skip


def test_an_item_that_no_condition_can_name_is_for_a_person(guarded: Guarded) -> None:
    key = guarded.put(f"{ROOT}/a.parquet")
    odd: Item = s3guard.tombstone(guarded.bucket, key, at=OLD) | {"blob": {"L": []}}
    guarded.enter(odd)
    assert "attributes that Hadoop does not write" in why(guarded, guarded.row("tombstoned", key))[0]


# --- what happens between plan and apply ------------------------------------------------------------------------


def plan_for_broken_entries(guarded: Guarded) -> dict[str, str]:
    """Break entries; return the key of a planned step, by action."""
    hidden, tombstoned = guarded.put(f"{ROOT}/day=1/a.parquet"), guarded.put(f"{ROOT}/day=1/b.parquet")
    ghost = f"{ROOT}/day=1/ghost.parquet"
    guarded.enter(
        *(s3guard.folder(guarded.bucket, name) for name in ("warehouse", ROOT)),
        s3guard.tombstone(guarded.bucket, tombstoned, at=OLD),
        s3guard.file(guarded.bucket, ghost, 9, mod_time=OLD),
    )
    guarded.shop.write("orders", commits=1)
    rows = [
        guarded.row("hidden", hidden), guarded.row("tombstoned", tombstoned), guarded.row("phantom", ghost),
        guarded.row("metastore_broken", f"{ROOT}/day=1/"),
    ]  # fmt: skip
    steps = planned(guarded.mending, rows, allow=())
    assert [step.action for step in steps] == ["put_entry", "put_entry", "remove_entry", "put_folder"]
    return {"hidden": hidden, "tombstoned": tombstoned, "phantom": ghost, "folder": f"{ROOT}/day=1"}


@pytest.fixture
def broken(start: Start, guarded: Guarded) -> dict[str, str]:
    """Return the key of a planned step, by action."""
    assert guarded is start.guarded
    start.planned.restore()
    return start.keys


@pytest.mark.variant
def test_a_store_that_ignores_conditions_is_not_written_to(
    guarded: Guarded, broken: dict[str, str], patched: pytest.MonkeyPatch
) -> None:
    """And the requests that prove it leave the table as it is."""
    before, seen = guarded.items(), "lakeaudit.reconcile.stores.entry_store.unchanged_condition"
    patched.setattr(seen, lambda _: {})
    assert guarded.mending.apply().exit_code == 3
    assert set(guarded.mending.statuses().values()) == {"needs_person"}
    assert (guarded.items(), len(broken)) == (before, 4)
    marker: Any = guarded.aws.dynamodb.get_item(TableName=guarded.table, Key={
        name: {"S": "../VERSION"} for name in ("parent", "child")})  # fmt: skip
    assert marker["Item"] == s3guard.marker()


@pytest.mark.variant
def test_items_that_somebody_changed_since_the_plan_stay(guarded: Guarded, broken: dict[str, str]) -> None:
    now = datetime.now(UTC)
    guarded.enter(
        s3guard.tombstone(guarded.bucket, broken["hidden"], at=now),
        s3guard.tombstone(guarded.bucket, broken["tombstoned"], at=now),
        s3guard.file(guarded.bucket, broken["phantom"], 8, mod_time=now),
    )
    before = guarded.items()
    assert guarded.mending.apply().exit_code == 3
    after = guarded.items()
    assert {path: after[path] for path in before} == before
    assert sorted(guarded.mending.statuses().values()) == ["applied", "changed", "changed", "changed"]


@pytest.mark.variant
def test_items_that_change_between_look_and_write_stay(
    guarded: Guarded, broken: dict[str, str], patched: pytest.MonkeyPatch
) -> None:
    act = EntryAction.act

    def after_another(self: Any, step: Any, target: Any) -> Any:
        name = step.key.rstrip("/")
        guarded.enter(s3guard.tombstone(guarded.bucket, name, at=datetime.now(UTC)))
        return act(self, step, target)

    patched.setattr(EntryAction, "act", after_another)
    assert guarded.mending.apply().exit_code == 3
    assert set(guarded.mending.statuses().values()) == {"changed"}
    assert all((guarded.item(key) or {})["is_deleted"] == {"BOOL": True} for key in broken.values())


@pytest.mark.variant
def test_an_object_that_changes_meanwhile_leaves_no_entry_of_the_old_one(
    guarded: Guarded, broken: dict[str, str], patched: pytest.MonkeyPatch
) -> None:
    before = guarded.items()
    put = EntryStore.put

    def after_another(self: Any, item: Any, seen: Any) -> None:
        put(self, item, seen)
        if item["child"]["S"] == "a.parquet":
            guarded.put(broken["hidden"], b"others")
        if item["child"]["S"] == "b.parquet":
            guarded.aws.s3.delete_object(Bucket=guarded.bucket, Key=broken["tombstoned"])

    patched.setattr(EntryStore, "put", after_another)
    assert guarded.mending.apply().exit_code == 3
    statuses = guarded.mending.statuses()
    assert (statuses[broken["hidden"]], statuses[broken["tombstoned"]]) == ("changed", "changed")
    assert guarded.item(broken["hidden"]) is None
    assert guarded.item(broken["tombstoned"]) == before[f"/{guarded.bucket}/{broken['tombstoned']}"]


@pytest.mark.variant
def test_what_somebody_entered_since_the_apply_is_not_undone(
    guarded: Guarded, broken: dict[str, str]
) -> None:
    assert guarded.mending.apply().exit_code == 0
    now = datetime.now(UTC)
    guarded.enter(*(s3guard.file(guarded.bucket, key, 5, mod_time=now) for key in broken.values()))
    before = guarded.items()
    assert guarded.mending.undo().exit_code == 3
    assert set(guarded.mending.statuses().values()) == {"kept"}
    assert guarded.items() == before


@pytest.mark.variant
def test_an_entry_of_a_file_that_a_table_lists_stays(guarded: Guarded, broken: dict[str, str]) -> None:
    """It may be all that is known of a lost file."""
    listed = guarded.shop.keys("orders")
    lost = next(key for key in listed if "day=2026" in key)
    guarded.aws.s3.delete_object(Bucket=guarded.bucket, Key=lost)
    guarded.enter(s3guard.file(guarded.bucket, lost, 9, mod_time=OLD))
    planned(guarded.mending, [guarded.row("phantom", lost)], allow=())
    before = guarded.items()
    assert (guarded.mending.apply().exit_code, len(broken)) == (0, 4)
    assert guarded.mending.statuses()[lost] == "moved_on"
    assert guarded.items() == before


@pytest.mark.variant
def test_the_policy_grants_exactly_the_requests_to_the_store(
    guarded: Guarded, broken: dict[str, str], patched: pytest.MonkeyPatch
) -> None:
    requested: set[str] = set()
    call: Any = vars(BaseClient)["_make_api_call"]

    def record_call(self: Any, operation: str, given: dict[str, Any]) -> Any:
        if "TableName" in given or "RequestItems" in given:
            requested.add(f"dynamodb:{operation}")
        return call(self, operation, given)

    patched.setattr(BaseClient, "_make_api_call", record_call)
    with with_printed_policy(guarded.mending.folder / "lake.yaml"):
        planned(guarded.mending, [guarded.row("hidden", broken["hidden"])], allow=())
        assert (guarded.mending.apply().exit_code, guarded.mending.undo().exit_code) == (0, 0)
    policy = json.loads((Path(__file__).parents[2] / "conf" / "iam" / "reconcile-policy.json").read_text())
    of_store = [each for each in policy["Statement"] if "S3GUARD-TABLE" in str(each["Resource"])]
    assert requested == {name for each in of_store for name in each["Action"]}


# --- killed anywhere --------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


def dying_after(writes: int, write: Any) -> Any:
    """The process ends before the next write of an item, once so many were written."""
    left = [writes]

    def dying(self: Any, item: Any, *seen: Any) -> None:
        if item["parent"]["S"] != "../VERSION":
            if not left[0]:
                raise Killed
            left[0] -= 1
        write(self, item, *seen)

    return dying


@pytest.mark.variant
@pytest.mark.parametrize("writes", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (0, 2, 3))])
def test_killed_at_any_write(
    writes: int, guarded: Guarded, broken: dict[str, str], patched: pytest.MonkeyPatch
) -> None:
    """The same command goes on; then an undo is killed in the same way."""
    before = guarded.items()
    with patched.context() as once:
        once.setattr(EntryStore, "put", dying_after(writes, EntryStore.put))
        with pytest.raises(Killed):
            guarded.mending.apply()
    assert guarded.mending.apply().exit_code == 0
    assert set(guarded.mending.statuses().values()) == {"applied"}
    assert guarded.item(broken["phantom"]) is None
    with patched.context() as once:
        once.setattr(EntryStore, "remove", dying_after(writes % 2, EntryStore.remove))
        with pytest.raises(Killed):
            guarded.mending.undo()
    assert guarded.mending.undo().exit_code == 0
    assert guarded.items() == before


@pytest.mark.variant
def test_an_undo_of_a_run_that_was_killed(
    guarded: Guarded, broken: dict[str, str], patched: pytest.MonkeyPatch
) -> None:
    """A step with the status `started` is undone if it was done."""
    before, put_batch, calls = guarded.items(), Journal.put_batch, []

    def dying(self: Any, *given: Any) -> None:
        calls.append(given)
        if len(calls) > 1:
            raise Killed
        put_batch(self, *given)

    with patched.context() as once:
        once.setattr(Journal, "put_batch", dying)
        with pytest.raises(Killed):
            guarded.mending.apply()
    assert (guarded.item(broken["hidden"]) is not None, guarded.mending.undo().exit_code) == (True, 0)
    assert guarded.items() == before

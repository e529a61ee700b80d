"""Whole audits of Iceberg tables whose newest state is lost, and of healthy ones that look alike.

The tables lie in one bucket that keeps versions and are audited twice: as they were, and after each met its fate.
"""

import io
import itertools
import json
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pytest
from deltalake import DeltaTable
from pyiceberg.table import Table

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, findings_by_table, includes_soak, leftover_status, results_of
from tests.builders.backdate import age_all, backdate
from tests.builders.iceberg import IcebergLake, rows
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@dataclass
class Orders:
    """A table of three metadata.json files (0, 1, 2), of which two added data."""

    lake: IcebergLake
    name: str

    @property
    def folder(self) -> str:
        return f"warehouse/{self.name}/metadata/"

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table(f"shop.{self.name}")

    def states(self) -> list[str]:
        """Keys of the metadata.json files, in the order of their numbers."""
        keys = self.lake.keys(f"/{self.name}/metadata/")
        return [key for key in keys if key.endswith(".metadata.json")]

    def erase(self, *keys: str) -> None:
        """Delete every version of some files, so that no marker shows the deletion."""
        for key in keys:
            listed = self.lake.s3.list_object_versions(Bucket=self.lake.bucket, Prefix=key)
            for one in (*listed.get("Versions", []), *listed.get("DeleteMarkers", [])):
                self.lake.s3.delete_object(
                    Bucket=self.lake.bucket, Key=one["Key"], VersionId=one["VersionId"]
                )

    def put(self, name: str, body: bytes) -> None:
        key = (self.folder + name).replace("metadata/../", "")
        self.lake.s3.put_object(Bucket=self.lake.bucket, Key=key, Body=body)

    def read(self, key: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            self.lake.s3.get_object(Bucket=self.lake.bucket, Key=key)["Body"].read()
        )
        return content

    def point_at(self, key: str) -> None:
        """The catalog names another metadata.json."""
        self.lake.catalog.drop_table(f"shop.{self.name}")
        self.lake.catalog.register_table(f"shop.{self.name}", f"s3://{self.lake.bucket}/{key}")

    def commit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Commit the table's metadata once more, with a change in it."""
        newest = self.states()[-1]
        content = self.read(newest)
        log = {
            "metadata-file": f"s3://{self.lake.bucket}/{newest}",
            "timestamp-ms": content["last-updated-ms"],
        }
        content["metadata-log"].append(log)
        content["last-updated-ms"] += 1
        change(content)
        number = int(newest.rpartition("/")[2][:5]) + 1
        self.put(f"{number:05}-{uuid.uuid4()}.metadata.json", json.dumps(content).encode())

    def edit_list(self, edit: Callable[[list[Any]], list[Any]]) -> None:
        """Commit another list of the newest snapshot, with other entries."""
        snapshot = self.table.metadata.snapshots[-1]
        key = snapshot.manifest_list.removeprefix(f"s3://{self.lake.bucket}/")
        body = self.lake.s3.get_object(Bucket=self.lake.bucket, Key=key)["Body"].read()
        reader, out = fastavro.reader(io.BytesIO(body)), io.BytesIO()
        assert reader.writer_schema is not None
        fastavro.writer(out, reader.writer_schema, edit(list(reader)), metadata=reader.metadata)
        name = f"snap-{snapshot.snapshot_id}-7-{uuid.uuid4()}.avro"
        self.put(name, out.getvalue())
        path = f"s3://{self.lake.bucket}/{self.folder}{name}"
        self.commit(lambda content: content["snapshots"][-1].update({"manifest-list": path}))

    def put_back(self, key: str) -> None:
        """Remove the delete marker of a file."""
        (marker,) = self.lake.s3.list_object_versions(Bucket=self.lake.bucket, Prefix=key)["DeleteMarkers"]
        self.lake.s3.delete_object(Bucket=self.lake.bucket, Key=key, VersionId=marker["VersionId"])


def newest_state_deleted(orders: Orders) -> None:
    orders.lake.drop(orders.states()[-1])


def newest_state_erased(orders: Orders) -> None:
    orders.erase(orders.states()[-1])


def folder_restored_to_yesterday(orders: Orders) -> None:
    """Neither the newest metadata.json nor its lists and manifests are there."""
    newest = orders.table.metadata.snapshots[-1]
    manifests = [
        m.manifest_path
        for m in newest.manifests(orders.table.io)
        if m.added_snapshot_id == newest.snapshot_id
    ]
    keys = [path.removeprefix(f"s3://{orders.lake.bucket}/") for path in (newest.manifest_list, *manifests)]
    orders.erase(orders.states()[-1], *keys)


def number_reused(orders: Orders) -> None:
    """The newest state is lost, and the next writer commits another one under its number."""
    *_, before, newest = orders.states()
    orders.erase(newest)
    orders.point_at(before)
    orders.table.append(rows(9000))


def hint_names_a_later_state(orders: Orders) -> None:
    orders.put("version-hint.text", b"7\n")


def hint_names_a_later_file(orders: Orders) -> None:
    orders.put("version-hint.text", b"00007-0d5b4ac4-1111-2222-3333-444444444444.metadata.json")


def hint_lags(orders: Orders) -> None:
    orders.put("version-hint.text", b"1")


def state_written_again(orders: Orders) -> None:
    newest = orders.states()[-1]
    content = orders.read(newest)
    content |= {"snapshots": content["snapshots"][:1], "refs": {}, "snapshot-log": content["snapshot-log"][:1],
                "current-snapshot-id": content["snapshots"][0]["snapshot-id"]}  # fmt: skip
    orders.lake.s3.put_object(Bucket=orders.lake.bucket, Key=newest, Body=json.dumps(content).encode())


def metadata_folder_gone(orders: Orders) -> None:
    for key in orders.lake.keys(f"/{orders.name}/metadata/"):
        orders.lake.drop(key)


def newest_state_emptied(orders: Orders) -> None:
    orders.put(orders.states()[-1].rpartition("/")[2], b"")


def current_snapshot_absent(orders: Orders) -> None:
    newest = orders.states()[-1]
    content = json.loads(orders.lake.s3.get_object(Bucket=orders.lake.bucket, Key=newest)["Body"].read())
    content |= {"current-snapshot-id": 7, "refs": {}}
    orders.put(newest.rpartition("/")[2], json.dumps(content).encode())


def append_drops_files_of_its_parent(orders: Orders) -> None:
    orders.table.append(rows(9000))
    newest = orders.table.metadata.snapshots[-1].snapshot_id
    orders.edit_list(lambda listed: [each for each in listed if each["added_snapshot_id"] == newest])


def update_lost(orders: Orders) -> None:
    """The newest snapshot was built on the first one, while the second one was current."""
    orders.table.append(rows(9000))
    first, second, _ = (each.snapshot_id for each in orders.table.metadata.snapshots)
    orders.edit_list(lambda listed: [each for each in listed if each["added_snapshot_id"] != second])
    orders.commit(lambda content: content["snapshots"][-1].update({"parent-snapshot-id": first}))


def pointer_lost(orders: Orders) -> None:
    """The metadata.json of a commit without its current snapshot; no older version of it is left."""
    orders.table.append(rows(9000))
    newest = orders.states()[-1]
    content = orders.read(newest) | {"current-snapshot-id": -1, "refs": {}}
    orders.erase(newest)
    orders.put(newest.rpartition("/")[2], json.dumps(content).encode())


def replaced_without_rows(orders: Orders) -> None:
    """CREATE OR REPLACE TABLE, as Iceberg writes it: the snapshots and their log stay."""
    orders.commit(lambda content: content.update({"current-snapshot-id": -1, "refs": {}}))


def replaced_by_an_old_writer(orders: Orders) -> None:
    """The same before Iceberg 1.8, which cleared the log."""
    orders.commit(
        lambda content: content.update({"current-snapshot-id": None, "refs": {}, "snapshot-log": []})
    )


def counts_not_met(orders: Orders) -> None:
    orders.commit(lambda content: content["snapshots"][-1]["summary"].update({"added-data-files": "5"}))


def manifest_listed_twice(orders: Orders) -> None:
    orders.table.append(rows(9000))
    orders.edit_list(lambda listed: [*listed, listed[-1]])


def manifest_overwritten(orders: Orders) -> None:
    """The manifest of a snapshot has the bytes of an older one's, which has another size."""
    table, store = orders.table, orders.lake
    paths = [one.manifests(table.io)[0].manifest_path for one in table.metadata.snapshots]
    keys = [path.removeprefix(f"s3://{store.bucket}/") for path in paths]
    sizes = [store.s3.head_object(Bucket=store.bucket, Key=key)["ContentLength"] for key in keys]
    pairs = itertools.combinations(range(len(keys)), 2)
    older, newer = next((pair for pair in pairs if sizes[pair[0]] != sizes[pair[1]]), (0, 0))
    if older == newer:
        table.append(rows(9000))
        return manifest_overwritten(orders)
    time.sleep(3.1)  # more than a clock's step: the copy is younger than the commit
    store.s3.copy_object(
        Bucket=store.bucket, Key=keys[newer], CopySource={"Bucket": store.bucket, "Key": keys[older]}
    )
    return None


def rewrite_changes_rows(orders: Orders) -> None:
    orders.commit(lambda content: content["snapshots"][-1]["summary"].update({"operation": "replace"}))


def overwrite_removes_nothing(orders: Orders) -> None:
    summary = {"operation": "overwrite", "deleted-data-files": "2", "deleted-records": "20"}
    orders.commit(lambda content: content["snapshots"][-1]["summary"].update(summary))


def two_overwrites_of_one_state(orders: Orders) -> None:
    """Two writers replace the same files; the second one removes what the first one had removed already."""
    orders.table.overwrite(rows(7000))

    def change(content: dict[str, Any]) -> None:
        *_, one, other = content["snapshots"]
        one["summary"]["operation"] = "overwrite"
        other["summary"] |= {"operation": "overwrite", "deleted-data-files": "4", "deleted-records": "40"}

    orders.commit(change)


def batch_committed_twice(orders: Orders) -> None:
    orders.table.append(rows(1000))


def _under_checkpoints(orders: Orders, *numbers: int, each: Sequence[int] = (10, 10)) -> None:
    """Flink commits the last two snapshots, each with other rows, under checkpoints of these numbers."""
    for number, size in enumerate(each):
        orders.table.append(rows(20_000 + 777 * number, each=size))

    def change(content: dict[str, Any]) -> None:
        for snapshot, number in zip(content["snapshots"][-2:], numbers, strict=True):
            named = {"job-id": "j", "operator-id": "o", "max-committed-checkpoint-id": f"{number}"}
            snapshot["summary"] |= {f"flink.{name}": value for name, value in named.items()}

    orders.commit(change)


def checkpoint_committed_twice(orders: Orders) -> None:
    _under_checkpoints(orders, 7, 7)


def checkpoints_in_turn(orders: Orders) -> None:
    _under_checkpoints(orders, 7, 8)


def checkpoint_in_two_snapshots(orders: Orders) -> None:
    _under_checkpoints(orders, 7, 7, each=(10, 12))


def compacted(orders: Orders) -> None:
    """A rewrite by hand: the manifests of both appends as one, whose entries exist already."""
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    with orders.table.transaction() as change:
        change.set_properties(merging)
    orders.table.append(rows(5000))


def overwritten(orders: Orders) -> None:
    orders.table.overwrite(rows(5000))


def delta_is_ahead(orders: Orders) -> None:
    """UniForm has converted version 1, and the Delta log beside the metadata has version 2."""
    converted_by_uniform(orders, newest=2)


def xtable_is_behind(orders: Orders) -> None:
    """XTable has converted commits of Delta up to last week."""
    synced = json.dumps(
        {"lastInstantSynced": "2026-11-01T00:00:00Z", "sourceTableFormat": "DELTA", "version": 0}
    )
    with orders.table.transaction() as change:
        change.set_properties({"XTABLE_METADATA": synced})
    orders.put(f"../_delta_log/{3:020}.json", b"{}")


def converted_by_uniform(orders: Orders, newest: int = 1) -> None:
    with orders.table.transaction() as change:
        change.set_properties({"delta-version": "1"})
    for version in range(newest + 1):
        orders.put(f"../_delta_log/{version:020}.json", b"{}")


def untouched(orders: Orders) -> None:
    pass


def appended(orders: Orders) -> None:
    orders.table.append(rows(9000))


def rolled_back(orders: Orders) -> None:
    first = orders.table.metadata.snapshots[0].snapshot_id
    orders.table.manage_snapshots().set_current_snapshot(first).commit()


def branched(orders: Orders) -> None:
    table = orders.table
    table.manage_snapshots().create_branch(table.metadata.snapshots[0].snapshot_id, "dev").commit()
    table.append(rows(7000), branch="dev")


def old_states_deleted(orders: Orders) -> None:
    """`write.metadata.delete-after-commit.enabled` deletes old files, and the log is cut off."""
    with orders.table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    for number in range(3):
        orders.table.append(rows(9000 + 100 * number))
    for key in orders.states()[:-2]:
        orders.lake.drop(key)


def hint_is_empty(orders: Orders) -> None:
    orders.put("version-hint.text", b"")


def created_again(orders: Orders) -> None:
    """Another table, with lower numbers, is created in the place of one that was dropped and purged."""
    keys = orders.lake.keys(f"/{orders.name}/")
    orders.lake.catalog.drop_table(f"shop.{orders.name}")
    for key in keys:
        orders.lake.drop(key)
    orders.lake.tables.remove(orders.name)
    orders.lake.table(orders.name)


def metadata_of_the_new_table_erased(orders: Orders) -> None:
    """The table had been replaced by another one before the first audit; only metadata of the old one is left."""
    orders.erase(*(key for key in orders.states() if "/metadata/1000" in key))


def metadata_of_the_new_table_deleted(orders: Orders) -> None:
    orders.lake.drop(*(key for key in orders.states() if "/metadata/1000" in key))


def old_table_goes_on(orders: Orders) -> None:
    """The metadata of the new table is lost, and a writer commits to the old one."""
    metadata_of_the_new_table_erased(orders)
    orders.commit(lambda content: content.update(properties={}))


def new_table_goes_on(orders: Orders) -> None:
    orders.commit(lambda content: content.update(properties={}))


def replaced_by_another_table(orders: Orders) -> None:
    """Another table is created over one that was dropped without its files."""
    content = orders.read(orders.states()[-1]) | {"table-uuid": str(uuid.uuid4()), "metadata-log": []}
    at = int(datetime.now(UTC).timestamp() * 1000)
    for each in content["snapshots"]:
        each["timestamp-ms"] = at
    orders.put(f"10000-{uuid.uuid4()}.metadata.json", json.dumps(content | {"last-updated-ms": at}).encode())


def race_lost(orders: Orders) -> None:
    """A commit that failed leaves a metadata.json with the number of the one that won."""
    orders.table.append(rows(9000))
    losing = orders.read(orders.states()[-1]) | {"last-updated-ms": 1}
    orders.put("00003-0aaaaaaa-1111-2222-3333-444444444444.metadata.json", json.dumps(losing).encode())
    orders.table.append(rows(9500))


def race_undecided(orders: Orders) -> None:
    """Two commits follow one state and the younger one lost: its data file was removed again, its metadata stays."""
    start = orders.states()[-1]
    orders.table.append(rows(9000))
    won, there = orders.states()[-1], {*orders.lake.keys(f"/{orders.name}/data/")}
    backdate(orders.lake.bucket, won, datetime.now(UTC) - timedelta(seconds=2))
    orders.point_at(start)
    orders.table.append(rows(9500))
    for key in {*orders.lake.keys(f"/{orders.name}/data/")} - there:
        orders.lake.drop(key)
    orders.point_at(won)


def race_undecided_and_file_lost(orders: Orders) -> None:
    """A file that both commits list is lost, whichever won."""
    both = orders.lake.keys(f"/{orders.name}/data/")
    race_undecided(orders)
    orders.lake.drop(both[0])


def race_undecided_and_cleaned_up(orders: Orders) -> None:
    """The younger commit lost, and its writer could delete everything but its metadata.json."""
    there = {*orders.lake.keys(f"/{orders.name}/")}
    race_undecided(orders)
    lost = max(orders.states(), key=lambda each: orders.read(each)["last-updated-ms"])
    snapshot = orders.read(lost)["current-snapshot-id"]
    (own,) = (
        key for key in orders.lake.keys(f"/{orders.name}/metadata/snap-{snapshot}-") if key not in there
    )
    attempt = own.rpartition("/")[2].removesuffix(".avro").partition(f"snap-{snapshot}-0-")[2]
    for key in (own, *orders.lake.keys(f"/{orders.name}/metadata/{attempt}")):
        orders.lake.drop(key)


def race_undecided_and_shared_manifest_lost(orders: Orders) -> None:
    """A manifest that both commits list is lost, whichever won."""
    shared = next(key for key in orders.lake.keys(f"/{orders.name}/metadata/") if key.endswith("-m0.avro"))
    race_undecided(orders)
    orders.lake.drop(shared)


LOST, REPLACED = ("missing_metadata", "critical"), ("overwritten_commit", "critical")
MISSING = ("table_missing", "critical")
Fate = Callable[[Orders], None]
FATES: dict[Fate, list[tuple[str, str]]] = {
    newest_state_deleted: [LOST],
    newest_state_erased: [LOST],
    folder_restored_to_yesterday: [LOST],
    number_reused: [LOST],
    hint_names_a_later_state: [LOST],
    hint_names_a_later_file: [LOST],
    state_written_again: [REPLACED],
    metadata_folder_gone: [MISSING],
    newest_state_emptied: [MISSING],
    current_snapshot_absent: [MISSING],
    append_drops_files_of_its_parent: [("lost_commit", "critical")],
    update_lost: [("lost_commit", "critical")],
    pointer_lost: [("lost_commit", "critical")],
    counts_not_met: [("incomplete_commit", "error")],
    manifest_listed_twice: [("duplicate_entry", "error")],
    manifest_overwritten: [("content_mismatch", "critical"), *[("duplicate_entry", "error")] * 2, REPLACED],
    rewrite_changes_rows: [("rows_changed_by_rewrite", "error")],
    overwrite_removes_nothing: [("ineffective_removal", "warning")],
    two_overwrites_of_one_state: [("ineffective_removal", "warning")],
    batch_committed_twice: [("duplicate_commit", "warning")],
    checkpoint_committed_twice: [("duplicate_commit", "warning")],
    delta_is_ahead: [("stale_pointer", "warning")],
    xtable_is_behind: [("stale_pointer", "warning")],
    hint_lags: [("stale_pointer", "warning")],
    untouched: [],
    converted_by_uniform: [],
    checkpoints_in_turn: [],
    checkpoint_in_two_snapshots: [],
    compacted: [],
    overwritten: [],
    appended: [],
    rolled_back: [],
    replaced_without_rows: [],
    replaced_by_an_old_writer: [],
    branched: [],
    old_states_deleted: [],
    hint_is_empty: [],
    created_again: [],
    race_lost: [],
    race_undecided: [],
    race_undecided_and_file_lost: [("dropped", "critical")],
    race_undecided_and_cleaned_up: [],
    race_undecided_and_shared_manifest_lost: [LOST],
    metadata_of_the_new_table_erased: [LOST],
    metadata_of_the_new_table_deleted: [LOST],
    old_table_goes_on: [LOST],
    new_table_goes_on: [],
}
AUDITED_AFTER_ANOTHER_TABLE: tuple[Fate, ...] = (
    metadata_of_the_new_table_erased,
    metadata_of_the_new_table_deleted,
    old_table_goes_on,
    new_table_goes_on,
)
"""Fates of tables that were replaced by another one before the first audit."""
IN_SOAK = {
    *(
        newest_state_erased,
        hint_names_a_later_file,
        current_snapshot_absent,
        manifest_listed_twice,
        race_lost,
    ),
    *(overwrite_removes_nothing, untouched, checkpoints_in_turn, overwritten, appended, hint_is_empty),
    *(
        metadata_of_the_new_table_erased,
        metadata_of_the_new_table_deleted,
        compacted,
        checkpoint_in_two_snapshots,
    ),
}
"""Fates that differ from another one only in position, writer or spelling; the long tests have them."""
CASES = [
    pytest.param(fate, id=fate.__name__, marks=[pytest.mark.soak] if fate in IN_SOAK else [])
    for fate in FATES
]
AUDITED_ONCE_MORE = {
    *(
        newest_state_deleted,
        folder_restored_to_yesterday,
        state_written_again,
        metadata_folder_gone,
        update_lost,
    ),
    *(counts_not_met, manifest_overwritten, batch_committed_twice, hint_lags, race_undecided),
    *(race_undecided_and_file_lost, old_table_goes_on, created_again),
    *(rewrite_changes_rows, two_overwrites_of_one_state),
}
"""Fates of the third audit: at least one of each kind of finding. The long tests have the others as well."""


def cases(few: Collection[Fate]) -> list[Any]:
    """All fates; those beyond these few are long tests."""
    return [
        pytest.param(fate, id=fate.__name__, marks=[] if fate in few else [pytest.mark.soak])
        for fate in FATES
    ]


@dataclass(frozen=True)
class Nights:
    """Findings above info and coverage, by table, of the audit after the fates and of the one after that.

    Before the last one the file of `newest_state_deleted` was put back.
    """

    after: dict[str, list[dict[str, Any]]]
    last: dict[str, list[dict[str, Any]]]
    leftover: dict[str, str]
    remarks: dict[str, str]
    past: list[dict[str, Any]]
    """Findings above info of the tables of `lay_changed_since_a_report`, by an audit of that time."""
    present: list[dict[str, Any]]
    """The same by the next audit."""


CHANGED_SINCE = {"recreated": "iceberg", "expired": "iceberg", "cleaned": "delta"}
"""Formats of the tables that were changed after a report."""


def lay_changed_since_a_report(tables: IcebergLake, shop: Shop) -> datetime:
    """Tables of two formats, and a report of yesterday, whose time is returned.

    Since then snapshots expired and a log was cleaned. Before it, a table was created again.
    """
    for name in ("recreated", "expired"):
        tables.table(name)
    Orders(tables, "recreated").table.append(rows(8000))
    created_again(Orders(tables, "recreated"))
    shop.write("cleaned", commits=2, days=("2026-11-01",), rows=4)
    age_all(shop.bucket, timedelta(days=2))
    day = datetime.now(UTC) - timedelta(days=1)
    shop.take_inventory(at=day, all_versions=True)
    expired = Orders(tables, "expired")
    old = expired.table.metadata.snapshots
    expired.table.append(rows(9000))
    expired.table.maintenance.expire_snapshots().by_id(old[0].snapshot_id).by_id(old[1].snapshot_id).commit()
    for each in old:
        tables.drop(each.manifest_list.removeprefix(f"s3://{shop.bucket}/"))
    shop.write("cleaned", commits=1, days=("2026-11-01",), rows=4)
    DeltaTable(f"s3://{shop.bucket}/warehouse/cleaned", storage_options=shop.options).create_checkpoint()
    for version in (0, 1):
        tables.drop(f"warehouse/cleaned/_delta_log/{version:020}.json")
    return day


def entries(bucket: str, formats: dict[str, str]) -> list[str]:
    """Entries of the lake file."""
    return [
        f"- {{name: {name}, location: 's3://{bucket}/warehouse/{name}', manifests: [{{kind: {kind}}}]}}"
        for name, kind in formats.items()
    ]


def findings_above_info(lake: Lake, run: str) -> list[dict[str, Any]]:
    return [row for row in rows_of(results_of(lake).findings(run)) if row["severity"] != "info"]


def lay_fates(tables: IcebergLake, fates: Sequence[Fate]) -> None:
    """A table for each of these, as it was before it met its fate."""
    tables.table("template")
    tables.copy("template", *(fate.__name__ for fate in fates))
    time.sleep(3.1)  # more than a clock's step: the other table is younger
    for fate in AUDITED_AFTER_ANOTHER_TABLE:
        if fate in fates:
            replaced_by_another_table(Orders(tables, fate.__name__))


@pytest.fixture(scope="module")
def nights(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Nights:
    long, bucket, folder = includes_soak(request), new_bucket(aws), tmp_path_factory.mktemp("lineage")
    fates = [fate for fate in FATES if long or fate not in IN_SOAK]
    more = [fate.__name__ for fate in fates if long or fate in AUDITED_ONCE_MORE]
    tables, shop = IcebergLake(aws.s3, s3, bucket), Shop(aws.s3, s3, bucket)
    formats = {fate.__name__: "iceberg" for fate in fates}
    day = lay_changed_since_a_report(tables, shop)
    lake = shop.lake(folder, tables=entries(bucket, CHANGED_SINCE))
    audited(lake, run_id="past", as_of=day + timedelta(hours=1))
    lay_fates(tables, fates)
    shop.take_inventory(all_versions=True)
    lake = shop.lake(folder, tables=entries(bucket, CHANGED_SINCE | formats))
    audited(lake, run_id="before")
    past, present = (findings_above_info(lake, run) for run in ("past", "before"))
    assert {row["table_name"] for row in rows_of(results_of(lake).findings("before"))} <= {*CHANGED_SINCE}
    lake = shop.lake(folder, tables=entries(bucket, formats))
    deleted = Orders(tables, "newest_state_deleted").states()[-1]
    for fate in fates:
        fate(Orders(tables, fate.__name__))
    shop.take_inventory(all_versions=True)
    audited(lake, run_id="after")
    Orders(tables, "newest_state_deleted").put_back(deleted)
    shop.take_inventory(all_versions=True)
    audited(lake, run_id="last", tables=() if long else tuple(more))
    after, last = (findings_by_table(lake, run, formats) for run in ("after", "last"))
    content = (row for row in results_of(lake).coverage("after") if row["axis"] == "content")
    remarks = {row["table_name"]: row["reason"] for row in content if row["status"] == "complete"}
    return Nights(after, last, leftover_status(lake, "after"), remarks, past, present)


def new_bucket(aws: Aws) -> str:
    """A bucket that keeps versions."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.mark.parametrize("fate", cases(FATES.keys() - IN_SOAK))
def test_only_a_lost_state_is_a_finding(nights: Nights, fate: Fate) -> None:
    found = nights.after[fate.__name__]
    assert kinds(found) == FATES[fate], [row["explanation"] for row in found]


def test_files_of_a_commit_that_may_have_lost_its_race_are_undecided(nights: Nights) -> None:
    assert kinds(nights.last["race_undecided"]) == []
    assert kinds(nights.last["race_undecided_and_file_lost"]) == [("dropped", "critical")]


def kinds(found: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((row["kind"], row["severity"]) for row in found)


@pytest.mark.parametrize(
    "fate",
    [each for each in cases(FATES.keys() - IN_SOAK) if {LOST, REPLACED} & {*FATES[each.values[0]]}],
)
def test_no_file_is_called_unused_while_a_state_is_lost(nights: Nights, fate: Fate) -> None:
    assert nights.leftover[fate.__name__] == "partial"


def test_the_lost_state_is_reported_with_its_files_and_the_version_to_restore(nights: Nights) -> None:
    (row,) = nights.after["newest_state_deleted"]
    assert "/metadata/00002-" in row["key"]
    assert (row["files"], row["rows_at_stake"], row["recoverable"]) == (2, 20, "yes")
    assert row["recovery_version_id"]
    assert "only version 2 of the table lists 00000-" in row["explanation"]


def test_a_main_without_a_snapshot_is_a_loss_or_is_named(nights: Nights) -> None:
    """The files of retained snapshots are never unused; where nothing shows a loss, the coverage says what is odd."""
    (row,) = nights.after["pointer_lost"]
    assert (row["files"], row["rows_at_stake"], row["recoverable"]) == (6, 60, "unknown")
    assert "names no current snapshot: query engines read an empty table" in row["explanation"]
    assert nights.leftover["pointer_lost"] == "partial"
    for name in ("replaced_without_rows", "replaced_by_an_old_writer"):
        assert nights.leftover[name] == "complete"
        assert "main has no current snapshot" in nights.remarks[name]
    assert nights.remarks["branched"] is None


def test_a_table_that_is_missing_is_named_with_its_last_state(nights: Nights) -> None:
    (row,) = nights.after["metadata_folder_gone"]
    assert (row["subject"], row["files"], row["table_version"], row["recoverable"]) == (
        "metadata_folder_gone", 4, 2, "yes",
    )  # fmt: skip
    assert "with 4 files" in row["explanation"]
    (emptied,) = nights.after["newest_state_emptied"]
    assert "the metadata.json before it is s3://" in emptied["explanation"]


@pytest.mark.parametrize("fate", cases(AUDITED_ONCE_MORE))
def test_a_loss_stays_open_until_its_state_is_back(nights: Nights, fate: Fate) -> None:
    expected = [] if fate is newest_state_deleted else FATES[fate]
    assert kinds(nights.last[fate.__name__]) == expected


def test_an_audit_of_the_past_reports_no_state_that_was_cleaned_up_or_belongs_to_another_table(
    nights: Nights,
) -> None:
    """Neither that audit nor the next one reports a loss."""
    past = nights.past
    assert {row["kind"] for row in past} <= {"unreadable_evidence"}, [row["explanation"] for row in past]
    assert {row["table_name"] for row in past} >= {"expired"}
    assert [row["explanation"] for row in nights.present] == []

"""Whole audits of tables whose newest state is lost, and of healthy ones that look alike.

The tables lie in one bucket that keeps versions and are audited twice: as they were, and after each met its fate.
"""

import io
import json
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, findings_by_table, includes_soak, leftover_status
from tests.builders.shop import Shop
from tests.conftest import Aws


@dataclass
class Orders:
    """A table of the shop, five commits old."""

    shop: Shop
    table: str

    @property
    def uri(self) -> str:
        return f"s3://{self.shop.bucket}/warehouse/{self.table}"

    def key(self, name: str) -> str:
        return f"warehouse/{self.table}/_delta_log/{name}"

    def commit(self, version: int) -> str:
        return self.key(f"{version:020}.json")

    def put(self, name: str, body: bytes) -> None:
        """A file of the log, or with `../` of the table."""
        key = self.key(name).replace("_delta_log/../", "")
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=body)

    def delete(self, *names: str) -> None:
        for name in names:
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=self.key(name))

    def erase(self, name: str) -> None:
        """Delete every version of a file of the log, so that no marker shows the deletion."""
        self.erase_key(self.key(name))

    def erase_key(self, key: str) -> None:
        listed = self.shop.s3.list_object_versions(Bucket=self.shop.bucket, Prefix=key)
        for one in (*listed.get("Versions", []), *listed.get("DeleteMarkers", [])):
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=one["Key"], VersionId=one["VersionId"])

    def added(self, version: int) -> list[str]:
        body = self.shop.s3.get_object(Bucket=self.shop.bucket, Key=self.commit(version))["Body"].read()
        return [action["add"]["path"] for line in body.splitlines() if "add" in (action := json.loads(line))]

    def put_back(self, name: str) -> None:
        """Remove the delete marker of a file."""
        (marker,) = self.shop.s3.list_object_versions(Bucket=self.shop.bucket, Prefix=self.key(name))[
            "DeleteMarkers"
        ]
        self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=self.key(name), VersionId=marker["VersionId"])

    def append(self) -> None:
        self.shop.write(self.table, commits=1, rows=4, days=("2026-11-10",))


def newest_commit_deleted(orders: Orders) -> None:
    orders.delete(f"{4:020}.json")


def newest_commit_erased(orders: Orders) -> None:
    orders.erase(f"{4:020}.json")


def two_newest_commits_erased(orders: Orders) -> None:
    orders.erase(f"{4:020}.json")
    orders.erase(f"{3:020}.json")


def version_number_reused(orders: Orders) -> None:
    """The newest commit is lost, and the next writer commits another one under its number."""
    orders.erase(f"{4:020}.json")
    orders.append()


def put_back_in_parts(orders: Orders) -> None:
    """The newest commit comes back from a backup, uploaded in parts: the same bytes have another ETag."""
    key = orders.commit(4)
    body = orders.shop.s3.get_object(Bucket=orders.shop.bucket, Key=key)["Body"].read()
    orders.erase(f"{4:020}.json")
    at: Any = {"Bucket": orders.shop.bucket, "Key": key}
    upload = at | {"UploadId": orders.shop.s3.create_multipart_upload(**at)["UploadId"]}
    part = orders.shop.s3.upload_part(**upload, PartNumber=1, Body=body)
    done: Any = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    orders.shop.s3.complete_multipart_upload(**upload, MultipartUpload=done)


def hint_names_a_later_version(orders: Orders) -> None:
    DeltaTable(orders.uri, storage_options=orders.shop.options).create_checkpoint()
    orders.erase(f"{4:020}.json")
    orders.erase(f"{4:020}.checkpoint.parquet")


def checksum_above_the_log(orders: Orders) -> None:
    orders.put(f"{5:020}.crc", json.dumps({"numFiles": 12, "tableSizeBytes": 99}).encode())


def hint_is_empty(orders: Orders) -> None:
    orders.put("_last_checkpoint", b"")


def hint_names_a_checkpoint_that_is_gone(orders: Orders) -> None:
    DeltaTable(orders.uri, storage_options=orders.shop.options).create_checkpoint()
    orders.erase(f"{4:020}.checkpoint.parquet")


def checkpoint_lacks_files(orders: Orders) -> None:
    """Readers begin at a checkpoint that lists two files less than the commits; another commit follows."""
    _with_rows_of_checkpoint(
        orders, lambda rows: rows.filter(pc.or_(pc.is_null(rows["add"]), _every_other(rows)))
    )
    orders.append()


def _every_other(rows: pa.Table) -> pa.Array:
    return pa.array([number % 2 == 0 for number in range(rows.num_rows)])


def _with_rows_of_checkpoint(orders: Orders, change: Callable[[pa.Table], pa.Table]) -> None:
    DeltaTable(orders.uri, storage_options=orders.shop.options).create_checkpoint()
    name = f"{4:020}.checkpoint.parquet"
    body = orders.shop.s3.get_object(Bucket=orders.shop.bucket, Key=orders.key(name))["Body"].read()
    written = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(body))), written)
    orders.put(name, written.getvalue())


def checkpoint_of_an_unchanged_state_loses_files(orders: Orders) -> None:
    """Keep the newest commit; clean up the commits before it and the hint that counts the checkpoint."""
    _with_rows_of_checkpoint(
        orders, lambda rows: rows.filter(pc.or_(pc.is_null(rows["add"]), _every_other(rows)))
    )
    for name in ("_last_checkpoint", *(f"{version:020}.json" for version in range(4))):
        orders.erase(name)


def cleaned_up(orders: Orders) -> None:
    checkpointed(orders)
    for version in range(4):
        orders.erase(f"{version:020}.json")


def checkpointed_and_appended(orders: Orders) -> None:
    checkpointed(orders)
    orders.append()


def log_deleted(orders: Orders) -> None:
    orders.delete(*(f"{version:020}.json" for version in range(5)))


def log_erased(orders: Orders) -> None:
    for version in range(5):
        orders.erase(f"{version:020}.json")


def table_erased(orders: Orders) -> None:
    log_erased(orders)
    for key in orders.shop.keys(orders.table):
        orders.erase_key(key)


def log_torn(orders: Orders) -> None:
    """Leave nothing below the newest commit from which a state could be rebuilt."""
    for version in range(4):
        orders.erase(f"{version:020}.json")


def untouched(orders: Orders) -> None:
    pass


def appended(orders: Orders) -> None:
    orders.append()


def checkpointed(orders: Orders) -> None:
    DeltaTable(orders.uri, storage_options=orders.shop.options).create_checkpoint()


def restored(orders: Orders) -> None:
    """RESTORE to version 1, written by hand: delta-rs holds Python's lock while it restores."""
    removed = [path for version in (2, 3, 4) for path in orders.added(version)]
    actions = [
        {"commitInfo": {"operation": "RESTORE"}},
        *({"remove": {"path": p, "dataChange": True}} for p in removed),
    ]
    orders.put(f"{5:020}.json", "\n".join(map(json.dumps, actions)).encode())


def created_again(orders: Orders) -> None:
    """The table is dropped whole and another one, with fewer versions, is created in its place."""
    for key in (*orders.shop.keys(orders.table), *orders.shop.keys(orders.table, ending=".json")):
        orders.shop.s3.delete_object(Bucket=orders.shop.bucket, Key=key)
    listed = orders.shop.s3.list_objects_v2(Bucket=orders.shop.bucket, Prefix=f"warehouse/{orders.table}/")
    for one in listed.get("Contents", []):
        orders.shop.s3.delete_object(Bucket=orders.shop.bucket, Key=one["Key"])
    write_deltalake(
        orders.uri, pa.table({"day": ["2026-11-10"], "amount": [1]}), storage_options=orders.shop.options
    )


def converted(orders: Orders, settings: dict[str, str], properties: dict[str, str], at: datetime) -> None:
    """Version 5 says that the table is converted; the Iceberg metadata beside the log is written by hand."""
    body = orders.shop.s3.get_object(Bucket=orders.shop.bucket, Key=orders.commit(0))["Body"].read()
    (changed,) = (action for line in body.splitlines() if "metaData" in (action := json.loads(line)))
    changed["metaData"]["configuration"] = settings
    orders.put(f"{5:020}.json", json.dumps(changed).encode())
    at_ms = int(at.timestamp() * 1000)
    metadata = {
        "format-version": 2, "table-uuid": str(uuid.uuid4()), "location": orders.uri, "last-updated-ms": at_ms,
        "current-snapshot-id": 1, "properties": properties,
        "snapshots": [
            {"snapshot-id": 1, "timestamp-ms": at_ms, "manifest-list": f"{orders.uri}/metadata/snap-1-0.avro"}
        ],
    }  # fmt: skip
    orders.put(f"../metadata/00001-{uuid.uuid4()}.metadata.json", json.dumps(metadata).encode())


BY_UNIFORM = {"delta.universalFormat.enabledFormats": "iceberg"}
SYNCED = datetime(2026, 11, 1, tzinfo=UTC)


def by_xtable() -> dict[str, str]:
    return {"XTABLE_METADATA": json.dumps({"lastInstantSynced": f"{SYNCED}", "sourceTableFormat": "ICEBERG"})}


def iceberg_side_is_behind(orders: Orders) -> None:
    converted(orders, BY_UNIFORM, {"delta-version": "3"}, SYNCED)


def iceberg_side_is_level(orders: Orders) -> None:
    converted(orders, BY_UNIFORM, {"delta-version": "5"}, SYNCED)


def delta_side_is_behind(orders: Orders) -> None:
    converted(orders, by_xtable(), {}, SYNCED + timedelta(days=1))


def delta_side_is_level(orders: Orders) -> None:
    converted(orders, by_xtable(), {}, SYNCED)


def with_another_id(orders: Orders) -> None:
    """CREATE OR REPLACE: version 5 of the same log has another table id."""
    body = orders.shop.s3.get_object(Bucket=orders.shop.bucket, Key=orders.commit(0))["Body"].read()
    (changed,) = (action for line in body.splitlines() if "metaData" in (action := json.loads(line)))
    changed["metaData"]["id"] = str(uuid.uuid4())
    removed = [{"remove": {"path": path, "dataChange": True}} for path in orders.added(4)]
    orders.put(f"{5:020}.json", "\n".join(map(json.dumps, [changed, *removed])).encode())


def version_with_the_new_id_erased(orders: Orders) -> None:
    orders.erase(f"{5:020}.json")


def version_with_the_new_id_deleted(orders: Orders) -> None:
    orders.delete(f"{5:020}.json")


def number_of_the_new_id_reused(orders: Orders) -> None:
    """Version 5 is lost, and writers go on with the old id from version 4."""
    orders.erase(f"{5:020}.json")
    orders.append()
    orders.append()


def new_id_gone_and_log_copied_without_its_start(orders: Orders) -> None:
    """The log begins with a checkpoint, and all of its files are younger than version 5 was."""
    orders.erase(f"{5:020}.json")
    checkpointed(orders)
    body = orders.shop.s3.get_object(Bucket=orders.shop.bucket, Key=orders.commit(4))["Body"].read()
    for version in range(5):
        orders.erase(f"{version:020}.json")
    orders.put(f"{4:020}.json", body)


def new_id_appended(orders: Orders) -> None:
    orders.append()


MISSING = ("table_missing", "critical")
BEHIND = ("stale_pointer", "warning")
LOST, REPLACED = ("missing_metadata", "critical"), ("overwritten_commit", "critical")
Fate = Callable[[Orders], None]
FATES: dict[Fate, list[tuple[str, str]]] = {
    newest_commit_deleted: [LOST],
    newest_commit_erased: [LOST],
    two_newest_commits_erased: [LOST],
    version_number_reused: [REPLACED],
    hint_names_a_later_version: [LOST],
    checksum_above_the_log: [LOST],
    hint_is_empty: [("missing_metadata", "warning")],
    hint_names_a_checkpoint_that_is_gone: [("missing_metadata", "warning")],
    checkpoint_lacks_files: [LOST],
    checkpoint_of_an_unchanged_state_loses_files: [LOST],
    log_deleted: [MISSING],
    log_erased: [MISSING],
    table_erased: [MISSING],
    log_torn: [MISSING],
    put_back_in_parts: [],
    untouched: [],
    appended: [],
    checkpointed: [],
    checkpointed_and_appended: [],
    cleaned_up: [],
    restored: [],
    created_again: [],
    iceberg_side_is_behind: [BEHIND],
    iceberg_side_is_level: [],
    delta_side_is_behind: [BEHIND],
    delta_side_is_level: [],
    with_another_id: [],
    version_with_the_new_id_erased: [LOST],
    version_with_the_new_id_deleted: [LOST],
    number_of_the_new_id_reused: [REPLACED],
    new_id_gone_and_log_copied_without_its_start: [],
    new_id_appended: [],
}
"""Changes of a table, and the findings above info."""
AUDITED_WITH_ANOTHER_ID: tuple[Fate, ...] = (
    version_with_the_new_id_erased,
    version_with_the_new_id_deleted,
    number_of_the_new_id_reused,
    new_id_gone_and_log_copied_without_its_start,
    new_id_appended,
)
"""Fates of tables that got another id before the first audit."""
IN_SOAK = {
    *(two_newest_commits_erased, hint_names_a_checkpoint_that_is_gone, untouched, appended, checkpointed),
    *(version_with_the_new_id_deleted, table_erased),
}
"""Fates that differ from another one only in position or number, or end as another one begins; long tests."""
AUDITED_ONCE_MORE = {
    *(
        newest_commit_deleted,
        newest_commit_erased,
        version_number_reused,
        hint_is_empty,
        checkpoint_lacks_files,
    ),
    *(log_deleted, log_erased, iceberg_side_is_behind, number_of_the_new_id_reused, created_again),
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

    Before the last one the commit of `newest_commit_deleted` was put back.
    """

    after: dict[str, list[dict[str, Any]]]
    last: dict[str, list[dict[str, Any]]]
    leftover: dict[str, str]


DISCOVERED = ("stays", "loses_its_log", "dropped")
"""Tables that the lake file does not name."""


def lay_tables(shop: Shop, fates: Sequence[Fate]) -> None:
    """A table for each of these, as it was before it met its fate, and the tables to discover."""
    shop.write("template", commits=5, rows=4, days=("2026-11-10",))
    shop.copy("template", *(fate.__name__ for fate in fates))
    for fate in AUDITED_WITH_ANOTHER_ID:
        if fate in fates:
            with_another_id(Orders(shop, fate.__name__))
    for table in DISCOVERED:
        shop.write(f"discovered/{table}", commits=1, rows=4, days=("2026-11-10",))


def lake_of(shop: Shop, folder: Path, fates: Sequence[Fate]) -> Lake:
    """The lake file: tables of these fates by name, and others that are discovered."""
    place = f"s3://{shop.bucket}/warehouse"
    named = [
        f"- {{name: {fate.__name__}, location: '{place}/{fate.__name__}', manifests: [{{kind: delta}}]}}"
        for fate in fates
    ]
    return shop.lake(
        folder, tables=[*named, f"- discover: {{from: inventory, under: ['{place}/discovered/']}}"]
    )


def change_discovered(shop: Shop) -> None:
    """One of them loses its log, one is dropped with all of its files."""
    prefix = "warehouse/discovered/dropped/"
    Orders(shop, "discovered/loses_its_log").erase(f"{0:020}.json")
    for one in shop.s3.list_objects_v2(Bucket=shop.bucket, Prefix=prefix)["Contents"]:
        Orders(shop, "discovered/dropped").erase_key(one["Key"])


@pytest.fixture(scope="module")
def nights(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Nights:
    long, bucket = includes_soak(request), f"test-{uuid.uuid4().hex[:12]}"
    fates = [fate for fate in FATES if long or fate not in IN_SOAK]
    more = tuple(fate.__name__ for fate in fates if fate in AUDITED_ONCE_MORE)
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = Shop(aws.s3, s3, bucket)
    lay_tables(shop, fates)
    shop.take_inventory(all_versions=True)
    lake = lake_of(shop, tmp_path_factory.mktemp("lineage"), fates)
    assert audited(lake, run_id="before").summary["findings"] == {}
    for fate in fates:
        fate(Orders(shop, fate.__name__))
    change_discovered(shop)
    shop.take_inventory(all_versions=True)
    audited(lake, run_id="after")
    Orders(shop, "newest_commit_deleted").put_back(f"{4:020}.json")
    shop.take_inventory(all_versions=True)
    audited(lake, run_id="last", tables=() if long else more)
    tables = [*(fate.__name__ for fate in fates), *DISCOVERED]
    after, last = (findings_by_table(lake, run, tables) for run in ("after", "last"))
    return Nights(after, last, leftover_status(lake, "after"))


@pytest.mark.parametrize("fate", cases(FATES.keys() - IN_SOAK))
def test_only_a_lost_state_is_a_finding(nights: Nights, fate: Fate) -> None:
    rows = nights.after[fate.__name__]
    assert [(row["kind"], row["severity"]) for row in rows] == FATES[fate], [
        row["explanation"] for row in rows
    ]


@pytest.mark.parametrize(
    "fate",
    [each for each in cases(FATES.keys() - IN_SOAK) if {LOST, REPLACED} & {*FATES[each.values[0]]}],
)
def test_no_file_is_called_unused_while_a_state_is_lost(nights: Nights, fate: Fate) -> None:
    assert nights.leftover[fate.__name__] == "partial"


def test_no_file_is_called_unused_if_the_table_may_have_been_created_again(nights: Nights) -> None:
    assert nights.leftover["new_id_gone_and_log_copied_without_its_start"] == "partial"
    assert nights.leftover["put_back_in_parts"] == "complete", "the same bytes were put there again"
    assert nights.leftover["created_again"] == nights.leftover["new_id_appended"] == "complete"


def test_the_lost_commit_is_reported_with_its_files_and_the_version_to_restore(nights: Nights) -> None:
    (row,) = nights.after["newest_commit_deleted"]
    assert row["key"].endswith(f"_delta_log/{4:020}.json")
    assert (row["files"], row["rows_at_stake"], row["recoverable"]) == (1, 4, "yes")
    assert row["recovery_version_id"]
    assert "only version 4 of the table lists part-" in row["explanation"]


@pytest.mark.parametrize("fate", cases(AUDITED_ONCE_MORE))
def test_a_loss_stays_open_until_its_state_is_back(nights: Nights, fate: Fate) -> None:
    expected = [] if fate is newest_commit_deleted else FATES[fate]
    assert [(row["kind"], row["severity"]) for row in nights.last[fate.__name__]] == expected


def test_a_missing_table_is_named_with_its_last_version_and_the_way_back(nights: Nights) -> None:
    (deleted,), (erased,) = nights.after["log_deleted"], nights.after["log_erased"]
    assert (deleted["subject_type"], deleted["subject"], deleted["table_version"]) == (
        "table",
        "log_deleted",
        4,
    )
    assert (deleted["files"], erased["files"]) == (5, 5)
    assert "read version 4 with 5 files" in deleted["explanation"]
    assert "older versions of its log's files can be restored" in deleted["explanation"]
    assert "the store keeps no older version" in erased["explanation"]


def test_a_discovered_table_that_lost_its_log_is_missing_and_one_that_was_dropped_whole_is_not(
    nights: Nights,
) -> None:
    kinds = {table: [row["kind"] for row in nights.after[table]] for table in DISCOVERED}
    assert kinds == {"stays": [], "loses_its_log": ["table_missing"], "dropped": []}


def test_a_checkpoint_that_lacks_files_is_named_with_the_rows_that_its_readers_miss(nights: Nights) -> None:
    (row,) = nights.after["checkpoint_lacks_files"]
    assert row["key"].endswith(f"_delta_log/{4:020}.checkpoint.parquet")
    assert (row["files"], row["rows_at_stake"]) in {(2, 8), (3, 12)}
    assert "in the commits up to version 4, but not in the checkpoint of version 4" in row["explanation"]


def test_a_state_that_lists_less_than_an_audit_counted_in_it_says_by_how_much(nights: Nights) -> None:
    (row,) = nights.after["checkpoint_of_an_unchanged_state_loses_files"]
    assert row["key"].endswith(f"_delta_log/{4:020}.json")
    assert (row["files"], row["recoverable"]) in {(2, "unknown"), (3, "unknown")}
    assert "counted 5 files in table version 4" in row["explanation"]

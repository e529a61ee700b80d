"""Whole audits of tables whose newest state a report of storage lists, and whose log has lost it since.

No audit has read the tables before, and the bucket keeps no versions: the report alone knows of the states.
"""

import itertools
import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, findings_by_table, leftover_status, results_of
from tests.builders.backdate import body_of, put
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.iceberg import BY_DAY, SCHEMA, IcebergLake, rows
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DAYS = ("2026-11-10",)


@dataclass
class Storage:
    """One bucket with tables of three formats, before and after the report."""

    shop: Shop
    ice: IcebergLake
    hudi: dict[str, HudiHistory] = field(default_factory=dict)

    def keys(self, prefix: str) -> list[str]:
        found = self.shop.s3.list_objects_v2(Bucket=self.shop.bucket, Prefix=f"warehouse/{prefix}")
        return sorted(each["Key"] for each in found.get("Contents", []))

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)

    def put(self, key: str, body: dict[str, Any]) -> None:
        key = f"warehouse/{key}"
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=json.dumps(body).encode())

    def append(self, table: str) -> None:
        self.shop.write(table, commits=1, rows=4, days=DAYS)

    def iceberg(self, table: str, appends: int = 3) -> None:
        uri = f"s3://{self.shop.bucket}/warehouse/{table}"
        made = self.ice.catalog.create_table(f"shop.{table}", SCHEMA, location=uri, partition_spec=BY_DAY)
        for number in range(appends):
            made.append(rows(number * 1000))

    def lose_snapshots(self, table: str, count: int) -> None:
        """Delete the newest metadata.json files and their manifest lists, so that only data files are left of them."""
        lists = {
            str(each.snapshot_id): each.manifest_list.rpartition("/")[2]
            for each in self.ice.catalog.load_table(f"shop.{table}").snapshots()[-count:]
        }
        keys = self.keys(f"{table}/metadata/")
        self.delete(*[key for key in keys if key.endswith(".metadata.json")][-count:])
        self.delete(*(key for key in keys if key.rpartition("/")[2] in {*lists.values()}))


def commit_lost(storage: Storage, table: str) -> None:
    storage.delete(f"warehouse/{table}/_delta_log/{3:020}.json")


def two_commits_lost(storage: Storage, table: str) -> None:
    storage.delete(*(f"warehouse/{table}/_delta_log/{number:020}.json" for number in (2, 3)))


def untouched(storage: Storage, table: str) -> None:
    """Nothing happens."""


def appended(storage: Storage, table: str) -> None:
    storage.append(table)


def created_again(storage: Storage, table: str) -> None:
    """Somebody drops the table with its files, and another one with lower versions takes its place."""
    storage.delete(*storage.keys(f"{table}/"))
    storage.append(table)


def metadata_lost(storage: Storage, table: str) -> None:
    storage.lose_snapshots(table, 1)


def two_metadata_lost(storage: Storage, table: str) -> None:
    storage.lose_snapshots(table, 2)


def another_snapshot(storage: Storage, table: str) -> None:
    storage.ice.catalog.load_table(f"shop.{table}").append(rows(9000))


def purged_and_created_again(storage: Storage, table: str) -> None:
    storage.delete(*storage.keys(f"{table}/"))
    storage.ice.catalog.drop_table(f"shop.{table}")
    storage.iceberg(table, appends=1)


def instant_lost(storage: Storage, table: str) -> None:
    history = storage.hudi[table]
    storage.delete(*storage.keys(f"{history.timeline.removeprefix('warehouse/')}/{max(history.instants)}"))


def rolled_back(storage: Storage, table: str) -> None:
    storage.hudi[table].take_back()


def created_again_by_a_clock_behind(storage: Storage, table: str) -> None:
    """Somebody drops the table, and the instants of the next one are lower, as the local time of its writer is."""
    storage.hudi[table].create_again()


def restored_without_its_newest_write(storage: Storage, table: str) -> None:
    """All files are written again from a copy that lacks the newest instant, so they are younger than the report."""
    instant_lost(storage, table)
    for key in storage.keys(f"{table}/"):
        put(storage.shop.bucket, key, body_of(storage.shop.bucket, key))


def side_loses_metadata(storage: Storage, table: str) -> None:
    """The other format at the root, which the lake file does not name, loses its newest state."""
    storage.lose_snapshots(table, 1)


def side_has_a_hint_above(storage: Storage, table: str) -> None:
    storage.put(f"{table}/_delta_log/_last_checkpoint", {"version": 4, "size": 5})


Fate = Callable[[Storage, str], None]
LOST = [("missing_metadata", "critical")]
DELTA: dict[Fate, tuple[list[tuple[str, str]], str]] = {
    commit_lost: (LOST, "partial"),
    two_commits_lost: (LOST, "partial"),
    untouched: ([], "complete"),
    appended: ([], "complete"),
    created_again: ([], "complete"),
}
ICEBERG: dict[Fate, tuple[list[tuple[str, str]], str]] = {
    metadata_lost: ([], "partial"),
    two_metadata_lost: (LOST, "partial"),
    untouched: ([], "complete"),
    another_snapshot: ([], "complete"),
    purged_and_created_again: ([], "complete"),
}
HUDI: dict[Fate, tuple[list[tuple[str, str]], str]] = {
    instant_lost: (LOST, "partial"),
    untouched: ([], "complete"),
    rolled_back: ([], "complete"),
    created_again_by_a_clock_behind: ([], "complete"),
    restored_without_its_newest_write: (LOST, "partial"),
}
DELTA_WITH_ICEBERG: dict[Fate, tuple[list[tuple[str, str]], str]] = {
    side_loses_metadata: ([], "partial"),
    untouched: ([], "complete"),
}
ICEBERG_WITH_DELTA: dict[Fate, tuple[list[tuple[str, str]], str]] = {
    side_has_a_hint_above: ([], "partial"),
    untouched: ([], "complete"),
}
BY_FORMAT = {
    "delta": DELTA,
    "iceberg": ICEBERG,
    "hudi": HUDI,
    "delta_iceberg": DELTA_WITH_ICEBERG,
    "iceberg_delta": ICEBERG_WITH_DELTA,
}
"""By format (of the lake file, and of the side) the fates with findings and the status of the leftover axis."""
TABLES = [(f"{kind}_{fate.__name__}", kind, fate) for kind, fates in BY_FORMAT.items() for fate in fates]
EACH = [(f"{kind}_{fate.__name__}", *met) for kind, fates in BY_FORMAT.items() for fate, met in fates.items()]


@dataclass(frozen=True)
class Night:
    results: Results
    findings: dict[str, list[dict[str, Any]]]
    leftover: dict[str, str]
    reasons: dict[str, str]
    undecided: dict[str, int]


def _write_table(storage: Storage, table: str, kind: str) -> str:
    """The table's entry of the lake file, once what the templates do not have of it is laid."""
    if kind == "iceberg_delta":
        storage.put(f"{table}/data/stray.parquet", {"of": "nobody"})
    if kind == "hudi":
        numbers = itertools.count(len(storage.hudi) * 10)
        age = timedelta(days=3) if "restored" in table else timedelta(minutes=50)
        history = HudiHistory(storage.shop, table, random.Random(1), numbers, 1, age)
        storage.hudi[table] = history
        for act in (history.begin, history.insert, history.insert):
            act()
    uri, manifest = f"s3://{storage.shop.bucket}/warehouse/{table}", kind.partition("_")[0]
    return f"- {{name: {table}, location: '{uri}', manifests: [{{kind: {manifest}}}]}}"


@pytest.fixture(scope="module")
def night(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Night:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    shop = Shop(aws.s3, s3, bucket)
    storage = Storage(shop, IcebergLake(aws.s3, s3, bucket))
    shop.write("template", commits=4, rows=4, days=DAYS)
    shop.copy("template", *(table for table, kind, _ in TABLES if "delta" in kind))
    storage.iceberg("iceberg_template")
    storage.ice.copy("iceberg_template", *(table for table, kind, _ in TABLES if "iceberg" in kind))
    entries = [_write_table(storage, table, kind) for table, kind, _ in TABLES]
    shop.take_inventory()
    for table, _, fate in TABLES:
        fate(storage, table)
    lake = shop.lake(tmp_path_factory.mktemp("reported"), tables=entries)
    audited(lake, run_id="night")
    results = results_of(lake)
    coverage = [row for row in results.coverage("night") if row["axis"] == "leftover"]
    return Night(
        results,
        findings_by_table(lake, "night", [table for table, *_ in EACH]),
        leftover_status(lake, "night"),
        {row["table_name"]: row["reason"] or "" for row in coverage},
        {row["table_name"]: row["undecided"] for row in coverage},
    )


@pytest.mark.parametrize(
    ("table", "findings", "status"), EACH, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_state_that_a_report_lists_and_the_log_lacks(
    night: Night, table: str, findings: list[tuple[str, str]], status: str
) -> None:
    rows = [row for row in night.findings[table] if row["axis"] != "leftover"]
    assert [(row["kind"], row["severity"]) for row in rows] == findings, [row["explanation"] for row in rows]
    assert night.leftover[table] == status, night.reasons[table]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("delta_commit_lost", "now the file is missing"),
        ("iceberg_metadata_lost", "now the file is missing"),
        ("hudi_instant_lost", "now the file is missing"),
        (
            "delta_iceberg_side_loses_metadata",
            "by its metadata: a report of storage lists the file of table version 3",
        ),
        ("iceberg_delta_side_has_a_hint_above", "`_last_checkpoint` names version 4"),
    ],
)
def test_the_reason_names_the_state_and_unused_files_are_undecided(
    night: Night, table: str, reason: str
) -> None:
    assert reason in night.reasons[table]
    assert night.undecided[table] > 0


def test_no_file_of_a_lost_state_is_called_unused(night: Night) -> None:
    unused = {row["table_name"] for row in rows_of(night.results.leftover_files("night"))}
    assert "iceberg_delta_untouched" in unused
    assert unused.isdisjoint(table for table, _, status in EACH if status == "partial")

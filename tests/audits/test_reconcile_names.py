"""Items of EMRFS and s3mper: planned, repaired and restored; items that only their own tools can write stay."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from lakeaudit.config import load_lake
from lakeaudit.reconcile.stores.name_store import NameStore
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders import name_stores as built
from tests.builders import s3guard
from tests.builders.iam_policies import with_printed_policy
from tests.builders.name_stores import Item
from tests.builders.repair_plans import RepairPlans, actions_of
from tests.builders.repair_rows import ledger_row, planned
from tests.conftest import Aws

OLD = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
A, B, C = (f"warehouse/orders/{name}.parquet" for name in "abc")
KEYS = {"a": A, "b": B, "c": C}


class NamedStore:
    """A bucket with a plain table `orders`, and the table of a metadata store that records names."""

    def __init__(self, kind: str, aws: Aws, endpoint: Endpoint, bucket: str, folder: Path) -> None:
        self.kind, self.aws, self.bucket, self.table = kind, aws, bucket, f"{bucket}-{kind}"
        path = folder / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
            f"s3: {{endpoint: '{endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: 's3://{bucket}/warehouse'}}]\n"
            f"metastores: [{{kind: {kind}, table: {self.table}}}]\n"
            f"tables: [{{name: orders, location: 's3://{bucket}/warehouse/orders'}}]\n"
        )
        self.mending = RepairPlans(load_lake(path, {}), folder)

    def create(self, *items: Item) -> None:
        built.create_table(self.aws.dynamodb, self.table, built.KEYS[self.kind], items)

    def item(self, key: str, **given: Any) -> Item:
        if self.kind == "emrfs":
            return built.emrfs(self.bucket, key, OLD, **given)
        return built.s3mper(self.bucket, key, OLD, **given)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.aws.s3.put_object(Bucket=self.bucket, Key=key, Body=b"rows")

    def items(self) -> list[Item]:
        found: Any = self.aws.dynamodb.scan(TableName=self.table, ConsistentRead=True)["Items"]
        return sorted(found, key=lambda item: [str(item[name]) for name in built.KEYS[self.kind]])

    def plan(self, **kinds: str) -> list[Any]:
        rows = [ledger_row(kind, self.bucket, KEYS[name]) for name, kind in kinds.items()]
        return planned(self.mending, rows, allow=())


@pytest.fixture
def s3mper(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> NamedStore:
    """a has no row, b one that says deleted, of c storage has nothing."""
    made = NamedStore("s3mper", aws, s3, bucket, tmp_path)
    made.put(A, B)
    made.create(made.item(B, deleted="true"), made.item(C), built.index(OLD, bucket, B))
    return made


@pytest.fixture
def emrfs(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> NamedStore:
    """The same in EMRFS's table."""
    made = NamedStore("emrfs", aws, s3, bucket, tmp_path)
    made.put(A, B)
    made.create(built.CONTROL, made.item(B, ttl=OLD + timedelta(days=3)), made.item(C))
    return made


def statuses(named: NamedStore) -> set[str]:
    return {row["status"] for row in actions_of(named.mending.lake)}


def granted_requests() -> set[str]:
    """Return the operations that the policy of entries grants."""
    policy = json.loads((Path(__file__).parents[2] / "conf" / "iam" / "reconcile-policy.json").read_text())
    (mends,) = [each for each in policy["Statement"] if each["Sid"] == "MendEntries"]
    return {*mends["Action"]}


@contextmanager
def recorded(requested: set[str]) -> Iterator[None]:
    """Add the operations on tables of DynamoDB that are requested while the block runs."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def record_call(self: Any, operation: str, given: dict[str, Any]) -> Any:
        if "TableName" in given or "RequestItems" in given:
            requested.add(f"dynamodb:{operation}")
        return call(self, operation, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", record_call)
        yield


@pytest.mark.usefixtures("own_clients")
def test_rows_of_s3mper_are_written_as_it_writes_them_and_taken_out_again(s3mper: NamedStore) -> None:
    """The policy of entries grants exactly the requests to the store."""
    before, requested = s3mper.items(), set[str]()
    with recorded(requested), with_printed_policy(s3mper.mending.folder / "lake.yaml"):
        steps = s3mper.plan(a="hidden", b="tombstoned", c="phantom")
        assert s3mper.mending.apply().exit_code == 0
    assert [step.action for step in steps] == ["put_name", "put_name", "remove_name"]
    items = s3mper.items()
    rows = {item["file"]["S"]: item for item in items if item["path"]["S"] != "epoch"}
    links = [item for item in items if item["path"]["S"] == "epoch" and "lakeaudit_plan" in item]
    assert set(rows) == {"a.parquet", "b.parquet"}
    for row in rows.values():
        assert set(row) == {"path", "file", "epoch", "lakeaudit_plan"}
        assert row["path"]["S"] == f"//{s3mper.bucket}/warehouse/orders"
        (link,) = [each for each in links if each["linkFile"] == row["file"]]
        assert link["linkPath"] == row["path"]
        assert link["file"]["S"].partition("-")[0] == row["epoch"]["N"]
    with recorded(requested), with_printed_policy(s3mper.mending.folder / "lake.yaml"):
        assert s3mper.mending.undo().exit_code == 0
    assert s3mper.items() == before
    assert requested == granted_requests()


def test_items_of_emrfs_are_only_taken_out_and_put_back_byte_by_byte(emrfs: NamedStore) -> None:
    before = emrfs.items()
    steps = emrfs.plan(a="hidden", b="tombstoned", c="phantom")
    assert [step.action for step in steps] == ["needs_person", "remove_name", "remove_name"]
    assert "only EMRFS can write its items: `emrfs import" in steps[0].evidence["why"]
    with with_printed_policy(emrfs.mending.folder / "lake.yaml"):
        assert emrfs.mending.apply().exit_code == 0
    assert emrfs.items() == [built.CONTROL]
    with with_printed_policy(emrfs.mending.folder / "lake.yaml"):
        assert emrfs.mending.undo().exit_code == 0
    assert emrfs.items() == before


def test_items_and_objects_that_changed_since_the_plan_stay(emrfs: NamedStore) -> None:
    emrfs.plan(b="tombstoned", c="phantom")
    emrfs.put(C)
    s3guard.put_items(emrfs.aws.dynamodb, emrfs.table, [emrfs.item(B) | {"counter": {"N": "9"}}])
    before = emrfs.items()
    emrfs.mending.apply()
    assert statuses(emrfs) == {"changed"}
    assert emrfs.items() == before


def test_an_object_that_goes_meanwhile_leaves_no_row_of_it(
    s3mper: NamedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replace = s3mper.items(), NameStore.replace
    s3mper.plan(a="hidden")

    def gone_meanwhile(self: NameStore, place: Any, seen: Any, wanted: Any) -> None:
        replace(self, place, seen, wanted)
        s3mper.aws.s3.delete_object(Bucket=s3mper.bucket, Key=A)

    monkeypatch.setattr(NameStore, "replace", gone_meanwhile)
    s3mper.mending.apply()
    assert s3mper.items() == before


@pytest.mark.parametrize("writes", [1, *(pytest.param(number, marks=pytest.mark.soak) for number in (0, 2))])
def test_killed_at_any_write_it_goes_on(
    s3mper: NamedStore, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, replace, before = [writes], NameStore.replace, s3mper.items()
    s3mper.plan(a="hidden", c="phantom")

    class Killed(BaseException):
        pass

    def dying(self: NameStore, place: Any, seen: Any, wanted: Any) -> None:
        is_canary = "lakeaudit-canary" in str((place, seen, wanted)) or wanted == built.index(
            OLD, s3mper.bucket, B
        )
        if not is_canary:
            if not left[0]:
                raise Killed
            left[0] -= 1
        replace(self, place, seen, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(NameStore, "replace", dying)
        with pytest.raises(Killed):
            s3mper.mending.apply()
    assert s3mper.mending.apply().exit_code == 0
    assert len(s3mper.items()) == len(before) + 1
    assert s3mper.mending.undo().exit_code == 0
    assert s3mper.items() == before


@pytest.mark.parametrize("kind", ["s3mper", "emrfs"])
def test_a_store_that_ignores_conditions_is_not_written_to(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: NamedStore = request.getfixturevalue(kind)
    before = named.items()
    named.plan(c="phantom")
    with monkeypatch.context() as patch:
        patch.setattr(NameStore, "_unchanged_condition", lambda *_: {})
        named.mending.apply()
    assert named.items() == before
    assert statuses(named) == {"needs_person"}


def test_what_storage_has_keys_below_keeps_its_item(s3mper: NamedStore) -> None:
    s3mper.put(f"{C}/inside.parquet")
    (step,) = s3mper.plan(c="phantom")
    assert step.action == "needs_person"
    assert step.evidence["why"].endswith("storage has keys below it")

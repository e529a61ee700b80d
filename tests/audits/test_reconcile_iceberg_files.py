"""Files that are lost for good are taken out of their Iceberg table by its REST catalog's own commit, and put back."""

import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog as Client
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from lakeaudit.evidence.manifest.iceberg import listed_file
from lakeaudit.reconcile.actions.catalogs import remove_iceberg_reference
from lakeaudit.reconcile.actions.catalogs.remove_iceberg_reference import RemoveIcebergReference
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.stores.iceberg_commits import why_not_committed_to
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.audits.test_iceberg_catalog import lake_of
from tests.builders.audits import audited
from tests.builders.iceberg import BY_SPARK, IcebergLake, lake_by_spark, rows, tables_of_spark
from tests.builders.repair_plans import RepairPlans, found_set
from tests.builders.repair_rows import ledger_row, planned
from tests.builders.rest_catalog import RestCatalog, served
from tests.conftest import Aws

ALLOW = ("remove_reference",)


@pytest.fixture
def server() -> Iterator[RestCatalog]:
    with served(RestCatalog()) as rest:
        yield rest


@pytest.fixture
def shop(aws: Aws, s3: Endpoint, bucket: str, server: RestCatalog) -> IcebergLake:
    """A table by day in a REST catalog, of four files of ten rows each."""
    made = IcebergLake(aws.s3, s3, bucket)
    server.tables["shop", "orders"] = made.table()
    return made


@pytest.fixture
def repair(shop: IcebergLake, server: RestCatalog, tmp_path: Path) -> RepairPlans:
    return RepairPlans(lake_of(shop, server, tmp_path, "orders"), tmp_path)


def table(shop: IcebergLake, server: RestCatalog) -> Table:
    """As another writer has it."""
    options = {
        "s3.endpoint": str(shop.endpoint.endpoint),
        "s3.access-key-id": "test",
        "s3.region": "us-east-1",
    }
    client = Client("other", uri=server.uri, **options, **{"s3.secret-access-key": "test"})
    found: Table = client.load_table("shop.orders")
    return found


def listed(shop: IcebergLake, server: RestCatalog) -> list[tuple[str, int]]:
    """Return keys and rows of the table's files as readers of Iceberg see them."""
    tasks = table(shop, server).scan().plan_files()
    prefix = f"s3://{shop.bucket}/"
    return sorted((each.file.file_path.removeprefix(prefix), each.file.record_count) for each in tasks)


def drop_files(shop: IcebergLake, number: int = 1) -> list[str]:
    keys = shop.keys()[:number]
    for key in keys:
        shop.drop(key)
    return keys


def steps(shop: IcebergLake, repair: RepairPlans, *keys: str, allow: tuple[str, ...] = ALLOW) -> list[Step]:
    given = [ledger_row("dropped", shop.bucket, key, rows_at_stake=10) for key in keys]
    return planned(repair, given, allow)


def test_an_iceberg_file_is_removed_and_put_back_by_audits(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    """Two files: two snapshots, both of which the undo takes back."""
    before = listed(shop, server)
    keys = drop_files(shop, 2)
    time.sleep(1.1)  # times of storage have whole seconds
    audited(repair.lake, live=True)
    repair.plan(io.StringIO())
    person = [json.loads(text) for text in repair.file.read_text().splitlines()[1:]]
    assert {row["action"] for row in person} == {"needs_person"}
    assert "`--allow remove_reference` removes it and its rows" in person[0]["evidence"]["why"]
    repair.plan(io.StringIO(), allow=ALLOW)
    planned_rows = [json.loads(text) for text in repair.file.read_text().splitlines()[1:]]
    assert {row["key"]: row["action"] for row in planned_rows} == dict.fromkeys(
        keys, "remove_iceberg_reference"
    )
    assert planned_rows[0]["evidence"]["matched_by"] == (
        "storage, which has no version of it: 10 rows are lost; older snapshots continue to list it"
    )

    assert repair.apply().exit_code == 0
    assert repair.statuses() == dict.fromkeys(keys, "applied")
    assert listed(shop, server) == [each for each in before if each[0] not in keys]
    audited(repair.lake, live=True)
    assert {kind for _, _, kind in found_set(repair.lake)} == {"dropped_history"}

    assert repair.undo().exit_code == 0
    assert listed(shop, server) == before


def test_another_commit_between_look_and_commit_comes_first(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    """The catalog refuses our commit: theirs stays, the file stays listed, and ours leaves no files."""
    (key,) = drop_files(shop)
    steps(shop, repair, key)
    before, begun = listed(shop, server), list[str]()

    def meanwhile(method: str, path: str, params: dict[str, str]) -> None:
        if method == "POST" and "add-snapshot" in params.get("body", "") and not begun:
            begun.append(path)
            table(shop, server).append(rows(5000))

    server.faults.append(meanwhile)
    assert repair.apply().exit_code == 3
    assert repair.statuses() == {key: "changed"}
    assert set(before) < set(listed(shop, server))
    newest = server.tables["shop", "orders"]
    assert isinstance(newest, Table)
    snapshots = newest.metadata.snapshots
    known = {m.manifest_path for each in snapshots for m in each.manifests(newest.io)}
    known |= {each.manifest_list for each in snapshots}
    assert {f"s3://{shop.bucket}/{each}" for each in shop.keys(".avro")} == known


def test_an_undo_upon_the_commit_of_another_is_refused(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    (key,) = drop_files(shop)
    steps(shop, repair, key)
    assert repair.apply().exit_code == 0
    table(shop, server).append(rows(5000))
    after = listed(shop, server)
    assert repair.undo().exit_code == 3
    assert (repair.statuses(), listed(shop, server)) == ({key: "kept"}, after)


def test_a_catalog_that_ignores_requirements_is_not_written_to(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    (key,) = drop_files(shop)
    steps(shop, repair, key)
    before, server.heeds = listed(shop, server), False
    assert repair.apply().exit_code == 3
    assert (repair.statuses(), listed(shop, server)) == ({key: "needs_person"}, before)


def test_a_commit_that_was_sent_twice_is_not_a_refusal(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    """A proxy sends the commit twice: the second one is refused, and the written files are kept."""
    (key,) = drop_files(shop)
    steps(shop, repair, key)
    keys = len(listed(shop, server))

    def twice(method: str, path: str, params: dict[str, str]) -> None:
        if method == "POST" and "add-snapshot" in params.get("body", ""):
            assert server.commit(path, params["body"])[0] == 200

    server.faults.append(twice)
    assert repair.apply().exit_code == 0
    assert (repair.statuses(), len(listed(shop, server))) == ({key: "applied"}, keys - 1)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("method", ["act", "take_back"])
def test_killed_after_a_commit_of_a_catalog(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    (key,) = drop_files(shop)
    before, real = listed(shop, server), getattr(RemoveIcebergReference, method)
    steps(shop, repair, key)

    def dying(*given: Any) -> None:
        real(*given)
        raise Killed

    if method == "take_back":
        repair.apply()
    with monkeypatch.context() as once:
        once.setattr(RemoveIcebergReference, method, dying)
        with pytest.raises(Killed):
            (repair.apply if method == "act" else repair.undo)()
    if method == "act":
        assert (repair.apply().exit_code, repair.statuses()) == (0, {key: "applied"})
    assert repair.undo().exit_code == 0
    assert listed(shop, server) == before
    assert len(table(shop, server).snapshots()) == 3


# --- what is refused ---------------------------------------------------------------------------------------------


def tagged(shop: IcebergLake, server: RestCatalog) -> None:
    """Tag the first snapshot, so that its files are live whatever main lists."""
    newest = table(shop, server)
    newest.manage_snapshots().create_tag(newest.snapshots()[0].snapshot_id, "audit").commit()


def of_another_partitioning(shop: IcebergLake, server: RestCatalog) -> None:
    with table(shop, server).update_spec() as change:
        change.add_field("amount", IdentityTransform())


def lost_manifest(shop: IcebergLake, server: RestCatalog) -> None:
    snapshot = table(shop, server).current_snapshot()
    assert snapshot is not None
    shop.drop(snapshot.manifest_list.removeprefix(f"s3://{shop.bucket}/"))


@pytest.mark.parametrize(
    ("since", "why"),
    [
        (tagged, "the branch or tag audit lists it too"),
        (of_another_partitioning, "its partitioning has changed"),
        (lost_manifest, "cannot be read"),
    ],
)
def test_what_is_in_doubt_is_for_a_person(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans, since: Callable[..., None], why: str
) -> None:
    since(shop, server)
    newest = server.tables["shop", "orders"]
    assert isinstance(newest, Table)
    first = newest.snapshots()[0].manifests(newest.io)[0]
    paths = [each.data_file.file_path for each in first.fetch_manifest_entry(newest.io)]
    key = paths[0].removeprefix(f"s3://{shop.bucket}/")
    shop.drop(key)
    (step,) = steps(shop, repair, key)
    assert (step.needs_person, why in step.evidence["why"]) == (True, True)


def test_a_table_with_delete_files_is_for_a_person(
    shop: IcebergLake, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the manifests that its current snapshot names; before the apply as before the plan."""
    (key,) = drop_files(shop)
    real = listed_file.read
    steps(shop, repair, key)
    monkeypatch.setattr(
        "lakeaudit.evidence.manifest.iceberg.listed_file.read",
        lambda *given: replace(real(*given), has_deletes=True),
    )
    assert (repair.apply().exit_code, repair.statuses()) == (3, {key: "changed"})
    (step,) = steps(shop, repair, key)
    assert "the table has delete files, which may refer to its rows" in step.evidence["why"]


def test_delete_files_are_seen(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    """Spark wrote the table."""
    names = ("merge_on_read",)
    with tables_of_spark(aws.s3, names):
        lake = lake_by_spark(tmp_path, s3, names)
        assert listed_file.read(lake.tables[0], clients_of(lake), BY_SPARK, "wh/none").has_deletes


def test_without_pyiceberg_it_is_for_a_person(
    shop: IcebergLake, repair: RepairPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remove_iceberg_reference, "find_spec", lambda _: None)
    (step,) = steps(shop, repair, *drop_files(shop))
    assert "pip install 'lakeaudit[iceberg]', or in spark-shell, Spark3Util" in step.evidence["why"]


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"format-version": 1}, None),
        ({"format-version": 2, "refs": {"main": {"snapshot-id": 1, "type": "branch"}}}, None),
        ({"format-version": 3}, "does not preserve its row ids"),
        ({"format-version": 2, "partition-specs": [{}, {}]}, "its partitioning has changed"),
        (
            {"format-version": 2, "refs": {"main": {"min-snapshots-to-keep": 5}}},
            "its main branch has a retention policy",
        ),
        ({"format-version": 2, "properties": {"write.py-location-provider.impl": "a.B"}}, "name classes"),
    ],
)
def test_which_iceberg_tables_are_committed_to(metadata: dict[str, Any], why: str | None) -> None:
    found = why_not_committed_to(metadata)
    assert (found is None) is (why is None)
    assert (why or "") in (found or "")

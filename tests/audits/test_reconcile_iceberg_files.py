"""Files that are lost for good are taken out of their Iceberg table by its REST catalog's own commit, and put back."""

import io
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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


def table(shop: IcebergLake, server: RestCatalog, name: str = "orders") -> Table:
    """As another writer has it."""
    options = {
        "s3.endpoint": str(shop.endpoint.endpoint),
        "s3.access-key-id": "test",
        "s3.region": "us-east-1",
    }
    client = Client("other", uri=server.uri, **options, **{"s3.secret-access-key": "test"})
    found: Table = client.load_table(f"shop.{name}")
    return found


def listed(shop: IcebergLake, server: RestCatalog, name: str = "orders") -> list[tuple[str, int]]:
    """Return keys and rows of the table's files as readers of Iceberg see them."""
    tasks = table(shop, server, name).scan().plan_files()
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


# --- one plan for tables of their own ----------------------------------------------------------------------------

LOST = {"orders": 2, "overtaken": 1, "built_upon": 1, "sent_twice": 1, "with_deletes": 1}
"""The number of files that each table lost."""


@dataclass(frozen=True)
class Story:
    """Tables that lost files: audited, planned with and without `--allow`, repaired, audited, and taken back."""

    shop: IcebergLake
    server: RestCatalog
    repair: RepairPlans
    keys: dict[str, list[str]]
    """The lost files, by table."""
    plans: list[list[dict[str, Any]]]
    """The rows of both plans."""
    listed: list[dict[str, list[tuple[str, int]]]]
    """The files of each table before the loss, after the apply, right before the undo, and after it."""
    statuses: list[dict[str, str]]
    """What became of each step after the apply, and after the undo."""
    kinds: set[str]
    """The kinds that the second audit finds in orders."""
    exit_codes: list[int]

    def became(self, table: str) -> list[set[str]]:
        """Return the statuses of a table's steps after the apply, and after the undo."""
        return [{each[key] for key in self.keys[table]} for each in self.statuses]


@pytest.fixture(scope="module")
def story(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    bucket, folder = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("story")
    aws.s3.create_bucket(Bucket=bucket)
    with served(RestCatalog()) as server:
        shop = IcebergLake(aws.s3, s3, bucket)
        shop.table("template")
        shop.copy("template", *LOST)
        server.tables |= {("shop", name): shop.catalog.load_table(f"shop.{name}") for name in LOST}
        yield repaired_story(shop, server, RepairPlans(lake_of(shop, server, folder, *LOST), folder))


def repaired_story(shop: IcebergLake, server: RestCatalog, repair: RepairPlans) -> Story:
    """Go through the story."""

    def files() -> dict[str, list[tuple[str, int]]]:
        return {name: listed(shop, server, name) for name in LOST}

    keys = {name: shop.keys(f"/{name}/data/")[:number] for name, number in LOST.items()}
    states = [files()]
    for key in [key for each in keys.values() for key in each]:
        shop.drop(key)
    time.sleep(1.1)  # times of storage have whole seconds
    audited(repair.lake, live=True)
    plans = [plan_rows(repair), plan_rows(repair, *ALLOW)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakeaudit.evidence.manifest.iceberg.listed_file.read", with_delete_files())
        server.faults.append(meanwhile(shop, server))
        codes, statuses = [repair.apply().exit_code], [repair.statuses()]
    states.append(files())
    audited(repair.lake, live=True)
    kinds = {kind for _, subject, kind in found_set(repair.lake) if "/orders/" in subject}
    table(shop, server, "built_upon").append(rows(5000))
    states.append(files())
    codes.append(repair.undo().exit_code)
    states.append(files())
    return Story(shop, server, repair, keys, plans, states, [*statuses, repair.statuses()], kinds, codes)


def plan_rows(repair: RepairPlans, *allow: str) -> list[dict[str, Any]]:
    repair.plan(io.StringIO(), allow=allow or ("restore",))
    return [json.loads(text) for text in repair.file.read_text().splitlines()[1:]]


def with_delete_files() -> Callable[..., Any]:
    """Return a reader of manifests that finds delete files in one table."""
    real = listed_file.read

    def read(of: Any, *given: Any) -> Any:
        found = real(of, *given)
        return replace(found, has_deletes=True) if of.name == "with_deletes" else found

    return read


def meanwhile(shop: IcebergLake, server: RestCatalog) -> Callable[..., None]:
    """Somebody else commits to one table right before our commit; a proxy sends that of another table twice."""
    begun = set[str]()

    def fault(method: str, path: str, params: dict[str, str]) -> None:
        name = path.rpartition("/")[2]
        if method != "POST" or "add-snapshot" not in params.get("body", "") or name in begun:
            return
        begun.add(name)
        if name == "overtaken":
            table(shop, server, name).append(rows(5000))
        if name == "sent_twice":
            assert server.commit(path, params["body"])[0] == 200

    return fault


@pytest.mark.variant
def test_an_iceberg_file_is_removed_and_put_back_by_audits(story: Story) -> None:
    """Two files: two snapshots, both of which the undo takes back."""
    person, plan = story.plans
    assert {row["action"] for row in person} == {"needs_person"}
    assert all(
        "`--allow remove_reference` removes it and its rows" in row["evidence"]["why"] for row in person
    )
    keys = story.keys["orders"]
    assert {row["key"]: row["action"] for row in plan} == dict.fromkeys(
        [key for each in story.keys.values() for key in each], "remove_iceberg_reference"
    )
    assert plan[0]["evidence"]["matched_by"] == (
        "storage, which has no version of it: 10 rows are lost; older snapshots continue to list it"
    )
    before, after, _, undone = (each["orders"] for each in story.listed)
    assert story.became("orders") == [{"applied"}, {"undone"}]
    assert after == [each for each in before if each[0] not in keys]
    assert story.kinds == {"dropped_history"}
    assert undone == before


def test_another_commit_between_look_and_commit_comes_first(story: Story) -> None:
    """The catalog refuses our commit: theirs stays, the file stays listed, and ours leaves no files."""
    shop, newest = story.shop, story.server.tables["shop", "overtaken"]
    before, after, *_ = (each["overtaken"] for each in story.listed)
    assert story.exit_codes[0] == 3
    assert story.became("overtaken") == [{"changed"}] * 2
    assert set(before) < set(after)
    assert isinstance(newest, Table)
    snapshots = newest.metadata.snapshots
    known = {m.manifest_path for each in snapshots for m in each.manifests(newest.io)}
    known |= {each.manifest_list for each in snapshots}
    there = [key for key in shop.keys(".avro") if "/overtaken/" in key]
    assert {f"s3://{shop.bucket}/{key}" for key in there} == known


def test_an_undo_upon_the_commit_of_another_is_refused(story: Story) -> None:
    _, after, theirs, undone = (each["built_upon"] for each in story.listed)
    assert story.exit_codes[1] == 3
    assert story.became("built_upon") == [{"applied"}, {"kept"}]
    assert undone == theirs != after


def test_a_commit_that_was_sent_twice_is_not_a_refusal(story: Story) -> None:
    """A proxy sends the commit twice: the second one is refused, and the written files are kept."""
    before, after, *_ = (each["sent_twice"] for each in story.listed)
    assert story.became("sent_twice")[0] == {"applied"}
    assert len(after) == len(before) - 1


def test_a_table_with_delete_files_is_for_a_person(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the manifests that its current snapshot names; before the apply as before the plan."""
    assert story.became("with_deletes")[0] == {"changed"}
    assert story.listed[1]["with_deletes"] == story.listed[0]["with_deletes"]
    monkeypatch.setattr("lakeaudit.evidence.manifest.iceberg.listed_file.read", with_delete_files())
    (key,) = story.keys["with_deletes"]
    row = ledger_row("dropped", story.shop.bucket, key, rows_at_stake=10, table_name="with_deletes")
    (step,) = planned(story.repair, [row], ALLOW)
    assert "the table has delete files, which may refer to its rows" in step.evidence["why"]


# --- tables of their own plan ------------------------------------------------------------------------------------


@pytest.mark.variant
def test_a_catalog_that_ignores_requirements_is_not_written_to(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    (key,) = drop_files(shop)
    steps(shop, repair, key)
    before, server.heeds = listed(shop, server), False
    assert repair.apply().exit_code == 3
    assert (repair.statuses(), listed(shop, server)) == ({key: "needs_person"}, before)


class Killed(BaseException):
    """The process ends here."""


def is_killed(run: Callable[[], Any], method: str) -> None:
    """End a run after the first commit that this method of the action makes."""
    real = getattr(RemoveIcebergReference, method)

    def dying(*given: Any) -> None:
        real(*given)
        raise Killed

    with pytest.MonkeyPatch.context() as once:
        once.setattr(RemoveIcebergReference, method, dying)
        with pytest.raises(Killed):
            run()


def test_killed_after_a_commit_of_a_catalog(
    shop: IcebergLake, server: RestCatalog, repair: RepairPlans
) -> None:
    """Both the apply and the undo are killed, and go on."""
    (key,) = drop_files(shop)
    before = listed(shop, server)
    steps(shop, repair, key)
    is_killed(repair.apply, "act")
    assert (repair.apply().exit_code, repair.statuses()) == (0, {key: "applied"})
    is_killed(repair.undo, "take_back")
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


@pytest.mark.variant
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

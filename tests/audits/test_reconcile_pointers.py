"""Pointers of Iceberg tables that catalogs have left behind, and partitions of a Hive Metastore (a stand-in)."""

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from lakeaudit.reconcile.protocol import DROP_PARTITION, REPOINT_TABLE
from lakeaudit.reconcile.stores.hive_partitions import HivePartitions
from lakeaudit.reconcile.stores.partition_store import same_for_readers
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.audits.test_pointers import findings_of, metadata
from tests.builders.audits import audited
from tests.builders.hive_lake import HiveLake, break_orders
from tests.builders.hive_metastore import MetastoreStandIn, served
from tests.builders.iam_policies import with_printed_policy
from tests.builders.repair_plans import RepairPlans
from tests.builders.request_rights import POLICY
from tests.builders.results import discrepancy, finding, publish, run
from tests.conftest import Aws

Build = Callable[..., HiveLake]


@pytest.fixture
def build(aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path) -> Build:
    return lambda catalog=None: HiveLake(aws, clients, s3, bucket, tmp_path, catalog)


@pytest.fixture
def server() -> Iterator[MetastoreStandIn]:
    metastore = MetastoreStandIn()
    with served(metastore):
        yield metastore


def source_of(server: MetastoreStandIn) -> str:
    return f"{{kind: hive, uri: '{server.uri}'}}"


def planned(mending: RepairPlans, *allow: str) -> dict[str, Any]:
    return dict(mending.plan(StringIO(), allow=allow).more["actions"])


def behind(hive: HiveLake) -> tuple[str, str]:
    """A table of which the catalog says its first state, and on which two were built."""
    first, _, last = (
        metadata(hive, "behind", 1), metadata(hive, "behind", 2, 1), metadata(hive, "behind", 3, 1, 2),
    )  # fmt: skip
    hive.table("behind", parameters={"table_type": "ICEBERG", "metadata_location": first})
    return first, last


def stale(hive: HiveLake, database: str, catalog: str, metastores: str = "") -> RepairPlans:
    """The ledger's row of such a table."""
    mending = RepairPlans(hive.lake(metastores=metastores), hive.folder)
    row = finding(
        "stale_pointer", "x", lake="plain", table_name="behind", bucket=hive.bucket,
        subject=f"{database}.behind#{catalog}", subject_type="table",
    ) | {"key": None}  # fmt: skip
    publish(mending.lake.results, runs=[run(lake="plain")], discrepancies=[discrepancy(row)])
    return mending


def in_hive(server: MetastoreStandIn) -> str:
    return str(server.tables["sales", "behind"].parameters["metadata_location"])


@dataclass(frozen=True)
class Repaired:
    """A pointer and partitions of one Hive Metastore: audited as `r1`, repaired by one plan, audited, taken back."""

    hive: HiveLake
    kinds: list[dict[str, list[str]]]
    """The findings of each audit, by table."""
    planned: list[dict[str, Any]]
    """The actions of each plan: without `--allow`, and the applied one."""
    pointers: list[dict[str, str]]
    """The parameters of the table `behind`, before, after the apply and after the undo."""
    states: tuple[str, str]
    """The first state of that table and its newest one."""
    places: dict[str, str]
    """The location of each partition of `orders` after the apply, by day."""
    partitions: list[dict[int, Any]]
    """The partitions of `orders` by day, before and after the undo."""


@pytest.fixture(scope="module")
def repaired(aws: Aws, clients: Clients, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Repaired:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    server = MetastoreStandIn()
    with served(server):
        return repair(HiveLake(aws, clients, s3, bucket, tmp_path_factory.mktemp("hive"), server), server)


def repair(hive: HiveLake, server: MetastoreStandIn) -> Repaired:
    states = behind(hive)
    break_orders(hive)
    hive.catalog.partition("orders", ["2026-11-05"], hive.uri("wh/orders/moved"))
    hive.put("wh/orders/day=2026-11-05/part-0.parquet")
    hive.tables = ["{discover: {from: hive}}"]
    mending = RepairPlans(hive.lake(metastores=source_of(server)), hive.folder)
    store = HivePartitions.of_table(mending.lake.metastores[0], "sales.orders")  # type: ignore[arg-type]

    def partitions() -> dict[int, Any]:
        return {day: store.partition([f"2026-11-0{day}"]) for day in range(1, 6)}

    def parameters() -> dict[str, str]:
        return dict(server.tables["sales", "behind"].parameters)

    before, pointers = partitions(), [parameters()]
    kinds = [kinds_by_table(mending, "r1")]
    plans = [planned(mending), planned(mending, REPOINT_TABLE, DROP_PARTITION)]
    assert mending.apply().exit_code == 0
    pointers.append(parameters())
    kinds.append(kinds_by_table(mending, "r2"))
    places = {values[0]: each.sd.location for values, each in server.partitions["sales", "orders"].items()}
    assert mending.undo().exit_code == 0
    pointers.append(parameters())
    return Repaired(hive, kinds, plans, pointers, states, places, [before, partitions()])


def kinds_by_table(mending: RepairPlans, run_id: str) -> dict[str, list[str]]:
    audited(mending.lake, run_id=run_id)
    by_table: dict[str, list[str]] = defaultdict(list)
    for row in findings_of(mending.lake, run_id):
        by_table[row["table_name"].rpartition(".")[2]].append(row["kind"])
    return {table: sorted(kinds) for table, kinds in by_table.items()}


@pytest.mark.soak
def test_a_pointer_of_hive_is_put_right_and_back_by_audits(repaired: Repaired) -> None:
    first, last = repaired.states
    assert repaired.kinds[0]["behind"] == ["stale_pointer"]
    assert repaired.planned[0] == {"needs_person": 3, "add_partition": 1, "repoint_partition": 1}
    assert repaired.planned[1]["repoint_table"] == 1
    before, after, undone = repaired.pointers
    assert (after["metadata_location"], after["previous_metadata_location"]) == (last, first)
    assert repaired.kinds[1].get("behind") is None
    assert before["metadata_location"] == undone["metadata_location"] == first


def test_partitions_of_hive_are_repaired_and_taken_back(repaired: Repaired) -> None:
    assert repaired.planned[1] == {
        "add_partition": 1, "drop_partition": 1, "repoint_partition": 1, "needs_person": 1, "repoint_table": 1,
    }  # fmt: skip
    assert repaired.kinds[1] == {}
    uri = repaired.hive.uri
    assert {day: repaired.places.get(f"2026-11-0{day}", "").rstrip("/") for day in (3, 4, 5)} == {
        3: uri("wh/orders/day=2026-11-03"), 4: "", 5: uri("wh/orders/day=2026-11-05"),
    }  # fmt: skip
    before, undone = repaired.partitions
    assert all(same_for_readers(undone[day], each) for day, each in before.items())


def test_a_hive_without_the_condition_is_not_written_to(build: Build, server: MetastoreStandIn) -> None:
    hive = build(server)
    first, _ = behind(hive)
    server.conditional = False
    mending = stale(hive, "sales", "hive hive", source_of(server))
    assert planned(mending, REPOINT_TABLE) == {"repoint_table": 1}
    mending.apply()
    assert (in_hive(server), set(mending.statuses().values())) == (first, {"needs_person"})


def test_a_commit_between_look_and_write_or_since_stays(build: Build, server: MetastoreStandIn) -> None:
    hive = build(server)
    behind(hive)
    mending = stale(hive, "sales", "hive hive", source_of(server))
    planned(mending, REPOINT_TABLE)
    times = [2]

    def commit(request: str, _: Any) -> None:
        times[0] -= request == "alter_table_req"
        if not times[0]:
            server.tables["sales", "behind"].parameters["metadata_location"] = "s3://lake/theirs"

    server.faults.append(commit)
    assert mending.apply().exit_code == 3
    assert (in_hive(server), set(mending.statuses().values())) == ("s3://lake/theirs", {"changed"})


def test_two_newest_states_are_for_a_person(build: Build, server: MetastoreStandIn) -> None:
    hive = build(server)
    behind(hive)
    hive.put("wh/behind/metadata/00003-other.metadata.json", b"{}")
    mending = stale(hive, "sales", "hive hive", source_of(server))
    assert planned(mending, REPOINT_TABLE) == {"needs_person": 1}


@pytest.mark.parametrize("honoured", [True, False])
def test_a_pointer_of_glue_by_its_version(
    build: Build, monkeypatch: pytest.MonkeyPatch, honoured: bool
) -> None:
    """Moto ignores VersionId; a stand-in for Glue's condition is put before it."""
    hive = build()
    first, last = behind(hive)
    of: Any = {"DatabaseName": hive.catalog.database, "Name": "behind"}

    def location() -> str:
        return str(hive.catalog.glue.get_table(**of)["Table"]["Parameters"]["metadata_location"])

    mending = stale(hive, hive.catalog.database, "glue default")
    call: Any = vars(BaseClient)["_make_api_call"]

    requested: set[str] = set()

    def conditional(client: Any, operation: str, given: dict[str, Any]) -> Any:
        requested.add(f"glue:{operation}")
        if honoured and operation == "UpdateTable":
            assert given["SkipArchive"]
            if given["VersionId"] != call(client, "GetTable", of)["Table"]["VersionId"]:
                raise ClientError({"Error": {"Code": "ConcurrentModificationException"}}, operation)
        return call(client, operation, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", conditional)
    with with_printed_policy(mending.folder / "lake.yaml"):
        assert planned(mending, REPOINT_TABLE) == {"repoint_table": 1}
        mending.apply()
        assert location() == (last if honoured else first)
        assert set(mending.statuses().values()) == {"applied" if honoured else "needs_person"}
        mending.undo()
    assert location() == first
    (granted,) = (
        each["Action"] for each in json.loads(POLICY.read_text())["Statement"] if each["Sid"] == "PointTables"
    )
    assert {each for each in requested if each.endswith("Table")} == set(granted)

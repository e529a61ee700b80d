"""Wrong partitions of a catalog: planned, repaired, resolved by an audit, and taken back."""

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from lakeaudit.reconcile.protocol import DROP_PARTITION
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.glue import LONG_AGO
from tests.builders.hive_lake import HiveLake, break_orders
from tests.builders.repair_plans import RepairPlans, actions_of
from tests.builders.request_rights import POLICY
from tests.builders.results import discrepancy, finding, publish, run
from tests.conftest import Aws

DROP = (DROP_PARTITION,)


@pytest.fixture
def hive(aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path) -> HiveLake:
    built = HiveLake(aws, clients, s3, bucket, tmp_path)
    break_orders(built)
    return built


FILLED, EMPTY = ("day=2026-11-03",), ("day=2026-11-04",)
"""What `break_orders` leaves: a folder that nobody registered, and a partition without files."""


def opened(hive: HiveLake, filled: Sequence[str] = FILLED, empty: Sequence[str] = EMPTY) -> RepairPlans:
    """Record the findings of the first test's audit in the ledger."""
    of, shared = f"glue default:{hive.catalog.database}.orders", {"lake": "plain", "bucket": hive.bucket}
    folders = [f"wh/orders/{name}/" for name in filled]
    rows = [
        finding("unregistered_partition", folder, **shared, subject=f"{hive.uri(folder)}#{of}")
        for folder in folders
    ]
    rows += [
        finding("empty_partition", name, **shared, subject=f"{name}#{of}") | {"key": None} for name in empty
    ]
    mending = RepairPlans(hive.lake(), hive.folder)
    held = [discrepancy(each) for each in rows]
    publish(mending.lake.results, runs=[run(lake="plain")], discrepancies=held)
    return mending


def registered(hive: HiveLake, table: str = "orders") -> dict[tuple[str, ...], str]:
    """Return the registered locations of the table's partitions, by values."""
    response: Any = hive.catalog.glue.get_partitions(DatabaseName=hive.catalog.database, TableName=table)
    return {tuple(each["Values"]): each["StorageDescriptor"]["Location"] for each in response["Partitions"]}


def planned(mending: RepairPlans, allow: Sequence[str] = DROP) -> dict[str, Any]:
    return dict(mending.plan(StringIO(), allow=allow).more["actions"])


TABLES = ("orders", "moved", "events")


@dataclass(frozen=True)
class There:
    """Three tables, audited as `r1`, repaired by one plan, audited as `r2`, taken back and audited as `r3`."""

    hive: HiveLake
    kinds: dict[str, dict[str, list[str]]]
    """The kinds of findings, by run and table."""
    actions: dict[str, list[str]]
    """The planned actions, by table."""
    ends: dict[str, list[str]]
    """The ledger's states after `r2`, by table."""
    registered: list[dict[str, dict[tuple[str, ...], str]]]
    """By table, before the plan, after the apply and after the undo."""


def lay_tables(hive: HiveLake) -> None:
    """Orders as usual; in `moved` the folder's partition points elsewhere, and in `events` names have two columns."""
    break_orders(hive)
    hive.table("moved", "day")
    hive.put("wh/moved/day=2026-11-03/part-0.parquet")
    hive.partition("moved", ["2026-11-01"], "wh/moved/day=2026-11-01")
    for day, at in (("2026-11-03", "elsewhere/"), ("2026-11-04", "day=2026-11-04/")):
        hive.partition("moved", [day], f"wh/moved/{at}", files=False)
    hive.table("events", "at", "kind")
    for values in (["x", "a"], ["x/kind=y", "b"]):
        hive.partition("events", values, f"wh/events/{values[1]}", files=False)
    hive.put("wh/events/at=%FF/kind=c/part-0.parquet")
    hive.put("wh/events/at=a%2Fb/kind=__HIVE_DEFAULT_PARTITION__/part-0.parquet")


def by_table(rows: Iterable[dict[str, Any]], name: str) -> dict[str, list[str]]:
    """By table, whatever database a catalog names it in, what rows have below this name, in order."""
    values = sorted((str(row["table_name"]).rpartition(".")[2], str(row[name])) for row in rows)
    return {table: [value for of, value in values if of == table] for table in TABLES}


def there_and_back(hive: HiveLake, discovered: bool = False) -> There:
    lay_tables(hive)
    if discovered:
        hive.tables = ["{discover: {from: glue}}"]
    mending, kinds = RepairPlans(hive.lake(), hive.folder), {}

    def look(run_id: str) -> dict[str, dict[tuple[str, ...], str]]:
        audited(mending.lake, run_id=run_id)
        kinds[run_id] = by_table(rows_of(results_of(mending.lake).findings(run_id)), "kind")
        return {table: registered(hive, table) for table in TABLES}

    before = look("r1")
    planned(mending)
    actions = by_table(map(json.loads, mending.file.read_text().splitlines()[1:]), "action")
    assert mending.apply().exit_code == 0
    after = look("r2")
    ends = by_table(rows_of(results_of(mending.lake).discrepancies()), "state")
    assert mending.undo().exit_code == 0
    return There(hive, kinds, actions, ends, [before, after, look("r3")])


@pytest.fixture(scope="module")
def there(aws: Aws, clients: Clients, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> There:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    return there_and_back(HiveLake(aws, clients, s3, bucket, tmp_path_factory.mktemp("there")))


def test_from_wrong_to_right_and_back(there: There) -> None:
    assert there.kinds["r1"]["orders"] == ["empty_partition", "unregistered_partition"]
    assert there.actions["orders"] == ["add_partition", "drop_partition"]
    before, after, again = (each["orders"] for each in there.registered)
    assert after == {
        **{values: place for values, place in before.items() if values != ("2026-11-04",)},
        ("2026-11-03",): there.hive.uri("wh/orders/day=2026-11-03"),
    }
    assert there.kinds["r2"]["orders"] == []
    assert set(there.ends["orders"]) == {"resolved"}
    assert again == before
    # the one that was entered again is younger than the grace
    assert there.kinds["r3"]["orders"] == ["unregistered_partition"]


@pytest.mark.soak
def test_from_wrong_to_right_and_back_where_the_catalog_names_the_tables(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    test_from_wrong_to_right_and_back(there_and_back(HiveLake(aws, clients, s3, bucket, tmp_path), True))


def test_an_empty_partition_stays_where_nobody_allows_to_drop_it(hive: HiveLake) -> None:
    mending = opened(hive)
    assert planned(mending, ()) == {"add_partition": 1, "needs_person": 1}


def test_a_partition_is_pointed_at_the_folder_of_its_name(there: There) -> None:
    assert there.kinds["r1"]["moved"] == ["empty_partition", "empty_partition", "unregistered_partition"]
    assert there.actions["moved"] == ["drop_partition", "needs_person", "repoint_partition"]
    before, after, again = (each["moved"] for each in there.registered)
    assert after["2026-11-03",] == there.hive.uri("wh/moved/day=2026-11-03")
    assert there.kinds["r2"]["moved"] == []
    assert again == before


def test_what_changed_since_the_plan_or_the_apply_stays(hive: HiveLake) -> None:
    mending = opened(hive)
    planned(mending)
    hive.catalog.partition("orders", ["2026-11-03"], hive.uri("elsewhere/"))
    hive.put("wh/orders/day=2026-11-04/part-0.parquet")
    before = registered(hive)
    assert mending.apply().exit_code == 3
    assert (registered(hive), set(mending.statuses().values())) == (before, {"changed"})


def test_what_somebody_changed_since_the_apply_is_not_undone(hive: HiveLake) -> None:
    mending = opened(hive)
    planned(mending)
    mending.apply()
    glue, of = hive.catalog.glue, {"DatabaseName": hive.catalog.database, "TableName": "orders"}
    other: Any = {"Values": ["2026-11-03"], "StorageDescriptor": {"Location": hive.uri("wh/orders/new")}}
    glue.update_partition(**of, PartitionValueList=["2026-11-03"], PartitionInput=other)
    hive.catalog.partition("orders", ["2026-11-04"], hive.uri("wh/orders/day=2026-11-04/b"))
    before = registered(hive)
    assert mending.undo().exit_code == 3
    assert (registered(hive), set(mending.statuses().values())) == (before, {"kept"})


@pytest.mark.parametrize(("operation", "time"), [("GetPartition", 2), ("CreatePartition", 2)])
def test_what_somebody_registers_between_look_and_write_stays(
    hive: HiveLake, monkeypatch: pytest.MonkeyPatch, operation: str, time: int
) -> None:
    """Before it is read once more; before it is written, after the canary."""
    mending = opened(hive)
    planned(mending, ())
    call: Any = vars(BaseClient)["_make_api_call"]
    left = [time]

    def watched(client: Any, requested: str, given: dict[str, Any]) -> Any:
        left[0] -= requested == operation
        if not left[0]:
            left[0] = -9
            hive.catalog.partition("orders", ["2026-11-03"], hive.uri("mine/"))
        return call(client, requested, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", watched)
    assert set(mending.apply().more["counts"]) == {"changed"}
    monkeypatch.undo()
    assert registered(hive)["2026-11-03",] == hive.uri("mine/")


def test_a_catalog_that_enters_one_over_another_is_not_written_to(
    hive: HiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    mending = opened(hive)
    planned(mending)
    call: Any = vars(BaseClient)["_make_api_call"]

    def lax(client: Any, requested: str, given: dict[str, Any]) -> Any:
        return {} if requested == "CreatePartition" else call(client, requested, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", lax)
    before = registered(hive)
    assert mending.apply().exit_code == 3
    assert (registered(hive), set(mending.statuses().values())) == (before, {"needs_person"})


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("after", [True, pytest.param(False, marks=pytest.mark.soak)])
@pytest.mark.parametrize("undone", [False, True])
def test_killed_before_or_after_a_write(
    hive: HiveLake, monkeypatch: pytest.MonkeyPatch, after: bool, undone: bool
) -> None:
    mending = opened(hive)
    before = registered(hive)
    planned(mending)
    if undone:
        mending.apply()
    call: Any = vars(BaseClient)["_make_api_call"]

    def dying(client: Any, requested: str, given: dict[str, Any]) -> Any:
        if requested == "DeletePartition":
            if after:
                call(client, requested, given)
            raise Killed
        return call(client, requested, given)

    with monkeypatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", dying)
        with pytest.raises(Killed):
            mending.undo() if undone else mending.apply()
    if not undone:
        assert mending.apply().exit_code == 0
        assert {values for (values,) in registered(hive)} == {f"2026-11-0{day}" for day in (1, 2, 3)}
    assert mending.undo().exit_code == 0
    assert registered(hive) == before


def test_a_partition_s_own_form_and_parameters_come_back(hive: HiveLake) -> None:
    glue, of = hive.catalog.glue, {"DatabaseName": hive.catalog.database, "TableName": "orders"}
    form: Any = {
        "Values": ["2026-11-05"], "Parameters": {"owner": "me"},
        "StorageDescriptor": {
            "Location": hive.uri("wh/orders/day=2026-11-05"), "Columns": [{"Name": "a", "Type": "int"}],
            "SerdeInfo": {"SerializationLibrary": "x", "Parameters": {"k": "v"}},
        },
    }  # fmt: skip
    glue.create_partition(**of, PartitionInput=form)
    hive.catalog._stored("orders").partitions["['2026-11-05']"].creation_time = LONG_AGO
    mending = opened(hive, empty=("day=2026-11-05",))
    planned(mending)
    mending.apply()
    assert ("2026-11-05",) not in registered(hive)
    mending.undo()
    now: Any = glue.get_partition(
        DatabaseName=hive.catalog.database, TableName="orders", PartitionValues=["2026-11-05"]
    )["Partition"]
    assert {name: now[name] for name in form} == form


def test_names_that_do_not_say_their_values_are_for_a_person(there: There) -> None:
    """With several columns, a value may contain text that looks like the next column."""
    assert there.actions["events"] == ["add_partition", "drop_partition", "needs_person", "needs_person"]
    assert set(there.registered[1]["events"]) == {("a/b", "__HIVE_DEFAULT_PARTITION__"), ("x/kind=y", "b")}


def test_the_record_says_which_partition_was_meant(hive: HiveLake) -> None:
    mending = opened(hive)
    planned(mending)
    mending.apply()
    database = hive.catalog.database
    assert {row["key"] for row in actions_of(mending.lake)} == {
        f"{hive.uri('wh/orders/day=2026-11-03/')}#glue default:{database}.orders",
        f"day=2026-11-04#glue default:{database}.orders",
    }


def test_the_policy_grants_exactly_the_requests_to_the_catalog(
    hive: HiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive.catalog.partition("orders", ["2026-11-03"], hive.uri("wh/orders/moved/"))
    hive.put("wh/orders/day=2026-11-05/part-0.parquet")
    mending = opened(hive, filled=(*FILLED, "day=2026-11-05"), empty=(*FILLED, *EMPTY))
    call: Any = vars(BaseClient)["_make_api_call"]
    requested: set[str] = set()

    def record_call(client: Any, operation: str, given: dict[str, Any]) -> Any:
        if "Partition" in operation or "Table" in operation:
            requested.add(f"glue:{operation}")
        return call(client, operation, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", record_call)
    assert set(planned(mending)) >= {"add_partition", "repoint_partition", "drop_partition"}
    assert (mending.apply().exit_code, mending.undo().exit_code) == (0, 0)
    policy = json.loads(POLICY.read_text())
    (granted,) = (each["Action"] for each in policy["Statement"] if each["Sid"] == "MendPartitions")
    assert requested == set(granted)

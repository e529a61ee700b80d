"""Wrong partitions of a catalog: planned, repaired, resolved by an audit, and taken back."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from tests.builders.iam_policies import with_printed_policy
from tests.builders.repair_plans import RepairPlans, actions_of
from tests.builders.request_rights import POLICY
from tests.builders.results import discrepancy, finding, publish, run
from tests.conftest import Aws

pytestmark = pytest.mark.variant

DROP = (DROP_PARTITION,)


@pytest.fixture
def hive(aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path) -> HiveLake:
    built = HiveLake(aws, clients, s3, bucket, tmp_path)
    break_orders(built)
    return built


FILLED, EMPTY, OWN_FORM = ("day=2026-11-03",), ("day=2026-11-04",), ("day=2026-11-05",)
"""What `break_orders` leaves: a folder that nobody registered, and a partition without files."""


def opened(hive: HiveLake, *tables: str) -> RepairPlans:
    """Record the findings of the first test's audit in the ledger, for each of these tables; by default for orders."""
    rows = [row for table in tables or ("orders",) for row in finding_rows(hive, table)]
    mending = RepairPlans(hive.lake(), hive.folder)
    held = [discrepancy(each) for each in rows]
    publish(mending.lake.results, runs=[run(lake="plain")], discrepancies=held)
    return mending


def finding_rows(hive: HiveLake, table: str) -> Iterator[dict[str, Any]]:
    of = f"glue default:{hive.catalog.database}.{table}"
    shared = {"lake": "plain", "bucket": hive.bucket, "table_name": table}
    for name in FILLED if table != "form" else ():
        folder = f"wh/{table}/{name}/"
        yield finding("unregistered_partition", folder, **shared, subject=f"{hive.uri(folder)}#{of}")
    for name in {"form": OWN_FORM, "at_look": (), "at_write": ()}.get(table, EMPTY):
        subject = f"{name}#{of}"
        row = finding("empty_partition", name, **shared, subject=subject, discrepancy_id=f"d-{subject}")
        yield row | {"key": None}


def registered(hive: HiveLake, table: str = "orders") -> dict[tuple[str, ...], str]:
    """Return the registered locations of the table's partitions, by values."""
    response: Any = hive.catalog.glue.get_partitions(DatabaseName=hive.catalog.database, TableName=table)
    return {tuple(each["Values"]): each["StorageDescriptor"]["Location"] for each in response["Partitions"]}


def planned(mending: RepairPlans, allow: Sequence[str] = DROP) -> dict[str, Any]:
    return dict(mending.plan(StringIO(), allow=allow).more["actions"])


TABLES = ("orders", "moved", "events")


@dataclass(frozen=True)
class There:
    """Three tables, audited as `r1`, repaired by one plan, audited as `r2`, and taken back."""

    hive: HiveLake
    kinds: dict[str, dict[str, list[str]]]
    """The kinds of findings, by run and table."""
    actions: dict[str, list[str]]
    """The planned actions, by table."""
    ends: dict[str, list[str]]
    """The ledger's states after `r2`, by table."""
    registered: list[dict[str, dict[tuple[str, ...], str]]]
    """By table, before the plan, after the apply and after the undo."""
    requested: set[str]
    """The requests to the catalog of the plan, the apply and the undo."""
    mending: RepairPlans


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
    mending, kinds, requested = RepairPlans(hive.lake(), hive.folder), {}, set[str]()

    def look(run_id: str) -> dict[str, dict[tuple[str, ...], str]]:
        kinds[run_id] = audited_kinds(mending, run_id)
        return {table: registered(hive, table) for table in TABLES}

    before = look("r1")
    with recorded(requested), with_printed_policy(mending.folder / "lake.yaml"):
        planned(mending)
        assert mending.apply().exit_code == 0
    actions = by_table(map(json.loads, mending.file.read_text().splitlines()[1:]), "action")
    after = look("r2")
    ends = by_table(rows_of(results_of(mending.lake).discrepancies()), "state")
    with recorded(requested), with_printed_policy(mending.folder / "lake.yaml"):
        assert mending.undo().exit_code == 0
    again = {table: registered(hive, table) for table in TABLES}
    return There(hive, kinds, actions, ends, [before, after, again], requested, mending)


def audited_kinds(mending: RepairPlans, run_id: str) -> dict[str, list[str]]:
    """Audit; return the kinds of findings, by table."""
    audited(mending.lake, run_id=run_id)
    return by_table(rows_of(results_of(mending.lake).findings(run_id)), "kind")


@contextmanager
def recorded(requested: set[str]) -> Iterator[None]:
    """Add the operations on tables and partitions of Glue that are requested while the block runs."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def record_call(client: Any, operation: str, given: dict[str, Any]) -> Any:
        if "Partition" in operation or "Table" in operation:
            requested.add(f"glue:{operation}")
        return call(client, operation, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", record_call)
        yield


@pytest.fixture(scope="module")
def there(aws: Aws, clients: Clients, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> There:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    return there_and_back(HiveLake(aws, clients, s3, bucket, tmp_path_factory.mktemp("there")))


@pytest.mark.soak
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


@pytest.mark.soak
def test_from_wrong_to_right_and_back_where_the_catalog_names_the_tables(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    there = there_and_back(HiveLake(aws, clients, s3, bucket, tmp_path), True)
    test_from_wrong_to_right_and_back(there)
    # the one that was entered again is younger than the grace
    assert audited_kinds(there.mending, "r3")["orders"] == ["unregistered_partition"]


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


CHANGED = ("since_plan", "since_apply", "at_look", "at_write", "form", "orders")


def own_form(hive: HiveLake) -> Any:
    """A partition of the table `form` with a form and parameters of its own."""
    descriptor = {
        "Location": hive.uri("wh/form/day=2026-11-05"), "Columns": [{"Name": "a", "Type": "int"}],
        "SerdeInfo": {"SerializationLibrary": "x", "Parameters": {"k": "v"}},
    }  # fmt: skip
    return {"Values": ["2026-11-05"], "Parameters": {"owner": "me"}, "StorageDescriptor": descriptor}


@dataclass(frozen=True)
class Changed:
    """Tables like orders, for which somebody else writes to the catalog: one plan is applied, and undone."""

    hive: HiveLake
    applied: dict[str, set[str]]
    """The status of each step after the apply, by table."""
    undone: dict[str, set[str]]
    registered: list[dict[str, dict[tuple[str, ...], str]]]
    """By table, right before the apply, after it, right before the undo, and after it."""
    exit_codes: tuple[int, int]
    keys: set[str]
    """The keys of the record."""


@pytest.fixture(scope="module")
def changed(aws: Aws, clients: Clients, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Changed:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    hive = HiveLake(aws, clients, s3, bucket, tmp_path_factory.mktemp("changed"))
    for table in CHANGED:
        break_orders(hive, table)
    hive.catalog.glue.create_partition(
        DatabaseName=hive.catalog.database, TableName="form", PartitionInput=own_form(hive)
    )
    hive.catalog._stored("form").partitions["['2026-11-05']"].creation_time = LONG_AGO
    mending = opened(hive, *CHANGED)
    planned(mending)
    hive.catalog.partition("since_plan", ["2026-11-03"], hive.uri("elsewhere/"))
    hive.put("wh/since_plan/day=2026-11-04/part-0.parquet")
    states = [all_registered(hive)]
    with registering_meanwhile(hive):
        codes = [mending.apply().exit_code]
    applied = statuses_by_table(mending)
    states.append(all_registered(hive))
    change_since_the_apply(hive)
    states.append(all_registered(hive))
    codes.append(mending.undo().exit_code)
    states.append(all_registered(hive))
    keys = {row["key"] for row in actions_of(mending.lake)}
    return Changed(hive, applied, statuses_by_table(mending), states, (codes[0], codes[1]), keys)


def all_registered(hive: HiveLake) -> dict[str, dict[tuple[str, ...], str]]:
    return {table: registered(hive, table) for table in CHANGED}


def statuses_by_table(mending: RepairPlans) -> dict[str, set[str]]:
    """Return what became of the steps of each table; their keys end with its name."""
    statuses = mending.statuses()
    return {
        table: {status for key, status in statuses.items() if key.endswith(f".{table}")} for table in CHANGED
    }


def change_since_the_apply(hive: HiveLake) -> None:
    of = {"DatabaseName": hive.catalog.database, "TableName": "since_apply"}
    there = hive.uri("wh/since_apply/new")
    other: Any = {"Values": ["2026-11-03"], "StorageDescriptor": {"Location": there}}
    hive.catalog.glue.update_partition(**of, PartitionValueList=["2026-11-03"], PartitionInput=other)
    hive.catalog.partition("since_apply", ["2026-11-04"], hive.uri("wh/since_apply/day=2026-11-04/b"))


@contextmanager
def registering_meanwhile(hive: HiveLake) -> Iterator[None]:
    """Somebody registers the folder of `at_look` before it is read once more, that of `at_write` before the write."""
    call: Any = vars(BaseClient)["_make_api_call"]
    left = {"at_look": 2, "at_write": 1}

    def watched(client: Any, requested: str, given: dict[str, Any]) -> Any:
        table, about = given.get("TableName"), given.get("PartitionInput", {}).get("Values")
        about = given.get("PartitionValues", about)
        operation = {"at_look": "GetPartition", "at_write": "CreatePartition"}.get(str(table))
        if (requested, about) == (operation, ["2026-11-03"]) and left[str(table)] > 0:
            left[str(table)] -= 1
            if not left[str(table)]:
                hive.catalog.partition(str(table), ["2026-11-03"], hive.uri("mine/"))
        return call(client, requested, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", watched)
        yield
    assert not any(left.values())


def test_what_changed_since_the_plan_or_the_apply_stays(changed: Changed) -> None:
    before, *later = (each["since_plan"] for each in changed.registered)
    assert changed.exit_codes[0] == 3
    assert changed.applied["since_plan"] == {"changed"}
    assert later == [before] * 3


def test_what_somebody_changed_since_the_apply_is_not_undone(changed: Changed) -> None:
    _, after, theirs, undone = (each["since_apply"] for each in changed.registered)
    assert changed.exit_codes[1] == 3
    assert (changed.applied["since_apply"], changed.undone["since_apply"]) == ({"applied"}, {"kept"})
    assert undone == theirs != after


@pytest.mark.parametrize("table", ["at_look", "at_write"])
def test_what_somebody_registers_between_look_and_write_stays(changed: Changed, table: str) -> None:
    """Before it is read once more; before it is written, after the canary."""
    assert changed.applied[table] == {"changed"}
    assert {each[table]["2026-11-03",] for each in changed.registered[1:]} == {changed.hive.uri("mine/")}


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


def is_killed(run: Callable[[], Any], *, after: bool) -> None:
    """End a run before or after its first request that deletes a partition."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def dying(client: Any, requested: str, given: dict[str, Any]) -> Any:
        if requested == "DeletePartition":
            if after:
                call(client, requested, given)
            raise Killed
        return call(client, requested, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", dying)
        with pytest.raises(Killed):
            run()


@pytest.mark.parametrize("after", [True, pytest.param(False, marks=pytest.mark.soak)])
@pytest.mark.usefixtures("own_clients")
def test_killed_before_or_after_a_write(hive: HiveLake, after: bool) -> None:
    """Both the apply and the undo are killed, and go on."""
    mending = opened(hive)
    before = registered(hive)
    planned(mending)
    is_killed(mending.apply, after=after)
    assert mending.apply().exit_code == 0
    assert {values for (values,) in registered(hive)} == {f"2026-11-0{day}" for day in (1, 2, 3)}
    is_killed(mending.undo, after=after)
    assert mending.undo().exit_code == 0
    assert registered(hive) == before


def test_a_partition_s_own_form_and_parameters_come_back(changed: Changed) -> None:
    assert ("2026-11-05",) not in changed.registered[1]["form"]
    assert (changed.applied["form"], changed.undone["form"]) == ({"applied"}, {"undone"})
    catalog = changed.hive.catalog
    now: Any = catalog.glue.get_partition(
        DatabaseName=catalog.database, TableName="form", PartitionValues=["2026-11-05"]
    )["Partition"]
    form = own_form(changed.hive)
    assert {name: now[name] for name in form} == form


def test_names_that_do_not_say_their_values_are_for_a_person(there: There) -> None:
    """With several columns, a value may contain text that looks like the next column."""
    assert there.actions["events"] == ["add_partition", "drop_partition", "needs_person", "needs_person"]
    assert set(there.registered[1]["events"]) == {("a/b", "__HIVE_DEFAULT_PARTITION__"), ("x/kind=y", "b")}


def test_the_record_says_which_partition_was_meant(changed: Changed) -> None:
    hive, of = changed.hive, f"glue default:{changed.hive.catalog.database}.orders"
    assert {key for key in changed.keys if key.endswith(of)} == {
        f"{hive.uri('wh/orders/day=2026-11-03/')}#{of}",
        f"day=2026-11-04#{of}",
    }


def test_the_policy_grants_exactly_the_requests_to_the_catalog(there: There) -> None:
    actions = {action for of_table in there.actions.values() for action in of_table}
    assert actions >= {"add_partition", "repoint_partition", "drop_partition"}
    policy = json.loads(POLICY.read_text())
    (granted,) = (each["Action"] for each in policy["Statement"] if each["Sid"] == "MendPartitions")
    assert there.requested == set(granted)

"""Partitions that a catalog has wrongly: planned, mended, found to be mended by an audit, and taken back."""

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from lakeaudit.reconcile.protocol import DROP_PARTITION
from lakeaudit.runtime.aws import Clients, Endpoint
from tests.audits.test_pointers import found, ledger
from tests.builders.audits import audited
from tests.builders.glue import LONG_AGO
from tests.builders.hive_lake import HiveLake, break_orders
from tests.builders.mending import Mending, actions_of
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


def opened(hive: HiveLake, filled: Sequence[str] = FILLED, empty: Sequence[str] = EMPTY) -> Mending:
    """What the audit of the first test finds, as its ledger has it."""
    of, shared = f"glue default:{hive.catalog.database}.orders", {"lake": "plain", "bucket": hive.bucket}
    folders = [f"wh/orders/{name}/" for name in filled]
    rows = [
        finding("unregistered_partition", folder, **shared, subject=f"{hive.uri(folder)}#{of}")
        for folder in folders
    ]
    rows += [
        finding("empty_partition", name, **shared, subject=f"{name}#{of}") | {"key": None} for name in empty
    ]
    mending = Mending(hive.lake(), hive.folder)
    held = [discrepancy(each) for each in rows]
    publish(mending.lake.results, runs=[run(lake="plain")], discrepancies=held)
    return mending


def registered(hive: HiveLake) -> dict[tuple[str, ...], str]:
    """By values where a partition of `orders` is registered."""
    told: Any = hive.catalog.glue.get_partitions(DatabaseName=hive.catalog.database, TableName="orders")
    return {tuple(each["Values"]): each["StorageDescriptor"]["Location"] for each in told["Partitions"]}


def kinds(mending: Mending, run_id: str) -> list[str]:
    audited(mending.lake, run_id=run_id)
    return sorted(row["kind"] for row in found(mending.lake, run_id))


def planned(mending: Mending, allow: Sequence[str] = DROP) -> dict[str, Any]:
    return dict(mending.plan(StringIO(), allow=allow).more["actions"])


@pytest.mark.parametrize("discovered", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_from_wrong_to_right_and_back(hive: HiveLake, discovered: bool) -> None:
    if discovered:
        hive.tables = ["{discover: {from: glue}}"]
    mending = Mending(hive.lake(), hive.folder)
    before = registered(hive)
    assert kinds(mending, "r1") == ["empty_partition", "unregistered_partition"]
    assert planned(mending) == {"add_partition": 1, "drop_partition": 1}
    assert mending.apply().exit_code == 0
    after = registered(hive)
    assert after == {
        **{values: place for values, place in before.items() if values != ("2026-11-04",)},
        ("2026-11-03",): hive.uri("wh/orders/day=2026-11-03"),
    }
    assert kinds(mending, "r2") == []
    assert {state for state, _ in ledger(mending.lake).values()} == {"resolved"}
    assert mending.undo().exit_code == 0
    assert registered(hive) == before
    # the one that was entered again is younger than the grace
    assert kinds(mending, "r3") == ["unregistered_partition"]


def test_an_empty_partition_stays_where_nobody_allows_to_drop_it(hive: HiveLake) -> None:
    mending = opened(hive)
    assert planned(mending, ()) == {"add_partition": 1, "needs_person": 1}


def test_a_partition_is_pointed_at_the_folder_of_its_name(hive: HiveLake) -> None:
    hive.catalog.partition("orders", ["2026-11-03"], hive.uri("wh/orders/moved/"))
    mending = Mending(hive.lake(), hive.folder)
    before = registered(hive)
    assert kinds(mending, "r1") == ["empty_partition", "empty_partition", "unregistered_partition"]
    assert planned(mending) == {"repoint_partition": 1, "drop_partition": 1, "needs_person": 1}
    assert mending.apply().exit_code == 0
    assert registered(hive)["2026-11-03",] == hive.uri("wh/orders/day=2026-11-03")
    assert kinds(mending, "r2") == []
    assert mending.undo().exit_code == 0
    assert registered(hive) == before


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

    def watched(client: Any, asked: str, given: dict[str, Any]) -> Any:
        left[0] -= asked == operation
        if not left[0]:
            left[0] = -9
            hive.catalog.partition("orders", ["2026-11-03"], hive.uri("mine/"))
        return call(client, asked, given)

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

    def lax(client: Any, asked: str, given: dict[str, Any]) -> Any:
        return {} if asked == "CreatePartition" else call(client, asked, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", lax)
    before = registered(hive)
    assert mending.apply().exit_code == 3
    assert (registered(hive), set(mending.statuses().values())) == (before, {"needs_person"})


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("after", [False, True])
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

    def dying(client: Any, asked: str, given: dict[str, Any]) -> Any:
        if asked == "DeletePartition":
            if after:
                call(client, asked, given)
            raise Killed
        return call(client, asked, given)

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


def test_names_that_do_not_say_their_values_are_for_a_person(hive: HiveLake) -> None:
    """Of several columns a value may hold what looks like the next column."""
    hive.table("events", "at", "kind")
    for values in (["x", "a"], ["x/kind=y", "b"]):
        hive.partition("events", values, f"wh/events/{values[1]}", files=False)
    hive.put("wh/events/at=%FF/kind=c/part-0.parquet")
    hive.put("wh/events/at=a%2Fb/kind=__HIVE_DEFAULT_PARTITION__/part-0.parquet")
    hive.tables.remove("orders")
    mending = Mending(hive.lake(), hive.folder)
    kinds(mending, "r1")
    assert planned(mending) == {"add_partition": 1, "drop_partition": 1, "needs_person": 2}
    assert mending.apply().exit_code == 0
    of: Any = {"DatabaseName": hive.catalog.database, "TableName": "events"}
    told: Any = hive.catalog.glue.get_partitions(**of)
    there = {tuple(each["Values"]) for each in told["Partitions"]}
    assert there == {("a/b", "__HIVE_DEFAULT_PARTITION__"), ("x/kind=y", "b")}


def test_the_record_says_which_partition_was_meant(hive: HiveLake) -> None:
    mending = opened(hive)
    planned(mending)
    mending.apply()
    database = hive.catalog.database
    assert {row["key"] for row in actions_of(mending.lake)} == {
        f"{hive.uri('wh/orders/day=2026-11-03/')}#glue default:{database}.orders",
        f"day=2026-11-04#glue default:{database}.orders",
    }


def test_the_policy_allows_what_is_asked_of_the_catalog_and_nothing_else(
    hive: HiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive.catalog.partition("orders", ["2026-11-03"], hive.uri("wh/orders/moved/"))
    hive.put("wh/orders/day=2026-11-05/part-0.parquet")
    mending = opened(hive, filled=(*FILLED, "day=2026-11-05"), empty=(*FILLED, *EMPTY))
    call: Any = vars(BaseClient)["_make_api_call"]
    asked: set[str] = set()

    def noted(client: Any, operation: str, given: dict[str, Any]) -> Any:
        if "Partition" in operation or "Table" in operation:
            asked.add(f"glue:{operation}")
        return call(client, operation, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", noted)
    assert set(planned(mending)) >= {"add_partition", "repoint_partition", "drop_partition"}
    assert (mending.apply().exit_code, mending.undo().exit_code) == (0, 0)
    policy = json.loads(POLICY.read_text())
    (granted,) = (each["Action"] for each in policy["Statement"] if each["Sid"] == "MendPartitions")
    assert asked == set(granted)

"""Which files are handed over to other tools, and which are left out and why, by results that are given."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.reconcile.plans.hand_over import FILES, LEFTOVERS, HandOver
from lakeaudit.results.read import ALL, Results, RowFilter
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import results
from tests.builders.results import NOON, covered, discrepancy, finding, group, lake_file, leftover, publish

if TYPE_CHECKING:
    from lakeaudit.reconcile.plans.planning import Planner

NOW = NOON + timedelta(days=10)
LAKE: dict[str, Any] = {
    "inventories": [{"kind": "listing", "location": "s3://lake/"}],
    "buckets": [{"match": "weak", "consistency": "weak"}],
    "tables": [
        {"name": "orders", "location": "s3://lake/orders", "manifests": [{"kind": "delta"}]},
        {"name": "inner", "location": "s3://lake/orders/inner", "manifests": [{"kind": "delta"}]},
        {"name": "slow", "location": "s3://weak/slow", "manifests": [{"kind": "delta"}]},
    ],
}
OLD = "older than the first complete audit of its table: see --allow older_than_onboarding"
UNFINISHED = "reported by an audit that is not finished, or has not read everything that could list it"


class HandOvers:
    """Results at a place, and the files of a table that are handed over because of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, Location.parse(str(folder / "results"))
        self.reload()

    def reload(self, **changes: Any) -> None:
        self.lake = load_lake(lake_file(self.folder, self.place, **(LAKE | changes)), {})

    def add_results(
        self, ledger: list[Any], files: list[Any], run: str = "complete", axis: str = "complete"
    ) -> None:
        audits = [results.run(status=run), results.run("first")]
        first = covered(axis="leftover", run_id="first", storage_cut_from=NOON - timedelta(days=9))
        publish(self.place, runs=audits, coverage=[covered(axis="leftover", status=axis), first])
        publish(self.place, discrepancies=ledger, leftover_files=files)

    def hand_over(self, row_filter: RowFilter = ALL) -> HandOver:
        return HandOver(self.lake, Results(self.place, Clients(), self.lake.name), row_filter, NOW)

    def leftovers(self, row_filter: RowFilter = ALL, table: str = "orders") -> tuple[list[str], Counter[str]]:
        handed = self.hand_over(row_filter)
        named = next(each for each in self.lake.tables if each.name == table)
        return [each.key for each in handed.leftovers(named, LEFTOVERS, FILES)], handed.left_out


@pytest.fixture
def handover(tmp_path: Path) -> HandOvers:
    return HandOvers(tmp_path)


GROUP = group("unreferenced", "d=1", 1)
YOUNG = {"modified_at": NOW - timedelta(days=2)}


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ({}, None),
        ({"category": "deletes"}, None),
        ({"category": "changes"}, None),
        ({"category": "log"}, "of the category log"),
        ({"category": "other"}, "of the category other"),
        ({"category": None}, "of the category None"),
        ({"category": "marker"}, "of the category marker"),
        ({"modified_at": NOW - timedelta(days=3)}, None),
        (YOUNG, "younger than leftover_age"),
        ({"modified_at": NOW - timedelta(days=3, hours=9), "etag": "e-2"}, "younger than leftover_age"),
        ({"modified_at": NOW - timedelta(days=4), "etag": "e-2"}, None),
        ({"modified_at": None}, "the time of its last write is not known"),
        ({"modified_at": NOON - timedelta(days=10)}, OLD),
        ({"key": "orders/inner/x"}, "inside the location of another table"),
        ({"key": "orders_2/x"}, "outside the table's location"),
        ({"bucket": "other"}, "outside the table's location"),
        ({"bucket": "weak"}, "responses of its bucket may lag behind writes (consistency: weak)"),
        ({"run_id": "r0"}, UNFINISHED),
    ],
)
def test_a_leftover_is_handed_over_unless_an_action_would_refuse_it(
    handover: HandOvers, file: dict[str, Any], why: str | None
) -> None:
    handover.add_results([discrepancy(GROUP)], [leftover(GROUP, "orders/d=1/x") | file])
    assert handover.leftovers() == (([], {why: 1}) if why else (["orders/d=1/x"], {}))


def test_nothing_is_handed_over_while_a_state_of_the_table_is_lost(handover: HandOvers) -> None:
    """Files that no state lists may be the only copies of its rows."""
    lost = discrepancy(finding("overwritten_commit", "orders/_delta_log/3.json", table_name="orders"))
    handover.add_results([discrepancy(GROUP), lost], [leftover(GROUP, "orders/d=1/x")])
    why = "a state of the table is lost or contradicts itself (overwritten_commit)"
    assert handover.leftovers() == ([], {why: 1})


def test_what_was_there_before_anybody_watched_is_listed_where_it_is_meant(handover: HandOvers) -> None:
    handover.add_results(
        [discrepancy(GROUP)], [leftover(GROUP, "orders/x", modified_at=NOON - timedelta(days=99))]
    )
    assert handover.leftovers() == ([], {OLD: 1})
    handed = handover.hand_over()
    handed.allow = ("older_than_onboarding",)
    assert [each.key for each in handed.leftovers(handover.lake.tables[0], LEFTOVERS, FILES)] == ["orders/x"]


def test_nothing_is_listed_where_not_every_claim_is_known_or_a_metadata_store_knows_files(
    handover: HandOvers,
) -> None:
    handover.add_results([discrepancy(GROUP)], [leftover(GROUP, "orders/x")])
    stores = [
        {"kind": "s3guard", "table": "guard", "location": "s3://lake/orders/"},
        {"kind": "s3guard", "table": "guard", "location": "s3://lake/other/"},
        {"kind": "s3guard", "table": "guard"},
        {"kind": "delta_log_store", "table": "log"},
    ]
    for store, listed in zip(stores, (False, True, False, True), strict=True):
        handover.reload(metastores=[store])
        assert bool(handover.leftovers()[0]) == listed
    outer = {"name": "outer", "location": "s3://lake/", "manifests": [{"kind": "s3a_committer"}]}
    handover.reload(tables=[*LAKE["tables"], outer])
    assert handover.leftovers() == ([], {"the claims of outer are incomplete": 1})


@pytest.mark.parametrize(("run", "axis"), [("running", "complete"), ("failed", "complete"), ("partial", "partial"),
                                           ("complete", "overtaken"), ("complete", "off")])  # fmt: skip
def test_an_audit_that_did_not_finish_or_did_not_read_everything_does_not_suffice(
    handover: HandOvers, run: str, axis: str
) -> None:
    handover.add_results([discrepancy(GROUP)], [leftover(GROUP, "orders/x")], run, axis)
    assert handover.leftovers() == ([], {UNFINISHED: 1})


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({}, (["orders/x"], {})),
        ({"state": "pending"}, ([], {})),
        ({"state": "resolved"}, ([], {})),
        ({"ack_until": NOW + timedelta(days=1)}, ([], {"accepted by `lakeaudit ack`": 1})),
        ({"ack_until": NOW - timedelta(days=1)}, (["orders/x"], {})),
        ({"kind": "unowned"}, ([], {})),
        ({"kind": "stale_visible"}, ([], {})),
        ({"kind": "temporary"}, ([], {})),
    ],
)
def test_only_what_is_open_of_kinds_that_may_go(
    handover: HandOvers, held: dict[str, Any], expected: Any
) -> None:
    handover.add_results([discrepancy(GROUP, **held)], [leftover(GROUP, "orders/x")])
    assert handover.leftovers() == expected


def test_a_list_is_narrowed_down(handover: HandOvers) -> None:
    groups = [group("unreferenced", "d=1", 1), group("uncommitted", "d=2", 1)]
    handover.add_results(
        [discrepancy(each) for each in groups], [leftover(each, f"orders/{each['kind']}") for each in groups]
    )
    for wanted, expected in (
        (RowFilter(kinds=["uncommitted"]), ["orders/uncommitted"]),
        (RowFilter(partitions=["d=1"]), ["orders/unreferenced"]),
        (RowFilter(severities=["critical"]), []),
        (RowFilter(tables=["orders"]), ["orders/uncommitted", "orders/unreferenced"]),
    ):
        assert sorted(handover.leftovers(wanted)[0]) == expected
    assert handover.leftovers(table="inner") == ([], {})


def test_differences_are_those_of_single_files_of_the_table(handover: HandOvers) -> None:
    lost = [
        finding("dropped", "orders/lost"), finding("dropped_history", "orders/of history"),
        finding("missing_metadata", "orders/_delta_log/1.json"), finding("content_mismatch", "orders/torn"),
        finding("dropped", "orders/inner/x"), finding("dropped", "elsewhere/x"),
        finding("dropped", "orders/line\nbreak"),
        finding("dropped", "orders/accepted"), finding("archived", "orders/cold"),
        group("overwritten", "d=1", 500), finding("dropped", "orders/z", table_name="inner"),
    ]  # fmt: skip
    until: dict[str, Any] = {"ack_until": NOW + timedelta(days=1)}
    handover.add_results(
        [discrepancy(each, **(until if "accepted" in str(each["key"]) else {})) for each in lost], []
    )
    handed = handover.hand_over(RowFilter(tables=["orders"]))
    assert sorted((each.mark, each.key) for each in handed.differences(handover.lake.tables[0])) == [
        ("*", "orders/torn"),
        ("+", "orders/_delta_log/1.json"),
        ("+", "orders/lost"),
        ("+", "orders/of history"),
    ]
    assert handed.left_out == {
        "inside the location of another table": 1,
        "outside the table's location": 1,
        "its name contains a line break": 1,
        "accepted by `lakeaudit ack`": 1,
        "a finding about many files that does not name them": 1,
    }


def step(action: str, size: int = 7, why: str | None = None) -> Any:
    found = {"size": size, "version_id": "v"} if why is None else {}
    return SimpleNamespace(
        action=action, bucket="lake", key=action, precondition=found, evidence={"why": why}
    )


def test_only_versions_that_a_plan_would_bring_back_are_listed(handover: HandOvers) -> None:
    planned = [
        step("remove_delete_marker"), step("restore_version", 5 << 30), step("restore_version", (5 << 30) + 1),
        step("needs_person", why="somebody did it"), step("another_action"),
    ]  # fmt: skip
    planner = cast("Planner", SimpleNamespace(steps=lambda _results, _wanted: iter(planned)))
    handed = handover.hand_over()
    found = [(each.key, each.size, each.version_id) for each in handed.restores(planner)]
    assert found == [("remove_delete_marker", 7, "v"), ("restore_version", 5 << 30, "v")]
    assert handed.left_out == {
        "above 5 GiB, too large for such a job": 1,
        "somebody did it": 1,
        "a plan would use another action: another_action": 1,
    }
    handed = handover.hand_over(RowFilter(kinds=["uncommitted"]))
    assert list(handed.restores(planner)) == []

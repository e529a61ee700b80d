"""Headlines come from the ledger, and a note names the scope of the last audit."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.explain import text_output
from lakeaudit.keys import Location
from lakeaudit.report.closing import closing, next_commands
from lakeaudit.report.gather import gather
from lakeaudit.report.page_data import PageData
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.change_summary import still_open
from lakeaudit.results.summaries.lake_standing import lake_standing, lost_states
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.results import LAKE, NOON, covered, discrepancy, finding, publish, run, transition

Row = dict[str, Any]
LATER = NOON + timedelta(hours=1)
ACCEPTED = {"ack_by": "ann", "ack_reason": "known", "ack_until": NOON + timedelta(days=7)}
LOST = finding("dropped", "orders/a", recoverable="yes")
OTHER = finding("dropped", "users/b", table_name="users", recoverable=None)
STALE = finding("overwritten", "orders/c", "r2")
TABLES = ("orders", "users", "events")


def page(place: Location, run_id: str = "r2", tables: tuple[str, ...] = TABLES) -> PageData:
    results = Results(place, Clients(), LAKE)
    return gather(results, results.run(run_id), "conf/my lake.yaml", LATER, 50, tables)


def second_run(place: Location, *found: Row, **tables: Any) -> None:
    """A run of `orders` alone, an hour after one of the whole lake."""
    publish(
        place,
        runs=[run(), run("r2", finished_at=LATER)],
        coverage=[*(covered(name) for name in TABLES), covered("orders", run_id="r2")],
        findings=[LOST, OTHER, *found],
        **tables,
    )


def test_what_is_open_elsewhere_is_the_headline_of_an_audit_of_one_table(place: Location) -> None:
    ledger = [discrepancy(OTHER), discrepancy(LOST, "resolved"), discrepancy(STALE)]
    second_run(place, STALE, discrepancies=ledger)
    assert text_output.verdict_line(page(place)) == (
        "CRITICAL: 1 file dropped in 1 table; this audit checked 1 of 3 tables (orders) and reported 1 file "
        "overwritten there"
    )


def test_an_audit_of_the_whole_lake_needs_no_scope(place: Location) -> None:
    second_run(place, discrepancies=[discrepancy(LOST)])
    assert text_output.verdict_line(page(place, tables=("orders",))) == "CRITICAL: 1 file dropped in 1 table"


def test_a_table_that_only_the_ledger_knows_is_of_the_lake_too(place: Location) -> None:
    """Tables that audits find by themselves do not stand in the lake file."""
    second_run(place, discrepancies=[discrepancy(OTHER)])
    line = text_output.verdict_line(page(place, tables=()))
    scope = (
        "this audit checked 1 of 2 tables (orders) and reported nothing of severity warning or higher there"
    )
    assert line == f"CRITICAL: 1 file dropped in 1 table; {scope}"


def test_what_is_accepted_is_left_out_of_the_headline_and_counted_apart(place: Location) -> None:
    second_run(place, discrepancies=[discrepancy(OTHER) | ACCEPTED, discrepancy(LOST, "resolved")])
    line = text_output.verdict_line(page(place))
    assert line.startswith(
        "OK: No finding of severity warning or higher in 1 table; this audit checked 1 of 3 tables (orders)"
    )
    assert closing(page(place)) == "1 accepted"


HELD: list[tuple[str, list[Row], list[tuple[str, str, int]]]] = [
    ("open", [discrepancy(LOST)], [("open", "dropped", 1)]),
    ("pending", [discrepancy(LOST, "pending")], [("pending", "dropped", 1)]),
    ("accepted", [discrepancy(LOST) | ACCEPTED], [("accepted", "dropped", 1)]),
    ("accepted no longer", [discrepancy(LOST) | ACCEPTED | {"ack_until": NOON}], [("open", "dropped", 1)]),
    ("stale: a cut from before its end", [discrepancy(LOST, "resolved")], []),
    (
        "not followed, as in a suspect run",
        [discrepancy(OTHER)],
        [("found", "dropped", 1), ("open", "dropped", 1)],
    ),
]


@pytest.mark.parametrize(("ledger", "standing"), [each[1:] for each in HELD], ids=[each[0] for each in HELD])
def test_how_a_finding_stands(
    place: Location, ledger: list[Row], standing: list[tuple[str, str, int]]
) -> None:
    publish(place, runs=[run()], findings=[LOST], discrepancies=ledger)
    found = lake_standing(Results(place, Clients(), LAKE), run(), LATER, past=False)
    assert sorted((row["standing"], row["kind"], row["findings"]) for row in found) == standing


def torn(key: str, kind: str = "missing_metadata", size: int | None = 0) -> Row:
    return finding(kind, key, recoverable="yes", storage_size=size)


BY_HAND: list[tuple[str, list[Row], list[tuple[str, str | None]]]] = [
    ("a lost file is restored by a plan", [torn("log/1", size=None)], [("missing_metadata", None)]),
    ("a torn one is not", [torn("log/1")], [("missing_metadata", "")]),
    (
        "a commit that was overwritten has advice of its own",
        [torn("log/1"), torn("log/1", "overwritten_commit", None)],
        [("missing_metadata", "overwritten_commit"), ("overwritten_commit", None)],
    ),
    (
        "that of another file does not count",
        [torn("log/1"), torn("log/2", "overwritten_commit", None)],
        [("missing_metadata", ""), ("overwritten_commit", None)],
    ),
    (
        "a hint or converted metadata that lags behind is not set by a plan",
        [finding("stale_pointer", "metadata/version-hint.text", category="log")],
        [("stale_pointer", "")],
    ),
    (
        "a catalog is",
        [finding("stale_pointer", "orders#iceberg_rest main", category=None)],
        [("stale_pointer", None)],
    ),
    ("nor does a torn data file", [torn("a", "size_mismatch")], [("size_mismatch", None)]),
]


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(
    ("found", "by_hand"), [each[1:] for each in BY_HAND], ids=[each[0] for each in BY_HAND]
)
def test_files_that_no_plan_restores_are_marked(
    place: Location, found: list[Row], by_hand: list[tuple[str, str | None]], past: bool
) -> None:
    publish(place, runs=[run()], findings=found, discrepancies=[discrepancy(each) for each in found])
    rows = lake_standing(Results(place, Clients(), LAKE), run(), LATER, past=past)
    assert sorted((row["kind"], row["by_hand"]) for row in rows) == by_hand


def test_alerts_know_which_findings_no_plan_repairs(place: Location) -> None:
    """By kind how many findings a plan repairs (or may repair), and how many none does."""
    found = [
        finding("stale_pointer", "a/metadata/version-hint.text", category="log"),
        finding("stale_pointer", "a#iceberg_rest main", category=None),
        *(torn("b/_delta_log/1"), torn("b/_delta_log/2"), torn("b/_delta_log/3", size=None)),
        finding("phantom", "c/1"),
    ]
    publish(place, runs=[run()], discrepancies=[discrepancy(each) for each in found])
    changes = still_open(Results(place, Clients(), LAKE), LATER)
    assert {change.kind: dict(change.recovery.plannable) for change in changes} == {
        "stale_pointer": {"unknown": 1, "no": 1},
        "missing_metadata": {"yes": 1, "no": 2},
        "phantom": {},
    }


def test_of_a_run_before_the_last_only_its_own_findings_are_known(place: Location) -> None:
    second_run(place, discrepancies=[discrepancy(STALE)])
    assert page(place, "r1").history is None
    assert text_output.verdict_line(page(place, "r1", ())) == "CRITICAL: 2 files dropped in 2 tables"


def test_a_failed_run_still_tells_what_is_open(place: Location) -> None:
    publish(place, runs=[run(), run("r2", "failed", finished_at=LATER)], discrepancies=[discrepancy(LOST)])
    told = page(place, tables=())
    assert text_output.verdict_line(told) == "CRITICAL: 1 file dropped in 1 table (the audit failed)"
    assert next_commands(told)[0] == "lakeaudit doctor 'conf/my lake.yaml'"


def test_an_audit_ends_with_what_changed_and_two_commands(place: Location) -> None:
    new = finding("dropped", "orders/new", "r2")
    held = {"last_run_id": "r2"}
    ends = [finding("dropped", f"orders/{n}", discrepancy_id=f"e{n}") for n in range(3)]
    how = ("restored", "restored", "reference_removed")
    ledger = [
        discrepancy(new, **held), discrepancy(OTHER), discrepancy(LOST, "pending"),
        *(discrepancy(end, "resolved", resolution=way) | held for end, way in zip(ends, how, strict=True)),
    ]  # fmt: skip
    changes = [transition(new, "opened"), *(transition(end, "resolved", run_id="r2") for end in ends)]
    second_run(place, new, discrepancies=ledger, transitions=changes)
    told = page(place)
    assert closing(told) == (
        "1 new, 3 resolved (1 closed, not restored, 2 restored), 1 still open, 1 pending confirmation"
    )
    assert next_commands(told) == [
        "lakeaudit explain 'conf/my lake.yaml' s3://lake/orders/new",
        "lakeaudit discrepancies 'conf/my lake.yaml'",
    ]


def test_a_healthy_lake_ends_in_peace(place: Location, tmp_path: Path) -> None:
    publish(place, runs=[run("r2")], coverage=[covered(run_id="r2")])
    told = page(place, tables=("orders",))
    assert closing(told) == "nothing new, nothing open"
    assert next_commands(told) == [
        "lakeaudit report 'conf/my lake.yaml'",
        "lakeaudit dashboard 'conf/my lake.yaml'",
    ]


def test_tables_of_which_a_state_is_lost(place: Location) -> None:
    lost = finding("lost_commit", "a/x", table_name="a")
    twice = finding("overwritten_commit", "b/_delta_log/3.json", table_name="b")
    over = finding("lost_commit", "c/x", table_name="c")
    hint = finding("missing_metadata", "d/_delta_log/_last_checkpoint", table_name="d", severity="warning")
    gone = finding("missing_metadata", "e/metadata/3.metadata.json", table_name="e", severity="critical")
    mine = [discrepancy(each) for each in (lost, twice, hint, gone, LOST)]
    held = [*mine, discrepancy(over, "resolved")]
    states = [
        {"run_id": "r1", "lake": LAKE, "table_name": name, "manifest_kind": "delta", "as_of": NOON, "number": 3,
         "standing": standing, "state": "3.json"}
        for name, standing in (("b", "lost"), ("f", "lost"), ("g", "read"))
    ]  # fmt: skip
    publish(place, runs=[run()], discrepancies=held, states=states)
    assert lost_states(Results(place, Clients(), LAKE)) == {
        "f": "missing_metadata",
        "a": "lost_commit",
        "b": "overwritten_commit",
        "e": "missing_metadata",
    }

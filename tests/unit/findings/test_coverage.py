"""Coverage in plain rows: what could be judged, and what could not and why."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.evidence.protocol import SnapshotWindow
from lakeaudit.findings.coverage import (
    AXES,
    OUTCOMES,
    Availability,
    AxisState,
    Tallies,
    Tally,
    axis_state,
    count,
    count_others,
    rows,
    tallies,
    together,
    uncounted,
)
from lakeaudit.kinds import COVERED_AXES
from lakeaudit.runtime import duck
from lakeaudit.schemas import COVERAGE
from tests.builders.connections import connection
from tests.builders.evidence import CUT, READ_AT, ago
from tests.builders.scenario import LISTS, table

PLACE = ("orders", "content")

SHARES = [
    # outcomes, decided share
    ({"consistent": 4}, 1.0),
    ({"consistent": 3, "finding": 1}, 1.0),
    ({"consistent": 2, "finding": 1, "ignored": 1}, 1.0),
    ({"consistent": 3, "undecided": 1}, 0.75),
    ({"consistent": 3, "moved_on": 1}, 0.75),
    ({"consistent": 3, "uncovered": 1}, 0.75),
    ({"finding": 1, "undecided": 1, "out_of_window": 8}, 0.5),
    ({"undecided": 5}, 0.0),
    ({"out_of_window": 5}, None),
    ({}, None),
]


@pytest.mark.parametrize(("outcomes", "share"), SHARES)
def test_the_decided_share_is_of_the_files_old_enough_to_judge(
    outcomes: dict[str, int], share: float | None
) -> None:
    assert Tally(outcomes).decided_share == share


def test_files_are_the_sum_of_all_outcomes() -> None:
    assert Tally(dict.fromkeys(OUTCOMES, 2)).files == 2 * len(OUTCOMES)


def count_row(outcome: str, files: int, axis: str = "content", **more: int) -> dict[str, Any]:
    numbers = {"files": files, "bytes": 0, "unconfirmed": 0, "refuted": 0} | more
    return {"judged_table": "orders", "axis": axis, "outcome": outcome, **numbers}


COUNTED = pa.schema([
    ("judged_table", pa.string()), ("axis", pa.string()), ("outcome", pa.string()), ("s_size", pa.int64()),
    ("c_size", pa.int64()), ("l_confirmation", pa.string()), ("suspected", pa.bool_()),
])  # fmt: skip
VERDICTS = [
    # outcome, size in storage, size claimed, confirmation, suspected at first
    ("consistent", 5, 7, "none", False),
    ("consistent", None, 7, "none", False),
    ("consistent", None, None, "live", True),
    ("finding", 1, None, "live", True),
    ("finding", 1, None, "limit", True),
    ("finding", 1, None, "denied", True),
    ("finding", 1, None, "error", True),
    ("finding", 1, None, "none", True),
    ("undecided", 2, None, "live", True),
    ("undecided", 2, None, "denied", True),
    ("moved_on", 2, None, "live", True),
]


def test_verdicts_are_counted_by_outcome() -> None:
    """A suspect that a live check cleared is refuted; a finding that could not be checked live is unconfirmed."""
    rows = duck.small(COUNTED, [("orders", "content", *verdict) for verdict in VERDICTS])
    with closing(connection()) as con:
        found = duck.rows_of(count(con, rows))
    assert {row["outcome"]: (row["files"], row["bytes"], row["unconfirmed"], row["refuted"]) for row in found} == {
        "consistent": (3, 12, 0, 1), "finding": (5, 5, 3, 0), "undecided": (2, 4, 0, 1), "moved_on": (1, 2, 0, 1)
    }  # fmt: skip
    assert tallies(found) == {
        PLACE: Tally({"consistent": 3, "finding": 5, "undecided": 2, "moved_on": 1}, 23, 3, 3)
    }


def test_redundant_copies_move_from_their_old_count_to_the_new_one() -> None:
    copies = pa.table({"judged_table": ["orders"] * 3, "axis": ["duplicate"] * 3, "size": [5, 6, None],
                       "outcome": ["finding", "finding", "ignored"]})  # fmt: skip
    with closing(connection()) as con:
        counts = [*duck.rows_of(count_others(con, copies, "size")), *duck.rows_of(uncounted(con, copies))]
        by_size = duck.rows_of(count_others(con, copies, "size", "size"))
    found = together(tallies([count_row("consistent", 10, "duplicate")]), tallies(counts))
    assert found == {("orders", "duplicate"): Tally({"consistent": 7, "finding": 2, "ignored": 1}, 11)}
    assert sorted((row["outcome"], row["files"], row["size"] or 0) for row in by_size) == [
        ("finding", 1, 5), ("finding", 1, 6), ("ignored", 1, 0)
    ]  # fmt: skip


def test_counts_of_one_place_add_up() -> None:
    found = tallies([count_row("consistent", 3, bytes=30), count_row("finding", 2, bytes=7, unconfirmed=1),
                     count_row("undecided", 1, refuted=1), count_row("consistent", 9, "leftover")])  # fmt: skip
    assert found == {
        PLACE: Tally({"consistent": 3, "finding": 2, "undecided": 1}, 37, 1, 1),
        ("orders", "leftover"): Tally({"consistent": 9}),
    }


def test_what_is_counted_in_parts_is_the_sum_of_the_parts() -> None:
    one: Tallies = {PLACE: Tally({"consistent": 3}, 30, 1, 2)}
    other: Tallies = {
        PLACE: Tally({"consistent": 1, "finding": 1}, 7, 1, 1),
        ("copy", "content"): Tally({"finding": 1}),
    }
    assert together(one, other) == {
        PLACE: Tally({"consistent": 4, "finding": 1}, 37, 2, 3), ("copy", "content"): Tally({"finding": 1})
    }  # fmt: skip
    assert together() == {}


def test_files_with_another_verdict_leave_the_one_they_had() -> None:
    """Redundant copies are counted once as findings, and subtracted from the consistent single files."""
    found = tallies([count_row("consistent", 5, "duplicate"), count_row("consistent", -2, "duplicate"),
                     count_row("finding", 2, "duplicate")])  # fmt: skip
    assert found == {("orders", "duplicate"): Tally({"consistent": 3, "finding": 2})}


READ, ORDERS = {"orders": [SnapshotWindow(CUT)]}, frozenset({"orders"})
WHOLE = Availability({"orders": SnapshotWindow(CUT)}, READ, ORDERS)
NO_STORE = Availability({"orders": SnapshotWindow(CUT)}, {})
DARK_STORE = Availability({"orders": SnapshotWindow(CUT)}, {}, ORDERS)
NO_STORAGE = Availability({}, READ, ORDERS, {}, {"storage": "no storage source could be read"})
ELSEWHERE = Availability({}, READ, ORDERS)
STORE_GAP = {("orders", "metastore"): ["hive h"]}
HOLED = replace(WHOLE, gaps={("orders", "storage"): ["listing s3://lake/"], **STORE_GAP})
HALF_STORE = replace(WHOLE, gaps=STORE_GAP)
OTHER = replace(WHOLE, gaps={("copy", "storage"): ["listing s3://lake/"]})
REMARKED = Availability(
    {"orders": SnapshotWindow(CUT)},
    READ,
    ORDERS,
    remarks={("orders", "commit"): "two versions cannot be compared"},
)
LISTED = table(manifests=[LISTS])
SOUND, PLAIN, GAP = table(), table(manifests=[]), table(holed=True)
REFUSED = table(state={"refused": "reader feature x is not known"})
FINE = Tally({"consistent": 1})
UNSURE = Tally({"consistent": 1, "undecided": 1})
APART = Tally({"consistent": 1, "uncovered": 1})

PART = replace(WHOLE, narrowed={"orders": "only day=1 was requested and checked"})
POINTED = replace(WHOLE, catalogs=True, catalog_cuts=READ)

STATES = [
    ("content", SOUND, WHOLE, FINE, "complete", ""),
    ("content", PLAIN, WHOLE, FINE, "off", "no manifest is configured"),
    ("duplicate", PLAIN, WHOLE, FINE, "complete", ""),
    ("leftover", PLAIN, WHOLE, FINE, "complete", ""),
    ("metastore", SOUND, NO_STORE, FINE, "off", "no metadata store covers the table"),
    ("metastore_tree", SOUND, NO_STORE, FINE, "off", "no metadata store covers the table"),
    ("metastore", SOUND, DARK_STORE, FINE, "partial", "no metadata store of the table could be read"),
    (
        "metastore_tree",
        SOUND,
        DARK_STORE,
        FINE,
        "partial",
        "no metadata store of the table could be read",
    ),
    ("content", SOUND, DARK_STORE, FINE, "complete", ""),
    ("content", SOUND, NO_STORE, FINE, "complete", ""),
    ("content", REFUSED, WHOLE, FINE, "partial", "reader feature x is not known"),
    ("leftover", REFUSED, WHOLE, FINE, "partial", "reader feature x is not known"),
    ("duplicate", REFUSED, WHOLE, FINE, "partial", "reader feature x is not known"),
    ("metastore", REFUSED, WHOLE, FINE, "complete", ""),
    ("content", SOUND, NO_STORAGE, FINE, "partial", "no storage source could be read"),
    ("content", SOUND, ELSEWHERE, FINE, "partial", "no storage source covers the table"),
    ("content", GAP, WHOLE, FINE, "partial", "commit 4 is missing"),
    ("duplicate", GAP, WHOLE, FINE, "partial", "commit 4 is missing"),
    ("leftover", GAP, WHOLE, FINE, "partial", "commit 4 is missing"),
    ("metastore", GAP, WHOLE, FINE, "complete", ""),
    (
        "content",
        SOUND,
        HOLED,
        UNSURE,
        "partial",
        "1 file undecided: listing s3://lake/ was not read completely",
    ),
    (
        "commit",
        SOUND,
        HOLED,
        UNSURE,
        "partial",
        "1 commit undecided: listing s3://lake/ was not read completely",
    ),
    (
        "metastore",
        SOUND,
        HOLED,
        UNSURE,
        "partial",
        "1 file undecided: listing s3://lake/ and hive h were not read completely",
    ),
    ("metastore", SOUND, HALF_STORE, UNSURE, "partial", "1 file undecided: hive h was not read completely"),
    ("content", SOUND, HALF_STORE, UNSURE, "complete", ""),  # no rule of this axis asks a metadata store
    ("commit", SOUND, HALF_STORE, UNSURE, "complete", ""),
    ("content", SOUND, OTHER, UNSURE, "complete", ""),
    ("content", SOUND, HOLED, FINE, "complete", ""),
    ("content", SOUND, WHOLE, UNSURE, "complete", ""),
    ("content", SOUND, WHOLE, APART, "partial", "no storage source covers some of the files"),
    ("commit", SOUND, WHOLE, FINE, "complete", ""),
    ("hazard", SOUND, WHOLE, FINE, "complete", ""),
    (
        "commit",
        PLAIN,
        WHOLE,
        FINE,
        "off",
        "no manifest of the table is a log of commits or writes",
    ),
    (
        "commit",
        LISTED,
        WHOLE,
        FINE,
        "off",
        "no manifest of the table is a log of commits or writes",
    ),
    ("hazard", PLAIN, WHOLE, FINE, "off", "no manifest is configured"),
    ("hazard", LISTED, WHOLE, FINE, "complete", ""),
    ("commit", REFUSED, WHOLE, FINE, "partial", "reader feature x is not known"),
    ("hazard", GAP, WHOLE, FINE, "partial", "commit 4 is missing"),
    ("commit", SOUND, ELSEWHERE, FINE, "partial", "no storage source covers the table"),
    ("commit", SOUND, REMARKED, UNSURE, "complete", "two versions cannot be compared"),
    ("hazard", SOUND, REMARKED, FINE, "complete", ""),
    ("pointer", SOUND, WHOLE, FINE, "off", "no catalog is configured"),
    ("pointer", SOUND, replace(WHOLE, catalogs=True), FINE, "off", "no catalog names the table"),
    ("pointer", SOUND, replace(WHOLE, catalogs=True, catalog_gap="unread"), FINE, "partial", "unread"),
    ("pointer", SOUND, POINTED, FINE, "complete", ""),
    ("pointer", PLAIN, POINTED, FINE, "complete", ""),
    ("pointer", REFUSED, POINTED, FINE, "complete", ""),
    ("pointer", GAP, POINTED, FINE, "complete", ""),
    ("pointer", GAP, replace(POINTED, catalog_gap="unread"), FINE, "complete", ""),
    ("pointer", SOUND, replace(POINTED, catalog_holes={"orders": "throttled"}), FINE, "partial", "throttled"),
    ("pointer", SOUND, POINTED, APART, "partial", "no storage source covers some of the files"),
    ("content", SOUND, PART, FINE, "partial", "only day=1 was requested and checked"),
    ("content", GAP, PART, FINE, "partial", "commit 4 is missing; only day=1 was requested and checked"),
]


@pytest.mark.parametrize(("axis", "facts", "availability", "tally", "status", "reason"), STATES)
def test_the_state_of_an_axis(
    axis: str, facts: Any, availability: Availability, tally: Tally, status: str, reason: str
) -> None:
    assert axis_state(axis, facts, availability, tally) == AxisState(status, reason)


def test_every_axis_of_every_table_has_its_row() -> None:
    made = rows([SOUND, table("copy")], {}, WHOLE, "run", "shop")
    assert [(row["table_name"], row["axis"]) for row in made] == [
        (t, axis) for t in ("orders", "copy") for axis in AXES
    ]
    assert set(AXES) == set(COVERED_AXES)


def test_a_row_of_coverage() -> None:
    outcomes = {
        "consistent": 5,
        "finding": 2,
        "ignored": 1,
        "out_of_window": 4,
        "undecided": 1,
        "moved_on": 1,
        "uncovered": 1,
    }
    (row, *_) = rows([SOUND], {PLACE: Tally(outcomes, 1500, 2, 3)}, WHOLE, "run", "shop")
    assert row == {
        "run_id": "run", "lake": "shop", "table_name": "orders", "axis": "content", "status": "partial",
        "reason": "no storage source covers some of the files", "table_version": 7, "storage_cut_from": CUT,
        "storage_cut_to": None, "history_horizon": ago(24 * 30), "files": 15, "bytes": 1500, "consistent": 5,
        "findings": 2, "ignored": 1, "out_of_window": 4, "undecided": 1, "moved_on": 1, "uncovered": 1,
        "unconfirmed": 2, "refuted": 3, "decided_share": 8 / 11,
    }  # fmt: skip


def test_a_row_has_the_columns_of_the_result_table() -> None:
    (row, *_) = rows([SOUND], {}, WHOLE, "run", "shop")
    assert set(row) == set(COVERAGE.names)


def test_a_table_is_known_by_its_manifests() -> None:
    both = table(state={"horizon": ago(9)})
    assert (both.version, both.horizon, both.read_at, both.stateful, both.has_gap) == (
        7,
        ago(9),
        READ_AT,
        True,
        False,
    )
    assert (PLAIN.version, PLAIN.horizon, PLAIN.read_at, PLAIN.stateful, PLAIN.has_gap) == (
        None,
        None,
        None,
        False,
        False,
    )
    assert table(manifests=[LISTS]).stateful is False
    assert (GAP.has_gap, REFUSED.has_gap, REFUSED.refusal) == (True, True, "reader feature x is not known")

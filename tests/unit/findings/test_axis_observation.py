"""Up to which time a run's evidence reaches, by axis: what may be resolved, and what rests on too old a cut."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeaudit.evidence.protocol import SnapshotWindow
from lakeaudit.findings.coverage import Availability
from lakeaudit.ledger.axis_observation import AxisObservation, axis_observations

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


INVENTORY = SnapshotWindow(ago(6), ago(4), timedelta(hours=1))
MEANS = Availability(
    {"orders": INVENTORY, "young": SnapshotWindow(ago(1))},
    {
        "orders": [SnapshotWindow(ago(2)), SnapshotWindow(ago(3))],
        "young": [SnapshotWindow(ago(30), margin=timedelta(hours=1))],
    },
)


def row(
    table: str = "orders", axis: str = "content", status: str = "complete", **counts: Any
) -> dict[str, Any]:
    return {"table_name": table, "axis": axis, "status": status, "undecided": 0, "uncovered": 0} | counts


@pytest.mark.parametrize(
    ("table", "axis", "at", "edge"),
    [
        ("orders", "content", ago(6), ago(7)),
        ("orders", "leftover", ago(6), ago(7)),
        ("orders", "metastore", ago(6), ago(7)),
        ("young", "content", ago(1), ago(1)),
        ("young", "metastore", ago(30), ago(31)),
        ("young", "metastore_tree", ago(30), ago(31)),
        ("nowhere", "content", NOW, None),
    ],
)
def test_the_oldest_picture_decides(table: str, axis: str, at: datetime, edge: datetime | None) -> None:
    observation, *_ = axis_observations([row(table, axis)], MEANS, NOW, all_sources=True)
    assert (observation.at, observation.edge) == (at, edge)


@pytest.mark.parametrize(
    ("axis", "status", "counts", "complete"),
    [
        ("content", "complete", {}, True),
        ("content", "partial", {}, False),
        ("content", "off", {}, False),
        ("content", "overtaken", {}, False),
        ("content", "complete", {"undecided": 3}, True),
        ("metastore", "complete", {"uncovered": 3}, True),
        ("leftover", "complete", {}, True),
        ("leftover", "complete", {"undecided": 1}, False),
        ("duplicate", "complete", {"uncovered": 1}, False),
        ("metastore_tree", "complete", {"undecided": 1}, False),
    ],
)
def test_groups_may_hide_among_what_could_not_be_judged(
    axis: str, status: str, counts: dict[str, Any], complete: bool
) -> None:
    observation, *_ = axis_observations([row("orders", axis, status, **counts)], MEANS, NOW, all_sources=True)
    assert observation.complete is complete


@pytest.mark.parametrize(
    ("axis", "status", "all_sources", "undecided", "expected", "complete"),
    [
        ("commit", "complete", True, 0, "complete", True),
        ("commit", "complete", True, 1, "complete", False),
        (
            "commit",
            "complete",
            False,
            0,
            "partial",
            False,
        ),  # a listing shows no older versions of a log's files
        ("commit", "partial", True, 0, "partial", False),
        ("commit", "off", True, 0, "off", False),
        ("commit", "overtaken", False, 0, "overtaken", False),
        ("hazard", "complete", True, 0, "complete", True),
        ("hazard", "complete", False, 0, "complete", True),  # rules and logs are as they are now
        ("hazard", "complete", True, 9, "complete", False),
        ("hazard", "partial", True, 0, "partial", False),
    ],
)
def test_commits_and_hazards_rest_on_what_is_now(
    axis: str, status: str, all_sources: bool, undecided: int, expected: str, complete: bool
) -> None:
    rows = [row(axis=axis, status=status, undecided=undecided)]
    (found, _) = axis_observations(rows, MEANS, NOW, all_sources=all_sources)
    assert found == AxisObservation("orders", axis, expected, NOW, NOW, undecided)
    assert found.complete is complete


@pytest.mark.parametrize(("all_sources", "complete"), [(True, True), (False, False)])
def test_a_live_audit_says_nothing_of_sources_it_did_not_ask(all_sources: bool, complete: bool) -> None:
    (observation,) = axis_observations([], MEANS, NOW, all_sources=all_sources)
    assert observation == AxisObservation("", "source", "complete" if complete else "partial", NOW, NOW)
    assert observation.complete is complete

"""A table's commits over time: rows in the result tables, one call, what is drawn; and what the page says of it."""

from datetime import timedelta
from typing import Any

import pytest
import streamlit as st

from lakeaudit.dashboard import timeline_plot
from lakeaudit.dashboard.queries.table import Change, changes
from lakeaudit.dashboard.queries.timeline import LoggedCommit, Timeline, timeline
from lakeaudit.dashboard.widgets import literal
from lakeaudit.formatting import visible
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.trends import changes as of_lake
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.pagedata import HOSTILE
from tests.builders.results import LAKE, NOON, discrepancy, finding, logged, publish, run, transition

Row = dict[str, Any]
HOUR = timedelta(hours=1)
LATER = NOON + 2 * HOUR


@pytest.fixture
def results(place: Location) -> Results:
    return Results(place, Clients(), LAKE)


def lost_file(key: str, commit: str | None, **given: Any) -> Row:
    return finding("dropped", f"orders/{key}", commit_id=commit, **given)


def test_results_of_older_versions_have_no_commits(place: Location, results: Results) -> None:
    publish(place, runs=[run()], discrepancies=[discrepancy(lost_file("a", "7"))], transitions=[])
    assert timeline(results, "orders", LATER) == Timeline()


def test_commits_with_what_is_open_of_them_and_what_changed_since(place: Location, results: Results) -> None:
    rows = [
        discrepancy(lost_file("a", "7")), discrepancy(lost_file("b", "7", severity="warning")),
        discrepancy(lost_file("c", "7"), "resolved"), discrepancy(lost_file("d", "2")),
        discrepancy(lost_file("e", None)),
        discrepancy(lost_file("f", "8"), ack_by="ann", ack_until=LATER + HOUR),
        discrepancy(lost_file("g", "8", table_name="other")),
    ]  # fmt: skip
    changed = [
        transition(rows[0], "opened", transition_id="1"), transition(rows[1], "opened", transition_id="2"),
        transition(rows[2], "resolved", transition_id="3", at=LATER), transition(rows[3], "opened", at=NOON - 9 * HOUR),
        transition(rows[4], "opened", transition_id="4", run_id="r0"), transition(rows[6], "opened", transition_id="5"),
    ]  # fmt: skip
    publish(
        place, runs=[run(), run("r0", "failed")], discrepancies=rows, transitions=changed,
        commits=[
            logged(8, NOON, files_added=None, files_removed=None), logged(7, NOON - HOUR, files_added=3),
            logged(7, NOON, table_name="other"), logged(9, NOON, run_id="r0"),
        ],
    )  # fmt: skip
    told = changes(of_lake(results), "orders")
    assert timeline(results, "orders", LATER, told) == Timeline(
        commits=(
            LoggedCommit(7, "7", NOON - HOUR, "WRITE", 3, 0, {"critical": 1, "warning": 1}),
            LoggedCommit(8, "8", NOON, "WRITE", None, None, {}),
        ),
        changes=(Change(NOON, "opened", 2), Change(LATER, "resolved", 1)),
        earlier=1,
    )


def test_of_two_runs_the_one_that_was_published_last_counts(place: Location, results: Results) -> None:
    runs = [run("r1"), run("r2", finished_at=LATER), run("r3", "running")]
    publish(place, runs=runs, commits=[logged(n, NOON, run_id=f"r{n}") for n in (1, 2, 3)])
    assert [commit.version for commit in timeline(results, "orders", LATER).commits] == [2]


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the charts, captions and tables of a page, in order."""
    told: list[Any] = []
    monkeypatch.setattr(st, "altair_chart", lambda chart, **_: told.append(chart.to_dict()))
    monkeypatch.setattr(st, "caption", told.append)
    monkeypatch.setattr(st, "table", lambda frame, **_: told.append(frame))
    return told


def test_nothing_is_drawn_of_a_table_without_commits(rendered: list[Any]) -> None:
    timeline_plot.show(Timeline(changes=(Change(NOON, "opened", 1),)))
    assert rendered == []


def test_losses_openings_and_resolutions_are_marked(rendered: list[Any]) -> None:
    commits = (
        LoggedCommit(1, "1", NOON - HOUR, "WRITE", 5, 0, {}),
        LoggedCommit(2, "2", NOON, "DELETE", None, None, {"critical": 2}),
    )
    timeline_plot.show(
        Timeline(commits, (Change(NOON, "opened", 2), Change(LATER, "resolved", 1)), earlier=3)
    )
    caption, chart, in_words = rendered
    assert "1 with open discrepancies" in caption
    assert "3 open ones belong to earlier commits" in caption
    bars, diamonds, feet = (chart["datasets"][layer["data"]["name"]] for layer in chart["layer"])
    assert [(bar["what"], bar["files"], bar["number"]) for bar in bars[:2]] == [
        ("files added", 5, 5.0), ("files removed", 0, 0.0),
    ]  # fmt: skip
    assert [bar["number"] for bar in bars[2:]] == [None, None], "a missing number is not rendered as zero"
    assert [mark["text"] for mark in diamonds] == ["2 critical open, of commit 2"]
    assert [mark["text"] for mark in feet] == ["2 opened", "1 resolved"]
    assert [*in_words["version"]] == ["`2`", "`1`"], "those of which something is open come first"


def test_hostile_commits_are_shown_as_they_are(rendered: list[Any]) -> None:
    commits = tuple(LoggedCommit(None, text, NOON, text, 1, 1, {text: 1}) for text in HOSTILE)
    timeline_plot.show(Timeline(commits))
    _, chart, in_words = rendered
    bars = chart["datasets"][chart["layer"][0]["data"]["name"]]
    assert {bar["commit"] for bar in bars} == {visible(text) for text in HOSTILE}
    assert [*in_words["version"]] == [literal(text) for text in HOSTILE[: -1 - timeline_plot.NAMED : -1]]

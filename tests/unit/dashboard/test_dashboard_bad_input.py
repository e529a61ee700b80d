"""Results as nobody wishes them: many partitions, long names, quiet years, clocks that ran back, old results, none."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from lakeaudit.dashboard import partition_plots
from lakeaudit.dashboard.queries import table as of_table
from lakeaudit.dashboard.queries.table import PARTITIONS
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.results import LAKE, covered, discrepancy, finding, lake_file, publish, run, transition
from tests.unit.dashboard.test_dashboard import HOUR, NOW, PAGES, TIMES, page, page_text

Row = dict[str, Any]
DAY = timedelta(days=1)


@pytest.fixture
def lake(tmp_path: Path, place: Location) -> str:
    inventory = {
        "kind": "s3_inventory",
        "location": "s3://inv/lake/",
        "covers": ["s3://lake/"],
        "max_age": "3d",
    }
    return lake_file(tmp_path, place, inventories=[inventory])


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    st.cache_data.clear()
    st.cache_resource.clear()


def lost_file(key: str, **given: Any) -> Row:
    return finding("dropped", f"orders/{key}", **given)


def open_pages(lake: str) -> dict[str, str]:
    """What each page says, none of them with an error; of the table page `orders` is shown, of the file page `d-x`."""
    chosen = {"table": {"table": "orders"}, "file": {"id": "d-orders/x"}}
    shown = {name: page(lake, name, **chosen.get(name, {})) for name in PAGES}
    assert {name: [*driver.exception] for name, driver in shown.items()} == {name: [] for name in PAGES}
    told = {name: page_text(driver) for name, driver in shown.items()}
    assert [name for name, said in told.items() if "unexpected" in said] == []
    return told


def test_forty_partition_columns(lake: str, place: Location) -> None:
    paths = ["/".join(f"c{n:02d}={n * of % 7}" for n in range(40)) for of in range(1, 30)]
    rows = [lost_file(f"{n}" if n else "x", partition_path=path) for n, path in enumerate(paths)]
    publish(place, runs=[run(**TIMES)], coverage=[covered()], discrepancies=[*map(discrepancy, rows)])
    told = open_pages(lake)
    assert "29 files dropped" in told["table"]
    assert "only by c" in told["table"], "the caption names the two keys of the plot"


def test_very_many_partitions(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 in a table take a second each; a tenth of them show as well that few are drawn and the rest counted."""
    number = 20_000
    rows = [lost_file(f"{n}", partition_path=f"day={n}", discrepancy_id=f"{n}") for n in range(number)]
    publish(place, runs=[run(**TIMES)], discrepancies=[*map(discrepancy, rows)])
    found = of_table.partitions(Results(place, Clients(), LAKE), "orders", NOW)
    assert (len(found.shown), found.rest) == (PARTITIONS, number - PARTITIONS)
    drawn: list[Any] = []
    monkeypatch.setattr(st, "altair_chart", lambda chart, **_: drawn.append(chart))
    monkeypatch.setattr(st, "caption", drawn.append)
    partition_plots.draw(found)
    assert "18,000 more partitions are not drawn" in drawn[-1]


@pytest.mark.parametrize("letter", ["x", "ü", "语"])
def test_names_as_long_as_they_may_be(lake: str, place: Location, letter: str) -> None:
    long = letter * (1000 // len(letter.encode()))
    table = {"name": long, "location": "s3://lake/long"}
    rows = [
        lost_file(long, partition_path=f"k={long}", discrepancy_id="d-orders/x"),
        lost_file("y", table_name=table["name"]),
    ]
    publish(
        place,
        runs=[run(**TIMES)],
        coverage=[covered(), covered(long)],
        discrepancies=[*map(discrepancy, rows)],
    )
    told = open_pages(lake)
    assert "1 file dropped" in told["table"]
    assert long in told["file"], "on its own page a name is whole"


def test_a_year_without_a_finding_says_since_when_it_is_quiet(lake: str, place: Location) -> None:
    at = [NOW - 365 * DAY + n * 30 * DAY for n in range(13)]
    runs = [run(f"r{n}", as_of=each, started_at=each, finished_at=each) for n, each in enumerate(at)]
    runs.append(run("last", **TIMES))
    publish(place, runs=runs, coverage=[covered(run_id=each["run_id"]) for each in runs])
    told = open_pages(lake)
    assert re.search(f"Quiet for .*, since {at[0]:%Y-%m-%d %H:%M:%SZ}", told["lake"])
    assert "Nothing is open" in told["table"]


def test_a_repaired_lake_shows_since_when_it_is_quiet(lake: str, place: Location) -> None:
    row, over = lost_file("x"), NOW - 9 * DAY
    publish(
        place, runs=[run(**TIMES)], coverage=[covered()],
        discrepancies=[discrepancy(row, "resolved", resolved_at=over, resolution="restored")],
        transitions=[transition(row, "resolved", at=over)],
    )  # fmt: skip
    told, since = open_pages(lake), f"{over:%Y-%m-%d %H:%M:%SZ}"
    assert f"Quiet for 9 d, since {since}" in told["lake"]
    assert f"Nothing is open since {since}" in told["table"]


def test_clocks_that_ran_back(lake: str, place: Location) -> None:
    """Runs that end before they begin, evidence and findings of the future, a resolution before its opening."""
    ahead = NOW + 3 * HOUR
    source = {
        "role": "storage",
        "kind": "s3_inventory",
        "location": "s3://inv/lake/",
        "cut_from": ahead,
        "cut_to": NOW,
    }
    runs = [
        run("r1", as_of=ahead, started_at=ahead, finished_at=NOW - HOUR, sources=[source]),
        run("r0", as_of=NOW - DAY, started_at=NOW, finished_at=NOW - 2 * HOUR, sources=[source]),
    ]
    rows = [discrepancy(lost_file("x", manifest_time=ahead), first_seen_at=ahead, last_evidence_at=NOW - DAY)]
    rows.append(discrepancy(lost_file("y"), "resolved", opened_at=ahead, resolved_at=NOW - DAY))
    told = [
        transition(rows[0], "opened", at=ahead),
        transition(rows[1], "resolved", at=NOW - DAY, transition_id="2"),
    ]
    publish(place, runs=runs, coverage=[covered()], discrepancies=rows, transitions=told)
    assert "1 file dropped" in open_pages(lake)["table"]


def test_results_of_the_version_before(lake: str, place: Location) -> None:
    """They have no commits, plans or notices."""
    row = lost_file("x", commit_id="7", table_version=7)
    publish(place, runs=[run(version="0.1", **TIMES)], coverage=[covered()], discrepancies=[discrepancy(row)])
    told = open_pages(lake)
    assert "1 file dropped" in told["table"]
    assert "The newest" not in told["table"]


def test_results_that_are_empty(lake: str, place: Location) -> None:
    publish(
        place, runs=[], coverage=[], findings=[], discrepancies=[], transitions=[], commits=[], notices=[]
    )
    told = open_pages(lake)
    assert "run `lakeaudit audit` first" in told["lake"]

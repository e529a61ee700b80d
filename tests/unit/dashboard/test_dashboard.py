"""The dashboard's pages, run by Streamlit's own test driver: their text, and that stored text cannot act."""

import http.client
import json
import re
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from lakeaudit import cli
from lakeaudit.alerts.metrics import write_metrics
from lakeaudit.commands import dashboard as command
from lakeaudit.config import load_lake
from lakeaudit.dashboard import markup, session, widgets
from lakeaudit.dashboard.serve import Where, options
from lakeaudit.dashboard.source_query import is_own
from lakeaudit.errors import BadInput
from lakeaudit.explain.source_answers import SourceAnswer
from lakeaudit.formatting import UNKNOWN, visible
from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS
from lakeaudit.report.plots import spark_path
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.pagedata import HOSTILE
from tests.builders.results import (
    covered,
    discrepancy,
    finding,
    group,
    lake_file,
    leftover,
    publish,
    run,
    transition,
)

Row = dict[str, Any]
Captured = pytest.CaptureFixture[str]
NOW = datetime.now(UTC).replace(microsecond=0)
"""Pages ask the clock; what is published here is an hour old."""
HOUR = timedelta(hours=1)
TIMES: Row = {"as_of": NOW - HOUR, "started_at": NOW - HOUR, "finished_at": NOW - HOUR}
PAGES = ("lake", "table", "file", "runs", "plans")


pytestmark = pytest.mark.usefixtures("nothing_remembered")


def _script(lake: str, first: str) -> None:
    from lakeaudit.dashboard.app import main

    main([lake], first)


@cache
def _scan_no_components() -> None:
    """At every run of a page the driver looks through all that is installed: two thirds of the time of most pages."""
    cast("Any", manifest_scanner).scan_component_manifests = lambda *_, **__: []


def page(lake: str, name: str, **address: str | list[str]) -> AppTest:
    _scan_no_components()
    driver = AppTest.from_function(_script, args=(lake, name), default_timeout=120)
    for key, value in address.items():
        driver.query_params[key] = value
    return driver.run()


SHOWN = (
    "title",
    "header",
    "subheader",
    "markdown",
    "text",
    "caption",
    "code",
    "table",
    "expander",
    "error",
)


def page_text(driver: AppTest) -> str:
    """Everything that the page says, as it was handed to the browser."""
    told = [repr(each) for each in driver.exception]
    for kind in SHOWN:
        for each in getattr(driver, kind, []):
            told += [str(getattr(each, "label", "")), str(getattr(each, "value", ""))]
    told += [each.value.to_string() for each in [*driver.table, *driver.dataframe]]
    return "\n".join(told)


def links(driver: AppTest) -> list[tuple[str, str]]:
    """Label and address of every link of the page."""
    return [(each.proto.label, each.proto.query_string) for each in driver.get("page_link")]


def publish_open(place: Location, rows: Sequence[Row]) -> None:
    """Publish one complete run whose findings are open discrepancies of the ledger."""
    publish(
        place,
        runs=[run(**TIMES)],
        coverage=[covered()],
        findings=rows,
        discrepancies=[*map(discrepancy, rows)],
    )


def tiles(driver: AppTest) -> list[str]:
    """The words of each severity's tile, without the scale of its line."""
    drawn = "".join(each.proto.body for each in driver.get("html") if 'class="tiles"' in each.proto.body)
    drawn = re.sub('<span class="(top|ends)".*?</span>(?=<img|</div>)', "", drawn)
    return [re.sub("<[^>]*>", "", part) for part in re.split(r'<div class="tile [a-z ]*">', drawn)[1:]]


def dropped(key: str, **given: Any) -> Row:
    return finding("dropped", f"orders/{key}", **given)


LOST = dropped(
    "day=1/a.parquet", partition_path="day=1", rows_at_stake=1200, bytes_at_stake=4096, recoverable="yes",
    recovery="older_version", recovery_version_id="v7", recoverable_until=NOW + 9 * HOUR, manifest_size=4096,
    manifest_etag="abc", storage_size=None, table_version=41, explanation="listed since Monday",
    cause="lifecycle rule", cause_principal="ops",
)  # fmt: skip
STRAYS = group("temporary", "day=2", 2, bytes_at_stake=10)


@pytest.fixture
def published(place: Location) -> None:
    accepted = discrepancy(dropped("acc"), ack_by="ann", ack_reason="known", ack_until=NOW + HOUR)
    publish(
        place,
        runs=[run(**TIMES)],
        coverage=[covered(), covered("blind", consistent=0, undecided=10, status="partial", decided_share=None,
                                     reason="its log has a gap")],
        findings=[LOST, STRAYS],
        discrepancies=[discrepancy(LOST, first_seen_at=NOW - 3 * HOUR), discrepancy(STRAYS), accepted],
        transitions=[transition(LOST, "opened", at=NOW - HOUR)],
        leftover_files=[leftover(STRAYS, "orders/x"), leftover(STRAYS, "orders/y")],
    )  # fmt: skip


# --- what pages say ----------------------------------------------------------------------------------------


def test_the_first_page(lake: str, published: None) -> None:
    driver = page(lake, "lake")
    told = page_text(driver)
    assert [each.value for each in driver.title] == ["1 file dropped in 1 table"]
    assert tiles(driver) == ["\u25c6 critical1", "\u25b2 error0", "\u25a0 warning0", "\u25cf info1"]
    assert "1 accepted" in told
    *tables, (last, run_shown) = links(driver)
    assert (last.startswith("the last one: complete, 1 table not fully judged, 1 h"), run_shown) == (
        True,
        "run=r1",
    )
    assert tables == [
        ("**orders**", "table=orders"), ("**blind**", "table=blind"),
    ]  # fmt: skip
    assert "1 file dropped \u00b7 1,200 rows at stake" in told
    assert "also 1 less severe" in told
    assert not driver.exception


def test_what_is_less_than_the_worst_may_be_recoverable_too(lake: str, place: Location) -> None:
    """The line of the table is of the worst alone, the command of all."""
    gone = dropped("gone", recoverable="no")
    older = finding("dropped_history", "orders/older", recoverable="yes", recovery="older_version")
    publish(
        place, runs=[run(**TIMES)], coverage=[covered()], discrepancies=[*map(discrepancy, (gone, older))]
    )
    driver = page(lake, "lake")
    assert "1 file dropped \u00b7 rows at stake not known \u00b7 recoverable: no" in page_text(driver)
    assert [each.value for each in driver.code] == [f"lakeaudit reconcile plan {lake} -o plan.jsonl"]


def test_a_severity_of_others_is_text_and_no_tile(lake: str, place: Location) -> None:
    odd = [discrepancy(dropped("a", severity=HOSTILE[0]))]
    publish(place, runs=[run(**TIMES)], coverage=[covered()], discrepancies=odd)
    driver = page(lake, "lake")
    assert not driver.exception
    assert len(tiles(driver)) == 4
    assert f"Unknown severity: 1 {visible(HOSTILE[0])}" in page_text(driver)


def test_the_line_of_a_tile_starts_at_none() -> None:
    assert spark_path((0, 2, 4)) == "M0 20V20.0H1V10.5H2V1.0H3V20Z"
    assert spark_path((64,) * 3) == "M0 20V1.0H1V1.0H2V1.0H3V20Z"
    assert spark_path((0, 0)) == ""


def test_the_line_of_a_tile_has_a_scale_and_dates(lake: str, published: None) -> None:
    began = datetime.now(UTC)
    (drawn,) = [
        each.proto.body for each in page(lake, "lake").get("html") if 'class="tiles"' in each.proto.body
    ]
    possible = [  # the page asks the clock itself, perhaps after midnight
        f"<span>{now - timedelta(days=29):%m-%d}</span><span>{now:%m-%d}</span>"
        for now in (began, datetime.now(UTC))
    ]
    critical, error = drawn.split('<div class="tile ')[1:3]
    assert '<span class="top" aria-hidden="true">max 1</span>' in critical
    assert any(ends in critical for ends in possible)
    assert "max" not in error, "nothing was open"


def test_the_grid_has_a_row_a_table(lake: str, published: None) -> None:
    (grid,) = page(lake, "lake").dataframe
    rows = grid.value.set_index("state")
    assert [*rows.index] == ["\u25c6 critical", "? not judged"]
    first = rows.iloc[0]
    assert (first["table"], first["rows at stake"]) == ("table?table=orders", 1200)
    assert first["until"] == LOST["recoverable_until"]
    assert [*first["open"]] == ["\u25c6 1", "\u25cf 1"]
    assert first["30 days"][-1] == 1, "above info"
    assert first["since"] < NOW - HOUR
    assert first["judged"] != first["judged"], "a normal value is shown once"
    assert (rows.iloc[1]["judged"], rows.iloc[1]["why not all"]) == (0.0, "nothing could be judged")
    assert "owner" not in rows, "nobody has one"


@pytest.mark.parametrize(
    ("kinds", "most"),
    [
        ({"orders": 1}, 1),
        ({"orders": 3, "items": 12}, 12),
    ],
)
def test_the_trend_of_the_grid_names_its_dates_and_its_scale(
    lake: str, place: Location, kinds: dict[str, int], most: int
) -> None:
    rows = [dropped(f"{name}{at}", table_name=name) for name, files in kinds.items() for at in range(files)]
    opened = [
        transition(row, "opened", at=NOW - HOUR, transition_id=row["discrepancy_id"], to_severity="critical")
        for row in rows
    ]
    publish(
        place, runs=[run(**TIMES)], coverage=[covered(name) for name in kinds], findings=rows,
        discrepancies=[discrepancy(row, opened_at=NOW - HOUR) for row in rows], transitions=opened,
    )  # fmt: skip
    began = datetime.now(UTC)
    (grid,) = page(lake, "lake").dataframe
    column = json.loads(grid.proto.columns)["30 days"]
    possible = [  # the page reads the clock itself, perhaps after midnight
        f"{now - timedelta(days=29):%m-%d} to {now:%m-%d}, 0 to {most}" for now in (began, datetime.now(UTC))
    ]
    assert column["label"] in possible
    scale = column["type_config"]
    assert (scale["type"], scale["y_min"], scale["y_max"]) == ("area_chart", 0, most)
    assert "same scale for every table" in column["help"]
    assert {len(line) for line in grid.value["30 days"]} == {30}
    assert max(max(line) for line in grid.value["30 days"]) == most


def test_stored_names_in_the_grid_cannot_change_the_address(lake: str, place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[covered(name) for name in HOSTILE])
    (grid,) = page(lake, "lake").dataframe
    assert all(re.fullmatch(r"table\?table=[A-Za-z0-9%._~-]+", address) for address in grid.value["table"])


def test_a_table_with_nothing_decided_is_never_green(lake: str, place: Location) -> None:
    blind = covered(consistent=0, undecided=10, status="partial", decided_share=None)
    publish(place, runs=[run(**TIMES)], coverage=[blind])
    for name, address in {"lake": {}, "table": {"table": "orders"}, "runs": {"run": "r1"}}.items():
        told = page_text(page(lake, name, **address))
        assert "nothing could be judged" in told.lower()
        assert "green" not in told


def test_a_healthy_table_is_green(lake: str, place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[covered()])
    assert ":green-badge[\u2713 quiet]" in page_text(page(lake, "lake"))
    assert ":green-badge[\u2713 quiet]" in page_text(page(lake, "table", table="orders"))


def test_a_table_says_what_is_broken_since_when_why_and_whether_it_is_recoverable(
    lake: str, published: None
) -> None:
    driver = page(lake, "table", table="orders")
    told = page_text(driver)
    for sentence in (
        "**1 file dropped** :red-badge[\u25c6 critical]",
        f"lakeaudit reconcile plan {lake} --table orders --kind dropped -o plan.jsonl\n",
        f"lakeaudit reconcile plan {lake} --table orders --kind temporary -o clear.jsonl",
        "Read both plans; `lakeaudit reconcile apply plan.jsonl` and `lakeaudit reconcile apply clear.jsonl` apply",
        f"yes, until {(NOW + 9 * HOUR):%Y-%m-%d %H:%M:%S}Z (8 h ",
        "1 file, 1,200 rows and 4.0 KiB at stake.",
        f"Open since {(NOW - 3 * HOUR):%Y-%m-%d %H:%M:%S}Z (3 h",
        "Cause: lifecycle rule, by ops.",
        "Why: listed since Monday.",
        f"Recoverable: yes, until {(NOW + 9 * HOUR):%Y-%m-%d %H:%M:%S}Z (8 h ",
        "Not counted: 1 accepted",
        "day=1",
    ):
        assert sentence in told, sentence
    assert ("`s3://lake/orders/day=1/a.parquet`", "id=d-orders%2Fday%3D1%2Fa.parquet") in links(driver)
    assert not driver.exception


@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ({}, {"day=1/a.parquet", "day=2#temporary"}),
        ({"severity": "critical"}, {"day=1/a.parquet"}),
        ({"severity": ["critical", "info"]}, {"day=1/a.parquet", "day=2#temporary"}),
        ({"state": "accepted"}, {"acc"}),
        ({"kind": "temporary"}, {"day=2#temporary"}),
        ({"partition": "day=1"}, {"day=1/a.parquet"}),
        ({"q": "a.parq"}, {"day=1/a.parquet"}),
        ({"q": "' OR ''='"}, set()),
        (
            {"severity": "<b>", "kind": "x", "partition": "none", "page": "-1"},
            {"day=1/a.parquet", "day=2#temporary"},
        ),
        ({"page": "99999999999999"}, {"day=1/a.parquet", "day=2#temporary"}),
        ({"page": "7"}, {"day=1/a.parquet", "day=2#temporary"}),
    ],
)
def test_filters_live_in_the_address(lake: str, published: None, address: Row, keys: set[str]) -> None:
    driver = page(lake, "table", table="orders", **address)
    found = {
        label.strip("`").removeprefix("s3://lake/orders/")
        for label, to in links(driver)
        if to.startswith("id=")
    }
    assert found == keys
    assert not driver.exception


def test_choosing_a_filter_writes_it_into_the_address(lake: str, published: None) -> None:
    driver = page(lake, "table", table="orders", page="3")
    driver.multiselect(key="table/severity").select("critical").run()
    assert driver.query_params["severity"] == "critical"
    assert "page" not in driver.query_params
    assert len([to for _, to in links(driver) if to.startswith("id=")]) == 1
    driver.multiselect(key="table/severity").unselect("critical").run()
    assert len([to for _, to in links(driver) if to.startswith("id=")]) == 2
    driver.selectbox(key="table/table").select("blind").run()
    assert driver.query_params["table"] == "blind"
    assert "its log has a gap" in page_text(driver)


def test_a_long_list_has_pages(lake: str, place: Location) -> None:
    publish(
        place,
        runs=[run(**TIMES)],
        coverage=[covered()],
        discrepancies=[discrepancy(dropped(f"{n:03d}")) for n in range(120)],
    )
    driver = page(lake, "table", table="orders")
    assert len(links(driver)) == 50
    driver.button(key="page-on").click().run()
    driver.button(key="page-on").click().run()
    assert (driver.query_params["page"], len(links(driver))) == ("3", 20)
    assert driver.button(key="page-on").disabled


def test_a_file(lake: str, published: None) -> None:
    for address in ({"id": LOST["discrepancy_id"]}, {"uri": LOST["subject"]}):
        driver = page(lake, "file", **address)
        told = page_text(driver)
        for sentence in (
            "s3://lake/orders/day=1/a.parquet",
            "Why: listed since Monday",
            "Cause: lifecycle rule, by ops",
            "Recoverable: yes, from an older version, until",
            "aws s3api copy-object --bucket lake --key orders/day=1/a.parquet",
            "versionId=v7",
            "opened (dropped): why",
            f"plan {lake} --table orders --kind dropped --file s3://lake/orders/day=1/a.parquet -o plan.jsonl\n",
        ):
            assert sentence in told, sentence
        claims = driver.table[0].value
        assert claims.values.tolist() == [
            ["the file", "listed", ":red[≠ no object]"],
            ["size", "4,096 B (4.0 KiB)", "—"],
            ["ETag", "`abc`", "—"],
        ]
        assert not driver.exception
        assert [each.value for each in driver.title] == ["`a.parquet`"]


def test_what_is_not_recoverable_has_no_advice_to_restore_it(lake: str, place: Location) -> None:
    lost = dropped(
        "a", recoverable="no", explanation="seen 2026-11-23T18:46:09Z, s3://a/2026-11-23T18:46:09Z.gz"
    )
    publish(
        place, runs=[run(**TIMES)], coverage=[covered()], findings=[lost], discrepancies=[discrepancy(lost)]
    )
    told = page_text(page(lake, "file", id=lost["discrepancy_id"]))
    assert "Recoverable: no." in told
    assert (
        "What to do: Write the rows again from their source. "
        "Only after that, remove the lost file from the metadata of the table" in told
    )
    assert "recoverable_until" not in told
    assert "--allow restore" not in told
    assert f"lakeaudit explain {lake} s3://lake/orders/a" in told
    assert "Why: seen 2026-11-23 18:46:09Z, s3://a/2026-11-23T18:46:09Z.gz" in told
    assert "recoverable: no" in page_text(page(lake, "lake"))


def test_a_commit_that_was_written_twice_is_never_copied_over(lake: str, place: Location) -> None:
    lost = finding("overwritten_commit", "orders/_delta_log/1.json", subject_type="commit", recoverable="yes",
                   recovery="older_version", recovery_version_id="v1", storage_etag="e", storage_time=NOW)  # fmt: skip
    publish(
        place, runs=[run(**TIMES)], coverage=[covered()], findings=[lost], discrepancies=[discrepancy(lost)]
    )
    told = page_text(page(lake, "file", id=lost["discrepancy_id"]))
    assert "copy-object" not in told
    assert (
        "aws s3api get-object --bucket lake --key orders/_delta_log/1.json --version-id v1 lost-1.json"
        in told
    )
    assert "written again" in told
    assert "delete marker" not in told


def test_a_file_with_several_findings_has_the_claims_of_each(lake: str, place: Location) -> None:
    claims: Row = {"manifest_size": 5, "metastore_size": 5, "storage_size": 4}
    rows = [
        finding("size_mismatch", "orders/s", discrepancy_id="1", **claims, recoverable="yes"),
        finding("metastore_stale", "orders/s", discrepancy_id="2", **claims),
        finding(
            "size_mismatch", "orders/s", discrepancy_id="3", table_name="other", **claims, recoverable="yes"
        ),
    ]
    publish_open(place, rows)
    driver = page(lake, "file", uri=rows[0]["subject"])
    told = page_text(driver)
    assert [each.value.values.tolist() for each in driver.table if "storage" in each.value] == [
        [["size", "5 B", ":red[\u2260] 4 B", "5 B"]]
    ] * 3
    assert "cannot be shown" not in told
    for name in ("Size mismatch of orders", "Size mismatch of other", "-o orders.size_mismatch.jsonl",
                 "-o other.size_mismatch.jsonl",
                 "Resolve the other open discrepancies of this file first."):  # fmt: skip
        assert name in told, name
    assert "Current answers of the sources" in told
    assert "Another file" in told


def test_a_commit_that_another_finding_explains_is_recoverable_too(lake: str, place: Location) -> None:
    log: Row = {"category": "log", "axis": "commit", "recoverable": "yes"}
    rows = [
        finding("overwritten_commit", "orders/_delta_log/3.json", discrepancy_id="1", **log),
        finding("missing_metadata", "orders/_delta_log/3.json", discrepancy_id="2", **log),
    ]
    publish_open(place, rows)
    told = page_text(page(lake, "file", uri=rows[0]["subject"]))
    assert "Recoverable: yes" in told
    assert "Resolve the other open discrepancies of this file first." in told


def test_what_differs_is_set_apart_and_only_that(lake: str, place: Location) -> None:
    row = finding(
        "size_mismatch", "orders/s", manifest_size=5, metastore_size=5, storage_size=4, manifest_etag="e",
        storage_etag="e",
    )  # fmt: skip
    publish(
        place, runs=[run(**TIMES)], coverage=[covered()], findings=[row], discrepancies=[discrepancy(row)]
    )
    claims = page(lake, "file", id=row["discrepancy_id"]).table[0].value
    assert claims.values.tolist() == [
        ["size", "5 B", ":red[\u2260] 4 B", "5 B"],
        ["ETag", "`e`", "`e`", "—"],
    ]


def test_a_group_names_its_files_and_makes_no_claims(lake: str, published: None) -> None:
    driver = page(lake, "file", id=STRAYS["discrepancy_id"])
    told = page_text(driver)
    assert "2 files in the last runs" in told
    assert "`s3://lake/orders/x`" in told
    assert "claims" not in told
    assert [each.label for each in driver.button] == []


def test_the_lake_is_not_touched_without_a_click(
    lake: str, published: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Answers:
        sources = (
            SourceAnswer("storage s3://lake", "absent"),
            SourceAnswer("metastore", "unknown", {"size": 4}, "access <b>denied"),
        )

    def explain(_lake: object, _results: object, _clients: object, uri: str, **_: object) -> type[Answers]:
        asked.append(uri)
        return Answers

    monkeypatch.setattr("lakeaudit.dashboard.source_query.explain_file", explain)
    for name in PAGES:
        page(lake, name, table="orders", id=LOST["discrepancy_id"], run="r1")
    driver = page(lake, "file", id=LOST["discrepancy_id"])
    assert asked == []
    next(each for each in driver.button if each.label == "Ask now").click().run()
    assert asked == ["s3://lake/orders/day=1/a.parquet"]
    told = page_text(driver)
    assert ":red-badge[absent]" in told
    assert "access <b>denied" in [each.value for each in driver.text]
    assert "size 4" in told


@pytest.mark.parametrize(
    ("bucket", "key", "own"),
    [
        ("lake", "orders/x", True),
        ("lake", "ordersx", False),
        ("lake", "other/x", False),
        ("prod-eu", "wh/t/x", True),
        ("dev-eu", "wh/t/x", False),
        ("seen", "in/x", True),
        ("", "etc/passwd", False),
    ],
)
def test_only_files_of_the_lakes_own_places_can_be_queried(
    tmp_path: Path, place: Location, bucket: str, key: str, own: bool
) -> None:
    found = {"discover": {"from": "inventory", "under": ["s3://prod-*/wh/"]}}
    table = {"name": "orders", "location": "s3://lake/orders", "manifests": [{"kind": "delta"}]}
    seen = {"kind": "s3_inventory", "location": "s3://inv/", "covers": ["s3://seen/in/"]}
    file = lake_file(tmp_path, place, tables=[table, found], inventories=[seen])
    assert is_own(load_lake(file, {}), bucket, key) is own


def test_a_page_does_not_ask_for_files_elsewhere(lake: str, published: None) -> None:
    driver = page(lake, "file", uri="/etc/passwd")
    assert "It is outside this lake" in page_text(driver)
    assert [each.label for each in driver.button] == []


def test_the_runs(lake: str, place: Location) -> None:
    later = {name: at + HOUR / 2 for name, at in TIMES.items()}
    partial = [covered(table, run_id="r0", status="partial") for table in ("orders", "items")]
    publish(
        place, coverage=[covered(), *partial],
        runs=[
            run("r0", "partial", **{name: at - HOUR for name, at in TIMES.items()}),
            run(**TIMES, gates=["suite x"]), run("r2", "failed", **later, error="no <b>evidence</b>"),
        ],
    )  # fmt: skip
    driver = page(lake, "runs")
    rows = driver.dataframe[0].value
    assert [*rows["run"]] == ["runs?run=r2", "runs?run=r1", "runs?run=r0"]
    assert [*rows["state"]] == ["\u25c6 failed", "\u2713 complete", "\u25a0 partial"]
    assert [*rows["why not complete"]] == [
        "no <b>evidence</b>",
        "suite x",
        "incomplete evidence about 2 tables",
    ]
    assert ":red-badge[failed] nothing published" in page_text(page(lake, "runs", run="r2"))
    assert "The last audit failed: run r2" in page_text(page(lake, "lake"))
    one = page(lake, "runs", run="r1")
    assert [*one.dataframe[0].value["table"]] == ["table?table=orders"]
    assert "Failed: suite x" in page_text(one)


@pytest.mark.parametrize("name", ["inventories/shop", *HOSTILE])
def test_pages_state_why_the_last_run_failed(lake: str, place: Location, name: str) -> None:
    error = f"s3://{name}: no report is complete"
    later = {name: at + HOUR / 2 for name, at in TIMES.items()}
    publish(place, runs=[run(**TIMES), run("r2", "failed", **later, error=error)], coverage=[covered()])
    cause = visible(error)
    driver = page(lake, "runs", run="r2")
    assert cause in [each.value for each in driver.text], "the page of the run"
    assert "Nothing could be judged: the run published no coverage." in page_text(driver)
    rows = page(lake, "runs").dataframe[0].value.set_index("run")
    assert rows.loc["runs?run=r2", "why not complete"] == cause
    assert rows.loc["runs?run=r1", "why not complete"] == ""
    (trouble,) = [each.value for each in page(lake, "lake").markdown if ":red-badge[audit]" in each.value]
    began = f"{later['started_at']:%Y-%m-%d %H:%M:%S}Z"
    sentence = widgets.prose(f"The last audit failed: run r2, started {began}: {error}")
    assert trouble == f":red-badge[audit] {sentence}"


def test_a_run_shows_its_changes(lake: str, place: Location) -> None:
    opened = [dropped(str(at)) for at in range(3)]
    told = [transition(row, "opened", at=NOW - HOUR, to_severity="critical") for row in opened]
    told.append(transition(opened[0], "reopened", at=NOW - HOUR, to_severity="warning"))
    told.append(transition(opened[1], "resolved", at=NOW - HOUR, from_severity="critical"))
    publish(place, runs=[run(**TIMES)], coverage=[covered()], findings=opened, transitions=told)
    (row,) = page(lake, "runs").dataframe[0].value.to_dict("records")
    told_in_list = (row["new"], row["back"], row["of these"], row["resolved"])
    assert told_in_list == (3, 1, "3 critical, 1 warning", 1)
    told_of_one = page_text(page(lake, "runs", run="r1"))
    assert "In the ledger: 3 new (3 critical), 1 back again (1 warning), 1 resolved." in told_of_one


def test_where_changes_bear_no_run_nobody_knows_which_one_made_them(lake: str, place: Location) -> None:
    row = dropped("1")
    told = [transition(row, "opened", at=NOW - HOUR, to_severity="critical", run_id=None)]
    publish(place, runs=[run(**TIMES)], coverage=[covered()], findings=[row], transitions=told)
    (listed,) = page(lake, "runs").dataframe[0].value.to_dict("records")
    assert {"new", "resolved"}.isdisjoint(listed)
    assert "Its changes of the ledger were not recorded." in page_text(page(lake, "runs", run="r1"))


def test_a_reason_of_most_tables_is_shown_once(lake: str, place: Location) -> None:
    half: Row = {"consistent": 0, "undecided": 10, "status": "partial", "decided_share": None}
    tables = [covered(f"t{at}", **half, reason="no metadata store covers the table") for at in range(3)]
    publish(
        place, runs=[run(**TIMES)], coverage=[*tables, covered("odd", **half, reason="its log has a gap")]
    )
    driver = page(lake, "runs", run="r1")
    assert "4 tables: 3 not fully judged (no metadata store covers the table)." in page_text(driver)
    assert {*driver.dataframe[0].value["why not all"]} == {"", "its log has a gap"}


# --- nothing, damage, the unknown --------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_nothing_was_ever_audited(lake: str, name: str) -> None:
    driver = page(lake, name)
    assert not driver.exception
    if name in ("lake", "runs"):
        assert "run `lakeaudit audit` first" in page_text(driver)
    assert "green" not in page_text(driver)


def _half_written(place: Location) -> None:
    """A first commit that was never finished."""
    log = Path(place.spark_path, "runs", "_delta_log")
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.tmp").write_text("{")


def _no_files(place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[covered()], discrepancies=[discrepancy(LOST)])
    for file in Path(place.spark_path, "discrepancies").glob("*.parquet"):
        file.unlink()


def _tomorrows(place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[covered()], discrepancies=[discrepancy(LOST)])
    log = Path(place.spark_path, "discrepancies", "_delta_log", f"{0:020d}.json")
    log.write_text(re.sub(r'"minReaderVersion":\d+', '"minReaderVersion":9', log.read_text()))


def _no_folder(place: Location) -> None:
    Path(place.spark_path).write_text("a file")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (_half_written, "run `lakeaudit audit` first"),
        (_no_files, "restore it, or audit into another place"),
        (_tomorrows, "use the newer of the two"),
        (_no_folder, "run `lakeaudit audit` first|results"),
    ],
)
def test_results_that_cannot_be_read_are_one_sentence(
    lake: str, place: Location, harm: Callable[[Location], None], told: str
) -> None:
    harm(place)
    for name, address in {"lake": {}, "table": {"table": "orders"}, "file": {"id": "x"}}.items():
        driver = page(lake, name, **address)
        assert not driver.exception
        assert "Traceback" not in page_text(driver)
        assert "green" not in page_text(driver)
        assert re.search(told, page_text(driver)) or (name != "lake" and driver.title)


def test_a_lake_file_that_broke_meanwhile(lake: str, published: None) -> None:
    assert not page(lake, "lake").exception
    Path(lake).write_text("version: 2\n")
    driver = page(lake, "lake")
    assert not driver.exception
    assert "version" in page_text(driver)
    assert ":red-badge[cannot be shown]" in page_text(driver)


def test_new_results_show_without_a_restart(lake: str, place: Location, published: None) -> None:
    driver = page(lake, "lake")
    assert [each.value for each in driver.title] == ["1 file dropped in 1 table"]
    later = {name: at + HOUR / 2 for name, at in TIMES.items()}
    publish(
        place,
        coverage=[covered(run_id="r2")],
        findings=[finding("lost_commit", "p", "r2")],
        runs=[run("r2", **later)],
    )
    assert [each.value for each in driver.run().title] == ["1 file dropped in 1 table"]
    session._versions.clear()  # five seconds later
    assert [each.value for each in driver.run().title] == [
        "2 discrepancies in 1 table: 1 file dropped, 1 file of a lost commit"
    ]


def test_a_fault_of_ours_is_one_sentence(lake: str, published: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("no_such_column")

    monkeypatch.setattr("lakeaudit.dashboard.session.lake_figures", fail)
    driver = page(lake, "lake")
    assert not driver.exception
    assert "unexpected KeyError: 'no_such_column'" in page_text(driver)


@pytest.mark.parametrize(
    ("name", "address", "told"),
    [
        ("table", {"table": "<b>x</b>"}, "no table <b>x</b> in this lake"),
        ("file", {"id": "' OR 1=1"}, "no discrepancy ' OR 1=1 in the ledger"),
        ("file", {"uri": "ftp://x"}, "no discrepancy has ftp://x in its name"),
        ("file", {"uri": "s3://lake/orders/nobody"}, "does not prove that the file is intact"),
        (
            "runs",
            {"run": "\u202e[x](javascript:alert(1))"},
            r"no run \u202e[x](javascript:alert(1)) in these results",
        ),
    ],
)
def test_an_address_may_say_anything(lake: str, published: None, name: str, address: Row, told: str) -> None:
    driver = page(lake, name, **address)
    assert not driver.exception
    assert told in [each.value for each in driver.text] or any(told in each.value for each in driver.text)


# --- hostile text ------------------------------------------------------------------------------------------

RAW = re.compile("[\x00-\x09\x0b-\x1f\u202e\u200b\u2028\ufeff]")


def hostile(place: Location) -> list[Row]:
    """Every column that takes text from outside takes HOSTILE."""
    names = ("partition_path", "explanation", "recovery_version_id", "storage_etag", "manifest_version_id", "commit_id",
             "related_key", "cause", "cause_principal", "storage_class")  # fmt: skip
    lost = [
        finding("dropped", text, discrepancy_id=f"d{at}", recoverable="yes", recovery="older_version",
                **dict.fromkeys(names, text), table_version=at)
        for at, text in enumerate(HOSTILE)
    ]  # fmt: skip
    tables = [
        covered(text, consistent=0, undecided=9, status="partial", decided_share=None, reason=text)
        for text in HOSTILE
    ]
    sources = [{"role": text, "kind": text, "location": text, "identity": text} for text in HOSTILE]
    publish(
        place, runs=[run(**TIMES, error=HOSTILE[0], sources=sources, gates=list(HOSTILE))],
        coverage=[covered(), *tables],
        findings=lost, transitions=[transition(row, "opened", reason=row["key"]) for row in lost],
        discrepancies=[discrepancy(row, ack_by=row["key"], ack_reason=row["key"]) for row in lost],
    )  # fmt: skip
    return lost


def markdown(driver: AppTest) -> Iterator[str]:
    """Return the text that the browser reads as Markdown, without its code spans."""
    texts = [
        each.value
        for kind in ("title", "header", "subheader", "markdown", "caption")
        for each in getattr(driver, kind)
    ]
    texts += [str(cell) for each in driver.table for cell in each.value.to_numpy().flatten()]
    texts += [label for label, _ in links(driver)] + [each.label for each in driver.expander]
    for text in texts:
        yield re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


SIGNS = re.compile(r"<|javascript|https?:|www\.|\{\{|\$\(|!\[|onerror|\\|evil|alert")


def test_stored_text_never_reaches_markdown(lake: str, place: Location) -> None:
    lost = hostile(place)
    asked = [("lake", {}), ("table", {"table": "orders"}), ("runs", {}), ("runs", {"run": "r1"})]
    asked += [("table", {"table": text}) for text in HOSTILE[:3]]
    asked += [("file", {"id": row["discrepancy_id"]}) for row in lost]
    for name, address in asked:
        driver = page(lake, name, **address)
        assert not driver.exception
        told = list(markdown(driver))
        assert [text for text in told if SIGNS.search(text)] == []
        assert RAW.search(page_text(driver).replace("\n", "")) is None, RAW.search(
            page_text(driver).replace("\n", "")
        )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a.parquet", "`a.parquet`"),
        ("a`b", "``a`b``"),
        ("`a``", "``` `a`` ```"),
        ("a  b", r"`a\x20\x20b`"),
        ("\n", r"`\n`"),
        ("", "(empty)"),
        (None, "—"),
        (7, "`7`"),
    ],
)
def test_a_code_span_holds_exactly_the_text(text: object, shown: str) -> None:
    assert widgets.literal(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "10 files dropped in 2 tables (sales.orders, raw.events_2)",
            "10 files dropped in 2 tables (sales.orders, raw.events_2)",
        ),
        ("42,768 of region=eu/dt=2026-11-21", "42,768 of region=eu/dt=2026-11-21"),
        ("as of 2026-11-21 07:36:02Z, 12.5 %", "as of 2026-11-21 07:36:02Z, 12.5 %"),
        ("1. item", "`1.` item"),
        ("see www.evil.example now", "see `www.evil.example` now"),
        ("see https://evil.example", "see `https://evil.example`"),
        ("mail a@b.example", "mail `a@b.example`"),
        (
            ":smile: -> <b> *x* _y_ $z$ [a](b) a--b ~c~",
            "`:smile:` `->` `<b>` `*x*` `_y_` `$z$` `[a](b)` `a--b` `~c~`",
        ),
        ("two  spaces", r"two `\x20` spaces"),
        ("# head", "`#` head"),
        ("- item", "`-` item"),
        ("(c) 2026", "`(c)` 2026"),
        ("a:b:c", "`a:b:c`"),
        ("\u202egnp", "`\\u202egnp`"),
        ("tëxt", "`tëxt`"),
    ],
)
def test_only_plain_words_are_left_to_markdown(text: str, shown: str) -> None:
    assert widgets.prose(text) == shown


def test_a_long_text_keeps_both_ends() -> None:
    assert widgets.shortened("a" * 90) == "a" * 90
    short = widgets.shortened("a" * 50 + "b" * 500 + "c" * 60)
    assert (len(short), short[:30], short[-60:]) == (91, "a" * 30, "c" * 60)


@pytest.mark.parametrize(
    ("rows", "filled", "shown"),
    [
        (20, 20, True),
        (20, 2, True),  # nine of ten are empty
        (20, 1, False),
        (20, 0, False),
        (19, 1, False),
        (10, 1, True),
        (9, 1, True),
        (1, 0, False),
        (0, 0, False),
    ],
)
@pytest.mark.parametrize("empty", ["", UNKNOWN])
def test_a_grid_leaves_out_a_column_that_is_nearly_empty(
    monkeypatch: pytest.MonkeyPatch, rows: int, filled: int, shown: bool, empty: str
) -> None:
    frames: list[Any] = []
    monkeypatch.setattr(st, "table", lambda frame, **_: frames.append(frame))
    cells = [(empty, "x" if at < filled else empty, "last") for at in range(rows)]
    widgets.grid(("first", "middle", "last"), cells, alt="rows")
    (frame,) = frames
    assert [*frame.columns] == ["first", *["middle"] * shown, *["last"] * (rows > 0)]
    assert [*frame["first"]] == [empty] * rows, "the first column stays, even if it is empty"
    assert not shown or [*frame["middle"]].count("x") == filled


def test_numbers_of_a_grid_stay_right_aligned_beside_a_column_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys: list[str] = []

    def container(key: str) -> AbstractContextManager[None]:
        keys.append(key)
        return nullcontext()

    monkeypatch.setattr(st, "container", container)
    monkeypatch.setattr(st, "table", lambda *_, **__: None)
    widgets.grid(("table", "owner", "files"), [("orders", "", "3")], alt="rows", numbers=("files",))
    assert keys[0].startswith(f"{markup.GRID}-n2-"), "files is the second column that is shown"


def test_every_kind_is_called_by_plain_words() -> None:
    assert [name for name in KINDS if "`" in widgets.prose(name.replace("_", " "))] == []


# --- the command -------------------------------------------------------------------------------------------


def test_streamlit_is_missing(capsys: Captured, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "streamlit", None)
    monkeypatch.delitem(sys.modules, "lakeaudit.dashboard.serve", raising=False)
    assert cli.main(["dashboard", lake]) == 10
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "lakeaudit: dashboard: needs streamlit; pip install 'lakeaudit[dashboard]'"


def test_a_bad_lake_file_starts_nothing(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeaudit.dashboard.serve.serve", pytest.fail)
    assert cli.main(["dashboard", "no-such.yaml"]) == 2
    assert "no such lake file" in capsys.readouterr().err


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"127.0.0.1:{port}: cannot be used .*choose another"):
            command.free_port("127.0.0.1", port)


def test_a_free_port_is_used_if_no_port_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(command, "WELL_KNOWN", taken.getsockname()[1])
        assert command.free_port("127.0.0.1", None) not in (0, taken.getsockname()[1])


def test_a_port_that_was_taken_while_pages_were_loaded(
    capsys: Captured, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeaudit.dashboard.serve.serve", lambda *_: sys.exit(1))
    assert cli.main(["dashboard", lake]) == 2
    assert "another process took the port during the start; start again" in capsys.readouterr().err


def test_a_host_that_is_not_ours() -> None:
    with pytest.raises(BadInput, match="choose another --host"):
        command.free_port("192.0.2.1", None)


def test_nothing_of_streamlit_reports_home_or_is_reached_by_other_names() -> None:
    given = options(Where("127.0.0.1", 1))
    assert (given["browser.gatherUsageStats"], given["client.showErrorDetails"]) == (False, "none")
    assert given["server.allowedHosts"] == ["127.0.0.1", "localhost"]
    behind = options(Where("127.0.0.1", 1, ("data.example.com",), "lakeaudit"))
    assert behind["server.allowedHosts"] == ["127.0.0.1", "localhost", "data.example.com"]
    assert behind["server.baseUrlPath"] == "lakeaudit"


@pytest.mark.parametrize(("written", "path"), [("", ""), ("/", ""), ("/data/lake/", "data/lake"), ("x", "x")])
def test_a_base_path(written: str, path: str) -> None:
    assert command.path_of(written) == path


@pytest.mark.parametrize("written", ["/a//b", "/a b", "/../etc/?x", "https://evil.example/"])
def test_a_base_path_that_is_invalid(written: str) -> None:
    with pytest.raises(BadInput, match="is not a path of plain names"):
        command.path_of(written)


def _websocket(port: int, host: str, path: str, **more: str) -> int:
    """How the server answers a browser that knows it by a name."""
    asked = more | {
        "Host": f"{host}:{port}", "Origin": f"http://{host}:{port}", "Upgrade": "websocket", "Connection": "Upgrade",
        "Sec-WebSocket-Key": "MDAwMDAwMDAwMDAwMDAwMA==", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "streamlit",
    }  # fmt: skip
    lines = [
        f"GET {path}/_stcore/stream HTTP/1.1",
        *(f"{name}: {value}" for name, value in asked.items()),
        "",
        "",
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
        line.sendall("\r\n".join(lines).encode())
        return int(line.recv(100).split()[1])


def test_it_serves_and_ends_with_ctrl_c(lake: str, published: None) -> None:
    """The pages, and the metrics: the same as in the file for node exporter."""
    behind = ["--base-path", "/data/lake", "--allow-host", "data.example"]
    line = [sys.executable, "-m", "lakeaudit", "dashboard", lake, *behind]
    process = Popen(line, stdout=PIPE, stderr=PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/data/lake", address)
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=120) as answer:
            assert answer.read() == b"ok"
        port = urlsplit(address).port or 0
        hosts = {"127.0.0.1": 101, "localhost": 101, "data.example": 101, "evil.example": 403}
        assert {host: _websocket(port, host, "/data/lake") for host in hosts} == hosts
        assert _page(port, "/data/lake/", Host="evil.example")[0] == 421
        with urllib.request.urlopen(f"{address}/metrics", timeout=120) as answer:
            assert answer.read().decode() == _textfile(lake)
        assert _page(port, "/data/lake/metrics", Host="evil.example")[0] == 421
        process.send_signal(2)
        rest, told = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, rest, told.strip()) == (0, "", "Stopping...")


def _textfile(lake_file: str) -> str:
    lake, file = load_lake(lake_file, {}), Path(lake_file).with_suffix(".prom")
    write_metrics(Results(lake.results, Clients(), lake.name), lake, file, NOW)
    return file.read_text()


def _page(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """(status, Location, cookie) of a page."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    asked.request("GET", path, headers=headers)
    answer = asked.getresponse()
    asked.close()
    return (
        answer.status,
        answer.getheader("Location", ""),
        answer.getheader("Set-Cookie", "").partition(";")[0],
    )


@pytest.mark.parametrize(
    ("host", "env", "token"),
    [
        ("127.0.0.1", {command.TOKEN_VARIABLE: "mine"}, None),
        ("0.0.0.0", {command.TOKEN_VARIABLE: "mine"}, "mine"),
        ("0.0.0.0", {}, ...),
    ],
)
def test_which_token_visitors_must_show(
    host: str, env: dict[str, str], token: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Where] = []
    monkeypatch.setattr("lakeaudit.dashboard.serve.serve", lambda _, where, *__: served.append(where))
    for _ in range(2):
        command.run("lake.yaml", host, None, lambda _: None, env=env)
    first, second = (where.token for where in served)
    assert (first == second == token) if token is not ... else (first and second and first != second)


@pytest.mark.soak
def test_beyond_this_machine_it_asks_for_a_token(lake: str) -> None:
    line = [sys.executable, "-m", "lakeaudit", "dashboard", lake, "--host", "0.0.0.0"]
    process = Popen(line, stdout=PIPE, stderr=PIPE, text=True)
    try:
        assert process.stdout is not None
        parts = urlsplit(process.stdout.readline().strip())
        port, shown = parts.port or 0, f"/?{parts.query}"
        assert re.fullmatch(r"token=[\w-]{32}", parts.query)
        assert _page(port, "/")[0] == 401
        assert _page(port, "/media/x.csv")[0] == 401
        assert _page(port, shown, Host="evil.example")[0] == 421
        status, location, cookie = _page(port, shown)
        assert (status, location) == (303, "/")
        assert _page(port, location, Cookie=cookie)[0] == 200
        assert _page(port, "/metrics")[0] == 401
        assert _page(port, "/metrics", Authorization=f"Bearer {cookie.partition('=')[2]}")[0] == 200
        assert _websocket(port, "127.0.0.1", "") == 403
        assert _websocket(port, "127.0.0.1", "", Cookie=cookie) == 101
        assert _websocket(port, "evil.example", "", Cookie=cookie) == 403
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("status", "state", "is_stated"),
    [("undone", "open", True), ("undone", "resolved", False), ("applied", "open", False)],
)
def test_a_file_says_whether_its_repair_was_undone(
    lake: str, place: Location, status: str, state: str, is_stated: bool
) -> None:
    lost = dropped("a")
    step = {"plan_id": "p1", "lake": "shop", "batch": 0, "discrepancy_id": lost["discrepancy_id"], "action_id": "1",
            "action": "restore_version", "table_name": "orders", "status": status, "done_at": NOW - HOUR}  # fmt: skip
    publish(
        place,
        runs=[run(**TIMES)],
        coverage=[covered()],
        discrepancies=[discrepancy(lost, state)],
        actions=[step],
    )
    text = page_text(page(lake, "file", id=lost["discrepancy_id"]))
    assert ("The repair by the plan p1 was undone" in text) is is_stated
    of_table = page_text(page(lake, "table", table="orders"))
    assert ("The plan p1 had repaired 1 discrepancy; this was undone" in of_table) is is_stated


# --- plans and notices -------------------------------------------------------------------------------------


def test_plans_say_who_made_and_approved_them_and_what_became_of_their_steps(
    lake: str, place: Location
) -> None:
    times = {"created_at": NOW - HOUR, "expires_at": NOW + 9 * HOUR}
    plan = {"plan_id": "p1", "lake": "shop", "created_by": "ann", "approved_by": "bob", "status": "applied", "steps": 2,
            "for_person": 1, **times}  # fmt: skip
    step = {"plan_id": "p1", "lake": "shop", "batch": 0, "discrepancy_id": "d", "action": "restore_version",
            "table_name": "orders", "bucket": "lake", "key": "orders/a"}  # fmt: skip
    steps = [
        {**step, "action_id": "1", "status": "applied"},
        {**step, "action_id": "2", "status": "failed", "error": "denied [x](y)"},
    ]
    notice = {"notice_id": "n", "lake": "shop", "made_at": NOW - HOUR, "status": "failed", "receiver": "slack",
              "severity": "critical", "message": "CRITICAL: 1 file dropped in orders\n  why", "error": "timed out",
              "table_name": "orders", "run_id": "r1", "attempts": 3}  # fmt: skip
    other = notice | {
        "notice_id": "m",
        "message": "CRITICAL: 9 torn in carts",
        "discrepancies": 9,
        "table_name": "carts",
    }
    publish(place, runs=[run(**TIMES)], plans=[plan], actions=steps, notices=[notice, other])
    all_of_them = page(lake, "plans")
    told = page_text(all_of_them)
    for sentence in (
        "`p1`",
        "`ann`",
        "`bob`",
        "applied",
        "1 refused by the store",
        "`slack`",
        "3 tries: timed out",
        "9 torn",
        "[`carts`](table?table=carts) and 1 more",
        "[`r1`](runs?run=r1)",
    ):
        assert sentence in told, sentence
    one = page(lake, "plans", plan="p1")
    told = page_text(one)
    assert "Applied; made" in told
    assert ":red-badge[failed] **restore version**" in told
    assert any("denied [x](y)" in each.value for each in one.text), "by the door that interprets nothing"
    assert ("`s3://lake/orders/a`", "id=d") in links(one)
    assert not one.exception


def test_a_lake_without_plans_says_how_to_make_one(lake: str, published: None) -> None:
    told = page_text(page(lake, "plans", plan="nobody"))
    assert "no plan nobody in these results" in told
    assert "lakeaudit reconcile plan" in told

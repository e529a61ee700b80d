"""The tables of one owner, blank pages with their search and worst ten, and plans without questionable restores."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import load_lake
from lakeaudit.dashboard import addresses, widgets
from lakeaudit.dashboard.queries.owners import NO_OWNER, owners
from lakeaudit.formatting import visible
from lakeaudit.keys import Location
from tests.builders.pagedata import HOSTILE
from tests.builders.results import covered, discrepancy, finding, lake_file, publish, run, transition
from tests.unit.dashboard.test_addresses import opened
from tests.unit.dashboard.test_dashboard import links, page, page_text, tiles

Row = dict[str, Any]
AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
TIMES: Row = {"as_of": AT, "started_at": AT, "finished_at": AT}
BASE = "http://127.0.0.1:8501/"
OWNED = {"sales.orders": "sales", "sales.items": "sales", "raw.events": HOSTILE[0], "ref.days": None}
TABLES = [
    {"name": name, "location": f"s3://lake/{name}", "manifests": [{"kind": "delta"}]}
    | ({"owner": owner} if owner else {})
    for name, owner in OWNED.items()
]


pytestmark = pytest.mark.usefixtures("nothing_remembered")


@pytest.fixture
def owned(tmp_path: Path, place: Location) -> str:
    """Each table is covered; two of sales have a loss, `raw.events` has one, and nothing is open in `ref.days`."""
    rows = [
        finding("dropped", "sales.orders/a", table_name="sales.orders", recoverable="yes", rows_at_stake=7),
        finding("overwritten", "sales.items/b", table_name="sales.items"),
        finding("dropped", "raw.events/c", table_name="raw.events"),
    ]
    publish(place, runs=[run(**TIMES)], coverage=[covered(name) for name in OWNED], findings=rows,
            discrepancies=[discrepancy(row, opened_at=AT) for row in rows],
            transitions=[transition(row, "opened", at=AT, to_severity=row["severity"]) for row in rows])  # fmt: skip
    return lake_file(tmp_path, place, tables=TABLES)


def tables_of(driver: Any) -> list[str]:
    return [to.removeprefix("table=") for _, to in links(driver) if to.startswith("table=")]


# --- one owner -------------------------------------------------------------------------------------------------------


def test_an_owner_sees_own_tables_alone(owned: str) -> None:
    driver = opened(owned, addresses.lake_address(BASE, "sales"))
    text = page_text(driver)
    assert not driver.exception
    assert [each.value for each in driver.title] == [
        "sales: 2 tables with something wrong, 1 of them critical"
    ]
    assert tables_of(driver) == ["sales.orders", "sales.items"]
    assert tiles(driver)[0] == "\u25c6 critical1", "those of other owners do not count"
    (grid,) = driver.dataframe
    assert grid.value["table"].tolist() == ["table?table=sales.orders", "table?table=sales.items"]
    assert "2 tables of sales in shop" in text
    assert (
        f"lakeaudit reconcile plan {owned} --table sales.orders --table sales.items -o plan.jsonl\n"
        in f"{text}\n"
    )
    assert "raw.events" not in text


def test_all_tables_without_an_owner_in_the_address(owned: str) -> None:
    driver = opened(owned, addresses.lake_address(BASE))
    assert [each.value for each in driver.title] == ["2 files dropped in 2 tables"]
    assert set(tables_of(driver)) == {"sales.orders", "sales.items", "raw.events"}
    assert page_text(driver).count("owner sales") == 2, "one line for each damaged table of this owner"
    assert driver.selectbox(key="lake/owner").options == [
        visible(HOSTILE[0]), "sales", NO_OWNER
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (HOSTILE[0], "1 table with something wrong, 1 of them critical"),
        (NO_OWNER, "nothing above info is open"),
    ],
)
def test_other_owners(owned: str, owner: str, words: str) -> None:
    driver = opened(owned, addresses.lake_address(BASE, owner))
    assert not driver.exception
    assert words in driver.title[0].value
    assert owner not in {each.value for each in driver.caption}
    assert f"1 table of {widgets.prose(owner)} in shop" in page_text(driver)
    assert "reconcile plan" not in page_text(driver) or owner != NO_OWNER


def test_an_owner_of_many_damaged_tables_gets_no_endless_command(tmp_path: Path, place: Location) -> None:
    names = [f"t{number:02d}" for number in range(21)]
    rows = [finding("dropped", f"{name}/f", table_name=name) for name in names]
    publish(place, runs=[run(**TIMES)], coverage=[*map(covered, names)], findings=rows,
            discrepancies=[*map(discrepancy, rows)])  # fmt: skip
    tables = [TABLES[0] | {"name": name, "location": f"s3://lake/{name}"} for name in names]
    text = page_text(page(lake_file(tmp_path, place, tables=tables), "lake", owner="sales"))
    assert "The pages of the 21 tables have the commands that plan their repairs." in text
    assert "reconcile plan" not in text


def test_an_owner_that_does_not_exist(owned: str) -> None:
    driver = opened(owned, addresses.lake_address(BASE, HOSTILE[1]))
    assert not driver.exception
    assert "in the lake file" in page_text(driver)
    assert len(tables_of(driver)) == 3, "the whole lake follows"


def test_choosing_an_owner_writes_it_into_the_address(owned: str) -> None:
    driver = page(owned, "lake")
    driver.selectbox(key="lake/owner").select("sales").run()
    assert driver.query_params["owner"] == "sales"
    assert tables_of(driver) == ["sales.orders", "sales.items"]


def test_owners_of_patterns_and_of_discovered_tables(tmp_path: Path, place: Location) -> None:
    owner_list = [{"match": "raw.*", "owner": "ingest"}]
    lake = load_lake(lake_file(tmp_path, place, tables=TABLES, owners=owner_list), {})
    assert owners(lake, ["sales.orders", "raw.events", "raw.new", "ref.days", "new"]) == {
        "sales.orders": "sales", "raw.events": HOSTILE[0], "raw.new": "ingest", "ref.days": NO_OWNER, "new": NO_OWNER
    }  # fmt: skip


def test_the_only_discovery_owns_its_tables(tmp_path: Path, place: Location) -> None:
    """Pages and messages agree; what belongs to no table is not the discovery's."""
    found = {"discover": {"from": "inventory", "under": ["s3://lake/"], "owner": "platform"}}
    reports = [{"kind": "s3_inventory", "location": "s3://inv/"}]
    owner_list = [{"match": "raw.*", "owner": "ingest"}]
    file = lake_file(tmp_path, place, tables=[*TABLES, found], inventories=reports, owners=owner_list)
    lake = load_lake(file, {})
    assert owners(lake, ["sales.orders", "raw.new", "new"]) == {
        "sales.orders": "sales", "raw.new": "platform", "new": "platform"
    }  # fmt: skip
    assert [lake.owner_of(name) for name in ("new", "")] == ["platform", None]


# --- the grid --------------------------------------------------------------------------------------------------------


def test_the_grid_shows_tables_that_are_not_quiet_until_all_are_requested(owned: str) -> None:
    (grid,) = page(owned, "lake").dataframe
    assert len(grid.value) == 3
    (grid,) = page(owned, "lake", tables="all").dataframe
    assert len(grid.value) == 4


@pytest.mark.parametrize(
    ("filled", "rows", "shown"), [(1, 10, True), (1, 11, False), (2, 11, True), (0, 1, False), (1, 1, True)]
)
def test_a_column_that_is_nearly_empty_is_left_out(filled: int, rows: int, shown: bool) -> None:
    values = [{"why": "gap" if at < filled else "", "name": "n"} for at in range(rows)]
    assert widgets.used_columns(values) == (["why", "name"] if shown else ["name"])


# --- blank pages -----------------------------------------------------------------------------------------------------


def test_a_blank_table_page_shows_the_worst_and_searches(owned: str) -> None:
    driver = page(owned, "table")
    assert tables_of(driver) == ["sales.orders", "raw.events", "sales.items"], (
        "by severity, then rows at stake"
    )
    assert "3 tables with something wrong, 2 of them critical." in page_text(driver)
    driver.text_input(key="table/search").input("DAYS").run()
    assert driver.query_params["search"] == "DAYS"
    assert tables_of(driver) == ["ref.days"]
    assert "1 table, worst first." in page_text(driver)


def test_a_table_that_does_not_exist_leads_to_the_search(owned: str) -> None:
    driver = page(owned, "table", table="sales.order")
    assert "no table sales.order in this lake" in page_text(driver)
    assert len(tables_of(driver)) == 3


def test_at_most_ten_are_listed(tmp_path: Path, place: Location) -> None:
    rows = [finding("dropped", f"t{n:02d}/f", table_name=f"t{n:02d}") for n in range(12)]
    publish(place, runs=[run(**TIMES)], coverage=[covered(row["table_name"]) for row in rows], findings=rows,
            discrepancies=[*map(discrepancy, rows)])  # fmt: skip
    lake = lake_file(tmp_path, place)
    driver = page(lake, "table")
    assert tables_of(driver) == [f"t{n:02d}" for n in range(10)]
    unsure = "1 not fully judged (no finding above info)"
    words = f"12 tables with something wrong, 12 of them critical; {unsure}; the worst 10."
    assert words in page_text(driver)
    driver = page(lake, "file")
    assert len(links(driver)) == 10
    assert "12 discrepancies open in the lake; the worst 10." in page_text(driver)


def test_a_blank_file_page_shows_the_worst_and_searches_all_states(owned: str, place: Location) -> None:
    over = finding("dropped", "sales.orders/over", table_name="sales.orders")
    accepted = finding("dropped", "sales.orders/accepted", table_name="sales.orders")
    publish(place, discrepancies=[
        discrepancy(over, "resolved", resolved_at=AT, resolution="restored"),
        discrepancy(accepted, ack_by="ann", ack_reason="known", ack_until=AT + timedelta(days=9)),
    ])  # fmt: skip
    driver = page(owned, "file")
    assert "3 discrepancies open in the lake." in page_text(driver)
    assert len(links(driver)) == 3
    driver.text_input(key="file/uri").input("sales.orders/").run()
    assert [label for label, _ in links(driver)] == [
        "`s3://lake/sales.orders/a`", "`s3://lake/sales.orders/accepted`", "`s3://lake/sales.orders/over`"
    ]  # fmt: skip
    text = page_text(driver)
    assert "3 discrepancies with this text, open ones first." in text
    assert "of sales.orders" in text


def test_a_lake_with_nothing_open_has_blank_pages_that_state_it(lake: str, place: Location) -> None:
    publish(place, runs=[run(**TIMES)], coverage=[covered()])
    assert "No table has something wrong." in page_text(page(lake, "table"))
    assert "No discrepancy is open." in page_text(page(lake, "file"))


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("lake", {}),
        ("lake", {"owner": "sales"}),
        ("table", {"table": "sales.orders"}),
        ("file", {"id": "d-sales.orders/a"}),
    ],
)
def test_plans_restore_questionable_files_only_if_the_reader_chooses_that(
    owned: str, name: str, address: Row
) -> None:
    careful = page(owned, name, **address)
    text = page_text(careful)
    assert not any("--allow restore" in each.value for each in careful.code)
    assert any("reconcile plan" in each.value and "-o plan.jsonl" in each.value for each in careful.code)
    assert "The plan leaves files that somebody may have removed or replaced on purpose to a person." in text
    (box,) = [each for each in careful.checkbox if each.label.startswith("Also restore files")]
    box.check().run()
    assert careful.query_params["allow"] == "restore"
    assert any("--allow restore -o plan.jsonl" in each.value for each in careful.code)
    chosen = page_text(page(owned, name, **address, allow="restore"))
    assert "Leave out `--allow restore`" in chosen


def test_without_a_possible_repair_there_is_no_plan_and_no_empty_sentence(lake: str, place: Location) -> None:
    row = finding("unreadable_evidence", "x", subject_type="table", subject="orders", files=None) | {
        "key": None
    }
    publish(
        place, runs=[run(**TIMES)], coverage=[covered()], findings=[row], discrepancies=[discrepancy(row)]
    )
    for name, address in (
        ("lake", {}),
        ("table", {"table": "orders"}),
        ("file", {"id": row["discrepancy_id"]}),
    ):
        text = page_text(page(lake, name, **address))
        assert "unreadable evidence" in text.lower()
        assert "reconcile plan" not in text, name
        assert "\u2014 files" not in text, name


def test_a_run_of_any_age_can_be_opened(lake: str, place: Location) -> None:
    days = [
        run(f"r{n:03d}", as_of=AT - timedelta(days=n), started_at=AT - timedelta(days=n)) for n in range(120)
    ]
    publish(place, runs=days, coverage=[covered(run_id="r119"), covered(run_id="r000")])
    driver = opened(lake, addresses.run_address(BASE, "r119"))
    assert "no run" not in page_text(driver)
    assert driver.selectbox(key="runs/run").value == "r119"

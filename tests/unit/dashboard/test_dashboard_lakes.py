"""A dashboard of several lakes: the start page, addresses that name a lake, and addresses that name none."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from lakeaudit.commands.dashboard import usable
from lakeaudit.config import load_lake
from lakeaudit.dashboard import addresses
from lakeaudit.dashboard.app import current_metrics
from lakeaudit.dashboard.served_lakes import is_several, lake_files, served_lakes
from lakeaudit.errors import BadInput
from lakeaudit.formatting import visible
from lakeaudit.keys import Location
from tests.builders.pagedata import HOSTILE
from tests.builders.results import covered, discrepancy, finding, publish, run
from tests.unit.dashboard.test_dashboard import page_text

pytestmark = pytest.mark.usefixtures("nothing_remembered")
AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
BASE = "http://127.0.0.1:8501"


def _script(places: list[str], first: str | None) -> None:
    from lakeaudit.dashboard.app import main

    main(places, first)


def opened(places: list[str], address: str) -> AppTest:
    """The page of an address, run by Streamlit's test driver."""
    parts = urlsplit(address)
    driver = AppTest.from_function(_script, args=(places, parts.path.strip("/") or None), default_timeout=120)
    for name, (value, *_) in parse_qs(parts.query).items():
        driver.query_params[name] = value
    return driver.run()


def write_lake(folder: Path, name: str, file: str | None = None) -> Location:
    place = Location.parse(str(folder / f"results-{file or name}"))
    (folder / f"{file or name}.yaml").write_text(
        f"version: 1\nlake: {name}\nresults: {place.spark_path}\n"
        f"tables: [{{name: orders, location: 's3://lake/{name}', manifests: [{{kind: delta}}]}}]\n"
    )
    return place


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A lake with a lost file, a healthy one, one without an audit, and a lake file that cannot be used."""
    times: dict[str, Any] = {"as_of": AT, "started_at": AT, "finished_at": AT}
    row = finding("dropped", "orders/lost", table_name="orders", discrepancy_id="d-1") | {"run_id": "r1"}
    publish(write_lake(tmp_path, "shop"), runs=[run(**times)], coverage=[covered()],
            findings=[row], discrepancies=[discrepancy(row)])  # fmt: skip
    publish(
        write_lake(tmp_path, "web"),
        runs=[run(**times) | {"lake": "web"}],
        coverage=[covered() | {"lake": "web"}],
    )
    write_lake(tmp_path, "new")
    (tmp_path / "broken.yaml").write_text("lake: [")
    (tmp_path / "example.yaml").write_text("lake: no lake")
    return str(tmp_path)


def test_the_start_page_shows_all_lakes_the_worst_first(folder: str) -> None:
    text = page_text(opened([folder], f"{BASE}/"))
    assert "4 lakes, 3 with something wrong" in text
    places = [
        text.index(words)
        for words in ("broken.yaml", "1 file dropped in 1 table", "nothing could be judged", "No finding of")
    ]
    assert places == sorted(places)
    assert "no lake" not in text


@pytest.mark.parametrize("name", ["inventories/web", *HOSTILE])
def test_the_start_page_states_why_the_last_audit_of_a_lake_failed(tmp_path: Path, name: str) -> None:
    """A lake whose last audit failed is not green, with or without an audit before."""
    error = f"s3://{name}: no report is complete"
    now = AT + timedelta(minutes=30)
    failed = run("r2", "failed", error=error, as_of=now, started_at=now, finished_at=now)
    before = run(as_of=AT, started_at=AT, finished_at=AT)
    publish(
        write_lake(tmp_path, "web"),
        runs=[before | {"lake": "web"}, failed | {"lake": "web"}],
        coverage=[covered() | {"lake": "web"}],
    )
    publish(write_lake(tmp_path, "new"), runs=[failed | {"lake": "new"}])
    driver = opened([str(tmp_path)], f"{BASE}/")
    assert "2 lakes, 2 with something wrong" in page_text(driver)
    lines = [each.value for each in driver.text if "The last audit failed: run r2" in each.value]
    assert len(lines) == 2
    assert [line for line in lines if not line.endswith(f": {visible(error)}")] == []
    assert ":green-badge" not in page_text(driver)


@pytest.mark.parametrize("lake", ["shop", "web"])
def test_an_address_opens_the_page_of_its_lake(folder: str, lake: str) -> None:
    lost = "1 file dropped" if lake == "shop" else "No finding of severity"
    for address in (addresses.lake_address(BASE, lake=lake), f"{BASE}/lake?lake={lake}"):
        assert lost in page_text(opened([folder], address)), address
    text = page_text(opened([folder], addresses.table_address(BASE, "orders", lake=lake)))
    assert ("1 file dropped" in text) == (lake == "shop")
    assert f"Lake `{lake}`" in text
    text = page_text(opened([folder], addresses.run_address(BASE, "r1", lake=lake)))
    assert "It changed nothing in the ledger" in text


@pytest.mark.parametrize("address", [addresses.table_address(BASE, "orders"), f"{BASE}/runs?run=r1&page=2"])
def test_an_address_of_before_lets_the_visitor_choose_the_lake(folder: str, address: str) -> None:
    text = page_text(opened([folder], address))
    assert "Choose a lake" in text
    assert "broken cannot be shown" in text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (addresses.table_address(BASE, "orders", lake="gone"), "this dashboard has no lake gone"),
        (addresses.lake_address(BASE, lake="broken"), "broken.yaml"),
        (addresses.lake_address(BASE, lake="<b>`x`"), "this dashboard has no lake <b>`x`"),
    ],
)
def test_a_lake_that_cannot_be_shown_is_named(folder: str, address: str, words: str) -> None:
    assert words in page_text(opened([folder], address))


def test_a_dashboard_of_one_lake_shows_no_other_lake(folder: str) -> None:
    file = f"{folder}/shop.yaml"
    assert "1 file dropped" in page_text(opened([file], addresses.table_address(BASE, "orders", lake="shop")))
    text = page_text(opened([file], addresses.table_address(BASE, "orders", lake="web")))
    assert "this dashboard shows the lake shop, and the address names web" in text
    assert "1 file dropped" not in text


def test_the_metrics_have_all_lakes_that_can_be_read(folder: str) -> None:
    lines = current_metrics([folder]).decode().splitlines()
    readable = {line for line in lines if line.startswith("lakeaudit_results_readable{")}
    assert readable == {
        f'lakeaudit_results_readable{{lake="{name}"}} {value}'
        for name, value in (("broken", 0.0), ("new", 1.0), ("shop", 1.0), ("web", 1.0))
    }
    assert 'lakeaudit_open_discrepancies{lake="shop",severity="critical",table="orders"} 1.0' in lines
    assert 'lakeaudit_open_discrepancies{lake="web",severity="critical",table="orders"} 0.0' in lines
    assert len([line for line in lines if line.startswith("# TYPE lakeaudit_open_discrepancies ")]) == 1
    assert "results_readable" not in current_metrics([f"{folder}/shop.yaml"]).decode()


def test_places_are_lake_files_and_folders(folder: str, tmp_path: Path) -> None:
    names = ["broken.yaml", "new.yaml", "shop.yaml", "web.yaml"]
    assert lake_files([folder]) == [f"{folder}/{name}" for name in names]
    assert lake_files([f"{folder}/web.yaml", folder, "s3://b/x.yaml"])[-1] == "s3://b/x.yaml"
    assert is_several([folder])
    assert is_several(["a.yaml", "b.yaml"])
    assert not is_several([f"{folder}/web.yaml"])
    write_lake(tmp_path, "shop", "twin")
    twin = served_lakes([folder], lambda file: load_lake(file, {}))[-2]
    assert (twin.name, twin.problem) == (
        f"shop ({folder}/twin.yaml)",
        f"the lake of {folder}/shop.yaml has the same name shop: rename one of them",
    )


def test_a_dashboard_starts_if_one_of_its_lake_files_can_be_used(folder: str, tmp_path: Path) -> None:
    def load(file: str) -> object:
        return load_lake(file, {})

    (warning,) = usable([folder], load)
    assert "broken.yaml" in warning
    with pytest.raises(BadInput, match=r"broken\.yaml"):
        usable([f"{folder}/broken.yaml"], load)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="holds no lake file"):
        usable([str(tmp_path / "empty")], load)

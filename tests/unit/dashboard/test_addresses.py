"""The addresses of pages: the links of messages, and that each opens the page and the subject that it names."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakeaudit.dashboard import addresses
from lakeaudit.formatting import visible
from lakeaudit.keys import Location
from tests.builders.pagedata import HOSTILE
from tests.builders.results import covered, discrepancy, finding, lake_file, publish, run
from tests.builders.served import serving
from tests.unit.dashboard.test_dashboard import page, page_text

BASES = ("https://data.example", "https://data.example/", "https://data.example/?token=secret#top")
AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


pytestmark = pytest.mark.usefixtures("nothing_remembered")


@pytest.mark.parametrize("base", BASES)
def test_an_address_of_every_page(base: str) -> None:
    made = [
        addresses.lake_address(base),
        addresses.lake_address(base, "sales-data"),
        addresses.table_address(base, "sales.orders"),
        addresses.table_address(base, None),
        addresses.file_address(base, "s3://lake/a b/day=1.parquet"),
        addresses.discrepancy_address(base, "d-1"),
        addresses.run_address(base, "20261121T120000Z-1f"),
        addresses.plan_address(base, "p-1"),
    ]
    assert made == [
        "https://data.example/",
        "https://data.example/?owner=sales-data",
        "https://data.example/table?table=sales.orders",
        "https://data.example/table?table=%28no%20table%29",
        "https://data.example/file?uri=s3%3A%2F%2Flake%2Fa%20b%2Fday%3D1.parquet",
        "https://data.example/file?id=d-1",
        "https://data.example/runs?run=20261121T120000Z-1f",
        "https://data.example/plans?plan=p-1",
    ]


def test_an_address_names_the_lake_first() -> None:
    base, lake = "https://data.example", "shop & co"
    made = [
        addresses.lake_address(base, lake=lake),
        addresses.lake_address(base, "sales-data", lake=lake),
        addresses.table_address(base, "sales.orders", lake=lake),
        addresses.file_address(base, "s3://lake/a", lake=lake),
        addresses.discrepancy_address(base, "d-1", lake=lake),
        addresses.run_address(base, "r1", lake=lake),
        addresses.plan_address(base, "p-1", lake=lake),
    ]
    assert [address.removeprefix("https://data.example/") for address in made] == [
        "?lake=shop%20%26%20co",
        "?lake=shop%20%26%20co&owner=sales-data",
        "table?lake=shop%20%26%20co&table=sales.orders",
        "file?lake=shop%20%26%20co&uri=s3%3A%2F%2Flake%2Fa",
        "file?lake=shop%20%26%20co&id=d-1",
        "runs?lake=shop%20%26%20co&run=r1",
        "plans?lake=shop%20%26%20co&plan=p-1",
    ]


@pytest.mark.parametrize("base", ["https://data.example/team/lake", " https://data.example/team/lake/// "])
def test_the_path_of_a_proxy_stays_in_front(base: str) -> None:
    assert addresses.lake_address(base) == "https://data.example/team/lake/"
    assert addresses.table_address(base, "t") == "https://data.example/team/lake/table?table=t"


@pytest.mark.parametrize("name", [*HOSTILE, "a&owner=b#c?d=e+f%20", "\udcff half a character"])
def test_a_hostile_name_stays_one_parameter_of_plain_characters(name: str) -> None:
    address = addresses.table_address("https://data.example/", name)
    parts = urlsplit(address)
    assert re.fullmatch("[A-Za-z0-9%._~-]*", parts.query.removeprefix("table="))
    assert (parts.path, parts.fragment) == ("/table", "")
    assert parse_qs(parts.query, keep_blank_values=True) == {"table": [name.replace("\udcff", "?")]}


# --- what they open --------------------------------------------------------------------------------------------------


def opened(lake: str, address: str) -> Any:
    """The page of an address, run by Streamlit's test driver."""
    parts = urlsplit(address)
    return page(lake, parts.path.strip("/") or "lake", **{k: v[0] for k, v in parse_qs(parts.query).items()})


def test_the_first_visitor_of_a_server_may_come_by_a_link(tmp_path: Path) -> None:
    place = Location.parse(str(tmp_path / "results"))
    times: dict[str, Any] = {"as_of": AT, "started_at": AT, "finished_at": AT}
    publish(place, runs=[run(**times)], coverage=[covered()])
    with serving(lake_file(tmp_path, place)) as server:
        messages = server.view("table", table="orders")
    assert not any("page_not_found" in message for message in messages)
    assert any("Last audited" in message for message in messages)


BASE = "http://127.0.0.1:8501"


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_names_are_opened(tmp_path: Path, number: int) -> None:
    name = HOSTILE[number]
    place = Location.parse(str(tmp_path / "results"))
    row = finding("dropped", f"orders/{name}", table_name=name, discrepancy_id=name)
    times: dict[str, Any] = {"as_of": AT, "started_at": AT, "finished_at": AT}
    publish(place, runs=[run(name, **times)], coverage=[covered(name, run_id=name)],
            findings=[row | {"run_id": name}], discrepancies=[discrepancy(row)])  # fmt: skip
    lake = lake_file(tmp_path, place)
    for address, words in (
        (addresses.table_address(BASE, name), "1 file dropped"),
        (addresses.file_address(BASE, row["subject"]), visible(row["subject"])),
        (addresses.discrepancy_address(BASE, name), visible(row["subject"])),
        (addresses.run_address(BASE, name), "It changed nothing in the ledger"),
    ):
        text = page_text(opened(lake, address))
        assert words in text, address
        assert "cannot be shown" not in text

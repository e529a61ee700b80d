"""The dashboard's server over years of audits of 2,000 tables: what views cost it, and that it forgets them again.

`LAKEAUDIT_SOAK_LEDGER` sets the rows of the ledger, `LAKEAUDIT_SOAK_VIEWS` how many views there are.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.builders.long_year import lay_long_year
from tests.builders.served import Served, serving
from tests.builders.year import table_names

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ROWS = int(os.environ.get("LAKEAUDIT_SOAK_LEDGER", "1000000"))
VIEWS = int(os.environ.get("LAKEAUDIT_SOAK_VIEWS", "1000"))
TABLES = table_names(2000)
FIRST, NEW, AGAIN = 1.5, 2.5, 1.0
"""CPU seconds on two cores, so about half as many on the clock: a fresh server's first page, a new page, one known."""
GROWTH = 250
"""MiB between the first and the last tenth of the views, beside what caches may hold."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    lake = lay_long_year(tmp_path_factory.mktemp("year"), datetime.now(UTC), ROWS)
    with serving(lake) as served:
        yield served


def cost(server: Served, page: str = "", **address: str) -> float:
    before = server.busy
    server.view(page, **address)
    return server.busy - before


def test_pages_are_cheap(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    first, again = cost(server), cost(server)
    new = {
        "a table": cost(server, "table", table=TABLES[7]), "a file": cost(server, "file", id="00000001"),
        "runs": cost(server, "runs"), "plans": cost(server, "plans"),
    }  # fmt: skip
    with capsys.disabled():
        print(f"\nCPU s: first {first:.1f}, again {again:.1f}, {new}; {server.resident} MiB")  # noqa: T201 - the figures
    assert first < FIRST
    assert again < AGAIN
    assert {page: taken for page, taken in new.items() if taken > NEW} == {}


def test_memory_stays_flat(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    held: list[int] = []
    for number in range(VIEWS):
        page = ("", "table", "runs", "file", "plans")[number % 5]
        address = {"table": TABLES[number * 7 % 2000]} if page == "table" else {}
        server.view(page, **(address or ({"id": f"{number % 90:08x}"} if page == "file" else {})))
        held.append(server.resident)
    tenth = max(VIEWS // 10, 1)
    tenths = [max(held[begin : begin + tenth]) for begin in range(0, VIEWS, tenth)]
    with capsys.disabled():
        print(f"\nMiB after each tenth of {VIEWS} views: {tenths}")  # noqa: T201 - the figures
    assert tenths[-1] - min(tenths[:2]) < GROWTH

"""The dashboard in a real headless Chromium: the question of the on-call engineer, answered by role and text.

Results are drawn by a random seed, which a failure names; `LAKEAUDIT_PAGE_SEED` repeats one.
"""

import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from lakeaudit.dashboard.table_page import NAME
from lakeaudit.dashboard.widgets import shortened
from lakeaudit.formatting import visible
from lakeaudit.keys import Location
from tests.builders.drawn import Drawn, draw
from tests.builders.on_call import BROWSERS, CHROMIUM, PATIENCE, WIDE, answers, browsing, settled
from tests.builders.pagedata import HOSTILE
from tests.builders.results import lake_file
from tests.builders.served import serving

SEED = int(os.environ.get("LAKEAUDIT_PAGE_SEED") or random.SystemRandom().randrange(10**6))
PHONE: ViewportSize = {"width": 390, "height": 844}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

pytestmark = [
    pytest.mark.page,
    pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(BROWSERS)} is installed"),
]


@dataclass(frozen=True)
class Served:
    """A dashboard that runs, and what it must tell."""

    url: str
    drawn: Drawn


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("drawn")
    place = Location.parse(str(folder / "results"))
    drawn = draw(place, SEED, datetime.now(UTC).replace(microsecond=0))
    with serving(lake_file(folder, place)) as server:
        yield Served(server.url, drawn)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as started:
        yield started


@pytest.fixture
def strangers() -> list[str]:
    """Requests to anything but this machine."""
    return []


@pytest.fixture
def page(browser: Browser, strangers: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport=WIDE, color_scheme="light")
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    watch(opened, strangers)
    yield opened
    context.close()


def watch(opened: Page, strangers: list[str]) -> None:
    opened.on("request", lambda request: strangers.extend(_foreign(request.url)))
    opened.on("websocket", lambda socket: strangers.extend(_foreign(socket.url)))


def _foreign(url: str) -> list[str]:
    place = urlsplit(url)
    return [] if place.scheme in ("data", "blob") or place.hostname == "127.0.0.1" else [url]


def test_what_is_broken_in_a_table_since_when_why_and_can_it_come_back(
    page: Page, served: Served, strangers: list[str]
) -> None:
    drawn = served.drawn
    answers(page, served.url, drawn, SEED)
    expect(page.get_by_role("table").first, f"seed {SEED}").to_contain_text("7 B")

    address = page.url
    settled(page, address)  # what is shown can be shared
    expect(page.get_by_test_id("stMain"), f"seed {SEED}").to_contain_text(drawn.comeback)
    assert strangers == [], f"seed {SEED}"


def test_why_is_said_in_words(page: Page, served: Served) -> None:
    settled(page, f"{served.url}/table?table={quote(served.drawn.table)}")
    page.get_by_text("In words: why, and what to do").click()
    for loss in served.drawn.losses:
        for words in (loss.since, loss.why, loss.answers):
            expect(page.get_by_test_id("stMain"), f"seed {SEED}").to_contain_text(words, ignore_case=True)


def test_filters_are_in_the_address_and_back_leads_back(page: Page, served: Served) -> None:
    table = quote(served.drawn.table)
    settled(page, f"{served.url}/table?table={table}&kind=temporary")
    links = page.get_by_test_id("stPageLink").get_by_role("link")
    expect(links, f"seed {SEED}").to_have_count(1, timeout=PATIENCE)
    links.first.click()
    expect(page.get_by_text("3 files that the last runs named"), f"seed {SEED}").to_be_visible(
        timeout=PATIENCE
    )
    page.go_back()
    expect(page.get_by_role("heading", name=served.drawn.table, level=1), f"seed {SEED}").to_be_visible(
        timeout=PATIENCE
    )
    assert "kind=temporary" in page.url, f"seed {SEED}"


def test_the_first_page_has_a_name_too(page: Page, served: Served) -> None:
    settled(page, f"{served.url}/lake")
    expect(page.get_by_text("Page not found")).to_have_count(0)
    expect(page.get_by_role("link", name="The lake"), "in the bar above").to_have_count(1)


def test_two_that_start_at_once_each_say_their_own_address(
    page: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lakes = []
    for name in ("one", "two"):
        folder = tmp_path_factory.mktemp(name)
        place = Location.parse(str(folder / "results"))
        draw(place, SEED, datetime.now(UTC).replace(microsecond=0))
        lakes.append(lake_file(folder, place))
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        servers = [*pool.map(lambda lake: stack.enter_context(serving(lake)), lakes)]
        assert len({server.url for server in servers}) == 2
        for server, lake in zip(servers, lakes, strict=True):
            settled(page, server.url)
            expect(page.get_by_text(lake).first).to_be_visible()


def test_hostile_keys_are_read_as_they_are(page: Page, served: Served) -> None:
    settled(page, f"{served.url}/table?table={quote(served.drawn.hostile)}")
    links = page.get_by_test_id("stPageLink")
    expect(links, f"seed {SEED}").to_have_count(len(HOSTILE), timeout=PATIENCE)
    shown = {shortened(visible(f"s3://lake/{text}"), NAME) for text in HOSTILE}
    assert {text.strip() for text in links.all_inner_texts()} == shown, f"seed {SEED}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_fits_a_phone_in_both_schemes(
    browser: Browser, served: Served, scheme: Literal["light", "dark"], strangers: list[str]
) -> None:
    context = browser.new_context(viewport=PHONE, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    watch(page, strangers)
    spoken: list[str] = []
    page.on("dialog", lambda dialog: spoken.append(dialog.message))
    hostile = f"{served.url}/file?id=h"
    for address in (
        served.url, f"{served.url}/table?table={quote(served.drawn.table)}", f"{served.url}/runs?run=r1",
        *(f"{hostile}{n}" for n in (0, 5)),
    ):  # fmt: skip
        settled(page, address)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"seed {SEED}: {address}"
        paper = page.evaluate(
            "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
        )
        dark = sum(map(int, re.findall(r"\d+", paper)[:3])) < 384
        assert dark == (scheme == "dark"), f"seed {SEED}: {address}"
        assert page.title() != "owned"
        assert (
            page.locator(
                "[data-testid=stMain] a[href*='evil'], [data-testid=stMain] img:not(.tile > img)"
            ).count()
            == 0
        )
    assert (strangers, spoken) == ([], []), f"seed {SEED}"
    context.close()

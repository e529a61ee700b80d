"""One dashboard that is served, one browser and one visitor in it, for every test of a page."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from lakeaudit.keys import Location
from tests.builders.on_call import PATIENCE, WIDE, browsing
from tests.builders.random_results import RandomResults, draw
from tests.builders.results import lake_file
from tests.builders.served import serving

SEED = int(os.environ.get("LAKEAUDIT_PAGE_SEED") or random.SystemRandom().randrange(10**6))
Scheme = Literal["light", "dark"]
PHONE: ViewportSize = {"width": 390, "height": 844}


@dataclass(frozen=True)
class Served:
    """A running dashboard, and the facts that it must show."""

    url: str
    drawn: RandomResults


@dataclass(frozen=True)
class Visitor:
    """A tab of one scheme, its requests to anything but this machine, what scripts said, and the browser of them."""

    page: Page
    strangers: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("drawn")
    place = Location.parse(str(folder / "results"))
    drawn = draw(place, SEED, datetime.now(UTC).replace(microsecond=0))
    with serving(lake_file(folder, place)) as server:
        yield Served(server.url, drawn)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with browsing() as started:
        yield started


@pytest.fixture(scope="session")
def visitors(browser: Browser) -> dict[Scheme, Visitor]:
    """One visitor for each colour scheme, with a cache."""
    return {scheme: _visitor(browser, scheme) for scheme in ("light", "dark")}


def _visitor(browser: Browser, scheme: Scheme) -> Visitor:
    visitor = Visitor(browser.new_context(viewport=WIDE, color_scheme=scheme).new_page())
    visitor.page.set_default_timeout(PATIENCE)
    visitor.page.on("request", lambda request: visitor.strangers.extend(_foreign(request.url)))
    visitor.page.on("websocket", lambda socket: visitor.strangers.extend(_foreign(socket.url)))
    visitor.page.on("dialog", lambda dialog: visitor.dialogs.append(dialog.message))
    visitor.page.on("console", lambda told: visitor.complaints.append(told.text))
    visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    return visitor


def _foreign(url: str) -> list[str]:
    place = urlsplit(url)
    return [] if place.scheme in ("data", "blob", "file") or place.hostname == "127.0.0.1" else [url]


@pytest.fixture
def visitor(visitors: dict[Scheme, Visitor]) -> Visitor:
    """The one in light, before a window of the usual size."""
    visitors["light"].page.set_viewport_size(WIDE)
    return visitors["light"]


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.page

"""The report page and every page of the dashboard under axe-core, the accessibility checker, in light and dark.

axe comes in the wheel of axe-playwright-python, so the lock pins it. What is Streamlit's own, and out of reach of our
code, is listed by rule and place, with its reason; anything else is a failure.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize

from lakeaudit.report.page import render
from tests.builders import pagedata
from tests.builders.on_call import CHROMIUM, PATIENCE, WIDE, settled
from tests.page.test_dashboard import PHONE, SEED, Served

pytestmark = [pytest.mark.page, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

LEVELS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
WIDTHS = {"desktop": WIDE, "phone": PHONE}

OF_STREAMLIT = {
    (
        "scrollable-region-focusable",
        "[data-testid=stTable]",
    ): "the box of st.table scrolls on a phone, and takes no key",
}
"""By rule and what the element lies in: why our code cannot mend it."""


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> Literal["light", "dark"]:
    value: Literal["light", "dark"] = request.param
    return value


def opened(browser: Browser, scheme: Literal["light", "dark"], size: ViewportSize) -> Iterator[Page]:
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    yield page
    context.close()


@pytest.fixture
def page(browser: Browser, scheme: Literal["light", "dark"]) -> Iterator[Page]:
    yield from opened(browser, scheme, WIDE)


@pytest.fixture
def phone(browser: Browser, scheme: Literal["light", "dark"]) -> Iterator[Page]:
    yield from opened(browser, scheme, PHONE)


def violations(page: Page) -> list[tuple[str, str, str]]:
    """The rule, the element and what is wrong with it; but for what is Streamlit's own, and what is still fading in."""
    if found := _violations(page):
        page.wait_for_timeout(2_000)
        found = _violations(page)
    return found


def _violations(page: Page) -> list[tuple[str, str, str]]:
    options = {"runOnly": {"type": "tag", "values": list(LEVELS)}, "resultTypes": ["violations"]}
    found: list[Any] = Axe().run(page, options=options).response["violations"]
    return [
        (rule["id"], node["html"][:300], node["failureSummary"])
        for rule in found for node in rule["nodes"] if not _is_streamlits(page, rule["id"], node["target"][-1])
    ]  # fmt: skip


def _is_streamlits(page: Page, rule: str, target: str) -> bool:
    lies_in = "([target, place]) => document.querySelector(target)?.closest(place) != null"
    places = [place for each, place in OF_STREAMLIT if each == rule]
    return any(page.evaluate(lies_in, [target, place]) for place in places)


OTHERS = [pytest.param(name, marks=pytest.mark.soak) for name in ("healthy", "undecided", "hostile")]
"""What they show besides is of the same parts, so that they need not be looked at each time."""


@pytest.mark.parametrize("name", ["broken", *OTHERS])
def test_the_report_page(page: Page, phone: Page, name: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(getattr(pagedata, name)()), encoding="utf-8")
    for each in (page, phone):
        each.goto(file.as_uri())
        assert violations(each) == []
        each.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert violations(each) == []


@pytest.mark.parametrize("place", ["", "table?table={table}", "file?id=h0", "runs?run=r1", "plans"])
def test_the_dashboard(page: Page, served: Served, place: str) -> None:
    settled(page, f"{served.url}/{place.format(table=quote(served.drawn.table))}")
    for size in WIDTHS.values():
        page.set_viewport_size(size)
        assert violations(page) == [], f"seed {SEED}"

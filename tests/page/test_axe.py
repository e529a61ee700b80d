"""The report page and every page of the dashboard under axe-core, the accessibility checker, on a desktop and a phone.

axe comes in the wheel of axe-playwright-python, so the lock pins it. What is Streamlit's own, and out of reach of our
code, is listed by rule and place, with its reason; anything else is a failure.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from lakeaudit.report.page import render
from tests.builders import pagedata
from tests.builders.on_call import CHROMIUM, WIDE, settled
from tests.page.conftest import PHONE, SEED, Scheme, Served, Visitor

pytestmark = [pytest.mark.page, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

LEVELS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
WIDTHS = {"desktop": WIDE, "phone": PHONE}

OF_STREAMLIT = {
    (
        "scrollable-region-focusable",
        "[data-testid=stTable]",
    ): "the box of st.table scrolls on a phone, and takes no key",
}
"""Rules and elements that our code cannot change, with the reason."""


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


OTHERS = ("healthy", "undecided", "hostile")
"""Their other elements occur on other pages, so that they are not checked each time."""
REPORTS = [
    ("light", "broken", "desktop"),  # tests/page/test_page.py measures contrast in both schemes at both widths
    *(
        pytest.param(*each, marks=pytest.mark.soak)
        for each in (
            ("dark", "broken", "desktop"), ("light", "broken", "phone"), ("dark", "broken", "phone"),
            *((scheme, name, width) for scheme in ("light", "dark") for name in OTHERS for width in WIDTHS),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("scheme", "name", "width"), REPORTS)
def test_the_report_page(
    visitors: dict[Scheme, Visitor], scheme: Scheme, name: str, width: str, tmp_path: Path
) -> None:
    file, page = tmp_path / "report.html", visitors[scheme].page
    file.write_text(render(getattr(pagedata, name)()), encoding="utf-8")
    page.set_viewport_size(WIDTHS[width])
    page.goto(file.as_uri())
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert violations(page) == []


PLACES = ("", "table", "file", "table?table={table}", "file?id=h0", "file?id=h5", "runs?run=r1", "plans")
SEEN = [
    *(("light", place) for place in PLACES),
    ("dark", ""),
    *(pytest.param("dark", place, marks=pytest.mark.soak) for place in PLACES[1:]),
]


@pytest.mark.parametrize(("scheme", "place"), SEEN)
def test_the_dashboard(visitors: dict[Scheme, Visitor], served: Served, scheme: Scheme, place: str) -> None:
    """It follows the scheme, fits a phone, and does nothing that a hostile key says."""
    visitor, told = visitors[scheme], f"seed {SEED}"
    page = visitor.page
    page.set_viewport_size(WIDE)
    settled(page, f"{served.url}/{place.format(table=quote(served.drawn.table))}")
    assert violations(page) == [], told
    paper = page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 384) == (scheme == "dark"), told
    assert page.title() != "owned"
    owned = "[data-testid=stMain] a[href*='evil'], [data-testid=stMain] img:not(.tile > img)"
    assert page.locator(owned).count() == 0, told
    page.set_viewport_size(PHONE)
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    assert (visitor.strangers, visitor.dialogs) == ([], []), told


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_dashboard_on_a_phone(
    visitors: dict[Scheme, Visitor], served: Served, scheme: Scheme, place: str
) -> None:
    page = visitors[scheme].page
    page.set_viewport_size(PHONE)
    settled(page, f"{served.url}/{place.format(table=quote(served.drawn.table))}")
    assert violations(page) == [], f"seed {SEED}"
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"seed {SEED}"

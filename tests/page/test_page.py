"""The report page in a real headless Chromium: its layout at both widths and in both schemes, and its filter.

The page is put into frames of a harness page whose own script measures them.
"""

import html
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from lakeaudit.report.page import render
from tests.builders import pagedata
from tests.builders.on_call import BROWSERS, CHROMIUM
from tests.page.conftest import PHONE, Scheme, Visitor

PAGES = ("healthy", "broken", "undecided", "hostile")
WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}

pytestmark = [
    pytest.mark.page,
    pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(BROWSERS)} is installed"),
]

# For each frame: overflow, where the headline ends, the scheme, what was fetched, the worst contrast of any text.
MEASURE = """
const style = (node) => node.ownerDocument.defaultView.getComputedStyle(node);
const parsed = (color) => color.match(/[\\d.]+/g).map(Number);
const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
const light = (color) => {
  const [r, g, b] = parsed(color).slice(0, 3).map((part) => linear(part / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const color = style(at).backgroundColor;
    if ((parsed(color)[3] ?? 1) > 0) return color;
  }
  return "rgb(255, 255, 255)";
};
const contrast = (node) => {
  const [dark, bright] = [style(node).color, ground(node)].map(light).sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
const isText = (child) => child.nodeType === 3 && child.data.trim();
const hasText = (node) => node.getClientRects().length && Array.from(node.childNodes).some(isText);
const measured = (frame) => {
  const inside = frame.contentDocument, view = frame.contentWindow;
  const texts = Array.from(inside.body.querySelectorAll("*")).filter(hasText);
  const contrasts = texts.map((node) => [contrast(node), `${node.className} ${node.textContent.slice(0, 40)}`]);
  const headline = inside.querySelector("h1").getBoundingClientRect();
  return {
    wide: inside.documentElement.scrollWidth - frame.clientWidth,
    headline: headline.bottom,
    headlineHeight: headline.height,
    dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
    paper: light(style(inside.body).backgroundColor),
    fetched: view.performance.getEntriesByType("resource").map((entry) => entry.name),
    smallest: Math.min(...texts.map((node) => parseFloat(style(node).fontSize))),
    texts: texts.length,
    worst: contrasts.sort((a, b) => a[0] - b[0])[0],
    styled: style(inside.querySelector("h2")).borderTopStyle,
    filter: inside.getElementById("filter")?.hidden ?? null,
    title: inside.title,
  };
};
addEventListener("load", () => {
  const frames = Array.from(document.querySelectorAll("iframe"));
  window.answer = Object.fromEntries(frames.map((frame) => [frame.name, measured(frame)]));
});
"""


def harness(*frames: tuple[str, int, int, str]) -> str:
    """A page with one frame for each (name, width, height, page)."""
    made = "".join(
        f'<iframe name="{name}" width="{width}" height="{height}" srcdoc="{html.escape(page)}"></iframe>'
        for name, width, height, page in frames
    )
    style = "<style>iframe { border: 0 }</style>"
    return f'<!doctype html><meta charset="utf-8">{style}<body>{made}<script>{MEASURE}</script></body>'


@cache
def rendered(name: str) -> str:
    return render(getattr(pagedata, name)())


@pytest.fixture(scope="module", params=["dark", "light"])
def measured(
    request: pytest.FixtureRequest, visitors: dict[Scheme, Visitor], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Scheme, dict[str, Any], list[str]]:
    """Every page at every width in one scheme: the scheme, the measures by page and width, and complaints."""
    frames = [(f"{name} {width}", *size, rendered(name)) for name in PAGES for width, size in WIDTHS.items()]
    file = tmp_path_factory.mktemp("measured") / "harness.html"
    file.write_text(harness(*frames), encoding="utf-8")
    visitor = visitors[request.param]
    visitor.complaints.clear()
    visitor.page.goto(file.as_uri())
    measures = visitor.page.wait_for_function("window.answer").json_value()
    return request.param, measures, [*visitor.complaints]


def each(measured: tuple[Scheme, dict[str, Any], list[str]], value: str) -> dict[str, Any]:
    measures = {name: measure[value] for name, measure in measured[1].items()}
    assert len(measures) == len(PAGES) * len(WIDTHS)
    return measures


def test_no_page_is_wider_than_its_window(measured: tuple[Scheme, dict[str, Any], list[str]]) -> None:
    assert {name: wide for name, wide in each(measured, "wide").items() if wide > 0} == {}


def test_the_verdict_is_read_without_scrolling(measured: tuple[Scheme, dict[str, Any], list[str]]) -> None:
    assert max(each(measured, "headline").values()) < 400
    assert min(each(measured, "headlineHeight").values()) > 20


def test_every_text_stands_out_from_its_ground(measured: tuple[Scheme, dict[str, Any], list[str]]) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 to 1."""
    assert {name: worst for name, worst in each(measured, "worst").items() if worst[0] < 4.5} == {}
    assert min(each(measured, "smallest").values()) >= 10
    assert min(each(measured, "texts").values()) > 50


def test_the_page_follows_the_scheme(measured: tuple[Scheme, dict[str, Any], list[str]]) -> None:
    dark = measured[0] == "dark"
    assert set(each(measured, "dark").values()) == {dark}
    assert all((paper < 0.05) if dark else (paper > 0.9) for paper in each(measured, "paper").values())


def test_the_policy_lets_style_and_script_run_and_nothing_else(
    measured: tuple[Scheme, dict[str, Any], list[str]],
) -> None:
    assert set(each(measured, "styled").values()) == {"solid"}
    assert {name for name, hidden in each(measured, "filter").items() if hidden is False} == {
        f"{name} {width}" for name in ("healthy", "broken", "hostile") for width in WIDTHS
    }
    assert [fetched for fetched in each(measured, "fetched").values() if fetched] == []
    assert measured[2] == []


def test_hostile_keys_do_nothing(measured: tuple[Scheme, dict[str, Any], list[str]]) -> None:
    assert {title for name, title in each(measured, "title").items() if "hostile" in name} == {
        "critical: shop, lakeaudit"
    }


def test_a_phone_shows_the_main_columns_and_the_next_step(visitor: Visitor, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(pagedata.broken()), encoding="utf-8")
    visitor.page.set_viewport_size(PHONE)
    visitor.page.goto(file.as_uri())
    row, command = (visitor.page.locator(".broken tbody").first.locator("tr").nth(at) for at in (0, 1))
    shown = [cell for cell in row.locator("td").all() if cell.is_visible()]
    assert [cell.get_attribute("data-h") for cell in shown] == [
        "where",
        "number",
        "open for",
        "cause",
        "recoverable",
    ]
    expect(command.locator("code.cmd").first).to_be_in_viewport()


@pytest.mark.parametrize(
    ("fragment", "shown"),
    [
        ("", 19),
        ("#q=part-0001&severity=critical", 1),
        ("#table=raw.events", 3),
        ("#kind=dropped&q=Write%20the%20rows%20again", 1),
        ("#kind=archived", 0),
        ("#coverage", 19),
    ],
)
def test_a_fragment_presets_the_filter(visitor: Visitor, fragment: str, shown: int, tmp_path: Path) -> None:
    page = opened(visitor, "broken", tmp_path, fragment)
    expect(page.locator("#shown")).to_have_text(f"{shown} of 19")
    assert page.locator("#list > li:not([hidden])").count() == shown
    assert page.locator("#none").is_visible() == (shown == 0)
    assert visitor.complaints == []


def opened(visitor: Visitor, name: str, folder: Path, fragment: str = "") -> Page:
    """That report in a visitor's tab."""
    file = folder / "report.html"
    file.write_text(rendered(name), encoding="utf-8")
    visitor.complaints.clear()
    visitor.page.goto(file.as_uri() + fragment)
    return visitor.page


def left(page: Page, told: str) -> int:
    """How many are left in the list once the page says `told` of them."""
    expect(page.locator("#shown")).to_have_text(told)
    seen: int = page.evaluate(
        "[...document.querySelectorAll('#list > li')].filter((row) => row.getClientRects().length).length"
    )
    return seen


def test_typing_filters_and_clearing_brings_all_back(visitor: Visitor, tmp_path: Path) -> None:
    page = opened(visitor, "broken", tmp_path)
    assert left(page, "19 of 19") == 19
    for words, number in (("DT=2026-02-09 dropped", 1), ("no such thing", 0)):
        page.fill("#q", words)
        assert left(page, f"{number} of 19") == number
        assert page.locator("#none").is_visible() == (number == 0)
    page.click("button[type=reset]")
    expect(page.locator("#none")).to_be_hidden()  # the number is back before the rows are
    assert left(page, "19 of 19") == 19
    page.click("#unfold")
    assert page.locator("#list details[open]").count() == 19
    assert visitor.complaints == []


def test_five_thousand_findings_are_filtered_in_one_go(visitor: Visitor, tmp_path: Path) -> None:
    """Within the browser's time limit: it took minutes while the rows were list items."""
    page = opened(visitor, "crowded", tmp_path)
    assert left(page, "5,000 of 5,000") == 5000
    page.fill("#q", "part-0003-")
    assert left(page, "1 of 5,000") == 1
    page.click("button[type=reset]")
    assert left(page, "5,000 of 5,000") == 5000

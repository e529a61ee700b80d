"""The report page in a real headless Chromium: what it looks like at both widths and in both schemes, and its filter.

The page is put into frames of a harness page whose own script measures them; nothing but the browser is needed.
"""

import html
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.report.page import render
from tests.builders import pagedata
from tests.builders.htmltree import Node, parse

BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in BROWSERS if (path := shutil.which(name))), None)
PAGES = ("healthy", "broken", "undecided", "hostile")
WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}
# Blink's PreferredColorScheme: dark 0, light 1
SCHEMES = {"dark": "0", "light": "1"}

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
  answer(Object.fromEntries(frames.map((frame) => [frame.name, measured(frame)])));
});
"""

# Types into the filter as a person would, waits for it, and reads what is left each time; then clears it.
TYPE = """
const later = (ms) => new Promise((done) => setTimeout(done, ms));
addEventListener("load", async () => {
  const inside = document.querySelector("iframe").contentDocument;
  const seen = (row) => row.getClientRects().length;
  const left = () => [
    Array.from(inside.querySelectorAll("#list > li")).filter(seen).length,
    inside.getElementById("shown").value,
    inside.getElementById("none").hidden,
  ];
  const box = inside.getElementById("q"), out = [left()];
  for (const words of TYPED) {
    box.value = words;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    await later(500);
    out.push(left());
  }
  inside.querySelector("button[type=reset]").click();
  await later(500);
  out.push(left());
  inside.getElementById("unfold").click();
  out.push(inside.querySelectorAll("#list details[open]").length);
  answer(out);
});
"""

ANSWER = """
const answer = (value) => {
  document.body.innerHTML = "<pre id=out></pre>";
  document.getElementById("out").textContent = JSON.stringify(value);
};
"""


def harness(script: str, *frames: tuple[str, int, int, str]) -> str:
    """A page with one frame for each (name, width, height, page)."""
    made = "".join(
        f'<iframe name="{name}" width="{width}" height="{height}" srcdoc="{html.escape(page)}"></iframe>'
        for name, width, height, page in frames
    )
    style = "<style>iframe { border: 0 }</style>"
    return f'<!doctype html><meta charset="utf-8">{style}<body>{made}<script>{ANSWER}{script}</script></body>'


def dumped(page: Path, fragment: str = "", scheme: str = "light") -> tuple[Node, str]:
    """The page's tree after its script has run, and what the browser complained about."""
    assert CHROMIUM is not None
    profile = page.with_suffix(".profile")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-dev-shm-usage", f"--user-data-dir={profile}",
         f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
         "--window-size=1400,900", "--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom",
         page.as_uri() + fragment],
        capture_output=True, check=True, timeout=120, text=True, encoding="utf-8",
        env={**os.environ, "HOME": str(page.parent)},
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return parse(done.stdout), "\n".join(complaints)


@cache
def rendered(name: str) -> str:
    return render(getattr(pagedata, name)())


@pytest.fixture(scope="module", params=sorted(SCHEMES))
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any], str]:
    """Every page at every width in one scheme: the scheme, the measures by page and width, and complaints."""
    frames = [(f"{name} {width}", *size, rendered(name)) for name in PAGES for width, size in WIDTHS.items()]
    page = tmp_path_factory.mktemp("seen") / "harness.html"
    page.write_text(harness(MEASURE, *frames), encoding="utf-8")
    tree, complaints = dumped(page, scheme=request.param)
    return request.param, json.loads(tree.one("pre", id="out").text), complaints


def each(seen: tuple[str, dict[str, Any], str], value: str) -> dict[str, Any]:
    measures = {name: measure[value] for name, measure in seen[1].items()}
    assert len(measures) == len(PAGES) * len(WIDTHS)
    return measures


def test_no_page_is_wider_than_its_window(seen: tuple[str, dict[str, Any], str]) -> None:
    assert {name: wide for name, wide in each(seen, "wide").items() if wide > 0} == {}


def test_the_verdict_is_read_without_scrolling(seen: tuple[str, dict[str, Any], str]) -> None:
    assert max(each(seen, "headline").values()) < 400
    assert min(each(seen, "headlineHeight").values()) > 20


def test_every_text_stands_out_from_its_ground(seen: tuple[str, dict[str, Any], str]) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 to 1."""
    assert {name: worst for name, worst in each(seen, "worst").items() if worst[0] < 4.5} == {}
    assert min(each(seen, "smallest").values()) >= 10
    assert min(each(seen, "texts").values()) > 50


def test_the_page_follows_the_scheme(seen: tuple[str, dict[str, Any], str]) -> None:
    dark = seen[0] == "dark"
    assert set(each(seen, "dark").values()) == {dark}
    assert all((paper < 0.05) if dark else (paper > 0.9) for paper in each(seen, "paper").values())


def test_the_policy_lets_style_and_script_run_and_nothing_else(seen: tuple[str, dict[str, Any], str]) -> None:
    assert set(each(seen, "styled").values()) == {"solid"}
    assert {name for name, hidden in each(seen, "filter").items() if hidden is False} == {
        f"{name} {width}" for name in ("healthy", "broken", "hostile") for width in WIDTHS
    }
    assert [fetched for fetched in each(seen, "fetched").values() if fetched] == []
    assert seen[2] == ""


def test_hostile_keys_do_nothing(seen: tuple[str, dict[str, Any], str]) -> None:
    assert {title for name, title in each(seen, "title").items() if "hostile" in name} == {
        "critical: shop, lakeaudit"
    }


@pytest.mark.parametrize(
    ("fragment", "shown"),
    [
        ("", 19),
        ("#q=part-0001&severity=critical", 1),
        ("#table=raw.events", 3),
        ("#kind=dropped&q=cannot%20come%20back", 1),
        ("#kind=archived", 0),
        ("#coverage", 19),
    ],
)
def test_a_fragment_presets_the_filter(fragment: str, shown: int, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(rendered("broken"), encoding="utf-8")
    tree, complaints = dumped(page, fragment)
    rows = [node for node in tree.one("ol", id="list").children if isinstance(node, Node)]
    assert sum("hidden" not in row.attrs for row in rows) == shown
    assert tree.one("output").text in {f"{shown} of 19", ""}
    assert ("hidden" in tree.one("p", id="none").attrs) == (shown > 0)
    assert complaints == ""


def typed(page: str, texts: list[str], folder: Path) -> Any:
    """What is left in the list before, after each text, and after clearing; then how many details unfold."""
    file = folder / "harness.html"
    file.write_text(
        harness(f"const TYPED = {json.dumps(texts)};" + TYPE, ("page", 1280, 800, page)), encoding="utf-8"
    )
    tree, complaints = dumped(file)
    assert complaints == ""
    return json.loads(tree.one("pre", id="out").text)


def test_typing_filters_and_clearing_brings_all_back(tmp_path: Path) -> None:
    assert typed(rendered("broken"), ["DT=2026-02-09 dropped", "no such thing"], tmp_path) == [
        [19, "19 of 19", True],
        [1, "1 of 19", True],
        [0, "0 of 19", False],
        [19, "19 of 19", True],
        19,
    ]


def test_five_thousand_findings_are_filtered_in_one_go(tmp_path: Path) -> None:
    """Within the browser's time limit: it took minutes while the rows were list items."""
    assert typed(rendered("crowded"), ["part-0003-"], tmp_path) == [
        [5000, "5,000 of 5,000", True],
        [1, "1 of 5,000", True],
        [5000, "5,000 of 5,000", True],
        5000,
    ]

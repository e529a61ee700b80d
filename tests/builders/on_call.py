"""An engineer on call reads a dashboard in a browser, by role and text, within two clicks of its first screen."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from lakeaudit.kinds import KINDS
from tests.builders.random_results import RandomResults, kind_heading

BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in BROWSERS if (path := shutil.which(name))), None)
WIDE: ViewportSize = {"width": 1280, "height": 800}
PATIENCE = 120_000


@contextmanager
def browsing() -> Iterator[Browser]:
    """A headless Chromium, until the end of the block."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


def settled(opened: Page, address: str) -> None:
    opened.goto(address)
    expect(opened.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE)
    opened.wait_for_selector('[data-test-script-state="notRunning"]')


def answers(page: Page, address: str, drawn: RandomResults, seed: int) -> None:
    """What broke, when, how bad, until when it is recoverable, and what to type; a failure names the seed."""
    told = f"seed {seed}"
    settled(page, address)
    critical = [loss for loss in drawn.losses if KINDS[loss.kind].severity == "critical"]
    headline = page.get_by_role("heading", level=1)
    expect(headline, told).to_be_in_viewport()
    expect(headline, told).to_contain_text(re.compile(r"\d+ \w+"))
    link = page.get_by_role("link", name=drawn.table, exact=True)
    expect(link, told).to_be_in_viewport()
    main = page.get_by_test_id("stMain")
    for loss in critical:
        expect(main, told).to_contain_text(kind_heading(loss))

    link.click()  # the first click
    expect(page.get_by_role("heading", name=drawn.table, level=1), told).to_be_visible(timeout=PATIENCE)
    broken = page.get_by_role("table").first
    for loss in drawn.losses:
        row = broken.get_by_role("row").filter(has_text=kind_heading(loss))
        expect(row, told).to_be_visible(timeout=PATIENCE)
        expect(row, told).to_contain_text(KINDS[loss.kind].severity)
        expect(row, told).to_contain_text(" ago")
        kinds = rf"--table {re.escape(drawn.table)}( --kind \w+)* --kind {loss.kind}\b"
        typed = f"lakeaudit (reconcile plan|findings) .*{kinds}"
        expect(page.get_by_test_id("stCode").first, told).to_contain_text(re.compile(typed))

    page.get_by_role("link", name=drawn.subject).first.click()  # the second
    name = drawn.subject.rpartition("/")[2][-40:]
    expect(page.get_by_role("heading", level=1, name=name), told).to_be_visible(timeout=PATIENCE)
    expect(main, told).to_contain_text(drawn.subject)
    expect(main, told).to_contain_text(drawn.recoverable)
    expect(main, told).to_contain_text("at stake")
    expect(main, told).to_contain_text(re.compile(r"First seen \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"))

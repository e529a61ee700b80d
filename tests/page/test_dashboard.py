"""The dashboard in a real headless Chromium: the question of the on-call engineer, answered by role and text.

Results are drawn by a random seed, which a failure names; `LAKEAUDIT_PAGE_SEED` repeats one.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from lakeaudit.dashboard import addresses
from lakeaudit.formatting import visible
from lakeaudit.keys import Location
from tests.builders.on_call import BROWSERS, CHROMIUM, PATIENCE, answers, settled
from tests.builders.pagedata import HOSTILE
from tests.builders.random_results import draw
from tests.builders.results import lake_file
from tests.builders.served import serving
from tests.page.conftest import PHONE, SEED, Served, Visitor

pytestmark = [
    pytest.mark.page,
    pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(BROWSERS)} is installed"),
]


def test_what_is_broken_in_a_table_since_when_why_and_can_it_come_back(
    visitor: Visitor, served: Served
) -> None:
    page, drawn = visitor.page, served.drawn
    answers(page, served.url, drawn, SEED)
    expect(page.get_by_role("table").first, f"seed {SEED}").to_contain_text("7 B")

    address = page.url
    settled(page, address)  # what is shown can be shared
    expect(page.get_by_test_id("stMain"), f"seed {SEED}").to_contain_text(drawn.recoverable)
    assert visitor.strangers == [], f"seed {SEED}"


def test_causes_are_explained_in_sentences(page: Page, served: Served) -> None:
    settled(page, f"{served.url}/table?table={quote(served.drawn.table)}")
    page.get_by_text("Explanations, and what to do").click()
    for loss in served.drawn.losses:
        for words in (loss.since, loss.why, loss.answers):
            expect(page.get_by_test_id("stMain"), f"seed {SEED}").to_contain_text(words, ignore_case=True)


def test_filters_are_in_the_address_and_back_leads_back(page: Page, served: Served) -> None:
    table = quote(served.drawn.table)
    settled(page, f"{served.url}/table?table={table}&kind=temporary")
    links = page.get_by_test_id("stPageLink").get_by_role("link")
    expect(links, f"seed {SEED}").to_have_count(1, timeout=PATIENCE)
    links.first.click()
    expect(page.get_by_text("3 files in the last runs"), f"seed {SEED}").to_be_visible(timeout=PATIENCE)
    page.go_back()
    expect(page.get_by_role("heading", name=served.drawn.table, level=1), f"seed {SEED}").to_be_visible(
        timeout=PATIENCE
    )
    assert "kind=temporary" in page.url, f"seed {SEED}"


@pytest.mark.parametrize("number", [0, 1, 5, 8, 10, 11])
def test_links_of_messages_open_their_subjects(page: Page, served: Served, number: int) -> None:
    uri = f"s3://lake/{HOSTILE[number]}"
    for address, words in (
        (addresses.lake_address(served.url), "Tables by day"),
        (addresses.table_address(f"{served.url}/", served.drawn.table), "What is broken"),
        (addresses.file_address(served.url, uri), visible(uri)),
        (addresses.discrepancy_address(served.url, f"h{number}"), visible(uri)),
        (addresses.run_address(served.url, "r1"), "In the ledger"),
    ):
        settled(page, address)
        shown = page.get_by_test_id("stMain")
        expect(shown, address).to_contain_text(words, use_inner_text=False)
        expect(shown, address).not_to_contain_text("cannot be shown")
        expect(page.get_by_text("Page not found"), address).to_have_count(0)


def test_a_phone_shows_three_columns_and_the_next_step(page: Page, served: Served) -> None:
    page.set_viewport_size(PHONE)
    settled(page, addresses.table_address(served.url, served.drawn.table))
    heads = page.get_by_role("table").first.locator("th")
    expect(heads.first, f"seed {SEED}").to_be_visible()
    texts = [head.inner_text() for head in heads.all() if head.is_visible()]
    assert texts == ["what", "recoverable", "cause"], f"seed {SEED}"
    expect(page.get_by_test_id("stCode").first, f"seed {SEED}").to_contain_text("lakeaudit ")
    for place in ("", "/table", "/file", "/file?id=h0", "/runs", "/runs?run=r1", "/plans"):
        settled(page, f"{served.url}{place}")
        main = page.get_by_test_id("stMain")
        assert main.evaluate("main => main.scrollWidth <= main.clientWidth"), f"seed {SEED}: {place}"


def test_the_first_page_has_a_name_too(page: Page, served: Served) -> None:
    settled(page, f"{served.url}/lake")
    expect(page.get_by_text("Page not found")).to_have_count(0)
    expect(page.get_by_role("link", name="The lake"), "in the bar above").to_have_count(1)


def test_two_that_start_at_once_each_say_their_own_address(tmp_path_factory: pytest.TempPathFactory) -> None:
    lakes = []
    for name in ("one", "two"):
        folder = tmp_path_factory.mktemp(name)
        place = Location.parse(str(folder / "results"))
        draw(place, SEED, datetime.now(UTC).replace(microsecond=0))
        lakes.append(lake_file(folder, place))
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        servers = [*pool.map(lambda lake: stack.enter_context(serving(lake)), lakes)]
        assert len({server.url for server in servers}) == 2
        shown = ["".join(server.view()) for server in servers]
    assert [[lake in words for lake in lakes] for words in shown] == [[True, False], [False, True]]


def test_hostile_keys_are_read_as_they_are(page: Page, served: Served) -> None:
    settled(page, f"{served.url}/table?table={quote(served.drawn.hostile)}")
    links = page.get_by_test_id("stPageLink")
    expect(links, f"seed {SEED}").to_have_count(len(HOSTILE), timeout=PATIENCE)
    shown = {visible(f"s3://lake/{text}") for text in HOSTILE}
    assert {text.strip() for text in links.all_inner_texts()} == shown, f"seed {SEED}"

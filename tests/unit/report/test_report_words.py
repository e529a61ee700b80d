"""How the report page puts values into words and draws them."""

import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit import formatting
from lakeaudit.report import coverage_view, plots, summary
from lakeaudit.report.page import render
from tests.builders import pagedata
from tests.builders.htmltree import parse

# --- plots


def test_what_is_there_is_drawn_however_few_it_is() -> None:
    [view] = coverage_view.judged([pagedata.covered("t", files=1_000_000, findings=1, undecided=2)])
    bars = parse(str(plots.outcomes(view.cells["content"]))).all("rect")
    assert [bar.attrs["class"] for bar in bars] == ["o-finding", "o-consistent", "o-undecided"]
    assert min(float(bar.attrs["width"]) for bar in bars) > 1.4
    assert sum(float(bar.attrs["width"]) for bar in bars) == pytest.approx(100, abs=0.05)


@pytest.mark.parametrize(("partitions", "cells"), [(2, 2), (120, 120), (121, 61), (5000, 120)])
def test_a_strip_has_a_cell_for_each_partition_or_shares_them(partitions: int, cells: int) -> None:
    rows = [
        pagedata.dropped(at, partition_path=f"p={at:05}", severity="warning" if at else "critical")
        for at in range(partitions)
    ]
    [table] = summary.by_table(pagedata.totals(rows))
    drawn = parse(str(plots.strip(table.partitions))).all("rect")
    assert (len(drawn), drawn[0].attrs["class"], drawn[-1].attrs["class"]) == (
        cells,
        "s-critical",
        "s-warning",
    )
    assert len(table.worst_partitions) + table.rest == partitions


# --- words


def test_the_line_of_a_table_has_its_owner() -> None:
    rows = [pagedata.dropped(1, owner="sales"), pagedata.dropped(2, table_name="raw.events")]
    tables = summary.by_table(pagedata.totals(rows))
    assert {table.line.name: table.owner for table in tables} == {"sales.orders": "sales", "raw.events": None}
    page = parse(render(pagedata.page(rows, [])))
    assert [row for row in page.all("tr", cls="table") if "owner sales" in row.text]


@pytest.mark.parametrize(("value", "said"), [
    (None, "—"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (104_912_331, "100 MiB"), (3_435_973_837, "3.2 GiB"),
    (2**62, "4.0 EiB"),
])  # fmt: skip
def test_size(value: int | None, said: str) -> None:
    assert formatting.size(value) == said


@pytest.mark.parametrize(("value", "said"), [
    (1.0, "100 %"), (0.99999, "99.9 %"), (0.29, "29.0 %"), (0.0004, "under 0.1 %"), (0.0, "0 %"),
])  # fmt: skip
def test_share_is_rounded_down(value: float, said: str) -> None:
    assert formatting.share(value) == said


@pytest.mark.parametrize(("span", "said"), [
    (timedelta(0), "0 s"), (timedelta(seconds=59), "59 s"), (timedelta(hours=3), "3 h"),
    (timedelta(days=9, hours=4, minutes=3), "9 d 4 h"),
    (timedelta(minutes=-61), "-1 h 1 min"),
])  # fmt: skip
def test_duration(span: timedelta, said: str) -> None:
    assert formatting.duration(span) == said


def test_times_are_utc_with_z_and_keep_their_fraction() -> None:
    assert formatting.moment(datetime(2026, 3, 2, 3, 4, 5, 678_000)) == "2026-03-02 03:04:05.678000Z"  # noqa: DTZ001
    assert formatting.second(datetime(2026, 3, 2, 3, 4, 5, 678_000, tzinfo=UTC)) == "2026-03-02 03:04:05Z"


@pytest.mark.parametrize(("text", "shown"), [
    ("a b", "a b"), ("a\nb", r"a\nb"), ("\u202egpj", r"\u202egpj"), ("\x7f", r"\x7f"), ("\U000e0041", r"\U000e0041"),
    (" a ", r"\x20a\x20"),
    ("\u3164", r"\u3164"), ("   ", r"\x20\x20\x20"), ("é漢", "é漢"), ("", ""), ("\ud800", r"\ud800"),
])  # fmt: skip
def test_visible(text: str, shown: str) -> None:
    assert formatting.visible(text) == shown


@given(st.text())
def test_everything_shown_can_be_seen(text: str) -> None:
    shown = formatting.visible(text)
    assert shown.isprintable()
    assert shown == shown.strip()
    assert len(shown) >= len(text)


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=20
    )
)
def test_a_quoted_word_is_one_line_that_can_be_seen(texts: list[str]) -> None:
    assert all(formatting.shell_word(text).isprintable() for text in texts)


def test_a_shell_reads_back_exactly_the_key() -> None:
    keys = [f"s3://lake/{text}" for text in pagedata.HOSTILE if "\0" not in text] + [
        "'",
        "\\",
        "\\n\n",
        "\n1",
        "é\u200b2",
        "!x",
        "-rf",
    ]
    line = "printf '%s\\0' " + " ".join(map(formatting.shell_word, keys))
    read = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert read.decode().split("\0")[:-1] == keys


OLD = "no recent storage source: the report is too old"


@pytest.mark.parametrize(
    ("row", "extent", "bars"),
    [
        ({}, "100 %", ["o-consistent"]),
        ({"undecided": 20}, "80.0 %", ["o-consistent", "o-undecided"]),
        (
            {"status": "partial", "reason": "a gap"},
            "100 files judged, an unknown number not judged",
            ["o-consistent", "o-not_judged"],
        ),
        ({"status": "partial", "reason": OLD}, "0 of 100 files judged by recent evidence", ["o-not_judged"]),
        (
            {"status": "partial", "reason": OLD, "out_of_window": 20},
            "0 of 80 files judged by recent evidence",
            ["o-out_of_window", "o-not_judged"],
        ),
    ],
)
def test_files_that_were_not_judged_are_visible(row: dict[str, Any], extent: str, bars: list[str]) -> None:
    [view] = coverage_view.judged([pagedata.covered("t", files=100, **row)])
    cell = view.cells["content"]
    drawn = parse(str(plots.outcomes(cell))).all("rect")
    assert (cell.extent, [bar.attrs["class"] for bar in drawn]) == (extent, bars)

"""Output for people: no foreign markup or control codes, and no green for undecided results."""

import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.console import Console
from rich.text import Text

from lakeaudit.explain import text_output
from lakeaudit.kinds import KINDS
from lakeaudit.report.page import render
from lakeaudit.report.page_data import PageData
from lakeaudit.runtime.progress import JsonProgress, LiveProgress, Progress, SilentProgress, progress_on
from tests.builders import pagedata
from tests.builders.htmltree import parse

GREEN = "\x1b[32m"


def printed(page: PageData, width: int = 120, *, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, color_system="standard" if colour else None
    )
    text_output.audit(console, page)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return str(text)


def test_the_broken_lake_has_everything_a_person_needs() -> None:
    text = printed(pagedata.broken())
    for words in (
        "shop · partial",
        "critical   dropped",
        "1,001 MiB",
        "recoverable: no",
        "and 16 more findings: lakeaudit findings conf/shop.yaml",
        "sales.orders (metadata store): 3 rows of s3guard:shop-s3guard were rejected",
        "1,201,007 rows, 3 could not be read",
        "failed check of the audit itself, gate `sources`: few rows cannot be read (not so: <script>",
    ):
        assert words in text


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("page", [pagedata.healthy, pagedata.broken, pagedata.undecided])
def test_tables_fit_the_terminal(page: object, width: int) -> None:
    console_page = page()  # type: ignore[operator]
    for block in printed(console_page, width).split("\n\n"):
        if block.startswith(("Findings", "Coverage")):
            rows = [row for row in block.splitlines()[1:] if not row.startswith(" ")]
            assert all(len(row.rstrip()) <= width for row in rows)
            assert not any("…" in row for row in rows)


@pytest.mark.parametrize(
    ("page", "verdict"),
    [
        (pagedata.healthy, "OK: No finding of severity warning or higher in 5 tables"),
        (
            pagedata.broken,
            (
                "CRITICAL: 12 discrepancies in 3 tables: 10 files dropped, 1 file of a lost commit, 1 size mismatch "
                "(the audit is partial)"
            ),
        ),
        (pagedata.undecided, "UNDECIDED: Could not judge anything"),
    ],
)
def test_the_verdict_is_one_of_three(page: object, verdict: str) -> None:
    line = text_output.verdict_line(page())  # type: ignore[operator]
    assert line.startswith(verdict)
    assert "\n" not in line


def test_nothing_decided_is_never_green() -> None:
    text = printed(pagedata.undecided(), colour=True)
    assert "nothing" in text
    assert GREEN not in text
    assert "100 %" not in text


def test_a_share_just_below_all_is_not_all() -> None:
    coverage = [pagedata.covered("a", files=100_000, status="partial", undecided=1, reason="one row")]
    text = printed(pagedata.page([], coverage), colour=True)
    assert "99.9 %" in text
    assert GREEN not in text


def test_what_others_wrote_cannot_act_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_output, "SIZES", (text_output.Size(worst=len(pagedata.HOSTILE)),))
    text = printed(pagedata.hostile()) + text_output.verdict_line(pagedata.hostile())
    for bad in ("\x1b", "\x00", "\u202e", "\r", "\t", "\u200b"):
        assert bad not in text
    assert "[31mred" in text
    assert r"invoice_\u202egpj.exe" in text


def test_many_tables_are_counted_not_listed() -> None:
    coverage = [pagedata.covered(f"t{n:04}") for n in range(2000)]
    coverage[7] = pagedata.covered("t0007", status="partial", undecided=1000, reason="no log")
    lines = printed(pagedata.page([], coverage)).splitlines()
    assert len(lines) < 20
    assert any(line.startswith(" t0007") and "nothing" in line for line in lines)
    assert any("1,999 of 2,000 tables fully judged" in line for line in lines)


def test_it_fits_a_screen_whatever_was_found() -> None:
    """Twenty kinds, a hundred tables half judged for reasons of their own, forty sources."""
    kinds = [name for name, kind in KINDS.items() if kind.axis != "source"][:20]
    found = [pagedata.finding(kind, f"orders/{n}", discrepancy_id=f"d{n}") for n, kind in enumerate(kinds)]
    coverage = [
        pagedata.covered(f"t{n}", status="partial", undecided=9, reason=f"reason {n}") for n in range(100)
    ]
    sources = [pagedata.source("storage", "listing", f"s3://lake/{n}/", 9) for n in range(40)]
    page = pagedata.page(found, coverage)
    lines = printed(replace(page, run={**page.run, "sources": sources})).splitlines()
    assert len(lines) <= 55
    rest = (
        "12 more kinds",
        "and 17 more findings:",
        "96 more tables partly judged",
        "and 97 more reasons",
        "and 34 more sources",
    )
    assert [words for words in rest if not any(words in line for line in lines)] == []


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
@pytest.mark.parametrize("page", [pagedata.healthy, pagedata.broken, pagedata.undecided, pagedata.crowded])
def test_it_fits_the_very_screen_and_ends_with_what_to_type(page: object, width: int, height: int) -> None:
    console = Console(
        file=io.StringIO(), width=width, height=height, force_terminal=True, color_system="standard"
    )
    made: PageData = page()  # type: ignore[operator]
    text_output.audit(console, made)
    lines = [Text.from_ansi(each).plain for each in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert sum(max(-(-len(each) // width), 1) for each in lines) <= height - text_output.AROUND
    assert lines[-1].startswith(" lakeaudit ")
    assert any(each.startswith("1 of 6 tables") or "fully judged" in each for each in lines)


def test_a_shared_reason_is_printed_once_for_all_axes_and_tables() -> None:
    refused = "the endpoint http://s3.lab:9000 cannot be reached"
    coverage = [
        pagedata.covered(f"t{n}", axis, files=3, undecided=3, reason=f"s3://lab/t{n}/_delta_log: {refused}")
        for n in range(3) for axis in ("content", "leftover")
    ]  # fmt: skip
    lines = [line.strip() for line in printed(pagedata.page([], coverage)).splitlines() if refused in line]
    assert lines == [f"t0 and 2 more tables (files of the table, unused files): {refused}"]
    alone = printed(pagedata.page([], coverage[:2]))
    assert f"t0 (files of the table, unused files): s3://lab/t0/_delta_log: {refused}" in alone


def test_a_group_of_one_file_is_that_file_and_others_show_their_first() -> None:
    groups = [
        pagedata.finding("temporary", None, subject=f"g{n}", files=n, discrepancy_id=f"d{n}") for n in (1, 5)
    ]
    named = {"d1": ["s3://lake/x/_temporary/only"], "d5": ["s3://lake/y/1", "s3://lake/y/2"]}
    page = replace(pagedata.page(groups, []), samples=named)
    assert [page.place(row) for row in groups] == ["s3://lake/x/_temporary/only", "g5"]
    assert "s3://lake/x/_temporary/only" in printed(page)
    said = parse(render(page)).one("section", id="findings").full_text
    assert "Some of these files: s3://lake/y/1, s3://lake/y/2" in said
    assert "s3://lake/x/_temporary/only" in said


# --- progress ----------------------------------------------------------------------------------------------


def show_progress(progress: Progress) -> None:
    with progress.stage("observe") as log:
        log.note(rows=12_345)
        log.note(sources=2, place="a\x1b[31m[red]b")
    with pytest.raises(OSError, match="gone"), progress.stage("publish"):
        raise OSError("gone")


def test_one_json_line_a_stage() -> None:
    out = io.StringIO()
    show_progress(JsonProgress(out, clock=lambda: datetime(2026, 11, 21, 8, tzinfo=UTC)))
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["stage"] == "observe"
    assert (first["rows"], first["sources"], first["failed"]) == (12_345, 2, False)
    assert first["time"] == "2026-11-21T08:00:00.000Z"
    assert (second["stage"], second["failed"]) == ("publish", True)


def test_live_lines_on_a_terminal() -> None:
    out = io.StringIO()
    show_progress(LiveProgress(Console(file=out, width=100)))
    first, second = out.getvalue().splitlines()
    assert first.startswith("✓ observe")
    assert "12,345 rows, 2 sources" in first
    assert "[red]b" in first
    assert "\x1b" not in first
    assert second.startswith("✗ publish")


def test_stages_inside_a_stage_are_indented() -> None:
    out = io.StringIO()
    progress = LiveProgress(Console(file=out, width=100))
    with progress.stage("audit"), progress.stage("observe"):
        pass
    assert [line.split("observe")[0].split("audit")[0] for line in out.getvalue().splitlines()] == [
        "  ✓ ",
        "✓ ",
    ]


def test_silence_and_the_choice() -> None:
    show_progress(SilentProgress())
    assert isinstance(progress_on(io.StringIO()), JsonProgress)

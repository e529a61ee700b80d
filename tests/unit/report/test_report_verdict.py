"""The headline of the report page, and its statements about judged and unjudged tables."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakeaudit.formatting import second
from lakeaudit.report import coverage_view
from lakeaudit.report.page import render
from tests.builders import pagedata
from tests.builders.htmltree import Node, parse

FINE, PART = pagedata.covered("t", files=10), pagedata.covered("t", files=10, status="partial", undecided=4)
BLIND, OFF = pagedata.covered("t", files=10, undecided=10), pagedata.off("t", "content", "no manifest")
YOUNG, EMPTY = pagedata.covered("t", files=10, out_of_window=10), pagedata.covered("t", files=0)
LOST, OLD = pagedata.dropped(1), pagedata.finding("temporary", "x/_temporary/", subject_type="prefix")
ONE: dict[str, Any] = {"tables_expected": 1, "tables_audited": 1}
QUIET, ALL = "No finding of severity warning or higher in 1 table", "Could not judge everything: "
ANYTHING = "Could not judge anything: "
NOTHING = ANYTHING + "no file could be judged in 1 of 1 table (t)"

VERDICTS: list[tuple[str, list[Any], list[Any], dict[str, Any], str, str]] = [
    ("all decided", [], [FINE], ONE, "fine", QUIET),
    ("only info", [OLD], [FINE], ONE, "fine", QUIET),
    ("a loss", [LOST], [FINE], ONE, "critical", "1 file dropped in 1 table"),
    ("a loss, in part", [LOST], [PART], {**ONE, "status": "partial"}, "critical", "1 file dropped in 1 table"),
    ("in part", [], [PART], ONE, "unjudged", ALL + "1 of 1 table is only partly judged (t)"),
    ("a part, as asked", [], [pagedata.covered("t", files=10, status="partial")], ONE, "fine",
     "No finding of severity warning or higher in the requested part of 1 table"),
    ("nothing", [], [BLIND], ONE, "unjudged", NOTHING),
    ("off", [], [OFF], ONE, "unjudged", NOTHING),
    ("too young", [], [YOUNG], ONE, "unjudged", NOTHING),
    ("no files", [], [EMPTY], ONE, "unjudged", NOTHING),
    ("empty beside decided", [], [FINE, {**EMPTY, "table_name": "u"}], ONE, "fine", QUIET),
    ("young beside decided", [], [FINE, {**YOUNG, "axis": "leftover"}], ONE, "fine", QUIET),
    ("content too young beside unused files", [], [pagedata.covered("t", "leftover", files=3), YOUNG], ONE, "unjudged",
     NOTHING),
    ("no manifest, and all else judged", [], [pagedata.covered("t", "metastore", files=3), OFF], ONE, "fine",
     "No finding of severity warning or higher in the requested part of 1 table"),
    ("no manifest, beside a table in part", [],
     [{**PART, "table_name": "u"}, pagedata.covered("t", "metastore", files=3), OFF], {**ONE, "status": "partial"},
     "unjudged", ALL + "1 of 2 tables is only partly judged (u)"),
    ("blind beside decided", [], [FINE, {**BLIND, "table_name": "u"}], ONE, "unjudged",
     ALL + "no file could be judged in 1 of 2 tables (u)"),
    ("off in a partial run", [], [FINE, {**OFF, "table_name": "u"}], {**ONE, "status": "partial"}, "unjudged",
     ALL + "no file could be judged in 1 of 2 tables (u)"),
    ("a loss, and most tables blind", [LOST], [FINE, *({**BLIND, "table_name": name} for name in "uv")],
     {**ONE, "status": "partial"}, "critical",
     "Could not judge 2 of 3 tables; open discrepancies: 1 file dropped in 1 table"),
    ("no coverage", [], [], ONE, "unjudged", ANYTHING + "no file could be judged in any table"),
    ("a table missing", [], [FINE], {"tables_expected": 2, "tables_audited": 1}, "unjudged",
     ALL + "1 of 2 tables were audited"),
    ("failed", [], [FINE], {**ONE, "status": "failed", "error": "no bucket"}, "unjudged",
     ALL + "the audit failed: no bucket"),
    ("running", [], [FINE], {**ONE, "status": "running"}, "unjudged", ALL + "the audit has not finished"),
    ("suspect", [], [FINE], {**ONE, "status": "suspect"}, "unjudged", ALL + "the evidence is suspect"),
    ("partial, no reason", [], [FINE], {**ONE, "status": "partial"}, "unjudged", ALL + "the audit is partial"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("findings", "coverage", "run", "level", "headline"),
    [v[1:] for v in VERDICTS],
    ids=[v[0] for v in VERDICTS],
)
def test_the_verdict(
    findings: list[Any], coverage: list[Any], run: dict[str, Any], level: str, headline: str
) -> None:
    heading = parse(render(pagedata.page(findings, coverage, **run))).one("h1")
    badge = {"fine": "quiet", "unjudged": "not judged"}.get(level, level)
    assert (heading.attrs["class"], heading.full_text) == (level, f"{badge} {headline}")


GONE = pagedata.covered("t", files=10, undecided=10, status="partial", reason="no complete report")
LOSS_OF_COVERAGE = pagedata.finding("coverage_lost", None, table_name="t")
COVERAGE = "Coverage lost in 1 table (t): no complete report"
DROPPED, STRAY = "1 file dropped in 1 table", pagedata.finding("uncommitted", "x/stray")
STALE = pagedata.finding("stale_pointer", "x/pointer")
LOSSES_OF_COVERAGE: dict[str, tuple[str, list[Any], str, str, list[str]]] = {
    # severity of the lost coverage, other findings: level, headline, notes in this order
    "alone": ("error", [], "error", COVERAGE, []),
    "lower": ("error", [STRAY, OLD], "error", COVERAGE,
              ["Open discrepancies: 1 uncommitted file in 1 table", "Also 1 info"]),
    "equal": ("error", [STALE, STRAY], "error", COVERAGE,
              ["Open discrepancies: 1 stale pointer in 1 table", "Also 1 warning"]),
    "only info": ("error", [OLD], "error", COVERAGE, ["Also 1 info"]),
    "higher": ("error", [LOST, STALE, STRAY], "critical", DROPPED, [COVERAGE, "Also 1 error, 1 warning"]),
    "critical": ("critical", [LOST, STRAY], "critical", COVERAGE,
                 [f"Open discrepancies: {DROPPED}", "Also 1 warning"]),
    "lowered to warning": ("warning", [STALE], "error", "1 stale pointer in 1 table", [COVERAGE]),
    "lowered to info": ("info", [STRAY], "warning", "1 uncommitted file in 1 table", []),
}  # fmt: skip


@pytest.mark.parametrize("case", LOSSES_OF_COVERAGE)
def test_the_headline_states_lost_coverage_first_unless_something_worse_is_open(case: str) -> None:
    severity, others, level, headline, notes = LOSSES_OF_COVERAGE[case]
    lost = LOSS_OF_COVERAGE | {"severity": severity}
    seen = [FINE | {"table_name": name} for name in ("sales.orders", "u")]
    page = parse(render(pagedata.page([*others, lost], [GONE, *seen], status="partial", tables_expected=3,
                                      tables_audited=3)))  # fmt: skip
    heading = page.one("h1")
    assert (heading.attrs["class"], heading.full_text) == (level, f"{level} {headline}")
    lines = [note.full_text for note in page.one("ul", cls="notes").all("li")]
    beginnings = ("Open discrepancies", "Coverage lost", "Also")
    assert [line for line in lines if line.startswith(beginnings)] == notes


def test_rejected_rows_are_a_doubt() -> None:
    sources = [pagedata.source("storage", "s3_inventory", "s3://inv/", 10, rejected=2)]
    heading = parse(render(pagedata.page([], [FINE], **ONE, sources=sources))).one("h1")
    assert heading.full_text == "not judged " + ALL + "2 rows of evidence could not be read"


def test_the_verdict_states_what_is_recoverable_and_until_when() -> None:
    notes = [note.full_text for note in parse(render(pagedata.broken())).one("ul", cls="notes").all("li")]
    assert notes[:4] == [
        (
            "9 of 11 lost or changed files of severity critical can be restored, and 1 cannot; for the other file, "
            "this is not known"
        ),
        "At least one file can be restored only until 2026-03-04 03:12:09Z (sales.orders)",
        "1 other critical finding has no automatic repair",
        "Also 3 error, 3 warning, 1 info",
    ]


BACK: dict[str, Any] = {
    "movement": "back",
    "verified_through": None,
    "open_discrepancies": 2,
    "blocked_by": ["a", "b"],
}
BEHIND = {
    # rows of `verified`: the note of the headline
    "one table": ([BACK | {"table_name": "t"}], "t fell behind: none of its commits is verified"),
    "up to a time": (
        [BACK | {"table_name": "t", "verified_through": pagedata.NOW}],
        f"t fell behind: its commits are verified only through {second(pagedata.NOW)}",
    ),
    "two tables": (
        [BACK | {"table_name": name} for name in "tu"],
        "2 tables fell behind (t, u): commits that were verified are no longer verified",
    ),
    "stopped since an earlier audit": ([BACK | {"table_name": "t", "movement": "same"}], ""),
}


@pytest.mark.parametrize("name", BEHIND)
@pytest.mark.parametrize("findings", [[LOST], []])
def test_the_headline_names_tables_that_fell_behind(name: str, findings: list[Any]) -> None:
    rows, note = BEHIND[name]
    page = parse(render(replace(pagedata.page(findings, [FINE], **ONE), verified=rows)))
    notes = (
        [each.full_text for each in page.one("ul", cls="notes").all("li")]
        if page.all("ul", cls="notes")
        else []
    )
    assert [each for each in notes if "fell behind" in each] == ([note] if note else [])
    (cell,) = page.all("td", **{"data-h": "verified through"})
    assert "2 open discrepancies" in cell.full_text


# --- coverage


def test_a_table_with_nothing_decided_is_never_marked_fine() -> None:
    page = parse(render(pagedata.undecided()))
    assert not page.all(cls="fine")
    standings = [node.text for node in page.all("span", cls="standing")]
    assert standings == ["nothing could be judged"] * 4
    blind = [node.text for node in page.all("td", **{"data-h": "evidence up to"})]
    assert blind == ["never judged in this run"] * 4


def test_only_a_table_decided_whole_and_without_a_finding_above_info_is_marked_fine() -> None:
    table = parse(render(pagedata.broken())).all("table", cls="coverage")
    marks = {
        row.all("th")[0].full_text.split()[0]: row.one("span", cls="standing")
        for node in table
        for row in rows_of(node)
    }
    assert {name: mark.attrs["class"] for name, mark in marks.items()} == {
        "finance.ledger": "standing nothing",
        "sales.orders": "standing part",
        "sales.order_lines": "standing whole",
        "raw.events": "standing whole",
        "crm.customers": "standing fine",
        "ref.countries": "standing fine",
    }


def rows_of(table: Node) -> list[Node]:
    return table.one("tbody").all("tr")


STANDINGS: list[tuple[str, list[Any], str, str]] = [
    ("whole", [FINE], "whole", "whole"),
    ("whole but for the young", [pagedata.covered("t", files=10, out_of_window=3)], "whole", "whole"),
    ("whole but for what moved on", [pagedata.covered("t", files=10, moved_on=1)], "whole", "whole"),
    ("undecided", [PART], "part", "part"),
    ("uncovered", [pagedata.covered("t", files=10, uncovered=1)], "part", "part"),
    ("declared partial", [pagedata.covered("t", files=10, status="partial")], "part", "part"),
    ("overtaken", [pagedata.covered("t", files=10, status="overtaken")], "part", "part"),
    ("all young", [YOUNG], "young", "idle"),
    ("all young, in part", [{**YOUNG, "status": "partial"}], "nothing", "nothing"),
    ("all undecided", [BLIND], "nothing", "nothing"),
    ("all moved on", [pagedata.covered("t", files=4, moved_on=4)], "nothing", "nothing"),
    ("off", [OFF], "off", "idle"),
    ("empty", [EMPTY], "empty", "idle"),
    ("unknown files", [{**EMPTY, "files": None}], "nothing", "nothing"),
    ("one axis blind", [pagedata.covered("t", "leftover", files=3), BLIND], "nothing", "part"),
    ("no manifest", [pagedata.covered("t", "metastore", files=3), OFF], "off", "part"),
    ("another axis off", [pagedata.covered("t", files=3), {**OFF, "axis": "metastore"}], "whole", "whole"),
    ("content all young", [pagedata.covered("t", "leftover", files=3), YOUNG], "young", "young"),
    (
        "content all young, another in part",
        [pagedata.covered("t", "leftover", files=3, undecided=1), YOUNG],
        "young",
        "part",
    ),
    ("lists nothing, and has files", [pagedata.covered("t", "leftover", files=3), EMPTY], "empty", "idle"),
    (
        "lists nothing, and upcoming losses are judged",
        [pagedata.covered("t", "hazard", files=3), EMPTY],
        "empty",
        "idle",
    ),
    (
        "content whole, hazards in part",
        [pagedata.covered("t", files=3), pagedata.covered("t", "hazard", files=3, undecided=1)],
        "whole",
        "whole",
    ),
    ("only ignored", [pagedata.covered("t", files=3, ignored=3)], "whole", "whole"),
]


@pytest.mark.parametrize(
    ("rows", "content", "table"), [s[1:] for s in STANDINGS], ids=[s[0] for s in STANDINGS]
)
def test_how_a_table_stands(rows: list[Any], content: str, table: str) -> None:
    [view] = coverage_view.judged(rows)
    assert (view.cells["content"].state, view.standing) == (content, table)


def test_evidence_up_to_is_the_oldest_cut_that_anything_was_decided_on() -> None:
    old, older = pagedata.CUT - timedelta(days=1), pagedata.CUT - timedelta(days=2)
    rows = [
        FINE,
        pagedata.covered("t", "leftover", storage_cut_from=old),
        {**BLIND, "axis": "duplicate", "storage_cut_from": older},
    ]
    assert coverage_view.judged(rows)[0].evidence_up_to == old


def test_findings_without_a_catalog_come_from_the_tables_own_metadata() -> None:
    off = pagedata.covered("t", "pointer", files=0, status="off", reason="no catalog is configured")
    page = parse(render(pagedata.page([LOST], [FINE, off | {"findings": 1}])))
    words = page.one("section", id="coverage").one("td", **{"data-h": "catalog pointers"}).full_text
    assert words == "1 finding from the table's own metadata no catalog is configured"


@pytest.mark.parametrize(
    ("found", "counted", "more"),
    [
        ([pagedata.finding("missing_metadata", "log/1")], 0, {"t": 1}),
        ([pagedata.finding("missing_metadata", "log/1")], 1, {}),
        ([pagedata.finding("missing_metadata", "log/1"), pagedata.dropped(1)], 1, {"t": 1}),
        ([pagedata.dropped(1)], 0, {}),
        ([pagedata.finding("overwritten_commit", "log/1")], 0, {}),
    ],
)
def test_a_finding_about_a_log_is_counted_beside_the_files(
    found: list[Any], counted: int, more: dict[str, int]
) -> None:
    rows = [row | {"table_name": "t"} for row in found]
    tables = coverage_view.judged([pagedata.covered("t", findings=counted)])
    assert coverage_view.metadata_findings(pagedata.totals(rows), tables) == more


@pytest.mark.parametrize(
    ("rows", "description"),
    [
        ([FINE], "fully judged"),
        ([PART], "partly judged"),
        ([BLIND], "nothing could be judged"),
        ([pagedata.covered("t", "metastore", files=3), OFF], "judged without a manifest"),
    ],
)
def test_a_table_without_a_manifest_is_neither_fully_nor_partly_judged(
    rows: list[Any], description: str
) -> None:
    (table,) = coverage_view.judged(rows)
    assert table.description == description


def test_a_reason_is_shortened_only_directly_after_itself() -> None:
    reasons = {"content": "a", "metastore": "a", "leftover": "b", "duplicate": "a", "commit": "a"}
    (table,) = coverage_view.judged([pagedata.off("t", axis, why) for axis, why in reasons.items()])
    assert table.repeated == {"metastore", "commit"}

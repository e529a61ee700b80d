"""The report page, read by a parser: it fetches nothing, escapes everything and counts right."""

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from lakeaudit import formatting
from lakeaudit.kinds import SEVERITIES
from lakeaudit.report import summary
from lakeaudit.report.page import render
from lakeaudit.report.page_data import MAX_FINDINGS, History, PageData, page_data
from tests.builders import pagedata
from tests.builders.htmltree import Node, parse

PAGES = {name: getattr(pagedata, name) for name in ("healthy", "broken", "undecided", "hostile")}


@cache
def data(name: str) -> PageData:
    made: PageData = getattr(pagedata, name)()
    return made


@cache
def html(name: str) -> str:
    return render(data(name))


@cache
def tree(name: str) -> Node:
    return parse(html(name))


# --- one file, no request to anywhere


@pytest.mark.parametrize("name", PAGES)
def test_nothing_on_the_page_can_ask_for_anything(name: str) -> None:
    fetching = {
        "link",
        "img",
        "iframe",
        "frame",
        "object",
        "embed",
        "audio",
        "video",
        "source",
        "base",
        "image",
        "use",
    }
    nodes = list(tree(name).walk())
    assert not [node for node in nodes if node.tag in fetching]
    assert not [
        node
        for node in nodes
        if {"src", "srcset", "action", "formaction", "ping", "background"} & set(node.attrs)
    ]
    assert not [node for node in nodes if node.attrs.get("http-equiv", "").lower() == "refresh"]
    links = [value for node in nodes for key, value in node.attrs.items() if key.endswith("href")]
    assert links
    assert all(link.startswith("#") for link in links)


def test_style_and_script_fetch_nothing() -> None:
    style, script = tree("hostile").one("style").text, tree("hostile").one("script").text
    assert not re.search(r"url\s*\(|@import|@font-face|https?:", style)
    assert not re.search(
        r"fetch|XMLHttpRequest|sendBeacon|WebSocket|EventSource|import\b|https?:|innerHTML|eval", script
    )


@pytest.mark.parametrize("name", PAGES)
def test_the_policy_allows_exactly_the_one_style_and_the_one_script(name: str) -> None:
    page = tree(name)
    policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attrs["content"]
    allowed = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert allowed == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "style-src": hashed(page.one("style")),
        "script-src": hashed(page.one("script")),
    }


def hashed(node: Node) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(node.text.encode()).digest()).decode()}'"


# --- hostile input


def test_hostile_text_adds_no_element_and_no_attribute() -> None:
    """Hostile keys do not change the elements of the page."""

    def shapes(page: Node) -> set[tuple[str, str]]:
        return {(node.tag, name) for node in page.walk() for name in ("", *node.attrs)}

    plain = shapes(tree("broken")) | {
        ("h2", ""),
        ("code", "class"),
        ("bdi", ""),
        ("span", "class"),
        ("b", "class"),
        ("dd", "class"),
    }
    assert shapes(tree("hostile")) - plain <= {("section", "id"), ("table", "class")}


@pytest.mark.parametrize("name", PAGES)
def test_no_handler_and_no_inline_style(name: str) -> None:
    names = {key for node in tree(name).walk() for key in node.attrs}
    assert not [key for key in names if key.startswith("on") or key == "style"]


def test_no_data_in_style_or_script() -> None:
    assert tree("hostile").one("script").text == tree("healthy").one("script").text
    assert tree("hostile").one("style").text == tree("healthy").one("style").text


@pytest.mark.parametrize("name", PAGES)
def test_no_character_on_the_page_is_unseen_but_the_page_s_own_line_breaks(name: str) -> None:
    assert {char for char in html(name) if not char.isprintable()} == {"\n"}


def test_with_a_dashboard_it_links_to_its_pages_and_nowhere_else() -> None:
    base = "https://data.example/x"
    page = replace(data("hostile"), dashboard=base, run_at="Run the commands on etl-1.")
    text = render(page)
    assert "Run the commands on etl-1." in text
    links = [link.attrs["href"] for link in parse(text).all("a")]
    outside = [link for link in links if not link.startswith("#")]
    lake = urlencode({"lake": page.run["lake"]})
    assert f"{base}/?{lake}" in outside
    assert f"{base}/runs?{lake}&{urlencode({'run': page.run['run_id']})}" in outside
    assert {link.partition("?")[0] for link in outside} == {
        f"{base}/{name}" for name in ("", "table", "file", "runs")
    }
    assert all(re.fullmatch("[A-Za-z0-9%._~=&-]*", link.partition("?")[2]) for link in outside)


def test_no_key_becomes_a_link() -> None:
    for link in tree("hostile").all("a"):
        target = link.attrs["href"][1:]
        assert (
            target in {"severity-and-kind", "changes", "tables", "evidence", "coverage", "findings"}
            or len(parse_qs(target)) == 1
        )


@pytest.mark.parametrize("text", pagedata.HOSTILE)
def test_every_hostile_key_is_shown_as_it_is_spelled(text: str) -> None:
    keys = [node.text for node in tree("hostile").all("code", cls="k")]
    assert keys.count(formatting.visible(f"s3://lake/{text}")) == 1


def test_what_is_spelled_out_is_set_apart() -> None:
    key = next(node for node in tree("hostile").all("code", cls="k") if "invoice_" in node.text)
    assert [node.text for node in key.all("span", cls="u")] == [r"\u202e"]


@pytest.mark.parametrize("name", [name for name in PAGES if name != "hostile"])
def test_no_space_of_the_page_itself_is_spelled_out(name: str) -> None:
    assert r"\x20" not in tree(name).text


def test_right_to_left_parts_of_a_key_stay_in_their_place() -> None:
    key = next(node for node in tree("hostile").all("code", cls="k") if "/123/" in node.text)
    assert [node.text for node in key.all("bdi")][-3:] == [
        "dt=\u05d0\u05d1\u05d2",
        "123",
        "\u0645\u0644\u0641.parquet",
    ]


# --- every finding, and counts that agree


@pytest.mark.parametrize("name", PAGES)
def test_every_finding_stands_there_worst_first(name: str) -> None:
    shown = [
        (node.attrs["data-severity"], node.attrs["data-kind"], node.one("code", cls="k").text)
        for node in findings_of(tree(name))
    ]
    given = data(name).findings
    assert shown == [
        (row["severity"], row["kind"], formatting.visible(formatting.uri(row) or row["subject"]))
        for row in given
    ]
    assert [SEVERITIES.index(severity) for severity, _, _ in shown] == sorted(
        SEVERITIES.index(row["severity"]) for row in given
    )


def findings_of(page: Node) -> list[Node]:
    return [node for node in page.all("li") if "data-kind" in node.attrs]


@pytest.mark.parametrize("name", PAGES)
def test_the_counts_by_severity_kind_and_table_agree_with_the_totals(name: str) -> None:
    page, totals = tree(name), data(name).totals

    def total(column: str, value: Any) -> int:
        return sum(row["findings"] for row in totals if row[column] == value)

    tiles = {
        tile.one("span", cls="badge").text: number(tile.one("b"))
        for tile in page.one("ul", cls="tiles").all("li")
    }
    assert tiles == {severity: total("severity", severity) for severity in SEVERITIES}
    for row in broken_rows(page):
        assert number(cell(row, "number").one("b")) == total("kind", row.one("th").one("a").text)
    for row in page.all("tr", cls="table"):
        of_table = sum(number(cell(row, severity)) for severity in SEVERITIES)
        names = [
            given["table_name"]
            for given in totals
            if formatting.visible(formatting.table_label(given["table_name"])) == row.one("a").text
        ]
        assert of_table == total("table_name", names[0])
    parts = sum(number(cell(row, severity)) for row in page.all("tr", cls="table") for severity in SEVERITIES)
    assert parts == data(name).finding_count


def broken_rows(page: Node) -> list[Node]:
    return [row for row in body_rows(page, "broken") if "do" not in row.attrs.get("class", "")]


def body_rows(page: Node, table: str) -> list[Node]:
    return [
        row for node in page.all("table", cls=table) for body in node.all("tbody") for row in body.all("tr")
    ]


def cell(row: Node, column: str) -> Node:
    return row.one("td", **{"data-h": column})


def number(node: Node) -> int:
    return int(node.text.replace(",", ""))


def test_a_finding_has_its_claims_side_by_side_and_its_command() -> None:
    node = next(node for node in findings_of(tree("broken")) if node.attrs["data-kind"] == "size_mismatch")
    claims = {
        row.one("th").full_text: [value.text for value in row.all("td")]
        for row in node.one("tbody").all("tr")
    }
    assert claims == {
        "size ≠": ["88,120,441 B (84.0 MiB)", "—", "61,341,696 B (58.5 MiB)"],
        "ETag ≠": ["9e107d9d372bb6826bd81d3542a419d6", "—", "e4d909c290d0fb1ca068ffaddf22cbd0-12"],
        "time": ["2026-02-26 01:00:00Z", "—", "2026-03-01 01:00:00Z"],
    }
    key = "s3://lake/warehouse/order_lines/region=eu/dt=2026-02-27/part-00003.parquet"
    assert node.one("code", cls="cmd").text == f"lakeaudit explain conf/shop.yaml {key}"
    after = [each.text for each in node.all("p", cls="after")]
    assert after[0] == "confirmed by a live check; recoverable: unknown"
    assert after[1].startswith("Do: Find the writer of the stored object")


def test_findings_beyond_the_limit_are_counted_not_hidden() -> None:
    row = pagedata.finding("temporary", "a/_temporary/", subject_type="prefix")
    totals = [{**pagedata.totals([row])[0], "findings": MAX_FINDINGS + 1234}]
    page = page_data(
        "lake.yaml", pagedata.run(), [], [dict(row) for _ in range(MAX_FINDINGS + 3)], totals, pagedata.NOW
    )
    assert (len(page.findings), page.not_shown) == (MAX_FINDINGS, 1234)
    few = PageData(
        "lake.yaml", page.run, [], page.findings[:2], [{**totals[0], "findings": 1236}], pagedata.NOW
    )
    said = parse(render(few)).one("section", id="findings").full_text
    assert "The worst 2 of 1,236 findings are on this page; 1,234 are not shown." in said


def test_long_names_make_fewer_findings_and_not_a_larger_page() -> None:
    """Two thousand tables, forty partition columns, names of 1,024 bytes."""
    path = "/".join(f"{chr(97 + at % 26)}{at:02}={'v' * 20}" for at in range(40))
    rows = [
        pagedata.dropped(at, key=f"{path}/{at:010}".rjust(1024, "k"), partition_path=path,
                         table_name=f"{at:04}".rjust(1024, "t"), explanation="e" * 1024)
        for at in range(2000)
    ]  # fmt: skip
    names = {row["table_name"] for row in rows}
    coverage = [pagedata.covered(name, status="partial", undecided=9, reason="r" * 1024) for name in names]
    page = pagedata.page(rows, coverage, sources=[
        pagedata.source("storage", "listing", f"{at:04}".rjust(1024, "s"), 1) for at in range(2000)
    ])  # fmt: skip
    text = render(page)
    assert len(text) < 16_000_000
    said = parse(text)
    assert len(findings_of(said)) == len(page.findings) < 2000
    assert page.not_shown == 2000 - len(page.findings)
    assert (
        said.one("section", id="tables").one("p", cls="more").full_text.startswith("and 1,750 more tables: ")
    )
    assert (
        said.one("section", id="coverage")
        .one("p", cls="more")
        .full_text.startswith("and 1,750 more tables: ")
    )
    assert (
        said.one("section", id="evidence")
        .one("p", cls="more")
        .full_text.startswith("and 1,960 more sources: ")
    )


def test_totals_of_another_run_are_refused() -> None:
    with pytest.raises(ValueError, match="2 findings given, but the totals count 1"):
        page_data(
            "lake.yaml",
            pagedata.run(),
            [],
            [pagedata.dropped(1), pagedata.dropped(2)],
            pagedata.totals([pagedata.dropped(1)]),
            pagedata.NOW,
        )


def test_worst_first_is_severity_then_bytes_then_key() -> None:
    rows = [
        pagedata.finding("temporary", "a", bytes_at_stake=9),
        pagedata.finding("dropped", "b", bytes_at_stake=None),
        pagedata.finding("dropped", "d", bytes_at_stake=7),
        pagedata.finding("dropped", "c", bytes_at_stake=7),
        pagedata.finding("dropped", "e", bytes_at_stake=8),
        pagedata.finding("phantom", "f", bytes_at_stake=99),
    ]
    assert [row["key"] for row in pagedata.page(rows, []).findings] == ["e", "c", "d", "b", "f", "a"]


def test_off_and_partial_say_why() -> None:
    said = tree("broken").one("section", id="coverage").full_text
    assert "not checked the Delta log needs reader feature variantType, which is not understood" in said
    counts = "95.2 % of 240,000 files judged 2 with findings 11,406 undecided 1 not confirmed"
    assert f"{counts} 3 rows of s3guard:shop-s3guard were rejected" in said


def test_the_evidence_is_named_with_cut_age_identity_rows_and_rejected() -> None:
    row = body_rows(tree("broken"), "evidence")[2]
    assert row.full_text == (
        "metadata store s3guard shop-s3guard identity arn:aws:dynamodb:us-east-1:0:table/shop"
        "2026-03-01 01:00:00Z to 2026-03-01 04:41:00Z1 d 2 h1,201,0073"
    )


def test_what_changed_and_how_it_stands_now() -> None:
    page = tree("broken")
    assert [row.full_text for row in body_rows(page, "changes")] == [
        "newdroppedcriticalsales.orders10≥ 21,4485.0 MiB1 d 2 h",
        "closed, not restoreddroppederrorcrm.customers2——10 d",
        f"back againoverwrittenwarning{pagedata.HOSTILE[0]}150—4 d 2 h",
    ]
    caption = page.one("section", id="changes").one("caption").full_text
    assert "10 new, 1 back again, 2 resolved (closed, not restored)" in caption
    assert "Nothing changed in this run: nothing new, nothing open." in (
        tree("healthy").one("section", id="changes").full_text
    )


def test_what_is_broken_since_when_why_until_when_and_what_to_type() -> None:
    row = broken_rows(tree("broken"))[0]
    told = {cell.attrs["data-h"]: cell.full_text for cell in row.all("td")}
    assert row.one("th").full_text == "critical dropped"
    assert told == {
        "where": "sales.orders", "number": "10 new", "rows": "182,040", "bytes": "1,001 MiB", "open for": "1 d 2 h",
        "cause": "not known", "recoverable": "9 of 10, at least one for 2 d",
    }  # fmt: skip
    typed = body_rows(tree("broken"), "broken")[1]
    assert [code.text for code in typed.all("code")] == [
        "--allow restore",
        # plans of several kinds would be written over each other
        "lakeaudit reconcile plan conf/shop.yaml --table sales.orders --kind dropped -o dropped.jsonl",
        "lakeaudit reconcile apply dropped.jsonl",
    ]
    assert typed.full_text.startswith(
        "Answer this question first: Did somebody remove them on purpose? If nobody"
    )
    assert "These plans have no steps for files that somebody may have removed or replaced on purpose" in (
        tree("broken").one("section", id="broken").full_text
    )
    assert typed.all("button")[0].attrs["aria-label"] == "copy the command for dropped"


def test_a_cause_and_a_time_are_stated_only_for_the_files_that_have_them() -> None:
    etl = "deleted, by arn:aws:sts::1:assumed-role/nightly-etl/spark"
    opened = [
        pagedata.change("sales.orders", "dropped", "critical", 4, by_cause={etl: 4}),
        pagedata.change("sales.orders", "dropped", "critical", 6, days=3),
    ]
    row, do, *_ = body_rows(parse(render(replace(pagedata.broken(), history=History([], opened)))), "broken")
    assert cell(row, "cause").full_text == f"4 of 10: {etl}; 6 of 10: not known"
    assert cell(row, "open for").full_text.startswith("up to 4 d")
    assert "Did nightly-etl or somebody else remove them on purpose?" in do.full_text


def test_what_is_back_again_is_not_called_new() -> None:
    changes = [pagedata.change("sales.orders", "dropped", "critical", 3, transition="reopened")]
    page = parse(render(replace(pagedata.broken(), history=History(changes, []))))
    assert cell(broken_rows(page)[0], "number").full_text == "10 3 again"


def test_a_relative_time_says_the_exact_one() -> None:
    since = broken_rows(tree("broken"))[0].one("td", **{"data-h": "open for"}).one("time")
    assert (since.attrs["title"], since.attrs["data-paper"]) == ("2026-03-01 01:00:00Z", "2026-03-01 01:00")


def test_of_a_run_before_the_last_one_it_is_not_known() -> None:
    said = parse(render(pagedata.page([], [], history=None))).one("section", id="changes").full_text
    assert "so the changes of this run are no longer known" in said


def test_gates_that_do_not_hold_are_named() -> None:
    (gate,) = tree("broken").one("ul", cls="gates").all("li")
    assert (
        gate.full_text == f"gate `sources`: few rows cannot be read (not so: {pagedata.HOSTILE[0]}, warning)"
    )
    assert tree("healthy").all("ul", cls="gates") == []


def test_at_stake_is_what_the_worst_severity_says_and_what_is_unknown() -> None:
    rows = {row.one("a").text: row for row in tree("broken").all("tr", cls="table")}
    assert cell(rows["sales.orders"], "rows").text == "182,040"
    assert cell(rows["raw.events"], "rows").text == "—", "those of an error beside it are not"
    assert cell(rows["(no table)"], "rows").text == "—"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([("critical", 7), ("error", 7)], summary.Amount(7, whole=True)),
        ([("critical", 7), ("critical", None), ("error", 7)], summary.Amount(7, whole=False)),
        ([("critical", None), ("error", 7)], summary.Amount(None, whole=False)),
        ([("warning", 3), ("info", 9)], summary.Amount(3, whole=True)),
        ([("info", 9)], summary.Amount(0, whole=True)),
    ],
)
def test_rows_at_stake_of_a_table(found: list[tuple[str, int | None]], told: summary.Amount) -> None:
    """A file with findings of two severities is counted once; findings at info are not counted."""
    rows = [
        {"kind": "dropped", "severity": severity, "table_name": "t", "owner": None, "partition_path": None,
         "findings": 1, "files": 1, "rows_at_stake": rows, "bytes_at_stake": None, "recoverable": None,
         "recoverable_until": None}
        for severity, rows in found
    ]  # fmt: skip
    (line,) = summary.by_table(rows)
    assert line.line.stake.rows == told


# --- for everyone


def test_only_plans_that_leave_files_out_are_explained_that_way() -> None:
    expired = [
        pagedata.change("sales.orders", kind, "critical", 1)
        | {"by_cause": {"expired by a lifecycle rule": 10}}
        for kind in ("dropped", "size_mismatch")
    ]
    pages = {
        "unknown cause": pagedata.broken(),
        "expired": replace(pagedata.broken(), history=History([], expired)),
        "healthy": pagedata.healthy(),
    }
    plain = "These plans have no steps for files that somebody may have removed"
    told = {name: parse(render(page)).one("section", id="broken").full_text for name, page in pages.items()}
    assert [name for name, text in told.items() if plain in text] == ["unknown cause"]


def test_what_was_judged_comes_before_the_single_files() -> None:
    page = tree("broken")
    order = ["state", "broken", "tables", "changes", "coverage", "findings", "evidence"]
    assert [section.attrs["id"] for section in page.all("section")] == order
    assert [link.attrs["href"] for link in page.one("nav").all("a")] == [f"#{name}" for name in order[2:]]


@pytest.mark.parametrize("name", PAGES)
def test_headings_captions_and_labels(name: str) -> None:
    page = tree(name)
    assert page.one("html").attrs["lang"] == "en"
    assert all(table.all("caption") for table in page.all("table"))
    assert all(section.all("h2") for section in page.all("section"))
    labelled = [
        control for label in page.all("label") for tag in ("input", "select") for control in label.all(tag)
    ]
    assert len(labelled) == len([*page.all("input"), *page.all("select")])
    ids = [node.attrs["id"] for node in page.walk() if "id" in node.attrs]
    assert len(ids) == len(set(ids))


def test_the_demo_says_whether_the_audit_found_what_was_broken() -> None:
    acts = [{"act": "delete", "key": "a/b"}, {"act": "truncate", "key": "a/c"}]
    for matched, said in (
        (True, "The audit judged every change correctly and reported nothing else"),
        (False, "The audit did not judge every change correctly"),
    ):
        page = parse(render(pagedata.page([], [], {"seed": 7, "broken": acts, "matched": matched})))
        assert said in page.one("section", id="demo").full_text
        assert [row.full_text for row in body_rows(page, "acts")] == ["deletea/b", "truncatea/c"]

"""Formats of findings and discrepancies: other programs read each document, whatever a key contains."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, get_args
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from lakeaudit.cli.options import RowFormat
from lakeaudit.explain.formats import github, markdown
from lakeaudit.explain.formats.listing import Listing
from lakeaudit.explain.formats.registry import FORMATS
from lakeaudit.formatting import visible
from lakeaudit.keys import uri_of
from lakeaudit.kinds import KINDS
from lakeaudit.schemas import DISCREPANCIES, FINDINGS, RUNS
from tests.builders.examples import examples
from tests.builders.hostile_text import hostile_texts
from tests.builders.listings import listing
from tests.builders.results import NOON, covered, discrepancy, finding, group, run

Row = dict[str, Any]


def write(name: str, rows: Iterable[Row], of: Listing) -> str:
    """The document of a format; it is ASCII where the encoding of stdout must not matter."""
    out = io.StringIO()
    whole = [dict.fromkeys([*DISCREPANCIES.names, *FINDINGS.names]) | row for row in rows]
    assert FORMATS[name](whole, out, of) == len(whole)
    assert out.getvalue().isascii() or name not in ("junit", "sarif", "jsonl")
    return out.getvalue()


def hostile_rows(texts: list[str]) -> list[Row]:
    """Findings in which every text that comes from a lake is hostile."""
    key, table, cause = texts
    given = {"table_name": table, "explanation": f"as {key} says", "cause": cause, "severity": "error"}
    return [finding("dropped", key, **given), group("uncommitted", key, 2) | {"table_name": table}]


hostile = st.lists(hostile_texts, min_size=3, max_size=3)


def hostile_listing(texts: list[str]) -> Listing:
    reason: Row = {"status": "partial", "undecided": 5, "consistent": 5, "reason": texts[0]}
    return listing(
        [covered(texts[1], **reason)], [texts[2]], doubts=(f"the newer run r2 failed: {texts[2]}",)
    )


def test_the_command_line_offers_the_formats_of_the_registry() -> None:
    (literal, _) = get_args(RowFormat)
    assert get_args(literal) == tuple(FORMATS)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("junit", "table")])
def test_rows_are_written_as_they_arrive(name: str) -> None:
    out, sizes = io.StringIO(), []

    def rows() -> Iterator[Row]:
        for number in range(4):
            yield dict.fromkeys(FINDINGS.names) | finding("dropped", f"orders/{number}")
            sizes.append(out.tell())

    FORMATS[name](rows(), out, listing())
    assert sizes == sorted({*sizes})
    assert 0 < sizes[0] < sizes[-1]


# --- markdown ----------------------------------------------------------------------------------------------

COMMONMARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def cells_of(text: str) -> list[list[Token]]:
    """The rows of the only table, each cell as its token."""
    tokens = COMMONMARK.parse(text)
    assert [token.type for token in tokens].count("table_open") == 1
    rows: list[list[Token]] = []
    for before, token in pairwise(tokens):
        if token.type == "tr_open":
            rows.append([])
        if before.type in ("th_open", "td_open"):
            rows[-1].append(token)
    return rows


@given(hostile)
@examples(150, 3000)
def test_a_hostile_text_stays_in_its_cell_and_is_code(texts: list[str]) -> None:
    rows = hostile_rows(texts)
    text = write("markdown", rows, hostile_listing(texts))
    head, *cells = cells_of(text)
    assert [len(row) for row in cells] == [len(head)] * len(rows)
    spelled = [visible(each["subject"]).replace("`", r"\x60").replace("|", r"\x7c") for each in rows]
    assert [[child.content for child in row[3].children or ()] for row in cells] == [
        [each] for each in spelled
    ]
    tokens = COMMONMARK.parse(text)
    inline = {child.type for token in tokens for child in token.children or ()}
    assert inline <= {"text", "code_inline"}
    words = (child.content for token in tokens for child in token.children or () if child.type == "text")
    assert not re.search(r"[@#<&`_*~$]|://|www\.", " ".join(words))
    blocks = {token.type.rpartition("_")[0] for token in tokens} - {""}
    assert blocks <= {"table", "thead", "tbody", "tr", "th", "td", "paragraph", "bullet_list", "list_item"}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("storage has 1,200 files (of 3), since 2026-11-21 12:00:00Z.", None),
        ("ask @ann about s3://a/b; it's 60.0 % done", "ask `@ann` about `s3://a/b;` it's 60.0 % done"),
        ("see www.a.b or a_b", "see `www.a.b` or `a_b`"),
        ("two\nlines", "two lines"),
    ],
)
def test_words_that_markdown_interprets_are_code(sentence: str, expected: str | None) -> None:
    assert markdown.prose(sentence) == (expected or sentence)


def test_markdown_of_a_healthy_lake_names_what_was_judged() -> None:
    text = write("markdown", [], listing([covered(), covered("returns")]))
    assert text == "0 findings of run r1: 20 of 20 files judged, 2 of 2 tables fully judged.\n"


def test_markdown_counts_the_tables_beyond_the_first() -> None:
    coverage = [covered(f"t{n:02}", undecided=10, consistent=0, status="partial") for n in range(25)]
    lines = write("markdown", [], listing(coverage)).splitlines()
    assert len(lines) == 2 + markdown.TABLES_NAMED + 1
    assert lines[-1] == "- and 5 more tables not fully judged"


# --- junit -------------------------------------------------------------------------------------------------


def suites_of(text: str) -> dict[str, ET.Element]:
    """The test suites by name; the numbers of each are those of its cases."""
    root = ET.fromstring(text)
    total: Counter[str] = Counter()
    for suite in root:
        assert suite.tag == "testsuite"
        numbers = {
            "tests": len(suite.findall("testcase")), "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")), "skipped": len(suite.findall("testcase/skipped")),
        }  # fmt: skip
        assert {name: int(suite.attrib[name]) for name in numbers} == numbers
        total.update(numbers)
    assert {name: int(root.attrib[name]) for name in total} == dict(total)
    return {suite.attrib["name"]: suite for suite in root}


def results_of(suite: ET.Element) -> dict[str, str]:
    """The result of each test case by its name."""
    return {case.attrib["name"]: case[0].tag if len(case) else "passed" for case in suite.iter("testcase")}


@given(hostile)
@examples(150, 3000)
def test_junit_is_well_formed_whatever_a_key_contains(texts: list[str]) -> None:
    rows = hostile_rows(texts)
    suites = suites_of(write("junit", rows, hostile_listing(texts)))
    suite = suites[visible(texts[1])]
    results = results_of(suite)
    assert results == {"coverage": "skipped"} | {
        f"{r['kind']}: {visible(r['subject'])}": "failure" for r in rows
    }
    failures = [case[0] for case in suite.iter("testcase") if case[0].tag == "failure"]
    assert [(each.attrib["type"], each.attrib["message"].split(":")[0]) for each in failures] == [
        ("dropped", "error"), ("uncommitted", "warning"),
    ]  # fmt: skip
    assert visible(f"as {texts[0]} says") in failures[0].attrib["message"]


def test_a_suite_has_the_rows_of_its_table_though_rows_arrive_by_severity() -> None:
    tables = ["orders", "returns", "orders", None, "returns"]
    rows = [finding("dropped", f"k{n}", table_name=table) for n, table in enumerate(tables)]
    suites = suites_of(write("junit", rows, listing([covered(), covered("returns")])))
    assert {name: [*results_of(suite)] for name, suite in suites.items()} == {
        "lakeaudit": ["audit"],
        "orders": ["coverage", "dropped: s3://lake/k0", "dropped: s3://lake/k2"],
        "returns": ["coverage", "dropped: s3://lake/k1", "dropped: s3://lake/k4"],
        "(no table)": ["dropped: s3://lake/k3"],
    }


def test_junit_of_a_healthy_lake_has_passed_cases_and_the_number_of_judged_files() -> None:
    root = ET.fromstring(write("junit", [], listing([covered(), covered("returns")])))
    assert (root.attrib["tests"], root.attrib["failures"], root.attrib["errors"], root.attrib["skipped"]) == (
        "3", "0", "0", "0",
    )  # fmt: skip
    properties = [(p.attrib["name"], p.attrib["value"]) for p in root.iter("property")]
    assert properties.count(("files_judged", "10")) == properties.count(("evidence_gaps", "0")) == 2


# --- sarif -------------------------------------------------------------------------------------------------

RUN, DRIVER, RESULT = ".runs.*", ".runs.*.tool.driver", ".runs.*.results.*"
NOTICE = ".runs.*.invocations.*.toolExecutionNotifications.*"
STRUCTURE: list[tuple[str, set[str], set[str]]] = [
    # path, required properties, other properties that SARIF 2.1.0 defines and that are written
    ("", {"version", "runs"}, {"$schema"}),
    (RUN, {"tool"}, {"automationDetails", "invocations", "results", "properties"}),
    (f"{RUN}.tool", {"driver"}, set()),
    (f"{RUN}.automationDetails", set(), {"id"}),
    (DRIVER, {"name"}, {"version", "rules"}),
    (f"{DRIVER}.rules.*", {"id"}, {"shortDescription", "help", "defaultConfiguration", "properties"}),
    (f"{DRIVER}.rules.*.shortDescription", {"text"}, set()),
    (f"{DRIVER}.rules.*.help", {"text"}, {"markdown"}),
    (f"{DRIVER}.rules.*.defaultConfiguration", set(), {"level"}),
    (
        f"{RUN}.invocations.*",
        {"executionSuccessful"},
        {"startTimeUtc", "endTimeUtc", "toolExecutionNotifications"},
    ),
    (NOTICE, {"message"}, {"level", "locations"}),
    (f"{NOTICE}.message", {"text"}, set()),
    (f"{NOTICE}.locations.*", set(), {"logicalLocations", "physicalLocation"}),
    (
        RESULT,
        {"message", "ruleId", "level", "locations"},
        {"ruleIndex", "kind", "fingerprints", "partialFingerprints", "suppressions", "properties"},
    ),
    (f"{RESULT}.message", {"text"}, set()),
    (f"{RESULT}.locations.*", set(), {"logicalLocations", "physicalLocation"}),
    (f"{RESULT}.locations.*.logicalLocations.*", set(), {"fullyQualifiedName", "kind"}),
    (f"{RESULT}.locations.*.physicalLocation", {"artifactLocation"}, set()),
    (f"{RESULT}.locations.*.physicalLocation.artifactLocation", {"uri"}, set()),
    (f"{RESULT}.suppressions.*", {"kind"}, {"status", "justification"}),
]
VALUES: list[tuple[str, set[str]]] = [
    (".version", {"2.1.0"}),
    (f"{DRIVER}.rules.*.defaultConfiguration.level", {"error", "warning", "note"}),
    (f"{NOTICE}.level", {"error", "warning", "note"}),
    (f"{RESULT}.level", {"error", "warning", "note", "none"}),
    (f"{RESULT}.kind", {"fail", "open", "pass"}),
    (f"{RESULT}.suppressions.*.kind", {"external"}),
    (f"{RESULT}.suppressions.*.status", {"accepted"}),
]


def at_path(value: Any, path: str) -> Iterator[Any]:
    """Everything at a path such as `.runs.*.tool`; `*` is each element of a list."""
    head, _, rest = path.removeprefix(".").partition(".")
    if not head:
        yield value
    elif head == "*":
        assert isinstance(value, list)
        for each in value:
            yield from at_path(each, rest)
    elif head in value:
        yield from at_path(value[head], rest)


def check_sarif(text: str) -> dict[str, Any]:
    """Parse a document, check its structure, and return its only run."""
    document: dict[str, Any] = json.loads(text)
    for path, required, others in STRUCTURE:
        for each in at_path(document, path):
            assert required <= each.keys() <= required | others, path
    for path, allowed in VALUES:
        assert {*at_path(document, path)} <= allowed, path
    (only,) = document["runs"]
    rules = only["tool"]["driver"]["rules"]
    for result in only["results"]:
        assert result["level"] == "none" or result["kind"] == "fail"
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    for place in [*at_path(document, f"{RESULT}.locations.*.physicalLocation.artifactLocation.uri")]:
        assert re.fullmatch(r"[a-z0-9]+://(?:[A-Za-z0-9._~:/@!$&'()*+,;=-]|%[0-9A-F]{2})*", place), place
    json.dumps(document, ensure_ascii=False).encode()  # no lone surrogate
    return dict(only)


@given(hostile)
@examples(150, 3000)
def test_sarif_is_valid_whatever_a_key_contains(texts: list[str]) -> None:
    lost, _ = check_sarif(write("sarif", hostile_rows(texts), hostile_listing(texts)))["results"]
    uri = lost["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri, errors="surrogatepass") == uri_of("lake", texts[0])
    assert lost["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == visible(texts[1])
    message = lost["message"]["text"].replace("{{", "").replace("}}", "")
    assert "{" not in message
    assert "](" not in message.replace("\\](", "")


def test_sarif_has_a_rule_for_each_kind_and_the_levels_of_the_severities() -> None:
    rows = [finding("dropped", s, severity=s) for s in ("critical", "error", "warning", "info")]
    only = check_sarif(write("sarif", rows, listing()))
    rules = {rule["id"]: rule for rule in only["tool"]["driver"]["rules"]}
    assert {name: (r["shortDescription"]["text"], r["help"]["markdown"]) for name, r in rules.items()} == {
        name: (kind.words, kind.do.replace("LAKE_FILE", "lake.yaml")) for name, kind in KINDS.items()
    }
    assert [result["level"] for result in only["results"]] == ["error", "error", "warning", "note"]


@pytest.mark.parametrize(
    ("row", "uri"),
    [
        (finding("dropped", "a b/100%"), "s3://lake/a%20b/100%25"),
        (finding("dropped", "wh/x", bucket=""), "file:///wh/x"),
        (finding("dropped", "wh/x", bucket="c@account"), "abfss://c@account.dfs.core.windows.net/wh/x"),
        (group("uncommitted", "day=1", 2), "s3://lake/orders"),
        (group("uncommitted", "day=1", 2) | {"table_name": "elsewhere"}, None),
    ],
)
def test_the_place_of_a_result_is_its_file_or_its_table(row: Row, uri: str | None) -> None:
    (result,) = check_sarif(write("sarif", [row], listing(tables=["orders"])))["results"]
    (place,) = result["locations"]
    assert place.get("physicalLocation") == (uri and {"artifactLocation": {"uri": uri}})


def test_the_fingerprint_is_the_discrepancy_and_a_row_without_one_has_none() -> None:
    rows = [finding("dropped", "a", discrepancy_id="79684a0e"), finding("dropped", "b", discrepancy_id=None)]
    first, second = check_sarif(write("sarif", rows, listing()))["results"]
    assert first["fingerprints"] == {"discrepancyId/v1": "79684a0e"}
    assert first["partialFingerprints"] == {"primaryLocationLineHash": "79684a0e"}
    assert not {"fingerprints", "partialFingerprints"} & second.keys()


# --- github ------------------------------------------------------------------------------------------------


def annotations_of(text: str) -> list[tuple[str, str, str]]:
    """Level, title and message of each command, parsed as the runner does: every line is a command."""
    commands = [re.fullmatch(r"::(\w+) title=([^:,\r]*)::(.*)", line) for line in text.split("\n")[:-1]]
    assert all(commands), text
    return [(c[1], unescape(c[2], ("%3A", ":"), ("%2C", ",")), unescape(c[3])) for c in commands if c]


def unescape(text: str, *more: tuple[str, str]) -> str:
    for code, char in (*more, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, char)
    return text


@given(hostile)
@examples(150, 3000)
def test_a_hostile_text_never_starts_a_command(texts: list[str]) -> None:
    rows = hostile_rows(texts)
    gaps, *found, summary = annotations_of(write("github", rows, hostile_listing(texts)))
    assert [level for level, _, _ in (gaps, *found, summary)] == ["error", "error", "warning", "notice"]
    table = visible(texts[1])
    assert [title for _, title, _ in found] == [
        f"error: dropped in {table}",
        f"warning: uncommitted in {table}",
    ]
    lines = [message.split("\n") for _, _, message in found]
    assert [line[0] for line in lines] == [visible(row["subject"]) for row in rows]
    assert lines[0][1:] == [visible(f"as {texts[0]} says")]


@given(st.text(st.sampled_from("%0123ADC:,\r\n")), st.text(st.sampled_from("%0123ADC:,\r\n")))
def test_titles_and_messages_are_escaped(title: str, message: str) -> None:
    assert annotations_of(github.annotation("error", title, message)) == [("error", title, message)]


@pytest.mark.parametrize(
    ("numbers", "rest"),
    [
        ({"critical": 8}, None),
        ({"critical": 9}, ("error", "and 1 more row (1 of level error): lakeaudit findings lake.yaml")),
        (
            {"critical": 20, "warning": 11, "info": 8},
            (
                "error",
                "and 15 more rows (12 of level error, 3 of level warning): lakeaudit findings lake.yaml",
            ),
        ),
        ({"info": 30}, ("notice", "and 22 more rows (22 of level notice): lakeaudit findings lake.yaml")),
    ],
)
def test_github_shows_ten_annotations_of_a_level(
    numbers: dict[str, int], rest: tuple[str, str] | None
) -> None:
    rows = [finding("dropped", f"{s}/{n}", severity=s) for s, many in numbers.items() for n in range(many)]
    gap = covered("returns", status="partial", undecided=10, consistent=0)
    shown = annotations_of(write("github", rows, listing([covered(), gap])))
    assert max(Counter(level for level, _, _ in shown).values()) <= 10
    assert [(level, text) for level, title, text in shown if title == "more findings"] == (
        [rest] if rest else []
    )


# --- what was not judged -----------------------------------------------------------------------------------

PART = covered(status="partial", undecided=4, consistent=6, reason="no log", decided_share=0.6)
NONE = covered(status="partial", undecided=10, consistent=0, reason="no log", decided_share=0.0)
EMPTY = covered(files=0, consistent=0, decided_share=None)
OFF = covered(status="off", files=None, consistent=None, decided_share=None)
YOUNG = covered(consistent=0, out_of_window=10, decided_share=None)
GAPS = [
    # coverage of `orders`, result of its test case, level of SARIF, level of GitHub, words
    ([covered()], "passed", None, None, "1 of 1 table fully judged"),
    ([PART], "skipped", "warning", "warning", "files of the table: 60.0 % of files judged: no log"),
    ([NONE], "error", "error", "error", "not judged"),
    ([EMPTY], "skipped", "warning", "warning", "nothing could be judged"),
    ([OFF], "skipped", "warning", "warning", "no source for: files of the table"),
    ([YOUNG], "skipped", "warning", "warning", "too young to judge"),
    ([], "skipped", "warning", "warning", "run r1 did not audit this table"),
    (
        [covered(), covered(axis="hazard", status="partial", undecided=3, consistent=0, reason="access denied")],
        "skipped", "warning", "warning", "upcoming losses: nothing could be judged: access denied",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("coverage", "result", "sarif_level", "github_level", "words"), GAPS)
def test_a_table_that_was_not_judged_never_passes(
    coverage: list[Row], result: str, sarif_level: str | None, github_level: str | None, words: str
) -> None:
    of = listing(coverage, ["orders"])
    documents = {name: write(name, [], of) for name in ("markdown", "junit", "sarif", "github")}
    assert results_of(suites_of(documents["junit"])["orders"]) == {"coverage": result}
    assert [each["level"] for each in notifications(documents["sarif"])] == [sarif_level] * bool(sarif_level)
    levels = [
        level for level, title, _ in annotations_of(documents["github"]) if title.startswith("not judged")
    ]
    assert levels == [github_level] * bool(github_level)
    assert [name for name, text in documents.items() if words not in unescape(text.replace("`", ""))] == []


def notifications(text: str) -> list[Row]:
    (invocation,) = check_sarif(text)["invocations"]
    return list(invocation["toolExecutionNotifications"])


FAILED = {"status": "failed", "error": "no inventory"}
DOUBTS: list[tuple[Row, tuple[str, ...], str, str, str]] = [
    ({}, (), "passed", "", ""),
    (
        {},
        ("the newer run r2 failed: no inventory",),
        "error",
        "error",
        "the newer run r2 failed: no inventory",
    ),
    ({"status": "partial"}, (), "skipped", "warning", "the audit is partial"),
    ({"status": "suspect"}, (), "error", "error", "the audit is suspect"),
    (FAILED, (), "error", "error", "the audit is failed: no inventory"),
    ({"tables_expected": 3}, (), "error", "error", "1 of 3 tables were audited"),
]


@pytest.mark.parametrize(("about", "doubts", "result", "level", "words"), DOUBTS)
def test_a_doubt_about_the_run_is_in_every_document(
    about: Row, doubts: tuple[str, ...], result: str, level: str, words: str
) -> None:
    of = listing(run=dict.fromkeys(RUNS.names) | run() | about, doubts=doubts)
    assert results_of(suites_of(write("junit", [], of))["lakeaudit"]) == {"audit": result}
    assert [each["level"] for each in notifications(write("sarif", [], of))] == [level] * bool(level)
    shown = annotations_of(write("github", [], of))
    assert [each[0] for each in shown] == [*([level] if level else []), "notice"]
    assert words in write("markdown", [], of)
    (invocation,) = check_sarif(write("sarif", [], of))["invocations"]
    assert invocation["executionSuccessful"] is (about.get("status") != "failed")


def test_a_run_without_tables_is_a_doubt() -> None:
    of = listing([])
    assert results_of(suites_of(write("junit", [], of))["lakeaudit"]) == {"audit": "error"}
    assert "- no table was audited" in write("markdown", [], of).splitlines()


# --- discrepancies -----------------------------------------------------------------------------------------

LATER, EARLIER = NOON + timedelta(days=1), NOON - timedelta(days=1)


def accepted(until: datetime) -> Row:
    return {"ack_by": "ann", "ack_reason": "known", "ack_until": until}


STANDINGS = [
    # state, its other columns, result of the test case, kind and level of SARIF, level of GitHub
    ("open", {}, "failure", ("fail", "error"), "error"),
    ("open", accepted(LATER), "skipped", ("fail", "error"), "notice"),
    ("open", accepted(EARLIER), "failure", ("fail", "error"), "error"),
    ("pending", {}, "skipped", ("open", "none"), "notice"),
    ("resolved", {"resolution": "restored", "resolved_at": NOON}, "passed", ("pass", "none"), "notice"),
]


@pytest.mark.parametrize(("state", "more", "result", "kind", "level"), STANDINGS)
def test_only_an_open_discrepancy_that_nobody_has_accepted_is_a_failure(
    state: str, more: Row, result: str, kind: tuple[str, str], level: str
) -> None:
    row = discrepancy(finding("dropped", "orders/a"), state, **more)
    cases = results_of(suites_of(write("junit", [row], listing()))["orders"])
    assert cases == {"coverage": "passed", "dropped: s3://lake/orders/a": result}
    (found,) = check_sarif(write("sarif", [row], listing()))["results"]
    assert (found["kind"], found["level"]) == kind
    is_accepted = more == accepted(LATER)
    assert [each["justification"] for each in found.get("suppressions", ())] == (
        ["accepted by ann until 2026-11-22 12:00:00Z: known"] if is_accepted else []
    )
    (shown, _) = annotations_of(write("github", [row], listing()))
    assert shown[0] == level
    for text in (write("markdown", [row], listing()), shown[2]):
        assert ("accepted by ann" in text.replace("`", "")) is is_accepted

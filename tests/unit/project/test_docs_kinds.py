"""docs/kinds.md, rules.md and their kin against the code: kinds with axis and severity, rules with their conditions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeaudit.advice import format_advice
from lakeaudit.kinds import KINDS, Kind
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.rules import file_rules
from lakeaudit.rules.file_facts import ALL_FACTS, TREE_FACTS

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("kinds.md", "rules.md", "rules-groups.md", "facts.md", "s3guard-tools.md")
TEXT = "\n".join((DOCS / page).read_text("utf-8") for page in PAGES)
SECURITY = (DOCS.parent / "SECURITY.md").read_text("utf-8")

FSCK = (
    *(
        "NO_METADATA_ENTRY",
        "NO_PARENT_ENTRY",
        "PARENT_IS_A_FILE",
        "PARENT_TOMBSTONED",
        "DIR_IN_S3_FILE_IN_MS",
    ),
    *(
        "FILE_IN_S3_DIR_IN_MS",
        "AUTHORITATIVE_DIRECTORY_CONTENT_MISMATCH",
        "TOMBSTONED_IN_MS_NOT_DELETED_IN_S3",
    ),
    *(
        "LENGTH_MISMATCH",
        "MOD_TIME_MISMATCH",
        "VERSIONID_MISMATCH",
        "ETAG_MISMATCH",
        "NO_ETAG",
        "ORPHAN_DDB_ENTRY",
    ),
    "NO_LASTUPDATED_FIELD",
)
"""The violations that Hadoop 3.3's S3Guard fsck knows."""


def section(title: str) -> str:
    """The text below a heading, up to the next one of its rank or above."""
    rank = title.partition(" ")[0]
    _, _, rest = TEXT.partition(f"\n{title}\n")
    assert rest, f"no heading {title!r}"
    return re.split(rf"\n#{{1,{len(rank)}}} ", rest)[0]


def table(title: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def bare(cell: str) -> str:
    return cell.strip("`")


FACTS = {bare(name): (holds, fails) for name, holds, fails in table("## Facts")}


def test_every_fact_has_its_words() -> None:
    of_groups = [name for facts in file_rules.GROUP_FACTS.values() for name in facts]
    assert list(FACTS) == [*ALL_FACTS, *TREE_FACTS, *of_groups]
    assert all(holds and fails and holds != fails for holds, fails in FACTS.values())


@pytest.mark.parametrize("name", file_rules.TABLES)
def test_the_rules_of_a_table_stand_in_order_with_their_conditions_and_verdicts(name: str) -> None:
    assert table(f"### {name}") == [list(cells_of(rule)) for rule in file_rules.TABLES[name]]


def cells_of(rule: file_rules.Rule) -> Iterator[str]:
    yield f"`{rule.id}`"
    yield (
        "; ".join(FACTS[condition.removeprefix("!")][condition.startswith("!")] for condition in rule.when)
        or "otherwise"
    )
    yield f"`{rule.verdict}`" + (f", {rule.severity}" if rule.severity else "")


def test_the_rules_outside_the_tables_are_documented() -> None:
    documented = [
        (bare(rule), bare(verdict)) for rule, _, verdict in table("### Groups of files and uploads")
    ]
    assert documented == [(rule.id, rule.verdict) for rule in file_rules.OTHER]


def test_the_overview_names_every_kind_once() -> None:
    named = [kind for _, kinds in table("## Overview") for kind in re.findall(r"`(\w+)`", kinds)]
    assert sorted(named) == sorted(set(KINDS) - {"unclassified"})


def test_the_glossary_explains_every_axis_outcome_and_kind() -> None:
    glossary = (DOCS / "glossary.md").read_text("utf-8")
    terms = {each for line in glossary.splitlines() for each in re.findall(r"`(\w+)`", line)}
    entries = set(re.findall(r"^\| `(\w+)` \|", glossary, re.MULTILINE))
    assert {*KINDS, *file_rules.OUTCOMES} <= terms
    assert {kind.axis for kind in KINDS.values()} | set(file_rules.OUTCOMES) <= entries


KIND = re.compile(r"^### `(\w+)` \((\w+), (\w+)\)\n\n(.+)\.\n", re.MULTILINE)


def test_every_kind_is_documented_once_with_its_axis_severity_and_description() -> None:
    documented = [(name, axis, severity, words.lower()) for name, axis, severity, words in KIND.findall(TEXT)]
    assert sorted(documented) == sorted((k.name, k.axis, k.severity, k.words.lower()) for k in KINDS.values())


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_documents_conditions_costs_and_advice(kind: Kind) -> None:
    documented = section(f"### `{kind.name}` ({kind.axis}, {kind.severity})")
    for question in ("Reported when", "Costs", "Do"):
        (answer,) = re.findall(rf"^- \*\*{question}:\*\* (.+)$", documented, re.MULTILINE)
        assert len(answer) > 10
    assert answer == kind.do
    by_format = dict(re.findall(r"^- \*\*Do, (.+):\*\* (.+)$", documented, re.MULTILINE))
    assert by_format == {
        format_advice.NAMES[name]: text for name, text in format_advice.DO.get(kind.name, {}).items()
    }


def test_every_outcome_iscells_of() -> None:
    assert [bare(name) for name, _ in table("## Outcomes other than findings")] == [
        *("consistent", "out_of_window", "undecided", "uncovered", "none")
    ]
    assert {bare(name) for name, _ in table("## Outcomes other than findings")} == set(file_rules.OUTCOMES)


COVERING = "## Hadoop's S3Guard tools: what covers what"


def test_every_violation_of_fsck_and_every_line_of_diff_names_kinds_and_rules_that_exist() -> None:
    rows = table(COVERING)
    named = [bare(row[0]) for row in rows if bare(row[0]) in FSCK]
    assert named == list(FSCK)
    diff = [row for row in rows if re.match(r"`(S3|MS) [FD]`", row[0])]
    assert len(diff) == len([row for row in rows if row[0].startswith(("`S3 ", "`MS "))]) >= 8
    for what, covered, remark in [*[row for row in rows if bare(row[0]) in FSCK], *diff]:
        kinds = re.findall(r"`(\w+)`", covered)
        assert (set(kinds) <= set(KINDS) and kinds) or covered == "nothing", what
        assert set(re.findall(r"`(\w+\.\w+)`", remark)) <= set(file_rules.RULES), what
        assert covered != "nothing" or remark, f"{what}: nothing covers it, and nothing says why"


def test_no_rule_or_kind_is_named_that_is_not_there() -> None:
    rule_like = set(
        re.findall(rf"`((?:{'|'.join({rule.axis for rule in file_rules.RULES.values()})})\.\w+)`", TEXT)
    )
    assert rule_like == set(file_rules.RULES)


def test_security_names_every_action_and_those_without_a_way_back() -> None:
    rows = [line for line in SECURITY.splitlines() if line.startswith("| ")]
    names = {name for line in rows for name in re.findall(r"`(\w+)`", line.rsplit("|", 2)[1])}
    final = {
        name
        for line in rows
        if "no way back" in line
        for name in re.findall(r"`(\w+)`", line.rsplit("|", 2)[1])
    }
    assert names == ACTIONS.keys()
    assert final == {name for name, action in ACTIONS.items() if action.reversibility == "final"}

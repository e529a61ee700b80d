"""docs/commands.md against the command line; and for all documents links, length and the first sentence."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from lakeaudit.cli import frame

ROOT = Path(__file__).parents[3]
COMMANDS = (ROOT / "docs" / "commands.md").read_text("utf-8")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
LONG = {
    "kinds.md": "one section per kind, compared with the code",
    "python-reference.md": "generated from the docstrings",
}
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def table(title: str) -> list[list[str]]:
    section = COMMANDS.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def command_names() -> Iterator[str]:
    group = typer.main.get_command(frame.app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        yield from getattr(command, "commands", {}) or [name]


def test_the_table_has_every_command() -> None:
    documented = [
        name
        for row in table("Commands")
        for name in re.findall(r"`(?:reconcile |certificate )?(\w+)`", row[0])
    ]
    assert sorted(documented) == sorted(command_names())


def test_the_exit_codes_are_those_of_the_help() -> None:
    documented = [row[0] for row in table("Exit codes")]
    assert documented == re.findall(r"^ +(\d+)  ", frame.EXIT_CODES, re.MULTILINE)


def test_each_target_of_make_is_defined_once_and_documents_name_only_targets() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert sorted(targets) == sorted(phony.split())
    named = {name for path in DOCUMENTS for name in re.findall(r"`make ([a-z-]+)", path.read_text("utf-8"))}
    stage = {"findings"}  # `make findings` is a stage of an audit
    assert {"test", "demo", "check-airflow", "check-spark"} <= named - stage <= {*targets}


SHORT = 55
"""Most characters of a first sentence that the list of commands prints completely."""


def test_the_list_of_commands_shows_each_first_sentence_completely() -> None:
    group = typer.main.get_command(frame.app)
    commands: dict[str, Any] = dict(group.commands)  # type: ignore[attr-defined]
    commands |= commands["reconcile"].commands | commands["certificate"].commands
    first = {name: " ".join(command.help.split()).partition(". ")[0] for name, command in commands.items()}
    assert {name: text for name, text in first.items() if len(text) > SHORT} == {}


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", document.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    for target, anchor in LINK.findall(CODE.sub("", document.read_text("utf-8"))):
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


PAGES = [page for page in DOCUMENTS if page.parent != ROOT]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_names_its_readers_first_and_has_at_most_300_lines(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    assert lines[2].startswith("For ")
    assert len(lines) <= 300 or page.name in LONG

"""Names, sentences and documents in plain English. tests/language_lists.py has the words and their replacements."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.builders.syntax_trees import nodes_of
from tests.language_lists import EXCEPTIONS, NAME_PARTS, NAMES, PHRASES

ROOT = Path(__file__).parents[3]
THE_LISTS = ("language_lists.py", "test_language.py")
CODE = ("jobs", "dags", "tests")
DOCUMENTS = (
    "*.md",
    "docs/*.md",
    "docs/*/*.md",
    "tests/*.md",
    "conf/example.yaml",
    "jobs/**/*.j2",
    "jobs/**/*.toml",
)
SHOWN = 20


class Hit(NamedTuple):
    """A word or phrase that a list replaces."""

    path: Path
    line: int
    text: str
    replacement: str

    def __str__(self) -> str:
        where = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{where}: {' '.join(self.text.split())!r}; write instead: {self.replacement}"


def _pattern(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{phrase})\b".replace(" ", r"\s+"), re.IGNORECASE)


ANY = _pattern("|".join(PHRASES))
PATTERNS = {_pattern(phrase): replacement for phrase, replacement in PHRASES.items()}
ALLOWED = re.compile("|".join(f"(?:{text})" for text in EXCEPTIONS), re.IGNORECASE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]+`")


def _prose(text: str) -> str:
    """Return a text of the same length: blocks and exceptions are blank, quoted code is one word."""
    for pattern, filler in ((CODE_BLOCK, " "), (CODE_SPAN, "x"), (ALLOWED, " ")):
        text = pattern.sub(lambda match, filler=filler: re.sub(r"[^\n]", filler, match[0]), text)  # type: ignore[misc]
    return text


def phrases_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line offset, phrase and replacement; quoted code and exceptions do not count."""
    if not ANY.search(text):
        return
    prose = _prose(text)
    for pattern, replacement in PATTERNS.items():
        for match in pattern.finditer(prose):
            yield prose.count("\n", 0, match.start()), text[slice(*match.span())], replacement


def name_faults(name: str) -> Iterator[str]:
    """Yield the replacement of every word of a name that a list contains."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip("_")).lower()
    if words in NAMES:
        yield NAMES[words]
    else:
        yield from (new for part, new in NAME_PARTS.items() if f"_{part}_" in f"_{words}_")


def names_of(path: Path, nodes: Sequence[ast.AST]) -> Iterator[Hit]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = [(node.lineno, node.name) for node in nodes if isinstance(node, kinds)]
    for line, name in [(1, path.stem), *defined]:
        if not name.startswith("test_"):
            yield from (Hit(path, line, name, replacement) for replacement in name_faults(name))


def sentences_of(path: Path, nodes: Sequence[ast.AST]) -> Iterator[Hit]:
    """Check strings of several words, and the names of tests, which are sentences."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            texts = phrases_in(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            texts = phrases_in(node.name.replace("_", " "))
        else:
            continue
        yield from (Hit(path, node.lineno + down, text, new) for down, text, new in texts)


def hits() -> Iterator[Hit]:
    """Yield every hit in the names and sentences of the code, and in the documents."""
    for path in (path for folder in CODE for path in (ROOT / folder).rglob("*.py")):
        if path.name not in THE_LISTS:
            nodes = [*nodes_of(ast.parse(path.read_text("utf-8")))]
            yield from names_of(path, nodes)
            yield from sentences_of(path, nodes)
    for path in (path for pattern in DOCUMENTS for path in ROOT.glob(pattern)):
        for line, text, replacement in phrases_in(path.read_text("utf-8")):
            yield Hit(path, 1 + line, text, replacement)


def test_names_and_sentences_have_none_of_the_replaced_words() -> None:
    """The files that were edited last come first: a new hit is probably in one of them."""
    last_edited_first = sorted(hits(), key=lambda hit: -hit.path.stat().st_mtime)
    assert not last_edited_first, "\n".join(map(str, last_edited_first[:SHOWN]))


@pytest.mark.parametrize(
    ("name", "is_fault"),
    [
        *(("told", True), ("_told_of", True), ("Found", True), ("PageDesk", True), ("load_claims", False)),
        *(("found_tables", False), ("memory_limit", False), ("LetGo", True), ("way_out", True)),
    ],
)
def test_a_name_is_checked_as_a_whole_and_by_its_words(name: str, is_fault: bool) -> None:
    assert any(name_faults(name)) is is_fault


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Unchanged discrepancies are not reported again.", []),
        ("What stays as it is is\nnot told again.", ["What stays", "is\nnot told"]),
        ("Of a Delta table only too few are told.", ["are told", "Of a"]),
        ("There is no report, and `is told` is a column.", []),
        ("That is no time.", ["is no time"]),
        ("if value is None", []),
    ],
)
def test_a_phrase_is_found_across_lines_but_not_in_code(text: str, phrases: list[str]) -> None:
    assert sorted(phrase for _, phrase, _ in phrases_in(text)) == sorted(phrases)

"""Names, sentences and documents in plain English: the count of each area may only fall.

tests/language_lists.py has the words and their replacements.

After counts fell, `LOWER_CEILINGS=1 pytest tests/unit/test_language.py` writes the lower ceilings.
"""

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.language_lists import EXCEPTIONS, NAME_PARTS, NAMES, PHRASES

ROOT = Path(__file__).parents[2]
CEILINGS = ROOT / "tests" / "data" / "language_ceilings.json"
THE_LISTS = ("language_lists.py", "test_language.py")
CODE: Mapping[str, tuple[str, ...]] = {"product": ("jobs", "dags"), "tests": ("tests",)}
DOCUMENTS = ("*.md", "docs/*.md", "docs/*/*.md", "tests/*.md", "conf/example.yaml", "jobs/**/*.j2")
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


def names_of(path: Path, tree: ast.AST) -> Iterator[Hit]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = [(node.lineno, node.name) for node in ast.walk(tree) if isinstance(node, kinds)]
    for line, name in [(1, path.stem), *defined]:
        if not name.startswith("test_"):
            yield from (Hit(path, line, name, replacement) for replacement in name_faults(name))


def sentences_of(path: Path, tree: ast.AST) -> Iterator[Hit]:
    """Check strings of several words, and the names of tests, which are sentences."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            texts = phrases_in(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            texts = phrases_in(node.name.replace("_", " "))
        else:
            continue
        yield from (Hit(path, node.lineno + down, text, new) for down, text, new in texts)


@cache
def hits() -> Mapping[str, tuple[Hit, ...]]:
    """Return every hit by its area: names and sentences of the code, and one area per document."""
    areas: dict[str, tuple[Hit, ...]] = {}
    for area, folders in CODE.items():
        paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
        trees = [(path, ast.parse(path.read_text("utf-8"))) for path in paths if path.name not in THE_LISTS]
        areas[f"{area}, names"] = tuple(hit for path, tree in trees for hit in names_of(path, tree))
        areas[f"{area}, sentences"] = tuple(hit for path, tree in trees for hit in sentences_of(path, tree))
    for document in sorted(path for pattern in DOCUMENTS for path in ROOT.glob(pattern)):
        found = phrases_in(document.read_text("utf-8"))
        areas[str(document.relative_to(ROOT))] = tuple(
            Hit(document, 1 + at, old, new) for at, old, new in found
        )
    return areas


def ceilings() -> dict[str, int]:
    """Return the highest count that each area may have; an area without a line may have none."""
    ceiling: dict[str, int] = json.loads(CEILINGS.read_text("utf-8"))
    return ceiling


def test_no_area_has_more_replaced_words_than_its_ceiling(capsys: pytest.CaptureFixture[str]) -> None:
    ceiling = ceilings()
    count = {area: len(each) for area, each in hits().items()}
    above = [area for area in count if count[area] > ceiling.get(area, 0)]
    assert not above, "\n".join(line for area in above for line in report(area, ceiling.get(area, 0)))
    lower = {area: min(count.get(area, 0), limit) for area, limit in ceiling.items()}
    lower = {area: limit for area, limit in lower.items() if limit}
    if lower != ceiling and os.environ.get("LOWER_CEILINGS"):
        CEILINGS.write_text(json.dumps(lower, indent=1, sort_keys=True) + "\n", "utf-8")
    elif lower != ceiling:
        with capsys.disabled():
            print("\nCeilings can fall: LOWER_CEILINGS=1 pytest tests/unit/test_language.py")  # noqa: T201


def report(area: str, ceiling: int) -> Iterator[str]:
    """Yield the hits of an area, the files that were edited last first: the new ones are probably among them."""
    every = sorted(hits()[area], key=lambda hit: -hit.path.stat().st_mtime)
    yield f"{area}: {len(every)} places, at most {ceiling} are allowed. The files edited last come first:"
    yield from (f"  {hit}" for hit in every[:SHOWN])


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

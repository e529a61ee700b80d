"""The problems of a lake file: each has a path, a line and a hint."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file to a value."""

LONGEST_WORD = 60
MOST_WORDS = 12


@dataclass(frozen=True)
class ConfigProblem:
    """A problem at a path, with a hint for a valid value."""

    path: Path
    what: str
    hint: str = ""

    def at(self, file: str, line: int | None) -> "Problem":
        """Return the problem with its file and line."""
        place = dotted(self.path)
        return Problem(file, line, f"{place}: {self.what}" if place else self.what, self.hint)


@dataclass(frozen=True)
class Problem:
    """One line of the report: `FILE:LINE: what (hint)`, without LINE if the file could not be read."""

    file: str
    line: int | None
    what: str
    hint: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return one_line(f"{place}: {self.what}" + (f" ({self.hint})" if self.hint else ""))


def dotted(path: Path) -> str:
    """Return a path as text, such as `tables[3].confirm.limit`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def one_line(text: str) -> str:
    """Return printable text without line breaks, also for text of a hostile file."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def quoted(word: object) -> str:
    """Return a value in quotes, cut short."""
    text = str(word)
    return repr(text if len(text) <= LONGEST_WORD else f"{text[:LONGEST_WORD]}...")


def suggest(word: object, known: Iterable[str]) -> str:
    """Return a hint with the closest known word, or else with the first dozen of them."""
    words = list(known)
    close = difflib.get_close_matches(str(word)[:LONGEST_WORD].lower(), words, n=1)
    return f"did you mean {close[0]}?" if close else f"one of: {', '.join(words[:MOST_WORDS])}"

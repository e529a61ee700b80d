r"""Write rows as a Markdown table for a pull request or a chat.

Texts that are not ours become code: a code span has no links, mentions, HTML or emphasis. Its only special characters
are the backtick and, in a table, the pipe; both are spelled `\x60` and `\x7c`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from lakeaudit.explain import text_output
from lakeaudit.explain.formats.listing import JUDGED, Listing, Row, reason, standing, subject
from lakeaudit.formatting import UNKNOWN, number, visible

COLUMNS = ("severity", "kind", "table", "subject", "at stake", "reason", "id")
TABLES_NAMED = 20
"""Tables that are listed because they were not fully judged; the others are counted."""

_SPELLED = str.maketrans({"`": r"\x60", "|": r"\x7c"})

_PLAIN_WORD = re.compile(r"\(?(?:[^\W_]+(?:[-,'][^\W_]+)*|\d+(?:[-.:]\d+)*Z?|%)[.,;:)]*")
"""A word or number that no flavour of Markdown interprets; others, such as URIs and mentions, become code."""


def write(rows: Iterable[Row], out: TextIO, listing: Listing) -> int:
    """Write a table of the rows, then their number and what was not judged; return the number of rows."""
    count = 0
    for count, row in enumerate(rows, 1):
        if count == 1:
            out.write(_line(COLUMNS) + _line(["---"] * len(COLUMNS)))
        out.write(_line(_cells(row, listing)))
    out.write("\n" if count else "")
    out.writelines(f"{line}\n" for line in _closing(listing, count))
    return count


def code(value: object) -> str:
    """Return a text as a code span without backticks, pipes and line breaks; a dash if there is none."""
    text = visible(str(value or "")).translate(_SPELLED)
    return f"`{text}`" if text else UNKNOWN


def prose(text: str) -> str:
    """Return a sentence in which every word that Markdown could interpret is a code span."""
    return " ".join(word if _PLAIN_WORD.fullmatch(word) else code(word) for word in text.split())


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cells(row: Row, listing: Listing) -> Iterator[str]:
    yield code(row["severity"])
    yield code(row["kind"])
    yield code(row["table_name"])
    yield code(subject(row))
    yield text_output.at_stake(row) or UNKNOWN
    yield prose("; ".join(filter(None, (reason(row), standing(row, listing.now)[1]))))
    yield code(row["discrepancy_id"])


def _closing(listing: Listing, count: int) -> Iterator[str]:
    yield f"{prose(listing.summary(count))}: {listing.extent}."
    gaps = [table for table in listing.tables if table.state != JUDGED]
    if gaps or listing.all_doubts:
        yield ""
    yield from (f"- {prose(doubt)}" for doubt in listing.all_doubts)
    for table in gaps[:TABLES_NAMED]:
        yield f"- {table.state}: {code(table.name)}: {prose('; '.join(table.gaps))}"
    if len(gaps) > TABLES_NAMED:
        yield f"- and {number(len(gaps) - TABLES_NAMED, 'more table')} not fully judged"

"""Write rows as annotations of GitHub Actions, which reads them as commands from the output of a step."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TextIO

from lakeaudit.explain.formats.listing import (
    JUDGED,
    NOT_JUDGED,
    OPEN,
    Listing,
    Row,
    reason,
    standing,
    subject,
)
from lakeaudit.formatting import number, table_label, visible

SHOWN = 8
"""Rows of a level that become annotations. GitHub shows 10 of a level for a step; two are for gaps and the rest."""
TABLES_NAMED = 5
"""Tables that the annotation of gaps names."""

LEVELS = {"critical": "error", "error": "error", "warning": "warning", "info": "notice"}
WORST = ("error", "warning", "notice")
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def write(rows: Iterable[Row], out: TextIO, listing: Listing) -> int:
    """Write the first rows of each level, the number of the others, and what was not judged; return the number of rows.

    The log of the step has the other rows in no form: the last annotation names the command that prints them.
    """
    levels: Counter[str] = Counter()
    out.writelines(_gaps(listing))
    for row in rows:
        level = _level(row, listing)
        levels[level] += 1
        if levels[level] <= SHOWN:
            out.write(_of_row(row, level, listing))
    out.writelines(_rest(levels, listing))
    count = levels.total()
    out.write(
        annotation("notice", f"lakeaudit {listing.name}", f"{listing.summary(count)}: {listing.extent}")
    )
    return count


def annotation(level: str, title: str, message: str) -> str:
    """Return the command for an annotation; characters that end a command or a property are escaped."""
    return f"::{level} title={title.translate(_PROPERTY)}::{message.translate(_DATA)}\n"


def _level(row: Row, listing: Listing) -> str:
    """Return the level of a row; accepted, pending and resolved discrepancies need no reaction."""
    is_open = standing(row, listing.now)[0] == OPEN
    return LEVELS.get(row["severity"], "warning") if is_open else "notice"


def _of_row(row: Row, level: str, listing: Listing) -> str:
    title = f"{row['severity']}: {row['kind']} in {visible(table_label(row['table_name']))}"
    known = standing(row, listing.now)[1]
    lines = (subject(row), reason(row), *([known] if known else []))
    return annotation(level, title, "\n".join(map(visible, lines)))


def _gaps(listing: Listing) -> Iterator[str]:
    """Yield one annotation about doubts and tables that were not fully judged."""
    gaps = [table for table in listing.tables if table.state != JUDGED]
    lines = [*listing.all_doubts]
    lines += [f"{table.state}: {table.name}: {'; '.join(table.gaps)}" for table in gaps[:TABLES_NAMED]]
    if len(gaps) > TABLES_NAMED:
        lines.append(f"and {number(len(gaps) - TABLES_NAMED, 'more table')} not fully judged")
    if lines:
        is_error = listing.is_doubtful or any(table.state == NOT_JUDGED for table in gaps)
        level = "error" if is_error else "warning"
        yield annotation(level, f"not judged, {listing.extent}", "\n".join(map(visible, lines)))


def _rest(levels: Counter[str], listing: Listing) -> Iterator[str]:
    """Yield one annotation with the numbers of rows that have none."""
    rest = {level: levels[level] - SHOWN for level in WORST if levels[level] > SHOWN}
    if rest:
        counts = ", ".join(f"{count:,} of level {level}" for level, count in rest.items())
        message = f"and {number(sum(rest.values()), 'more row')} ({counts}): {listing.command}"
        yield annotation(next(iter(rest)), f"more {listing.name}", visible(message))

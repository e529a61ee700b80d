"""Write rows as a table for people, as CSV for spreadsheets, or as JSON Lines.

JSON Lines is exact: every column with its nulls, times in ISO 8601 with Z, and only ASCII, so that no key can control a
terminal. CSV is for spreadsheets and terminals: invisible characters and those that change the text direction are
escaped, and a text that a spreadsheet would run as a formula gets a leading apostrophe.
"""

import csv
import json
from collections.abc import Iterable
from datetime import date, datetime
from typing import TextIO

from lakeaudit.explain.formats.listing import Listing, Row
from lakeaudit.formatting import iso, visible
from lakeaudit.runtime.console import console_on

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of formulas; some spreadsheets also accept the full-width forms."""


def write_jsonl(rows: Iterable[Row], out: TextIO, _listing: Listing) -> int:
    """Write one JSON object per row; return the number of rows."""
    number = 0
    for number, row in enumerate(rows, 1):  # noqa: B007
        out.write(json.dumps(dict(row), default=iso) + "\n")
    return number


def write_csv(rows: Iterable[Row], out: TextIO, listing: Listing) -> int:
    """Write a header and one record per row, nulls as empty cells; return the number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(listing.columns)
    number = 0
    for number, row in enumerate(rows, 1):  # noqa: B007
        writer.writerow([_cell(row[name]) for name in listing.columns])
    return number


def write_table(rows: Iterable[Row], out: TextIO, listing: Listing) -> int:
    """Print a few lines per row for people, keys on lines of their own for copying; return the number of rows."""
    console = console_on(out)
    number = 0
    for number, row in enumerate(rows, 1):  # noqa: B007
        listing.show(console, row)
    return number


def _cell(value: object) -> object:
    if isinstance(value, datetime | date):
        return iso(value)
    if isinstance(value, str):
        text = visible(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value

"""Write rows of findings and of the ledger as a table for people, as CSV for spreadsheets, or as JSON Lines.

JSON Lines is exact: every column with its nulls, times in ISO 8601 with Z, and only ASCII, so that no key can control a
terminal. CSV is for spreadsheets and terminals: invisible characters and those that change the text direction are
escaped, and a text that a spreadsheet would run as a formula gets a leading apostrophe.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TextIO

from rich.console import Console

from lakeaudit.explain import text_output
from lakeaudit.formatting import iso, visible
from lakeaudit.schemas import DISCREPANCIES, FINDINGS

Row = Mapping[str, Any]

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of formulas; some spreadsheets also accept the full-width forms."""


@dataclass(frozen=True)
class Kind:
    """A kind of rows: its columns, and a function that prints a row for people."""

    columns: Sequence[str]
    show: Callable[[Console, Row], None]


FINDING_COLUMNS = FINDINGS.names
DISCREPANCY_ROWS = Kind(DISCREPANCIES.names, text_output.discrepancy)


def write_jsonl(rows: Iterable[Row], out: TextIO, _kind: Kind) -> int:
    """Write one JSON object per row; return the number of rows."""
    number = 0
    for row in rows:
        out.write(json.dumps(dict(row), default=iso) + "\n")
        number += 1
    return number


def write_csv(rows: Iterable[Row], out: TextIO, kind: Kind) -> int:
    """Write a header and one record per row, nulls as empty cells; return the number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(kind.columns)
    number = 0
    for row in rows:
        writer.writerow([_cell(row[name]) for name in kind.columns])
        number += 1
    return number


def write_table(rows: Iterable[Row], out: TextIO, kind: Kind) -> int:
    """Print a few lines per row for people, keys on lines of their own for copying; return the number of rows."""
    console = Console(file=out, highlight=False)
    number = 0
    for row in rows:
        kind.show(console, row)
        number += 1
    return number


WRITERS: dict[str, Callable[[Iterable[Row], TextIO, Kind], int]] = {
    "table": write_table,
    "csv": write_csv,
    "jsonl": write_jsonl,
}


def _cell(value: object) -> object:
    if isinstance(value, datetime | date):
        return iso(value)
    if isinstance(value, str):
        text = visible(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value

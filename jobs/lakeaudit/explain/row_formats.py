"""Rows of findings and of the ledger as people and programs take them: a table, CSV for spreadsheets, JSON Lines.

JSON Lines is exact: every column, nulls kept, times ISO-8601 with Z, and plain ASCII, so that no key can act on a
terminal. CSV is for spreadsheets and terminals: what cannot be seen, or turns the direction of text, is spelled out,
and a text that a spreadsheet would run as a formula gets a leading apostrophe.
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
"""The full-width forms, too, which some spreadsheets take for the others."""


@dataclass(frozen=True)
class Kind:
    """What the rows are: their columns, and how one of them is shown to people."""

    columns: Sequence[str]
    show: Callable[[Console, Row], None]


FINDING_COLUMNS = FINDINGS.names
DISCREPANCY_ROWS = Kind(DISCREPANCIES.names, text_output.discrepancy)


def write_jsonl(rows: Iterable[Row], out: TextIO, _kind: Kind) -> int:
    """One JSON object a row; the number of rows."""
    number = 0
    for row in rows:
        out.write(json.dumps(dict(row), default=iso) + "\n")
        number += 1
    return number


def write_csv(rows: Iterable[Row], out: TextIO, kind: Kind) -> int:
    """A header and a record a row; nulls are empty. The number of rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(kind.columns)
    number = 0
    for row in rows:
        writer.writerow([_cell(row[name]) for name in kind.columns])
        number += 1
    return number


def write_table(rows: Iterable[Row], out: TextIO, kind: Kind) -> int:
    """A few lines a row, for people: what, then where, so that a key can be copied whole."""
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

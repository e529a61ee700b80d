"""Read lists with one URI or path in each line, also as Spark prints the rows of `VACUUM ... DRY RUN`."""

import re
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from lakeaudit.guard.lists.protocol import Lines, ListForm, Row, batches, fault_row, file_row

_FOUND = re.compile(r"Found ([0-9,]+) files?\b.*safe to delete")
"""The line that Delta prints for a dry run (`VacuumCommand.gc` of Delta Lake)."""
_BOX = re.compile(r"\|(.*)\|\s*")
"""A row as `DataFrame.show` prints it."""
_RULE = re.compile(r"\+(-+\+)+\s*")
MOST_OF_DRY_RUN = 1000
"""`VACUUM ... DRY RUN` returns at most this number of files (documentation of Delta Lake, "VACUUM")."""
HEADERS = frozenset(("path", "orphan_file_location", "file_path"))


def text_of(line: bytes) -> str | None:
    """Return a line without its end, as text; None: it is not UTF-8."""
    try:
        return line.rstrip(b"\r\n").decode("utf-8-sig" if line.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError:
        return None


def _is_text(sample: bytes) -> bool:
    return b"\0" not in sample


def _read(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:
    yield from batches(_rows(stream, lines))


def _rows(stream: BinaryIO, lines: Lines) -> Iterator[Row]:
    announced, files, boxed = None, 0, False
    for number, raw in enumerate(stream, 1):
        text = text_of(raw)
        if text is not None and (found := _FOUND.search(text)):
            announced = int(found[1].replace(",", ""))
        elif text is not None and _RULE.fullmatch(text):
            boxed = True
        elif text is None or (text := _unboxed(text, boxed)):
            files += 1
            yield _row(number, text, boxed)
    lines.cut_off = _missing(announced, files)


def _unboxed(text: str, boxed: bool) -> str:
    """Return the path of a line; empty if the line has none."""
    cell = _BOX.fullmatch(text) if boxed else None
    path = cell[1].strip() if cell else text
    return path if path.strip() and path not in HEADERS else ""


def _row(number: int, text: str | None, boxed: bool) -> Row:
    if text is None:
        return fault_row(number, None, "the line is not UTF-8")
    if boxed and text.endswith("..."):
        return fault_row(
            number, text, "the path was shortened when it was printed: print it with truncate=False"
        )
    return file_row(number, text)


def _missing(announced: int | None, files: int) -> str:
    """Return why files are missing in the output of a dry run; empty if none are."""
    if announced is not None and announced > files:
        return f"VACUUM found {announced:,} files, and the list has {files:,}"
    return limit_of_dry_run(files)


def limit_of_dry_run(files: int) -> str:
    """Return why files are missing if a list has as many as a dry run returns; empty if it has not."""
    if files != MOST_OF_DRY_RUN:
        return ""
    return f"it has exactly {files:,} files, and VACUUM ... DRY RUN returns at most that number"


PLAIN = ListForm("plain", "one URI or path in each line", _is_text, _read)

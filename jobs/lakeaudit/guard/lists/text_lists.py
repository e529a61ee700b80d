"""Read lists with one URI or path in each line, also as Spark prints the rows of `VACUUM ... DRY RUN`."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.guard.lists.protocol import (
    Lines,
    ListForm,
    Row,
    batches,
    blocks,
    fault_row,
    file_row,
    listed_batch,
    split_text,
)

_FOUND = re.compile(r"Found ([0-9,]+) files?\b.*safe to delete")
"""The line that Delta prints for a dry run (`VacuumCommand.gc` of Delta Lake)."""
_BOX = re.compile(r"\|(.*)\|\s*")
"""A row as `DataFrame.show` prints it."""
_RULE = re.compile(r"\+(-+\+)+\s*")
MOST_OF_DRY_RUN = 1000
"""`VACUUM ... DRY RUN` returns at most this number of files (documentation of Delta Lake, "VACUUM")."""
HEADERS = ("path", "orphan_file_location", "file_path")
_LONGEST_HEADER = max(map(len, HEADERS))
_MARKS = (b"Found ", b"|", b"+-", b"\r", b"\xef\xbb\xbf")
"""Bytes of lines that may be other than one URI or path, see `_rows`."""


def text_of(line: bytes) -> str | None:
    """Return a line without its end, as text; None: it is not UTF-8."""
    try:
        return line.rstrip(b"\r\n").decode("utf-8-sig" if line.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError:
        return None


def _is_text(sample: bytes) -> bool:
    return b"\0" not in sample


@dataclass
class _Printed:
    """What the lines of a list have shown so far: how many there are, and how they were printed."""

    lines: int = 0
    files: int = 0
    announced: int | None = None
    boxed: bool = False


def _read(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:
    printed = _Printed()
    for block in blocks(stream):
        batch = None if printed.boxed else _plain_batch(block, printed.lines + 1)
        if batch is None:
            yield from batches(_rows(block, printed))
        else:
            printed.files += batch.num_rows
            printed.lines += batch.num_rows
            yield batch
    lines.cut_off = _missing(printed.announced, printed.files)


def _plain_batch(block: bytes, first: int) -> pa.RecordBatch | None:
    """Return the rows of a block of which each line is one URI or path; None: lines need to be checked one by one.

    A long list has hardly any other block.
    """
    if any(mark in block for mark in _MARKS):
        return None
    text = split_text(block.removesuffix(b"\n"), b"\n")
    if text is None or _may_have_others(text):
        return None
    return listed_batch(first, text)


def _may_have_others(text: pa.StringArray) -> bool:
    """Return whether a line may name no file: it is empty, a header, or begins with a space or with other letters."""
    _, ends, octets = text.buffers()
    offsets = np.frombuffer(ends, np.int32, len(text) + 1)
    shortest = np.diff(offsets).min()
    if not shortest or (shortest <= _LONGEST_HEADER and pc.any(pc.is_in(text, pa.array(HEADERS))).as_py()):
        return True
    firsts = np.frombuffer(octets, np.uint8)[offsets[:-1]]
    return bool((firsts <= ord(" ")).any() or (firsts >= 0x80).any())


def _rows(block: bytes, printed: _Printed) -> Iterator[Row]:
    for raw in io.BytesIO(block):
        printed.lines += 1
        text = text_of(raw)
        if text is not None and (found := _FOUND.search(text)):
            printed.announced = int(found[1].replace(",", ""))
        elif text is not None and _RULE.fullmatch(text):
            printed.boxed = True
        elif text is None or (text := _unboxed(text, printed.boxed)):
            printed.files += 1
            yield _row(printed.lines, text, printed.boxed)


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

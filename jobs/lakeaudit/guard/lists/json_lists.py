"""Read lists of JSON: one value in each line, one array, and clean plans of Hudi."""

import ast
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import pyarrow as pa

from lakeaudit.errors import BadInput
from lakeaudit.guard.lists.columns import file_columns
from lakeaudit.guard.lists.plain_json import plain_json
from lakeaudit.guard.lists.protocol import Lines, ListForm, Row, batches, blocks, fault_row, file_row
from lakeaudit.guard.lists.text_lists import text_of
from lakeaudit.runtime.duck import task_connection

PLAN = "filePathsToBeDeletedPerPartition"
"""The field of a clean plan that has its files by partition (`HoodieCleanerPlan.avsc` of Apache Hudi)."""
MOST = 1 << 30
"""Bytes of the longest list that is one JSON value."""


def row_of(number: int, value: object) -> Row:
    """Return the LISTED row of one value: a text, or an object with a field that names the file."""
    if isinstance(value, str):
        return file_row(number, value)
    if isinstance(value, Mapping):
        values = [*value.values()]
        bucket, file = file_columns([str(name) for name in value], values)
        text = None if file is None else values[file]
        of_bucket = None if bucket is None else values[bucket]
        if isinstance(text, str) and isinstance(of_bucket, str | None):
            return file_row(number, text, of_bucket)
    return fault_row(number, str(value)[:1000], "no field of the line names a file, or several may")


def rows_of_plan(plan: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the files of a clean plan of Hudi."""
    files = [each for of_partition in plan[PLAN].values() for each in of_partition]
    for number, each in enumerate(files, 1):
        text = each.get("filePath") if isinstance(each, Mapping) else each
        yield (
            file_row(number, text)
            if isinstance(text, str)
            else fault_row(number, None, "the plan names no path")
        )


def _lines(block: bytes, first: int) -> Iterator[Row]:
    for number, raw in enumerate(io.BytesIO(block), first):
        text = text_of(raw)
        if text is not None and not text.strip():
            continue
        try:
            yield row_of(number, json.loads(text or ""))
        except (ValueError, RecursionError):
            yield fault_row(number, None if text is None else text[:1000], "the line is not JSON")


def _read_lines(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    number = 1
    with task_connection() as con:
        for block in blocks(stream):
            batch = plain_json(con, block, number)
            yield from batches(_lines(block, number)) if batch is None else (batch,)
            number += block.count(b"\n")


def _read_whole(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    yield from batches(_rows_of(_parsed(stream.read(MOST + 1))))


def _parsed(content: bytes) -> Any:
    hint = "write one JSON array, one JSON value in each line, or one path in each line"
    if len(content) > MOST:
        raise BadInput("LIST", f"one JSON value is larger than {MOST >> 20} MiB", hint)
    text = content.decode("utf-8-sig", errors="replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)  # Python prints a list of delta-rs with single quotes
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise BadInput(
                "LIST", "the list is not complete JSON, so files may be missing in it", hint
            ) from None


def _rows_of(value: Any) -> Iterator[Row]:
    if isinstance(value, Mapping) and isinstance(value.get(PLAN), Mapping):
        return rows_of_plan(value)
    if isinstance(value, list):
        return (row_of(number, each) for number, each in enumerate(value, 1))
    raise BadInput(
        "LIST", "the JSON value is neither an array nor a clean plan of Hudi", "write one array of paths"
    )


def _recognises_lines(sample: bytes) -> bool:
    first = (text_of(sample.split(b"\n", 1)[0]) or "").strip()
    if not first.startswith(("{", '"')):
        return False
    try:
        return not isinstance(json.loads(first), Mapping) or PLAN not in first
    except (ValueError, RecursionError):
        return False


def _recognises_whole(sample: bytes) -> bool:
    return sample.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{")


JSON_LINES = ListForm("jsonl", "one JSON value in each line", _recognises_lines, _read_lines)
JSON = ListForm("json", "one JSON array, also a clean plan of Hudi", _recognises_whole, _read_whole)

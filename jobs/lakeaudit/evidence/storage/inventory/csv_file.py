"""Lines of a CSV data file as raw rows, exact to the line and fast for nearly all.

A file is read in blocks of whole lines. The first of three parsers that fits all bytes of a block reads it: one for
blocks in which no row can be wrong, one for rows of texts, and one that checks each line. A regular expression over the
bytes decides, because readers of CSV accept many lines that are not valid rows.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from lakeaudit.evidence.storage.inventory.columns import BY_NAME, decoded_key_sql
from lakeaudit.evidence.storage.inventory.rows import LINE_FAULT, RawRows

_BLOCK = 8 << 20
_MAX_LINE = 1 << 18
"""Characters of a line. A row has a few hundred; a longer one is rejected."""
_LONGEST_KEPT = 4 * (_MAX_LINE + 1)
"""Bytes of a line that are enough to know that it is too long: a character has at most four."""
_SHOWN = 100
_GZIP, _BYTE_ORDER_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")

_FIELD = re.compile(
    r"""(?:"(?P<quoted>(?:[^"]|"")*+)(?:\Z|"(?:[\0-\x20]*(?=,|\Z)|(?P<rest>[^,]*)))|(?P<plain>[^,]*))(?P<end>,|\Z)"""
)
"""One field and what follows it, white space after its last quote left out."""

_ANY = r'"(?:[^"\r\n]|"")*"|[^",\r\n]*'
_SOUND = {
    # Escapes of ASCII only: no others can be malformed UTF-8.
    "key": r'[^"%,\r\n\x80-\xff]|%[0-7][0-9A-Fa-f]',
    "flag": "true|false",
    "number": "[0-9]{1,18}",
    "time": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,3})?Z",
}
_TYPES = {
    "text": pa.string(),
    "flag": pa.bool_(),
    "number": pa.int64(),
    "time": pa.timestamp("ms", "UTC"),
}


class CsvFile:
    """Reads one data file.

    Args:
        path: a local file, gzipped or not.
        fields: the names of its columns by position; those that S3 Inventory does not have are not read.
        bucket: the bucket that all rows should be of.
    """

    def __init__(self, path: Path, fields: Sequence[str], bucket: str) -> None:
        self._path = path
        self._fields = fields
        self._kinds = {name: BY_NAME[name].holds for name in fields if _is_used(name)}
        self._texts = dict.fromkeys(self._kinds, "text")
        self._sound = _pattern([_sound_field(name, bucket) for name in fields])
        self._regular = _pattern([_ANY] * len(fields))
        self._can_be_sound = _PLAIN_NAME.fullmatch(bucket) is not None

    def raw_rows(self) -> Iterator[RawRows]:
        """Yield the rows, as texts or, if all values of a block are as AWS writes them, with their own types.

        Raises:
            OSError, pyarrow.ArrowException: the file cannot be read (any further).
        """
        compression = "gzip" if _starts_with(self._path, _GZIP) else None
        with pa.input_stream(str(self._path), compression=compression) as stream:
            for block in _blocks(stream):
                yield self._rows(block)

    def _rows(self, block: bytes) -> RawRows:
        if not block.startswith(_BYTE_ORDER_MARK) and not _has_long_line(block):
            if self._can_be_sound and _matches(self._sound, block):
                table = self._parsed(block, self._kinds)
                if table is not None:
                    return RawRows(table, self._kinds, "url_decode(replace(key, '+', ' '))")
            if _matches(self._regular, block):
                table = self._parsed(block, self._texts)
                if table is not None:
                    return RawRows(table, self._texts, decoded_key_sql("key"))
        table = self._line_by_line(block)
        return RawRows(table, self._texts, decoded_key_sql("key"), has_line_faults=True)

    def _parsed(self, block: bytes, kinds: Mapping[str, str]) -> pa.Table | None:
        """None: a time that does not exist, or text that is not UTF-8."""
        types = {name: _TYPES[kind] for name, kind in kinds.items()}
        try:
            return pa.csv.read_csv(
                pa.BufferReader(block),
                pa.csv.ReadOptions(
                    column_names=list(self._fields), block_size=len(block) + 1, use_threads=False
                ),
                pa.csv.ParseOptions(),
                pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=[""],
                    strings_can_be_null=True,
                    true_values=["true"],
                    false_values=["false"],
                ),
            )
        except pa.ArrowInvalid:
            return None

    def _line_by_line(self, block: bytes) -> pa.Table:
        """Parse every line on its own; an invalid line has only its fault."""
        lines = [line.decode(errors="replace") for line in _LINE_END.split(block) if line.strip(b" ")]
        parsed = [_parsed_line(line, len(self._fields)) for line in lines]
        columns = {
            name: pa.array([None if row is None else row[i] or None for row in parsed], pa.string())
            for i, name in enumerate(self._fields)
            if name in self._texts
        }
        what = f"no row of {len(self._fields)} columns: "
        faults = [
            None if row is not None else what + line[:_SHOWN] for line, row in zip(lines, parsed, strict=True)
        ]
        return pa.table(columns | {LINE_FAULT: pa.array(faults, pa.string())})


def _is_used(name: str) -> bool:
    return name in BY_NAME and BY_NAME[name].holds != "unused"


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as content:
        return content.read(len(magic)) == magic


def _blocks(stream: pa.NativeFile) -> Iterator[bytes]:
    """The content in pieces that end with a line's end."""
    rest = b""
    while piece := stream.read(_BLOCK):
        held = rest + piece
        end = held.rfind(b"\n") + 1 or held.rfind(b"\r", 0, len(held) - 1) + 1
        if end:
            yield held[:end]
        rest = held[end:] if end else held[:_LONGEST_KEPT]
    if rest:
        yield rest + b"\n"


def _sound_field(name: str, bucket: str) -> str:
    """What a field of a row without any fault looks like."""
    if name == "bucket":
        return f'"{re.escape(bucket)}"|{re.escape(bucket)}'
    if name == "key":
        one = _SOUND["key"]
        return f'"(?:{one}|,)+"|(?:{one})+'
    holds = BY_NAME[name].holds if name in BY_NAME else "unused"
    return f'(?:"(?:{_SOUND[holds]})"|{_SOUND[holds]}|"")?' if holds in _SOUND else _ANY


def _pattern(fields: Sequence[str]) -> str:
    r"""Whole lines of these fields, and empty ones; `\z` is RE2's word for the end of a text."""
    row = ",".join(f"(?:{field})" for field in fields)
    return rf"\A(?:(?:{row})?\r?\n)*\z"


def _matches(pattern: str, block: bytes) -> bool:
    """Whether the whole block is of this form, by RE2, whose time does not depend on what the block holds."""
    offsets = pa.py_buffer(struct.pack("=ii", 0, len(block)))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(block)])
    matched: bool = pc.match_substring_regex(whole, pattern)[0].as_py()
    return matched


def _has_long_line(block: bytes) -> bool:
    """Whether a line may have more than `_MAX_LINE` characters: it would fill half of that without an end."""
    step = _MAX_LINE // 2
    return any(block.find(b"\n", at, at + step) < 0 for at in range(0, len(block) - step, step))


def _parsed_line(line: str, width: int) -> list[str] | None:
    """The fields of a line; None if they are not as many as columns, or the line is too long."""
    if len(line) > _MAX_LINE:
        return None
    fields = []
    for field in _FIELD.finditer(line):
        fields.append(_value(field))
        if not field["end"]:
            break
    return fields if len(fields) == width else None


def _value(field: re.Match[str]) -> str:
    """A quote that is not doubled ends a value only before a comma; else it and the first one belong to the value.

    The rule of univocity's STOP_AT_DELIMITER, which Spark's CSV reader follows.
    """
    if field["quoted"] is None:
        return field["plain"]
    text = field["quoted"].replace('""', '"')
    return text if field["rest"] is None else f'"{text}"{field["rest"]}'

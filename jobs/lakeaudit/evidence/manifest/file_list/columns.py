"""Read plain rows of a list as columns: flat JSON objects, one in each line, and Parquet batches.

A block with an odd row gives None here; its rows are then parsed one by one in Python.
"""

import io
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

TEXTS = ("path", "etag", "version_id", "checksum", "job_id", "action", "scope")
COUNTS = ("size", "records")
COLUMNS = (*TEXTS, *COUNTS, "committed_at")
FEWEST_BYTES = 1 << 16
"""A smaller block is faster row by row."""

_JSON = pa.schema(
    [(name, pa.int64() if name in COUNTS else pa.string()) for name in COLUMNS] + [("end", pa.bool_())]
)
_UTC = (None, "UTC", "+00:00")
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds since 1970 of the years 1 and 9999, the range of Python's times."""


@dataclass(frozen=True)
class Columns:
    """Holds rows of consecutive lines: texts as string, counts as int64, `committed_at` as string or time."""

    first: int
    rows: pa.Table

    @property
    def last(self) -> int:
        return self.first + int(self.rows.num_rows) - 1


def flat_json(block: bytes, longest: int) -> pa.Table | None:
    """Parse whole lines, each one flat JSON object; None if a line may be anything else.

    Each line begins with an object, and no other brace or bracket opens: so no object spans two lines, and Arrow cannot
    find two of them in one line.
    """
    count = block.count(b"\n")
    flat = block.count(b"{") == count == block.count(b"\n{") + 1 and block.startswith(b"{")
    if len(block) < FEWEST_BYTES or not flat or b"[" in block or b"\0" in block or not _is_utf8(block):
        return None
    if max(map(len, block.split(b"\n"))) >= longest:
        return None
    options = pj.ParseOptions(explicit_schema=_JSON, unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        rows = pj.read_json(io.BytesIO(block), read_options=reading, parse_options=options)
    except (pa.ArrowException, ValueError):
        return None
    whole = rows.num_rows == count and rows.column("end").null_count == count
    return rows.select(COLUMNS) if whole else None


def _is_utf8(block: bytes) -> bool:
    try:
        block.isascii() or block.decode()
    except UnicodeDecodeError:
        return False
    return True


def plain_columns(batch: pa.RecordBatch) -> pa.Table | None:
    """Return a Parquet batch with the types of `Columns`; None if a value has another type or an impossible time."""
    try:
        arrays = [_plain(batch, name) for name in COLUMNS]
    except (pa.ArrowException, ValueError):
        return None
    return None if any(array is None for array in arrays) else pa.table(arrays, list(COLUMNS))


def _plain(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.int64() if name in COUNTS else pa.string())
    array = batch.column(name)
    if pa.types.is_null(array.type):
        return array.cast(pa.int64() if name in COUNTS else pa.string())
    if name in COUNTS:
        return array.cast(pa.int64()) if pa.types.is_integer(array.type) else None
    if name == "committed_at" and pa.types.is_timestamp(array.type):
        return _time(array)
    return _text(array)


def _text(array: pa.Array) -> pa.Array | None:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return None
    array.validate(full=True)  # UTF-8
    return array.cast(pa.string())


def _time(array: pa.Array) -> pa.Array | None:
    if array.type.tz not in _UTC:
        return None
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    ends = pc.min_max(micros).as_py()
    outside = ends["min"] is not None and (ends["min"] < _FIRST_TIME or ends["max"] > _LAST_TIME)
    return None if outside else micros.cast(pa.timestamp("us"))

"""What the ends of a file say of it: whether it is whole in its format, and how many rows it has. A few ranged reads.

A Parquet file ends with its metadata, the length of that in four bytes, little endian, and `PAR1` (Parquet format,
"File format"); an encrypted footer ends with `PARE` and is not read. The postscript of an ORC file ends with `ORC`
before its length in the last byte; files of ORC's first version have it at their begin alone (ORC specification, "File
Tail"). An Avro file begins with `Obj` and 1 (Avro specification, "Object Container Files").
"""

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_TAIL = 64 << 10
_MOST = 64 << 20
"""Bytes of a footer that is read."""
_FAILED = (ClientError, BotoCoreError, OSError)

Tail = Callable[[int], bytes]
"""So many bytes of a file's end; of its begin where the number is negative."""


@dataclass(frozen=True)
class VisibleRows:
    """How many rows of a file its table's readers see; `hides_rows`: it may have more, which they do not."""

    rows: int | None = None
    hides_rows: bool = False

    def fits(self, rows: int | None) -> bool:
        """Whether the file may have so many."""
        if self.rows is None or rows is None:
            return True
        return rows >= self.rows if self.hides_rows else rows == self.rows


class BrokenFileError(Exception):
    """A file is not of its format; `str` is the reason."""


def rows_of(clients: Clients, bucket: str, key: str, size: int, version_id: str | None = None) -> int | None:
    """The rows of a Parquet file, of any version of an object; None where no footer of it can be read."""
    try:
        return _parquet_rows(lambda length: _ranged(clients, Location(bucket, key), length, version_id), size)
    except (BrokenFileError, *_FAILED):
        return None


@dataclass(frozen=True)
class Columns:
    """What a Parquet footer says of a file's columns: of each row group and column its name and its facts."""

    columns: tuple[tuple[str, tuple[object, ...]], ...]
    varied: bool
    """Some column has more than one value."""

    def without(self, prefix: str) -> "Columns":
        """The same without columns whose names begin so."""
        return _columns(each for each in self.columns if not each[0].startswith(prefix))


def columns_of(clients: Clients, place: Location, size: int) -> Columns | None:
    """The columns of a Parquet file; None where no footer of it can be read."""
    try:
        metadata = _parquet_metadata(lambda length: _ranged(clients, place, length), size)
        return None if metadata is None else _columns(_facts(metadata))
    except (BrokenFileError, *_FAILED, pa.ArrowException):
        return None


def _columns(columns: Iterable[tuple[str, tuple[object, ...]]]) -> Columns:
    known = tuple(columns)
    return Columns(known, any(low != high for _, (low, high, *_) in known))


def _facts(metadata: pq.FileMetaData) -> Iterator[tuple[str, tuple[object, ...]]]:
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            told = column.statistics
            bounds = (repr(told.min), repr(told.max)) if told is not None and told.has_min_max else ("", "")
            nulls = None if told is None else told.null_count
            yield column.path_in_schema, (*bounds, nulls, column.num_values, column.total_uncompressed_size)


def fault_of(
    clients: Clients, place: Location, size: int, counted: VisibleRows, wait: Callable[[], None]
) -> str | None:
    """Return why a file is not of the format of its name, or has other rows; None: it is whole, or not checked.

    `wait` is called before each read.
    """
    check = next((check for suffix, check in _CHECKS.items() if place.key.endswith(suffix)), None)
    if check is None or not size:
        return None

    def read(length: int) -> bytes:
        wait()
        return _ranged(clients, place, length)

    try:
        rows = check(read, size)
    except BrokenFileError as error:
        return str(error)
    except _FAILED:
        return None
    return (
        None
        if counted.fits(rows)
        else f"its footer counts {rows} rows, and the table recorded {counted.rows}"
    )


def _parquet_rows(read: Tail, size: int) -> int | None:
    metadata = _parquet_metadata(read, size)
    return None if metadata is None else int(metadata.num_rows)


def _parquet_metadata(read: Tail, size: int) -> pq.FileMetaData | None:
    """What a footer holds; None where it is encrypted, or too long to be read."""
    tail = read(min(_TAIL, size))
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if tail[-4:] == b"PARE" or needed > _MOST:
        return None
    if tail[-4:] != b"PAR1":
        raise BrokenFileError("it does not end as a Parquet file does")
    if needed > size:
        raise BrokenFileError("its footer is longer than the file")
    if needed > len(tail):
        tail = read(needed)
    try:
        return pq.read_metadata(io.BytesIO(tail))
    except (pa.ArrowException, OSError) as error:
        raise BrokenFileError("its Parquet footer cannot be understood") from error


def _orc(read: Tail, size: int) -> None:
    if size < 4 or (read(4)[:3] != b"ORC" and read(-3) != b"ORC"):
        raise BrokenFileError("it neither begins nor ends as an ORC file does")


def _avro(read: Tail, size: int) -> None:
    if size < 4 or read(-4) != b"Obj\x01":
        raise BrokenFileError("it does not begin as an Avro file does")


_CHECKS: dict[str, Callable[[Tail, int], int | None]] = {
    ".parquet": _parquet_rows,
    ".orc": _orc,
    ".avro": _avro,
}


def _ranged(clients: Clients, place: Location, length: int, version_id: str | None = None) -> bytes:
    if place.is_local:
        return _ranged_here(Path(place.spark_path), length)
    asked: Any = {
        "Bucket": place.bucket,
        "Key": place.key,
        "Range": f"bytes=-{length}" if length > 0 else f"bytes=0-{-length - 1}",
    }
    if version_id is not None:
        asked["VersionId"] = version_id
    return clients.s3(*place).get_object(**asked)["Body"].read()


def _ranged_here(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        if length > 0:
            file.seek(-min(length, path.stat().st_size), io.SEEK_END)
        return file.read(abs(length))

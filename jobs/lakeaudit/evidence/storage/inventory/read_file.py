"""Read one data file of a report in a task, as VERSION rows; failures become NOTE rows.

CSV keys are form-encoded, those of the other formats are raw. An ORC timestamp has no zone and is UTC.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import fetched
from lakeaudit.evidence.protocol import Batches, note_row
from lakeaudit.evidence.storage.inventory.columns import BY_NAME, REQUIRED, type_fault, type_kind
from lakeaudit.evidence.storage.inventory.csv_file import CsvFile
from lakeaudit.evidence.storage.inventory.data_files import stamp_of
from lakeaudit.evidence.storage.inventory.layout import Layout, read_footer
from lakeaudit.evidence.storage.inventory.rows import RawRows, VersionMapper
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, DuckError, Relation, literal, quoted
from lakeaudit.runtime.lru_cache import LruCache

_VALID_KEY = "__valid_key"


class _UnreadableError(Exception):
    """Why a data file cannot be read, in words."""


@dataclass(frozen=True)
class DataFileReader:
    """What a part of the source runs: plain data, and callable.

    Attributes:
        place: where the verified file lies.
        stamp: its `data_files.stamp_of` at the time of the verification.
        source: id of the source.
        bucket: the bucket that the report is about.
    """

    clients: Clients
    place: Location
    stamp: str | None
    source: str
    bucket: str
    layout: Layout

    def __call__(self, con: Connection) -> Batches:
        """Batches of kinds `versions` and `notes`."""
        try:
            with fetched(self.clients, self.place) as path:
                for rows in self._relations(con, path):
                    yield "versions", rows
        except SourceError as error:
            yield "notes", self._note(error.what)
        except _UnreadableError as error:
            yield "notes", self._note(str(error))
        except (OSError, pa.ArrowException, DuckError):
            yield "notes", self._note(f"cannot be read as {self.layout.form}")

    def _relations(self, con: Connection, path: Path | None) -> Iterator[Relation]:
        if path is None:
            raise _UnreadableError("is missing")
        if stamp_of(self.clients, self.place) != self.stamp:
            raise _UnreadableError("was changed after it had been verified")
        file_name = self.place.key.rpartition("/")[2]
        mapper = VersionMapper(
            self.source,
            self.bucket,
            file_name,
            self.layout.all_versions,
            self.clients.storage_classes(self.bucket),
        )
        yield from _READERS[self.layout.form](self, con, mapper, path)

    def _note(self, reason: str) -> pa.Table:
        return note_row(self.source, self.place.uri, f"data file {reason}")


def _csv(reader: DataFileReader, con: Connection, mapper: VersionMapper, path: Path) -> Iterator[Relation]:
    for raw in CsvFile(path, reader.layout.fields, mapper.bucket).raw_rows():
        yield mapper.versions(con, raw)


def _orc(reader: DataFileReader, con: Connection, mapper: VersionMapper, path: Path) -> Iterator[Relation]:
    columns = _columns(path, reader.layout)
    names = [column.name for column in columns.values()]
    content = pa.orc.ORCFile(str(path))
    for stripe in range(content.nstripes):
        yield mapper.versions(con, _of_batch(content.read_stripe(stripe, names), columns))


def _parquet(
    reader: DataFileReader, con: Connection, mapper: VersionMapper, path: Path
) -> Iterator[Relation]:
    """One relation of the whole file, or batches if its keys are not all UTF-8, which DuckDB refuses to read."""
    columns = _columns(path, reader.layout)
    named = ", ".join(f"{quoted(column.name)} AS {quoted(name)}" for name, column in columns.items())
    file = f"read_parquet({literal(path)}, hive_partitioning = false)"
    keys = quoted(columns["key"].name)
    if not _TEXT.get((reader.place, reader.stamp), lambda: _is_text(con, file, keys)):
        names = [column.name for column in columns.values()]
        for batch in pa.parquet.ParquetFile(str(path)).iter_batches(duck.BATCH_ROWS, columns=names):
            yield mapper.versions(con, _of_batch(batch, columns))
        return
    rows = duck.query(con, f"SELECT {named} FROM {file}")
    yield mapper.versions(con, RawRows(rows, _kinds(columns)))


_TEXT: LruCache[tuple[Location, str | None], bool] = LruCache(10_000)
"""By data file and its stamp whether its keys are UTF-8, so that the second pass does not check them again."""


def _is_text(con: Connection, file: str, column: str) -> bool:
    """Return whether a column is UTF-8; neither statistics nor `strlen`, which does not read the text, can tell."""
    try:
        duck.rows_of(duck.query(con, f"SELECT bit_xor(hash({column})) FROM {file}"))
    except DuckError:
        return False
    return True


_READERS: Mapping[str, Callable[[DataFileReader, Connection, VersionMapper, Path], Iterator[Relation]]] = {
    "CSV": _csv,
    "ORC": _orc,
    "Parquet": _parquet,
}


def _columns(path: Path, layout: Layout) -> dict[str, pa.Field]:
    """By the report's name the columns of this file that are used."""
    footer = [field for field in read_footer(layout.form, str(path)) if field.name.lower() in layout.used]
    columns = {field.name.lower(): field for field in footer}
    if len(columns) < len(footer) or any(name not in columns for name in REQUIRED):
        raise _UnreadableError("has not the columns of the report")
    for name, field in columns.items():
        fault = type_fault(BY_NAME[name], field.type)
        if fault:
            raise _UnreadableError(f"cannot be used: {fault}")
    return columns


def _kinds(columns: Mapping[str, pa.Field]) -> dict[str, str]:
    return {name: type_kind(field.type) or "" for name, field in columns.items()}


def _of_batch(batch: pa.RecordBatch, columns: Mapping[str, pa.Field]) -> RawRows:
    """Arrow reads text without looking whether it is UTF-8, which DuckDB takes for granted."""
    arrays = {name: batch.column(field.name) for name, field in columns.items()}
    kinds = _kinds(columns)
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        texts = {name: _bytes_of(arrays[name]) for name, kind in kinds.items() if kind == "text"}
        arrays |= {name: pa.array([_text(v) for v in values]) for name, values in texts.items()}
        valid = pa.array([_is_utf8(value) for value in texts["key"]], pa.bool_())
        rows = pa.table(arrays | {_VALID_KEY: valid})
        return RawRows(rows, kinds, key=f"CASE WHEN {_VALID_KEY} THEN key END")
    return RawRows(pa.table(arrays), kinds)


def _bytes_of(array: pa.Array) -> list[bytes | None]:
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    values: list[bytes | None] = plain.cast(pa.binary()).to_pylist()
    return values


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False

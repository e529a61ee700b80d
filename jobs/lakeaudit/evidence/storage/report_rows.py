"""Data files of reports that other stores than S3 make: CSV with its names in the first line, or Parquet.

A value that cannot be understood is a fault of its row. Neither form has a checksum per line, so a CSV file that is no
CSV to its end is not believed at all.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import fetched
from lakeaudit.evidence.protocol import Batches, note_row
from lakeaudit.evidence.storage.inventory.columns import (
    Known,
    fault_sql,
    shown_sql,
    type_fault,
    type_kind,
    value_sql,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection, DuckError, Relation, literal, quoted
from lakeaudit.schemas import VERSION

_LONGEST_LINE = 1 << 20


@dataclass(frozen=True)
class ReportForm:
    """What a kind of report has, as plain data.

    `known` are the columns that are used, `required` the names of those that must be there. `given` makes columns of
    schemas.VERSION of their values, by name; what is not given is null. `faults` gives SQL of why a row cannot be
    understood, of the values; null: it can.
    """

    known: tuple[Known, ...]
    required: tuple[str, ...]
    given: Mapping[str, str]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class CsvWay:
    """How CSV files are written: what parts fields, and their names where the first line does not have them."""

    delimiter: str = ","
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportFile:
    """What a part of the source runs: plain data, and callable. `bucket` is that of all rows."""

    clients: Clients
    place: Location
    source: str
    bucket: str
    form: ReportForm
    way: CsvWay = field(default_factory=CsvWay)

    @property
    def is_parquet(self) -> bool:
        return self.place.key.lower().endswith(".parquet")

    def __call__(self, con: Connection) -> Batches:
        """Batches of kinds `versions` and `notes`."""
        try:
            with fetched(self.clients, self.place) as path:
                yield "versions", duck.table(self._versions(con, path))
        except SourceError as error:
            yield "notes", self._note(error.what)
        except (OSError, ValueError, csv.Error, pa.ArrowException, DuckError):
            yield "notes", self._note(f"cannot be read as {'Parquet' if self.is_parquet else 'CSV'}")

    def count(self) -> int | None:
        """How many rows it has, read to its end; None: it cannot be read."""
        try:
            with fetched(self.clients, self.place) as path, duck.task_connection() as con:
                if path is None:
                    return None
                return duck.count_of(self._raw(con, path)[0])
        except (SourceError, OSError, ValueError, csv.Error, pa.ArrowException, DuckError):
            return None

    def _note(self, reason: str) -> pa.Table:
        return note_row(self.source, self.place.uri, f"data file {reason}")

    def _versions(self, con: Connection, path: Path | None) -> Relation:
        if path is None:
            raise SourceError(self.place.uri, "is missing", "")
        raw, kinds = self._raw(con, path)
        values = {
            k.name: value_sql(k, kinds[k.name]) if k.name in kinds else "CAST(NULL AS VARCHAR)"
            for k in self.form.known
        }
        named = ", ".join(f"{sql} AS {quoted(f'v_{name}')}" for name, sql in values.items())
        faults = ", ".join(self._faults(kinds, values))
        name = literal(f"{self.place.key.rpartition('/')[2]}: ")
        read = duck.query(con, f"SELECT {named}, {name} || coalesce({faults}) AS reject FROM raw", raw=raw)
        given = {
            n: f"CASE WHEN reject IS NULL THEN {sql} END"
            for n, sql in {**_NOTHING, **self.form.given}.items()
        }
        return duck.conform(con, read, VERSION, given | {"source": literal(self.source), "reject": "reject"})

    def _faults(self, kinds: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
        for known in self.form.known:
            fault = fault_sql(known, kinds[known.name], values[known.name]) if known.name in kinds else None
            if fault:
                yield fault
        for name in self.form.required:
            yield f"CASE WHEN coalesce(CAST({quoted(name)} AS VARCHAR), '') = '' THEN 'row without {name}' END"
        stranger = f"'row of another bucket: ' || coalesce({shown_sql('bucket')}, 'none')"
        yield f"CASE WHEN bucket IS DISTINCT FROM {literal(self.bucket)} THEN {stranger} END"
        yield from (fault.format(**{k: f"({v})" for k, v in values.items()}) for fault in self.form.faults)

    def _raw(self, con: Connection, path: Path) -> tuple[Relation, dict[str, str]]:
        """(columns by their lower-case names, the kind of each one's type)."""
        return self._of_parquet(con, path) if self.is_parquet else self._of_csv(con, path)

    def _of_parquet(self, con: Connection, path: Path) -> tuple[Relation, dict[str, str]]:
        footer = {each.name.lower(): each for each in pa.parquet.read_schema(str(path))}
        self._require(footer)
        used = {known.name: footer[known.name] for known in self.form.known if known.name in footer}
        for known in self.form.known:
            fault = type_fault(known, used[known.name].type) if known.name in used else None
            if fault:
                raise SourceError(self.place.uri, f"cannot be used: {fault}", "")
        columns = ", ".join(f"{quoted(each.name)} AS {quoted(name)}" for name, each in used.items())
        rows = duck.query(
            con, f"SELECT {columns} FROM read_parquet({literal(path)}, hive_partitioning = false)"
        )
        return rows, {name: type_kind(each.type) or "" for name, each in used.items()}

    def _of_csv(self, con: Connection, path: Path) -> tuple[Relation, dict[str, str]]:
        first = _first_line(path, self.way.delimiter)
        has_names = {*self.form.required} <= {name.lower() for name in first}
        names = [name.lower() for name in (first if has_names else self.way.names)]
        self._require(names)
        if len(set(names)) < len(names):
            raise SourceError(self.place.uri, "names a column twice", "")
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
        way = f"delim = {literal(self.way.delimiter)}, quote = '\"', escape = '\"', header = {literal(has_names)}"
        sql = f"""
            SELECT * FROM read_csv({literal(path)}, columns = {{{columns}}}, auto_detect = false, {way},
                strict_mode = true, null_padding = false, max_line_size = {_LONGEST_LINE},
                compression = {_packed(path)})
        """
        return duck.query(con, sql), {k.name: "text" for k in self.form.known if k.name in names}

    def _require(self, names: Sequence[str] | Mapping[str, object]) -> None:
        missing = [name for name in self.form.required if name not in names]
        if missing:
            raise SourceError(self.place.uri, f"has no column {' and '.join(missing)}", "")


_NOTHING = dict.fromkeys((each.name for each in VERSION if each.name not in ("source", "reject")), "NULL")
_GZIP = b"\x1f\x8b"


def _packed(path: Path) -> str:
    with path.open("rb") as content:
        return literal("gzip" if content.read(2) == _GZIP else "none")


def _first_line(path: Path, delimiter: str) -> list[str]:
    """The fields of the first line; a byte order mark before it is none of them."""
    with pa.input_stream(str(path), compression="gzip" if _packed(path) == "'gzip'" else None) as stream:
        head = stream.read(_LONGEST_LINE).decode("utf-8-sig", "replace")
    return next(csv.reader(head.splitlines(keepends=True), delimiter=delimiter), [])

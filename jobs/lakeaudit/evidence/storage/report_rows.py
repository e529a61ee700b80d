"""Read data files of the reports of other stores than S3: CSV with its names in the first line, or Parquet.

A value that cannot be parsed is a fault of its row. Neither form has a checksum for each line, so a CSV file that is
invalid anywhere is rejected as a whole.
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
    ReportColumn,
    fault_sql,
    stranger_sql,
    type_fault,
    type_kind,
    value_sql,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, DuckError, Relation, literal, quoted
from lakeaudit.schemas import VERSION

_LONGEST_LINE = 1 << 20
_TYPES = {"number": "BIGINT", "time": "TIMESTAMP", "flag": "BOOLEAN"}
ANY = "any"
"""What a column of any type holds, whose text is looked into."""


@dataclass(frozen=True)
class ReportForm:
    """What a kind of report has, as plain data.

    `known` are the columns that are used, `required` the names of those that must be there. `given` makes columns of
    `schema`, whose rows are of `kind`, of their values, by name; what is not given is null. `faults` gives SQL of why a
    row cannot be understood, of the values; null: it can. `left_out` is SQL of rows that are about no object. All SQL
    may ask whether there is a column at all: `has_name`. `millis`: of Parquet whole numbers may be times, in
    milliseconds.
    """

    known: tuple[ReportColumn, ...]
    required: tuple[str, ...]
    given: Mapping[str, str]
    faults: tuple[str, ...] = ()
    left_out: str = "false"
    kind: str = "versions"
    schema: pa.Schema = VERSION
    millis: bool = False


@dataclass(frozen=True)
class CsvWay:
    """How CSV files are written: what parts fields, and their names where the first line does not have them."""

    delimiter: str = ","
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportFile:
    """What a part of the source runs: plain data, and callable. `bucket` is that of all rows; None: rows say it."""

    clients: Clients
    place: Location
    source: str
    bucket: str | None
    form: ReportForm
    way: CsvWay = field(default_factory=CsvWay)

    @property
    def is_parquet(self) -> bool:
        return self.place.key.lower().endswith(".parquet")

    def __call__(self, con: Connection) -> Batches:
        """Batches of the form's kind, and of `notes`."""
        try:
            with fetched(self.clients, self.place) as path:
                yield self.form.kind, duck.table(self._versions(con, path))
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
            k.name: value_sql(k, kinds[k.name])
            if k.name in kinds
            else f"CAST(NULL AS {_TYPES.get(k.holds, 'VARCHAR')})"
            for k in self.form.known
        }
        there = {name: str(name in kinds).lower() for name in values}
        named = ", ".join(
            f"{sql} AS {quoted(f'v_{name}')}, {there[name]} AS {quoted(f'has_{name}')}"
            for name, sql in values.items()
        )
        faults = ", ".join(self._faults(kinds, values))
        name = literal(f"{self.place.key.rpartition('/')[2]}: ")
        read = duck.query(con, f"SELECT {named}, {name} || coalesce({faults}) AS reject FROM raw", raw=raw)
        if self.form.left_out != "false":
            objects = f"SELECT * FROM input WHERE reject IS NOT NULL OR ({self.form.left_out}) IS NOT TRUE"
            read = duck.query(con, objects, input=read)
        given = {
            n: f"CASE WHEN reject IS NULL THEN {sql} END"
            for n, sql in {**dict.fromkeys(self.form.schema.names, "NULL"), **self.form.given}.items()
            if n not in ("source", "reject")
        }
        return duck.conform(
            con, read, self.form.schema, given | {"source": literal(self.source), "reject": "reject"}
        )

    def _faults(self, kinds: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
        for known in self.form.known:
            fault = fault_sql(known, kinds[known.name], values[known.name]) if known.name in kinds else None
            if fault:
                yield fault
        for name in self.form.required:
            yield f"CASE WHEN coalesce(CAST({quoted(name)} AS VARCHAR), '') = '' THEN 'row without {name}' END"
        if self.bucket is not None:
            yield stranger_sql(self.bucket)
        yield from (fault.format(**{k: f"({v})" for k, v in values.items()}) for fault in self.form.faults)

    def _raw(self, con: Connection, path: Path) -> tuple[Relation, dict[str, str]]:
        """(columns by their lower-case names, the kind of each one's type)."""
        return self._of_parquet(con, path) if self.is_parquet else self._of_csv(con, path)

    def _of_parquet(self, con: Connection, path: Path) -> tuple[Relation, dict[str, str]]:
        footer = {each.name.lower(): each for each in pa.parquet.read_schema(str(path))}
        self._require(footer)
        used = {known.name: footer[known.name] for known in self.form.known if known.name in footer}
        for known in self.form.known:
            fault = self._type_fault(known, used[known.name].type) if known.name in used else None
            if fault:
                raise SourceError(self.place.uri, f"cannot be used: {fault}", "")
        held = {
            known.name: self._of_type(known, used[known.name])
            for known in self.form.known
            if known.name in used
        }
        columns = ", ".join(f"{sql} AS {quoted(name)}" for name, (sql, _) in held.items())
        rows = duck.query(
            con, f"SELECT {columns} FROM read_parquet({literal(path)}, hive_partitioning = false)"
        )
        return rows, {name: kind for name, (_, kind) in held.items()}

    def _type_fault(self, known: ReportColumn, arrow: pa.DataType) -> str | None:
        in_millis = self.form.millis and known.holds == "time" and type_kind(arrow) == "number"
        return None if known.holds == ANY or in_millis else type_fault(known, arrow)

    def _of_type(self, known: ReportColumn, column: pa.Field) -> tuple[str, str]:
        """(SQL of a column, the kind of its values)."""
        kind = type_kind(column.type) or ""
        if known.holds == ANY:
            return f"CAST({quoted(column.name)} AS VARCHAR)", "text"
        if known.holds == "time" and kind == "number":
            return f"make_timestamp({quoted(column.name)} * 1000)", "time"
        return quoted(column.name), kind

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


_GZIP = b"\x1f\x8b"


def _packed(path: Path) -> str:
    with path.open("rb") as content:
        return literal("gzip" if content.read(2) == _GZIP else "none")


def _first_line(path: Path, delimiter: str) -> list[str]:
    """Return the fields of the first line, without a byte order mark."""
    with pa.input_stream(str(path), compression="gzip" if _packed(path) == "'gzip'" else None) as stream:
        head = stream.read(_LONGEST_LINE).decode("utf-8-sig", "replace")
    return next(csv.reader(head.splitlines(keepends=True), delimiter=delimiter), [])

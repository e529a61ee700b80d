"""Which columns a report has: CSV names them in the manifest, ORC and Parquet in the footers of their files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import Ranged
from lakeaudit.evidence.storage.inventory.columns import (
    BY_CSV_NAME,
    BY_NAME,
    QUESTIONS,
    REQUIRED,
    USED,
    VERSIONED,
    type_fault,
)
from lakeaudit.evidence.storage.inventory.data_files import Located
from lakeaudit.evidence.storage.inventory.report import Report
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_FORMS = {"csv": "CSV", "orc": "ORC", "parquet": "Parquet"}


@dataclass(frozen=True)
class Layout:
    """The columns of a report.

    Attributes:
        form: CSV, ORC or Parquet.
        fields: names as in ORC; of CSV all by position (`__unknown_3` for one that S3 Inventory does not have), else
            those that are used.
        unknown: columns that are left out, as the report names them.
    """

    form: str
    fields: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that something is made of."""
        return tuple(known.name for known in USED if known.name in self.fields)

    @property
    def all_versions(self) -> bool:
        """Whether the report has versions that are not the latest."""
        return any(name in self.fields for name in VERSIONED)

    @property
    def names_only(self) -> "Layout":
        """The columns that say which keys there are: no more is read of ORC and Parquet files."""
        kept = {*REQUIRED, *VERSIONED}
        if self.form != "CSV":
            return replace(self, fields=tuple(name for name in self.fields if name in kept))
        fields = [name if name in kept else f"__unknown_{at}" for at, name in enumerate(self.fields)]
        return replace(self, fields=tuple(fields))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of the columns is worth knowing, for people."""
        warnings = []
        if self.unknown:
            warnings.append(f"columns not known to S3 Inventory are left out: {', '.join(self.unknown)}")
        if self.all_versions and "is_latest" not in self.fields:
            warnings.append(
                "the report has versions and does not say which are the latest: every key is undecided"
            )
        warnings += [
            f"the report has no column {BY_NAME[name].csv}: it cannot tell {question}"
            for name, question in QUESTIONS.items()
            if name not in self.fields
        ]
        return tuple(warnings)


def layout_of(clients: Clients, report: Report, files: Sequence[Located]) -> Layout:
    """The columns of the report, of which `files` can be read: at least one.

    Raises:
        SourceError: a format other than CSV, ORC and Parquet; no Bucket or Key column; a column named twice or of an
            impossible type; no file with a readable footer.
    """
    form = _FORMS.get(report.manifest.file_format.lower())
    if form == "CSV":
        layout = _csv(report)
        _require_columns(report, layout.fields)
        return layout
    if form is None:
        what = f"has data files of format {report.manifest.file_format}"
        raise SourceError(report.place.uri, what, "have the inventory delivered as CSV, ORC or Parquet")
    return _columnar(report, form, _first_footer(clients, report, form, files))


def _csv(report: Report) -> Layout:
    written = [name.strip() for name in report.manifest.file_schema.split(",")]
    known = [BY_CSV_NAME.get(name.lower()) for name in written]
    names = tuple(column.name if column else f"__unknown_{i}" for i, column in enumerate(known))
    if len(set(names)) < len(names):
        raise _named_twice(report, "fileSchema")
    return Layout(
        "CSV", names, tuple(name for name, column in zip(written, known, strict=True) if not column)
    )


def _columnar(report: Report, form: str, footer: pa.Schema) -> Layout:
    known = [field for field in footer if field.name.lower() in BY_NAME]
    unknown = tuple(field.name for field in footer if field.name.lower() not in BY_NAME)
    types = {field.name.lower(): field.type for field in known}
    if len(types) < len(known):
        raise _named_twice(report, "its data files")
    _require_columns(report, tuple(types))
    for column in USED:
        fault = type_fault(column, types[column.name]) if column.name in types else None
        if fault:
            raise SourceError(report.place.uri, fault, "have the report delivered again")
    return Layout(form, tuple(column.name for column in USED if column.name in types), unknown)


def _require_columns(report: Report, names: Sequence[str]) -> None:
    missing = [BY_NAME[name].csv for name in REQUIRED if name not in names]
    if missing:
        what = f"has no column {' and '.join(missing)}"
        raise SourceError(report.place.uri, what, "name the manifest.json of an S3 Inventory report")


def _named_twice(report: Report, where: str) -> SourceError:
    return SourceError(
        report.place.uri, f"names a column twice in {where}", "have the report delivered again"
    )


_FOOTERS: dict[str, Callable[[Any], pa.Schema]] = {
    "ORC": lambda source: pa.orc.ORCFile(source).schema,
    "Parquet": lambda source: pa.parquet.ParquetFile(source).schema_arrow,
}


def read_footer(form: str, source: Any) -> pa.Schema:
    """The columns of one ORC or Parquet file, of which only the end is read.

    Raises:
        OSError, pyarrow.ArrowException: it is not of that format.
    """
    return _FOOTERS[form](source)


def _first_footer(clients: Clients, report: Report, form: str, files: Sequence[Located]) -> pa.Schema:
    """Return the footer of the first file that has one; the tasks check the footers of the others."""
    for located in files:
        if located.place is None:
            continue
        try:
            return read_footer(form, _opened(clients, located.place, located.file.size))
        except (OSError, pa.ArrowException, ClientError, BotoCoreError):
            continue
    what = f"has no data file that can be read as {form}"
    raise SourceError(report.place.uri, what, "have the report delivered again")


def _opened(clients: Clients, place: Location, size: int) -> Any:
    return place.spark_path if place.is_local else pa.PythonFile(Ranged(clients, place, size), mode="r")

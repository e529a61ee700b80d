"""Define a record and the interface to parse one."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, ListFile, Row
from lakeaudit.evidence.protocol import BufferedRows, EvidenceGap
from lakeaudit.keys import Aliases, Location

TORN = "is incomplete"
"""Prefix of the fault of a record that was written only in part, or holds other content."""
LARGEST = 256 << 20
"""Most bytes of a record; a larger file is not a record."""


@dataclass(frozen=True)
class Record:
    """Names a file in which a writer records its writes, and the files that complete it.

    `home` is where it may name files. `others` are files that are only valid together with it. `homes` are the places
    of all tables that it may name, with their names, if it lies with none of them; its rows about other tables are
    skipped.
    """

    file: File
    home: Location
    table: str
    others: tuple[File, ...] = ()
    homes: tuple[tuple[Location, str], ...] = ()

    def listed(self, number: int, aliases: Aliases) -> ListFile:
        """Return the record as a list of files, the `number`th."""
        file = self.file
        return ListFile(
            table=self.table, home=self.home, place=file.place, number=number, modified_at=file.modified_at,
            etag=file.etag, whole=False, size=file.size, aliases=aliases,
        )  # fmt: skip


@dataclass(frozen=True)
class RecordSet:
    """Holds the records of one table, or in one line why they cannot be read. `holes` are missing records."""

    table: Table
    records: tuple[Record, ...] = ()
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: str | None = None
    empty: Location | None = None
    """The folder that was listed and has no record at all; None if it has some, or if this is unknown."""


@dataclass(frozen=True)
class Search:
    """Holds the records of some tables; `tagged` counts the files of storage by job, if the kind declares totals."""

    found: Sequence[RecordSet]
    tagged: BufferedRows | None = None


@dataclass(frozen=True)
class Declared:
    """Holds a record's totals of all files that its job wrote: `totals.JOBS` without the table.

    `tag` is the UUID that the names of all its files have; None if they have none, or not the same.
    """

    job: str
    path: Location
    ended_at: datetime
    files: int | None
    bytes: int | None
    tag: str | None
    marker: str | None


Content = Callable[[File], bytes]
"""Reads the bytes of a record; raises `Fault` if it cannot be read."""

Understand = Callable[[Record, Content], Iterator[Row | Declared]]
"""Yields the rows of a record, as those of a `file_list`, and its totals; raises `Fault` for invalid content."""


def json_object(content: bytes) -> Mapping[str, Any]:
    """Parse a record that is one JSON object.

    Raises:
        Fault: it is not one.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise Fault("is not JSON") from None
    if not isinstance(value, dict):
        raise Fault("is not a JSON object")
    return value


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Return a required text.

    Raises:
        Fault: it is missing.
    """
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise Fault(f"has no text as {name}")
    return value


def objects_of(row: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return a required list of objects.

    Raises:
        Fault: it is missing.
    """
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Fault(f"has no list of objects as {name}")
    return value


def texts_of(row: Mapping[str, Any], name: str) -> list[str]:
    """Return a required list of texts.

    Raises:
        Fault: it is missing.
    """
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Fault(f"has no list of texts as {name}")
    return value


def time_of(millis: int, name: str) -> datetime:
    """Return a time from milliseconds since 1970.

    Raises:
        Fault: no calendar has this time.
    """
    try:
        return datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise Fault(f"has no time as {name}") from None

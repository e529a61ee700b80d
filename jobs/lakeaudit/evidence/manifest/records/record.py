"""What is read of a record, and what its kind makes of it."""

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

TORN = "is torn"
"""How the fault of a record begins that was written only in part, or holds something else."""
LARGEST = 256 << 20
"""Bytes of a record beyond which it is none."""


@dataclass(frozen=True)
class Record:
    """A file in which a writer says what it did, and those that say more of it where it is worth something.

    `home` is where it may name files. `others` are files that mean something only together with it. `homes` are the
    places of all tables that it may speak of, with their names, where it lies with none of them; what it says of
    others is left alone.
    """

    file: File
    home: Location
    table: str
    others: tuple[File, ...] = ()
    homes: tuple[tuple[Location, str], ...] = ()

    def listed(self, number: int, aliases: Aliases) -> ListFile:
        """The record as a list of files, the `number`th."""
        file = self.file
        return ListFile(
            table=self.table, home=self.home, place=file.place, number=number, modified_at=file.modified_at,
            etag=file.etag, whole=False, size=file.size, aliases=aliases,
        )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The records of one table, or in one line why they cannot be read. `holes` are records that should be there."""

    table: Table
    records: tuple[Record, ...] = ()
    holes: tuple[EvidenceGap, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: str | None = None
    empty: Location | None = None
    """The folder that was listed and holds no record at all; None: it holds some, or nobody can tell."""


@dataclass(frozen=True)
class Search:
    """The records of some tables; `tagged` counts the files of storage by job, where the kind declares totals."""

    found: Sequence[Found]
    tagged: BufferedRows | None = None


@dataclass(frozen=True)
class Declared:
    """What a record declares of all that its job wrote: `totals.JOBS` but for the table.

    `tag` is the UUID that the names of all its files have; None: they have none, or not the same.
    """

    job: str
    path: Location
    ended_at: datetime
    files: int | None
    bytes: int | None
    tag: str | None
    marker: str | None


Content = Callable[[File], bytes]
"""The bytes of a record; raises `Fault` where it cannot be read."""

Understand = Callable[[Record, Content], Iterator[Row | Declared]]
"""The rows of a record, as those of a `file_list`, and its totals; raises `Fault` at what it cannot understand."""


def json_object(content: bytes) -> Mapping[str, Any]:
    """A record that is one JSON object.

    Raises:
        Fault: it is none.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise Fault("is no JSON") from None
    if not isinstance(value, dict):
        raise Fault("is no JSON object")
    return value


def text_of(row: Mapping[str, Any], name: str) -> str:
    """A text that has to be there.

    Raises:
        Fault: it is not.
    """
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise Fault(f"has no text as {name}")
    return value


def objects_of(row: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of objects that has to be there.

    Raises:
        Fault: it is not.
    """
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Fault(f"has no list of objects as {name}")
    return value


def texts_of(row: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts that has to be there.

    Raises:
        Fault: it is not.
    """
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Fault(f"has no list of texts as {name}")
    return value


def time_of(millis: int, name: str) -> datetime:
    """A time in milliseconds since 1970.

    Raises:
        Fault: it is none that a calendar has.
    """
    try:
        return datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise Fault(f"has no time as {name}") from None

"""Turn manifests into parts: FILE rows of the files that they name, and NOTE rows of unreadable entries."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError, one_line
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.avro.records import open_avro
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.iceberg.state.lists import GONE, place_of
from lakeaudit.evidence.manifest.iceberg.state.metadata import VERSIONS
from lakeaudit.evidence.manifest.iceberg.state.partitions import PathWriter, path_writer
from lakeaudit.evidence.manifest.iceberg.state.rows import FILE, KIND, Manifest
from lakeaudit.evidence.protocol import Batches, Part, note_row
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

_ROWS = 32_768
_THREADS = 16
_LEAST, _MOST = 4 << 20, 64 << 20
"""Least and most bytes of manifests in a part."""
_UNKNOWN_LENGTH = 1 << 20
_ADDED, _DELETED = 1, 2
_CATEGORIES = {0: "data", 1: "deletes", 2: "deletes"}
COLUMN_STATISTICS = frozenset(
    {"column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "distinct_counts", "lower_bounds",
     "upper_bounds", "split_offsets", "key_metadata", "equality_ids"}
)  # fmt: skip
"""Fields of entries that describe columns; they fill most of a manifest, and no audit uses them."""


@dataclass(frozen=True)
class OfTable:
    """Holds the constants for the manifests of one table: its name, the reading, and times of its snapshots."""

    name: str
    reading: int
    times: Mapping[int, datetime]


@dataclass(frozen=True)
class Problem:
    """Describes an unreadable manifest (by its number): `count` entries of it, or all of it from some point on.

    `replaced`: it can be read, and is not the one that its list names.
    """

    table: str
    manifest: int
    subject: str
    reason: str
    count: int
    unread: bool
    replaced: bool = False


def problems(notes: Iterable[Mapping[str, object]]) -> list[Problem]:
    """Parse NOTE rows of manifests."""
    found = [(note, json.loads(str(note["data"]))) for note in notes]
    return [
        Problem(
            data["table"],
            data["manifest"],
            str(note["subject"]),
            str(note["reason"]),
            int(str(note["count"])),
            data["unread"],
            data["replaced"],
        )
        for note, data in found
    ]


def parts(
    manifests: Sequence[Manifest], tables: Sequence[OfTable], source: str, clients: Clients, tasks: int
) -> list[Part]:
    """Return parts of several manifests each; `tables` by their index."""
    total = sum(map(_weight, manifests))
    size = min(max(total // max(tasks, 1), _LEAST), _MOST)
    found: list[Part] = []
    held: list[Manifest] = []
    for manifest in manifests:
        held.append(manifest)
        if sum(map(_weight, held)) >= size:
            found.append(_part(held, tables, source, clients))
            held = []
    return [*found, *([_part(held, tables, source, clients)] if held else [])]


def _weight(manifest: Manifest) -> int:
    return max(manifest.length or _UNKNOWN_LENGTH, 1)


def _part(manifests: Sequence[Manifest], tables: Sequence[OfTable], source: str, clients: Clients) -> Part:
    about = {number: tables[number] for number in {manifest.table for manifest in manifests}}
    read = partial(read_manifests, manifests=tuple(manifests), tables=about, source=source, clients=clients)
    return Part(source, read, sum(map(_weight, manifests)))


def read_manifests(
    con: Connection,  # noqa: ARG001 - every part receives one
    manifests: Sequence[Manifest],
    tables: Mapping[int, OfTable],
    source: str,
    clients: Clients,
) -> Batches:
    """Yield FILE rows of the files in each manifest that could be read, and NOTE rows of the others."""
    held = _FileRows()
    with ThreadPoolExecutor(_THREADS) as pool:
        for manifest, content in zip(manifests, pool.map(partial(_content, clients), manifests), strict=True):
            about = tables[manifest.table]
            reading = _Reading(manifest, about, clients.names)
            for shared, own in reading.rows(content):
                held.add(shared, own)
                if len(held.own) >= _ROWS:
                    yield KIND, held.drain()
            if reading.fault is not None:
                yield "notes", _note(source, reading)
            if (why := reading.why_replaced) is not None:
                yield "notes", _note(source, reading, why)
    if held.own:
        yield KIND, held.drain()


_OWN = ("key", "size", "records")
_SHARED = [name for name in FILE.names if name not in _OWN]
Row = tuple[tuple[Any, ...], tuple[Any, ...]]
"""A FILE row in two: the values that a partition's files share (heads as a tuple), and its key, size and records."""


class _FileRows:
    """Buffers FILE rows; shared values are stored once, and become columns by their number."""

    def __init__(self) -> None:
        self._shared: dict[tuple[Any, ...], int] = {}
        self._numbers: list[int] = []
        self.own: list[tuple[Any, ...]] = []

    def add(self, shared: tuple[Any, ...], own: tuple[Any, ...]) -> None:
        self._numbers.append(self._shared.setdefault(shared, len(self._shared)))
        self.own.append(own)

    def drain(self) -> pa.Table:
        """Return all rows, and clear the buffer."""
        shared = duck.small(pa.schema([FILE.field(name) for name in _SHARED]), list(self._shared))
        own = duck.small(pa.schema([FILE.field(name) for name in _OWN]), self.own)
        columns = {name: shared[name].take(pa.array(self._numbers, pa.int32())) for name in _SHARED}
        table = pa.table({**columns, **{name: own[name] for name in _OWN}}).select(FILE.names).cast(FILE)
        self._shared, self._numbers, self.own = {}, [], []
        return table


def _content(clients: Clients, manifest: Manifest) -> bytes | Torn:
    try:
        content = read_bytes(clients, manifest.place, size=manifest.length or 0)
    except SourceError as error:
        return Torn(error.what)
    return Torn(GONE) if content is None else content


def _note(source: str, reading: "_Reading", replaced: str = "") -> pa.Table:
    known = {
        "manifest": reading.manifest.number,
        "unread": reading.unread,
        "table": reading.about.name,
        "replaced": bool(replaced),
    }
    subject = reading.manifest.place.uri.encode(errors="replace").decode()
    return note_row(source, subject, replaced or reading.fault, count=reading.faults, data=json.dumps(known))


class _Reading:
    """Reads one manifest: its rows, and then the faults that were found in it."""

    def __init__(self, manifest: Manifest, about: OfTable, aliases: Aliases) -> None:
        self.manifest, self.about, self.aliases = manifest, about, aliases
        self.fault: str | None = None
        self.faults = self.listed = self.added = self.foreign = self.size = 0
        self.unread = False
        heads = manifest.heads
        self._state: tuple[str, tuple[int, ...]] = ("live" if heads else "history", heads)
        self._times: dict[int | None, datetime] = {}

    def rows(self, content: bytes | Torn) -> Iterator[Row]:
        """Yield FILE rows of the files that it names, and of itself if it can be read."""
        try:
            if isinstance(content, Torn):
                raise content
            self.size = len(content)
            file = open_avro(content, COLUMN_STATISTICS)
            _check(file.header)
            yield self._itself()
            path_of = path_writer(file.header)
            for entry in file.records:
                row = self._row(entry, path_of)
                if row is not None:
                    yield row
            self._compare_counts()
        except Torn as torn:
            self.unread = True
            self._wrong(str(torn))

    @property
    def why_replaced(self) -> str | None:
        """Return why it is not the manifest that its list names, though it can be read; None if nothing shows that."""
        length, added_by = self.manifest.length, self.manifest.added_by
        if self.unread or length is None:
            return None
        if self.size != length:
            return f"it has {self.size} bytes, and {length} by the list that names it"
        if self.foreign and self.foreign == self.added and added_by is not None:
            return (
                f"another snapshot added its {self.added} files than {added_by}, which wrote it by its list"
            )
        return None

    def _wrong(self, why: str, count: int = 1) -> None:
        self.faults += count
        self.fault = self.fault or why

    def _compare_counts(self) -> None:
        """Compare its number of files with its list's count, if all of it was understood."""
        listed = self.manifest.files
        if listed is not None and not self.faults and listed != self.listed:
            self._wrong(
                f"it lists {self.listed} files, and {listed} by the list that names it",
                abs(listed - self.listed),
            )

    def _itself(self) -> Row:
        manifest, (state, heads) = self.manifest, self._state
        common = (self.about.name, self.about.reading, -1, manifest.place.bucket, state, False, heads, "log")
        shared = (*common, self._time(manifest.added_by), "", None)
        length = manifest.length if self.size == manifest.length else None
        return shared, (manifest.place.key, length, None)

    def _time(self, snapshot: int | None) -> datetime:
        """Return when a snapshot was made; for an expired one, the oldest state that still lists the manifest."""
        if snapshot not in self._times:
            known = None if snapshot is None else self.about.times.get(snapshot)
            self._times[snapshot] = plain_time(known or self.manifest.oldest)
        return self._times[snapshot]

    def _row(self, entry: Mapping[str, Any], path_of: PathWriter) -> Row | None:
        try:
            return self._understood(entry, entry["data_file"], path_of)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._wrong(f"an entry cannot be understood ({one_line(str(error), 100)})")
            return None

    def _understood(self, entry: Mapping[str, Any], file: Mapping[str, Any], path_of: PathWriter) -> Row:
        place = place_of(file["file_path"], self.aliases)
        if place is None:
            raise ValueError(f"{file['file_path'][:80]!r} is in an unknown store")
        status = _status(entry["status"])
        removed = status == _DELETED
        snapshot = entry.get("snapshot_id")
        if status == _ADDED:
            self.added += 1
            self.foreign += snapshot is not None and snapshot != self.manifest.added_by
        snapshot = self.manifest.added_by if snapshot is None else snapshot
        self.listed += not removed
        state, heads = ("gone", ()) if removed else self._state
        shared = (
            *(self.about.name, self.about.reading, self.manifest.number, place.bucket, state, False, heads),
            *(_CATEGORIES[file.get("content") or 0], self._time(snapshot)),
            *(path_of(file.get("partition") or {}), None if snapshot is None else str(snapshot)),
        )
        return shared, (place.key, _count(file["file_size_in_bytes"]), _count(file["record_count"]))


def _check(header: Mapping[str, str]) -> None:
    version = header.get("format-version", "1")
    if version not in map(str, VERSIONS):
        raise Torn(f"its format version {version[:20]} is not known; 1, 2 and 3 are")


def _status(value: object) -> int:
    if value not in (0, 1, _DELETED):
        raise ValueError(f"status {value!r}")
    return int(str(value))


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"a count of {value!r}")
    return value

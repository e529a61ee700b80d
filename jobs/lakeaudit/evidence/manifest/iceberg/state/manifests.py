"""Turn manifests into parts: FILE rows of the files that they name, and NOTE rows of unreadable entries."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.avro.blocks import Torn, header_of, plain_blocks
from lakeaudit.evidence.avro.columns import AT_ONCE, Piece, decode, pieces
from lakeaudit.evidence.avro.layout import layout_of
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.iceberg.state.claimed_files import EntryCounts, OfTable, claimed_files
from lakeaudit.evidence.manifest.iceberg.state.entries import entries
from lakeaudit.evidence.manifest.iceberg.state.lists import GONE
from lakeaudit.evidence.manifest.iceberg.state.metadata import VERSIONS
from lakeaudit.evidence.manifest.iceberg.state.rows import FILE, KIND, Manifest
from lakeaudit.evidence.protocol import Batches, Part, note_row
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

_THREADS = 16
_LEAST, _MOST = 4 << 20, 64 << 20
"""Least and most bytes of manifests in a part."""
_UNKNOWN_LENGTH = 1 << 20


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
    con: Connection,
    manifests: Sequence[Manifest],
    tables: Mapping[int, OfTable],
    source: str,
    clients: Clients,
) -> Batches:
    """Yield FILE rows of the files in each manifest that could be read, and NOTE rows of the others."""
    held = _Together(con, tables, clients.names)
    with ThreadPoolExecutor(_THREADS) as pool:
        for manifest, content in zip(manifests, pool.map(partial(_content, clients), manifests), strict=True):
            for piece in held.add(manifest, content):
                held.hold(piece)
                if held.size >= AT_ONCE:
                    yield from held.drain(source)
    yield from held.drain(source)


@dataclass(frozen=True)
class _ManifestPiece:
    """Holds some blocks of a manifest, and the values of its header that decide how they are read."""

    reading: "_Reading"
    schema: bytes
    header: Mapping[str, str]
    piece: Piece

    @property
    def form(self) -> tuple[Any, ...]:
        """Pieces with the same form are decoded together."""
        return self.schema, self.header.get("partition-spec"), self.header.get("schema")


class _Together:
    """Collects manifests to decode them together: one query for many small ones costs as much as for one."""

    def __init__(self, con: Connection, tables: Mapping[int, OfTable], aliases: Aliases) -> None:
        self._con, self._tables, self._aliases = con, tables, aliases
        self._readings: list[_Reading] = []
        self._pieces: list[_ManifestPiece] = []
        self.size = 0
        """Unpacked bytes of the pieces that are held."""

    def add(self, manifest: Manifest, content: bytes | Torn) -> Iterator[_ManifestPiece]:
        """Yield the pieces of a manifest; what is wrong with it becomes its fault."""
        reading = _Reading(manifest, self._tables[manifest.table])
        self._readings.append(reading)
        yield from reading.pieces(content)
        reading.is_whole = True

    def hold(self, piece: _ManifestPiece) -> None:
        """Keep a piece until the next `drain`."""
        self._pieces.append(piece)
        self.size += piece.piece.size

    def drain(self, source: str) -> Batches:
        """Yield the rows of all collected pieces, and rows and notes of the manifests that are finished."""
        if (rows := self._entries()) is not None:
            manifests = [each.manifest for each in self._readings]
            files, counts = claimed_files(self._con, rows, manifests, self._tables, self._aliases)
            for at, found in counts.items():
                self._readings[at].count(found)
            yield KIND, files
        done = [each for each in self._readings if each.is_whole]
        own = [row for each in done for row in each.own_rows()]
        if own:
            yield KIND, duck.small(FILE, own)
        for each in done:
            yield from each.notes(source)
        self._readings = [each for each in self._readings if not each.is_whole]
        self._pieces, self.size = [], 0

    def _entries(self) -> pa.Table | None:
        """Return ENTRY rows of all pieces."""
        index = {id(each): at for at, each in enumerate(self._readings)}
        forms: dict[tuple[Any, ...], list[_ManifestPiece]] = defaultdict(list)
        for each in self._pieces:
            forms[each.form].append(each)
        found = [table for some in forms.values() for table in _decoded(some, index)]
        return pa.concat_tables(found).unify_dictionaries() if found else None


def _decoded(some: Sequence[_ManifestPiece], index: Mapping[int, int]) -> Iterator[pa.Table]:
    """Yield the ENTRY rows of pieces that have one form."""
    try:
        layout = layout_of(some[0].schema)
    except Torn as torn:
        for each in some:
            each.reading.tear(torn)
        return
    whole: list[tuple[int, pa.StructArray]] = []
    for each, records in zip(some, decode(layout, [each.piece for each in some]), strict=True):
        if isinstance(records, Torn):
            each.reading.tear(records)
        else:
            whole.append((index[id(each.reading)], records))
    if whole:
        at = pa.concat_arrays([pa.repeat(pa.scalar(at, pa.int32()), len(records)) for at, records in whole])
        yield entries(layout, some[0].header, pa.concat_arrays([records for _, records in whole]), at)


def _content(clients: Clients, manifest: Manifest) -> bytes | Torn:
    try:
        content = read_bytes(clients, manifest.place, size=manifest.length or 0)
    except SourceError as error:
        return Torn(error.what)
    return Torn(GONE) if content is None else content


class _Reading:
    """Holds what is known of one manifest while it is read: counts of its entries, and its faults."""

    def __init__(self, manifest: Manifest, about: OfTable) -> None:
        self.manifest, self.about = manifest, about
        self.is_whole = False
        self._fault: str | None = None
        self._faults = self._listed = self._added = self._foreign = self._size = 0
        self._is_manifest = self._unread = False

    def pieces(self, content: bytes | Torn) -> Iterator[_ManifestPiece]:
        """Yield its blocks in pieces."""
        try:
            if isinstance(content, Torn):
                raise content
            self._size = len(content)
            header = header_of(content)
            text = header.text
            _check(text)
            self._is_manifest = True
            for piece in pieces(plain_blocks(content, header), AT_ONCE):
                yield _ManifestPiece(self, header.values["avro.schema"], text, piece)
        except Torn as torn:
            self.tear(torn)

    def tear(self, torn: Torn) -> None:
        """Record why some of it cannot be read."""
        self._unread = True
        self._wrong(str(torn))

    def count(self, found: EntryCounts) -> None:
        """Add the counts of some of its entries."""
        self._listed += found.listed
        self._added += found.added
        self._foreign += found.foreign
        if found.fault is not None:
            self._wrong(found.fault, found.faults)

    def own_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the FILE row of the manifest itself."""
        if not self._is_manifest:
            return
        manifest, about = self.manifest, self.about
        made = None if manifest.added_by is None else about.times.get(manifest.added_by)
        yield (
            *(about.name, about.reading, -1, *manifest.place, "live" if manifest.heads else "history", False),
            *(manifest.heads, "log", plain_time(made or manifest.oldest)),
            *(manifest.length if self._size == manifest.length else None, None, "", None),
        )

    def notes(self, source: str) -> Batches:
        """Yield NOTE rows of its faults."""
        if not self._unread:
            self._compare_counts()
        if self._fault is not None:
            yield "notes", self._note(source, self._fault)
        if (why := self._why_replaced()) is not None:
            yield "notes", self._note(source, why, replaced=True)

    def _note(self, source: str, why: str, *, replaced: bool = False) -> pa.Table:
        known = {
            "manifest": self.manifest.number,
            "unread": self._unread,
            "table": self.about.name,
            "replaced": replaced,
        }
        subject = self.manifest.place.uri.encode(errors="replace").decode()
        return note_row(source, subject, why, count=self._faults, data=json.dumps(known))

    def _why_replaced(self) -> str | None:
        """Return why it is not the manifest that its list names, though it can be read; None if nothing shows that."""
        length, added_by = self.manifest.length, self.manifest.added_by
        if self._unread or length is None:
            return None
        if self._size != length:
            return f"it has {self._size} bytes, and {length} by the list that names it"
        if self._foreign and self._foreign == self._added and added_by is not None:
            return (
                f"another snapshot added its {self._added} files than {added_by}, which wrote it by its list"
            )
        return None

    def _wrong(self, why: str, count: int = 1) -> None:
        self._faults += count
        self._fault = self._fault or why

    def _compare_counts(self) -> None:
        """Compare its number of files with its list's count, if all of it was understood."""
        listed = self.manifest.files
        if listed is not None and not self._faults and listed != self._listed:
            self._wrong(
                f"it lists {self._listed} files, and {listed} by the list that names it",
                abs(listed - self._listed),
            )


def _check(header: Mapping[str, str]) -> None:
    version = header.get("format-version", "1")
    if version not in map(str, VERSIONS):
        raise Torn(f"its format version {version[:20]} is not known; 1, 2 and 3 are")

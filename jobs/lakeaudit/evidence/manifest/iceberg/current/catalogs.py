"""Locate the current metadata.json of tables by catalogs: the file at which they point, whatever the folder holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations

from lakeaudit.config import Pointer, Table
from lakeaudit.errors import SourceError, one_line
from lakeaudit.evidence.catalog.current import Lookup, current_tables
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.evidence.lineage import ABSENT, MissingState
from lakeaudit.evidence.manifest.iceberg import PointedIceberg
from lakeaudit.evidence.manifest.iceberg.current.collapsed_paths import stat_any
from lakeaudit.evidence.manifest.iceberg.current.folder import state_before
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import (
    LocatedMetadata,
    UnreadMetadata,
    manifest_of,
    read_metadata,
)
from lakeaudit.evidence.manifest.iceberg.current.two_lines import Line, words_of_two_lines
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_SHOWN = 200
"""Most characters of a catalog's own text."""
TRIES = 3
"""How often a lookup is repeated: a commit between two requests changes the pointer of a table."""


@dataclass(frozen=True)
class Catalogs:
    """Holds the answers of catalogs, at `read_at`, for the tables that use them."""

    clients: Clients
    read_at: datetime
    said: Mapping[Pointer, Lookup]

    @classmethod
    def query(cls, tables: Sequence[Table], clients: Clients, read_at: datetime) -> "Catalogs":
        """Query each catalog once; none if no table uses one."""
        manifests = map(manifest_of, tables)
        pointers = [p for each in manifests if isinstance(each, PointedIceberg) for p in each.pointers]
        return cls(clients, read_at, current_tables(pointers, clients))

    def locate(self, table: Table, pointers: Sequence[Pointer], until: datetime | None) -> LocatedMetadata:
        """Return the table's metadata; a wrong answer is requested again, since the table may just have changed.

        Raises:
            SourceError: the file cannot be requested.
        """
        said = self.said
        for _ in range(TRIES):
            found = self._locate(table, [said[each] for each in pointers], pointers, until)
            if found.metadata is not None:
                return found
            again = current_tables(pointers, self.clients)
            if all(_points_at(again[each]) == _points_at(said[each]) for each in pointers):
                break
            said = again
        return found

    def _locate(
        self, table: Table, said: Sequence[Lookup], pointers: Sequence[Pointer], until: datetime | None
    ) -> LocatedMetadata:
        """Return the state at which all of them point, or the last one before it up to `until`."""
        place = self._agreed_place(said, pointers)
        if isinstance(place, str):
            return LocatedMetadata(
                table, self.read_at, refused=place, named=True, two_lines=self._two_lines(said, pointers)
            )
        try:
            found = self._read(
                table, place, f"{_display_name(pointers[0])} points at", _display_name(pointers[0])
            )
        except SourceError as error:  # by the catalog's own name: `gs://` is not a bucket of S3
            raise SourceError(
                _uri(said[0]) or error.where, error.what, error.hint, error.retryable
            ) from error
        if found.missing is not None:
            found = replace(found, missing=self._with_restore(found.missing, place, said))
        if until is not None and found.metadata is not None and found.metadata.updated_at > until:
            found = self._earlier(table, found.metadata, until)
        previous = tuple(
            each.previous_location
            for each in said
            if isinstance(each, CatalogTable) and each.previous_location
        )
        return replace(found, elsewhere=self._elsewhere(table, said, pointers), previous=previous)

    def _agreed_place(self, said: Sequence[Lookup], pointers: Sequence[Pointer]) -> Location | str:
        """Return the place of the metadata.json that all of them name, or why there is none."""
        places: dict[Location, Pointer] = {}
        for pointer, each in zip(pointers, said, strict=True):
            if isinstance(each, SourceError):
                return f"{_display_name(pointer)}: {each.what}"
            place = place_of(each.metadata_location, self.clients.names)
            if place is None or not place.key:
                named = one_line(each.metadata_location, _SHOWN)
                unknown = f"{_display_name(pointer)} names no metadata.json in a store that is known"
                return f"{unknown}: {named}" if named else unknown
            if why := self.clients.why_unserved(each.metadata_location, place.bucket):
                return f"{_display_name(pointer)} points at another cloud: {one_line(why)}"
            places.setdefault(place, pointer)
        targets = [f"{_display_name(pointer)} points at {place.uri}" for place, pointer in places.items()]
        return f"catalogs disagree: {'; '.join(targets)}" if len(targets) > 1 else next(iter(places))

    def _elsewhere(self, table: Table, said: Sequence[Lookup], pointers: Sequence[Pointer]) -> str | None:
        """Return why files below the table's location may belong to another table; `maps` say what was moved."""
        for pointer, each in zip(pointers, said, strict=True):
            place = each.location if isinstance(each, CatalogTable) else None
            if place is not None and table.location not in (place, place_of(place.uri, self.clients.names)):
                return f"{_display_name(pointer)} is at {place.uri}, but the lake file names {table.location.uri}"
        return None

    def _two_lines(self, said: Sequence[Lookup], pointers: Sequence[Pointer]) -> str:
        """Describe both lines of metadata if two catalogs commit to one table; empty if nothing proves that."""
        lines: list[Line] = []
        try:
            for pointer, each in zip(pointers, said, strict=True):
                place = (
                    place_of(each.metadata_location, self.clients.names)
                    if isinstance(each, CatalogTable)
                    else None
                )
                file = stat_any(self.clients, place) if place else None
                content = read_metadata(self.clients, file) if file else None
                if file is not None and isinstance(content, Metadata):
                    lines.append((_display_name(pointer), file.place, content))
            words = (words_of_two_lines(*pair, self.clients) for pair in combinations(lines, 2))
            return next(filter(None, words), "")
        except SourceError:
            return ""

    def _read(self, table: Table, place: Location, named_by: str, called: str) -> LocatedMetadata:
        file = stat_any(self.clients, place)
        if file is None:
            gone = f"{named_by} {place.uri}, but this file does not exist"
            missing = MissingState(ABSENT, place.uri, named_by=called)
            return LocatedMetadata(table, self.read_at, refused=gone, named=True, missing=missing)
        metadata = read_metadata(self.clients, file)
        if isinstance(metadata, UnreadMetadata):
            unread = MissingState(metadata.cause, place.uri, named_by=called) if metadata.cause else None
            return LocatedMetadata(
                table, self.read_at, file, refused=metadata.reason, named=True, missing=unread
            )
        return LocatedMetadata(table, self.read_at, file, metadata, named=True, called=called)

    def _with_restore(self, missing: MissingState, place: Location, said: Sequence[Lookup]) -> MissingState:
        """Add the metadata.json before the missing one: the one in its folder, else the one that a catalog records."""
        named = [each.previous_location for each in said if isinstance(each, CatalogTable)]
        before = state_before(self.clients, place) or next(filter(None, named), "")
        words = (
            f"the metadata.json before it is {before}; point the catalog at it only if the missing file "
            "cannot be restored"
        )
        return replace(missing, restore=words if before else "")

    def _earlier(self, table: Table, newest: Metadata, until: datetime) -> LocatedMetadata:
        """Return the earlier state: catalogs keep no history, but each metadata.json names those before it."""
        before = [(at, path) for path, at in newest.old_files if at <= until]
        place = place_of(max(before)[1], self.clients.names) if before else None
        if place is None:
            why = f"its catalog's metadata names no state up to {until.isoformat()}"
            return LocatedMetadata(table, self.read_at, refused=why, named=True)
        found = self._read(table, place, f"its state of {max(before)[0].isoformat()} is", "")
        return replace(found, missing=None)


def _uri(said: Lookup) -> str:
    return one_line(said.metadata_location, _SHOWN) if isinstance(said, CatalogTable) else ""


def _display_name(pointer: Pointer) -> str:
    return f"{pointer.store.name} {pointer.name}"


def _points_at(said: Lookup) -> str:
    return said.metadata_location if isinstance(said, CatalogTable) else said.what

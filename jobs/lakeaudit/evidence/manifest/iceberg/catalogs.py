"""Which metadata.json says what a table is now, by catalogs: the one they point at, whatever lies in the folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations

from lakeaudit.config import Pointer, Table
from lakeaudit.errors import SourceError, one_line
from lakeaudit.evidence.catalog.current import Said, current_tables
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.evidence.lineage import ABSENT, MissingState
from lakeaudit.evidence.manifest.iceberg import PointedIceberg
from lakeaudit.evidence.manifest.iceberg.collapsed_paths import stat_any
from lakeaudit.evidence.manifest.iceberg.folder import state_before
from lakeaudit.evidence.manifest.iceberg.found import Found, UnreadMetadata, manifest_of, read_metadata
from lakeaudit.evidence.manifest.iceberg.lists import place_of
from lakeaudit.evidence.manifest.iceberg.metadata import Metadata
from lakeaudit.evidence.manifest.iceberg.two_lines import Line, words_of_two_lines
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients

_SHOWN = 200
"""Characters of a catalog's own words."""
TRIES = 3
"""A commit between two requests moves a table on; more than so many in a row are not waited for."""


@dataclass(frozen=True)
class Catalogs:
    """What catalogs say at `read_at` of the tables that go by them."""

    clients: Clients
    read_at: datetime
    said: Mapping[Pointer, Said]

    @classmethod
    def asked(cls, tables: Sequence[Table], clients: Clients, read_at: datetime) -> "Catalogs":
        """Asks each catalog once; none where no table goes by one."""
        manifests = map(manifest_of, tables)
        pointers = [p for each in manifests if isinstance(each, PointedIceberg) for p in each.pointers]
        return cls(clients, read_at, current_tables(pointers, clients))

    def found(self, table: Table, pointers: Sequence[Pointer], until: datetime | None) -> Found:
        """The table's metadata. What seems wrong is asked for again, since the table may just have moved on.

        Raises:
            SourceError: the file cannot be asked for.
        """
        said = self.said
        for _ in range(TRIES):
            found = self._found(table, [said[each] for each in pointers], pointers, until)
            if found.metadata is not None:
                return found
            again = current_tables(pointers, self.clients)
            if all(_points_at(again[each]) == _points_at(said[each]) for each in pointers):
                break
            said = again
        return found

    def _found(
        self, table: Table, said: Sequence[Said], pointers: Sequence[Pointer], until: datetime | None
    ) -> Found:
        """The state that all of them point at, or the last one before it up to `until`."""
        place = self._agreed(said, pointers)
        if isinstance(place, str):
            return Found(
                table, self.read_at, refused=place, named=True, two_lines=self._two_lines(said, pointers)
            )
        try:
            found = self._read(table, place, f"{_called(pointers[0])} points at", _called(pointers[0]))
        except SourceError as error:  # named as the catalog names it: `gs://` is no bucket of S3
            raise SourceError(
                _uri(said[0]) or error.where, error.what, error.hint, error.retryable
            ) from error
        if found.missing is not None:
            found = replace(found, missing=self._restored(found.missing, place, said))
        if until is not None and found.metadata is not None and found.metadata.updated_at > until:
            found = self._earlier(table, found.metadata, until)
        previous = tuple(
            each.previous_location
            for each in said
            if isinstance(each, CatalogTable) and each.previous_location
        )
        return replace(found, elsewhere=_elsewhere(table, said, pointers), previous=previous)

    def _agreed(self, said: Sequence[Said], pointers: Sequence[Pointer]) -> Location | str:
        """Where the metadata.json lies that all of them name, or why there is none."""
        places: dict[Location, Pointer] = {}
        for pointer, each in zip(pointers, said, strict=True):
            if isinstance(each, SourceError):
                return f"{_called(pointer)}: {each.what}"
            place = place_of(each.metadata_location, self.clients.names)
            if place is None or not place.key:
                named = one_line(each.metadata_location, _SHOWN)
                unknown = f"{_called(pointer)} names no metadata.json in a store that is known"
                return f"{unknown}: {named}" if named else unknown
            if why := self.clients.why_unserved(each.metadata_location, place.bucket):
                return f"{_called(pointer)} points at another cloud: {one_line(why)}"
            places.setdefault(place, pointer)
        told = [f"{_called(pointer)} points at {place.uri}" for place, pointer in places.items()]
        return f"catalogs disagree: {'; '.join(told)}" if len(told) > 1 else next(iter(places))

    def _two_lines(self, said: Sequence[Said], pointers: Sequence[Pointer]) -> str:
        """Both lines of metadata where two catalogs commit to one table; empty where nothing proves that."""
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
                    lines.append((_called(pointer), file.place, content))
            words = (words_of_two_lines(*pair, self.clients) for pair in combinations(lines, 2))
            return next(filter(None, words), "")
        except SourceError:
            return ""

    def _read(self, table: Table, place: Location, named_by: str, called: str) -> Found:
        file = stat_any(self.clients, place)
        if file is None:
            gone = f"{named_by} {place.uri}, which is not there"
            missing = MissingState(ABSENT, place.uri, named_by=called)
            return Found(table, self.read_at, refused=gone, named=True, missing=missing)
        metadata = read_metadata(self.clients, file)
        if isinstance(metadata, UnreadMetadata):
            unread = MissingState(metadata.cause, place.uri, named_by=called) if metadata.cause else None
            return Found(table, self.read_at, file, refused=metadata.reason, named=True, missing=unread)
        return Found(table, self.read_at, file, metadata, named=True, called=called)

    def _restored(self, missing: MissingState, place: Location, said: Sequence[Said]) -> MissingState:
        """The missing state with the metadata.json before it: the one that lies there, else the catalog's own word."""
        named = [each.previous_location for each in said if isinstance(each, CatalogTable)]
        before = state_before(self.clients, place) or next(filter(None, named), "")
        words = f"the metadata.json before it is {before}; point the catalog at it only if this one cannot come back"
        return replace(missing, restore=words if before else "")

    def _earlier(self, table: Table, newest: Metadata, until: datetime) -> Found:
        """The state before: catalogs know no past, but each metadata.json names those that it came after."""
        before = [(at, path) for path, at in newest.old_files if at <= until]
        place = place_of(max(before)[1], self.clients.names) if before else None
        if place is None:
            told = f"its catalog's metadata names no state up to {until.isoformat()}"
            return Found(table, self.read_at, refused=told, named=True)
        found = self._read(table, place, f"its state of {max(before)[0].isoformat()} is", "")
        return replace(found, missing=None)


def _uri(said: Said) -> str:
    return one_line(said.metadata_location, _SHOWN) if isinstance(said, CatalogTable) else ""


def _called(pointer: Pointer) -> str:
    return f"{pointer.store.name} {pointer.name}"


def _points_at(said: Said) -> str:
    return said.metadata_location if isinstance(said, CatalogTable) else said.what


def _elsewhere(table: Table, said: Sequence[Said], pointers: Sequence[Pointer]) -> str | None:
    """Why files below the table's location may be of another one."""
    for pointer, each in zip(pointers, said, strict=True):
        place = each.location if isinstance(each, CatalogTable) else None
        if place is not None and place != table.location:
            return f"{_called(pointer)} lies in {place.uri}, and the lake file names {table.location.uri}"
    return None

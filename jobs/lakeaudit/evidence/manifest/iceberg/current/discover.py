"""Locate the current metadata.json: the one that a catalog or the lake file names, else the newest of its folder.

Without a catalog only the names, the times and the contents of these files show which one is current.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File
from lakeaudit.evidence.lineage import ABSENT, ARCHIVED, TORN, MissingState
from lakeaudit.evidence.manifest.iceberg import PointedIceberg
from lakeaudit.evidence.manifest.iceberg.current.catalogs import Catalogs
from lakeaudit.evidence.manifest.iceberg.current.collapsed_paths import forms, stat_any
from lakeaudit.evidence.manifest.iceberg.current.folder import MOST_NAMES, Folder, previous_state, read_folder
from lakeaudit.evidence.manifest.iceberg.current.foreign import is_home
from lakeaudit.evidence.manifest.iceberg.current.lines import Sound, current, doubts, strangers
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import (
    Content,
    LocatedMetadata,
    UnreadMetadata,
    manifest_of,
    read_metadata,
)
from lakeaudit.evidence.manifest.iceberg.state.metadata import NAME, Metadata, number_of
from lakeaudit.evidence.protocol import Clock, utc_now
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

FOLDER = "metadata"
LOOKED_INTO = 4
"""Most files that are read to find the newest one."""
_THREADS = 16


def find(
    tables: Sequence[Table], clients: Clients, until: datetime | None, clock: Clock
) -> list[LocatedMetadata]:
    """Locate every table's metadata, in its newest state up to `until` (None: now); a refusal stops no other table."""
    catalogs = Catalogs.query(tables, clients, until or clock())
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(partial(_find, clients, until, clock, catalogs), tables))


def probe(table: Table, clients: Clients) -> None:
    """Check that the table's metadata can be located and parsed.

    Raises:
        SourceError: it cannot.
    """
    (found,) = find([table], clients, None, utc_now)
    if found.refused:
        raise SourceError(table.name, found.refused, "check the table's location, or name its `metadata`")


def _find(
    clients: Clients, until: datetime | None, clock: Clock, catalogs: Catalogs, table: Table
) -> LocatedMetadata:
    manifest = manifest_of(table)
    place = manifest.metadata or table.location.join(FOLDER)
    read_at = until or clock()
    try:
        if isinstance(manifest, PointedIceberg):
            found = catalogs.locate(table, manifest.pointers, until)
            return found if until is not None else _with_folder(clients, found)
        if NAME.fullmatch(place.key.rpartition("/")[2]):
            return _at_named_place(clients, until, table, read_at, place)
        return _newest(clients, table, read_at, read_folder(clients, forms(place), until), until)
    except SourceError as error:
        return LocatedMetadata(table, read_at, refused=str(error))


def _at_named_place(
    clients: Clients, until: datetime | None, table: Table, read_at: datetime, place: Location
) -> LocatedMetadata:
    file = stat_any(clients, place)
    if file is None:
        gone = MissingState(ABSENT, place.uri)
        return LocatedMetadata(table, read_at, refused=f"{place.uri} is not there", named=True, missing=gone)
    metadata = read_metadata(clients, file)
    if isinstance(metadata, UnreadMetadata):
        missing = MissingState(metadata.cause, place.uri) if metadata.cause else None
        return LocatedMetadata(table, read_at, file, refused=metadata.reason, named=True, missing=missing)
    if until is not None and metadata.updated_at > until:
        later = f"{place.uri} is of {metadata.updated_at.isoformat()}, which is later than the requested time"
        return LocatedMetadata(table, read_at, file, refused=later, named=True)
    return LocatedMetadata(table, read_at, file, metadata, named=True)


def _newest(
    clients: Clients, table: Table, read_at: datetime, folder: Folder, until: datetime | None
) -> LocatedMetadata:
    """Return the candidate whose line reaches back through the others."""
    if not folder.states:
        return _empty(table, read_at, folder, until)
    read = [(file, read_metadata(clients, file)) for file in _candidates(folder.states)]
    sound = _sound(read)
    if not sound:
        return _unread(table, read_at, folder, read)
    own = _at_home(sound, table, clients)
    file, metadata = current(own or sound)
    others = _with_stranger(clients, file, metadata, [each for each in read if each[0] != file], folder)
    if not own and (own := _at_home(_sound(others), table, clients)):
        everything = [*others, (file, metadata)]
        file, metadata = current(own)
        others = [each for each in everything if each[0] != file]
    doubt = None if own else f"its metadata says that the table is at {metadata.location}"
    return _with_doubt(
        LocatedMetadata(table, read_at, file, metadata, folder=folder, others=tuple(others), doubt=doubt)
    )


def _sound(read: Sequence[tuple[File, Content]]) -> list[Sound]:
    return [(file, content) for file, content in read if isinstance(content, Metadata)]


def _at_home(sound: Sequence[Sound], table: Table, clients: Clients) -> list[Sound]:
    return [each for each in sound if is_home(each[1], table, clients)]


def _empty(table: Table, read_at: datetime, folder: Folder, until: datetime | None) -> LocatedMetadata:
    refused = f"not an Iceberg table: no metadata.json in {folder.place.uri}"
    missing = None if until is not None else MissingState(ABSENT, f"{folder.place.uri}/")
    return LocatedMetadata(table, read_at, refused=refused, missing=missing)


def _unread(
    table: Table, read_at: datetime, folder: Folder, read: Sequence[tuple[File, Content]]
) -> LocatedMetadata:
    """Return a refusal: none of the files that may be the newest can be used."""
    file, content = read[0]
    causes = {each.cause for _, each in read if isinstance(each, UnreadMetadata)}
    refused = content.reason if isinstance(content, UnreadMetadata) else ""
    if not causes <= {TORN, ARCHIVED}:
        return LocatedMetadata(table, read_at, file, refused=refused)
    before = previous_state(folder.states, number_of(file.name) or 0)
    restore = "" if before is None else f"the metadata.json before it is {before.place.uri}"
    missing = MissingState(min(causes), file.place.uri, restore)
    return LocatedMetadata(table, read_at, file, refused=refused, missing=missing)


def _with_folder(clients: Clients, found: LocatedMetadata) -> LocatedMetadata:
    """Add the folder of the file that a catalog names: one listing, and a request if it has a file too many."""
    file, metadata = found.file, found.metadata
    if file is None or metadata is None:
        return found
    place = Location(file.place.bucket, file.place.key.rpartition("/")[0])
    try:
        folder = read_folder(clients, (place,), None, MOST_NAMES)
        number = number_of(file.name)
        if number is None:
            return replace(found, folder=folder)
        higher = [each for each in folder.states if (number_of(each.name) or 0) > number]
        newest = sorted(higher, key=lambda each: (number_of(each.name) or 0, each.modified_at))[-1:]
        read = [(each, read_metadata(clients, each)) for each in newest]
        others = _with_stranger(clients, file, metadata, read, folder)
    except SourceError:
        return found
    return _with_doubt(replace(found, folder=folder, others=tuple(others)))


def _with_stranger(
    clients: Clients, file: File, metadata: Metadata, read: list[tuple[File, Content]], folder: Folder
) -> list[tuple[File, Content]]:
    """Add the newest file that is not part of the line, if there is one."""
    known = {file, *(each for each, _ in read)}
    apart = [each for each in strangers(file, metadata, folder.states) if each not in known][:1]
    return [*read, *((each, read_metadata(clients, each)) for each in apart)]


def _with_doubt(found: LocatedMetadata) -> LocatedMetadata:
    if found.file is None or found.metadata is None or found.folder is None:
        return found
    doubt = next(doubts(found.file, found.metadata, found.others, found.folder.states), None)
    return replace(found, doubt=found.doubt or doubt)


def _candidates(files: Sequence[File]) -> list[File]:
    """Return the newest by number, those of the same number, and the newest by time, which copies do not keep."""
    by_number = sorted(files, key=lambda file: (number_of(file.name) or 0, file.modified_at), reverse=True)
    same = [file for file in by_number if number_of(file.name) == number_of(by_number[0].name)]
    youngest = max(files, key=lambda file: (file.modified_at, number_of(file.name) or 0))
    return list(dict.fromkeys([by_number[0], youngest, *same]))[:LOOKED_INTO]

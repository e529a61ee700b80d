"""Which metadata.json says what a table is: the one a catalog or the lake file names, else the newest of its folder.

Without a catalog nobody but the names, the times and the contents of these files tells which one is current.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial

from lakeaudit.config import PointedIceberg, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files
from lakeaudit.evidence.manifest.iceberg.catalogs import Catalogs
from lakeaudit.evidence.manifest.iceberg.collapsed_paths import forms, stat_any
from lakeaudit.evidence.manifest.iceberg.found import Found, manifest_of, read_metadata
from lakeaudit.evidence.manifest.iceberg.metadata import NAME, Metadata, number_of
from lakeaudit.evidence.protocol import Clock, utc_now
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients

FOLDER = "metadata"
LOOKED_INTO = 4
"""Files that are read to tell which one is the newest."""
_THREADS = 16


def find(tables: Sequence[Table], clients: Clients, until: datetime | None, clock: Clock) -> list[Found]:
    """Every table's metadata, in its newest state up to `until` (None: now); a refused one stops no other."""
    catalogs = Catalogs.asked(tables, clients, until or clock())
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(partial(_find, clients, until, clock, catalogs), tables))


def probe(table: Table, clients: Clients) -> None:
    """The table's metadata can be found and understood.

    Raises:
        SourceError: it cannot.
    """
    (found,) = find([table], clients, None, utc_now)
    if found.refused:
        raise SourceError(table.name, found.refused, "check the table's location, or name its `metadata`")


def _find(clients: Clients, until: datetime | None, clock: Clock, catalogs: Catalogs, table: Table) -> Found:
    manifest = manifest_of(table)
    place = manifest.metadata or table.location.join(FOLDER)
    read_at = until or clock()
    try:
        if isinstance(manifest, PointedIceberg):
            return catalogs.found(table, manifest.pointers, until)
        if NAME.fullmatch(place.key.rpartition("/")[2]):
            return _named(clients, until, table, read_at, place)
        files = [
            file
            for form in forms(place)
            for file in list_files(clients, form, flat=True)
            if number_of(file.name) is not None and (until is None or file.modified_at <= until)
        ]
        return _newest(clients, table, read_at, place, files)
    except SourceError as error:
        return Found(table, read_at, refused=str(error))


def _named(
    clients: Clients, until: datetime | None, table: Table, read_at: datetime, place: Location
) -> Found:
    file = stat_any(clients, place)
    if file is None:
        return Found(table, read_at, refused=f"{place.uri} is not there", named=True)
    metadata = read_metadata(clients, file)
    if isinstance(metadata, str):
        return Found(table, read_at, file, refused=metadata, named=True)
    if until is not None and metadata.updated_at > until:
        later = f"{place.uri} is of {metadata.updated_at.isoformat()}, which is later than was asked for"
        return Found(table, read_at, file, refused=later, named=True)
    return Found(table, read_at, file, metadata, named=True)


def _newest(
    clients: Clients, table: Table, read_at: datetime, folder: Location, files: Sequence[File]
) -> Found:
    """Of the files that may be the newest the one that says so itself."""
    if not files:
        return Found(table, read_at, refused=f"not an Iceberg table: no metadata.json in {folder.uri}")
    read = [(file, read_metadata(clients, file)) for file in _candidates(files)]
    sound = [(file, metadata) for file, metadata in read if isinstance(metadata, Metadata)]
    if not sound:
        return Found(table, read_at, read[0][0], refused=str(read[0][1]))
    file, metadata = max(sound, key=lambda each: (each[1].updated_at, number_of(each[0].name), each[0].name))
    return Found(table, read_at, file, metadata, doubt=_doubt(file, metadata, read))


def _candidates(files: Sequence[File]) -> list[File]:
    """The newest by number, those of the same number, and the newest by time, which copies do not keep."""
    by_number = sorted(files, key=lambda file: (number_of(file.name) or 0, file.modified_at), reverse=True)
    same = [file for file in by_number if number_of(file.name) == number_of(by_number[0].name)]
    youngest = max(files, key=lambda file: (file.modified_at, number_of(file.name) or 0))
    return list(dict.fromkeys([by_number[0], youngest, *same]))[:LOOKED_INTO]


def _doubt(file: File, metadata: Metadata, read: Sequence[tuple[File, Metadata | str]]) -> str | None:
    return next(_doubts(file, metadata, read), None)


def _doubts(file: File, metadata: Metadata, read: Sequence[tuple[File, Metadata | str]]) -> Iterator[str]:
    for other, told in read:
        if other == file:
            continue
        if isinstance(told, str):
            yield f"{told}; {file.name} was taken for the newest"
        elif told.uuid and metadata.uuid and told.uuid != metadata.uuid:
            yield f"{other.name} is of another table ({told.uuid}), whose files may lie here too"
        elif number_of(other.name) == number_of(file.name):
            yield f"{other.name} and {file.name} claim to be the same step; the later one was taken for committed"

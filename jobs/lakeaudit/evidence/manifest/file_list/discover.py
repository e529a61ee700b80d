"""Locate the lists of plain writer manifests on the driver: one small record for each list, none for its rows."""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, pinned, stat
from lakeaudit.evidence.manifest.file_list import FileListManifest
from lakeaudit.evidence.manifest.file_list.read_lines import SUFFIX, ListFile
from lakeaudit.keys import HIDDEN, Aliases, Location
from lakeaudit.runtime.connections.aws import Clients

LISTERS = 8


@dataclass(frozen=True)
class TableLists:
    """Holds the lists of one table in no order, or in one line why they cannot be read."""

    table: Table
    files: tuple[tuple[FileListManifest, File], ...] = ()
    warnings: tuple[str, ...] = ()
    refused: str | None = None
    empty: Location | None = None
    """The place that was listed and is empty."""


def manifests_of(table: Table) -> tuple[FileListManifest, ...]:
    """Return the table's plain writer manifests."""
    return tuple(manifest for manifest in table.manifests if isinstance(manifest, FileListManifest))


def find(tables: Sequence[Table], clients: Clients) -> list[TableLists]:
    """Locate the lists of every table that has such a manifest; a failure does not stop the other tables."""
    ours = [table for table in tables if manifests_of(table)]
    with ThreadPoolExecutor(LISTERS) as pool:
        return list(pool.map(partial(_find, clients), ours))


def numbered(table_lists: Iterable[TableLists], aliases: Aliases = ()) -> list[ListFile]:
    """Number all lists in the order of their names, which decides between events of one time."""
    lists = [(lists.table, manifest, file) for lists in table_lists for manifest, file in lists.files]
    lists.sort(key=lambda each: (each[2].place.key, each[2].place.bucket))
    return [
        ListFile(
            table=table.name,
            home=table.location,
            place=file.place,
            number=number,
            modified_at=file.modified_at,
            etag=file.etag,
            whole=manifest.complete,
            size=file.size,
            aliases=aliases,
        )
        for number, (table, manifest, file) in enumerate(lists)
    ]


def digest(table_lists: Sequence[TableLists]) -> str:
    """Identify exactly which lists were read."""
    return pinned((file for lists in table_lists for _, file in lists.files), "lists")


def _find(clients: Clients, table: Table) -> TableLists:
    files: list[tuple[FileListManifest, File]] = []
    warnings: list[str] = []
    try:
        for manifest in manifests_of(table):
            there = list(_there(clients, manifest.location))
            if not there and not _is_folder(manifest.location):
                missing = f"{manifest.location.uri} holds no lists: check the location of the manifest"
                return TableLists(table, refused=missing, empty=manifest.location)
            lists = [file for file in there if _is_list(file.place, manifest.location)]
            files += [(manifest, file) for file in lists]
            warnings += _warnings(table, manifest.location, lists, there)
    except SourceError as error:
        return TableLists(table, refused=str(error))
    return TableLists(table, tuple(files), tuple(warnings))


def _there(clients: Clients, location: Location) -> Iterator[File]:
    """Yield the one list that the location names, or every file below the folder."""
    single = stat(clients, location) if SUFFIX.search(location.key) else None
    if single is not None:
        yield single
    else:
        yield from list_files(clients, location)


def _is_folder(location: Location) -> bool:
    """Return whether it is a local folder, which may be empty; in S3 an empty folder has at most a marker."""
    return location.is_local and Path(location.spark_path).is_dir()


def _below(place: Location, location: Location) -> str:
    return place.key.removeprefix(location.prefix) if place != location else place.key.rpartition("/")[2]


def _is_list(place: Location, location: Location) -> bool:
    """Return whether it is a list by its suffix; hidden files are not finished."""
    below = _below(place, location)
    return bool(SUFFIX.search(below)) and not re.search(HIDDEN, below)


def _warnings(
    table: Table, location: Location, lists: Sequence[File], there: Sequence[File]
) -> Iterator[str]:
    if not lists:
        yield f"{table.name}: {location.uri} holds no list (.jsonl, .json, .csv, .parquet, each also .gz)"
    names = [below for file in there if (below := _below(file.place, location)) and not below.endswith("/")]
    others = sorted(name for name in names if not SUFFIX.search(name) and not re.search(HIDDEN, name))
    if others:
        yield f"{table.name}: {len(others)} files below {location.uri} are not lists by their suffix: {others[0]} ..."

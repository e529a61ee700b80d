"""Check the metadata.json that a catalog points at: whether it exists, and whether newer states supersede it.

A newer file in the folder alone proves nothing: a commit that lost its race leaves one too. A state is superseded if
another catalog's state descends from it, or if at least two newer states do: no writer builds on a state that was never
committed (Iceberg specification, "Optimistic Concurrency"; `metadata-log`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, ensure_bucket, list_files, stat
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import read_metadata
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata, number_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

MOST_NAMES = 50_000
"""The most names of a folder that are listed."""
LOOKED_INTO = 2
"""The number of the newest files of a folder that are read."""


@dataclass(frozen=True)
class Aim:
    """The metadata.json that a catalog points at.

    `there`: it exists in storage; None: not known, for the reason `why`. `metadata` None: it cannot be parsed.
    """

    place: Location
    there: bool | None
    why: str = ""
    metadata: Metadata | None = None


def aim_at(clients: Clients, uri: str) -> Aim | None:
    """Return the file at which a catalog points now; None: its URI does not name a place in a store."""
    place = place_of(uri, clients.names)
    if place is None:
        return None
    if why := clients.why_unserved(uri, place.bucket):
        return Aim(place, None, why)
    try:
        file = stat(clients, place)
        if file is None:
            ensure_bucket(clients, place)
        found = None if file is None else read_metadata(clients, file)
    except SourceError as error:
        return Aim(place, None, error.what)
    return Aim(place, file is not None, metadata=found if isinstance(found, Metadata) else None)


def left_behind(clients: Clients, aim: Aim, others: Sequence[Aim], before: datetime) -> str | None:
    """Return the URI of a state that supersedes this one; None: no such state was found.

    Args:
        clients: the clients that read the folder.
        aim: the file at which a catalog points.
        others: the files at which other catalogs point for the same table.
        before: only files of the folder that were written by then count.
    """
    if aim.metadata is None:
        return None
    for other in others:
        if other.metadata is not None and _came_after(other.metadata, aim, steps=1):
            return other.place.uri
    for file in _newer(clients, aim.place, before):
        found = read_metadata(clients, file)
        if isinstance(found, Metadata) and _came_after(found, aim, steps=2):
            return file.place.uri
    return None


def successor(clients: Clients, aim: Aim) -> str | None:
    """Return the name of the newest state in the folder if it is at least two commits ahead of this one.

    None: there is none, or two files have the highest number, of which one lost its race.
    """
    numbered = list(_higher(clients, aim.place))
    highest = max((number for number, _ in numbered), default=None)
    newest = [file for number, file in numbered if number == highest]
    if len(newest) != 1:
        return None
    found = read_metadata(clients, newest[0])
    return newest[0].name if isinstance(found, Metadata) and _came_after(found, aim, steps=2) else None


def _came_after(newer: Metadata, aim: Aim, steps: int) -> bool:
    """Return whether the newer state is at least so many commits ahead, by its list of earlier states."""
    if aim.metadata is None or not newer.uuid or newer.uuid != aim.metadata.uuid:
        return False
    before = [_place(path) for path, _ in newer.old_files]
    if aim.place in before:
        return len(before) - before.index(aim.place) >= steps
    own = number_of(_name(aim.place))
    numbers = [number_of(_name(place)) for place in before if place is not None]
    return (
        own is not None
        and len(numbers) > 1
        and all(number is not None and number > own for number in numbers)
    )


def _newer(clients: Clients, place: Location, before: datetime) -> Iterator[File]:
    """Yield the files of the folder with the highest numbers."""
    higher = [(number, file) for number, file in _higher(clients, place) if file.modified_at <= before]
    yield from (file for _, file in sorted(higher, key=lambda each: -each[0])[:LOOKED_INTO])


def _higher(clients: Clients, place: Location) -> Iterator[tuple[int, File]]:
    """Yield number and file of the folder's files with a higher number; none if the folder cannot be listed."""
    own = number_of(_name(place))
    folder = Location(place.bucket, place.key.rpartition("/")[0])
    if own is None:
        return
    try:
        listed = list(islice(list_files(clients, folder, flat=True), MOST_NAMES))
    except SourceError:
        return
    for file in listed:
        number = number_of(file.name)
        if number is not None and number > own:
            yield number, file


def _name(place: Location) -> str:
    return place.key.rpartition("/")[2]


def _place(uri: str) -> Location | None:
    try:
        return Location.parse(uri)
    except ValueError:
        return None

"""Read the folder of a table's metadata: its metadata.json files, its manifest lists and its hint, by one listing.

Only tables that live in a file system write `version-hint.text` (`HadoopTableOperations`): it holds a number, or the
name of a metadata.json. Their own readers step forward from it, other readers use it as it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, read_bytes
from lakeaudit.evidence.manifest.iceberg.state.metadata import number_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

HINT = "version-hint.text"
LARGEST_HINT = 1024
MOST_NAMES = 50_000
"""Most names that are read of a folder if a catalog names the file."""
_LIST = re.compile(r"snap-(\d{1,19})-[^/]*\.avro")
_VERSION = re.compile(r"v?(\d{1,18})")


@dataclass(frozen=True)
class Hint:
    """Holds the content of a hint: the number of a metadata.json, and its name if the hint holds that."""

    file: File
    number: int
    name: str = ""


@dataclass(frozen=True)
class Folder:
    """Lists metadata.json files, manifest lists, and the hint if it names a file."""

    place: Location
    states: tuple[File, ...] = ()
    lists: tuple[File, ...] = ()
    hint: Hint | None = None


def read_folder(
    clients: Clients, places: Sequence[Location], until: datetime | None, most: int | None = None
) -> Folder:
    """Read a folder by one listing of each form, and one request if there is a hint.

    Args:
        clients: to read storage.
        places: the folder, in each form of its name.
        until: later files are left out, and the hint, which has no history; None: all count.
        most: how many names are read; None: all.

    Raises:
        SourceError: the folder cannot be listed, or the hint cannot be read.
    """
    states, lists, hint = [], [], None
    files = chain.from_iterable(list_files(clients, place, flat=True) for place in places)
    for file in islice(files, most):
        if until is not None and file.modified_at > until:
            continue
        if number_of(file.name) is not None:
            states.append(file)
        elif snapshot_of(file.name) is not None:
            lists.append(file)
        elif file.name == HINT and until is None:
            hint = read_hint(clients, file)
    return Folder(places[0], tuple(states), tuple(lists), hint)


def read_hint(clients: Clients, file: File) -> Hint | None:
    """Read the hint; None if it is empty or holds something else.

    Raises:
        SourceError: it cannot be read.
    """
    content = read_bytes(clients, file.place, size=file.size) or b""
    text = content[:LARGEST_HINT].decode(errors="replace").strip()
    name = text.rpartition("/")[2]
    if (number := number_of(name)) is not None:
        return Hint(file, number, name)
    plain = _VERSION.fullmatch(text)
    return Hint(file, int(plain[1])) if plain else None


def snapshot_of(name: str) -> int | None:
    """Return the snapshot in the name of a manifest list; None for other files."""
    found = _LIST.fullmatch(name)
    return int(found[1]) if found else None


def previous_state(states: Sequence[File], number: int) -> File | None:
    """Return the newest of the files with a lower number."""
    lower = [file for file in states if (own := number_of(file.name)) is not None and own < number]
    return max(lower, key=lambda file: (number_of(file.name) or 0, file.modified_at), default=None)


def state_before(clients: Clients, place: Location) -> str:
    """Return the URI of the metadata.json before a missing one, in its folder; empty if it is unknown."""
    number = number_of(place.key.rpartition("/")[2])
    if number is None:
        return ""
    beside = Location(place.bucket, place.key.rpartition("/")[0])
    try:
        folder = read_folder(clients, [beside], None, MOST_NAMES)
    except SourceError:
        return ""
    before = previous_state(folder.states, number)
    return "" if before is None else before.place.uri

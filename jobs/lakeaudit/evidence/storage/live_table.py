"""Find the data files of the current state of a table of S3 Metadata, which is an Iceberg table.

Such a table is evidence itself, so the checks of the manifest reader do not apply: here a state is read whole or not at
all, and a state with delete files, which are not supported here, is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from lakeaudit.errors import SourceError, one_line
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.avro.columns import values
from lakeaudit.evidence.files import list_files, read_bytes
from lakeaudit.evidence.manifest.iceberg.current.discover import FOLDER
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of, read_lists
from lakeaudit.evidence.manifest.iceberg.state.metadata import (
    NAME,
    Metadata,
    NotReadable,
    Snapshot,
    number_of,
    parse_metadata,
)
from lakeaudit.evidence.protocol import Engine
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

WAY_OUT = "name the table's metadata.json of now, or its folder"
_DELETED = 2
_FIELDS = (
    ("status",), *(("data_file", name) for name in ("content", "file_format", "file_path", "file_size_in_bytes")),
)  # fmt: skip


@dataclass(frozen=True)
class DataFile:
    """A data file of a state, and its bytes."""

    place: Location
    size: int


@dataclass(frozen=True)
class State:
    """One state of a table: where its metadata lies, and the snapshot."""

    place: Location
    metadata: Metadata
    snapshot: Snapshot

    @property
    def identity(self) -> str:
        return f"{self.place.key.rpartition('/')[2]} snapshot {self.snapshot.id}"


def find_state(clients: Clients, location: Location, as_of: datetime) -> State:
    """The newest state of the main branch that was committed by `as_of`.

    Raises:
        SourceError: there is none, or it cannot be understood.
    """
    place = _metadata_place(clients, location)
    try:
        content = read_bytes(clients, place)
        if content is None:
            raise SourceError(place.uri, "does not exist", WAY_OUT)
        metadata = parse_metadata(content)
    except NotReadable as error:
        raise SourceError(place.uri, str(error), WAY_OUT) from error
    known = {snapshot.id: snapshot for snapshot in metadata.snapshots}
    at = known.get(metadata.current or -1)
    while at is not None and at.at > as_of:
        at = known.get(at.parent or -1)
    if at is None:
        raise SourceError(place.uri, f"has no state of {as_of:%Y-%m-%dT%H:%MZ} or before", WAY_OUT)
    return State(place, metadata, at)


def _metadata_place(clients: Clients, location: Location) -> Location:
    if NAME.fullmatch(location.key.rpartition("/")[2]):
        return location
    numbered = [
        (number, file.modified_at, file.place)
        for file in list_files(clients, location.join(FOLDER), flat=True)
        if (number := number_of(file.name)) is not None
    ]
    if not numbered:
        raise SourceError(location.uri, "holds no metadata.json of an Iceberg table", WAY_OUT)
    return max(numbered)[2]


def data_files(clients: Clients, state: State, engine: Engine) -> list[DataFile]:
    """The data files of a state.

    Raises:
        SourceError: not all of them can be listed, or not all their rows count.
    """
    snapshot = replace(state.snapshot, heads=("main",))
    lists = read_lists([replace(state.metadata, snapshots=(snapshot,))], clients, engine)
    manifests, unread = lists.manifests, lists.unread
    if unread:
        raise SourceError(
            state.place.uri, f"its list of manifests cannot be read: {unread[0].reason}", WAY_OUT
        )
    if any(manifest.deletes for manifest in manifests):
        raise SourceError(
            state.place.uri, "has delete files, which are not understood here", "compact the table"
        )
    named = engine.map(partial(_live_files, clients), [manifest.place for manifest in manifests])
    return [file for files in named for file in files]


def _live_files(clients: Clients, place: Location) -> Sequence[DataFile]:
    try:
        content = read_bytes(clients, place)
        if content is None:
            raise SourceError(place.uri, "the manifest is gone", WAY_OUT)
        return list(_live(clients, place, content))
    except (Torn, LookupError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(
            place.uri, f"the manifest cannot be understood ({one_line(str(error), 80)})", WAY_OUT
        ) from error


def _live(clients: Clients, manifest: Location, content: bytes) -> Iterator[DataFile]:
    for status, kind, file_format, path, size in values(content, *_FIELDS):
        if status is None or path is None:
            raise ValueError("an entry has no status or no path")
        if status == _DELETED:
            continue
        if kind or str(file_format).upper() != "PARQUET":
            raise SourceError(manifest.uri, "names files that are not understood here", "compact the table")
        place = place_of(path, clients.aliases)
        if place is None or type(size) is not int:
            raise ValueError(path[:80])
        yield DataFile(place, size)

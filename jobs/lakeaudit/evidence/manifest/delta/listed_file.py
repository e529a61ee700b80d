"""Read how the newest state of a Delta table lists one file: the entry as its log wrote it, and its last removal."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow.parquet as pq

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.manifest.delta.log.layout import parse, plan
from lakeaudit.evidence.manifest.delta.log.listing import LOG_FOLDER
from lakeaudit.evidence.manifest.delta.log.metadata import NotReadable
from lakeaudit.evidence.manifest.delta.point_lookup import (
    FileReading,
    RequestedFile,
    Row,
    listed_entries,
    require_understood,
)
from lakeaudit.runtime.connections.aws import Clients

RECENT = timedelta(hours=49)
"""How far before the newest commit commits are read one by one, even if there are checkpoints."""

_MAPS = ("partitionValues", "tags")
_PARSED = ("stats_parsed", "partitionValues_parsed")


@dataclass(frozen=True)
class ListedFile:
    """Holds the entries of a file in the newest state.

    Attributes:
        version: of the newest commit.
        adds: the add actions that list it; several if its deletion vectors differ.
        removal: the last remove action of the file; None if the log holds none any more.
        protocol, metadata: the newest of the table.
    """

    version: int
    adds: tuple[Row, ...]
    removal: Row | None
    protocol: Row
    metadata: Row


def read(table: Table, clients: Clients, bucket: str, key: str) -> ListedFile:
    """Read the entries of one file.

    Raises:
        SourceError, NotReadable: the state cannot be read.
    """
    folder = table.location.join(LOG_FOLDER)
    files = [*list_files(clients, folder, flat=True)]
    newest_at = max((file.modified_at for file in files), default=None)
    log = parse(folder, files)
    chosen = plan(log, needed=None if newest_at is None else newest_at - RECENT)
    if chosen is None:
        raise SourceError(folder.uri, "no state can be rebuilt from it", "see `lakeaudit explain`")
    acts, unread, newest = FileReading(
        clients, log, chosen, _Entries(table.location, bucket, key, clients.names)
    ).acts()
    if unread:
        raise NotReadable("; ".join(unread[:3]))
    require_understood(newest)
    listed = listed_entries(acts)
    adds = {act["entry"]: act["action"] for act in acts if act["file"] == "added" and act["entry"] in listed}
    removed = [act["action"] for act in acts if act["file"] == "removed"]
    return ListedFile(
        chosen.newest,
        tuple(adds.values()),
        removed[-1] if removed else None,
        newest["protocol"],
        newest["metaData"],
    )


class _Entries(RequestedFile):
    """Yields the acts of the file, each with the whole action."""

    def acts(self, action: Row) -> Iterator[Row]:
        for act in super().acts(action):
            name = {"added": "add", "removed": "remove"}.get(act["file"])
            if name is not None and "as" not in act:
                yield act | {"action": _plain(action[name])}

    def rows_of(self, file: pq.ParquetFile) -> Iterator[Row]:
        there = file.schema_arrow.names
        names = ("add", "remove", "sidecar", "protocol", "metaData")
        return self._rows_with(file, [name for name in names if name in there])


def _plain(action: Row) -> Row:
    """Return an action as a line of a commit has it: Parquet's maps are pairs, and missing fields are null."""
    found: dict[str, Any] = {name: value for name, value in action.items() if value is not None}
    for name in _PARSED:
        found.pop(name, None)
    for name in _MAPS:
        if isinstance(found.get(name), list):
            found[name] = dict(found[name])
    if isinstance(vector := found.get("deletionVector"), dict):
        found["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return found

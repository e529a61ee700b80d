"""Find a metadata.json that was written twice, whose first content only an older version shows.

If a table lives only in a file system, two writers may write the same `vN.metadata.json`; the second one replaces the
first, whose snapshots no state lists.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.lineage import CONTENT, REPLACED_STATE, Stake, Witness
from lakeaudit.evidence.manifest.iceberg.state.metadata import (
    Metadata,
    NotReadable,
    number_of,
    parse_metadata,
    unpack,
)
from lakeaudit.evidence.manifest.iceberg.state.readings import TableReading
from lakeaudit.evidence.manifest.iceberg.witnesses.lost_states import SAMPLES, added_files, stake_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_OF_WRITING = ("last-updated-ms", "metadata-log", "snapshot-log", "snapshots")
"""Fields in which two writes of one change differ, or that are compared separately."""
_OF_SNAPSHOTS = (
    *("current-snapshot-id", "last-sequence-number", "next-row-id", "refs", "statistics"),
    "partition-statistics",
)
"""Fields that follow from the snapshots."""


@dataclass(frozen=True)
class _Content:
    metadata: Metadata
    plain: Mapping[str, Any]


def replaced_state(read: TableReading, place: Location, version: str, clients: Clients) -> Witness | None:
    """Return a witness if an older version of a state's file has content that its successor and the table lack.

    A version that cannot be understood was torn and written again; one with another table id is of another table.

    Raises:
        SourceError: the store sends an error.
    """
    older, now = _content(place, clients, version), _content(place, clients)
    if older is None or now is None or older.metadata.uuid != now.metadata.uuid:
        return None
    known = {each.id for each in (*now.metadata.snapshots, *read.metadata.snapshots)}
    lost = [each for each in older.metadata.snapshots if each.id not in known]
    what = ", ".join(f"snapshot {each.id}" for each in lost[:SAMPLES]) or _changes(older.plain, now.plain)
    if not what:
        return None
    words = f"{place.uri} was written twice: its object version {version} has {what}, but the current version does not"
    sample = tuple(sorted(added_files(older.metadata, lost[-1], clients))[:SAMPLES]) if lost else ()
    return Witness(
        *(read.name, REPLACED_STATE, (CONTENT,), place.uri, words, number_of(place.key.rpartition("/")[2])),
        stake=stake_of(lost[-1]) if len(lost) == 1 else Stake(),
        version_id=version,
        sample=sample,
    )


def _content(place: Location, clients: Clients, version: str | None = None) -> _Content | None:
    content = read_bytes(clients, place, version)
    try:
        return None if content is None else _Content(parse_metadata(content), json.loads(unpack(content)))
    except (NotReadable, ValueError):
        return None


def _changes(older: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Name the other fields of the table that differ."""
    ids = [{str(each.get("snapshot-id")) for each in one.get("snapshots") or ()} for one in (older, now)]
    ignored = _OF_WRITING if ids[0] == ids[1] else (*_OF_WRITING, *_OF_SNAPSHOTS)
    names = sorted((older.keys() | now.keys()) - {*ignored})
    differing = [name for name in names if older.get(name) != now.get(name)]
    return f"another {' and '.join(differing[:SAMPLES])}" if differing else ""

"""Compare a Delta table with its counterpart: Iceberg metadata of the same files, in `metadata/` of the table's folder.

UniForm converts the log to Iceberg where the table property `delta.universalFormat.enabledFormats` names it, and
enters the converted version as `delta-version` (`IcebergConverter`). XTable converts Iceberg to a Delta log and enters
the time of the source's snapshot as `lastInstantSynced` of the property `XTABLE_METADATA` (`TableSyncMetadata`).
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, read_bytes
from lakeaudit.evidence.lineage import LAGGING_FORMAT, OTHER_FORMAT, Witness
from lakeaudit.evidence.manifest.delta.log.metadata import NO_ACTION
from lakeaudit.evidence.manifest.delta.state.readings import Reading
from lakeaudit.evidence.manifest.iceberg.state.metadata import (
    Metadata,
    NotReadable,
    number_of,
    parse_metadata,
)
from lakeaudit.evidence.manifest.iceberg.witnesses.counterparts import (
    UNIFORM,
    XTABLE,
    synced_to,
    whole_number,
)
from lakeaudit.runtime.connections.aws import Clients

ENABLED_FORMATS = "delta.universalFormat.enabledFormats"
_ICEBERG = "iceberg"
_FOLDER = "metadata"


def lag_witnesses(reading: Reading, clients: Clients, grace: timedelta) -> Iterator[Witness]:
    """Yield a witness if one side has been ahead of the other for longer than the grace.

    This costs one listing and one file, only for a table whose properties declare that it is converted.
    """
    settings = _properties(reading)
    by_uniform = _ICEBERG in settings.get(ENABLED_FORMATS, "").lower().split(",")
    synced = synced_to(settings.get(XTABLE, ""), _ICEBERG)
    if not by_uniform and synced is None:
        return
    try:
        newest = _newest(reading, clients)
        metadata = None if newest is None else parse_metadata(read_bytes(clients, newest.place) or b"")
    except (SourceError, NotReadable):
        return
    if newest is not None and metadata is not None:
        settled = reading.listed.read_at - grace
        words = _iceberg_behind(reading, metadata, settled) if by_uniform else ""
        words = words or _delta_behind(metadata, synced, grace, settled)
        if words:
            yield Witness(reading.listed.name, LAGGING_FORMAT, (OTHER_FORMAT,), newest.place.uri, words)


def _properties(reading: Reading) -> Mapping[str, str]:
    """Return the table properties of the state that was read; an empty dict if they cannot be understood."""
    try:
        settings = json.loads(reading.state.get("metaData", "{}"))["configuration"]
        return {name: value for name, value in settings.items() if isinstance(value, str)}
    except NO_ACTION:
        return {}


def _newest(reading: Reading, clients: Clients) -> File | None:
    """Return the metadata.json with the highest number; the youngest one if several have it."""
    files = list_files(clients, reading.listed.location.join(_FOLDER), flat=True)
    numbered = [(number, file) for file in files if (number := number_of(file.name)) is not None]
    return max(numbered, key=lambda each: (each[0], each[1].modified_at), default=(0, None))[1]


def _iceberg_behind(reading: Reading, metadata: Metadata, settled: datetime) -> str:
    """Say which log versions the Iceberg metadata has lacked since before `settled`; empty if it lacks none."""
    converted, newest = whole_number(metadata.properties.get(UNIFORM, "")), reading.log.newest
    if converted is None or newest is None or newest <= converted:
        return ""
    commits = reading.log.commits
    since = commits.written_at(converted + 1) or commits.written_at(newest)
    if since is None or since > settled:
        return ""
    return f"the Iceberg metadata was converted from Delta version {converted}, but the newest version is {newest}"


def _delta_behind(metadata: Metadata, synced: datetime | None, grace: timedelta, settled: datetime) -> str:
    """Say which source snapshots the converted log has lacked since before `settled`; empty if it lacks none."""
    head = next((each for each in metadata.snapshots if each.id == metadata.current), None)
    if synced is None or head is None or not synced + grace < head.at <= settled:
        return ""
    return (
        f"the Delta log was converted from the snapshot of {synced}, but the newest snapshot is of {head.at}"
    )

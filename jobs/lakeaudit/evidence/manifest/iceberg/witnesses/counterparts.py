"""Compare an Iceberg table with its counterpart: a Delta log of the same files, from which its metadata is converted.

UniForm enters the version of Delta that it has converted as the table property `delta-version` (`IcebergConverter`).
XTable enters the time of the source's commit as `lastInstantSynced` of `XTABLE_METADATA` (`TableSyncMetadata`), in the
properties or in the summary of the newest snapshot.
"""

import json
from collections.abc import Iterator
from datetime import datetime

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files
from lakeaudit.evidence.lineage import LAGGING_FORMAT, OTHER_FORMAT, Witness
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import LocatedMetadata
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata
from lakeaudit.formatting import number
from lakeaudit.runtime.connections.aws import Clients

UNIFORM, XTABLE = "delta-version", "XTABLE_METADATA"
_LOG = "_delta_log"
_DELTA = "delta"
_DIGITS = 20


def lag_witnesses(found: LocatedMetadata, clients: Clients) -> Iterator[Witness]:
    """Yield a witness if the table's Delta log has been ahead of its Iceberg metadata for longer than the grace.

    This costs one listing, only for a table that is converted from Delta.
    """
    if found.metadata is None:
        return
    properties = found.metadata.properties
    version, synced = (
        whole_number(properties.get(UNIFORM, "")),
        synced_to(properties.get(XTABLE) or _summary(found.metadata), _DELTA),
    )
    if version is None and synced is None:
        return
    try:
        newer = list(_newer(found, clients, version, synced))
    except SourceError:
        return
    settled = found.read_at - found.table.settings.grace
    if newer and newer[0].modified_at <= settled:
        at = f"Delta version {version}" if version is not None else f"the source's commit of {synced}"
        words = (
            f"the Iceberg metadata was converted from {at}, but the Delta log has "
            f"{number(len(newer), 'newer commit')}"
        )
        yield Witness(found.table.name, LAGGING_FORMAT, (OTHER_FORMAT,), newer[-1].place.uri, words)


def _newer(
    found: LocatedMetadata, clients: Clients, version: int | None, synced: datetime | None
) -> Iterator[File]:
    """Yield the commits of Delta that the metadata lacks, the oldest first."""
    log = found.table.location.join(_LOG)
    after = "" if version is None else f"{version:020}.json"
    for file in list_files(clients, log, start_after=after, flat=True):
        stem, _, ending = file.name.partition(".")
        if ending != "json" or len(stem) != _DIGITS or not stem.isdigit():
            continue
        if (version is not None and int(stem) > version) or (
            version is None and synced is not None and file.modified_at > synced + found.table.settings.grace
        ):
            yield file


def _summary(metadata: Metadata) -> str:
    newest = next((each for each in metadata.snapshots if each.id == metadata.current), None)
    return newest.summary.get(XTABLE, "") if newest else ""


def whole_number(text: str) -> int | None:
    """Return the version of Delta that a property names; None if it names none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else None


def synced_to(text: str, source: str) -> datetime | None:
    """Return up to which commit of a source of this format XTable has converted; None for any other source."""
    try:
        known = json.loads(text or "{}")
        if str(known.get("sourceTableFormat") or _DELTA).lower() != source:
            return None
        at = datetime.fromisoformat(str(known["lastInstantSynced"]))
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        return None
    return at if at.tzinfo is not None else None

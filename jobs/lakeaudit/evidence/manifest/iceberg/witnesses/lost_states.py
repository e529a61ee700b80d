"""Read an older version of a lost metadata.json: the table of that state, and the files of its newest snapshot."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lakeaudit.evidence.files import read_bytes, stat
from lakeaudit.evidence.lineage import LostContent, Stake
from lakeaudit.evidence.manifest.iceberg.state.claimed_files import OfTable
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of, read_lists
from lakeaudit.evidence.manifest.iceberg.state.manifests import read_manifests
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata, NotReadable, Snapshot, parse_metadata
from lakeaudit.evidence.manifest.iceberg.state.rows import KIND
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients

SAMPLES = 3
MOST_MANIFESTS = 4
"""Most manifests of one snapshot that are read for a sample of its files."""


def lost_content(place: Location, version: str, clients: Clients) -> LostContent | None:
    """Read that version of a metadata.json; None if it cannot be understood, or is missing.

    Raises:
        SourceError: the store sends an error.
    """
    content = read_bytes(clients, place, version)
    try:
        metadata = None if content is None else parse_metadata(content)
    except NotReadable:
        return None
    if metadata is None:
        return None
    newest = next((each for each in metadata.snapshots if each.id == metadata.current), None)
    if newest is None:
        return LostContent(metadata.uuid, Stake())
    undone = newest.list_path is not None and _is_gone(newest.list_path, clients)
    sample = () if undone else tuple(sorted(added_files(metadata, newest, clients))[:SAMPLES])
    return LostContent(metadata.uuid, stake_of(newest), sample, undone)


def stake_of(snapshot: Snapshot) -> Stake:
    """Return the files, rows and bytes that a snapshot added, by its own summary."""
    names = ("added-data-files", "added-records", "added-files-size")
    counts = [snapshot.summary.get(name, "") for name in names]
    return Stake(
        *(int(each) if each.isascii() and each.isdigit() and len(each) < 19 else None for each in counts)
    )


def _is_gone(path: str, clients: Clients) -> bool:
    place = place_of(path, clients.names)
    return place is not None and stat(clients, place) is None


def added_files(metadata: Metadata, newest: Snapshot, clients: Clients) -> Iterator[str]:
    """Yield names of files that the snapshot added, from the first manifests that it wrote."""
    manifests = read_lists([replace(metadata, snapshots=(newest,))], clients).manifests
    own = tuple(each for each in manifests if each.added_by == newest.id)[:MOST_MANIFESTS]
    about = {0: OfTable("", 0, metadata.times)}
    with duck.task_connection() as con:
        for kind, rows in read_manifests(con, own, about, "", clients):
            if kind == KIND and isinstance(rows, pa.Table):
                yield from (
                    row["key"].rpartition("/")[2]
                    for row in rows.to_pylist()
                    if (row["category"], row["commit_id"]) == ("data", str(newest.id))
                    and row["state"] != "gone"
                )

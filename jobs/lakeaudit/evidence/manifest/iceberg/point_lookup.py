"""Look up one file in an Iceberg table: its manifests are read now, on this machine, without an engine."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.iceberg.current.discover import find
from lakeaudit.evidence.manifest.iceberg.state.claimed_files import OfTable
from lakeaudit.evidence.manifest.iceberg.state.lists import read_lists
from lakeaudit.evidence.manifest.iceberg.state.manifests import read_manifests
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata
from lakeaudit.evidence.manifest.iceberg.state.readings import TableReading, own_files
from lakeaudit.evidence.manifest.iceberg.state.rows import FILE, KIND, Manifest
from lakeaudit.evidence.protocol import utc_now
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients

Row = dict[str, Any]
Answer = tuple[str, list[Row], str]
_AT_ONCE = 16
_DID = {"live": "listed", "history": "listed by an older snapshot", "gone": "removed"}


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """Return (answer, history, reason) as `point.LookupResult` holds them."""
    (found,) = find([table], clients, None, utc_now)
    if found.metadata is None:
        return "unknown", [], str(found.refused)
    lists = read_lists([found.metadata], clients)
    manifests, unread = lists.manifests, lists.unread
    reasons = [f"{each.path} {each.reason}" for each in unread]
    rows = [duck.small(FILE, list(own_files(TableReading(found, 0), set(), clients.names)))]
    for kind, batch in _batches(table, found.metadata, manifests, clients):
        if kind == KIND:
            rows.append(batch)
        else:
            reasons += [f"{note['subject']} {note['reason']}" for note in batch.to_pylist()]
    named = pa.concat_tables(
        [each.filter((pc.field("bucket") == bucket) & (pc.field("key") == key)) for each in rows]
    )
    return _answer(named.to_pylist(), reasons)


def _batches(
    table: Table, metadata: Metadata, manifests: list[Manifest], clients: Clients
) -> Iterator[tuple[str, pa.Table]]:
    about = {0: OfTable(table.name, 0, metadata.times)}
    for start in range(0, len(manifests), _AT_ONCE):
        some = tuple(manifests[start : start + _AT_ONCE])
        with duck.task_connection() as con:
            for kind, rows in read_manifests(con, some, about, "", clients):
                if isinstance(rows, pa.Table):
                    yield kind, rows


def _answer(named: list[Row], reasons: list[str]) -> Answer:
    states = {row["state"] for row in named}
    history = [
        {"at": row["at"], "file": _DID[row["state"]], "size": row["size"], "snapshot": row["commit_id"]}
        for row in sorted(named, key=lambda row: (row["at"], row["state"]))
    ]
    if "live" in states:
        return "present", history, ""
    if reasons:
        return "unknown", history, "; ".join(reasons[:3])
    return ("deleted" if states else "absent"), history, ""

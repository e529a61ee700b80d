"""Look up one file in the last storage snapshot: now, on this machine; and check that the snapshot is readable."""

from typing import Any

import pyarrow.compute as pc

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.previous import compared, snapshot_store
from lakeaudit.evidence.manifest.previous.reader import FIRST, folder_of, rules_of
from lakeaudit.evidence.manifest.previous.snapshot_store import TornError
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection

Answer = tuple[str, list[dict[str, Any]], str]


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """Return (answer, history, reason) as `point.LookupResult` holds them."""
    folder = folder_of(table)
    try:
        last = snapshot_store.load(clients, folder)
        if last is None or table.name not in last.tables:
            return "unknown", [], FIRST
        rules, found = rules_of([table]), []
        for file in last.files:
            rows = snapshot_store.read_rows(clients, folder, file)
            mine = rows.filter((pc.field("key") == key) & (pc.field("bucket") == bucket))
            with task_connection() as con:
                found += duck.rows_of(compared.lasting_files(con, mine, rules, whole=last.whole))
    except (TornError, SourceError) as error:
        return "unknown", [], str(error)
    return ("present" if found else "absent"), [_stored_act(row) for row in found], ""


def probe(table: Table, clients: Clients) -> None:
    """Check that the last storage snapshot, if there is one, can be read.

    Raises:
        SourceError: it cannot.
    """
    folder = folder_of(table)
    try:
        snapshot_store.load(clients, folder)
    except TornError as error:
        raise SourceError(
            folder.uri, str(error), "the next audit starts without a storage snapshot"
        ) from error


def _stored_act(row: dict[str, Any]) -> dict[str, Any]:
    """Return the act in the storage snapshot: the file was stored, and was last seen so."""
    return {"at": row["modified_at"], "file": "stored", "size": row["size"], "last seen": row["seen_at"]}

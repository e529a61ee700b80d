"""What the last picture says of one file: read now, on this machine; and whether it can be read at all."""

from typing import Any

import pyarrow.compute as pc

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.previous import compared, kept_picture
from lakeaudit.evidence.manifest.previous.kept_picture import TornError
from lakeaudit.evidence.manifest.previous.reader import FIRST, folder_of, rules_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import task_connection

Answer = tuple[str, list[dict[str, Any]], str]


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """(answer, history, reason) as `point.Told` has them."""
    folder = folder_of(table)
    try:
        last = kept_picture.load(clients, folder)
        if last is None or table.name not in last.tables:
            return "unknown", [], FIRST
        rules, found = rules_of([table]), []
        for file in last.files:
            rows = kept_picture.read_rows(clients, folder, file)
            mine = rows.filter((pc.field("key") == key) & (pc.field("bucket") == bucket))
            with task_connection() as con:
                found += duck.rows_of(compared.pictured(con, mine, rules, whole=last.whole))
    except (TornError, SourceError) as error:
        return "unknown", [], str(error)
    return ("present" if found else "absent"), [_pictured(row) for row in found], ""


def probe(table: Table, clients: Clients) -> None:
    """The last picture, where there is one, can be read.

    Raises:
        SourceError: it cannot.
    """
    folder = folder_of(table)
    try:
        kept_picture.load(clients, folder)
    except TornError as error:
        raise SourceError(folder.uri, str(error), "the next audit begins anew") from error


def _pictured(row: dict[str, Any]) -> dict[str, Any]:
    """The act of which the picture tells: it was stored, and last seen so."""
    return {"at": row["modified_at"], "file": "stored", "size": row["size"], "last seen": row["seen_at"]}

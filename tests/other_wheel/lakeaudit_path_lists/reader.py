"""Reads lists of paths: every line is a claim that the table has the file."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, pinned, read_bytes, stat
from lakeaudit.evidence.protocol import (
    Batches,
    Changes,
    Claims,
    Context,
    Part,
    SnapshotWindow,
    SourceInfo,
    TableState,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, plain_time

KIND = "path_list"


def read(tables: Sequence[Table], ctx: Context, source_id: str) -> Claims:
    """The claims of all tables with a list; each list is a part, which a task reads."""
    files = [_list_of(table, ctx.clients) for table in tables]
    places = ", ".join(_place(table).uri for table in tables)
    return Claims(
        info=SourceInfo(
            source_id, "manifest", KIND, places, pinned(files, "lists"), SnapshotWindow(ctx.now, ctx.now)
        ),
        rows=(
            tuple(
                Part(source_id, partial(_rows, source_id, table, file, ctx.clients), file.size)
                for table, file in zip(tables, files, strict=True)
            ),
        ),
        fold=_claims,
        states={table.name: TableState(table.name, ctx.now, None) for table in tables},
    )


def _rows(source_id: str, table: Table, file: File, clients: Clients, _: Connection) -> Batches:
    same = {
        "source": source_id,
        "manifest_kind": KIND,
        "table_name": table.name,
        "bucket": table.location.bucket,
        "state": "live",
        "certain": True,
        "category": "data",
        "partition_path": "",
        "claimed_at": plain_time(file.modified_at),
        "explained": False,
        "listed": 1,
        "own_root": True,
    }
    rows = [same | {"key": key, "size": size} for key, size in _lines(table, clients)]
    yield "claims", pa.Table.from_pylist(rows, CLAIM)


def _claims(con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """The rows are claims already."""
    return duck.relation(con, rows.get("claims", CLAIM.empty_table()))


def changes(claims: Claims, tables: Sequence[Table], ctx: Context) -> Changes:
    """No changes: the list is written once."""
    schema = pa.schema([(name, pa.string()) for name in ("table_name", "bucket", "key", "state")])
    return Changes(schema.empty_table())


def look_up(table: Table, clients: Clients, bucket: str, key: str) -> tuple[str, list[dict[str, Any]], str]:
    """What the list says of one key."""
    sizes = [size for each, size in _lines(table, clients) if (table.location.bucket, each) == (bucket, key)]
    return ("present" if sizes else "absent"), [{"size": size} for size in sizes], ""


def _place(table: Table) -> Location:
    return next(place for each in table.manifests if each.kind == KIND for place in each.places)


def _list_of(table: Table, clients: Clients) -> File:
    file = stat(clients, _place(table))
    if file is None:
        raise SourceError(_place(table).uri, "there is no list of paths", "correct the location")
    return file


def _lines(table: Table, clients: Clients) -> list[tuple[str, int]]:
    """(key, size) of each line."""
    text = (read_bytes(clients, _place(table)) or b"").decode()
    return [
        (f"{table.location.prefix}{path}", int(size))
        for path, _, size in (line.rpartition(" ") for line in text.splitlines())
    ]

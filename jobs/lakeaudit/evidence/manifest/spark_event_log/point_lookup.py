"""Look up one file in event logs: now, on this machine, together with a listing of its base folder."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.manifest.file_list.point_lookup import Answer, Row, fold_one
from lakeaudit.evidence.manifest.spark_event_log import names, stored_parts
from lakeaudit.evidence.manifest.spark_event_log.reader import Logs, find
from lakeaudit.evidence.manifest.spark_event_log.rows import (
    Homes,
    application_of,
    rows_of,
    without_partitions,
)
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import plain_time


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """Return (answer, history, reason) as `point.LookupResult` holds them."""
    found = find([table], clients)
    if refused := next((each.refused for each in found if each.refused), None):
        return "unknown", [], refused
    base = Location(bucket, without_partitions(key.rpartition("/")[0]))
    tables, lacks = _tables(found, clients)
    return fold_one([*_claimed_rows(tables, _stored_objects(base, clients), key), *lacks], bucket, key)


def _tables(found: list[Logs], clients: Clients) -> tuple[dict[str, pa.Table], list[Row]]:
    tables: dict[str, list[pa.Table]] = {
        "writes": [names.WRITES.empty_table()],
        "splits": [names.SPLITS.empty_table()],
    }
    lacks: list[Row] = []
    for each in found:
        for log in each.logs:
            application, lack = application_of(clients, log)
            for kind, rows in rows_of(application, Homes(each.homes(), clients.names), None, log.written_at):
                tables[kind].append(rows)
            if lack:
                at = plain_time(max(file.file.modified_at for file in log.files))
                lacks.append(_row(log.place.uri, at=at, fault=lack, list_no=0, line=0))
    return {kind: pa.concat_tables(rows) for kind, rows in tables.items()}, lacks


_OBJECT = pa.schema(
    [
        *((name, pa.string()) for name in ("bucket", "key", "reject")),
        ("size", pa.int64()),
        ("modified_at", pa.timestamp("us")),
        ("is_latest", pa.bool_()),
        ("is_delete_marker", pa.bool_()),
    ]
)


def _stored_objects(base: Location, clients: Clients) -> pa.Table:
    files = [
        (file.place.bucket, file.place.key, None, file.size, plain_time(file.modified_at), True, False)
        for file in list_files(clients, base)
    ]
    return duck.small(_OBJECT, files)


def _claimed_rows(tables: dict[str, pa.Table], stored: pa.Table, key: str) -> Iterator[Row]:
    with task_connection() as con:
        everywhere = pa.table(
            {"bucket": stored["bucket"].unique(), "prefix": [""] * len(stored["bucket"].unique())}
        )
        rows = {**tables, "parts": stored_parts.parts(con, stored, everywhere)}
        for kind, made in names.resolved("", con, rows):
            if kind == "events":
                mine = duck.query(con, f"FROM input WHERE key = {duck.literal(key)}", input=made)
                yield from (_row(row["commit_id"], **row) for row in duck.rows_of(mine))
            elif kind == "acts":
                for row in duck.rows_of(duck.relation(con, made)):
                    doubt = None if row["scope_key"] is not None else "what an overwrite emptied is not known"
                    yield _row("", **row, action="replace", fault=doubt)


def _row(where: str, **given: Any) -> Row:
    absent = dict.fromkeys(
        ("bucket", "key", "scope_bucket", "scope_key", "size", "commit_id", "action", "fault")
    )
    return absent | given | {"list": where}

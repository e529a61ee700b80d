"""Read the items of a DynamoDB table as parts: one page or segments of a Scan, or data files of an export."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import fetched
from lakeaudit.evidence.metastore.dynamodb import DynamoTable
from lakeaudit.evidence.metastore.dynamodb.export_files import DataFile, count_fault, export_items
from lakeaudit.evidence.metastore.dynamodb.pages import (
    SEGMENTS_PER_CORE,
    ReadCapacity,
    item_batch,
    only_page,
    scan_pages,
)
from lakeaudit.evidence.metastore.dynamodb.tally import Tally
from lakeaudit.evidence.protocol import Batches, Context, Part, note_row
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint
from lakeaudit.runtime.duck import Connection, DuckError, Rows
from lakeaudit.runtime.failures import damage_of


@dataclass(frozen=True)
class ItemRows:
    """The conversion of a source's items to rows: plain data that travels to the tasks.

    `items` are the attributes that are read, each a struct of its DynamoDB type; `rows` converts a relation of them to
    rows of `kind`, with their tally.
    """

    source: str
    kind: str
    items: pa.Schema
    rows: Callable[[Connection, Rows], tuple[pa.Table, Tally]]


def table_parts(source: DynamoTable, ctx: Context, of: ItemRows) -> list[Part]:
    """Return the parts of a table as it is now: one page if that has all items, else the segments of a Scan.

    Raises:
        SourceError: the table cannot be read.
    """
    units, table = source.way.read_capacity, source.table or ""
    small = None if units else only_page(ctx.clients.dynamodb(dynamodb_endpoint(source.way)), table)
    if small is not None:
        return [Part(of.source, partial(_read_page, of, table, small))]
    total = max(ctx.parallelism, 1) * SEGMENTS_PER_CORE
    share = None if units is None else units / max(ctx.parallelism, 1)
    read = partial(_read_segment, source, ctx.clients, of, total, share)
    return [Part(of.source, partial(read, segment)) for segment in range(total)]


def export_part(file: DataFile, clients: Clients, of: ItemRows, identity: str = "") -> Part:
    """Return the part of one data file of an export."""
    return Part(of.source, partial(_read_file, file, clients, of), file.size, identity, slow=True)


def _read_page(of: ItemRows, table: str, items: Sequence[dict[str, Any]], con: Connection) -> Batches:
    tally = yield from _rows(of, [partial(item_batch, items, of.items)], con)
    yield "notes", note_row(of.source, table, data=tally.data)


def _read_segment(
    source: DynamoTable,
    clients: Clients,
    of: ItemRows,
    total: int,
    units: float | None,
    segment: int,
    con: Connection,
) -> Batches:
    table, pace = source.table or "", None if units is None else ReadCapacity(units)
    subject = f"segment {segment} of {table}"
    try:
        pages = scan_pages(clients.dynamodb(dynamodb_endpoint(source.way)), table, segment, total, pace)
        tally = yield from _rows(of, (partial(item_batch, page, of.items) for page in pages), con)
        yield "notes", note_row(of.source, subject, data=tally.data)
    except (ClientError, BotoCoreError) as error:
        what, hint = explain(error)[:2]
        yield "notes", note_row(of.source, subject, what, data=hint)


def _read_file(file: DataFile, clients: Clients, of: ItemRows, con: Connection) -> Batches:
    try:
        with fetched(clients, file.place) as path:
            if path is None:
                yield "notes", note_row(of.source, file.uri, "does not exist", count=file.items)
                return
            items = partial(export_items, con, path, of.items, zipped=file.zipped)
            tally = yield from _rows(of, [items], con)
            missing = abs(file.items - tally.items)
            fault = count_fault(file, tally)
            yield "notes", note_row(of.source, file.uri, fault, count=missing, data=tally.data)
    except SourceError as error:
        yield "notes", note_row(of.source, file.uri, error.what, count=file.items)
    except (DuckError, OSError) as error:
        reason = f"{damage_of(error)} ({file.size} bytes are stored)"
        yield "notes", note_row(of.source, file.uri, reason, count=file.items)


def _rows(
    of: ItemRows, pages: Iterable[Callable[[], Rows]], con: Connection
) -> Generator[tuple[str, Rows], None, Tally]:
    """Yield the rows of the items; return their tally."""
    tally = Tally()
    for page in pages:
        rows, counted = of.rows(con, page())
        tally.add(counted)
        yield of.kind, rows
    return tally


def failures(notes: Iterable[Any]) -> Iterator[Any]:
    """Return the NOTE rows of parts that could not be read completely."""
    return (note for note in notes if note["reason"] is not None)

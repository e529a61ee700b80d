"""Read a live DynamoDB table: by one request if one page has all items, else by a parallel Scan, one task a segment.

A Scan is not a snapshot: an item that changes while it runs may be read before or after the change, so the window
extends from the first request to the last response. `ConsistentRead` excludes items older than the start of the window.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.dynamodb.pages import (
    SEGMENTS_PER_CORE,
    ReadCapacity,
    item_batch,
    only_page,
    scan_pages,
)
from lakeaudit.evidence.metastore.dynamodb.tally import Tally, tally_of
from lakeaudit.evidence.metastore.s3guard.items import ITEM, EntryRules, counted_entries, entry_rows
from lakeaudit.evidence.protocol import Batches, BufferedRows, Context, Part, note_row
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.duck import Connection


def scan(
    table: str, endpoint: Endpoint, rules: EntryRules, ctx: Context, read_capacity: int | None = None
) -> tuple[BufferedRows, int]:
    """Scan the whole table once; return its entries and the number of items that were read.

    `read_capacity`: read units a second, over all tasks; None: without a limit.

    Raises:
        SourceError: any segment could not be read to its end (the SDK's own retries included).
    """
    small = None if read_capacity else only_page(ctx.clients.dynamodb(endpoint), table)
    if small is not None:
        part = Part(rules.source, partial(read_items, items=small, table=table, rules=rules))
        return ctx.engine.keep([part]), len(small)
    total = max(ctx.parallelism, 1) * SEGMENTS_PER_CORE
    share = None if read_capacity is None else read_capacity / max(ctx.parallelism, 1)
    read = partial(
        read_segment,
        total=total,
        table=table,
        clients=ctx.clients,
        endpoint=endpoint,
        rules=rules,
        read_capacity=share,
    )
    parts = [Part(rules.source, partial(read, segment=segment)) for segment in range(total)]
    kept = ctx.engine.keep(parts)
    failures = [(str(row["reason"]), str(row["data"])) for row in kept.notes if row["reason"] is not None]
    if failures:
        raise SourceError(f"DynamoDB table {table}", *max(failures))
    return kept, tally_of(kept.notes).items


def read_items(con: Connection, *, items: Sequence[dict[str, Any]], table: str, rules: EntryRules) -> Batches:
    """Yield the entries of items that were read already, then a NOTE row with their tally."""
    tally = Tally()
    yield from _entries(con, items, rules, tally)
    yield "notes", note_row(rules.source, table, data=tally.data)


def _entries(con: Connection, page: Sequence[dict[str, Any]], rules: EntryRules, tally: Tally) -> Batches:
    for batch in duck.table(entry_rows(con, item_batch(page, ITEM), rules)).to_batches():
        yield "entries", counted_entries(batch, tally)


def read_segment(
    con: Connection,
    *,
    segment: int,
    total: int,
    table: str,
    clients: Clients,
    endpoint: Endpoint,
    rules: EntryRules,
    read_capacity: float | None = None,
) -> Batches:
    """Yield the entries of one segment, then a NOTE row: the tally of its items, or the failure (`data`: the hint).

    `read_capacity`: this segment's read units a second.
    """
    tally, subject = Tally(), f"segment {segment} of {table}"
    pace = None if read_capacity is None else ReadCapacity(read_capacity)
    try:
        for page in scan_pages(clients.dynamodb(endpoint), table, segment, total, pace):
            yield from _entries(con, page, rules, tally)
    except (ClientError, BotoCoreError) as error:
        what, hint = explain(error)[:2]
        yield "notes", note_row(rules.source, subject, what, count=1, data=hint)
        return
    yield "notes", note_row(rules.source, subject, data=tally.data)

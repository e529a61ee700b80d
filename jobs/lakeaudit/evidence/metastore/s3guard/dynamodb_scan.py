"""A DynamoDB table read live: a parallel Scan, one segment a task.

A Scan is no snapshot: an item that changes while it runs may be seen either way, so the cut is the whole window from
the first request to the last answer. `ConsistentRead` makes sure that nothing older than the cut's start is seen.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.s3guard.items import ITEM, EntryRules, counted_entries, entry_rows
from lakeaudit.evidence.metastore.s3guard.layout import Tally, tally_of
from lakeaudit.evidence.protocol import Batches, Context, Kept, Part, note_row
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients, Endpoint, explain
from lakeaudit.runtime.duck import Connection

SEGMENTS_PER_CORE = 4


def scan(table: str, endpoint: Endpoint, rules: EntryRules, ctx: Context) -> tuple[Kept, int]:
    """Scan the whole table once and keep its entries; with the number of items that were read.

    Raises:
        SourceError: any segment could not be read to its end (the SDK's own retries included).
    """
    total = max(ctx.parallelism, 1) * SEGMENTS_PER_CORE
    read = partial(
        read_segment, total=total, table=table, clients=ctx.clients, endpoint=endpoint, rules=rules
    )
    parts = [Part(rules.source, partial(read, segment=segment)) for segment in range(total)]
    kept = ctx.engine.keep(parts)
    failures = [(str(row["reason"]), str(row["data"])) for row in kept.notes if row["reason"] is not None]
    if failures:
        raise SourceError(f"DynamoDB table {table}", *max(failures))
    return kept, tally_of(kept.notes).items


def read_segment(
    con: Connection,
    *,
    segment: int,
    total: int,
    table: str,
    clients: Clients,
    endpoint: Endpoint,
    rules: EntryRules,
) -> Batches:
    """The entries of one segment, then a NOTE row: the tally of its items, or the failure (`data`: the way out)."""
    tally, subject = Tally(), f"segment {segment} of {table}"
    try:
        for page in _pages(clients.dynamodb(endpoint), table, segment, total):
            for batch in duck.table(entry_rows(con, item_batch(page), rules)).to_batches():
                yield "entries", counted_entries(batch, tally)
    except (ClientError, BotoCoreError) as error:
        what, way_out = explain(error)[:2]
        yield "notes", note_row(rules.source, subject, what, count=1, data=way_out)
        return
    yield "notes", note_row(rules.source, subject, data=tally.data)


def item_batch(items: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Items as the SDK gives them, with the columns of `ITEM`."""
    columns = [pa.array([item.get(field.name) for item in items], field.type) for field in ITEM]
    return pa.RecordBatch.from_arrays(columns, schema=ITEM)


def _pages(client: Any, table: str, segment: int, total: int) -> Iterator[list[dict[str, Any]]]:
    """Only a missing LastEvaluatedKey ends a segment; a page may be empty."""
    request: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": True,
        "Segment": segment,
        "TotalSegments": total,
    }
    while True:
        page = client.scan(**request)
        if page["Items"]:
            yield page["Items"]
        if not page.get("LastEvaluatedKey"):
            return
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

"""Scan a DynamoDB table page by page: requests, limits on read units, and the end of a Scan."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.runtime.connections.aws_failures import BrokenListing, explain
from lakeaudit.runtime.connections.aws_responses import required

SEGMENTS_PER_CORE = 4
FIRST_PAGE = 100
"""Items of the first page of a limited scan, before the cost of an item is known."""


@dataclass
class ReadCapacity:
    """Limits one segment of a scan to a number of read units a second, by the units that each page has consumed.

    A request waits until the limit covers the units that were consumed before; a page costs at most one second's units.
    """

    units: float
    """Read units a second; unused ones are not saved up."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _free_at: float = 0.0
    _limit: int = FIRST_PAGE

    def request(self) -> dict[str, Any]:
        """Wait until the next request may be sent; return the parameters to add to it."""
        self.sleep(max(self._free_at - self.clock(), 0.0))
        return {"ReturnConsumedCapacity": "TOTAL", "Limit": self._limit}

    def consumed(self, page: Mapping[str, Any]) -> None:
        """Count the cost of a page; one unit for each item if the store does not report it."""
        scanned = page.get("ScannedCount", len(required(page, "Items")))
        units = page.get("ConsumedCapacity", {}).get("CapacityUnits", scanned)
        self._free_at = max(self.clock(), self._free_at) + units / self.units
        an_item = units / scanned if scanned else 0.0
        self._limit = max(1, int(self.units / an_item)) if an_item else FIRST_PAGE


def only_page(client: Any, table: str) -> list[dict[str, Any]] | None:
    """Return all items of a table whose Scan ends with its first page; None: there are more."""
    try:
        page = client.scan(TableName=table, ConsistentRead=True)
        items: list[dict[str, Any]] = required(page, "Items")
    except (ClientError, BotoCoreError) as error:
        raise SourceError(f"DynamoDB table {table}", *explain(error)) from error
    return None if page.get("LastEvaluatedKey") else items


def scan_pages(
    client: Any, table: str, segment: int, total: int, pace: ReadCapacity | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Yield the pages of a segment; only a missing LastEvaluatedKey ends it, and a page may be empty."""
    request: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": True,
        "Segment": segment,
        "TotalSegments": total,
    }
    while True:
        page = client.scan(**request, **(pace.request() if pace else {}))
        if pace:
            pace.consumed(page)
        if items := required(page, "Items"):
            yield items
        following = page.get("LastEvaluatedKey")
        if not following:
            return
        if following == request.get("ExclusiveStartKey"):
            raise BrokenListing(reason="the scan does not advance")
        request["ExclusiveStartKey"] = following


def item_batch(items: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return items of the SDK with the columns of a schema: each attribute is a struct of its DynamoDB type."""
    columns = [pa.array([item.get(field.name) for item in items], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

"""Lists the tables of the demo's lake: location, evidence, and role for the breaker."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lakeaudit.demo.server import INVENTORIES, LAKE

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DESCRIPTION = "demo/lake.json"
EVENT_LOGS = "event-logs/"
"""Folder of Spark's event logs."""
GUARD, OLD_GUARD = "demo-s3guard", "demo-old-s3guard"


@dataclass(frozen=True)
class DemoTable:
    """A table of the demo. `kind` is that of its manifest, or none. `guard` names its S3Guard table."""

    name: str
    location: str
    kind: str
    role: str
    guard: str | None = None
    lists: str | None = None

    @property
    def path(self) -> str:
        """Return the table's location for Spark."""
        return f"s3a://{LAKE}/{self.location}"


ORDERS = DemoTable("sales.orders", "warehouse/orders", "delta", "vacuumed", GUARD, "lists/orders/")
CUSTOMERS = DemoTable("sales.customers", "warehouse/customers", "delta", "vectors", GUARD)
STOCK = DemoTable("sales.stock", "warehouse/stock", "delta", "history", GUARD)
CLONE = DemoTable("sales.stock_copy", "warehouse/stock_copy", "delta", "clone", GUARD)
EXPORTS = DemoTable("sales.exports", "warehouse/exports", "none", "exports", GUARD)
PRICES = DemoTable("finance.prices", "lakehouse/prices", "delta", "cleaned")
INVOICES = DemoTable("finance.invoices", "lakehouse/invoices", "delta", "open")
RETURNS = DemoTable("finance.returns", "lakehouse/returns", "delta", "swept")
JOURNAL = DemoTable("finance.journal", "lakehouse/journal", "delta", "broken_log")
EVENTS = DemoTable("raw.events", "raw/events", "file_list", "events", lists="lists/events/")
ERRORS = DemoTable("raw.errors", "raw/events/errors", "file_list", "nested", lists="lists/errors/")
VISITS = DemoTable("raw.visits", "raw/visits", "spark_event_log", "spark_job")
CLICKS = DemoTable("landing.clicks", "landing/clicks", "file_list", "uploads", lists="lists/clicks/")
LEDGER = DemoTable("legacy.ledger", "legacy/ledger", "none", "unreadable", OLD_GUARD)

FLEET = tuple(
    DemoTable(f"fleet.{name}", f"fleet/{name}", "delta", "broken_log")
    for name in ("depots", "drivers", "fuel", "routes", "stops", "tolls", "trips")
)
"""Small Delta tables, each for one act that destroys a log."""
METERS = DemoTable("fleet.meters", "fleet/meters", "delta", "checkpointed")
PARCELS = DemoTable("depot.parcels", "depot/parcels", "iceberg", "broken_line")
PALLETS = DemoTable("depot.pallets", "depot/pallets", "iceberg", "broken_line")
SCANS = DemoTable("depot.scans", "depot/scans", "hudi", "broken_timeline")
BINS = DemoTable("depot.bins", "depot/bins", "delta", "twin")
"""Written as a Delta table; readers use the Iceberg metadata that is converted from its log."""

TABLES = (
    *(ORDERS, CUSTOMERS, STOCK, CLONE, EXPORTS, PRICES, INVOICES, RETURNS, JOURNAL),
    *(EVENTS, ERRORS, VISITS, CLICKS, LEDGER),
    *(*FLEET, METERS, PARCELS, PALLETS, SCANS, BINS),
)


def describe(s3: "S3Client", tables: Iterable[DemoTable] = TABLES) -> None:
    """Write a description of the tables to the bucket, for the breaker, which does not import lakeaudit."""
    described = [asdict(table) for table in tables]
    description = {
        "tables": described,
        "guards": sorted({table["guard"] for table in described if table["guard"]}),
        "inventories": INVENTORIES,
    }
    s3.put_object(Bucket=LAKE, Key=DESCRIPTION, Body=json.dumps(description).encode())

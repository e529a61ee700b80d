"""Whether the table that a file came from is read, so that its silence says that it does not list the file."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.delta import DeltaManifest
from lakeaudit.keys import Location
from lakeaudit.reconcile.execution.origins import Origins, locations_of

FILE = ("b", "warehouse/orders/day=1/late.parquet")
AT = "s3://b/warehouse/orders"
NOT_THERE = "the lake file has no table orders at the location of the file"


def table(name: str = "orders", location: str = AT) -> Table:
    return Table(name=name, location=Location.parse(location), manifests=(DeltaManifest(kind="delta"),))


RECORDED = {"orders": AT}
CASES: dict[str, tuple[tuple[Table, ...], dict[str, str], set[str], str]] = {
    "it was read": ((table(),), RECORDED, {"orders"}, ""),
    "it was read, and no audit recorded where": ((table(),), {}, {"orders"}, ""),
    "renamed, and read": ((table("shop_orders"),), RECORDED, {"shop_orders"}, ""),
    "named twice at its place": ((table(), table("again")), RECORDED, {"orders", "again"}, ""),
    "another table is there too": ((table(), table("clicks", "s3://b/clicks")), RECORDED, {"orders"}, ""),
    "it left the lake file": ((), RECORDED, set(), NOT_THERE),
    "it left, and a table around it was read": (
        (table("all", "s3://b/warehouse"),), RECORDED, {"all"}, NOT_THERE,
    ),
    "it left, and no audit recorded where": ((table("all"),), {}, {"all"}, NOT_THERE),
    "its name is that of another place now": (
        (table(location="s3://b/warehouse/orders_v2"),), RECORDED, {"orders"}, NOT_THERE,
    ),
    "its name is that of a wider place now": ((table(location="s3://b/warehouse"),), RECORDED, {"orders"}, NOT_THERE),
    "audited at another place since": (
        (table(location="s3://b/moved"),), {"orders": "s3://b/moved"}, {"orders"}, NOT_THERE,
    ),
    "it cannot be read": ((table(),), RECORDED, set(), "its table orders cannot be read completely now"),
    "renamed, and cannot be read": ((table("shop_orders"),), RECORDED, {"orders"}, "its table shop_orders cannot"),
    "one of two at its place cannot be read": (
        (table(), table("again")), RECORDED, {"orders"}, "its table again cannot",
    ),
}  # fmt: skip
"""By case the tables of the lake file, the recorded locations, the tables that were read whole, and why it stays."""


@pytest.mark.parametrize("case", CASES)
def test_the_last_of_a_file_stays_until_its_own_table_is_read(case: str) -> None:
    tables, locations, whole, why = CASES[case]
    said = Origins(tables, locations).unread("orders", FILE, whole)
    assert (why in said) if why else said == ""
    assert not said or "or remove the file by hand" in said


def test_the_last_place_counts_where_a_table_was_read() -> None:
    def state(hour: int, location: str | None, standing: str = "read") -> dict[str, Any]:
        at = datetime(2026, 11, 1, hour, tzinfo=UTC)
        return {
            "table_name": "orders",
            "standing": standing,
            "location": location,
            "as_of": at,
            "run_id": "r",
        }

    rows = [state(3, "s3://b/new"), state(1, AT), state(4, None), state(5, "s3://b/host", "elsewhere")]
    assert locations_of(rows) == {"orders": "s3://b/new"}

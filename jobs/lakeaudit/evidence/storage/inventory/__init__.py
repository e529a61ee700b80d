"""Storage as an S3 Inventory report names it: CSV, ORC or Parquet files that one manifest lists."""

from lakeaudit.evidence.storage.inventory.reader import read

__all__ = ["read"]

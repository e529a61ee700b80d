"""Hadoop's S3Guard: a DynamoDB table, scanned live or read from an export."""

from lakeaudit.evidence.metastore.s3guard.layout import layout_fault
from lakeaudit.evidence.metastore.s3guard.reader import get_entry, read

__all__ = ["get_entry", "layout_fault", "read"]

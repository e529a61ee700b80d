"""Iceberg tables: what their own metadata says of every file that a retained snapshot lists."""

from lakeaudit.evidence.manifest.iceberg.changes import changes
from lakeaudit.evidence.manifest.iceberg.discover import probe
from lakeaudit.evidence.manifest.iceberg.reader import read

__all__ = ["changes", "probe", "read"]

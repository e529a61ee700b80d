"""Hudi tables: what their timeline says of every file that they wrote, replaced or removed."""

from lakeaudit.evidence.manifest.hudi.changes import changes
from lakeaudit.evidence.manifest.hudi.reader import read
from lakeaudit.evidence.manifest.hudi.timeline import probe

__all__ = ["changes", "probe", "read"]

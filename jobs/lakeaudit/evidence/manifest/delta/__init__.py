"""Delta tables: what their own logs say of every file they listed, list, or removed."""

from lakeaudit.evidence.manifest.delta.notes import hole_of
from lakeaudit.evidence.manifest.delta.reader import changes, read

__all__ = ["changes", "hole_of", "read"]

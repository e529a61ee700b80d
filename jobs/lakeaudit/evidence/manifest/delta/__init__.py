"""Delta tables: what their own logs say of every file they listed, list, or removed."""

from lakeaudit.evidence.manifest.delta.reader import changes, hole_of, read

__all__ = ["changes", "hole_of", "read"]

"""lakeaudit compares what writers, metadata stores and storage say about every file of a data lake."""

from lakeaudit.emit import WrittenFile, emit

__all__ = ["WrittenFile", "__version__", "emit"]
__version__ = "0.1.0"

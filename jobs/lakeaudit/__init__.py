"""lakeaudit compares what writers, metadata stores and storage say about every file of a data lake."""

__version__ = "0.1.0"

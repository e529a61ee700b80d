"""lakeaudit compares what writers, metadata stores and storage say about every file of a data lake."""

__all__ = ["__version__"]
__version__ = "0.1.0"

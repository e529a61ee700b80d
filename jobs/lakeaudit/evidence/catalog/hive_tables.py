"""Interpret the properties of the Hive Metastore, which Glue uses too: formats, places and partitions of tables.

Sources: Hive's `hive_metastore.thrift` and `StatsSetupConst`; Spark's `HiveExternalCatalog` (`spark.sql.*` properties,
the placeholder of a data source table's path); Hive's `META_TABLE_STORAGE` (`storage_handler`) and `TableType`; Athena,
"Partition projection" (`projection.enabled`); Iceberg's `HiveTableOperations` (`table_type`, `metadata_location`).
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from lakeaudit.evidence.catalog.protocol import HiveTable, Statistics

_PLACEHOLDER = "__PLACEHOLDER__"
_STATISTICS = ("numRows", "numFiles", "totalSize", "recordCount", "objectCount", "sizeKey")
"""The statistics of Hive and Spark, and those of Glue's crawlers."""
_ROWS = ("numRows", "recordCount")
_CONTENT = (*_ROWS, "totalSize", "sizeKey")
Parameters = Mapping[str, str]
PREVIOUS = "previous_metadata_location"
"""The metadata.json that an Iceberg table had before the last commit through this catalog."""


def format_of(parameters: Parameters, input_format: str, table_type: str = "") -> str:
    """Return one of `protocol.FORMATS`; unknown where the location need not hold files with the table's rows."""
    named = {parameters.get(name, "").lower() for name in _FORMAT_KEYS}
    handler = parameters.get("storage_handler", "")
    for name in ("iceberg", "delta", "hudi"):
        if name in named or f".{name}." in input_format.lower() or f".{name}." in handler.lower():
            return name
    # the rows of any other handler (JDBC, HBase, Kafka) lie in its own system; an index has none of its own
    if handler or table_type == "INDEX_TABLE":
        return "unknown"
    # a list of files of a Delta table, for readers without support for Delta: its partitions hold no data
    if input_format.endswith("SymlinkTextInputFormat"):
        return "unknown"
    return "hive"


_FORMAT_KEYS = ("table_type", "spark.sql.sources.provider", "classification")


def location_of(location: str, serde: Parameters) -> str:
    """Return where a table lies: a Spark data source table has a placeholder, and its path in the serde."""
    return serde.get("path", "") if location.endswith(_PLACEHOLDER) else location


def hive_table(parameters: Parameters) -> HiveTable:
    """Return the properties of a plain Hive table."""
    by_readers = parameters.get("projection.enabled", "").lower() == "true"
    provider = parameters.get("spark.sql.sources.provider", "hive").lower()
    listed = provider != "hive" and parameters.get("spark.sql.partitionProvider", "").lower() != "catalog"
    return HiveTable(by_readers or listed, statistics_of(parameters).filled)


def statistics_of(parameters: Parameters) -> Statistics:
    """Return the statistics of a plain Hive table, or of one of its partitions."""
    counts = {
        name: int(parameters[name])
        for name in _STATISTICS
        if parameters.get(name, "").isascii() and parameters.get(name, "").isdigit()
    }
    rows = next((counts[name] for name in _ROWS if counts.get(name)), None)
    content = any(counts.get(name) for name in _CONTENT)
    return Statistics(any(counts.values()) if counts else None, rows, content)


def changed_at(parameters: Parameters, *times: datetime | None) -> datetime | None:
    """Return the latest of the known times and of the last change that Hive, Spark and Athena record."""
    known = [time for time in times if time is not None]
    with suppress(KeyError, ValueError, OverflowError, OSError):
        known.append(datetime.fromtimestamp(int(parameters["transient_lastDdlTime"]), UTC))
    return max(known, default=None)

"""The explicit schemas of Delta's log, and of what this reader makes of it.

Only what an audit needs is read. Whole actions that may hold anything (metaData, protocol, commitInfo) stay JSON text.
"""

_DELETION_VECTOR = "struct<storageType: string, pathOrInlineDv: string, offset: int>"
_ADD = (
    f"path: string, partitionValues: map<string, string>, size: bigint, stats: string, "
    f"deletionVector: {_DELETION_VECTOR}"
)
_REMOVE = (
    f"path: string, deletionTimestamp: bigint, partitionValues: map<string, string>, size: bigint, "
    f"deletionVector: {_DELETION_VECTOR}"
)
_CDC = "path: string, partitionValues: map<string, string>, size: bigint"

LINE_ACTION = (
    f"add struct<{_ADD}>, remove struct<{_REMOVE}>, cdc struct<{_CDC}>, "
    "metaData string, protocol string, commitInfo string, broken string"
)
"""One line of a commit or of a JSON checkpoint; `broken` is the line where it could not be parsed."""

CHECKPOINT_ACTION = (
    f"add struct<{_ADD}, stats_parsed: struct<numRecords: bigint>>, remove struct<{_REMOVE}>, "
    "metaData struct<schemaString: string, partitionColumns: array<string>, configuration: map<string, string>>, "
    "protocol struct<minReaderVersion: int, minWriterVersion: int, readerFeatures: array<string>, "
    "writerFeatures: array<string>>"
)
"""One row of a Parquet checkpoint or sidecar."""

CHECKPOINT_SIDECARS = "sidecar struct<path: string>"

LINE = "file bigint, in_commit_ms bigint, line string, problem string"
"""A line of a log file, or in `problem` why the file could not be read."""

LOG_FILE = (
    "file bigint, table_name string, version bigint, time timestamp, checkpoint boolean, "
    "root_bucket string, root_prefix string, bucket string, key string"
)
"""A log file that is read: `time` is its commit's, by the file; `root_*` the table's location."""

PARQUET_FILE = "path string, parquet_file bigint"

TABLE = (
    "table_name string, version bigint, base bigint, hole bigint, read_at timestamp, horizon timestamp, "
    "retention interval day to second, in_commit_times_from bigint, "
    "columns array<struct<physical: string, logical: string>>, "
    "vacuums array<struct<version: bigint, cutoff: timestamp>>, root_bucket string, root_prefix string"
)
"""One table as the fold needs it.

`version` is its newest, `base` that of the checkpoint read (-1: from commit 0), `hole` the last version whose actions
are not all known (-1: none).
"""

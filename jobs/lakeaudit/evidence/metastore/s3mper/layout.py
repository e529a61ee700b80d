"""Netflix's s3mper: the DynamoDB table (`ConsistentListingMetastore`) of the files that Hadoop has opened for writing.

An item is one file: path `//bucket/folder` (Netflix/s3mper, DynamoDBMetastore), file its name, epoch the time when it
was added (milliseconds; s3mper's own scripts write seconds), deleted "true" once it was marked as deleted, dir "true"
for a folder, if folders are tracked. Items with the path `epoch` are its index by time. There is no size or ETag.
s3mper checks listings for files that the table has and S3 lacks, never the other way round; items are purged by age.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lakeaudit.evidence.metastore.dynamodb.entries_of_names import NameLayout
from lakeaudit.evidence.metastore.dynamodb.values import time_of

INDEX = "epoch"
"""The path of the index's items."""


def _paths(bucket: str, folder: str) -> Iterator[str]:
    yield f"//{bucket}/{folder}".rstrip("/")


def is_deleted(item: Mapping[str, Any]) -> bool:
    """Return whether an item marks a deletion."""
    return item.get("deleted") == "true"


LAYOUT = NameLayout(
    keys=("path", "file"),
    types={"path": "S", "file": "S", "epoch": "N", "deleted": "S", "dir": "S"},
    path="CASE WHEN starts_with(path.S, '//') THEN substr(path.S, 2) END",
    name="file.S",
    others=f"path.S = '{INDEX}'",
    given={
        "tombstone": "coalesce(deleted.S = 'true', false)",
        "is_dir": "coalesce(dir.S = 'true', false)",
        "last_updated": time_of("epoch"),
        "last_updated_given": "true",
    },
    faults={f"{time_of('epoch')} IS NULL": "epoch is not a time"},
    path_of=_paths,
    writer="s3mper",
)

"""EMRFS's consistent view: the DynamoDB table (`EmrFSMetadata`) in which EMR recorded its writes to S3.

An item is one file or folder: hashKey `/bucket/folder`, rangeKey its name, lastModified (epoch milliseconds of its
last update; some tools write seconds), deletionTTL (epoch seconds at which DynamoDB removes a deleted item; 0 or
absent: none was set), counter and payload. Size, ETag and whether the item is a file, a folder or a deletion are in the
payload, whose format is not published; it is not read. So an item without a deletionTTL is opaque: the entry exists and
has a time, but its type is not known. An item with a deletionTTL is a deletion. Control items have the
hashKey `MultiKeyStoreTag` (EMR Release Guide, "EMRFS CLI reference"; terraform-aws-emr, module aws-emr-emrfs).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lakeaudit.evidence.metastore.dynamodb.entries_of_names import NameLayout
from lakeaudit.evidence.metastore.dynamodb.values import time_of

CONTROL = "MultiKeyStoreTag"

_DELETED = f"coalesce({time_of('deletionTTL')} IS NOT NULL, false)"
_TIMED = f"{time_of('lastModified')} IS NOT NULL"


def _paths(bucket: str, folder: str) -> Iterator[str]:
    yield f"/{bucket}/{folder}".rstrip("/")


def is_deleted(item: Mapping[str, Any]) -> bool:
    """Return whether an item marks a deletion."""
    return bool(item.get("deletionTTL", "0") != "0")


def _no_time(name: str) -> str:
    """Return SQL that is true for an attribute that exists and is not a time; 0 means that it is not set."""
    return f"({name} IS NOT NULL AND {time_of(name)} IS NULL AND coalesce(TRY_CAST({name}.N AS DOUBLE) <> 0, true))"


LAYOUT = NameLayout(
    keys=("hashKey", "rangeKey"),
    types={"hashKey": "S", "rangeKey": "S", "lastModified": "N", "deletionTTL": "N"},
    path="hashKey.S",
    name="rangeKey.S",
    others=f"hashKey.S = '{CONTROL}'",
    given={
        # a deletion without a time may be younger than the storage snapshot, so it proves nothing
        "tombstone": f"{_DELETED} AND {_TIMED}",
        "opaque": f"NOT ({_DELETED} AND {_TIMED})",
        "expired": f"coalesce({time_of('deletionTTL')} <= {{at}}, false)",
        "last_updated": time_of("lastModified"),
        "last_updated_given": _TIMED,
    },
    faults={_no_time(name): f"{name} is not a time" for name in ("lastModified", "deletionTTL")},
    path_of=_paths,
    writer="EMRFS",
)

"""Write commits of one action to Delta tables, on the condition that the version does not exist yet.

A table whose protocol or properties require more from a writer than this module does is refused (Delta protocol,
"Requirements for Writers"). Writers that coordinate commits with DynamoDB overwrite the file of their version (Delta
storage, S3DynamoDBLogStore), so their tables are refused as well.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lakeaudit import __version__
from lakeaudit.config import Lake, Table
from lakeaudit.evidence.manifest.delta.listed_file import ListedFile
from lakeaudit.evidence.manifest.delta.log.listing import LOG_FOLDER
from lakeaudit.reconcile.canary import PUT_IF_ABSENT
from lakeaudit.reconcile.protocol import CannotActSafely, Target

Action = dict[str, Any]

MARK = "lakeaudit"
"""Tag of a remove action with the id of the step."""
_READER, _WRITER = 3, 7
_FEATURES = frozenset(
    {
        *(
            "appendOnly",
            "invariants",
            "checkConstraints",
            "generatedColumns",
            "identityColumns",
            "columnMapping",
        ),
        *("deletionVectors", "changeDataFeed", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
        *("domainMetadata", "clustering", "typeWidening", "typeWidening-preview", "allowColumnDefaults"),
        *("variantType", "variantType-preview", "checkpointProtection"),
    }
)
"""Features that require nothing from a commit that removes or adds a file, if the properties below are off."""
_REFUSED = {
    "delta.appendOnly": "the table is append-only",
    "delta.enableChangeDataFeed": "its change data feed would read the lost file",
    "delta.enableRowTracking": "it tracks rows",
    "delta.enableInCommitTimestamps": "its commits need in-commit timestamps",
    "delta.compatibility.symlinkFormatManifest.enabled": "each commit has to write symlink manifests",
}
"""Properties that require more from a commit if they are `true`."""


def why_not_committed_to(lake: Lake, table: Table, listed: ListedFile) -> str | None:
    """Return why no commit may be written to the table."""
    protocol, settings = listed.protocol, listed.metadata.get("configuration") or {}
    named = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if protocol.get("minReaderVersion", 0) > _READER or protocol.get("minWriterVersion", 0) > _WRITER:
        return "its protocol version is not supported"
    if unknown := sorted(named - _FEATURES):
        return f"its writers need features that are not supported: {', '.join(unknown)}"
    for name, why in _REFUSED.items():
        if str(settings.get(name, "")).lower() == "true":
            return why
    if iceberg := [
        name for name in settings if name.startswith(("delta.universalFormat", "delta.enableIceberg"))
    ]:
        return f"its commits have to write other formats: {iceberg[0]}"
    if any(store.commits_of == "delta" for store in lake.metastores):
        return "its writers coordinate commits with DynamoDB, which lakeaudit does not"
    return _why_not_there(table)


def _why_not_there(table: Table) -> str | None:
    return "its log is not in a bucket" if table.location.is_local else None


def removal_of(add: Mapping[str, Any], action_id: str, at: datetime) -> Action:
    """Return the remove action of an entry; path and deletion vector identify the entry."""
    names = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    known = {name: add[name] for name in names if name in add}
    more = {"deletionTimestamp": _millis(at), "dataChange": True, "extendedFileMetadata": True}
    return {"remove": known | more | {"tags": {MARK: action_id}}}


def addition_of(add: Mapping[str, Any]) -> Action:
    """Return the add action of an entry, as the log had it."""
    return {"add": dict(add) | {"dataChange": True}}


def commit(target: Target, table: Table, read: ListedFile, action: Action, operation: str) -> None:
    """Write the commit after the version that was read.

    Raises:
        CannotActSafely: the store does not refuse to overwrite a commit.
        ClientError, BotoCoreError: the version exists already, or the store refused.
    """
    place = table.location.join(LOG_FOLDER, f"{read.version + 1:020}.json")
    if PUT_IF_ABSENT not in target.forms.honoured(place.bucket):
        raise CannotActSafely("the store does not honour If-None-Match of PutObject")
    info: Action = {
        "timestamp": _millis(target.now),
        "operation": operation,
        "operationParameters": {},
        "readVersion": read.version,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "engineInfo": f"lakeaudit/{__version__}",
    }
    body = "".join(f"{json.dumps(line)}\n" for line in ({"commitInfo": info}, action))
    target.clients.s3(*place).put_object(
        Bucket=place.bucket, Key=place.key, Body=body.encode(), IfNoneMatch="*"
    )


def _millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)

"""Commits to Delta tables of one action each, written only where no other commit has their version.

What a writer has to do beside is asked of a table before (Delta protocol, "Requirements for Writers"): a table whose
protocol or properties ask for more than is done here is refused. A writer that keeps commits apart by DynamoDB writes
its own over any file of its version (Delta storage, S3DynamoDBLogStore), so that such a table is refused as well.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lakeaudit import __version__
from lakeaudit.config import Lake, Table
from lakeaudit.evidence.manifest.delta.listed_file import ListedFile
from lakeaudit.evidence.manifest.delta.listing import LOG_FOLDER
from lakeaudit.reconcile.canary import PUT_IF_ABSENT
from lakeaudit.reconcile.protocol import NotProved, Target

Action = dict[str, Any]

MARK = "lakeaudit"
"""The tag of a remove action that names the step."""
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
"""Features that ask nothing of a commit that takes a file out or back in, where the properties below are off."""
_REFUSED = {
    "delta.appendOnly": "the table is append-only",
    "delta.enableChangeDataFeed": "its change data feed would read the lost file",
    "delta.enableRowTracking": "it tracks rows",
    "delta.enableInCommitTimestamps": "its commits carry times of their own",
    "delta.compatibility.symlinkFormatManifest.enabled": "each commit writes manifests beside",
}
"""Properties that ask for more when they are `true`."""


def why_not_committed_to(lake: Lake, table: Table, listed: ListedFile) -> str | None:
    """Why no commit may be written here."""
    protocol, settings = listed.protocol, listed.metadata.get("configuration") or {}
    named = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if protocol.get("minReaderVersion", 0) > _READER or protocol.get("minWriterVersion", 0) > _WRITER:
        return "its protocol is newer than what is known here"
    if unknown := sorted(named - _FEATURES):
        return f"its writers need what is not done here: {', '.join(unknown)}"
    for name, why in _REFUSED.items():
        if str(settings.get(name, "")).lower() == "true":
            return why
    if iceberg := [
        name for name in settings if name.startswith(("delta.universalFormat", "delta.enableIceberg"))
    ]:
        return f"its commits write for other formats: {iceberg[0]}"
    if any(store.commits_of == "delta" for store in lake.metastores):
        return "writers keep their commits apart by DynamoDB, and this one would not"
    return _why_not_there(table)


def _why_not_there(table: Table) -> str | None:
    return "its log lies in no bucket" if table.location.is_local else None


def removal_of(add: Mapping[str, Any], action_id: str, at: datetime) -> Action:
    """The remove action of an entry: the same path and deletion vector, which are what it is known by."""
    kept = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    known = {name: add[name] for name in kept if name in add}
    told = {"deletionTimestamp": _millis(at), "dataChange": True, "extendedFileMetadata": True}
    return {"remove": known | told | {"tags": {MARK: action_id}}}


def addition_of(add: Mapping[str, Any]) -> Action:
    """The entry again, as the log had it."""
    return {"add": dict(add) | {"dataChange": True}}


def commit(target: Target, table: Table, read: ListedFile, action: Action, operation: str) -> None:
    """Write the commit after the one that was read.

    Raises:
        NotProved: the store does not refuse to write over one.
        ClientError, BotoCoreError: there is one already, or the store's refusal.
    """
    place = table.location.join(LOG_FOLDER, f"{read.version + 1:020}.json")
    if PUT_IF_ABSENT not in target.forms.proved(place.bucket):
        raise NotProved("the store does not honour If-None-Match of PutObject")
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

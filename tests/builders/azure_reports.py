"""Blob inventory reports as Azure's documentation shows them: data files, a manifest and its checksum."""

import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet

BEGUN = datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)
ENDED = BEGUN + timedelta(hours=5)
ACCOUNT = "acme"
Put = Callable[[str, bytes], Any]


def md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()


@dataclass(frozen=True)
class Blob:
    """One line of a report; fields are Azure's names in Python's spelling."""

    name: str
    size: int | None = 5
    modified: datetime | None = datetime(2026, 11, 19, 12, tzinfo=UTC)
    etag: str | None = "0x8DB1EF7D41A2E17"
    md5: str | None = md5(b"hello")
    blob_type: str | None = "BlockBlob"
    tier: str | None = "Hot"
    deleted: bool | None = None
    version: str | None = None
    is_current: bool | None = None
    snapshot: str | None = None
    is_folder: bool | None = None
    metadata: str | None = None
    created: datetime | None = datetime(2026, 11, 18, 12, tzinfo=UTC)


NAMES = {
    "name": "Name",
    "created": "Creation-Time",
    "modified": "Last-Modified",
    "size": "Content-Length",
    "etag": "ETag",
    "md5": "Content-MD5",
    "blob_type": "BlobType",
    "tier": "AccessTier",
    "deleted": "Deleted",
    "version": "VersionId",
    "is_current": "IsCurrentVersion",
    "snapshot": "Snapshot",
    "is_folder": "hdi_isfolder",
    "metadata": "Metadata",
}
COLUMNS = tuple(NAMES.values())
_FIELD = {column: name for name, column in NAMES.items()}
assert {*NAMES} == {each.name for each in fields(Blob)}


def as_csv(blobs: Sequence[Blob], columns: Sequence[str] = COLUMNS) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_text(getattr(each, _FIELD[name])) for name in columns] for each in blobs])
    return out.getvalue().encode()


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}0Z"
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


_TIME, _FLAG = pa.timestamp("ms", tz="UTC"), pa.bool_()
_TYPES = {
    "Content-Length": pa.int64(),
    **dict.fromkeys(("Creation-Time", "Last-Modified"), _TIME),
    **dict.fromkeys(("Deleted", "IsCurrentVersion", "hdi_isfolder"), _FLAG),
}


def as_parquet(blobs: Sequence[Blob], columns: Sequence[str] = COLUMNS, *, millis: bool = False) -> bytes:
    out = io.BytesIO()
    arrays = {
        name: pa.array([getattr(each, _FIELD[name]) for each in blobs], _TYPES.get(name, pa.string()))
        for name in columns
    }
    if millis:
        arrays = {n: a.cast(pa.int64()) if pa.types.is_timestamp(a.type) else a for n, a in arrays.items()}
    pa.parquet.write_table(pa.table(arrays), out)
    return out.getvalue()


def lay(
    put: Put,
    files: Sequence[Sequence[Blob]],
    /,
    *,
    form: str = "csv",
    at: datetime = BEGUN,
    took: timedelta = ENDED - BEGUN,
    rule: str = "nightly",
    columns: Sequence[str] = COLUMNS,
    filters: dict[str, Any] | None = None,
    definition: dict[str, Any] | None = None,
    checksum: str | None = "",
    millis: bool = False,
    **overrides: Any,
) -> str:
    """Write data files, manifest and checksum (None: none yet); the manifest's path. `overrides` replace its fields."""
    folder = f"{at:%Y/%m/%d/%H-%M-%S}/{rule}"
    written = [
        (
            f"{folder}/{rule}_{n}.{form}",
            as_csv(each, columns) if form == "csv" else as_parquet(each, columns, millis=millis),
        )
        for n, each in enumerate(files)
    ]
    for name, content in written:
        put(name, content)
    told = {
        "destinationContainer": "reports",
        "endpoint": f"https://{ACCOUNT}.blob.core.windows.net",
        "files": [{"blob": name, "size": len(content)} for name, content in written],
        "inventoryCompletionTime": f"{at + took:%Y-%m-%dT%H:%M:%SZ}",
        "inventoryStartTime": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "ruleDefinition": {
            "filters": {"blobTypes": ["blockBlob", "appendBlob"], "prefixMatch": ["lake"], **(filters or {})},
            "format": form,
            "objectType": "blob",
            "schedule": "daily",
            "schemaFields": list(columns),
            **(definition or {}),
        },
        "ruleName": rule,
        "status": "Succeeded",
        "summary": {"objectCount": sum(map(len, files)), "totalObjectSize": 5},
        "version": "1.0",
    }
    content = json.dumps(told | overrides).encode()
    put(f"{folder}/{rule}-manifest.json", content)
    if checksum is not None:
        put(f"{folder}/{rule}-manifest.checksum", (checksum or hashlib.md5(content).hexdigest()).encode())
    return f"{folder}/{rule}-manifest.json"

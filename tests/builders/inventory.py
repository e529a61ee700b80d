"""S3 Inventory reports as AWS delivers them: CSV (gzip, every value quoted, keys form-encoded), ORC and Parquet.

Layout, names and spellings follow the two genuine reports in tests/data/inventory.
"""

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

Put = Callable[[str, bytes], None]
"""Writes one object: key and content."""

SCAN = datetime(2024, 5, 7, 1, 0, tzinfo=UTC)
_TIME = pa.timestamp("ms", tz="UTC")
_COLUMNS: dict[str, tuple[str, Any]] = {
    "Bucket": ("bucket", pa.string()),
    "Key": ("key", pa.string()),
    "VersionId": ("version_id", pa.string()),
    "IsLatest": ("is_latest", pa.bool_()),
    "IsDeleteMarker": ("is_delete_marker", pa.bool_()),
    "Size": ("size", pa.int64()),
    "LastModifiedDate": ("last_modified_date", _TIME),
    "ETag": ("e_tag", pa.string()),
    "StorageClass": ("storage_class", pa.string()),
    "IsMultipartUploaded": ("is_multipart_uploaded", pa.bool_()),
    "EncryptionStatus": ("encryption_status", pa.string()),
    "IntelligentTieringAccessTier": ("intelligent_tiering_access_tier", pa.string()),
    "BucketKeyStatus": ("bucket_key_status", pa.string()),
}
ALL = tuple(_COLUMNS)
CURRENT = tuple(name for name in ALL if name not in ("VersionId", "IsLatest", "IsDeleteMarker"))


@dataclass(frozen=True)
class Version:
    """One line of a report; `more` holds columns that S3 Inventory does not have."""

    Key: str
    VersionId: str | None = None
    IsLatest: bool | None = True
    IsDeleteMarker: bool | None = False
    Size: int | None = 5
    LastModifiedDate: datetime | None = datetime(2024, 5, 6, 12, tzinfo=UTC)
    ETag: str | None = "d8e8fca2dc0f896fd7cb4cb0031ba249"
    StorageClass: str | None = "STANDARD"
    IsMultipartUploaded: bool | None = False
    EncryptionStatus: str | None = "SSE-S3"
    IntelligentTieringAccessTier: str | None = None
    BucketKeyStatus: str | None = "DISABLED"
    Bucket: str = "lake"


def deleted(
    key: str, version_id: str, at: datetime | None = None, *, latest: bool = True, bucket: str = "lake"
) -> Version:
    """A delete marker's line: nearly everything is empty."""
    nothing = dict.fromkeys(("Size", "ETag", "StorageClass", "IsMultipartUploaded", "EncryptionStatus"))
    when = at or datetime(2024, 5, 6, 13, tzinfo=UTC)
    return Version(
        key, version_id, latest, IsDeleteMarker=True, LastModifiedDate=when, Bucket=bucket, **nothing
    )


def csv_line(version: Version, columns: Sequence[str] = ALL) -> bytes:
    return (",".join(f'"{_text(name, getattr(version, name))}"' for name in columns) + "\n").encode()


def csv(versions: Sequence[Version], columns: Sequence[str] = ALL) -> bytes:
    return gzip.compress(b"".join(csv_line(version, columns) for version in versions), mtime=0)


def parquet(versions: Sequence[Version], columns: Sequence[str] = ALL) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(_table(versions, columns, _TIME), out)
    return out.getvalue()


def orc(versions: Sequence[Version], columns: Sequence[str] = ALL) -> bytes:
    out = io.BytesIO()
    pa.orc.write_table(_table(versions, columns, pa.timestamp("ms")), out, compression="zlib")
    return out.getvalue()


WRITERS = {"CSV": csv, "ORC": orc, "Parquet": parquet}
_SUFFIX = {"CSV": "csv.gz", "ORC": "orc", "Parquet": "parquet"}


@dataclass(frozen=True)
class ReportKeys:
    """Keys of a report's manifest and of its data files."""

    manifest: str
    data: tuple[str, ...]


def lay(
    put: Put,
    contents: Sequence[bytes],
    *,
    form: str = "CSV",
    columns: Sequence[str] = ALL,
    at: datetime = SCAN,
    under: str = "inv",
    source: str = "lake",
    destination: str = "reports",
    checksum: bool = True,
    **overrides: Any,
) -> ReportKeys:
    """Write data files, manifest and, last, checksum; `overrides` replace fields of the manifest."""
    names = [f"{under}/data/{at:%d%H}-{i}.{_SUFFIX[form]}" for i in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        put(name, content)
    entries = [
        {"key": name, "size": len(content), "MD5checksum": hashlib.md5(content).hexdigest()}
        for name, content in zip(names, contents, strict=True)
    ]
    manifest = {
        "sourceBucket": source,
        "destinationBucket": f"arn:aws:s3:::{destination}",
        "version": "2016-11-30",
        "creationTimestamp": str(int(at.timestamp() * 1000)),
        "fileFormat": form,
        "fileSchema": ", ".join(columns) if form == "CSV" else "not to be read",
        "files": entries,
    }
    folder = f"{under}/{at:%Y-%m-%dT%H-%MZ}"
    content = json.dumps(manifest | overrides).encode()
    put(f"{folder}/manifest.json", content)
    if checksum:
        put(f"{folder}/manifest.checksum", hashlib.md5(content).hexdigest().encode() + b"\n")
    return ReportKeys(f"{folder}/manifest.json", tuple(names))


def into(folder: Path) -> Put:
    """Puts below a local folder."""

    def put(key: str, content: bytes) -> None:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return put


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "Key":
        return quote_plus(value, safe="/")
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:%Y-%m-%dT%H:%M:%S}.000Z" if isinstance(value, datetime) else str(value)


def _table(versions: Sequence[Version], columns: Sequence[str], time: Any) -> Any:
    known = {name: _COLUMNS[name] for name in columns}
    arrays = [
        pa.array([getattr(version, name) for version in versions], _TIME if kind == _TIME else kind).cast(
            time if kind == _TIME else kind
        )
        for name, (_, kind) in known.items()
    ]
    return pa.table(arrays, names=[snake for snake, _ in known.values()])

"""Iceberg tables, written by hand into a local folder."""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro

from lakeaudit.demo.iceberg_files import (
    ADDED,
    AT,
    DATA,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    LIST,
    MANIFEST,
    POSITION_DELETES,
    SPEC,
    UUID,
    Entry,
    Form,
    Manifests,
    Snapshot,
    avro,
    epoch_ms,
    manifest_files,
    metadata_content,
)

__all__ = [
    "ADDED",
    "AT",
    "DATA",
    "DELETED",
    "EQUALITY_DELETES",
    "EXISTING",
    "LIST",
    "MANIFEST",
    "POSITION_DELETES",
    "SPEC",
    "UUID",
    "Entry",
    "Manifests",
    "Snapshot",
    "avro",
    "epoch_ms",
    "write_metadata",
]


def write_metadata(
    home: Path,
    snapshots: Mapping[int, Snapshot],
    *,
    version: int = 2,
    number: int = 1,
    codec: str = "deflate",
    **more: Any,
) -> Path:
    """Write metadata, manifest lists and manifests of a table; return the path of the metadata.json.

    The last snapshot is `main`; `more` are arguments of `metadata_content`.
    """
    folder, form = home / "metadata", Form(f"file://{home}", version, codec)
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in manifest_files(form, snapshots).items():
        (folder / name).write_bytes(body)
    path = folder / f"{number:05}-{UUID}.metadata.json"
    path.write_text(json.dumps(metadata_content(form, snapshots, **more)))
    at = max((one.at for one in snapshots.values()), default=AT)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def relocate(content: bytes, old: str, new: str, sizes: Mapping[str, int]) -> bytes:
    """Return a metadata file with its paths below another place.

    Args:
        sizes: lengths of the manifests that were relocated, by path; a manifest list names them.
    """
    if content.startswith(b"{"):
        return content.replace(old.encode(), new.encode())
    if not content.startswith(b"Obj"):
        return content
    read: Any = fastavro.reader(io.BytesIO(content))
    records = [_with_paths(record, old, new) for record in read]
    for record in records:
        if "manifest_path" in record:
            record["manifest_length"] = sizes[record["manifest_path"]]
    header = {name: text for name, text in read.metadata.items() if not name.startswith("avro.")}
    return avro(read.writer_schema, records, header)


def _with_paths(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, dict):
        return {name: _with_paths(each, old, new) for name, each in value.items()}
    return [_with_paths(each, old, new) for each in value] if isinstance(value, list) else value

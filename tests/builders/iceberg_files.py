"""Iceberg tables laid by hand in a local folder."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
    "written",
]


def written(
    home: Path,
    snapshots: Mapping[int, Snapshot],
    *,
    version: int = 2,
    number: int = 1,
    codec: str = "deflate",
    **more: Any,
) -> Path:
    """The metadata, lists and manifests of a table; main is the last snapshot. Gives the metadata.json.

    `more` is what `metadata_content` takes.
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

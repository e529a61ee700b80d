"""Iceberg tables laid by hand in a local folder: states that no writer leaves, and those of other writers."""

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro

UUID = "11111111-2222-4333-8444-555555555555"
AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2


@dataclass(frozen=True)
class Entry:
    """One entry of a manifest; a path without a slash in front lies in the table's folder `data`."""

    path: str
    size: int = 100
    rows: int = 10
    status: int = ADDED
    snapshot: int | None = None
    content: int = DATA
    day: str | None = "2026-11-01"
    offset: int | None = None


Manifests = Mapping[str, Sequence[Entry]]


@dataclass(frozen=True)
class Snapshot:
    """One state: the manifests of its list by their names, each with the snapshot that wrote it where not this one."""

    manifests: Manifests
    at: datetime = AT
    parent: int | None = None
    wrote: Mapping[str, int] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=lambda: {"operation": "append"})


def epoch_ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def written(
    home: Path,
    snapshots: Mapping[int, Snapshot],
    *,
    version: int = 2,
    refs: Mapping[str, int] | None = None,
    number: int = 1,
    uuid: str = UUID,
    codec: str = "deflate",
    **more: Any,
) -> Path:
    """The metadata, lists and manifests of a table; main is the last snapshot. Gives the metadata.json.

    `more` are other fields of the metadata, by their names with `_` for `-`.
    """
    folder = home / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    blocks = [_snapshot(home, id_, one, version, codec) for id_, one in snapshots.items()]
    last = list(snapshots)[-1] if snapshots else None
    named = {"main": last} if refs is None and last is not None else refs or {}
    at = max((one.at for one in snapshots.values()), default=AT)
    content = {
        "format-version": version, "table-uuid": uuid, "location": f"file://{home}", "last-updated-ms": epoch_ms(at),
        "current-snapshot-id": named.get("main", -1), "snapshots": blocks, "properties": {}, "metadata-log": [],
        "refs": {name: {"snapshot-id": id_, "type": "branch"} for name, id_ in named.items()},
    } | {name.replace("_", "-"): value for name, value in more.items()}  # fmt: skip
    path = folder / f"{number:05}-{UUID}.metadata.json"
    path.write_text(json.dumps(content))
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def _snapshot(home: Path, id_: int, one: Snapshot, version: int, codec: str) -> dict[str, Any]:
    listed = [
        _listed(home, id_, one, name, entries, version, codec) for name, entries in one.manifests.items()
    ]
    path = home / "metadata" / f"snap-{id_}-1.avro"
    path.write_bytes(avro(LIST, listed, {"format-version": str(version)}, codec))
    numbered = {} if version == 1 else {"sequence-number": id_}
    parent = {} if one.parent is None else {"parent-snapshot-id": one.parent}
    return {"snapshot-id": id_, "timestamp-ms": epoch_ms(one.at), "manifest-list": f"file://{path}",
            "summary": one.summary, **numbered, **parent}  # fmt: skip


def _listed(
    home: Path, id_: int, one: Snapshot, name: str, entries: Sequence[Entry], version: int, codec: str
) -> dict[str, Any]:
    path = home / "metadata" / f"{name}.avro"
    wrote = one.wrote.get(name, id_)
    content = int(any(entry.content != DATA for entry in entries))
    header = {"format-version": str(version), "content": ("data", "deletes")[content], **SPEC}
    path.write_bytes(avro(MANIFEST, [_entry(home, entry) for entry in entries], header, codec))
    counts = [sum(entry.status == status for entry in entries) for status in (ADDED, EXISTING, DELETED)]
    return {
        "manifest_path": f"file://{path}", "manifest_length": path.stat().st_size, "partition_spec_id": 0,
        "content": content, "sequence_number": wrote, "min_sequence_number": wrote, "added_snapshot_id": wrote,
        "added_files_count": counts[0], "existing_files_count": counts[1], "deleted_files_count": counts[2],
    }  # fmt: skip


def _entry(home: Path, entry: Entry) -> dict[str, Any]:
    path = (
        entry.path if ":" in entry.path or entry.path.startswith("/") else f"file://{home}/data/{entry.path}"
    )
    return {
        "status": entry.status, "snapshot_id": entry.snapshot, "sequence_number": None,
        "data_file": {"content": entry.content, "file_path": path,
                      "file_format": "PARQUET" if entry.offset is None else "PUFFIN",
                      "partition": {"day": entry.day}, "record_count": entry.rows, "file_size_in_bytes": entry.size,
                      "content_offset": entry.offset},
    }  # fmt: skip


def avro(
    schema: Mapping[str, Any], records: Sequence[Any], header: Mapping[str, str], codec: str = "deflate"
) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, dict(schema), records, codec=codec, metadata=dict(header))
    return out.getvalue()


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": kind} for n, kind in fields.items()],
    }


_MAYBE_LONG = ["null", "long"]
LIST = _record(
    "manifest_file", manifest_path="string", manifest_length="long", partition_spec_id="int", content="int",
    sequence_number="long", min_sequence_number="long", added_snapshot_id="long", added_files_count="int",
    existing_files_count="int", deleted_files_count="int",
)  # fmt: skip
MANIFEST = _record(
    "manifest_entry", status="int", snapshot_id=_MAYBE_LONG, sequence_number=_MAYBE_LONG,
    data_file=_record(
        "r2", content="int", file_path="string", file_format="string",
        partition=_record("r102", day=["null", "string"]), record_count="long", file_size_in_bytes="long",
        content_offset=_MAYBE_LONG,
    ),
)  # fmt: skip
SPEC = {
    "schema": json.dumps({"type": "struct", "fields": [{"id": 1, "name": "day", "type": "string"}]}),
    "partition-spec": json.dumps(
        [{"name": "day", "transform": "identity", "source-id": 1, "field-id": 1000}]
    ),
}

"""Builds metadata.json files, manifest lists and manifests of Iceberg tables by name, without an engine.

So tests and the demo can have states that no writer leaves behind.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro

UUID = "11111111-2222-4333-8444-555555555555"
AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2


@dataclass(frozen=True)
class Entry:
    """One entry of a manifest; a path that is neither absolute nor a URI is below the table's folder `data`."""

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
    """One snapshot: the manifests of its list by name; `wrote` has the snapshots that wrote earlier ones."""

    manifests: Manifests
    at: datetime = AT
    parent: int | None = None
    wrote: Mapping[str, int] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=lambda: {"operation": "append"})


@dataclass(frozen=True)
class Form:
    """The form of a table: the URI of its location, its format version and the codec of its Avro files."""

    home: str
    version: int = 2
    codec: str = "deflate"

    def path(self, name: str) -> str:
        """Return the path of a file of the metadata folder, as the table names it."""
        return f"{self.home}/metadata/{name}"


def epoch_ms(at: datetime) -> int:
    """Return milliseconds since 1970, as Iceberg records times."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def manifest_files(form: Form, snapshots: Mapping[int, Snapshot]) -> dict[str, bytes]:
    """Return the manifests and manifest lists of some snapshots, by their names in the metadata folder."""
    files: dict[str, bytes] = {}
    for id_, one in snapshots.items():
        own = {name: _manifest(form, entries) for name, entries in one.manifests.items()}
        files |= {f"{name}.avro": body for name, body in own.items()}
        listed = [_listed(form, id_, one, name, len(body)) for name, body in own.items()]
        header = {"format-version": str(form.version)}
        files[_list_name(id_)] = avro(LIST, listed, header, form.codec)
    return files


def metadata_content(
    form: Form,
    snapshots: Mapping[int, Snapshot],
    *,
    refs: Mapping[str, int] | None = None,
    uuid: str = UUID,
    **more: Any,
) -> dict[str, Any]:
    """Return the content of metadata.json; main is the last snapshot.

    `more` are other fields of the metadata, by their names with `_` for `-`.
    """
    last = list(snapshots)[-1] if snapshots else None
    named = {"main": last} if refs is None and last is not None else refs or {}
    at = max((one.at for one in snapshots.values()), default=AT)
    return {
        "format-version": form.version, "table-uuid": uuid, "location": form.home, "last-updated-ms": epoch_ms(at),
        "current-snapshot-id": named.get("main", -1), "properties": {}, "metadata-log": [],
        "snapshots": [_snapshot(form, id_, one) for id_, one in snapshots.items()],
        "refs": {name: {"snapshot-id": id_, "type": "branch"} for name, id_ in named.items()},
    } | {name.replace("_", "-"): value for name, value in more.items()}  # fmt: skip


def avro(
    schema: Mapping[str, Any], records: Sequence[Any], header: Mapping[str, str], codec: str = "deflate"
) -> bytes:
    """Return an Avro file."""
    out = io.BytesIO()
    fastavro.writer(out, dict(schema), records, codec=codec, metadata=dict(header))
    return out.getvalue()


def _list_name(snapshot: int) -> str:
    return f"snap-{snapshot}-1.avro"


def _snapshot(form: Form, id_: int, one: Snapshot) -> dict[str, Any]:
    numbered = {} if form.version == 1 else {"sequence-number": id_}
    parent = {} if one.parent is None else {"parent-snapshot-id": one.parent}
    return {"snapshot-id": id_, "timestamp-ms": epoch_ms(one.at), "manifest-list": form.path(_list_name(id_)),
            "summary": one.summary, **numbered, **parent}  # fmt: skip


def _content(entries: Sequence[Entry]) -> int:
    return int(any(entry.content != DATA for entry in entries))


def _manifest(form: Form, entries: Sequence[Entry]) -> bytes:
    header = {"format-version": str(form.version), "content": ("data", "deletes")[_content(entries)], **SPEC}
    return avro(MANIFEST, [_entry(form, entry) for entry in entries], header, form.codec)


def _listed(form: Form, id_: int, one: Snapshot, name: str, length: int) -> dict[str, Any]:
    entries, wrote = one.manifests[name], one.wrote.get(name, id_)
    counts = [sum(entry.status == status for entry in entries) for status in (ADDED, EXISTING, DELETED)]
    return {
        "manifest_path": form.path(f"{name}.avro"), "manifest_length": length, "partition_spec_id": 0,
        "content": _content(entries), "sequence_number": wrote, "min_sequence_number": wrote,
        "added_snapshot_id": wrote, "added_files_count": counts[0], "existing_files_count": counts[1],
        "deleted_files_count": counts[2],
    }  # fmt: skip


def _entry(form: Form, entry: Entry) -> dict[str, Any]:
    whole = ":" in entry.path or entry.path.startswith("/")
    return {
        "status": entry.status, "snapshot_id": entry.snapshot, "sequence_number": None,
        "data_file": {"content": entry.content,
                      "file_path": entry.path if whole else f"{form.home}/data/{entry.path}",
                      "file_format": "PARQUET" if entry.offset is None else "PUFFIN",
                      "partition": {"day": entry.day}, "record_count": entry.rows, "file_size_in_bytes": entry.size,
                      "content_offset": entry.offset},
    }  # fmt: skip


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

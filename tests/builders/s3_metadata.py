"""Tables as S3 Metadata's documentation describes them, written by PyIceberg into a local folder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

UNCOALESCED = "aws.s3metadata.oldest-uncoalesced-record-timestamp"
_TIME, _TEXT = pa.timestamp("us"), pa.string()
_MAP = pa.map_(pa.string(), pa.string())
SHARED = {
    "bucket": _TEXT, "key": _TEXT, "sequence_number": _TEXT, "version_id": _TEXT, "is_delete_marker": pa.bool_(),
    "size": pa.int64(), "last_modified_date": _TIME, "e_tag": _TEXT, "storage_class": _TEXT, "is_multipart": pa.bool_(),
    "encryption_status": _TEXT, "is_bucket_key_enabled": pa.bool_(), "kms_key_arn": _TEXT, "checksum_algorithm": _TEXT,
    "object_tags": _MAP, "user_metadata": _MAP,
}  # fmt: skip
INVENTORY = pa.schema(list(SHARED.items()))
JOURNAL = pa.schema(
    [*SHARED.items(), ("record_type", _TEXT), ("record_timestamp", _TIME), ("requester", _TEXT),
     ("source_ip_address", _TEXT), ("request_id", _TEXT)]
)  # fmt: skip


@dataclass(frozen=True)
class Object:
    """A row of the inventory table, by its columns' names."""

    key: str
    size: int | None = 5
    last_modified_date: datetime | None = datetime(2026, 11, 19, 12, tzinfo=UTC)
    sequence_number: str | None = "0062F0A1B2C3D4E5F6"
    version_id: str | None = None
    is_delete_marker: bool | None = False
    e_tag: str | None = "5d41402abc4b2a76b9719d911017c592"
    storage_class: str | None = "STANDARD"
    is_multipart: bool | None = False
    encryption_status: str | None = "SSE-S3"
    bucket: str | None = "lake"
    user_metadata: Mapping[str, str] = field(default_factory=dict)


def rows(objects: Sequence[Object], schema: pa.Schema = INVENTORY) -> pa.Table:
    plain = [{**asdict(each), "last_modified_date": _plain(each.last_modified_date)} for each in objects]
    return pa.Table.from_pylist(plain, schema)


def _plain(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC).replace(tzinfo=None)


def lay(
    folder: Path,
    appends: Sequence[pa.Table],
    properties: Mapping[str, str] = MappingProxyType({}),
    **more: Any,
) -> Table:
    """A table below a folder, a commit for each append; `more` are other properties, with `_` for `-`."""
    from pyiceberg.catalog.memory import InMemoryCatalog  # takes a second

    catalog = InMemoryCatalog("tests", warehouse=f"file://{folder}")
    catalog.create_namespace("b_lake")
    given = {**properties, **{name.replace("_", "-"): value for name, value in more.items()}}
    table = catalog.create_table("b_lake.inventory", appends[0].schema, location=f"file://{folder}/inventory",
                                 properties=given)  # fmt: skip
    for each in appends:
        table.append(each)
    return table


def dated(table: Table, at: datetime) -> Path:
    """The table's newest metadata.json, whose states were all committed at one time."""
    path = Path(table.metadata_location.removeprefix("file://"))
    told, stamp = json.loads(path.read_text()), int(at.timestamp() * 1000)
    told["snapshots"] = [{**each, "timestamp-ms": stamp} for each in told["snapshots"]]
    path.write_text(json.dumps(told | {"last-updated-ms": stamp}))
    return path

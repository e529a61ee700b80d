"""Inventory reports as Google's Storage Insights writes them: shards of CSV or Parquet, and a manifest."""

import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet

TAKEN = datetime(2026, 11, 20, 1, tzinfo=UTC)
CONFIGURATION = "fc95c52f-157a-494f-af4a-d4a53a69ba66"
Put = Callable[[str, bytes], Any]


def md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()


@dataclass(frozen=True)
class Record:
    """One line of a report, by Google's names."""

    name: str
    size: int | None = 5
    timeCreated: datetime | None = datetime(2026, 11, 19, 12, tzinfo=UTC)  # noqa: N815
    md5Hash: str | None = md5(b"hello")  # noqa: N815
    crc32c: str | None = "mnG7TA=="
    generation: int | None = 1669802400000000
    timeDeleted: datetime | None = None  # noqa: N815
    updated: datetime | None = datetime(2026, 11, 19, 20, tzinfo=UTC)
    storageClass: str | None = "STANDARD"  # noqa: N815
    etag: str | None = "CKC1hpGJycICEAE="
    bucket: str = "lake"
    project: str = "123456789"


COLUMNS = tuple(Record.__dataclass_fields__)


def composed(record: Record) -> Record:
    """An object without an MD5, as composition and uploads in parts leave one."""
    return replace(record, md5Hash=None)


def as_csv(
    records: Sequence[Record], columns: Sequence[str] = COLUMNS, delimiter: str = ",", names: bool = True
) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    if names:
        writer.writerow(columns)
    writer.writerows([[_text(getattr(each, name)) for name in columns] for each in records])
    return out.getvalue().encode()


def _text(value: Any) -> str:
    return (
        f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        if isinstance(value, datetime)
        else str("" if value is None else value)
    )


_TIME = pa.timestamp("us", tz="UTC")
_TYPES = {
    "size": pa.int64(),
    "generation": pa.int64(),
    **dict.fromkeys(("timeCreated", "timeDeleted", "updated"), _TIME),
}


def as_parquet(records: Sequence[Record], columns: Sequence[str] = COLUMNS) -> bytes:
    out = io.BytesIO()
    arrays = {
        name: pa.array([getattr(each, name) for each in records], _TYPES.get(name, pa.string()))
        for name in columns
    }
    pa.parquet.write_table(pa.table(arrays), out)
    return out.getvalue()


WRITERS: dict[str, Callable[..., bytes]] = {"csv": as_csv, "parquet": as_parquet}


def lay(
    put: Put,
    shards: Sequence[Sequence[Record]],
    *,
    form: str = "csv",
    at: datetime = TAKEN,
    under: str = "insights",
    configuration: str = CONFIGURATION,
    columns: Sequence[str] = COLUMNS,
    bucket: str | None = "lake",
    options: Any = None,
    **overrides: Any,
) -> str:
    """Write shards and then the manifest, of which this is the key; `overrides` replace its fields."""
    stem = f"{configuration}_{at:%Y-%m-%dT%H:%M}"
    written = [
        (f"{stem}_{n}.{form}", WRITERS[form](each, columns, **(options or {})))
        for n, each in enumerate(shards)
    ]
    for name, content in written:
        put(f"{under}/{name}", content)
    told = {
        "report_config": {
            "csvOptions": {"delimiter": (options or {}).get("delimiter", ","), "headerRequired": True},
            "objectMetadataReportOptions": {
                "metadataFields": list(columns),
                **({"storageFilters": {"bucket": bucket}} if bucket else {}),
            },
        },
        "records_processed": sum(map(len, shards)),
        "snapshot_time": at.isoformat().replace("+00:00", "Z"),
        "shard_count": len(shards),
        "report_shards_file_names": [name for name, _ in written],
    }
    key = f"{under}/{stem}_manifest.json"
    put(key, json.dumps(told | overrides).encode())
    return key

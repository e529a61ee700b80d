"""Writes the S3 Inventory reports of the demo's bucket as AWS does: all versions, in one of three formats.

Layout, names and types as in the S3 User Guide, "Amazon S3 Inventory" and "Locating your inventory list": data files in
`<source>/<id>/data/`, then `<source>/<id>/<time>/manifest.json`, and last its MD5 in `manifest.checksum`. CSV keys are
form-encoded and every value is quoted; ORC and Parquet keys are raw. Delete markers have no size and no ETag.
"""

import csv
import gzip
import hashlib
import io
import json
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from lakeaudit.demo.server import INVENTORIES, LAKE
from lakeaudit.runtime.connections.aws import Clients

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FORMATS = ("CSV", "ORC", "Parquet")
DATA_FILES = 3
_TIME = pa.timestamp("ms")
_COLUMNS = (
    ("Bucket", "bucket", pa.string()),
    ("Key", "key", pa.string()),
    ("VersionId", "version_id", pa.string()),
    ("IsLatest", "is_latest", pa.bool_()),
    ("IsDeleteMarker", "is_delete_marker", pa.bool_()),
    ("Size", "size", pa.int64()),
    ("LastModifiedDate", "last_modified_date", _TIME),
    ("ETag", "e_tag", pa.string()),
    ("StorageClass", "storage_class", pa.string()),
    ("IsMultipartUploaded", "is_multipart_uploaded", pa.bool_()),
    ("EncryptionStatus", "encryption_status", pa.string()),
)
"""(CSV name, ORC and Parquet name, type)."""


def write_inventory(clients: Clients, rng: Random, at: datetime) -> tuple[str, int]:
    """Write the reports of a scan that began at `at`; return their format and their number of rows."""
    s3 = clients.s3(LAKE)
    kind = rng.choice(FORMATS)
    rows = [_row(version) for version in _versions(s3)]
    rng.shuffle(rows)
    reports = {
        name: [row for row in rows if row["key"].startswith(prefix)]
        for name, prefix in _configured(s3).items()
    }
    for name, named in reports.items():
        _write_report(s3, f"nightly/{LAKE}/{name}", kind, named, at)
    return kind, sum(map(len, reports.values()))


def next_second() -> datetime:
    """Wait for the next whole second and return it: earlier changes are not younger, later ones are not older."""
    time.sleep(1.01 - datetime.now(UTC).microsecond / 1_000_000)
    return datetime.now(UTC).replace(microsecond=0)


def _configured(s3: "S3Client") -> dict[str, str]:
    """Return the prefixes of the bucket's reports by name; without a configuration one report covers everything."""
    configured = s3.list_bucket_inventory_configurations(Bucket=LAKE).get("InventoryConfigurationList", [])
    return {each["Id"]: each["Filter"]["Prefix"] for each in configured} or {"all-versions": ""}


def _write_report(
    s3: "S3Client", prefix: str, kind: str, rows: Sequence[dict[str, Any]], at: datetime
) -> None:
    files = [_data_file(s3, prefix, kind, rows[n::DATA_FILES]) for n in range(DATA_FILES)]
    manifest = {
        "sourceBucket": LAKE,
        "destinationBucket": f"arn:aws:s3:::{INVENTORIES}",
        "version": "2016-11-30",
        "creationTimestamp": str(int(at.timestamp() * 1000)),
        "fileFormat": kind,
        "fileSchema": _schema(kind),
        "files": files,
    }
    body = json.dumps(manifest, indent=1).encode()
    folder = f"{prefix}/{at:%Y-%m-%dT%H-%MZ}"
    s3.put_object(Bucket=INVENTORIES, Key=f"{folder}/manifest.json", Body=body)
    s3.put_object(Bucket=INVENTORIES, Key=f"{folder}/manifest.checksum", Body=f"{_md5(body)}\n".encode())


def _versions(s3: "S3Client") -> list[dict[str, Any]]:
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=LAKE)
    return [dict(v) for page in pages for v in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]]


def _row(version: dict[str, Any]) -> dict[str, Any]:
    """Return one version or delete marker, with the column names of ORC and Parquet."""
    row = {
        "bucket": LAKE,
        "key": version["Key"],
        "version_id": version["VersionId"],
        "is_latest": version["IsLatest"],
        "is_delete_marker": "Size" not in version,
        "last_modified_date": version["LastModified"].astimezone(UTC),
    }
    if row["is_delete_marker"]:
        return row
    etag = version["ETag"].strip('"')
    return row | {
        "size": version["Size"],
        "e_tag": etag,
        "storage_class": version["StorageClass"],
        "is_multipart_uploaded": "-" in etag,
        "encryption_status": "NOT-SSE",
    }


def _data_file(s3: "S3Client", prefix: str, kind: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    suffix = {"CSV": "csv.gz", "ORC": "orc", "Parquet": "parquet"}[kind]
    key = f"{prefix}/data/{uuid.uuid4()}.{suffix}"
    body = _csv(rows) if kind == "CSV" else _columnar(rows, kind)
    s3.put_object(Bucket=INVENTORIES, Key=key, Body=body)
    return {"key": key, "size": len(body), "MD5checksum": _md5(body)}


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    lines = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in rows:
        lines.writerow([_text(name, row.get(name)) for _, name, _ in _COLUMNS])
    return gzip.compress(text.getvalue().encode())


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.000Z"
    if name == "key":
        return quote_plus(str(value), safe="/")
    return "" if value is None else str(value)


def _columnar(rows: Sequence[dict[str, Any]], kind: str) -> bytes:
    zone = "UTC" if kind == "Parquet" else None
    fields = [(name, pa.timestamp("ms", zone) if type_ == _TIME else type_) for _, name, type_ in _COLUMNS]
    naive = [row | {"last_modified_date": row["last_modified_date"].replace(tzinfo=None)} for row in rows]
    table = pa.Table.from_pylist(naive if zone is None else list(rows), schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    if kind == "ORC":
        orc.write_table(table, sink, compression="zlib")
    else:
        pq.write_table(table, sink)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _schema(kind: str) -> str:
    if kind == "CSV":
        return ", ".join(name for name, _, _ in _COLUMNS)
    if kind == "ORC":
        named = {pa.string(): "string", pa.bool_(): "boolean", pa.int64(): "bigint", _TIME: "timestamp"}
        return f"struct<{','.join(f'{name}:{named[type_]}' for _, name, type_ in _COLUMNS)}>"
    named = {pa.string(): "binary {} (STRING)", pa.bool_(): "boolean {}", pa.int64(): "int64 {}"}
    lines = [
        named.get(type_, "int64 {} (TIMESTAMP(MILLIS,true))").format(name) for _, name, type_ in _COLUMNS
    ]
    return f"message s3.inventory {{ {' '.join(f'optional {line};' for line in lines)} }}"


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()

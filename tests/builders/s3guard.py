"""S3Guard items as Hadoop 3.3 writes them, into a DynamoDB table or an export of one.

What an item carries follows PathMetadataDynamoDBTranslation: a directory has `is_dir` and no times but
`last_updated`; a tombstone looks like an empty file with `is_deleted`; a rename leaves `last_updated` 0 behind.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Item = dict[str, Any]
Put = Callable[[str, bytes], None]
"""Writes one object: key and content."""

BLOCK_SIZE = "33554432"


def millis(at: datetime | None) -> dict[str, str]:
    """A time as S3Guard stores it; None is the 0 that renames leave."""
    return {"N": str(round(at.timestamp() * 1000)) if at else "0"}


def marker(version: int = 100) -> Item:
    return {
        "parent": {"S": "../VERSION"},
        "child": {"S": "../VERSION"},
        "table_version": {"N": str(version)},
        "table_created": {"N": "1600000000000"},
    }


def place(bucket: str, key: str) -> Item:
    parent, _, child = f"/{bucket}/{key}".rpartition("/")
    return {"parent": {"S": parent}, "child": {"S": child}}


def file(
    bucket: str,
    key: str,
    size: int = 100,
    *,
    mod_time: datetime,
    last_updated: datetime | None = None,
    etag: str | None = "9b2cf535f27731c974343645a3985328",
    version_id: str | None = None,
) -> Item:
    item = place(bucket, key) | {
        "file_length": {"N": str(size)},
        "mod_time": millis(mod_time),
        "block_size": {"N": BLOCK_SIZE},
        "is_deleted": {"BOOL": False},
        "last_updated": millis(last_updated),
    }
    item |= {"etag": {"S": etag}} if etag is not None else {}
    return item | ({"version_id": {"S": version_id}} if version_id is not None else {})


def folder(
    bucket: str, key: str, *, last_updated: datetime | None = None, authoritative: bool = False
) -> Item:
    return place(bucket, key) | {
        "is_dir": {"BOOL": True},
        "is_deleted": {"BOOL": False},
        "is_authoritative": {"BOOL": authoritative},
        "last_updated": millis(last_updated),
    }


def tombstone(bucket: str, key: str, *, at: datetime) -> Item:
    return place(bucket, key) | {
        "file_length": {"N": "0"},
        "mod_time": millis(at),
        "block_size": {"N": "0"},
        "is_deleted": {"BOOL": True},
        "last_updated": millis(at),
    }


def without(item: Item, *names: str) -> Item:
    return {name: value for name, value in item.items() if name not in names}


def create_table(client: Any, name: str, items: Iterable[Item], *, version: int | None = 100) -> None:
    """A table of S3Guard's keys with the version marker (None: without it) and the items."""
    client.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "parent", "KeyType": "HASH"},
            {"AttributeName": "child", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "parent", "AttributeType": "S"},
            {"AttributeName": "child", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    put_items(client, name, [*([marker(version)] if version is not None else []), *items])


def put_items(client: Any, table: str, items: Sequence[Item]) -> None:
    for start in range(0, len(items), 25):
        batch = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        client.batch_write_item(RequestItems={table: batch})


def export(
    put: Put,
    items: Sequence[Item],
    *,
    at: datetime,
    table: str = "shop-s3guard",
    prefix: str = "",
    export_id: str | None = None,
    files: int = 2,
    **summary: Any,
) -> str:
    """Write an export as DynamoDB does; return its folder `AWSDynamoDB/<id>`, without the prefix.

    `summary` overrides keys of manifest-summary.json. One more data file than asked for stays empty, as partitions
    without items leave one.
    """
    parts = [items[number::files] for number in range(files)]
    return export_parts(put, [*parts, []], at=at, table=table, prefix=prefix, export_id=export_id, **summary)


def export_parts(
    put: Put,
    parts: Iterable[Sequence[Item]],
    *,
    at: datetime,
    table: str = "shop-s3guard",
    prefix: str = "",
    export_id: str | None = None,
    **summary: Any,
) -> str:
    """The same with the items of each data file, one file after the other."""
    arn = f"arn:aws:dynamodb:us-east-1:123456789012:table/{table}"
    export_id = export_id or f"0{round(at.timestamp() * 1000)}-a1b2c3d4"
    base = f"{prefix}AWSDynamoDB/{export_id}"
    put(f"{base}/_started", b"")
    lines: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        body = b"".join(json.dumps({"Item": item}).encode() + b"\n" for item in part)
        body = gzip.compress(body, compresslevel=6, mtime=0)
        key = f"{base}/data/{number:04d}abcdefghijklmnop.json.gz"
        put(key, body)
        digest = hashlib.md5(body).digest()
        line = {"itemCount": len(part), "md5Checksum": base64.b64encode(digest).decode()}
        lines.append(line | {"etag": f"{digest.hex()}-1", "dataFileS3Key": key})
    with_checksum(put, f"{base}/manifest-files", "".join(json.dumps(line) + "\n" for line in lines).encode())
    time = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = {
        "version": "2020-06-30",
        "exportArn": f"{arn}/export/{export_id}",
        "startTime": time,
        "endTime": time,
        "tableArn": arn,
        "tableId": "12345a12-abcd-123a-ab12-1234abc12345",
        "exportTime": time,
        "s3Bucket": "exports",
        "s3Prefix": prefix or None,
        "s3SseAlgorithm": "AES256",
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": f"{base}/manifest-files.json",
        "billedSizeBytes": 0,
        "itemCount": sum(line["itemCount"] for line in lines),
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "FULL_EXPORT",
    }
    with_checksum(put, f"{base}/manifest-summary", json.dumps(told | summary).encode())
    return f"AWSDynamoDB/{export_id}"


def into(folder: Path) -> Put:
    """Objects become files below a local folder."""

    def put(key: str, body: bytes) -> None:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    return put


def with_checksum(put: Put, name: str, body: bytes) -> None:
    """A manifest and its .checksum."""
    put(f"{name}.json", body)
    put(f"{name}.checksum", base64.b64encode(hashlib.md5(body).digest()))

"""Writes the demo's S3Guard tables, with the rows that Hadoop 3.3 clients would have written for its objects."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakeaudit.demo.server import LAKE
from lakeaudit.demo.tables import EXPORTS, GUARD, OLD_GUARD, TABLES
from lakeaudit.runtime.connections.aws import Clients

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Row = dict[str, dict[str, Any]]
DAY_MS = 86_400_000
VERSION_ROW: Row = {
    "parent": {"S": "../VERSION"},
    "child": {"S": "../VERSION"},
    "table_version": {"N": "100"},
    "table_created": {"N": "1577836800000"},
}
"""The marker of the table's layout; it describes no file."""


def build_stores(clients: Clients) -> int:
    """Create both tables, fill them with rows for all objects of their demo tables, and return the number of rows."""
    dynamodb = clients.dynamodb()
    versions = _versions(clients)
    written = 0
    for name in (GUARD, OLD_GUARD):
        _create(dynamodb, name)
        places = tuple(f"{table.location}/" for table in TABLES if table.guard == name)
        rows = [VERSION_ROW, *_rows(versions, places)]
        _write(dynamodb, name, rows)
        written += len(rows)
    return written


def _versions(clients: Clients) -> list[dict[str, Any]]:
    """Return the latest version or delete marker of every key."""
    pages = clients.s3(LAKE).get_paginator("list_object_versions").paginate(Bucket=LAKE)
    every = [dict(v) for page in pages for v in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]]
    return [version for version in every if version["IsLatest"]]


def _rows(versions: list[dict[str, Any]], places: tuple[str, ...]) -> Iterator[Row]:
    """Yield rows of files, tombstones of deleted files, and rows of every folder above a live file."""
    here = [version for version in versions if version["Key"].startswith(places)]
    live = [version for version in here if "Size" in version]
    folders = {folder for version in live for folder in _folders(version["Key"])}
    newest = max((_ms(version) for version in here), default=0)
    for number, version in enumerate(live):
        if not version["Key"].endswith("/"):
            yield _file(version, number)
    for version in here:
        if "Size" not in version and version["Key"].rstrip("/") not in folders:
            yield _tombstone(version["Key"].rstrip("/"), _ms(version))
    for folder in sorted(folders):
        yield _folder(folder, newest)
    yield from _attempts(places[0], newest)


def _file(version: dict[str, Any], number: int) -> Row:
    """Return a file's row. Clients write their own clock's time; every third file is renamed, with last_updated 0."""
    at = _ms(version) + number % 1000
    renamed = number % 3 == 0
    row: Row = {
        "is_deleted": {"BOOL": False},
        "file_length": {"N": str(version["Size"])},
        "block_size": {"N": "33554432"},
        "mod_time": {"N": str(at)},
        "last_updated": {"N": "0" if renamed else str(at)},
        "etag": {"S": version["ETag"].strip('"')},
    }
    if number % 5:
        row["version_id"] = {"S": version["VersionId"]}
    return _at(version["Key"], row)


def _folder(folder: str, at: int) -> Row:
    """Return a folder's row, authoritative if that is configured, and for some others as if by renames."""
    trusted = f"{folder}/".startswith(f"{EXPORTS.location}/") or len(folder) % 4 == 0
    row: Row = {
        "is_dir": {"BOOL": True},
        "is_deleted": {"BOOL": False},
        "is_authoritative": {"BOOL": trusted},
    }
    return _at(folder, row | {"last_updated": {"N": str(at)}})


def _tombstone(key: str, at: int) -> Row:
    row: Row = {"is_deleted": {"BOOL": True}, "file_length": {"N": "0"}, "block_size": {"N": "0"}}
    return _at(key, row | {"mod_time": {"N": str(at)}, "last_updated": {"N": str(at)}})


def _attempts(place: str, newest: int) -> Iterator[Row]:
    """Yield tombstones of temporary files of committers, some of them expired."""
    for number in range(40):
        key = f"{place}_temporary/0/task_{number:06}_m_000000/part-{number:05}.snappy.parquet"
        yield _tombstone(key, newest - (number % 4) * DAY_MS)


def _folders(key: str) -> Iterator[str]:
    """Yield the key's folders without the bucket's root, which has no row; a marker object is its folder's row."""
    parts = key.split("/")[:-1]
    yield from ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _at(key: str, row: Row) -> Row:
    parent, _, child = f"/{LAKE}/{key}".rpartition("/")
    return row | {"parent": {"S": parent}, "child": {"S": child}}


def _ms(version: dict[str, Any]) -> int:
    return int(version["LastModified"].timestamp()) * 1000


def _create(dynamodb: "DynamoDBClient", name: str) -> None:
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "parent", "KeyType": "HASH"},
            {"AttributeName": "child", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "parent", "AttributeType": "S"},
            {"AttributeName": "child", "AttributeType": "S"},
        ],
    )


def _write(dynamodb: "DynamoDBClient", name: str, rows: Iterable[Row]) -> None:
    """Write batches of 25, the most that DynamoDB accepts."""
    left = iter(rows)
    batches = iter(lambda: list(islice(left, 25)), [])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda batch: _write_batch(dynamodb, name, batch), batches))


def _write_batch(dynamodb: "DynamoDBClient", name: str, batch: list[Row]) -> None:
    dynamodb.batch_write_item(RequestItems={name: [{"PutRequest": {"Item": row}} for row in batch]})

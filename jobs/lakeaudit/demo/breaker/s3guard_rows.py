"""The rows of an S3Guard table, as its clients write them (Hadoop 3.3)."""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Row = dict[str, dict[str, Any]]
DAY_MS = 86_400_000


class Guard:
    """One DynamoDB table, read whole once; every change goes to the server at once. Keys are those of one bucket."""

    def __init__(self, dynamodb: "DynamoDBClient", table: str, bucket: str) -> None:
        self._dynamodb = dynamodb
        self.table = table
        self._root = f"/{bucket}"
        pages = dynamodb.get_paginator("scan").paginate(TableName=table)
        rows: list[Any] = [row for page in pages for row in page["Items"]]
        self.rows: dict[str, Row] = {
            self._key(row): dict(row) for row in rows if row["parent"]["S"].startswith(self._root)
        }

    def live_file(self, key: str) -> Row | None:
        """The row of a file that the store calls live and that has not expired."""
        row = self.rows.get(key)
        dead = row is None or is_folder(row) or is_tombstone(row) or is_old(row)
        return None if dead else row

    def children(self, folder: str) -> list[str]:
        """Keys of the live rows directly inside a folder."""
        parent = f"{self._root}/{folder}"
        found = (
            key for key, row in self.rows.items() if row["parent"]["S"] == parent and not is_tombstone(row)
        )
        return sorted(found)

    def put(self, key: str, row: Row) -> None:
        """Write a row, its keys set for `key`."""
        parent, _, child = f"{self._root}/{key}".rpartition("/")
        whole = row | {"parent": {"S": parent}, "child": {"S": child}}
        self._dynamodb.put_item(TableName=self.table, Item=whole)
        self.rows[key] = whole

    def change(self, key: str, **attributes: dict[str, Any] | None) -> None:
        """Set attributes of a row; None takes one away."""
        row = self.rows[key] | {name: value for name, value in attributes.items() if value is not None}
        self.put(key, {name: value for name, value in row.items() if attributes.get(name, value) is not None})

    def delete(self, key: str) -> None:
        """Take a row away."""
        row = self.rows.pop(key)
        self._dynamodb.delete_item(TableName=self.table, Key={"parent": row["parent"], "child": row["child"]})

    def _key(self, row: Row) -> str:
        return f"{row['parent']['S']}/{row['child']['S']}"[len(self._root) + 1 :]


def now_ms() -> int:
    """The clock of a client."""
    return time.time_ns() // 1_000_000


def file_row(size: int, etag: str, at: int) -> Row:
    """A live file, written at `at` (epoch ms)."""
    return {
        "is_deleted": {"BOOL": False},
        "file_length": {"N": str(size)},
        "block_size": {"N": "33554432"},
        "mod_time": {"N": str(at)},
        "last_updated": {"N": str(at)},
        "etag": {"S": etag},
    }


def tombstone_row(at: int) -> Row:
    """A deleted file or folder: both look alike."""
    return {
        "is_deleted": {"BOOL": True},
        "file_length": {"N": "0"},
        "block_size": {"N": "0"},
        "mod_time": {"N": str(at)},
        "last_updated": {"N": str(at)},
    }


def folder_row(at: int, *, authoritative: bool = False) -> Row:
    """A live folder."""
    return {
        "is_dir": {"BOOL": True},
        "is_deleted": {"BOOL": False},
        "is_authoritative": {"BOOL": authoritative},
        "last_updated": {"N": str(at)},
    }


def is_folder(row: Row) -> bool:
    """Whether the row is a folder's."""
    return bool(row.get("is_dir", {}).get("BOOL"))


def is_tombstone(row: Row) -> bool:
    """Whether the row says deleted."""
    return bool(row.get("is_deleted", {}).get("BOOL"))


def is_old(row: Row) -> bool:
    """Whether the row was updated longer than a day ago, beyond the time to live of any table here; 0 never is."""
    updated = int(row.get("last_updated", {}).get("N", "0"))
    return 0 < updated < now_ms() - DAY_MS

"""Items as EMRFS and s3mper write them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from tests.builders.s3guard import put_items

Item = dict[str, Any]


def millis(at: datetime) -> dict[str, str]:
    return {"N": str(round(at.timestamp() * 1000))}


def emrfs(bucket: str, key: str, at: datetime, *, ttl: datetime | None = None) -> Item:
    """Return EMRFS's item for a file, a folder or (with a ttl) a deletion; the payload's format is not documented."""
    folder, _, name = f"/{bucket}/{key}".rpartition("/")
    return {
        "hashKey": {"S": folder},
        "rangeKey": {"S": name},
        "lastModified": millis(at),
        "deletionTTL": {"N": str(round(ttl.timestamp()) if ttl else 0)},
        "payload": {"B": "AAECAw=="},
        "counter": {"N": "3"},
    }


CONTROL = {"hashKey": {"S": "MultiKeyStoreTag"}, "rangeKey": {"S": "TableRole"}, "lastModified": {"N": "0"}}


def s3mper(bucket: str, key: str, at: datetime, **given: str) -> Item:
    """The row of a file; `deleted` or `dir` "true"."""
    folder, _, name = f"//{bucket}/{key}".rpartition("/")
    marks = {mark: {"S": value} for mark, value in given.items()}
    return {"path": {"S": folder}, "file": {"S": name}, "epoch": millis(at), **marks}


def index(at: datetime, bucket: str, key: str) -> Item:
    """The row by which s3mper finds another by its time."""
    row = s3mper(bucket, key, at)
    when = row["epoch"]["N"]
    return {
        "path": {"S": "epoch"},
        "file": {"S": f"{when}--17"},
        "linkPath": row["path"],
        "linkFile": row["file"],
    }


KEYS = {"emrfs": ("hashKey", "rangeKey"), "s3mper": ("path", "file")}


def create_table(client: Any, name: str, keys: Sequence[str], items: Iterable[Item]) -> None:
    client.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=True)
        ],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    put_items(client, name, list(items))

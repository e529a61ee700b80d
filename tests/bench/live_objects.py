"""Stores the small live lake on the embedded server: tables of Delta, their objects, and a DynamoDB table."""

import hashlib
import json
from datetime import timedelta
from typing import Any

from lakeaudit.runtime.connections.aws import Clients
from tests.bench import server
from tests.bench.live import SCHEMA, STORE, TABLES, day, expected, key_of, size_of
from tests.bench.spec import BUCKET, CHECKPOINT_AT
from tests.builders import delta_lake, s3guard

COMMITS = 10


def load(s3: Any, clients: Clients, files: int) -> None:
    """Store three tables with this many files each, and the same faults in each."""
    items = [
        s3guard.folder(BUCKET, place) for place in ("warehouse", *(f"warehouse/{table}" for table in TABLES))
    ]
    for table in TABLES:
        faulty = {key: kind for kind, key in expected(table)}
        items += [s3guard.folder(BUCKET, f"warehouse/{table}/{day(n)}") for n in range(20)]
        for number in range(files):
            key = key_of(table, number)
            items += _object(s3, key, number, faulty.get(key))
        _commit(s3, table, [n for n in range(files) if faulty.get(key_of(table, n)) != "uncommitted"])
    s3guard.create_table(clients.dynamodb(), STORE, items)


def _object(s3: Any, key: str, number: int, fault: str | None) -> list[s3guard.Item]:
    """Store a file with its fault, and return its item in the metadata store."""
    size = size_of(number) + (7 if fault == "size_mismatch" else 0)
    body = f"{key}\n".encode().ljust(size, b".")
    if fault != "dropped":
        server.put(s3, key, body, CHECKPOINT_AT - timedelta(hours=1) + timedelta(seconds=number % 3000))
    if fault in ("hidden", "uncommitted"):
        return []
    old = CHECKPOINT_AT - timedelta(minutes=1)
    entered = size + (9 if fault == "metastore_stale" else 0)
    etag = hashlib.md5(body).hexdigest()
    return [s3guard.file(BUCKET, key, entered, mod_time=old, last_updated=old, etag=etag)]


def _commit(s3: Any, table: str, numbers: list[int]) -> None:
    """Write a commit: version 0 is older than all files, and the others add them."""
    for version in range(COMMITS + 1):
        adds = [_add(table, number) for number in numbers[version - 1 :: COMMITS]] if version else []
        born = [delta_lake.protocol(), delta_lake.metadata("dt", schema=SCHEMA)] if version == 0 else []
        lines = [json.dumps(action) for action in (delta_lake.info(), *born, *adds)]
        at = CHECKPOINT_AT - timedelta(days=2) if version == 0 else CHECKPOINT_AT + timedelta(hours=version)
        key = f"warehouse/{table}/_delta_log/{version:020}.json"
        server.put(s3, key, "\n".join(lines).encode() + b"\n", at)


def _add(table: str, number: int) -> dict[str, Any]:
    path = key_of(table, number).removeprefix(f"warehouse/{table}/")
    values = {"dt": day(number).removeprefix("dt=")}
    return delta_lake.add(path, partitionValues=values, size=size_of(number))

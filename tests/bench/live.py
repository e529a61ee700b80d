"""Defines a small lake whose files exist: its names, and the faults of each of its tables."""

import hashlib
import uuid

TABLES = ("live.orders", "live.events", "live.clicks")
STORE = "live-s3guard"
FILES = 1000
FAULTS = {"dropped": 3, "size_mismatch": 3, "hidden": 3, "metastore_stale": 3, "uncommitted": 3}


def expected(table: str) -> set[tuple[str, str]]:
    """Return (kind, key) of every file of the table that must be found."""
    kinds = [kind for kind, count in FAULTS.items() for _ in range(count)]
    return {(kind, key_of(table, number)) for number, kind in enumerate(kinds)}


def size_of(number: int) -> int:
    """Return the size that a file's writer recorded, in bytes."""
    return 150 + number % 400


def day(number: int) -> str:
    """Return the partition of a file."""
    return f"dt=2026-09-{number % 20 + 1:02d}"


def key_of(table: str, number: int) -> str:
    """Return the key of a file."""
    name = uuid.UUID(hashlib.md5(f"{table}:{number}".encode()).hexdigest())
    return f"warehouse/{table}/{day(number)}/part-{number:05d}-{name}.c000.snappy.parquet"


SCHEMA = '{"type":"struct","fields":[{"name":"dt","type":"string","nullable":true,"metadata":{}}]}'

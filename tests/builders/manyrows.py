"""Results with very many rows: a ledger over many tables and partitions, written in a few files by delta-rs."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS
from lakeaudit.schemas import RESULTS
from tests.builders.results import LAKE, NOON, covered, publish, run

Row = dict[str, Any]

TABLES = tuple(f"area{n % 7}.table_{n:02d}" for n in range(50))
PARTITIONS = 100
"""Partitions of each table, two columns deep."""
FILE_ROWS = 100_000
_KINDS = (
    "dropped",
    "size_mismatch",
    "tombstoned",
    "overwritten",
    "duplicate_content",
    "hidden",
    "unvacuumed",
)


def lay(place: Location, ledger: int, findings: int, seed: int = 1) -> None:
    """Publish one run with so many findings, over a ledger of so many rows; each of these has a transition or two."""
    draw = random.Random(seed)
    publish(place, runs=[run(tables_expected=len(TABLES), tables_audited=len(TABLES))])
    axes = ("content", "metastore", "metastore_tree", "leftover", "duplicate")
    publish(place, coverage=[covered(table, axis) for table in TABLES for axis in axes])
    for begin in range(0, ledger, FILE_ROWS):
        rows = [_discrepancy(draw, at) for at in range(begin, min(begin + FILE_ROWS, ledger))]
        _append(place, "discrepancies", rows)
        _append(place, "transitions", list(_transitions(rows)))
        if begin < findings:
            _append(place, "findings", [row | {"run_id": "r1"} for row in rows[: findings - begin]])


def _discrepancy(draw: random.Random, at: int) -> Row:
    table, kind = draw.choice(TABLES), KINDS[draw.choice(_KINDS)]
    day, region = draw.randrange(PARTITIONS // 2), draw.choice(("eu", "us"))
    path = f"region={region}/dt={(NOON - timedelta(days=day)).date()}"
    key = f"warehouse/{table.replace('.', '/')}/{path}/part-{at:05d}-{draw.getrandbits(128):032x}.c000.snappy.parquet"
    opened = NOON - timedelta(days=draw.randrange(60), seconds=draw.randrange(86_400))
    state = draw.choices(("open", "resolved", "pending"), (6, 3, 1))[0]
    size = draw.randrange(1 << 28)
    return {
        "discrepancy_id": f"{at:08x}{draw.getrandbits(96):024x}", "lake": LAKE, "state": state,
        "first_seen_at": opened, "last_evidence_at": NOON, "opened_at": opened, "reopened": 0,
        "resolved_at": NOON if state == "resolved" else None, "first_run_id": "r1", "last_run_id": "r1",
        "ack_until": NOON + timedelta(days=9) if draw.random() < 0.02 else None,
        "table_name": table, "axis": kind.axis, "kind": kind.name, "severity": kind.severity,
        "subject_type": "file", "subject": f"s3://lake/{key}", "bucket": "lake", "key": key, "category": "data",
        "partition_path": path, "table_version": draw.randrange(40), "commit_id": None, "manifest_kind": "delta",
        "rows_at_stake": draw.randrange(100_000), "bytes_at_stake": size, "files": 1, "manifest_size": size,
        "manifest_etag": f"{draw.getrandbits(128):032x}", "manifest_time": opened,
        "recoverable": draw.choice(("yes", "no", "unknown")), "confirmation": "live",
        "explanation": f"{kind.words}; listed since {opened:%Y-%m-%dT%H:%M:%SZ}; storage as of 2026-11-21T01:00:00Z",
    }  # fmt: skip


def _transitions(rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        told = [("opened", row["opened_at"])] if row["state"] != "pending" else []
        told += [("resolved", row["resolved_at"])] if row["state"] == "resolved" else []
        for word, at in told:
            yield {"transition_id": f"{word[0]}{row['discrepancy_id']}", "run_id": "r1", "lake": LAKE,
                   "discrepancy_id": row["discrepancy_id"], "transition": word, "to_kind": row["kind"],
                   "to_severity": row["severity"], "at": at, "reason": "why"}  # fmt: skip


def _append(place: Location, name: str, rows: list[Row]) -> None:
    write_deltalake(place.join(name).spark_path, pa.Table.from_pylist(rows, RESULTS[name]), mode="append")

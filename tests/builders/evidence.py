"""Evidence made by hand: what each source claims, as rows with sensible defaults.

Times are given in hours before the storage cut at `CUT`; a claim, object or entry is three days old unless said.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakeaudit.evidence.protocol import Claims, Cut, Entries, Hole, SourceInfo, Stored, TableState
from lakeaudit.keys import Location
from lakeaudit.schemas import CLAIM, ENTRY, STORED, UPLOAD

CUT = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
READ_AT = CUT + timedelta(hours=6)
AT_CUT = Cut(CUT)
EVERYTHING = (Location("lake", ""),)
BUCKET = "lake"


def ago(hours: float) -> datetime:
    """A moment before the cut."""
    return CUT - timedelta(hours=hours)


def claim(key: str, table: str = "orders", **given: Any) -> dict[str, Any]:
    """A live Delta claim of 100 bytes and 10 rows."""
    return {
        "source": "manifest:delta",
        "manifest_kind": "delta",
        "table_name": table,
        "bucket": BUCKET,
        "key": key,
        "state": "live",
        "certain": True,
        "category": "data",
        "partition_path": "",
        "size": 100,
        "records": 10,
        "claimed_at": ago(72),
        "explained": False,
        "listed": 1,
        "own_root": True,
        "commit_id": "3",
        "table_version": 7,
    } | given


def stored(key: str, **given: Any) -> dict[str, Any]:
    """A present object of 100 bytes, written just before its claim."""
    return {
        "source": "storage:0",
        "bucket": BUCKET,
        "key": key,
        "presence": "present",
        "size": 100,
        "etag": "0cc175b9c0f1b6a831c399e269772661",
        "modified_at": ago(72.1),
        "storage_class": "STANDARD",
        "archived": False,
        "multipart": False,
        "encryption": "SSE-S3",
        "delete_marker": False,
    } | given


def entry(key: str, **given: Any) -> dict[str, Any]:
    """A live file entry that agrees with `stored`."""
    parent = key.rpartition("/")[0]
    return {
        "source": "metastore:0",
        "bucket": BUCKET,
        "key": key,
        "parent": parent,
        "is_dir": False,
        "tombstone": False,
        "expired": False,
        "honoured": False,
        "authoritative": False,
        "size": 100,
        "etag": "0cc175b9c0f1b6a831c399e269772661",
        "mod_time": ago(72.1),
        "last_updated_given": True,
    } | given


def folder(key: str, **given: Any) -> dict[str, Any]:
    """A live directory entry."""
    return entry(key, **{"is_dir": True, "size": None, "etag": None, "mod_time": None} | given)


def claims_of(
    spark: SparkSession, rows: Iterable[Mapping[str, Any]], states: Iterable[TableState], kind: str = "delta",
    holes: tuple[Hole, ...] = (),
) -> Claims:  # fmt: skip
    """A manifest reader's answer."""
    info = SourceInfo(f"manifest:{kind}", "manifest", kind, "", "v7", None)
    return Claims(info, _frame(spark, rows, CLAIM), {state.table: state for state in states}, holes)


def stored_of(
    spark: SparkSession,
    rows: Iterable[Mapping[str, Any]],
    *,
    cut: Cut = AT_CUT,
    source: str = "storage:0",
    covers: tuple[Location, ...] = EVERYTHING,
    uploads: Iterable[Mapping[str, Any]] = (),
    holes: tuple[Hole, ...] = (),
) -> Stored:
    """A storage reader's answer."""
    info = SourceInfo(source, "storage", "s3_inventory", "", "md5", cut)
    return Stored(info, _frame(spark, rows, STORED), covers, _frame(spark, uploads, UPLOAD), holes)


def entries_of(
    spark: SparkSession,
    rows: Iterable[Mapping[str, Any]],
    *,
    cut: Cut = AT_CUT,
    source: str = "metastore:0",
    scope: tuple[Location, ...] = (),
    ttl: timedelta | None = None,
    holes: tuple[Hole, ...] = (),
) -> Entries:
    """A metadata store reader's answer."""
    info = SourceInfo(source, "metastore", "s3guard", "", "t", cut)
    return Entries(info, _frame(spark, rows, ENTRY), scope, ttl, holes)


def state_of(table: str = "orders", **given: Any) -> TableState:
    """A whole, readable table whose log goes back thirty days."""
    told: dict[str, Any] = {
        "read_at": READ_AT,
        "horizon": ago(24 * 30),
        "version": 7,
        "retention": timedelta(days=7),
    }
    return TableState(table, **(told | given))


def _frame(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: StructType) -> Any:
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)

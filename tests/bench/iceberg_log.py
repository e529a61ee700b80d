"""Writes the Iceberg metadata of a lake's tables as writers leave it: manifests with statistics, and their lists.

A table has a snapshot of the files in the checkpoint of a Delta table, and another snapshot for each commit. All are
retained; the snapshot before the first has expired. Manifests have up to `MANIFEST_ENTRIES` files, as in a large table.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from datetime import UTC, datetime
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import NestedField, StringType, StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tests.bench.rows import Connection, LogFile, files
from tests.bench.spec import BUCKET, CHECKPOINT_AT
from tests.builders.iceberg_files import avro, epoch_ms

FOLDER = "metadata"
MANIFEST_ENTRIES = 30_000
"""About the number of entries in 8 MB, after which writers begin a new manifest."""
WORKERS = 2
_EXPIRED = 1
_UUID = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"
_COLUMNS = ((1, "id", "long"), (2, "ts", "timestamptz"), (3, "dt", "string"), (4, "hour", "string"))
_ADDED = f"""SELECT c, 's3://{BUCKET}/' || key AS path, size, 1000 + i % 90000 AS records, i,
        epoch_us(modified) AS ts, substr(place, 4, 10) AS dt, right(place, 2) AS hour
    FROM ({{}}) WHERE class <> 'stray' AND c IS {{}} NULL ORDER BY c, i"""


def write_log_files(con: Connection, logs: Path) -> list[LogFile]:
    """Write all files of all tables' metadata."""
    tables = con.sql("SELECT t, name FROM tables ORDER BY t").fetchall()
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        return [file for t, name in tables for file in _Table(con, t, name, logs, pool).files()]


class _Table:
    def __init__(self, con: Connection, t: int, name: str, logs: Path, pool: ProcessPoolExecutor) -> None:
        self._con, self._t, self._name, self._pool = con, t, name, pool
        self._folder = logs / "warehouse" / name / FOLDER
        self._folder.mkdir(parents=True)
        sql = f"SELECT c, time FROM commits WHERE t = {t} ORDER BY c"
        self._times = {None: CHECKPOINT_AT} | {
            c: time.replace(tzinfo=UTC) for c, time in con.sql(sql).fetchall()
        }

    def files(self) -> Iterator[LogFile]:
        """Write manifests first; each snapshot also lists the manifests of earlier snapshots."""
        manifests = self._manifests()
        listed: list[dict[str, Any]] = []
        snapshots = []
        for number, (c, at) in enumerate(self._times.items()):
            for of, future in manifests:
                if of == c:
                    file, row = future.result()
                    listed.append(row)
                    yield self._file(file, at)
            path = self._folder / f"snap-{_id(number)}-1-{_UUID}.avro"
            path.write_bytes(avro(_list_schema(), listed, {"format-version": "2"}))
            snapshots.append(self._snapshot(number, at, path))
            yield self._file(path, at)
        yield self._file(self._metadata(snapshots), at)

    def _manifests(self) -> list[tuple[int | None, Future[tuple[Path, dict[str, Any]]]]]:
        """Start to write manifests, and return them with their commits (None: before the first commit)."""
        first = self._con.sql(_ADDED.format(files(f"t = {self._t}"), "")).to_arrow_table()
        later = self._con.sql(
            _ADDED.format(files(f"t = {self._t} AND begins + files > first + committed"), "NOT")
        ).to_arrow_table()
        pieces: list[tuple[int | None, pa.Table]] = [
            (None, first.slice(at, MANIFEST_ENTRIES)) for at in range(0, first.num_rows, MANIFEST_ENTRIES)
        ]
        pieces += [(c, later.filter(pc.equal(later["c"], c))) for c in self._times if c is not None]
        return [(c, self._submit(n, c, piece)) for n, (c, piece) in enumerate(pieces) if piece.num_rows]

    def _submit(self, n: int, c: int | None, piece: pa.Table) -> Future[tuple[Path, dict[str, Any]]]:
        number = 0 if c is None else c + 1
        path = self._folder / f"{_UUID[:-4]}{n:04}-m0.avro"
        return self._pool.submit(manifest, path, f"s3://{BUCKET}/{self._key(path)}", number, piece)

    def _snapshot(self, number: int, at: datetime, path: Path) -> dict[str, Any]:
        parent = _EXPIRED if number == 0 else _id(number - 1)
        return {
            "snapshot-id": _id(number), "parent-snapshot-id": parent, "sequence-number": number + 2,
            "timestamp-ms": epoch_ms(at), "manifest-list": f"s3://{BUCKET}/{self._key(path)}",
            "summary": {"operation": "append"}, "schema-id": 0,
        }  # fmt: skip

    def _metadata(self, snapshots: Sequence[Mapping[str, Any]]) -> Path:
        last = snapshots[-1]
        content = {
            "format-version": 2, "table-uuid": _UUID, "location": f"s3://{BUCKET}/warehouse/{self._name}",
            "last-sequence-number": last["sequence-number"], "last-updated-ms": last["timestamp-ms"],
            "last-column-id": 4, "current-schema-id": 0, "schemas": [_SCHEMA], "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": _SPEC}], "last-partition-id": 1001,
            "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "properties": {},
            "current-snapshot-id": last["snapshot-id"], "snapshots": snapshots, "snapshot-log": [],
            "metadata-log": [], "refs": {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
        }  # fmt: skip
        path = self._folder / f"{len(snapshots):05}-{_UUID}.metadata.json"
        path.write_text(json.dumps(content))
        return path

    def _file(self, path: Path, at: datetime) -> LogFile:
        return LogFile(path, f"warehouse/{self._name}", FOLDER, at)

    def _key(self, path: Path) -> str:
        return f"warehouse/{self._name}/{FOLDER}/{path.name}"


def manifest(path: Path, uri: str, number: int, rows: pa.Table) -> tuple[Path, dict[str, Any]]:
    """Write the manifest of these files, and return its row in a manifest list; `number` is that of its snapshot."""
    header = {
        "format-version": "2", "content": "data", "schema": json.dumps(_SCHEMA), "schema-id": "0",
        "partition-spec": json.dumps(_SPEC), "partition-spec-id": "0",
    }  # fmt: skip
    path.write_bytes(avro(_entry_schema(), [_entry(number, row) for row in rows.to_pylist()], header))
    row = {
        "manifest_path": uri, "manifest_length": path.stat().st_size, "partition_spec_id": 0, "content": 0,
        "sequence_number": number + 2, "min_sequence_number": number + 2, "added_snapshot_id": _id(number),
        "added_files_count": rows.num_rows, "existing_files_count": 0, "deleted_files_count": 0,
        "added_rows_count": pc.sum(rows["records"]).as_py(), "existing_rows_count": 0,
        "deleted_rows_count": 0, "partitions": None, "key_metadata": None,
    }  # fmt: skip
    return path, row


def _id(number: int) -> int:
    return 3_051_729_675_574_597_004 + number


def _entry(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    count, dt, hour = row["records"], row["dt"].encode(), row["hour"].encode()
    least = [struct.pack("<q", row["i"] * 1000), struct.pack("<q", row["ts"]), dt, hour]
    most = [struct.pack("<q", row["i"] * 1000 + 999), struct.pack("<q", row["ts"] + 999_999), dt, hour]
    return {
        "status": 1, "snapshot_id": _id(number), "sequence_number": None, "file_sequence_number": None,
        "data_file": {
            "content": 0, "file_path": row["path"], "file_format": "PARQUET",
            "partition": {"dt": row["dt"], "hour": row["hour"]}, "record_count": count,
            "file_size_in_bytes": row["size"], "column_sizes": _by_column([row["size"] // 2 - 90] * 2 + [45] * 2),
            "value_counts": _by_column([count] * 4), "null_value_counts": _by_column([0] * 4),
            "nan_value_counts": [], "lower_bounds": _by_column(least), "upper_bounds": _by_column(most),
            "split_offsets": [4], "sort_order_id": 0,
        },
    }  # fmt: skip


def _by_column(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"key": id_, "value": value} for (id_, *_), value in zip(_COLUMNS, values, strict=True)]


_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": id_, "name": name, "required": False, "type": kind} for id_, name, kind in _COLUMNS],
}
_SPEC = [
    {"name": name, "transform": "identity", "source-id": id_, "field-id": 997 + id_}
    for id_, name, _ in _COLUMNS[2:]
]


@cache
def _entry_schema() -> Any:
    by = StructType(*(NestedField(997 + id_, name, StringType()) for id_, name, _ in _COLUMNS[2:]))
    entry = manifest_entry_schema_with_data_file(2, data_file_with_partition(by, 2))
    return AvroSchemaConversion().iceberg_to_avro(entry, schema_name="manifest_entry")


@cache
def _list_schema() -> Any:
    return AvroSchemaConversion().iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[2], schema_name="manifest_file")

"""Writes a lake's artefacts once, as AWS and Delta write them: S3 Inventory reports, DynamoDB exports, Delta logs.

All artefacts are in local folders; `log_server` serves the logs during an audit, with the times in `log_times.json`.
The data files exist only in this evidence.
"""

import base64
import hashlib
import json
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench import actions, hudi_log, iceberg_log, items, rows, spec
from tests.bench.rows import Connection
from tests.bench.spec import BUCKET, CHECKPOINT, CHECKPOINT_AT, FILES_AN_HOUR, PART_ROWS, SCAN, Spec

THREADS = 2
EXPORT_PARTS = 4
"""The least number of partitions: a new DynamoDB table has this many."""
CHECKPOINT_ROWS = 1_000_000
"""A checkpoint with more actions than this has several parts."""
SECOND = timedelta(days=1)
WRITERS = {"iceberg": iceberg_log, "hudi": hudi_log}
"""By format the module that writes the metadata of tables; this module writes that of Delta tables."""
_GZIP = 16 + zlib.MAX_WBITS
_CSV_NAMES = {"e_tag": "ETag"}


def lake_folder(spec: Spec, *, second: bool = False) -> Path:
    """Return the lake's folder, and generate it unless this code has done so; `second`: with a later day."""
    folder = spec.folder
    for name in ("first", "second") if second else ("first",):
        complete = folder / name / "complete"
        if not complete.exists() or complete.read_text() != _made_by(spec):
            shutil.rmtree(folder / name, ignore_errors=True)
            _Maker(spec, folder / name, second=name == "second").make()
    return folder


def _made_by(lake: Spec) -> str:
    """Return a digest of the code that generates such lakes."""
    modules = (sys.modules[__name__], WRITERS.get(lake.format, actions), items, rows, spec)
    texts = [Path(module.__file__ or "").read_bytes() for module in modules]
    return hashlib.sha256(b"".join(texts)).hexdigest()


@dataclass(frozen=True)
class FileSummary:
    """A file that was written: its path, rows, bytes and MD5."""

    path: Path
    rows: int
    size: int
    md5: bytes


class _Maker:
    def __init__(self, spec: Spec, folder: Path, *, second: bool) -> None:
        self.spec = spec
        self.folder = folder
        self.second = second
        self.at = SCAN + (SECOND if second else timedelta(0))
        self.con = duckdb.connect()
        self.con.execute(f"SET threads={THREADS}")
        self.con.execute("SET preserve_insertion_order=false")

    def make(self) -> None:
        self.folder.mkdir(parents=True)
        rows.lay_out(self.con, self.spec)
        times = self._metadata()
        self._inventory()
        self._export()
        if not self.second:
            self.con.execute(
                f"COPY ({rows.truth(self.spec.format)}) TO '{self.folder}/truth.parquet' (FORMAT parquet)"
            )
        (self.folder / "log_times.json").write_text(json.dumps(times))
        (self.folder / "complete").write_text(_made_by(self.spec))
        self.con.close()

    def _metadata(self) -> dict[str, float]:
        """Write the tables' metadata, and return by path below `logs` when each file was stored."""
        writer = WRITERS.get(self.spec.format)
        files = writer.write_log_files(self.con, self.folder / "logs") if writer else []
        rows.keep_log_files(self.con, files)
        if writer:
            return {str(each.path.relative_to(self.folder / "logs")): each.at.timestamp() for each in files}
        return self._commits() | ({} if self.second else self._checkpoints())

    def _inventory(self) -> None:
        hours = self._count("hours")
        each = PART_ROWS // FILES_AN_HOUR * (3 if self.spec.is_real else 4) // 4
        queries = [rows.storage(f"h BETWEEN {at} AND {at + each - 1}") for at in range(0, hours, each)]
        queries.append(rows.extra_storage(second=self.second))
        base = self.folder / "inventory" / "data"
        base.mkdir(parents=True)
        write = self._csv if self.spec.inventory == "CSV" else self._parquet
        written = self._each(lambda con, n, sql: write(con, base / f"{n:04d}", sql), queries)
        _manifest(self.folder / "inventory", self.spec, written, self.at)

    def _parquet(self, con: Connection, stem: Path, sql: str) -> FileSummary:
        path = stem.with_name(f"{_uuid(stem.name)}.parquet")
        columns = ", ".join(_exact(name) for name in self.spec.columns)
        count = _write_parquet(path, con.sql(f"SELECT {columns} FROM ({sql})").to_arrow_reader(100_000))
        content = path.read_bytes()
        return FileSummary(path, count, len(content), hashlib.md5(content).digest())

    def _csv(self, con: Connection, stem: Path, sql: str) -> FileSummary:
        values = " || ',' || ".join(f"""'"' || {_csv_text(name)} || '"'""" for name in self.spec.columns)
        lines = con.sql(f"SELECT {values} || chr(10) AS line FROM ({sql})").to_arrow_reader(100_000)
        return _write_lines(stem.with_name(f"{_uuid(stem.name)}.csv.gz"), lines)

    def _export(self) -> None:
        parts = max(EXPORT_PARTS, -(-self.spec.files // PART_ROWS))
        queries = [items.entries(f"h * 2654435761 % 4294967296 % {parts} = {n}") for n in range(parts)]
        queries.append(items.extra_entries(second=self.second))
        base = self.folder / "export" / "AWSDynamoDB" / f"0{round(self.at.timestamp() * 1000)}-a1b2c3d4"
        (base / "data").mkdir(parents=True)
        (base / "_started").touch()

        def write(con: Connection, n: int, sql: str) -> FileSummary:
            path = base / "data" / f"{n:04d}abcdefghijklmnop.json.gz"
            return _write_lines(path, con.sql(sql).to_arrow_reader(100_000))

        _summary(base, self._each(write, queries), self.at + timedelta(minutes=30))

    def _commits(self) -> dict[str, float]:
        """Write commits next to the checkpoints, and return by path below `logs` when each was stored."""
        sql = actions.second_commit_lines() if self.second else actions.commit_lines()
        times = {}
        for _, name, version, at, lines in self.con.sql(sql).fetchall():
            path = self._log(name) / f"{version:020}.json"
            path.write_text(lines)
            times[str(path.relative_to(self.folder / "logs"))] = _epoch(at)
        return times

    def _checkpoints(self) -> dict[str, float]:
        tables = self.con.sql("SELECT t, name FROM tables ORDER BY total DESC").fetchall()
        written = self._each(lambda con, _, table: self._checkpoint(con, *table), tables)
        paths = [str(path.relative_to(self.folder / "logs")) for paths in written for path in paths]
        return dict.fromkeys(paths, CHECKPOINT_AT.timestamp())

    def _checkpoint(self, con: Connection, t: int, name: str) -> list[Path]:
        total = con.sql(f"SELECT total FROM tables WHERE t = {t}").fetchall()[0][0]
        parts = max(1, -(-total // CHECKPOINT_ROWS))
        stem = f"{CHECKPOINT:020}.checkpoint"
        names = [
            f"{stem}.{n + 1:010}.{parts:010}.parquet" if parts > 1 else f"{stem}.parquet"
            for n in range(parts)
        ]
        paths = [self._log(name) / each for each in names]
        reader = con.sql(actions.checkpoint_actions(t)).to_arrow_reader(50_000)
        writers = [pq.ParquetWriter(path, _CHECKPOINT) for path in paths]
        writers[0].write_table(pa.Table.from_pylist(_BORN, _CHECKPOINT))
        written = len(_BORN)
        for number, batch in enumerate(reader):
            writers[number % parts].write_table(_as_checkpoint(batch))
            written += batch.num_rows
        for writer in writers:
            writer.close()
        hint = {"version": CHECKPOINT, "size": written} | ({"parts": parts} if parts > 1 else {})
        last = self._log(name) / "_last_checkpoint"
        last.write_text(json.dumps(hint))
        return [*paths, last]

    def _log(self, table: str) -> Path:
        folder = self.folder / "logs" / "warehouse" / table / "_delta_log"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _count(self, table: str) -> int:
        count: int = self.con.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]
        return count

    def _each(self, write: Callable[[Connection, int, Any], Any], items: Sequence[Any]) -> list[Any]:
        """Write files concurrently, each with its own connection."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda one: write(self.con.cursor(), *one), enumerate(items)))


def _write_parquet(path: Path, reader: pa.RecordBatchReader) -> int:
    count = 0
    with pq.ParquetWriter(path, reader.schema, compression="snappy") as writer:
        for batch in reader:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _write_lines(path: Path, reader: pa.RecordBatchReader) -> FileSummary:
    """Write a gzip file of lines, directly from the buffer of an Arrow column of texts."""
    packer, digest, count, size = zlib.compressobj(4, wbits=_GZIP), hashlib.md5(), 0, 0
    with path.open("wb") as out:
        for content, lines in [*_texts(reader), (None, 0)]:
            packed = packer.flush() if content is None else packer.compress(content)
            digest.update(packed)
            out.write(packed)
            size += len(packed)
            count += lines
    return FileSummary(path, count, size, digest.digest())


def _texts(reader: pa.RecordBatchReader) -> Iterator[tuple[Any, int]]:
    for batch in reader:
        column = batch.column(0).cast(pa.large_string())
        _, offsets, content = column.buffers()
        ends = pa.Int64Array.from_buffers(pa.int64(), len(column) + 1, [None, offsets], offset=column.offset)
        begin, end = ends[0].as_py(), ends[len(column)].as_py()
        yield content.slice(begin, end - begin), batch.num_rows


def _exact(name: str) -> str:
    """Convert times to milliseconds, as S3 writes them."""
    if name == "last_modified_date":
        return "CAST(last_modified_date AS TIMESTAMP_MS) AS last_modified_date"
    return name


def _csv_text(name: str) -> str:
    if name == "key":  # form-encoded; of the generated keys' characters only this one is touched
        return "replace(key, '=', '%3D')"
    if name == "last_modified_date":
        return "strftime(last_modified_date, '%Y-%m-%dT%H:%M:%S') || '.000Z'"
    return f"coalesce(CAST({name} AS VARCHAR), '')"


def _uuid(text: str) -> str:
    digest = hashlib.md5(text.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


def _epoch(at: datetime) -> float:
    return at.replace(tzinfo=SCAN.tzinfo).timestamp()


def _manifest(folder: Path, spec: Spec, written: Sequence[FileSummary], at: datetime) -> None:
    csv = ", ".join(_CSV_NAMES.get(name) or name.title().replace("_", "") for name in spec.columns)
    manifest = {
        "sourceBucket": BUCKET,
        "destinationBucket": "arn:aws:s3:::inventories",
        "version": "2016-11-30",
        "creationTimestamp": str(round(at.timestamp() * 1000)),
        "fileFormat": spec.inventory,
        "fileSchema": csv if spec.inventory == "CSV" else _message(spec),
        "files": [
            {"key": f"lake/daily/data/{each.path.name}", "size": each.size, "MD5checksum": each.md5.hex()}
            for each in written
        ],
    }
    dated = folder / f"{at:%Y-%m-%dT%H-%MZ}"
    dated.mkdir()
    content = json.dumps(manifest).encode()
    (dated / "manifest.json").write_bytes(content)
    (dated / "manifest.checksum").write_text(hashlib.md5(content).hexdigest() + "\n")


def _message(spec: Spec) -> str:
    types = dict.fromkeys(("is_latest", "is_delete_marker", "is_multipart_uploaded"), "boolean")
    types |= {"size": "int64", "last_modified_date": "int64"}
    columns = " ".join(f"optional {types.get(name, 'binary')} {name};" for name in spec.columns)
    return f"message s3.inventory {{ {columns} }}"


def _summary(base: Path, written: Sequence[FileSummary], at: datetime) -> None:
    lines = [
        {"itemCount": each.rows, "md5Checksum": base64.b64encode(each.md5).decode(), "etag": f"{each.md5.hex()}-1",
         "dataFileS3Key": f"AWSDynamoDB/{base.name}/data/{each.path.name}"}
        for each in written
    ]  # fmt: skip
    _checked(base / "manifest-files", "".join(json.dumps(line) + "\n" for line in lines))
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/lake-s3guard"
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    summary = {
        "version": "2020-06-30", "exportArn": f"{arn}/export/{base.name}", "startTime": stamp, "endTime": stamp,
        "tableArn": arn, "tableId": "12345a12-abcd-123a-ab12-1234abc12345", "exportTime": stamp, "s3Bucket": "exports",
        "s3Prefix": None, "s3SseAlgorithm": "AES256", "s3SseKmsKeyId": None,
        "manifestFilesS3Key": f"AWSDynamoDB/{base.name}/manifest-files.json", "billedSizeBytes": 0,
        "itemCount": sum(each.rows for each in written), "outputFormat": "DYNAMODB_JSON", "exportType": "FULL_EXPORT",
    }  # fmt: skip
    _checked(base / "manifest-summary", json.dumps(summary))


def _checked(stem: Path, content: str) -> None:
    stem.with_suffix(".json").write_text(content)
    stem.with_suffix(".checksum").write_text(
        base64.b64encode(hashlib.md5(content.encode()).digest()).decode()
    )


_VALUES = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ("add", pa.struct([("path", pa.string()), ("partitionValues", _VALUES), ("size", pa.int64()),
                           ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string())])),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_()),
                              ("extendedFileMetadata", pa.bool_()), ("partitionValues", _VALUES),
                              ("size", pa.int64())])),
        ("metaData", pa.struct([("id", pa.string()), ("name", pa.string()),
                                ("format", pa.struct([("provider", pa.string()), ("options", _VALUES)])),
                                ("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string())),
                                ("configuration", _VALUES), ("createdTime", pa.int64())])),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
    ]
)  # fmt: skip
_FIELDS = [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in (("id", "long"), ("ts", "timestamp"), ("dt", "string"), ("hour", "string"))
]
_BORN: list[dict[str, Any]] = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": []},
            "schemaString": json.dumps({"type": "struct", "fields": _FIELDS}),
            "partitionColumns": ["dt", "hour"],
            "configuration": [],
            "createdTime": round(CHECKPOINT_AT.timestamp() * 1000),
        }
    },
]


def _as_checkpoint(batch: pa.RecordBatch) -> pa.Table:
    """Add the missing columns of a checkpoint to the actions."""
    columns = {
        field.name: batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in _CHECKPOINT
    }
    return pa.table(columns, _CHECKPOINT)

"""Writes small tables whose states the breaker destroys: Delta logs, Iceberg metadata, a Hudi timeline.

Only the demo would need engines of Iceberg and Hudi, so their files are built here.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from lakeaudit.demo.delta import append_rows, options_of, some_rows, uri
from lakeaudit.demo.hudi_files import commit, complete_instant, instant_text, stat, timeline_files
from lakeaudit.demo.iceberg_files import Entry, Form, Snapshot, epoch_ms, manifest_files, metadata_content
from lakeaudit.demo.server import LAKE
from lakeaudit.demo.tables import BINS, FLEET, METERS, PALLETS, PARCELS, SCANS, DemoTable
from lakeaudit.runtime.connections.aws import Clients, Endpoint

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

COMMITS = 4
DAY = "2026-03-01"


def build_state_tables(clients: Clients, at: Endpoint) -> None:
    """Write all tables of the fleet and of the depot."""
    s3, options = clients.s3(LAKE), options_of(at)
    for table in (*FLEET, METERS, BINS):
        for number in range(COMMITS):
            append_rows(table, number, options)
            if table == METERS and number in (0, COMMITS - 2):
                DeltaTable(uri(table), storage_options=options).create_checkpoint()
    _put(s3, BINS, uniform_metadata(options))
    for table in (PARCELS, PALLETS):
        _put(s3, table, iceberg_table(table))
    _put(s3, SCANS, hudi_table(SCANS))


def iceberg_table(table: DemoTable) -> dict[str, bytes]:
    """Return an Iceberg table of a Hadoop catalog: one file for each append, and a hint that names the newest state."""
    bodies = {f"{number:05}-{DAY}.parquet": _parquet(table, number) for number in range(COMMITS)}
    appends = [[Entry(name, len(body), rows, day=DAY)] for name, (body, rows) in bodies.items()]
    return _metadata_folder(table, appends) | {f"data/{name}": body for name, (body, _) in bodies.items()}


def uniform_metadata(options: dict[str, str]) -> dict[str, bytes]:
    """Return the Iceberg metadata of a Delta table's newest version, as UniForm writes it."""
    table = DeltaTable(uri(BINS), storage_options=options)
    adds = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    entries = [
        Entry(f"{uri(BINS)}/{add['path']}", add["size_bytes"], add["num_records"], day=None) for add in adds
    ]
    return _metadata_folder(BINS, [entries], properties={"delta-version": str(table.version())})


def hudi_table(table: DemoTable) -> dict[str, bytes]:
    """Return a Hudi table whose commits wrote two files each."""
    began = datetime.now(UTC)
    files: dict[str, bytes] = {}
    instants: dict[str, str] = {}
    for number in range(COMMITS):
        instant = instant_text(began + timedelta(milliseconds=number))
        groups = [uuid.uuid5(uuid.NAMESPACE_URL, f"{uri(table)} {number} {each}") for each in range(2)]
        paths = [f"day={DAY}/{group}-0_{n}-{number}-0_{instant}.parquet" for n, group in enumerate(groups)]
        bodies = {path: _parquet(table, 2 * number + each) for each, path in enumerate(paths)}
        files |= {path: body for path, (body, _) in bodies.items()}
        stats = [stat(path, len(body), rows) for path, (body, rows) in bodies.items()]
        instants |= complete_instant(instant, commit(*stats))
    timeline = timeline_files(instants, properties={"hoodie.table.name": table.name.rpartition(".")[2]})
    marker = {f"day={DAY}/.hoodie_partition_metadata": f"commitTime={instant}\npartitionDepth=1\n"}
    return files | {path: text.encode() for path, text in (marker | timeline).items()}


def _metadata_folder(table: DemoTable, appends: Sequence[Sequence[Entry]], **more: Any) -> dict[str, bytes]:
    """Return the metadata folder of a table with one snapshot for each append."""
    form, table_id = Form(uri(table)), str(uuid.uuid5(uuid.NAMESPACE_URL, uri(table)))
    snapshots, log = _snapshots(appends), list[dict[str, Any]]()
    files = manifest_files(form, snapshots)
    for number, snapshot in snapshots.items():
        states = {id_: one for id_, one in snapshots.items() if id_ <= number}
        content = metadata_content(form, states, uuid=table_id, metadata_log=[*log], **more)
        name = f"v{number}.metadata.json"
        files[name] = json.dumps(content).encode()
        log.append({"metadata-file": form.path(name), "timestamp-ms": epoch_ms(snapshot.at)})
    files["version-hint.text"] = str(len(snapshots)).encode()
    return {f"metadata/{name}": body for name, body in files.items()}


def _snapshots(appends: Sequence[Sequence[Entry]]) -> dict[int, Snapshot]:
    """Return snapshots by id, each with its own manifest and those of the snapshots before."""
    began = datetime.now(UTC)
    names = [f"{uuid.uuid4()}-m0" for _ in appends]
    return {
        number: Snapshot(
            dict(zip(names[:number], appends, strict=False)),
            began + timedelta(milliseconds=number),
            number - 1 or None,
            {name: id_ for id_, name in enumerate(names[:number], start=1)},
            _summary(entries),
        )
        for number, entries in enumerate(appends, start=1)
    }


def _summary(added: Iterable[Entry]) -> Mapping[str, str]:
    """Return the summary of an append."""
    sizes, rows = zip(*((entry.size, entry.rows) for entry in added), strict=True)
    return {
        "operation": "append",
        "added-data-files": str(len(sizes)),
        "added-records": str(sum(rows)),
        "added-files-size": str(sum(sizes)),
    }


def _parquet(table: DemoTable, number: int) -> tuple[bytes, int]:
    """Return a Parquet file of rows that no other file has, and their number."""
    rows, sink = some_rows(f"{table.name} {number}", 60 + 10 * number), pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return sink.getvalue().to_pybytes(), rows.num_rows


def _put(s3: "S3Client", table: DemoTable, files: Mapping[str, bytes]) -> None:
    """Write a table's files by their paths below its location."""
    for path, body in files.items():
        s3.put_object(Bucket=LAKE, Key=f"{table.location}/{path}", Body=body)

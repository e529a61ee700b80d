"""Decodes the files that the newest states of Iceberg and Hudi tables list, because DuckDB does not read Avro."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from lakeaudit.evidence.avro.columns import values
from lakeaudit.evidence.avro.records import open_avro
from tests.bench import hudi_log
from tests.bench.spec import BUCKET

_DELETED = 2
_FIELDS = (("status",), ("data_file", "file_path"), ("data_file", "file_size_in_bytes"))


def _of_iceberg(logs: Path) -> Iterator[tuple[str, int]]:
    for folder in sorted(logs.glob("warehouse/*/metadata")):
        metadata = json.loads(max(folder.glob("*.metadata.json")).read_text())
        head = folder / Path(metadata["snapshots"][-1]["manifest-list"]).name
        for manifest in open_avro(head.read_bytes()).records:
            content = (folder / Path(manifest["manifest_path"]).name).read_bytes()
            yield from (
                (path, size) for status, path, size in values(content, *_FIELDS) if status != _DELETED
            )


def _of_hudi(logs: Path) -> Iterator[tuple[str, int]]:
    for home, content in hudi_log.commit_contents(logs):
        root = f"s3://{BUCKET}/warehouse/{home.name}"
        (record,) = open_avro(content).records
        for stats in record["partitionToWriteStats"].values():
            yield from ((f"{root}/{stat['path']}", stat["fileSizeInBytes"]) for stat in stats)


def _table(files: Iterator[tuple[str, int]]) -> pa.Table:
    paths, sizes = zip(*files, strict=True)
    return pa.table({"path": pa.array(paths, pa.string()), "size": pa.array(sizes, pa.int64())})


LISTED: Mapping[str, Callable[[Path], pa.Table]] = {
    "iceberg": lambda logs: _table(_of_iceberg(logs)),
    "hudi": lambda logs: _table(_of_hudi(logs)),
}
"""By format (path, size) of the files that the logs of all its tables list."""

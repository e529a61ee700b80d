"""Whole audits of tables that are read by folder: what lies there and no manifest lists."""

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.emit import WrittenFile, emit
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.conftest import Aws

NOW = datetime.now(UTC)
WEEK = NOW - timedelta(days=7)


def put(path: Path, body: bytes, at: datetime = WEEK) -> Path:
    """A file that was written then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def listed(lists: Path, *files: Path, hours: float, **how: Any) -> None:
    """A list that a job wrote so many hours ago; each file has ten rows."""
    rows = [WrittenFile(str(file), file.stat().st_size, records=10) for file in files]
    at = NOW - timedelta(hours=hours)
    emit(str(lists), rows, job_id=f"job-{hours}", committed_at=at, **how)


def lake_of(folder: Path, tables: str, extra: str = "") -> Lake:
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: plain\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: {folder / 'data'}}}]\ntables:\n{tables}\n{extra}"
    )
    return load_lake(path, {})


def findings_of(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    return [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]


TABLES = {"events": "", "by_catalog": ", readers: state"}
"""Plain tables, and how their readers find files."""


@dataclass(frozen=True)
class FolderAudits:
    """Two audits; the stale files were deleted between them."""

    data: Path
    lake: Lake
    findings: list[dict[str, Any]]
    leftovers: list[str]
    ledger: list[dict[str, Any]]


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> FolderAudits:
    """Each second job replaced the first in one partition and left one of its files behind."""
    folder = tmp_path_factory.mktemp("folders")
    lines = []
    for table, readers in TABLES.items():
        data, lists = folder / "data" / table, folder / "lists" / table
        first = [put(data / f"day={d}" / f"part-{n}.csv", b"%d,%d" % (d, n)) for d in (1, 2) for n in (1, 2)]
        listed(lists, *first, hours=160)
        second = put(data / "day=1" / "part-9.csv", b"9")
        listed(lists, second, hours=100, action="replace", scope=str(data / "day=1"))
        first[0].unlink()
        complete = f"{{kind: file_list, location: {lists}, complete: true}}"
        lines.append(f"- {{name: {table}, location: {data}, manifests: [{complete}]{readers}}}")
    data = folder / "data/events"
    put(data / "day=2" / "part-8.csv", b"888")
    lake = lake_of(folder, "\n".join(lines))
    audited(lake, run_id="r1")
    findings = findings_of(lake, "r1")
    leftovers = [row["key"] for row in rows_of(results_of(lake).leftover_files("r1"))]
    (data / "day=1" / "part-2.csv").unlink()
    audited(lake, run_id="r2")
    return FolderAudits(data, lake, findings, leftovers, list(rows_of(results_of(lake).discrepancies())))


def test_a_retired_file_and_one_never_listed_are_read_as_data(audits: FolderAudits) -> None:
    rows = {row["subject"]: row for row in audits.findings if row["table_name"] == "events"}
    assert rows.keys() == {"day=1#stale_visible", "day=2#stale_visible"}
    told = [
        (r["kind"], r["severity"], r["files"], r["rows_at_stake"], r["bytes_at_stake"]) for r in rows.values()
    ]
    assert sorted(told, key=str) == [
        ("stale_visible", "error", 1, 10, 3),
        ("stale_visible", "error", 1, None, 3),
    ]
    files = [key for key in audits.leftovers if "/events/" in key]
    assert sorted(files) == [str(audits.data / name)[1:] for name in ("day=1/part-2.csv", "day=2/part-8.csv")]


def test_what_is_taken_out_of_the_folder_is_resolved(audits: FolderAudits) -> None:
    ends = {
        row["subject"]: (row["kind"], row["state"], row["resolution"])
        for row in audits.ledger if row["table_name"] == "events"
    }  # fmt: skip
    assert ends == {
        "day=1#stale_visible": ("stale_visible", "resolved", "restored"),
        "day=2#stale_visible": ("stale_visible", "open", None),
    }


def test_where_readers_go_by_a_catalog_the_same_is_storage(audits: FolderAudits) -> None:
    assert [row["kind"] for row in audits.findings if row["table_name"] == "by_catalog"] == []
    assert [table.read_by_folder for table in audits.lake.tables] == [True, False]


def test_a_rename_that_stopped_half_way(aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> None:
    """Files under two folders are one finding; files that readers skip are not reported."""
    names = [f"part-{n}-0a1b2c3d-0000-4000-8000-00000000000{n}.csv" for n in range(3)]
    for folder in ("incoming", "_hidden"):
        for name in names:
            aws.s3.put_object(Bucket=bucket, Key=f"t/{folder}/{name}", Body=name.encode())
    time.sleep(1.1)  # S3 times have whole seconds
    for name in names[:2]:
        aws.s3.copy_object(Bucket=bucket, Key=f"t/final/{name}", CopySource=f"{bucket}/t/incoming/{name}")
    time.sleep(1.1)
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: plain\nresults: {tmp_path / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"tables: [{{name: t, location: 's3://{bucket}/t'}}]\n"
    )
    lake = load_lake(path, {})
    outcome = audited(lake, run_id="r1", live=True)
    (row,) = findings_of(lake, "r1")
    assert (row["kind"], row["subject_type"], row["key"], row["related_key"], row["files"]) == (
        "half_moved", "prefix", "t/final/", "t/incoming/", 2,
    )  # fmt: skip
    assert (
        f"younger folder: s3://{bucket}/t/final, older folder: s3://{bucket}/t/incoming" in row["explanation"]
    )
    assert outcome.summary["findings"] == {"half_moved": 1}
    for name in names[:2]:
        aws.s3.delete_object(Bucket=bucket, Key=f"t/incoming/{name}")
    audited(lake, run_id="r2", live=True)
    ledger = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    assert [(row["kind"], row["state"], row["resolution"]) for row in ledger] == [
        ("half_moved", "resolved", "restored")
    ]

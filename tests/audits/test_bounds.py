"""One whole audit of tables whose files or clocks are at a bound: each with its healthy neighbour in the same table."""

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.advice import next_steps
from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders import iceberg_files as iceberg
from tests.builders import inventory
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.delta_lake import BORN, Log, add, info, metadata, millis, remove
from tests.builders.hudi import commit, instant_text, stat, write_timeline
from tests.builders.iceberg_files import Entry, Snapshot
from tests.builders.inventory import Version
from tests.conftest import Aws

NOW = datetime.now(UTC)
LONG_AGO, EARLIER, FUTURE = NOW - timedelta(days=2), NOW - timedelta(days=3), datetime(2031, 1, 1, tzinfo=UTC)
JUST_BEFORE = LONG_AGO - timedelta(minutes=1)
PAST = LONG_AGO - timedelta(minutes=30)
"""The time of a clock that is behind by less than the grace."""


def put(path: Path, size: int = 100, at: datetime = JUST_BEFORE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    set_time(path, at)


def set_time(path: Path, at: datetime = LONG_AGO) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


def age_metadata(home: Path) -> None:
    """Metadata of Iceberg as old as storage says, whatever its writer's clock."""
    for path in (home / "metadata").iterdir():
        set_time(path)


# --- files that are too short to be read ---------------------------------------------------------------------------


def delta_short(home: Path) -> None:
    files = {"short.parquet": 10, "least.parquet": 12, "whole.parquet": 100}
    Log(home).commit(0, *BORN, *(add(name, size=size) for name, size in files.items()), when=LONG_AGO)
    for name, size in files.items():
        put(home / name, size)


def iceberg_short(home: Path) -> None:
    """A short data file, a short file of position deletes, and a short Puffin file with deletion vectors."""
    files = [Entry("short.parquet", 11), Entry("whole.parquet")]
    deletes = [Entry("deletes.parquet", 4, content=iceberg.POSITION_DELETES),
               Entry("vectors.puffin", 20, content=iceberg.POSITION_DELETES, offset=4)]  # fmt: skip
    at = {"data": files, "deletes": deletes}
    iceberg.write_metadata(home, {1: Snapshot(at, at=LONG_AGO)}, version=3)
    age_metadata(home)
    for entry in (*files, *deletes):
        put(home / "data" / entry.path, entry.size)


def hudi_short(home: Path) -> None:
    names = {f"{number}-0_0-1-1_20261101000000000.parquet": size for number, size in enumerate((8, 100))}
    write_timeline(home, {f"20261101000000000.{state}": body for state, body in {
        "commit.requested": "", "inflight": "",
        "commit": commit(*(stat(f"day=1/{name}", size) for name, size in names.items())),
    }.items()})  # fmt: skip
    for name, size in names.items():
        put(home / "day=1" / name, size, datetime(2026, 10, 31, tzinfo=UTC))


def list_short(home: Path) -> None:
    files = {"a.avro": 20, "b.orc": 5, "empty.orc": 0, "c.avro": 37}
    write_list(home, [{"path": name, "size": size} for name, size in files.items()])
    for name, size in files.items():
        put(home / name, size)


def write_list(home: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The list of a table, below the folder of all lists."""
    lines = [json.dumps(dict(row, path=str(home / row["path"]))) for row in rows]
    path = home.parent / "lists" / home.name / "1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join([*lines, json.dumps({"end": True, "lines": len(lines)})]))
    set_time(path)


# --- clocks of writers ---------------------------------------------------------------------------------------------


def delta_ahead(home: Path, clock: datetime = FUTURE) -> None:
    """In-commit times; of two files one is lost."""
    times = {"inCommitTimestamp": millis(clock), "timestamp": millis(clock)}
    timed = metadata(enableInCommitTimestamps="true")
    needs = {
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}
    }
    Log(home).commit(
        0, info("WRITE", **times), needs, timed, add("lost.parquet"), add("whole.parquet"), when=LONG_AGO
    )
    put(home / "whole.parquet")


def delta_behind(home: Path) -> None:
    delta_ahead(home, PAST)


def iceberg_ahead(home: Path, clock: datetime = FUTURE) -> None:
    iceberg.write_metadata(
        home, {1: Snapshot({"m": [Entry("lost.parquet"), Entry("whole.parquet")]}, at=clock)}
    )
    age_metadata(home)
    put(home / "data/whole.parquet")


def iceberg_behind(home: Path) -> None:
    iceberg_ahead(home, PAST)


def hudi_ahead(home: Path, instant: str = "20310101000000000") -> None:
    names = [f"{name}-0_0-1-1_{instant}.parquet" for name in ("lost", "whole")]
    body = commit(*(stat(f"day=1/{name}") for name in names))
    states = {"commit.requested": "", "inflight": "", "commit": body}
    for path in write_timeline(
        home, {f"{instant}.{state}": said for state, said in states.items()}
    ).iterdir():
        set_time(path)
    put(home / "day=1" / names[1])


def hudi_behind(home: Path) -> None:
    hudi_ahead(home, instant_text(PAST))


def list_ahead(home: Path, clock: datetime = FUTURE) -> None:
    rows = [
        {"path": f"{name}.parquet", "size": 100, "committed_at": clock.isoformat()}
        for name in ("lost", "whole")
    ]
    write_list(home, rows)
    put(home / "whole.parquet")


def list_behind(home: Path) -> None:
    list_ahead(home, PAST)


# --- rules and their order -----------------------------------------------------------------------------------------


def promised_short(home: Path) -> None:
    """Removed files that are still promised: one of 10 bytes where 100 were recorded, one whole."""
    names = ("cut.parquet", "kept.parquet")
    Log(home).commit(0, *BORN, *map(add, (*names, "live.parquet")), when=EARLIER)
    Log(home).commit(1, *(remove(name, removed=LONG_AGO, size=100) for name in names), when=LONG_AGO)
    for name, size in {"cut.parquet": 10, "kept.parquet": 100, "live.parquet": 100}.items():
        put(home / name, size, EARLIER - timedelta(hours=1))


def one_gone(home: Path, *gone: str) -> None:
    """Removed files of which one is gone: no sign of a VACUUM."""
    gone = gone or ("gone.parquet",)
    Log(home).commit(0, *BORN, *map(add, (*gone, "live.parquet")), when=EARLIER)
    Log(home).commit(1, *(remove(name, removed=LONG_AGO, size=100) for name in gone), when=LONG_AGO)
    put(home / "live.parquet", at=EARLIER - timedelta(hours=1))


def two_gone(home: Path) -> None:
    """All removed files are gone, as after a VACUUM that the log does not record."""
    one_gone(home, "gone.parquet", "too.parquet")


SHORT = ("unreadable_content", "critical")
LOST = [("dropped", "critical", "lost")]
TABLES: dict[Any, list[tuple[str, str, str]]] = {
    delta_short: [(*SHORT, "short")],
    iceberg_short: [(*SHORT, "deletes"), (*SHORT, "short"), (*SHORT, "vectors")],
    hudi_short: [(*SHORT, "0-0_0-1-1_20261101000000000")],
    list_short: [(*SHORT, "a"), (*SHORT, "b")],
    **dict.fromkeys(
        (delta_ahead, delta_behind, iceberg_ahead, iceberg_behind, list_ahead, list_behind), LOST
    ),
    hudi_ahead: [("dropped", "critical", "lost-0_0-1-1_20310101000000000")],
    hudi_behind: [("dropped", "critical", f"lost-0_0-1-1_{instant_text(PAST)}")],
    promised_short: [("size_mismatch", "warning", "cut")],
    one_gone: [("dropped_history", "warning", "gone")],
    two_gone: [("dropped_history", "info", "two_gone")],
}
"""Findings of an audit by table: kind, severity, and the name of the file or else of the table."""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Outcome]:
    folder = tmp_path_factory.mktemp("bounds")
    entries = []
    for table in TABLES:
        name = table.__name__
        (folder / name).mkdir()
        table(folder / name)
        kind = name.partition("_")[0]
        manifest = f"{{kind: {kind if kind in ('iceberg', 'hudi') else 'delta'}}}"
        if kind == "list":
            manifest = f"{{kind: file_list, location: '{folder}/lists/{name}/', complete: true}}"
        entries.append(f"- {{name: {name}, location: '{folder}/{name}', manifests: [{manifest}]}}")
    path = folder / "lake.yaml"
    listed_tables = "\n".join(entries)
    path.write_text(
        f"version: 1\nlake: bounds\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/'}}]\ntables:\n{listed_tables}\n"
        "defaults: {min_duplicate_size: 1MiB}\n"
    )
    lake = load_lake(path, {})
    return lake, audited(lake)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_what_is_found_at_a_bound(night: tuple[Lake, Outcome], table: Any) -> None:
    lake, outcome = night
    rows = [
        row
        for row in rows_of(results_of(lake).findings(outcome.run_id))
        if row["table_name"] == table.__name__
    ]
    found = sorted((row["kind"], row["severity"], Path(row["key"] or row["subject"]).stem) for row in rows)
    assert found == TABLES[table], [row["explanation"] for row in rows]


def test_no_file_is_too_young_by_the_clock_of_its_writer(night: tuple[Lake, Outcome]) -> None:
    lake, outcome = night
    rows = [row for row in results_of(lake).coverage(outcome.run_id) if row["axis"] == "content"]
    assert {row["table_name"]: row["out_of_window"] for row in rows} == {
        table.__name__: 0 for table in TABLES
    }
    assert {row["status"] for row in rows} == {"complete"}


@dataclass(frozen=True)
class AtRoot:
    """A table at the root of a bucket that keeps versions: one of its files is deleted, and its version is archived."""

    lake: Lake
    coverage: dict[str, Any]
    finding: dict[str, Any]


@pytest.fixture(scope="module")
def at_root(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> AtRoot:
    bucket, folder = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("root")
    reports = f"{bucket}-reports"
    for each in (bucket, reports):
        aws.s3.create_bucket(Bucket=each)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    log = "\n".join(map(json.dumps, [*BORN, add("a.parquet"), add("lost.parquet")])).encode()
    there = {f"_delta_log/{0:020}.json": log, "a.parquet": b"x" * 100}
    for key, body in there.items():
        aws.s3.put_object(Bucket=bucket, Key=key, Body=body)
        backdate(bucket, key, LONG_AGO)
    aws.s3.put_object(Bucket=bucket, Key="lost.parquet", Body=b"x" * 100, StorageClass="DEEP_ARCHIVE")
    backdate(bucket, "lost.parquet", LONG_AGO)
    aws.s3.delete_object(Bucket=bucket, Key="lost.parquet")
    versions = [
        Version(key, None, Size=len(body), LastModifiedDate=LONG_AGO, ETag="0" * 32, Bucket=bucket)
        for key, body in there.items()
    ]
    keep = partial(_put_object, aws, reports)
    inventory.lay(
        keep, [inventory.csv(versions)], at=NOW - timedelta(hours=1), under="inventories", source=bucket
    )
    (folder / "lake.yaml").write_text(
        f"version: 1\nlake: root\nresults: {folder / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: s3_inventory, location: 's3://{reports}/inventories/', margin: 0s}}]\n"
        f"tables: [{{name: root, location: 's3://{bucket}', manifests: [{{kind: delta}}]}}]\ndefaults: {{grace: 0s}}\n"
    )
    lake = load_lake(folder / "lake.yaml", {})
    outcome = audited(lake)
    (coverage,) = [row for row in results_of(lake).coverage(outcome.run_id) if row["axis"] == "content"]
    (finding,) = rows_of(results_of(lake).findings(outcome.run_id))
    return AtRoot(lake, coverage, finding)


def test_a_table_at_the_root_of_a_bucket_is_covered_by_a_report(at_root: AtRoot) -> None:
    counts = [at_root.coverage[name] for name in ("status", "consistent", "findings", "uncovered")]
    assert counts == ["complete", 1, 1, 0], at_root.coverage["reason"]


def test_a_version_in_the_archive_is_restored_before_it_is_brought_back(at_root: AtRoot) -> None:
    finding = at_root.finding
    assert (finding["kind"], finding["key"], finding["recoverable"], finding["storage_class"]) == (
        "dropped", "lost.parquet", "yes", "DEEP_ARCHIVE",
    )  # fmt: skip
    assert "the version to restore is in DEEP_ARCHIVE and must be restored first" in finding["explanation"]
    step = next_steps.way_back(finding)
    assert step is not None
    assert step.command.startswith("aws s3api restore-object ")
    assert "12 hours, or 48" in step.what


def _put_object(aws: Aws, bucket: str, key: str, body: bytes) -> None:
    aws.s3.put_object(Bucket=bucket, Key=key, Body=body)

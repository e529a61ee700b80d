"""A table's newest commits: time, operation, and numbers of added and removed files; limited in number."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Settings, Table
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.hudi import HudiManifest
from lakeaudit.evidence.manifest.hudi import reader as hudi
from lakeaudit.evidence.manifest.iceberg import IcebergManifest
from lakeaudit.evidence.manifest.iceberg import reader as iceberg
from lakeaudit.evidence.protocol import RECENT, Claims
from lakeaudit.keys import Location
from lakeaudit.schemas import RECENT_COMMIT, plain_time
from tests.builders import hudi as hudi_tables
from tests.builders import iceberg_files as of_iceberg
from tests.builders.delta_lake import BORN, Log, add, at, context, frozen, info, millis, remove, table

Row = tuple[Any, ...]
DELTA = "manifest:delta"


def recent_commits(claims: Claims, *columns: str) -> list[Row]:
    assert claims.recent is not None
    assert claims.recent.schema == RECENT_COMMIT
    names = columns or ("version", "operation", "files_added", "files_removed")
    return sorted(tuple(row[name] for name in names) for row in claims.recent.to_pylist())


def of_delta(folder: Path) -> Claims:
    return delta.read([table("orders", folder)], context(), DELTA, frozen)


def test_each_commit_with_its_files(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(0, *BORN, info("CREATE TABLE")).commit(1, info(), add("a"), add("b"))
    log.commit(2, info("OPTIMIZE"), remove("a"), remove("b"), add("c")).commit(3, add("d"))
    assert recent_commits(of_delta(tmp_path)) == [
        (0, "CREATE TABLE", 0, 0), (1, "WRITE", 2, 0), (2, "OPTIMIZE", 1, 2), (3, None, 1, 0),
    ]  # fmt: skip
    assert recent_commits(of_delta(tmp_path), "committed_at", "commit_id")[1] == (plain_time(at(1)), "1")


def test_the_time_that_a_commit_carries_counts(tmp_path: Path) -> None:
    carried = at(1) - timedelta(minutes=7)
    Log(tmp_path).commit(0, *BORN).commit(1, info(inCommitTimestamp=millis(carried)), add("a"))
    assert recent_commits(of_delta(tmp_path), "version", "committed_at")[1] == (1, plain_time(carried))


def test_only_the_newest_are_returned_even_if_more_are_read(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(0, *BORN)
    number = RECENT + 200
    for version in range(1, number):
        log.commit(version, add(f"file-{version}"), when=at(version / 10))
    versions = [version for (version,) in recent_commits(of_delta(tmp_path), "version")]
    assert versions == list(range(number - RECENT, number))


def test_commits_before_the_base_checkpoint_are_left_out(tmp_path: Path) -> None:
    log = Log(tmp_path).commit(0, *BORN, add("a"), when=at(-9000)).commit(1, add("b"), when=at(-8999))
    log.checkpoint(1, *BORN, add("a"), add("b")).commit(2, add("c"), when=at(0)).commit(
        3, add("d"), when=at(1)
    )
    assert {version for (version,) in recent_commits(of_delta(tmp_path), "version")} <= {0, 1, 2, 3}
    assert (3, None, 1, 0) in recent_commits(of_delta(tmp_path))


@pytest.mark.parametrize(
    ("summary", "files"),
    [
        ({"operation": "append", "added-data-files": "3", "total-data-files": "9"}, ("append", 3, 0)),
        ({"operation": "delete", "deleted-data-files": "2", "total-data-files": "0"}, ("delete", 0, 2)),
        ({"operation": "append"}, ("append", None, None)),
        ({}, (None, None, None)),
        ({"operation": "x" * 999, "added-data-files": "9" * 99}, ("x" * 60, None, None)),
    ],
)
def test_a_snapshot_by_its_summary(summary: dict[str, str], files: Row, tmp_path: Path) -> None:
    one = of_iceberg.Snapshot({"m1": [of_iceberg.Entry("a")]}, summary=summary)
    of_iceberg.write_metadata(tmp_path, {7: one})
    manifest = IcebergManifest(kind="iceberg", metadata=None)
    table = Table(
        name="t", location=Location.parse(str(tmp_path)), manifests=(manifest,), settings=Settings()
    )
    claims = iceberg.read([table], context(), "manifest:iceberg")
    assert recent_commits(claims) == [(7, *files)]
    assert recent_commits(claims, "committed_at", "commit_id") == [(plain_time(of_iceberg.AT), "7")]


def test_instants_with_numbers_of_written_and_removed_files(tmp_path: Path) -> None:
    first, second, third = (f"2026110{n}100000000" for n in range(1, 4))
    a, b = f"d=1/a_0-1-2_{first}.parquet", f"d=1/b_0-1-2_{second}.parquet"
    replaced = hudi_tables.commit(hudi_tables.stat(b), replaced={"d=1": ["a"]})
    hudi_tables.write_timeline(tmp_path, {
        f"{first}.commit": hudi_tables.commit(hudi_tables.stat(a)),
        f"{second}.replacecommit": replaced, f"{third}.commit.requested": "",
    })  # fmt: skip
    table = Table(
        name="t", location=Location.parse(str(tmp_path)), manifests=(HudiManifest(kind="hudi"),),
        settings=Settings(),
    )  # fmt: skip
    claims = hudi.read([table], context(), "manifest:hudi")
    assert recent_commits(claims) == [(int(first), "commit", 1, 0), (int(second), "replacecommit", 1, 1)]

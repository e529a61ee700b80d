"""Whole audits of the tables that Hudi's bundles for Spark wrote (tests/data/hudi): healthy, and broken."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit import projection_pass
from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.hudi import LAYOUTS, NO_WAIT, lake_of, names_of, unpacked
from tests.builders.inventory import Version, csv, lay
from tests.conftest import Aws

pytestmark = pytest.mark.variant


def findings(lake: Lake) -> list[dict[str, Any]]:
    return [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]


def lake_at(folder: Path, tables: Mapping[str, Path]) -> Lake:
    """The lake file of tables at these places, loaded."""
    entries = ", ".join(
        f"{{name: {name}, location: '{place}', manifests: [{{kind: hudi}}]}}"
        for name, place in tables.items()
    )
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: hudi\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/'}}]\n"
        f"tables: [{entries}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    return load_lake(path, {})


def files(folder: Path, pattern: str) -> list[Path]:
    """Files by the instants in their names, the oldest first."""
    return sorted(
        folder.glob(pattern), key=lambda path: path.name.split("_")[-1 if "parquet" in pattern else 1]
    )


@pytest.mark.parametrize(("layout", "screened"), [(1, False), (2, True)])
def test_every_healthy_table_is_quiet_and_fully_decided(
    tmp_path: Path, layout: int, screened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if screened:
        monkeypatch.setattr(projection_pass, "PREFILTER_FROM", 0)
    names = [name for name in names_of(layout) if (layout, name) != (1, "merging_failed_and_on")]
    unpacked(tmp_path, layout, names)
    lake = lake_of(tmp_path, names)
    outcome = audited(lake, run_id="r")
    assert (outcome.exit_code, outcome.warnings) == (0, ())
    assert [(r["table_name"], r["kind"], r["key"], r["explanation"]) for r in findings(lake)] == []
    rows = results_of(lake).coverage("r")
    assert {(r["table_name"], r["axis"], r["reason"]) for r in rows if r["status"] == "partial"} == set()
    assert {r["decided_share"] for r in rows if r["decided_share"] is not None} == {1.0}


def lost_of(wh: Path) -> dict[str, list[Path]]:
    """Return files to remove by kind of finding: one file of each role."""
    return {
        "dropped": [
            files(wh, "written/day=2026-11-01/*.parquet")[-1],
            files(wh, "archived/day=2026-11-02/*.parquet")[0],  # its commit is in the archive alone
            files(wh, "merging/day=2026-11-01/.*.log.*")[-1],
            files(wh, "compaction_planned/day=2026-11-01/*.parquet")[0],  # the plan's base is not there yet
            files(wh, "changes_kept/day=2026-11-01/.*cdc")[-1],
        ],
        "dropped_history": [
            files(wh, "written/day=2026-11-01/*.parquet")[0],
            files(wh, "overwritten/day=2026-11-01/*.parquet")[0],
            files(wh, "savepoint/day=2026-11-01/*.parquet")[0],
            files(wh, "compacted/day=2026-11-01/*.parquet")[0],
        ],
    }


LOSING = ("written", "archived", "merging", "compaction_planned", "changes_kept", "overwritten", "savepoint",
          "compacted", "cleaned")  # fmt: skip
OTHERWISE = {"archive_torn": "archived", "archive_gone": "archived", "unfinished": "written"}
"""Tables of layout 1 that are broken in another way than by a loss, and what each is a copy of."""


@dataclass(frozen=True)
class Broken:
    """One audit of broken tables: the same ones in each layout, whose number is in their names."""

    folder: Path
    lost: dict[int, dict[str, list[Path]]]
    """The removed files, by layout and kind of finding."""
    torn: dict[int, Path]
    unfinished: list[Path]
    """Files of the write that has not ended."""
    findings: list[dict[str, Any]]
    coverage: list[dict[str, Any]]
    outcome: Outcome

    def of(self, *tables: str) -> list[dict[str, Any]]:
        return [row for row in self.findings if row["table_name"] in tables]

    def reasons(self, table: str) -> dict[str, str]:
        """Return why something of the table could not be decided, by axis."""
        rows = [row for row in self.coverage if row["table_name"] == table]
        return {row["axis"]: row["reason"] for row in rows if row["status"] == "partial"}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Broken:
    folder = tmp_path_factory.mktemp("broken")
    lost, torn = dict[int, dict[str, list[Path]]](), dict[int, Path]()
    tables = dict[str, Path]()
    for layout in LAYOUTS:
        wh = unpacked(folder / str(layout), layout, [*LOSING, *(["merging_failed_and_on"] * (layout == 1))])
        tables |= {f"{path.name}_{layout}": path for path in sorted(wh.iterdir())}
        if layout == 1:
            for name, of in OTHERWISE.items():
                tables[name] = shutil.copytree(wh / of, wh / name)
        lost[layout] = lost_of(wh)
        for path in (each for paths in lost[layout].values() for each in paths):
            path.unlink()
        torn[layout] = files(wh, "cleaned/day=2026-11-01/*.parquet")[-1]
        torn[layout].write_bytes(b"torn")
        stray = wh / "cleaned/day=2026-11-01/stray-0_1-2-3_20261101000000000.parquet"
        stray.write_bytes(b"stray")
    tear_archive(tables["archive_torn"])
    for path in tables["archive_gone"].glob(ARCHIVE):
        path.unlink()
    unfinished = unfinish(tables["unfinished"])
    lake = lake_at(folder, tables)
    outcome = audited(lake, run_id="r")
    return Broken(folder, lost, torn, unfinished, findings(lake), results_of(lake).coverage("r"), outcome)


ARCHIVE = ".hoodie/archived/.commits_.archive*"


def tear_archive(table: Path) -> None:
    (first, *_) = sorted(table.glob(ARCHIVE))
    first.write_bytes(first.read_bytes()[:5000])


def unfinish(table: Path) -> list[Path]:
    """Leave an unfinished write, as a running or killed writer does; return its files."""
    newest = max(table.glob(".hoodie/*.commit"))
    instant = newest.name.partition(".")[0]
    newest.unlink()
    return [path for path in table.glob("day=*/*.parquet") if instant in path.name]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_loss_is_reported_by_its_kind(broken: Broken, layout: int) -> None:
    lost, torn = broken.lost[layout], broken.torn[layout]
    expected = {(kind, str(path)[1:]) for kind, paths in lost.items() for path in paths}
    found = broken.of(*(f"{name}_{layout}" for name in LOSING))
    content = {(r["kind"], r["key"]): r for r in found if r["axis"] == "content"}
    assert content.keys() == expected | {("size_mismatch", str(torn)[1:])}
    first = content["dropped", str(lost["dropped"][0])[1:]]
    assert (first["partition_path"], first["rows_at_stake"]) == ("day=2026-11-01", 5)
    assert [(r["kind"], r["table_name"]) for r in found if r["axis"] != "content"] == [
        ("stale_visible", f"cleaned_{layout}")  # older than the timeline: readers take it for archived
    ]


def test_a_log_file_of_a_failed_write_that_its_rollback_does_not_name_is_reported_as_info(
    broken: Broken,
) -> None:
    """In layout 1 it stays, behind a block that undoes it; only rollbacks by listing do not name it."""
    (row,) = broken.of("merging_failed_and_on_1")
    assert (row["kind"], row["severity"], row["explanation"][:8]) == ("unreferenced", "info", "1 file; ")


def test_a_torn_archive_is_reported_with_the_hidden_files_and_other_tables_are_judged(broken: Broken) -> None:
    """`test_every_loss_is_reported_by_its_kind` judges other tables of the same lake."""
    (row,) = broken.of("archive_torn")
    assert row["kind"] == "missing_metadata"
    assert "hides the files that its instants wrote and removed" in row["explanation"]
    assert "content" in broken.reasons("archive_torn")
    assert broken.outcome.exit_code == 3


def test_a_missing_archive_is_recognized_by_the_gap_before_the_timeline(broken: Broken) -> None:
    (row,) = broken.of("archive_gone")
    assert row["kind"] == "unreadable_evidence"
    assert "the timeline begins after" in row["explanation"]
    assert "content" in broken.reasons("archive_gone")


def test_only_unreadable_tables_are_undecided(broken: Broken) -> None:
    partial = {row["table_name"] for row in broken.coverage if row["status"] == "partial"}
    assert partial == {"archive_torn", "archive_gone"}


def test_an_unfinished_write_is_not_a_commit(broken: Broken) -> None:
    (row,) = broken.of("unfinished")
    assert row["kind"] == "uncommitted"
    files = len(broken.unfinished)
    assert row["explanation"].startswith("1 file; " if files == 1 else f"{files} files; ")


def test_tables_are_discovered_in_an_inventory_without_their_inner_tables(
    tmp_path: Path, aws: Aws, s3: Endpoint, bucket: str
) -> None:
    wh, rows = unpacked(tmp_path, 2, ["restored", "written"]), []
    for path in (each for each in wh.rglob("*") if each.is_file()):
        key, at = f"wh/{path.relative_to(wh)}", datetime.fromtimestamp(path.stat().st_mtime, UTC)
        put = aws.s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
        backdate(bucket, key, at)
        etag = put["ETag"].strip('"')
        rows.append(
            Version(key, None, Size=path.stat().st_size, LastModifiedDate=at, ETag=etag, Bucket=bucket)
        )
    assert wh.joinpath("restored", ".hoodie", "metadata", ".hoodie", "hoodie.properties").exists()

    def put_report(key: str, body: bytes) -> Any:
        return aws.s3.put_object(Bucket=bucket, Key=key, Body=body)

    lay(put_report, [csv(rows)], at=datetime.now(UTC), under="inv", source=bucket)
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: hudi\nresults: {tmp_path / 'results'}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: s3_inventory, location: 's3://{bucket}/inv/', margin: 0s}}]\n"
        f"tables: [{{discover: {{from: inventory, under: ['s3://{bucket}/wh/'], formats: [delta, hudi]}}}}]\n"
        f"defaults: {{{NO_WAIT}}}\n"
    )
    lake = load_lake(file, {})
    outcome = audited(lake, run_id="r")
    found = {table.name: table.manifests[0].kind for table in outcome.tables}
    assert found == {"restored": "hudi", "written": "hudi"}
    assert [(r["kind"], r["key"]) for r in findings(lake)] == []

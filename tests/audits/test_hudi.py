"""Whole audits of the tables that Hudi's bundles for Spark wrote (tests/data/hudi): healthy, and broken."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.pipeline import narrow_reading
from lakeaudit.pipeline.run_outcome import Outcome
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.hudi import LAYOUTS, NO_WAIT, lake_of, names_of, unpacked
from tests.builders.inventory import Version, csv, lay
from tests.conftest import Aws

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def findings(lake: Lake) -> list[dict[str, Any]]:
    return [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]


def judged(folder: Path, names: list[str]) -> tuple[Outcome, Lake]:
    lake = lake_of(folder, names)
    return audited(lake, run_id="r"), lake


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
        monkeypatch.setattr(narrow_reading, "SCREEN_FROM", 0)
    names = [name for name in names_of(layout) if (layout, name) != (1, "merging_failed_and_on")]
    unpacked(tmp_path, layout, names)
    outcome, lake = judged(tmp_path, names)
    assert (outcome.exit_code, outcome.warnings) == (0, ())
    assert [(r["table_name"], r["kind"], r["key"], r["explanation"]) for r in findings(lake)] == []
    rows = results_of(lake).coverage("r")
    assert {(r["table_name"], r["axis"], r["reason"]) for r in rows if r["status"] == "partial"} == set()
    assert {r["decided_share"] for r in rows if r["decided_share"] is not None} == {1.0}


def test_a_log_file_of_a_failed_write_that_its_rollback_does_not_name_is_told_as_info(tmp_path: Path) -> None:
    """In layout 1 it stays, behind a block that undoes it; only rollbacks by listing do not name it."""
    unpacked(tmp_path, 1, ["merging_failed_and_on"])
    _, lake = judged(tmp_path, ["merging_failed_and_on"])
    (row,) = findings(lake)
    assert (row["kind"], row["severity"], row["explanation"][:8]) == ("unreferenced", "info", "1 files;")


def lost_of(wh: Path) -> dict[str, list[Path]]:
    """By kind of finding files to remove: one of each part that files play."""
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


@layouts
def test_every_loss_is_named_by_what_it_is(tmp_path: Path, layout: int) -> None:
    names = ["written", "archived", "merging", "compaction_planned", "changes_kept", "overwritten", "savepoint",
             "compacted", "cleaned"]  # fmt: skip
    wh = unpacked(tmp_path, layout, names)
    lost = lost_of(wh)
    for path in (each for paths in lost.values() for each in paths):
        path.unlink()
    torn = files(wh, "cleaned/day=2026-11-01/*.parquet")[-1]
    torn.write_bytes(b"torn")
    stray = wh / "cleaned/day=2026-11-01/stray-0_1-2-3_20261101000000000.parquet"
    stray.write_bytes(b"stray")
    _, lake = judged(tmp_path, names)
    expected = {(kind, str(path)[1:]) for kind, paths in lost.items() for path in paths}
    found = findings(lake)
    content = {(r["kind"], r["key"]): r for r in found if r["axis"] == "content"}
    assert content.keys() == expected | {("size_mismatch", str(torn)[1:])}
    first = content["dropped", str(lost["dropped"][0])[1:]]
    assert (first["partition_path"], first["rows_at_stake"]) == ("day=2026-11-01", 5)
    assert [(r["kind"], r["table_name"]) for r in found if r["axis"] != "content"] == [
        ("uncommitted", "cleaned")
    ]


@pytest.fixture
def archived(tmp_path: Path) -> Path:
    return unpacked(tmp_path, 1, ["archived", "written"])


def test_a_torn_archive_is_told_with_what_it_hides_and_other_tables_are_judged(
    archived: Path, tmp_path: Path
) -> None:
    (first, *_) = sorted(archived.glob("archived/.hoodie/archived/.commits_.archive*"))
    first.write_bytes(first.read_bytes()[:5000])
    lost = files(archived, "written/day=2026-11-01/*.parquet")[-1]
    lost.unlink()
    outcome, lake = judged(tmp_path, ["archived", "written"])
    assert outcome.exit_code == 3
    rows = {(r["table_name"], r["kind"]): r for r in findings(lake)}
    assert rows.keys() == {("archived", "missing_metadata"), ("written", "dropped")}
    assert rows["archived", "missing_metadata"]["explanation"].endswith(
        "hides what its instants wrote and removed"
    )


def test_an_archive_that_is_not_there_is_told_by_what_came_before(archived: Path, tmp_path: Path) -> None:
    for path in archived.glob("archived/.hoodie/archived/.commits_.archive*"):
        path.unlink()
    outcome, lake = judged(tmp_path, ["archived", "written"])
    assert outcome.exit_code == 3
    (row,) = findings(lake)
    assert (row["kind"], row["table_name"]) == ("unreadable_evidence", "archived")
    assert "its timeline does not reach back to" in row["explanation"]


def test_tables_are_found_in_an_inventory_and_their_own_inner_ones_are_none(
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


def test_an_unfinished_write_is_no_commit(tmp_path: Path) -> None:
    """As a writer leaves it that is still at work, or that died."""
    wh = unpacked(tmp_path, 1, ["written"])
    newest = max(wh.glob("written/.hoodie/*.commit"))
    instant = newest.name.partition(".")[0]
    newest.unlink()
    _, lake = judged(tmp_path, ["written"])
    (row,) = findings(lake)
    files_of = [path for path in wh.glob("written/day=*/*.parquet") if instant in path.name]
    assert (row["kind"], row["table_name"]) == ("uncommitted", "written")
    assert row["explanation"].startswith(f"{len(files_of)} files; ")

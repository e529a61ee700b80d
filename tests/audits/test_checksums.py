"""Whole audits of Delta tables with version checksums: what a writer counted beside what the log lists."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.audit import projection_pass
from lakeaudit.config import Lake, load_lake
from tests.builders.audits import audited, leftover_status, results_of

NAMES = ("older", "differs", "met", "bytes", "torn", "none", "listed")


def write(place: Path) -> tuple[int, int]:
    """A table of three commits, the second of which replaced what the first wrote; its files and their bytes."""
    write_deltalake(str(place), pa.table({"n": range(3)}))
    write_deltalake(str(place), pa.table({"n": range(5)}), mode="overwrite")
    write_deltalake(str(place), pa.table({"n": range(7)}), mode="append")
    adds = pa.table(DeltaTable(str(place)).get_add_actions()).to_pydict()
    return len(adds["path"]), sum(adds["size_bytes"])


def checksum(place: Path, body: object, version: int = 2) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    (place / "_delta_log" / f"{version:020}.crc").write_text(text)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("checksums")
    for name in NAMES:
        files, size = write(folder / "wh" / name)
        versions = {
            "older": (1, {"numFiles": 9, "tableSizeBytes": 9}),
            "differs": (2, {"numFiles": files + 1, "tableSizeBytes": size + 100}),
            "met": (2, {"tableSizeBytes": size, "numFiles": files, "txnId": "x", "numDeletedRecordsOpt": 0}),
            "bytes": (2, {"tableSizeBytes": size - 1, "numFiles": files}),
            "torn": (2, '{"tableSizeBytes": 12'),
            "listed": (2, {"tableSizeBytes": size, "numFiles": files}),
        }
        if name in versions:
            version, body = versions[name]
            checksum(folder / "wh" / name, body, version)
    (folder / "lists").mkdir()
    lists = f", {{kind: file_list, location: '{folder}/lists', complete: false}}"
    tables = [
        f"{{name: {n}, location: '{folder}/wh/{n}', manifests: [{{kind: delta}}{lists if n == 'listed' else ''}]}}"
        for n in NAMES
    ]
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh'}}]\ntables: [{', '.join(tables)}]\n"
    )
    return load_lake(path, {})


def findings_by_table(lake: Lake, run_id: str) -> dict[str, dict[str, Any]]:
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return {row["table_name"]: row for row in rows}


@pytest.mark.parametrize("screen_from", [projection_pass.PREFILTER_FROM, 0], ids=["whole", "narrow"])
def test_a_checksum_that_counts_otherwise_is_a_finding_and_one_that_cannot_be_compared_has_a_reason(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, screen_from: int
) -> None:
    """The latter's table has a list that may not name all files next to the log: its files are not all known."""
    monkeypatch.setattr(projection_pass, "PREFILTER_FROM", screen_from)
    run_id = f"r{screen_from}"
    outcome = audited(lake, run_id=run_id)
    rows = findings_by_table(lake, run_id)
    assert {name: (row["kind"], row["axis"], row["subject"]) for name, row in rows.items()} == {
        name: ("incomplete_commit", "commit", f"{name}#checksum") for name in ("bytes", "differs")
    }
    assert (rows["differs"]["files"], rows["differs"]["bytes_at_stake"], rows["bytes"]["bytes_at_stake"]) == (
        1,
        100,
        1,
    )
    assert "crc of table version 2 counts 3 files, " in rows["differs"]["explanation"]
    assert "but the log lists 2 files, " in rows["differs"]["explanation"]
    (said,) = [warning for warning in outcome.warnings if "crc" in warning]
    assert said.endswith(
        "torn/_delta_log/00000000000000000002.crc is not a checksum: it cannot be understood"
    )
    assert outcome.status == "partial"
    status = leftover_status(lake, run_id)
    assert status == {name: "partial" if name in ("bytes", "differs") else "complete" for name in NAMES}
    listed = next(r for r in commit_rows(lake, run_id) if r["table_name"] == "listed")
    assert (listed["status"], listed["undecided"]) == ("complete", 1)
    assert listed["reason"].endswith(
        "of the table; this number could not be checked, because the file_list manifest of the table may be incomplete"
    )


def commit_rows(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    return [row for row in results_of(lake).coverage(run_id) if row["axis"] == "commit"]

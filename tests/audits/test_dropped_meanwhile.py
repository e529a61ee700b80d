"""A table that somebody drops, folder and all, while it is audited: what is said of it, and that others are judged."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.config import load_lake
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.hudi import reader as hudi
from lakeaudit.evidence.manifest.iceberg import reader as iceberg
from tests.builders.audits import audited, results_of
from tests.builders.hudi import NO_WAIT, unpacked
from tests.builders.iceberg_files import Entry, Snapshot, written


def of_delta(folder: Path, name: str) -> None:
    write_deltalake(folder / "wh" / name, pa.table({"id": [1, 2]}))


def of_iceberg(folder: Path, name: str) -> None:
    home = folder / "wh" / name
    (home / "data").mkdir(parents=True)
    (home / "data" / "a").write_bytes(b"x" * 100)
    written(home, {1: Snapshot({"m1": [Entry(f"file://{home}/data/a", 100, 1)]}, at=datetime.now(UTC))})


def of_hudi(folder: Path, name: str) -> None:
    unpacked(folder, 1, ["written"])
    (folder / "wh" / "written").rename(folder / "wh" / name)


FORMATS = {
    "delta": (of_delta, delta, "list_logs"),
    "iceberg": (of_iceberg, iceberg, "find"),
    "hudi": (of_hudi, hudi, "find"),
}
"""By format what lays a table, and what of its reader finds the metadata that is read then."""
WHY = {
    "delta": "not a Delta table: no commit and no checkpoint in ",
    "iceberg": "not an Iceberg table: no metadata.json in ",
    "hudi": "not a Hudi table: no hoodie.properties in ",
}


@pytest.mark.parametrize("kind", FORMATS)
def test_it_was_not_audited_no_file_of_it_is_called_lost_and_the_others_are_judged(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay, reader, finds = FORMATS[kind]
    for name in ("stays", "goes"):
        lay(tmp_path, name)
    find: Any = getattr(reader, finds)

    def then_drop(*given: Any, **named: Any) -> Any:
        found = find(*given, **named)
        shutil.rmtree(tmp_path / "wh" / "goes", ignore_errors=True)
        return found

    monkeypatch.setattr(reader, finds, then_drop)
    tables = ", ".join(
        f"{{name: {name}, location: '{tmp_path}/wh/{name}', manifests: [{{kind: {kind}}}]}}"
        for name in ("stays", "goes")
    )
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path / 'results'}\ntables: [{tables}]\n"
        f"inventories: [{{kind: listing, location: '{tmp_path}/wh/'}}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    lake = load_lake(file, {})
    outcome = audited(lake, run_id="r")
    rows = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    assert (outcome.exit_code, rows) == (3, [])
    content = {row["table_name"]: row for row in results_of(lake).coverage("r") if row["axis"] == "content"}
    assert (content["stays"]["status"], content["stays"]["decided_share"]) == ("complete", 1.0)
    assert (content["goes"]["status"], content["goes"]["files"]) == ("partial", 0)
    assert WHY[kind] in content["goes"]["reason"]

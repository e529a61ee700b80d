"""A table is dropped with its folder during the audit: its findings, and that other tables are judged."""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import load_lake
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.hudi import reader as hudi
from lakeaudit.evidence.manifest.iceberg import reader as iceberg
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.hudi import NO_WAIT, unpacked
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata


def of_delta(folder: Path, name: str) -> None:
    write_deltalake(folder / "wh" / name, pa.table({"id": [1, 2]}))


def of_iceberg(folder: Path, name: str) -> None:
    home = folder / "wh" / name
    (home / "data").mkdir(parents=True)
    (home / "data" / "a").write_bytes(b"x" * 100)
    write_metadata(
        home, {1: Snapshot({"m1": [Entry(f"file://{home}/data/a", 100, 1)]}, at=datetime.now(UTC))}
    )


def of_hudi(folder: Path, name: str) -> None:
    unpacked(folder, 1, ["written"])
    (folder / "wh" / "written").rename(folder / "wh" / name)


FORMATS = {
    "delta": (of_delta, delta, "list_logs"),
    "iceberg": (of_iceberg, iceberg, "find"),
    "hudi": (of_hudi, hudi, "find"),
}
"""By format: the function that writes a table, its reader, and the reader's function that lists metadata."""
WHY = {
    "delta": "not a Delta table: no commit and no checkpoint in ",
    "iceberg": "not an Iceberg table: no metadata.json in ",
    "hudi": "not a Hudi table: no hoodie.properties in ",
}


@dataclass(frozen=True)
class Audited:
    outcome: Outcome
    findings: list[dict[str, Any]]
    content: dict[str, dict[str, Any]]
    """Coverage of content by table."""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Audit two tables of each format: one stays, one is dropped after its metadata was listed."""
    folder, tables = tmp_path_factory.mktemp("dropped"), []
    with pytest.MonkeyPatch.context() as patch:
        for kind, (lay, reader, finds) in FORMATS.items():
            for name in (f"{kind}_stays", f"{kind}_goes"):
                lay(folder, name)
                place = f"{folder}/wh/{name}"
                tables.append(f"{{name: {name}, location: '{place}', manifests: [{{kind: {kind}}}]}}")
            patch.setattr(reader, finds, then_drop(getattr(reader, finds), folder / "wh" / name))
        file = folder / "lake.yaml"
        file.write_text(
            f"version: 1\nlake: shop\nresults: {folder / 'results'}\ntables: [{', '.join(tables)}]\n"
            f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\ndefaults: {{{NO_WAIT}}}\n"
        )
        lake = load_lake(file, {})
        outcome = audited(lake, run_id="r")
    results = results_of(lake)
    content = {row["table_name"]: row for row in results.coverage("r") if row["axis"] == "content"}
    return Audited(outcome, list(rows_of(results.findings("r"))), content)


def then_drop(find: Any, table: Path) -> Any:
    """Wrap a function so that the table is dropped after its call."""

    def found_and_dropped(*given: Any, **named: Any) -> Any:
        found = find(*given, **named)
        shutil.rmtree(table, ignore_errors=True)
        return found

    return found_and_dropped


@pytest.mark.parametrize("kind", FORMATS)
def test_it_was_not_audited_no_file_of_it_is_called_lost_and_the_others_are_judged(
    night: Audited, kind: str
) -> None:
    stays, goes = night.content[f"{kind}_stays"], night.content[f"{kind}_goes"]
    others = [row for row in night.findings if not row["table_name"].endswith("_goes")]
    assert (night.outcome.exit_code, others) == (3, [])
    assert {row["kind"] for row in night.findings} == {"table_missing"}  # the lake file names them
    assert (stays["status"], stays["decided_share"]) == ("complete", 1.0)
    assert (goes["status"], goes["files"]) == ("partial", 0)
    assert WHY[kind] in goes["reason"]

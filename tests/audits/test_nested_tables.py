"""Tables of other formats inside a table, and at its own root: the files that they list are not unused."""

import os
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
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.hudi import NO_WAIT, unpacked
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata

LONG_AGO = datetime(2026, 11, 1, tzinfo=UTC).timestamp()


def put(path: Path) -> None:
    """A file that is old enough to be a leftover."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 100)
    os.utime(path, (LONG_AGO, LONG_AGO))


def of_iceberg(home: Path) -> None:
    put(home / "data" / "of-iceberg.parquet")
    entry = Entry(f"file://{home}/data/of-iceberg.parquet", 100, 1)
    write_metadata(home, {1: Snapshot({"m1": [entry]}, at=datetime.now(UTC))})


def of_hudi(home: Path, folder: Path) -> None:
    wh = unpacked(folder, 2, ["written"])
    shutil.copytree(wh / "written", home, dirs_exist_ok=True)
    put(home / "day=2026-11-01" / "of-hudi-0_1-2-3_20261101000000000.parquet")


@dataclass(frozen=True)
class Night:
    outcome: Outcome
    findings: list[dict[str, Any]]

    def leftovers(self, table: str) -> list[str]:
        return sorted(row["subject"].rpartition("/wh/")[2] for row in self.findings
                      if row["table_name"] == table and row["axis"] == "leftover")  # fmt: skip


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """Each of the Delta tables has a leftover of its own in `strays`."""
    folder = tmp_path_factory.mktemp("nested")
    homes = {name: folder / "wh" / name for name in ("alone", "with_inner", "of_iceberg", "of_hudi")}
    for home in homes.values():
        write_deltalake(home, pa.table({"id": [1, 2]}))
        put(home / "strays" / "left.parquet")
    of_iceberg(homes["with_inner"] / "ice")
    of_hudi(homes["with_inner"] / "hudi", folder / "one")
    of_iceberg(homes["of_iceberg"])
    of_hudi(homes["of_hudi"], folder / "two")
    tables = [f"{{name: {n}, location: '{home}', manifests: [{{kind: delta}}]}}" for n, home in homes.items()]
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: nested\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"tables: [{', '.join(tables)}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    lake = load_lake(path, {})
    outcome = audited(lake, run_id="r")
    return Night(outcome, list(rows_of(results_of(lake).findings("r"))))


def test_files_of_tables_inside_are_theirs_and_a_stray_is_still_reported(night: Night) -> None:
    assert night.leftovers("alone") == ["alone/strays/#unreferenced"]
    assert night.leftovers("with_inner") == ["with_inner/strays/#unreferenced"]
    warnings = [line for line in night.outcome.warnings if "is a table of its own" in line]
    assert [line.rpartition("/wh/")[2].split(" ")[0] for line in warnings] == [
        "with_inner/hudi",
        "with_inner/ice",
    ]


@pytest.mark.parametrize(
    ("kind", "unused"),
    [("iceberg", ["of_iceberg/strays/#unreferenced"]), ("hudi", [])],
)
def test_what_another_format_lists_at_the_same_root_is_not_unused(
    night: Night, kind: str, unused: list[str]
) -> None:
    """Beside a Hudi timeline nothing is called unused: its own cleaner removes what goes."""
    assert night.leftovers(f"of_{kind}") == unused
    (warning,) = (line for line in night.outcome.warnings if f"wh/of_{kind} " in line)
    assert f"also holds metadata of {kind}" in warning


def test_nothing_else_is_found(night: Night) -> None:
    others = [row for row in night.findings if row["axis"] != "leftover" and row["severity"] != "info"]
    assert (others, night.outcome.exit_code) == ([], 0)

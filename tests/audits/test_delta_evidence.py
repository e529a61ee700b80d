"""Delta tables whose logs are odd: paths that leave the table's folder, and checkpoints that cannot be used."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import load_lake
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, START, Log, add


def put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (START.timestamp(), START.timestamp()))


def relative(home: Path) -> None:
    """Files as Spark finds them: two that are there, and one that is gone."""
    Log(home).commits([add("../shared/a"), add("p=1/../b"), add("../shared//./lost"), add("c")])
    put(home.parent / "shared/a", home / "b", home / "c")


def encrypted(home: Path) -> None:
    log = Log(home).commits([add("a")], [add("b")]).checkpoint(1, *BORN, add("a"), add("b"))
    path = log.folder / f"{1:020}.checkpoint.parquet"
    log.put(path.name, b"PARE" + path.read_bytes()[4:-4] + b"PARE")
    put(home / "a", home / "b")


def swapped(home: Path) -> None:
    log = Log(home).commits([add("a")], [add("b")], [])
    log.sidecar_checkpoint(2, *BORN, add("a"), add("b"), form="parquet")
    log._parquet("_sidecars/2-1.parquet", [add(f"other-{n}") for n in range(100)], 2)
    put(home / "a", home / "b")


TABLES = {"relative": relative, "encrypted": encrypted, "swapped": swapped}


@dataclass(frozen=True)
class Night:
    findings: list[dict[str, Any]]

    def finding_keys(self, table: str) -> list[tuple[str, str]]:
        rows = [row for row in self.findings if row["table_name"] == table and row["axis"] != "duplicate"]
        return sorted((row["kind"], row["key"].rpartition("/wh/")[2]) for row in rows)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    folder, lines = tmp_path_factory.mktemp("odd"), []
    for name, lay in TABLES.items():
        lay(folder / "wh" / name)
        lines.append(f"{{name: {name}, location: '{folder}/wh/{name}', manifests: [{{kind: delta}}]}}")
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: odd\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"tables: [{', '.join(lines)}]\ndefaults: {{grace: 0s, leftover_age: 0s, max_upload: 0s}}\n"
    )
    lake = load_lake(path, {})
    audited(lake, run_id="r")
    return Night(list(rows_of(results_of(lake).findings("r"))))


def test_paths_that_leave_the_folder_are_followed_as_spark_does(night: Night) -> None:
    assert night.finding_keys("relative") == [("dropped", "shared/lost")]


def test_a_checkpoint_that_only_lakeaudit_cannot_read_is_not_lost_metadata(night: Night) -> None:
    assert night.finding_keys("encrypted") == [
        ("unreadable_evidence", f"encrypted/_delta_log/{1:020}.checkpoint.parquet")
    ]


def test_a_sidecar_of_another_size_is_reported(night: Night) -> None:
    assert night.finding_keys("swapped") == [("missing_metadata", "swapped/_delta_log/_sidecars/2-1.parquet")]
    (row,) = (row for row in night.findings if row["table_name"] == "swapped")
    assert " bytes, and its checkpoint records " in row["explanation"]

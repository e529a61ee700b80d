"""A whole audit of a table and its shallow clone, on local places."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakeaudit.config import Lake, load_lake
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, Action, Log, add, features, remove

AGES_AGO = datetime.now(UTC) - timedelta(days=30)
LONG_AGO = datetime.now(UTC) - timedelta(days=1)


def lake_of(folder: Path) -> Lake:
    tables = "\n".join(
        f"  - {{name: {name}, location: {folder / name}, manifests: [{{kind: delta}}]}}"
        for name in ("orders", "copy")
    )
    (folder / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {folder / 'results'}\ninventories:\n"
        f"  - {{kind: listing, location: {folder / 'orders'}}}\n  - {{kind: listing, location: {folder / 'copy'}}}\n"
        f"tables:\n{tables}\ndefaults: {{grace: 0s}}\n"
    )
    return load_lake(folder / "lake.yaml", {})


def write(table: Path, *commits: list[Action]) -> None:
    """Commits of a table, and the files that it adds below its own root."""
    log = Log(table)
    for version, actions in enumerate(commits):
        log.commit(version, *(BORN if version == 0 else ()), *actions, when=LONG_AGO)
    for actions in commits:
        for name in (action["add"]["path"] for action in actions if "add" in action):
            if not name.startswith("/"):
                (table / name).write_bytes(b"x" * 100)


def hazards(lake: Lake, run_id: str) -> list[tuple[str, str, str, int]]:
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return [(r["kind"], r["table_name"], r["subject"], r["files"]) for r in rows if r["axis"] == "hazard"]


def test_a_clone_is_at_risk_once_its_source_has_removed_a_file(tmp_path: Path) -> None:
    source, clone = tmp_path / "orders", tmp_path / "copy"
    write(source, [add("a.parquet"), add("b.parquet")])
    write(clone, [add(f"{source}/a.parquet"), add(f"{source}/b.parquet"), add("own.parquet")])
    lake = lake_of(tmp_path)
    audited(lake, run_id="first")
    assert hazards(lake, "first") == []
    Log(source).commit(1, remove("a.parquet", removed=LONG_AGO), when=LONG_AGO)
    audited(lake, run_id="second")
    assert hazards(lake, "second") == [("clone_at_risk", "copy", "orders#clone_at_risk", 1)]
    Log(clone).commit(1, remove(f"{source}/a.parquet", removed=LONG_AGO), when=LONG_AGO)
    audited(lake, run_id="third")
    assert hazards(lake, "third") == []
    known = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    assert {(row["kind"], row["state"]) for row in known if row["axis"] == "hazard"} == {
        ("clone_at_risk", "resolved")
    }


def test_a_clone_that_cannot_be_read_keeps_its_sources_files_from_being_leftovers(tmp_path: Path) -> None:
    """Whoever deletes what the source removed may break the clone, which may have added it again."""
    source, clone = tmp_path / "orders", tmp_path / "copy"
    names = ["day=1/a.parquet", "day=2/b.parquet"]
    for day in ("day=1", "day=2"):
        (source / day).mkdir(parents=True)
    write(source, [add(name) for name in names], [remove(names[0], removed=AGES_AGO)])
    for name in names:
        os.utime(source / name, (AGES_AGO.timestamp(), AGES_AGO.timestamp()))
    lake = lake_of(tmp_path)
    audited(lake, run_id="alone")
    assert leftovers(lake, "alone") == [("unvacuumed", "orders", f"{source}/day=1/#unvacuumed")]
    write(clone, [add(f"{source}/{name}") for name in names[1:]], [features("unheardOf")])
    outcome = audited(lake, run_id="refused")
    assert outcome.exit_code == 3
    assert leftovers(lake, "refused") == []
    (row,) = [r for r in results_of(lake).coverage("refused", ["orders"]) if r["axis"] == "leftover"]
    assert (row["findings"], row["undecided"]) == (0, 1)


def leftovers(lake: Lake, run_id: str) -> list[tuple[str, str, str]]:
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return [(r["kind"], r["table_name"], r["subject"]) for r in rows if r["axis"] == "leftover"]

"""One damaged file is an evidence gap of its table, and the rest of the lake is audited: real Delta tables."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Claims
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.json_documents import RunSummary
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, leftover_status, results_of

pytestmark = pytest.mark.variant

LAKE = """
version: 1
lake: damaged
results: {folder}/results
inventories: [{{kind: listing, location: '{folder}/wh/'}}]
tables: [{tables}]
defaults: {{grace: 0s, leftover_age: 0s, max_upload: 0s, retention: 0s}}
"""


def table(home: Path, commits: int = 3, *, checkpoint: bool = False) -> Path:
    """A table of delta-rs with a file a commit; gives its log."""
    for number in range(commits):
        write_deltalake(home, pa.table({"id": [number, number + 1], "name": ["abcdef", "x"]}), mode="append")
    if checkpoint:
        DeltaTable(home).create_checkpoint()
        DeltaTable(home).cleanup_metadata()
        for path in (home / "_delta_log").glob("*.json"):
            path.unlink()
    return home / "_delta_log"


def commit(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def emptied(home: Path) -> None:
    commit(table(home), 1).write_bytes(b"")


def blank(home: Path) -> None:
    commit(table(home), 2).write_bytes(b" \n" * 50)


def cut_at_a_line(home: Path) -> None:
    """The newest commit without its file: its own counts show it."""
    path = commit(table(home), 2)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if '"add"' not in line))


def nested(home: Path) -> None:
    commit(table(home), 1).write_bytes(b'{"add":' * 300_000 + b"1" + b"}" * 300_000)


def not_utf8(home: Path) -> None:
    """Write a path that is not UTF-8 into the only checkpoint."""
    (path,) = table(home, checkpoint=True).glob("*.checkpoint.parquet")
    out = pa.BufferOutputStream()
    rows = pq.read_table(path)
    pq.write_table(rows, out, compression="none", use_dictionary=False, write_statistics=False)
    content = out.getvalue().to_pybytes()
    assert b"part-0" in content
    path.write_bytes(content.replace(b"part-0", b"\xff\xfert-0", 1))


def commit_info_alone(home: Path) -> None:
    """A healthy one: a commit that changes a property."""
    table(home)
    DeltaTable(home).alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})


def without_commit_info(home: Path) -> None:
    """A healthy one: writers need not describe their commits."""
    log = table(home)
    for path in log.glob("*.json"):
        lines = path.read_text().splitlines()
        path.write_text("".join(f"{line}\n" for line in lines if "commitInfo" not in line))


DAMAGES: dict[str, tuple[Callable[[Path], None], bool]] = {
    "emptied": (emptied, True),
    "blank": (blank, True),
    "cut": (cut_at_a_line, True),
    "nested": (nested, True),
    "not_utf8": (not_utf8, True),
    "commit_info": (commit_info_alone, False),
    "no_commit_info": (without_commit_info, False),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of all of them."""
    folder = tmp_path_factory.mktemp("lake")
    for name, (lay, _) in DAMAGES.items():
        lay(folder / "wh" / name)
    return folder


@pytest.fixture(scope="module")
def summary(folder: Path) -> RunSummary:
    """One audit of it."""
    return audited(lake_of(folder), run_id="damaged").summary


def lake_of(folder: Path) -> Lake:
    tables = ", ".join(
        f"{{name: {n}, location: '{folder}/wh/{n}', manifests: [{{kind: delta}}]}}" for n in DAMAGES
    )
    path = folder / "lake.yaml"
    path.write_text(LAKE.format(folder=folder, tables=tables))
    return load_lake(path, {})


def test_damaged_tables_are_partial_and_the_others_complete(summary: RunSummary) -> None:
    assert summary["tables"] == {
        name: "partial" if damaged else "complete" for name, (_, damaged) in DAMAGES.items()
    }
    assert summary["status"] == "partial"


def test_each_damaged_table_has_its_finding_and_no_other_table_has_one(summary: RunSummary) -> None:
    """A table without a readable state is reported as missing."""
    assert summary["findings"] == {
        "incomplete_commit": 1, "missing_metadata": 2, "table_missing": 1, "unreadable_evidence": 1,
    }  # fmt: skip


def test_a_commit_below_its_own_counts_is_named_with_both_numbers(folder: Path, summary: RunSummary) -> None:
    assert summary["status"] == "partial"
    results = results_of(lake_of(folder))
    (row,) = (one for one in rows_of(results.findings("damaged")) if one["kind"] == "incomplete_commit")
    assert (row["table_name"], row["severity"], row["axis"], row["table_version"]) == (
        "cut",
        "error",
        "commit",
        2,
    )
    assert (row["files"], row["rows_at_stake"], row["commit_id"]) == (1, 2, "2")
    assert row["explanation"].startswith(
        "commit 2 holds less than its own counts say: 0 of 1 added files, 0 of 2 added rows; "
    )
    reasons = {
        one["axis"]: one["reason"] for one in results.coverage("damaged") if one["table_name"] == "cut"
    }
    assert reasons["leftover"].startswith("commit 2 holds less than its own counts say")


@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), SourceError("s3://b", "cannot be reached", "try later")]
)
def test_a_kind_of_manifest_that_cannot_be_read_at_all_judges_none_of_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Without claims every live file would look unused."""
    for name in ("one", "two"):
        table(tmp_path / "wh" / name)
    (tmp_path / "wh" / "symlinked" / "_symlink_format_manifest").mkdir(parents=True)
    (tmp_path / "wh" / "symlinked" / "_symlink_format_manifest" / "manifest").write_text("")
    kinds = {"one": "delta", "two": "delta", "symlinked": "symlink"}
    tables = ", ".join(
        f"{{name: {name}, location: '{tmp_path}/wh/{name}', manifests: [{{kind: {kind}}}]}}"
        for name, kind in kinds.items()
    )
    (tmp_path / "lake.yaml").write_text(LAKE.format(folder=tmp_path, tables=tables))
    lake = load_lake(tmp_path / "lake.yaml", {})

    def unread(*_: object) -> Claims:
        raise error

    monkeypatch.setitem(MANIFESTS._by_name, "delta", replace(MANIFESTS["delta"], read=unread))
    assert audited(lake, run_id="r").exit_code == 3
    status = leftover_status(lake, "r")
    assert status == {"one": "partial", "two": "partial", "symlinked": "complete"}
    rows = [row for row in results_of(lake).coverage("r") if row["axis"] in ("content", "leftover")]
    reasons = {row["reason"] for row in rows if row["status"] == "partial"}
    assert len(reasons) == 1
    assert reasons <= {"it cannot be read: RuntimeError: boom", "cannot be reached; try later"}
    assert [row["kind"] for row in rows_of(results_of(lake).findings("r"))] == ["unreadable_evidence"]

"""A new check is one object that is registered by one call; docs/add-a-check.md shows this one."""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from lakeaudit.audit import projection_pass
from lakeaudit.audit.task_functions import kernel_with
from lakeaudit.checks import registry
from lakeaudit.checks.protocol import Check
from lakeaudit.checks.registry import checks, register, unregister
from lakeaudit.config import Lake, load_lake
from lakeaudit.engine.chunks import run_stage
from lakeaudit.errors import CannotAudit
from lakeaudit.evidence.protocol import Batches, RoutedStage
from lakeaudit.runtime.duck import Connection, task_connection
from tests.builders import success_markers
from tests.builders.artefacts import put
from tests.builders.audits import audited, results_of
from tests.builders.equal_sizes import SIZE_CHECK, judge_sizes, select_sizes

PAGE = Path(__file__).parents[2] / "docs" / "add-a-check.md"
WRITTEN = datetime(2026, 1, 5, tzinfo=UTC)
META: dict[str, Any] = {
    "id": "6f2d7a43-9c55-4f4e-8a0e-1d1f0a9d3c11",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type":"struct","fields":[{"name":"day","type":"string","nullable":true,"metadata":{}}]}',
    "partitionColumns": ["day"],
    "configuration": {},
}
FOLDERS = {"day=1": True, "day=2": False, "day=3": True}
"""Whether the write of a partition ended, by partition."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A Delta table of three partitions, of which one has no marker."""
    names = [f"{folder}/part-{number}.parquet" for folder in FOLDERS for number in range(2)]
    markers = [f"{folder}/_SUCCESS" for folder, ended in FOLDERS.items() if ended]
    for name in (*names, *markers):
        put(tmp_path / "orders" / name, "x" * 100, WRITTEN)
    start = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": META}]
    adds = [{"add": {"path": name, "partitionValues": {"day": name[4]}, "size": 100, "dataChange": True,
                     "modificationTime": int(WRITTEN.timestamp() * 1000)}} for name in names]  # fmt: skip
    log = "".join(f"{json.dumps(action)}\n" for action in (*start, *adds))
    put(tmp_path / "orders" / "_delta_log" / f"{0:020}.json", log, WRITTEN + timedelta(minutes=1))
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path}/results\n"
        f"inventories: [{{kind: listing, location: {tmp_path}/orders/}}]\n"
        f"tables: [{{name: orders, location: {tmp_path}/orders, manifests: [{{kind: delta}}]}}]\n"
    )
    return load_lake(file, {})


@pytest.fixture
def registered() -> Iterator[None]:
    register(success_markers.CHECK)
    yield
    unregister(success_markers.CHECK)


def findings_of(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    audited(lake, run_id=run_id)
    return [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("prefilter_from", [projection_pass.PREFILTER_FROM, 0])
def test_a_registered_check_adds_its_findings_and_another_brings_rows_of_several_keys_together(
    lake: Lake, prefilter_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection_pass, "PREFILTER_FROM", prefilter_from)
    with with_check(SIZE_CHECK):
        rows = findings_of(lake, "checked")
    found = sorted((row["kind"], row["partition_path"] or row["subject"], row["files"]) for row in rows)
    assert found == [("duplicate_content", "orders#100", 6), ("incomplete_commit", "day=2", 2)]
    (row,) = (row for row in rows if row["kind"] == "incomplete_commit")
    assert row["explanation"] == "day=2 has 2 files and no _SUCCESS marker"


def test_without_the_check_there_are_no_findings(lake: Lake) -> None:
    assert findings_of(lake, "unchecked") == []


@pytest.mark.usefixtures("registered")
def test_two_checks_cannot_have_one_name() -> None:
    with pytest.raises(CannotAudit, match="another check has this name"):
        register(replace(success_markers.CHECK, every_key=False))
    assert [check.name for check in checks()].count("success_markers") == 1


@contextmanager
def with_check(check: Check) -> Iterator[None]:
    register(check)
    try:
        yield
    finally:
        unregister(check)


def test_the_routes_of_a_check_travel_with_its_stages() -> None:
    with with_check(SIZE_CHECK):
        kernel = kernel_with(cast("Any", None))
    assert kernel.routes["sizes"] == SIZE_CHECK.routes["sizes"]
    stage = pickle.loads(pickle.dumps(RoutedStage(_hundred_sizes, kernel.routes)))
    with task_connection() as con:
        chunks = list(run_stage(con, stage, {}, 4))
    shares = [(chunk.share, size) for chunk in chunks for size in chunk.batch.column("size").to_pylist()]
    assert len({share for share, _ in shares}) > 1
    assert len(shares) == 100
    assert len({*shares}) == 10


def _hundred_sizes(_: Connection, __: Any) -> Batches:
    yield "sizes", pa.table({"size": [number % 10 for number in range(100)]})


@pytest.mark.parametrize(("check", "why"), [
    (replace(SIZE_CHECK, routes={}), "its `combine` gets no rows"),
    (replace(SIZE_CHECK, combine=None), "its `routes` are of no use"),
    (replace(SIZE_CHECK, routes={"same": "hash(size)"}), "another row has the kind 'same'"),
    (replace(SIZE_CHECK, routes={"claims": "hash(size)"}), "another row has the kind 'claims'"),
    (cast("Check", select_sizes), "it is not a Check"),
])  # fmt: skip
def test_a_check_that_cannot_work_is_refused(check: Check, why: str) -> None:
    with pytest.raises(CannotAudit, match=why):
        register(check)
    assert all(each is not check for each in checks())


def test_a_finding_of_an_unknown_kind_is_refused_with_the_name_of_its_check(lake: Lake) -> None:
    unknown = replace(SIZE_CHECK, judge=partial(judge_sizes, kind="equal_sizes"))
    why = r"check equal_sizes: its finding has the kind 'equal_sizes', which docs/kinds.md does not have"
    with with_check(unknown), pytest.raises(CannotAudit, match=why):
        audited(lake, run_id="unknown")


def test_a_check_of_another_package_is_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("markers", f"{success_markers.__name__}:CHECK", registry.GROUP)
    broken = EntryPoint("paper", "no_such_package:CHECK", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == registry.GROUP else [])
    registry._load.cache_clear()
    assert success_markers.CHECK in checks()
    unregister(success_markers.CHECK)
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])  # noqa: ARG005
    registry._load.cache_clear()
    with pytest.raises(CannotAudit, match="its check paper cannot be imported: ModuleNotFoundError"):
        checks()
    monkeypatch.undo()
    registry._load.cache_clear()


def test_the_page_shows_the_whole_module() -> None:
    module = Path(success_markers.__file__).read_text("utf-8")
    assert f"```python\n{module}```\n" in PAGE.read_text("utf-8")

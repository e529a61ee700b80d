"""A new check is one object that is registered by one call; docs/add-a-check.md shows this one."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit import projection_pass
from lakeaudit.checks.registry import checks, register, unregister
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import CannotAudit
from tests.builders import success_markers
from tests.builders.artefacts import put
from tests.builders.audits import audited, results_of

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
def test_a_registered_check_adds_its_findings(
    lake: Lake, prefilter_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection_pass, "PREFILTER_FROM", prefilter_from)
    rows = findings_of(lake, "checked")
    assert [(row["kind"], row["partition_path"], row["files"]) for row in rows] == [
        ("incomplete_commit", "day=2", 2)
    ]
    (row,) = rows
    assert row["explanation"] == "day=2 has 2 files and no _SUCCESS marker"


def test_without_the_check_there_are_no_findings(lake: Lake) -> None:
    assert findings_of(lake, "unchecked") == []


@pytest.mark.usefixtures("registered")
def test_two_checks_cannot_have_one_name() -> None:
    with pytest.raises(CannotAudit, match="another check has this name"):
        register(replace(success_markers.CHECK, every_key=False))
    assert [check.name for check in checks()].count("success_markers") == 1


def test_the_page_shows_the_whole_module() -> None:
    module = Path(success_markers.__file__).read_text("utf-8")
    assert f"```python\n{module}```\n" in PAGE.read_text("utf-8")

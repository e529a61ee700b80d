"""The task `audit` by the status file of a real audit: red for a lost file or lost coverage, green once a
person accepted it.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lake_fail_on import DEFAULT
from lake_outcomes import AUDIT, BY_FINDINGS, judge
from lakeaudit import cli


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake with two tables of three files."""
    for table in ("orders", "returns"):
        for part in range(3):
            write_deltalake(tmp_path / "lake" / table, pa.table({"id": [part]}), mode="append")
    tables = ", ".join(
        f"{{name: {table}, location: {tmp_path}/lake/{table}, manifests: [{{kind: delta}}]}}"
        for table in ("orders", "returns")
    )
    file = tmp_path / "shop.yaml"
    file.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path}/results\ndefaults: {{grace: 0s}}\n"
        "inventories:\n"
        f"  - {{kind: listing, location: {tmp_path}/lake/orders/}}\n"
        f"  - {{kind: listing, location: {tmp_path}/lake/returns/}}\n"
        f"tables: [{tables}]\n"
    )
    return str(file)


def status_of(lake: str) -> dict[str, Any]:
    """Audit as the DAG does, and return the status file."""
    file = Path(lake).with_name("status.json")
    assert cli.main(["audit", lake, "--fail-on", "never", "--status-file", str(file)]) in AUDIT.fine
    status: dict[str, Any] = json.loads(file.read_text())
    return status


def test_a_lost_file_is_red_until_it_is_accepted(lake: str) -> None:
    well = judge(AUDIT, status_of(lake), None, DEFAULT)
    assert (well.action, well.note) == ("go on", "")

    next(Path(lake).parent.glob("lake/orders/*.parquet")).unlink()
    status = status_of(lake)
    assert (status["severities"], status["unaccepted"]) == ({"critical": 1}, {"critical": 1})
    red = judge(AUDIT, status, None, DEFAULT)
    assert red.action == "fail"
    assert red.words.startswith(
        f"{BY_FINDINGS}: 1 critical finding that nobody accepted; audit ended with exit code 0: complete"
    )

    assert cli.main(["baseline", lake, "--reason", "an old file", "--until", "2099-12-31"]) == 0
    status = status_of(lake)
    assert (status["severities"], status["unaccepted"]) == ({"critical": 1}, {})
    green = judge(AUDIT, status, None, DEFAULT)
    assert (green.action, green.note) == ("go on", "1 accepted finding")


@pytest.mark.variant
def test_lost_coverage_is_red_until_it_is_accepted(lake: str) -> None:
    status_of(lake)
    text = Path(lake).read_text().splitlines(keepends=True)
    Path(lake).write_text("".join(line for line in text if "lake/orders/}" not in line))
    status = status_of(lake)
    assert status["coverage_lost"] == 1
    red = judge(AUDIT, status, None, DEFAULT)
    assert red.action == "fail"
    assert red.words.startswith(f"{BY_FINDINGS}: coverage lost in 1 table; audit ended with exit code 3: ")
    green = judge(AUDIT, status, None, ("critical", "failed"))
    assert green.action == "go on"
    assert "coverage lost in 1 table; 1 of 2 tables could not be judged" in green.note

    assert cli.main(["baseline", lake, "--reason", "no listing any more", "--until", "2099-12-31"]) == 0
    assert judge(AUDIT, status_of(lake), None, DEFAULT).action == "go on"

"""The SQL of docs/result-tables.md, run by DuckDB over result tables."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from lakeaudit.keys import Location
from tests.builders.results import NOON, covered, discrepancy, finding, publish, run

DOCUMENT = Path(__file__).parents[3] / "docs" / "result-tables.md"
STATEMENTS = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """DuckDB with the views of the document; the tables are those of a results folder."""
    later = datetime.now(UTC) + timedelta(days=1)
    lost, far = finding("dropped", "orders/a", rows_at_stake=50), finding("dropped", "orders/b")
    rows = [
        discrepancy(lost), discrepancy(far, first_seen_at=NOON - timedelta(days=9)),
        discrepancy(finding("dropped", "orders/accepted"), ack_until=later),
        discrepancy(finding("dropped", "orders/no-longer-accepted"), ack_until=NOON),
        discrepancy(finding("dropped", "orders/mended"), "resolved"),
        discrepancy(finding("unvacuumed", "orders/old"), "pending"),
        discrepancy(finding("unvacuumed", "events/old", table_name="events")),
    ]  # fmt: skip
    publish(
        Location.parse(str(tmp_path)), discrepancies=rows,
        runs=[run("r0"), run("r1", finished_at=NOON + timedelta(hours=1)),
              run("r2", "failed", finished_at=NOON + timedelta(hours=2))],
        coverage=[covered(run_id="r0", status="partial"), covered(run_id="r1"), covered(axis="metastore", status="off"),
                  covered(axis="leftover", status="partial", decided_share=0.5, reason="too few")],
    )  # fmt: skip
    engine = duckdb.connect()
    for name in ("discrepancies", "coverage", "runs"):
        engine.register(name, DeltaTable(tmp_path / name).to_pyarrow_dataset())
    for statement in STATEMENTS:
        if not statement.startswith("--"):
            engine.execute(statement)
    return lambda query: engine.execute(query).fetchall()


def test_what_is_open_and_accepted_by_nobody(ask: Ask) -> None:
    assert ask("SELECT \"key\" FROM open_now ORDER BY 1") == [
        ("events/old",), ("orders/a",), ("orders/b",), ("orders/no-longer-accepted",),
    ]  # fmt: skip


def test_by_table(ask: Ask) -> None:
    told = ask("SELECT table_name, critical, error, info, rows_at_stake, since FROM by_table ORDER BY 1")
    assert told == [("events", 0, 0, 1, None, NOON), ("orders", 3, 0, 0, 50, NOON - timedelta(days=9))]


def test_what_could_not_be_decided(ask: Ask) -> None:
    assert ask("SELECT table_name, axis, decided_share, reason FROM blind") == [
        ("orders", "leftover", 0.5, "too few")
    ]


def test_every_table_is_named_for_every_engine() -> None:
    named = [statement for statement in STATEMENTS if statement.startswith("--")]
    assert len(named) == 3
    for statement in named:
        assert [statement.count(f"shop/{name}") for name in ("discrepancies", "coverage", "runs")] == [
            1,
            1,
            1,
        ]

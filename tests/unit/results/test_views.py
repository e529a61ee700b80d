"""The views of docs/result-tables.md, and the names of the result tables in every engine."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.keys import Location
from tests.builders.questions import Answers, naming, questions, views
from tests.builders.results import NOON, covered, discrepancy, finding, publish, run

TABLES = ("runs", "coverage", "findings", "discrepancies", "transitions", "tables", "verified")


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    """DuckDB with the views of the documents; the tables are those of a results folder."""
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
        Location.parse(str(tmp_path)), discrepancies=rows, findings=[], transitions=[], tables=[], verified=[],
        runs=[run("r0"), run("r1", finished_at=NOON + timedelta(hours=1)),
              run("r2", "failed", finished_at=NOON + timedelta(hours=2))],
        coverage=[covered(run_id="r0", status="partial"), covered(run_id="r1"), covered(axis="metastore", status="off"),
                  covered(axis="leftover", status="partial", decided_share=0.5, reason="too few")],
    )  # fmt: skip
    return Answers(tmp_path)


def test_what_is_open_and_accepted_by_nobody(answers: Answers) -> None:
    assert [row["key"] for row in answers.rows('SELECT "key" FROM open_now ORDER BY 1')] == [
        "events/old", "orders/a", "orders/b", "orders/no-longer-accepted",
    ]  # fmt: skip


def test_by_table(answers: Answers) -> None:
    sql = "SELECT table_name, critical, error, info, rows_at_stake, since FROM by_table ORDER BY 1"
    assert [tuple(row.values()) for row in answers.rows(sql)] == [
        ("events", 0, 0, 1, None, NOON), ("orders", 3, 0, 0, 50, NOON - timedelta(days=9)),
    ]  # fmt: skip


def test_what_could_not_be_decided(answers: Answers) -> None:
    rows = answers.rows("SELECT table_name, axis, decided_share, reason FROM blind")
    assert [tuple(row.values()) for row in rows] == [("orders", "leftover", 0.5, "too few")]


def test_every_engine_names_every_table_that_the_documents_query() -> None:
    texts = naming()
    assert len(texts) == 3
    for text in texts:
        assert [text.count(f"shop/{name}") for name in TABLES] == [1] * len(TABLES)
    sources = {
        name
        for sql in (*views(), *questions().values())
        for name in re.findall(r"(?:FROM|JOIN) ([a-z_]+)", sql)
    }
    created = {re.match(r"CREATE VIEW (\w+)", sql)[1] for sql in views()}  # type: ignore[index]
    assert sources - created == {*TABLES}

"""The rows of the result table `tables` after a run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lakeaudit.audit.lake_tables import updated_rows
from lakeaudit.schemas import TABLES

Row = dict[str, Any]


def row(
    first: tuple[str, int] | None, last: tuple[str, int] | None = None, files: int | None = None, **given: Any
) -> Row:
    """A row with the ids and days of its first and last audit; the last is by default the first."""
    columns: Row = dict.fromkeys(TABLES.names) | {"lake": "shop", "table_name": "orders", "owner": "ann"}
    for audit, found in (("first", first), ("last", last or first)):
        if found is not None:
            columns |= {
                f"{audit}_run_id": found[0],
                f"{audit}_audited_at": datetime(2026, 11, found[1], tzinfo=UTC),
            }
    return columns | {"files": files} | given


NEVER = None
CASES: dict[str, tuple[Row | None, Row, Row]] = {
    "a new table": (None, row(("r1", 1), files=3), row(("r1", 1), files=3)),
    "a new table that could not be judged": (None, row(NEVER), row(NEVER)),
    "judged again": (row(("r1", 1), files=3), row(("r2", 2), files=5), row(("r1", 1), ("r2", 2), files=5)),
    "judged again, but not counted": (row(("r1", 1), files=3), row(("r2", 2)), row(("r1", 1), ("r2", 2))),
    "judged for the first time": (row(NEVER), row(("r2", 2), files=5), row(("r2", 2), files=5)),
    "not judged now": (row(("r1", 1), files=3), row(NEVER, owner="bob"), row(("r1", 1), files=3, owner="bob")),
    "an owner less": (row(("r1", 1)), row(("r2", 2), owner=None), row(("r1", 1), ("r2", 2), owner=None)),
    "a time before the first audit": (
        row(("r1", 5), ("r2", 6), files=3), row(("r3", 1), files=1), row(("r3", 1), ("r2", 6), files=3),
    ),
    "a time between two audits": (
        row(("r1", 1), ("r2", 6), files=3), row(("r3", 4), files=1), row(("r1", 1), ("r2", 6), files=3),
    ),
    "the first run again": (
        row(("r1", 1), ("r2", 2), files=3), row(("r1", 1), files=1), row(("r1", 1), ("r2", 2), files=3),
    ),
    "the last run again, at a later time": (row(("r1", 1), files=3), row(("r1", 2), files=4), row(("r1", 2), files=4)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_table_after_a_run(name: str) -> None:
    before, now, after = CASES[name]
    assert updated_rows([before] if before else [], [now]) == [after]
    assert updated_rows([after], [now]) == [after], "the same run again changes nothing"


def test_tables_that_the_run_did_not_audit_keep_their_row() -> None:
    others = [row(("r1", 1), table_name=name) for name in ("events", "zones")]
    after = updated_rows(others, [row(("r2", 2))])
    assert after == [others[0], row(("r2", 2)), others[1]]

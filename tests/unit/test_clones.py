"""Shallow clones: which of their live files their sources have removed."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.compare.clones import clone_findings, cloned, under_own_root
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.schemas import PAIR
from tests.builders.scenario import table

REMOVED = datetime(2026, 11, 19, tzinfo=UTC).replace(tzinfo=None)
ROOTS = {Location("lake", name): name for name in ("orders", "copy", "other")}


def claim(key: str, of: str, state: str = "live", **given: Any) -> dict[str, Any]:
    """What one table claims of a key, whose owner is the table below whose root it lies."""
    removed = None if state == "live" else REMOVED
    plain = {"bucket": "lake", "key": key, "table_name": of, "owner": key.partition("/")[0], "c_state": state}
    about = {
        "c_certain": True,
        "c_size": 100,
        "c_records": 10,
        "c_removed_at": removed,
        "s_presence": "present",
    }
    return plain | about | {"o_logged": True, "o_complete": True, "h_references": False} | given


FILE = "orders/a"
CLONE = claim(FILE, "copy")
LAKES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, int]]]] = {
    "the source lists it too": ([CLONE, claim(FILE, "orders")], []),
    "only older states of the source list it": (
        [CLONE, claim(FILE, "orders", "history")],
        [("copy", "orders", 1)],
    ),
    "gone in its source": ([CLONE, claim(FILE, "orders", "gone")], [("copy", "orders", 1)]),
    "its source has forgotten it": ([CLONE], [("copy", "orders", 1)]),
    "its source's log has a gap": ([claim(FILE, "copy", h_references=True)], []),
    "its source could not be read": ([claim(FILE, "copy", o_complete=False)], []),
    "its source has no log": ([claim(FILE, "copy", o_logged=False)], []),
    "the removal may have been undone in a gap": (
        [CLONE, claim(FILE, "orders", "history", c_certain=False)],
        [],
    ),
    "the clone removed it as well": (
        [claim(FILE, "copy", "history"), claim(FILE, "orders", "history")],
        [],
    ),
    "the clone may have removed it in a gap": (
        [claim(FILE, "copy", c_certain=False), claim(FILE, "orders", "history")],
        [],
    ),
    "it is lost already, which is another finding": (
        [claim(FILE, "copy", s_presence="absent"), claim(FILE, "orders", "history")],
        [],
    ),
    "two clones": (
        [CLONE, claim(FILE, "other"), claim(FILE, "orders", "gone")],
        [("copy", "orders", 1), ("other", "orders", 1)],
    ),
    "a file of the clone itself": ([claim("copy/a", "copy")], []),
    "a file of nobody": ([claim("elsewhere/a", "copy", owner=None)], []),
}


@pytest.mark.parametrize("name", LAKES)
def test_which_clones_are_at_risk(name: str) -> None:
    rows, expected = LAKES[name]
    con = duck.connect()
    found = duck.rows_of(cloned(con, under_own_root(con, pa.Table.from_pylist(rows, PAIR), ROOTS)))
    assert sorted((row["table_name"], row["source"], row["files"]) for row in found) == expected


def test_one_row_a_clone_and_source() -> None:
    con = duck.connect()
    rows = [
        claim(f"orders/{n}", of, state)
        for n in range(3)
        for of, state in (("copy", "live"), ("orders", "history"))
    ]
    each = cloned(con, under_own_root(con, pa.Table.from_pylist(rows, PAIR), ROOTS))
    twice = duck.union(con, [each, each])
    (row,) = clone_findings(con, twice, [table("copy").table])
    assert (row["kind"], row["axis"], row["severity"], row["subject"]) == (
        "clone_at_risk", "hazard", "error", "orders#clone_at_risk",
    )  # fmt: skip
    assert (row["files"], row["rows_at_stake"], row["bytes_at_stake"]) == (6, 60, 600)
    assert "the first at 2026-11-19T00:00:00Z, such as orders/0" in row["explanation"]
    assert clone_findings(con, twice, [table("orders").table]) == []

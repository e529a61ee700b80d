"""Shallow clones: which of their live files their sources have removed."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.clones import clone_findings, clone_outcomes, sum_clone_files
from lakeaudit.keys import Location
from lakeaudit.matching.share import under_own_root
from lakeaudit.matching.verdicts import FindingPolicy, finding_policy
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import PAIR
from tests.builders.connections import connection
from tests.builders.scenario import table

REMOVED = datetime(2026, 11, 19, tzinfo=UTC).replace(tzinfo=None)
HOMES = {name: Location("lake", name) for name in ("orders", "copy", "other")}


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
RISK, LISTED = "hazard.source_removed", "hazard.source_lists"
LAKES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, str, int]]]] = {
    "the source lists it too": ([CLONE, claim(FILE, "orders")], [("copy", "orders", LISTED, 1)]),
    "only older states of the source list it": (
        [CLONE, claim(FILE, "orders", "history")],
        [("copy", "orders", RISK, 1)],
    ),
    "gone in its source": ([CLONE, claim(FILE, "orders", "gone")], [("copy", "orders", RISK, 1)]),
    "its source has forgotten it": ([CLONE], [("copy", "orders", "hazard.source_forgot", 1)]),
    "what another table than the source says of it": (
        [CLONE, claim(FILE, "other", "gone")],
        [("copy", "orders", "hazard.source_forgot", 1)],
    ),
    "the clone removed it as well": (
        [claim(FILE, "copy", "history"), claim(FILE, "orders", "history")],
        [],
    ),
    "it is lost already, which is another finding": (
        [claim(FILE, "copy", s_presence="absent"), claim(FILE, "orders", "history")],
        [],
    ),
    "two clones": (
        [CLONE, claim(FILE, "other"), claim(FILE, "orders", "gone")],
        [("copy", "orders", RISK, 1), ("other", "orders", RISK, 1)],
    ),
    "a file of the clone itself": ([claim("copy/a", "copy")], []),
    "a file of nobody": ([claim("elsewhere/a", "copy", owner=None)], []),
    "a clone that nobody asked for": ([claim(FILE, "apart"), claim(FILE, "orders", "gone")], []),
}


def policy_with(**severities: str) -> FindingPolicy:
    tables = [table(name).table.model_copy(update={"severities": severities}) for name in ("copy", "other")]
    return finding_policy(tables, (), date(2026, 11, 20))


@pytest.mark.parametrize("name", LAKES)
def test_which_files_of_clones_are_looked_up_and_the_findings(name: str) -> None:
    rows, expected = LAKES[name]
    con = connection()
    claimed = under_own_root(con, pa.Table.from_pylist(rows, PAIR), HOMES)
    found = duck.rows_of(sum_clone_files(con, claimed, policy_with()))
    assert sorted((row["table_name"], row["source"], row["rule"], row["files"]) for row in found) == expected


def at_risk(con: Connection, spoken: FindingPolicy) -> Relation:
    """A clone of three files, which its source has removed, and of one that it lists; in two shares."""
    rows = [
        claim(f"orders/{n}", of, state)
        for n in range(3)
        for of, state in (("copy", "live"), ("orders", "history"))
    ]
    listed = [claim("orders/z", "copy"), claim("orders/z", "orders")]
    each = sum_clone_files(
        con, under_own_root(con, pa.Table.from_pylist([*rows, *listed], PAIR), HOMES), spoken
    )
    return duck.union(con, [each, each])


def test_one_row_a_clone_and_source() -> None:
    con = connection()
    rows = at_risk(con, policy_with())
    (row,) = clone_findings(con, rows)
    assert (row["kind"], row["axis"], row["severity"], row["subject"]) == (
        "clone_at_risk", "hazard", "error", "orders#clone_at_risk",
    )  # fmt: skip
    assert (row["files"], row["rows_at_stake"], row["bytes_at_stake"]) == (6, 60, 600)
    assert (
        "such as orders/0; orders has removed them, the first at 2026-11-19T00:00:00Z" in row["explanation"]
    )
    assert clone_outcomes(con, rows)["copy"] == {"finding": 6, "consistent": 2}


def test_what_the_lake_file_says_of_severities_holds() -> None:
    con = connection()
    assert [
        row["severity"] for row in clone_findings(con, at_risk(con, policy_with(clone_at_risk="info")))
    ] == ["info"]
    silenced = at_risk(con, policy_with(clone_at_risk="off"))
    assert clone_findings(con, silenced) == []
    assert clone_outcomes(con, silenced)["copy"] == {"ignored": 6, "consistent": 2}

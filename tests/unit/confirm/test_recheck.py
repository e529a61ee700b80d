"""Confirmation without a live check: by a second storage snapshot, and by a sample of a mass loss."""

from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.confirm.suspects import by_sample, by_second_cut, with_snapshot_findings_only
from lakeaudit.findings.absence_ceiling import Missing, SampleCheck
from lakeaudit.runtime import duck
from tests.builders.connections import connection

TEXT, TIME, NUMBER = pa.string(), pa.timestamp("us"), pa.int64()


@pytest.fixture
def audit() -> Iterator[Any]:
    """Return an audit with only the connection that these functions use."""
    con = connection()
    yield SimpleNamespace(con=con)
    con.close()


TWICE = [
    # axis, outcome, confirmation, found before, cuts of storage and store, oldest cut of the axis, confirmation then
    ("content", "finding", "none", 1, 2, None, 2, "second_cut"),
    ("content", "finding", "limit", 1, 2, None, 2, "second_cut"),
    ("content", "finding", "live", 1, 2, None, 2, "live"),
    ("content", "finding", "none", 2, 2, None, 2, "none"),
    ("content", "finding", "none", None, 2, None, 2, "none"),
    ("content", "undecided", "none", 1, 2, None, 2, "none"),
    ("content", "finding", "none", 1, None, None, None, "none"),
    ("content", "finding", "none", 1, 2, 1, 2, "second_cut"),
    ("metastore", "finding", "none", 1, 2, 3, 2, "second_cut"),
    ("metastore", "finding", "none", 1, 2, 1, 1, "none"),
    # a part of the table has a younger picture, and the ledger goes by that of the whole table
    ("content", "finding", "none", 1, 2, None, 1, "none"),
    ("content", "finding", "none", 1, 2, None, None, "second_cut"),
]


def test_a_second_snapshot_confirms_suspects_without_a_live_check(audit: Any) -> None:
    def at(hour: int | None) -> datetime | None:
        return None if hour is None else datetime(2026, 11, 21, hour)  # noqa: DTZ001 - as inside an audit

    schema = pa.schema({
        "n": NUMBER, "judged_table": TEXT, "axis": TEXT, "outcome": TEXT, "l_confirmation": TEXT, "known_at": TIME,
        "s_from": TIME, "m_from": TIME,
    })  # fmt: skip
    rows = [(n, str(n), axis, outcome, confirmation, at(before), at(storage), at(store))
            for n, (axis, outcome, confirmation, before, storage, store, *_) in enumerate(TWICE)]  # fmt: skip
    oldest = pa.schema({"judged_table": TEXT, "axis": TEXT, "cut_at": TIME})
    cuts = duck.small(oldest, [(str(n), row[0], at(row[6])) for n, row in enumerate(TWICE)])
    assert confirmations(by_second_cut(audit.con, duck.small(schema, rows), cuts)) == [
        row[-1] for row in TWICE
    ]


LOST = [
    # table, kind, outcome, source of storage, confirmation, confirmation then
    ("wiped", "dropped", "finding", "inventory", "limit", "sample"),
    ("wiped", "dropped_history", "finding", "inventory", "limit", "sample"),
    ("wiped", "phantom", "finding", "inventory", "limit", "sample"),
    ("wiped", "dropped", "finding", "inventory", "live", "live"),
    ("wiped", "dropped", "finding", "inventory", "denied", "denied"),
    ("wiped", "dropped", "finding", "listing", "limit", "limit"),
    ("wiped", "dropped", "finding", None, "limit", "limit"),
    ("wiped", "hidden", "finding", "inventory", "limit", "limit"),
    ("wiped", "size_mismatch", "finding", "inventory", "limit", "limit"),
    ("wiped", "dropped", "undecided", "inventory", "limit", "limit"),
    ("whole", "dropped", "finding", "inventory", "limit", "limit"),
]
OF_STORE = [("wiped", "hidden", "finding", "inventory", "limit", "sample"),
            ("wiped", "dropped", "finding", "inventory", "limit", "limit")]  # fmt: skip
WIPED = SampleCheck(Missing("wiped", "inventory", "storage", 200, 300), 9, 9, 9)
HIDDEN = SampleCheck(Missing("wiped", "store", "metastore", 200, 300), 9, 9, 9)


@pytest.mark.parametrize(
    ("rows", "lost", "then"),
    [(LOST, [WIPED], -1), (LOST, [], -2), (OF_STORE, [HIDDEN], -1), (OF_STORE, [], -2)],
)
def test_a_sample_speaks_for_the_rest_of_a_mass_loss(
    audit: Any, rows: list[tuple[Any, ...]], lost: list[SampleCheck], then: int
) -> None:
    schema = pa.schema({
        "n": NUMBER, "judged_table": TEXT, "kind": TEXT, "outcome": TEXT, "s_source": TEXT,
        "l_confirmation": TEXT, "m_source": TEXT,
    })  # fmt: skip
    given = duck.small(schema, [(n, *row[:-1], "store") for n, row in enumerate(rows)])
    assert confirmations(by_sample(audit, duck.relation(audit.con, given), lost)) == [
        row[then] for row in rows
    ]


NOT_RECHECKED = [
    # axis, table, outcome, kind, confirmation; what the snapshots show: outcome, kind, presence; outcome, confirmation
    ("content", "unread", "finding", "dropped", "live", "finding", "dropped", "absent", "finding", "error"),
    ("content", "unread", "finding", "dropped", "limit", "finding", "dropped", "absent", "finding", "error"),
    ("content", "unread", "finding", "dropped", "denied", "finding", "dropped", "absent", "finding", "denied"),
    ("metastore", "unread", "finding", "phantom", "live", "finding", "phantom", "absent", "finding", "error"),
    ("content", "unread", "finding", "archived", "live", "finding", "archived", "present", "finding", "error"),
    ("content", "unread", "finding", "size_mismatch", "live", "finding", "dropped", "absent", "finding", "error"),
    # absence, or another fault, that only the later look saw
    ("content", "unread", "finding", "dropped", "live", "out_of_window", None, "absent", "undecided", "error"),
    ("content", "unread", "finding", "dropped", "live", "consistent", None, "present", "undecided", "error"),
    ("content", "unread", "finding", "dropped", "live", "finding", "size_mismatch", "present", "undecided", "error"),
    # a gap in storage: only the live 404 proved it
    ("content", "unread", "finding", "dropped", "live", "undecided", None, "absent", "undecided", "error"),
    ("content", "unread", "consistent", None, "live", "finding", "dropped", "absent", "consistent", "live"),
    ("leftover", "unread", "finding", "unreferenced", "none", "finding", "unreferenced", "present", "finding", "none"),
    ("content", "read", "finding", "dropped", "live", "consistent", None, "present", "finding", "live"),
]  # fmt: skip


def test_without_the_newest_state_only_what_the_snapshots_show_stays(audit: Any) -> None:
    schema = pa.schema({
        "axis": TEXT, "judged_table": TEXT, "bucket": TEXT, "key": TEXT, "n": NUMBER, "outcome": TEXT, "kind": TEXT,
        "l_confirmation": TEXT, "s_presence": TEXT, "recheck_words": TEXT,
    })  # fmt: skip
    rows = [
        (axis, table, "b", str(n), n, outcome, kind, confirmation, "absent", None)
        for n, (axis, table, outcome, kind, confirmation, *_) in enumerate(NOT_RECHECKED)
    ]
    shown = [
        (row[0], row[1], "b", str(n), n, row[5], row[6], "none", row[7], None)
        for n, row in enumerate(NOT_RECHECKED)
    ]
    left = with_snapshot_findings_only(
        audit.con, duck.small(schema, rows), duck.small(schema, shown), {"unread": "access denied"}
    )
    told = sorted(duck.rows_of(left), key=lambda row: row["n"])
    assert [(row["outcome"], row["l_confirmation"]) for row in told] == [row[-2:] for row in NOT_RECHECKED]
    words = "not rechecked: the table's newest state could not be read again: access denied"
    assert {row["recheck_words"] for row in told if row["l_confirmation"] == "error"} == {words}
    assert left.columns == schema.names


def confirmations(rows: duck.Relation) -> list[str]:
    return [row["l_confirmation"] for row in sorted(duck.rows_of(rows), key=lambda row: row["n"])]

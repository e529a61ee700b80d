"""The rules of `guard`: what an object is, by what is known about it; the same in Python and in SQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.file_rules import facts_of
from lakeaudit.rules.guard_rules import FACTS, FREE, GUARD, NEEDED, STATUSES
from lakeaudit.rules.rule import judge
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import GUARDED

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC).replace(tzinfo=None)
DAY = timedelta(days=1)
DEAD: dict[str, Any] = {
    **dict.fromkeys(GUARDED.names), "bucket": "b", "key": "t/x", "owner": "t", "relative": False,
    "name_category": "data",
    "presence": "present", "modified_at": NOW - 30 * DAY, "by_parts": False, "now": NOW, "o_leftover_age": 3 * DAY,
    "o_max_upload": DAY, "o_by_folder": False, "o_by_outer_folder": False, "is_folder": False,
    "o_complete": True,
}  # fmt: skip
LIVE = {"r_live_table": "t", "r_live_here": True, "r_category": "data"}
STATUS: dict[str, tuple[dict[str, Any], str]] = {
    "no table lists it": ({}, "free"),
    "a state removed it": ({"r_gone": True}, "free"),
    "live": (LIVE, "live"),
    "live, and lost": ({**LIVE, "presence": "absent"}, "live"),
    "live, and a table is unreadable": ({**LIVE, "r_unknown": "x"}, "live"),
    "a metadata file that is needed": ({**LIVE, "r_category": "log"}, "live"),
    "a statistics file": ({**LIVE, "r_category": "statistics"}, "referenced"),
    "live in a clone elsewhere": ({**LIVE, "r_live_here": False}, "referenced"),
    "statistics that the metadata still names": (
        {"r_history_table": "t", "r_category": "statistics"}, "referenced",
    ),
    "promised": ({"r_history_table": "t"}, "promised"),
    "promised, and no owner": ({"r_history_table": "u", "owner": None}, "promised"),
    "no such object": ({"presence": "absent"}, "absent"),
    "no such object, and a name with a space": ({"presence": "absent", "key": "t/a b"}, "unknown"),
    "no such object, and a pattern": ({"presence": "absent", "key": "t/*.parquet"}, "unknown"),
    "no such object, but others below it": ({"presence": "absent", "is_folder": True}, "unknown"),
    "a local folder": ({"is_folder": True}, "unknown"),
    "readers of another table list a folder around it": ({"o_by_outer_folder": True}, "live"),
    "no such object, and a table is unreadable": ({"presence": "absent", "r_unknown": "x"}, "absent"),
    "read lately": ({"r_read": "it was read"}, "referenced"),
    "readers list the folder": ({"o_by_folder": True}, "live"),
    "readers list the folder, but a manifest removed it": ({"o_by_folder": True, "r_gone": True}, "free"),
    "a hidden file, and readers list the folder": ({"o_by_folder": True, "name_category": "temporary"}, "free"),
    "a table is unreadable": ({"r_unknown": "u: its log is damaged"}, "unknown"),
    "no owner": ({"owner": None}, "unknown"),
    "a log file": ({"name_category": "log"}, "unknown"),
    "metadata": ({"name_category": "other"}, "unknown"),
    "no complete manifest": ({"o_complete": False}, "unknown"),
    "storage did not answer": ({"presence": None, "modified_at": None}, "unknown"),
    "storage has no time": ({"modified_at": None}, "unknown"),
    "young": ({"modified_at": NOW - DAY}, "being_written"),
    "the upload may have begun long before": ({"modified_at": NOW - 3.5 * DAY, "by_parts": True}, "being_written"),
    "one request wrote it": ({"modified_at": NOW - 3.5 * DAY}, "free"),
    "unknown whether by parts": ({"modified_at": NOW - 3.5 * DAY, "by_parts": None}, "being_written"),
    "a commit took longer": ({"modified_at": NOW - 5 * DAY, "o_longest": 6 * DAY}, "being_written"),
    "young, and a table is unreadable": ({"modified_at": NOW - DAY, "r_unknown": "x"}, "being_written"),
    "young metadata that no version lists yet": ({"modified_at": NOW - DAY, "name_category": "other"}, "being_written"),
    "young, and no owner": ({"modified_at": NOW - DAY, "owner": None}, "unknown"),
    "written in the future": ({"modified_at": NOW + DAY}, "being_written"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATUS)
def test_the_status_of_an_object(name: str) -> None:
    known, status = STATUS[name]
    assert judge(GUARD, facts_of({**DEAD, **known}, FACTS)).verdict == status


def test_every_status_has_a_rule_and_every_rule_a_row() -> None:
    assert {rule.verdict for rule in GUARD} - {"unclassified"} == set(STATUSES)
    fired = {judge(GUARD, facts_of({**DEAD, **known}, FACTS)).id for known, _ in STATUS.values()}
    assert fired == {rule.id for rule in GUARD} - {"guard.unclassified"}


_maybe = st.sampled_from((None, True, False))
_text = st.sampled_from((None, "t"))
_time = st.one_of(st.none(), st.integers(-200, 10).map(lambda hours: NOW + timedelta(hours=hours)))
_span = st.one_of(st.none(), st.integers(0, 150).map(lambda hours: timedelta(hours=hours)))
ROWS = st.fixed_dictionaries(
    {
        "r_live_table": _text, "r_live_here": _maybe,
        "r_category": st.sampled_from((None, "data", "log", "statistics")),
        "r_history_table": _text, "r_gone": _maybe, "r_read": _text, "r_unknown": _text, "owner": _text,
        "presence": st.sampled_from((None, "present", "absent", "unclear")), "modified_at": _time, "by_parts": _maybe,
        "is_folder": _maybe,
        "o_by_outer_folder": _maybe,
        "o_leftover_age": _span, "o_max_upload": _span, "o_longest": _span, "o_by_folder": _maybe, "o_complete": _maybe,
        "name_category": st.sampled_from(("data", "log", "other", "temporary", "marker")),
    }
)  # fmt: skip


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_python_and_sql_agree(known: list[dict[str, Any]]) -> None:
    rows = [{**DEAD, **each} for each in known]
    with task_connection() as con:
        table = duck.small(GUARDED, [tuple(row[name] for name in GUARDED.names) for row in rows])
        fired = [row["rule_guard"] for row in duck.rows_of(apply_rules(con, table, FACTS, {"guard": GUARD}))]
    assert fired == [judge(GUARD, facts_of(row, FACTS)).id for row in rows]


@given(ROWS)
def test_only_an_object_without_any_reference_or_doubt_is_free(known: dict[str, Any]) -> None:
    row = {**DEAD, **known}
    if judge(GUARD, facts_of(row, FACTS)).verdict == FREE:
        assert not any(row[name] for name in ("r_live_table", "r_history_table", "r_read", "r_unknown"))
        assert row["owner"]
        assert row["o_complete"]
        assert row["presence"] == "present"
        assert row["modified_at"] + row["o_leftover_age"] <= NOW


def test_a_needed_file_comes_before_every_doubt() -> None:
    assert STATUSES[: len(NEEDED)] == NEEDED

"""Which row of `verified` counts, and what the ledger and the lake file change: a table of situations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.commands.verified import verified
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.verified_tables import last_watermarks
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.results import LAKE, NOON, covered, discrepancy, finding, lake_file, publish, run

Row = dict[str, Any]

HOUR = timedelta(hours=1)
THROUGH = NOON - 24 * HOUR
ORDERS, OTHER = "s3://lake/orders", "s3://lake/other"
TABLE: Row = {"name": "orders", "location": ORDERS, "manifests": [{"kind": "delta"}]}
SECOND = TABLE | {"name": "other", "location": OTHER}
RENAMED = {"tables": [TABLE | {"name": "sales"}]}
DISCOVERY: Row = {
    "tables": [{"discover": {"from": "inventory", "under": ["s3://lake/wh/"]}}],
    "inventories": [{"kind": "s3_inventory", "location": "s3://inventory/lake/all"}],
}


def ago(hours: float) -> datetime:
    return NOON - timedelta(hours=hours)


def audit(run_id: str, hours: float, status: str = "complete", **given: Any) -> Row:
    end = None if status == "running" else ago(hours)
    return run(run_id, status, as_of=ago(hours), started_at=ago(hours), finished_at=end, **given)


def mark(run_id: str, hours: float, through: float | None, table: str = "orders", **given: Any) -> Row:
    """A row of an audit `hours` ago; its commits are verified up to `through` hours ago."""
    at = None if through is None else ago(through)
    return {
        "run_id": run_id, "lake": LAKE, "table_name": table, "location": ORDERS, "as_of": ago(hours),
        "verified_through": at, "movement": "forward", "open_discrepancies": 0, "blocked_by": [], **given,
    }  # fmt: skip


def judged(table: str = "orders", run_id: str | None = "r1", hours: float = 2) -> Row:
    at = None if run_id is None else ago(hours)
    place = {"location": ORDERS} if table in ("orders", "sales") else {}
    return {"lake": LAKE, "table_name": table, "last_run_id": run_id, "last_audited_at": at, **place}


def fault(
    hours: float | None, kind: str = "dropped", state: str = "open", of: str = "k", **given: Any
) -> Row:
    """A fault about the file `of`, which was committed `hours` ago."""
    at = None if hours is None else ago(hours)
    return discrepancy(finding(kind, of, **given), state, manifest_time=at, **given)


@dataclass(frozen=True)
class Situation:
    """The rows of the results, and the expected answers: are the commits that are older than a day verified?"""

    name: str
    answers: Mapping[str, tuple[str, str]]
    runs: Sequence[Row] = (audit("r1", 2),)
    rows: Sequence[Row] = (mark("r1", 2, 3),)
    ledger: Sequence[Row] = ()
    tables: Sequence[Row] = (judged(),)
    lake: Row = field(default_factory=dict)
    coverage: Sequence[Row] = ()


YES, NO, UNKNOWN = "yes", "no", "unknown"
SITUATIONS = (
    Situation("no audit", {"orders": (UNKNOWN, "no audit has judged")}, (), (), tables=()),
    Situation("last night's audit", {"orders": (YES, "2026-11-21 09:00:00Z")}),
    Situation("audits that were killed, or ended without results, do not count",
              {"orders": (UNKNOWN, "2026-11-20 11:00")},
              (audit("r1", 24), audit("r2", 2, "running"), audit("r3", 1, "failed")),
              (mark("r1", 24, 25), mark("r2", 2, 3), mark("r3", 1, 2))),
    Situation("the rows of two audits at once: the later storage snapshot counts", {"orders": (YES, "10:00")},
              (audit("b", 1), audit("a", 2)), (mark("b", 1, 2), mark("a", 2, 3))),
    Situation("two audits at the same time: the larger run id counts, in every reading", {"orders": (YES, "10:00")},
              (audit("a", 1), audit("b", 1)), (mark("b", 1, 2), mark("a", 1, 3))),
    Situation("a backfill does not replace a later audit", {"orders": (YES, "09:00")},
              (audit("r1", 2), audit("r2", 300)), (mark("r1", 2, 3), mark("r2", 300, 301))),
    Situation("a table that was not in scope for a month", {"orders": (UNKNOWN, "2026-10-22"), "other": (YES, "09:00")},
              (audit("r0", 720), audit("r1", 2)),
              (mark("r0", 720, 721), mark("r1", 2, 3, "other", location=OTHER)),
              tables=(judged(), judged("other")),
              lake={"tables": [TABLE, SECOND]}),
    Situation("a table that came back under its name, but at another location",
              {"orders": (UNKNOWN, "s3://lake/orders")},
              rows=(mark("r1", 2, 3, location=OTHER),)),
    Situation("a renamed table, before its next audit", {"sales": (UNKNOWN, "no audit has judged")},
              lake=RENAMED),
    Situation("a renamed table, after its next audit", {"sales": (YES, "11:00")}, (audit("r1", 24), audit("r2", 0)),
              (mark("r1", 24, 25), mark("r2", 0, 1, "sales")), tables=(judged(), judged("sales", "r2")),
              lake=RENAMED),
    Situation("a table that was renamed, judged, and has its former name again",
              {"orders": (UNKNOWN, "no commit is verified: a later audit judged its files under the name sales")},
              (audit("r1", 96), audit("r2", 80), audit("r3", 1)),
              (mark("r1", 96, 23), mark("r2", 80, 81, "sales"), mark("r3", 1, 2, "other", location=OTHER)),
              (fault(97, table_name="sales"),), (judged("orders", "r1", 96), judged("sales", "r2", 80))),
    Situation("an audit with a clock that was an hour ahead, alone", {"orders": (UNKNOWN, "clock")},
              (audit("r1", -1),), (mark("r1", -1, 0),)),
    Situation("an audit with a clock that was ahead, and one with the right clock", {"orders": (YES, "09:00")},
              (audit("r1", -72), audit("r2", 2)), (mark("r1", -72, -71), mark("r2", 2, 3))),
    Situation("a clock that is three minutes ahead",
              {"orders": (YES, "11:")},
              (audit("r1", -0.05),), (mark("r1", -0.05, 0.95),)),
    Situation("discovered tables, and one that has left; a clock ahead hides none",
              {"a": (YES, "09:00"), "x": (UNKNOWN, "clock")}, (audit("r0", 200), audit("r1", 2), audit("r2", -72)),
              (mark("r0", 200, 201, "gone"), mark("r1", 2, 3, "a"), mark("r2", -72, -71, "x")),
              tables=(judged("a"), judged("gone", "r0", 200)), lake=DISCOVERY),
    Situation("a discovered table that only audits of other tables followed",
              {"a": (YES, "09:00"), "b": (UNKNOWN, "2026-11-18"), "c": (UNKNOWN, "2026-11-18")},
              (audit("r0", 72, tables_expected=3), audit("r1", 2)),
              (*(mark("r0", 72, 73, name) for name in "bc"), mark("r1", 2, 3, "a")),
              tables=(judged("a"), judged("b", "r0", 72), judged("c", "r0", 72)), lake=DISCOVERY),
    Situation("a discovered table that a discovery with a gap misses, and one that was never judged",
              {"a": (YES, "09:00"), "b": (UNKNOWN, "2026-11-18"), "c": (UNKNOWN, "no audit has judged")},
              (audit("r0", 72), audit("r1", 2)), (mark("r0", 72, 73, "b"), mark("r1", 2, 3, "a")),
              (fault(48, "coverage_lost", table_name="b"), fault(48, "coverage_lost", table_name="c", of="c")),
              (judged("a"), judged("b", "r0", 72)), DISCOVERY),
    Situation("a loss that was found before the lake file left out its table, which came back since",
              {"orders": (UNKNOWN, "1 fault found before the lake file left out the table")},
              (audit("r0", 36), audit("r1", 12)), (mark("r0", 36, 1),),
              (fault(48, state="resolved", resolution="retired", resolved_at=ago(12)),), (judged("orders", "r0", 36),)),
    Situation("the same, of a lost log",
              {"orders": (UNKNOWN, "no commit is verified")},
              (audit("r0", 36), audit("r1", 12)), (mark("r0", 36, 1),),
              (fault(None, "missing_metadata", state="resolved", resolution="retired", resolved_at=ago(12)),),
              (judged("orders", "r0", 36),)),
    Situation("a loss that was retired before the last audit of its table, or by it", {"orders": (YES, "09:00")},
              (audit("r0", 36), audit("r1", 2)),
              ledger=(fault(48, state="resolved", resolution="retired", resolved_at=ago(12), last_run_id="r0"),
                      fault(48, state="resolved", resolution="retired", resolved_at=ago(1.9), of="by it"))),
    Situation("a loss in an old commit since the last audit, seen by an audit of a partition",
              {"orders": (NO, "2026-11-19 11:59:59")},
              ledger=(fault(48),)),
    Situation("a loss in a commit that is older than the oldest readable state: its time is too late",
              {"orders": (NO, "no commit is verified")},
              ledger=(fault(6),), coverage=(covered(history_horizon=ago(6)),)),
    Situation("a loss that `follow` found, before the next audit: nothing states whether its time is right",
              {"orders": (NO, "no commit is verified")},
              (audit("r1", 2), audit("f1", 1, "followed")),
              ledger=(fault(6, first_run_id="f1"),), coverage=(covered(history_horizon=ago(7)),)),
    *(Situation(f"a loss that `follow` found, after an audit that could read the states of {hours} hours",
                {"orders": (answer, reason)},
                (audit("f1", 3, "followed"), audit("r0", 2.5), audit("r1", 2)),
                ledger=(fault(6, first_run_id="f1"),), coverage=(covered(history_horizon=ago(hours)),))
      for hours, answer, reason in ((7, YES, "05:59:59"), (5, NO, "no commit is verified"))),
    Situation("a loss in a commit after the oldest readable state", {"orders": (YES, "05:59:59")},
              ledger=(fault(6),), coverage=(covered(history_horizon=ago(7)),)),
    Situation("a file that readers of the folder find, older than the oldest readable state",
              {"orders": (YES, "05:59:59")},
              ledger=(fault(None, "stale_visible", storage_time=ago(6)),), coverage=(covered(history_horizon=ago(5)),)),
    Situation("a loss in a commit of today", {"orders": (YES, "05:59:59")}, ledger=(fault(6),)),
    Situation("a lost log", {"orders": (NO, "no commit is verified")}, ledger=(fault(None, "missing_metadata"),)),
    Situation("a loss that was resolved since the last audit", {"orders": (UNKNOWN, "no later audit")},
              rows=(mark("r1", 2, 48, open_discrepancies=1, blocked_by=["x"]),), ledger=(fault(48, state="resolved"),)),
    Situation("an accepted loss", {"orders": (YES, "09:00")}, ledger=(fault(48, ack_until=NOON + HOUR),)),
    Situation("an acceptance that has ended",
              {"orders": (NO, "2026-11-19")}, ledger=(fault(48, ack_until=NOON - HOUR),)),
    Situation("an accepted loss, where accepted ones count", {"orders": (NO, "2026-11-19")},
              ledger=(fault(48, ack_until=NOON + HOUR),), lake={"ledger": {"accepted_stop_verified": True}}),
    Situation("a warning, an upcoming loss, lost coverage and a fault of another table", {"orders": (YES, "09:00")},
              ledger=(fault(48, "unvacuumed"), fault(48, "will_expire"), fault(48, "coverage_lost"),
                      fault(48, table_name="x"))),
    Situation("a gap stops it, with the reason of the last audit", {"orders": (UNKNOWN, "1 commit is unreadable")},
              (audit("r1", 26), audit("r2", 2)),
              (mark("r1", 26, 27), mark("r2", 2, 27, movement="same", blocked_by=["1 commit is unreadable"]))),
    Situation("a gap that ended", {"orders": (YES, "09:00")}, (audit("r1", 26), audit("r2", 2)),
              (mark("r1", 26, 99, blocked_by=["a gap"]), mark("r2", 2, 3))),
)  # fmt: skip


@pytest.mark.parametrize("case", SITUATIONS, ids=[case.name for case in SITUATIONS])
def test_answers(tmp_path: Path, case: Situation) -> None:
    place = Location.parse(str(tmp_path / "results"))
    lake = load_lake(lake_file(tmp_path, place, **case.lake), {})
    publish(place, runs=case.runs, verified=case.rows, discrepancies=case.ledger, tables=case.tables,
            coverage=case.coverage)  # fmt: skip
    found = verified(lake, Results(place, Clients(), LAKE), (), THROUGH, NOON)
    assert {each.table: each.answer for each in found} == {
        name: answer for name, (answer, _) in case.answers.items()
    }
    for each in found:
        assert case.answers[each.table][1] in each.reason


def test_a_backfill_continues_the_audits_of_its_past(tmp_path: Path) -> None:
    place = Location.parse(str(tmp_path / "results"))
    runs = [audit("r1", 72), audit("r2", 48), audit("r3", 2)]
    rows = [mark("r1", 72, 73), mark("r2", 48, 49), mark("r3", 2, 3)]
    publish(place, runs=runs, verified=rows, tables=[judged()])
    results = Results(place, Clients(), LAKE)
    before = {
        hours: last_watermarks(results, ["orders"], 36 * HOUR, ago(hours), but="r2")["orders"]["run_id"]
        for hours in (0, 47, 60)
    }
    assert before == {0: "r3", 47: "r1", 60: "r1"}


def test_only_files_of_recent_audits_are_read(tmp_path: Path) -> None:
    """Older files are damaged here: a reading of the whole history would fail."""
    place = Location.parse(str(tmp_path / "results"))
    for day in range(5):
        publish(place, runs=[audit(f"r{day}", 24 * (5 - day))])
        publish(place, verified=[mark(f"r{day}", 24 * (5 - day), 24 * (5 - day) + 1, name) for name in "ab"])
    publish(place, tables=[judged("a"), judged("b"), judged("new", None)])
    files = sorted(
        (tmp_path / "results" / "verified").glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns
    )
    for file in files[:3]:
        file.write_bytes(b"damaged")
    found = last_watermarks(Results(place, Clients(), LAKE), ["a", "b", "new"], 36 * HOUR, NOON)
    assert {name: row["run_id"] for name, row in found.items()} == {"a": "r4", "b": "r4"}

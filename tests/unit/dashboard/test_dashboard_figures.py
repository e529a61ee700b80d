"""The figures of the dashboard's pages: rows in the result tables, one call, the figures. No Streamlit, no JVM."""

import json
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import formatting
from lakeaudit.config import Lake, load_lake
from lakeaudit.dashboard import markup
from lakeaudit.dashboard.queries import plans as of_plans
from lakeaudit.dashboard.queries import runs as of_runs
from lakeaudit.dashboard.queries import subject as of_subject
from lakeaudit.dashboard.queries import table as of_table
from lakeaudit.dashboard.queries.history import Period, days_in
from lakeaudit.dashboard.queries.lake import (
    Health,
    LedgerSums,
    lake_days,
    lake_figures,
    levels,
    table_healths,
)
from lakeaudit.dashboard.queries.table import PAGE_ROWS, ListFilter
from lakeaudit.dashboard.queries.watermarks import watermarks
from lakeaudit.errors import CannotAudit
from lakeaudit.formatting import NO_TABLE
from lakeaudit.keys import Location
from lakeaudit.report.summary import Amount
from lakeaudit.results.read import Results
from lakeaudit.results.sql import ask
from lakeaudit.results.summaries.open_by_day import SPAN, OpenByDay
from lakeaudit.results.summaries.trends import changes
from lakeaudit.results.watermark import STEP
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import RESULTS
from tests.builders.results import (
    LAKE,
    NOON,
    covered,
    discrepancy,
    finding,
    group,
    lake_file,
    leftover,
    publish,
    run,
    transition,
)  # fmt: skip
from tests.conftest import Aws

Row = dict[str, Any]
HOUR = timedelta(hours=1)
LATER = NOON + timedelta(hours=2)
WEEK = timedelta(days=7)
ACCEPTED: Row = {"ack_by": "ann", "ack_reason": "known", "ack_until": NOON + WEEK}


@pytest.fixture
def results(place: Location) -> Results:
    return Results(place, Clients(), LAKE)


@pytest.fixture
def lake(tmp_path: Path, place: Location) -> Lake:
    return load_lake(lake_file(tmp_path, place), {})


def dropped(key: str, **given: Any) -> Row:
    return finding("dropped", f"orders/{key}", **given)


# --- how a table stands ------------------------------------------------------------------------------------

WHOLE = [covered()]
NOTHING = [covered(consistent=0, undecided=10, status="partial", decided_share=None, reason="a gap")]
PART = [covered(consistent=7, undecided=3, status="partial", decided_share=0.7)]
OFF = [covered(consistent=None, files=None, status="off", decided_share=None)]
BARE = [*OFF, covered(axis="metastore")]
BARE_IN_PART = [
    *OFF,
    covered(axis="metastore", consistent=7, undecided=3, status="partial", decided_share=0.7, reason="a gap"),
]
CRITICAL, INFO = discrepancy(dropped("a")), discrepancy(finding("unvacuumed", "orders/b"))


@pytest.mark.parametrize(
    ("runs", "coverage", "ledger", "level", "reason"),
    [
        ([run()], WHOLE, [], "fine", ""),
        ([run()], NOTHING, [], "unjudged", "nothing could be judged"),
        ([run()], OFF, [], "unjudged", "nothing could be judged"),
        ([run()], BARE, [], "fine", ""),
        ([run()], BARE_IN_PART, [], "unjudged", "partly judged: a gap: metadata store 70.0 %"),
        ([run()], [], [], "unjudged", "nothing could be judged: no published run checked it"),
        (
            [run()],
            PART,
            [],
            "unjudged",
            "partly judged: the evidence is incomplete: files of the table 70.0 %",
        ),
        ([run(status="suspect")], WHOLE, [], "unjudged", "the evidence of its last audit is suspect"),
        ([run(finished_at=NOON - WEEK)], WHOLE, [], "unjudged", "last audited 7 d 2 h ago"),
        ([run()], WHOLE, [CRITICAL], "critical", ""),
        (
            [run()],
            PART,
            [CRITICAL, INFO],
            "critical",
            "partly judged: the evidence is incomplete: files of the table 70.0 %",
        ),
        ([run()], WHOLE, [INFO], "info", ""),
        ([run()], NOTHING, [INFO], "unjudged", "nothing could be judged"),
        ([run()], WHOLE, [CRITICAL | ACCEPTED], "fine", ""),
        ([run()], WHOLE, [CRITICAL | ACCEPTED | {"ack_until": NOON}], "critical", ""),
        ([run()], WHOLE, [discrepancy(dropped("a"), "pending")], "unjudged", "1 pending confirmation"),
        ([run()], WHOLE, [discrepancy(dropped("a"), "resolved")], "fine", ""),
        ([run()], WHOLE, [discrepancy(dropped("a", severity="odd"))], "odd", ""),
    ],
)
def test_how_a_table_stands(
    place: Location, results: Results, lake: Lake, runs: list[Row], coverage: list[Row], ledger: list[Row],
    level: str, reason: str,
) -> None:  # fmt: skip
    publish(place, runs=runs, coverage=coverage, discrepancies=ledger)
    (health,) = lake_figures(results, lake, LATER).tables
    assert (health.table, health.level, health.reason) == ("orders", level, reason)
    assert (health.doubt == "") == (reason == "")


def test_the_worst_table_comes_first_and_sources_have_a_line_of_their_own(
    place: Location, results: Results, lake: Lake
) -> None:
    names = {"fine": [], "bad": [dropped("x", table_name="bad")], "odd": []}
    publish(
        place, runs=[run()], coverage=[*WHOLE, *(covered(name) for name in names)],
        discrepancies=[
            *(discrepancy(row) for rows in names.values() for row in rows),
            discrepancy(finding("unreadable_evidence", "s", table_name=None, subject_type="source")),
        ],
    )  # fmt: skip
    found = lake_figures(results, lake, LATER).tables
    assert [(each.table, each.level) for each in found] == [
        ("bad", "critical"), (NO_TABLE, "warning"), ("fine", "fine"), ("odd", "fine"), ("orders", "fine"),
    ]  # fmt: skip
    assert [each.doubt for each in found] == [""] * 5, (
        "a line about a source does not count as an unchecked table"
    )


def test_a_table_is_judged_by_the_last_run_that_checked_it(
    place: Location, results: Results, lake: Lake
) -> None:
    later: Row = {"finished_at": NOON + timedelta(hours=1), "as_of": NOON + timedelta(hours=1)}
    publish(
        place, runs=[run("r1"), run("r2", **later), run("r3", "running", started_at=LATER)],
        coverage=[covered("orders", run_id="r1"), *[row | {"run_id": "r1", "table_name": "b"} for row in NOTHING],
                  covered("b", run_id="r2"), *[row | {"run_id": "r3"} for row in NOTHING]],
    )  # fmt: skip
    found = {each.table: each for each in lake_figures(results, lake, LATER).tables}
    assert {
        name: (each.level, each.last_audit and each.last_audit.run_id) for name, each in found.items()
    } == {
        "orders": ("fine", "r1"),
        "b": ("fine", "r2"),
    }


def test_accepted_and_pending_are_counted_apart(place: Location, results: Results, lake: Lake) -> None:
    ledger = [
        discrepancy(dropped("a"), first_seen_at=NOON - WEEK),
        discrepancy(dropped("b"), first_seen_at=NOON - 2 * WEEK) | ACCEPTED,
        discrepancy(dropped("c"), "pending") | ACCEPTED,
        discrepancy(dropped("d"), "pending"),
        discrepancy(dropped("e"), "resolved") | ACCEPTED,
        discrepancy(finding("hidden", "orders/f"), severity="error"),
    ]
    publish(place, runs=[run()], coverage=WHOLE, discrepancies=ledger)
    totals = lake_figures(results, lake, LATER).totals
    assert totals.numbers == {
        "open": {"critical": 1, "error": 1}, "accepted": {"critical": 2}, "pending": {"critical": 1},
    }  # fmt: skip
    assert totals.since == NOON - WEEK


def test_another_lake_in_the_same_place_does_not_show(place: Location, results: Results, lake: Lake) -> None:
    publish(
        place, runs=[run(), run("o", lake="other", finished_at=LATER)],
        coverage=[*WHOLE, covered("x", run_id="o", lake="other")],
        discrepancies=[CRITICAL | {"lake": "other"}],
    )  # fmt: skip
    figures = lake_figures(results, lake, LATER)
    assert ([each.table for each in figures.tables], figures.totals.numbers) == (["orders"], {})
    assert (figures.run or {})["run_id"] == "r1"


def test_nothing_was_ever_published(results: Results, lake: Lake, place: Location) -> None:
    empty = lake_figures(results, lake, NOON)
    assert (empty.run, empty.verdict, empty.tables, empty.runs, empty.troubles) == (None, None, (), (), ())
    assert dict(lake_days(results, LATER).numbers) == {}
    publish(place, runs=[run("r1", "failed", error="no evidence")])
    failed = lake_figures(results.again(), lake, NOON)
    assert (failed.run, failed.tables) == (None, ())
    assert failed.troubles == (
        "The last audit failed: run r1, started 2026-11-21 12:00:00Z: no evidence",
    )  # fmt: skip


def test_the_verdict_is_the_reports(place: Location, results: Results, lake: Lake) -> None:
    found = [dropped("a", recoverable="yes"), dropped("b", recoverable="no"), finding("hidden", "orders/c")]
    publish(place, runs=[run()], coverage=WHOLE, findings=found)
    verdict = lake_figures(results, lake, LATER).verdict
    assert verdict is not None
    assert (verdict.level, verdict.headline) == ("critical", "2 files dropped in 1 table")
    assert verdict.notes == (
        (
            "1 of 2 lost or changed files of severity critical can be restored (only with reconcile plan --allow "
            "restore), and 1 cannot"
        ),
        "Expiry date not known: restore this file soon",
        "Also 1 info",
    )


def test_verified_times_of_tables_and_how_they_moved(place: Location, results: Results, lake: Lake) -> None:
    runs = [run(f"r{n}", as_of=NOON + n * HOUR, finished_at=NOON + n * HOUR) for n in range(3)]
    moved = [("forward", NOON), ("back", NOON - 9 * HOUR), ("same", NOON - 9 * HOUR)]
    rows = [
        {"run_id": each["run_id"], "lake": LAKE, "table_name": "orders", "location": "s3://lake/orders",
         "as_of": each["as_of"], "verified_through": through, "movement": movement, "open_discrepancies": 0,
         "blocked_by": []} for each, (movement, through) in zip(runs, moved, strict=True)
    ]  # fmt: skip
    lost = discrepancy(dropped("a"), manifest_time=NOON - 20 * HOUR)
    publish(place, runs=[*runs, run("r9", "failed")], coverage=WHOLE, verified=rows, discrepancies=[lost])
    (row,) = [
        each.watermark for each in table_healths(results, lake, NOON + 3 * HOUR) if each.table == "orders"
    ]
    assert row is not None
    assert (row["verified_through"], row["open_discrepancies"]) == (lost["manifest_time"] - STEP, 1)
    assert [(each.at, each.through, each.movement) for each in watermarks(results, "orders")] == [
        (each["as_of"], through, movement) for each, (movement, through) in zip(runs, moved, strict=True)
    ]


def test_reopened_discrepancies_are_counted_separately(place: Location, results: Results, lake: Lake) -> None:
    rows = [
        discrepancy(dropped("a"), reopened=2), discrepancy(dropped("b")),
        discrepancy(finding("hidden", "orders/c"), reopened=1), discrepancy(dropped("d"), "resolved", reopened=1),
    ]  # fmt: skip
    publish(place, runs=[run()], coverage=WHOLE, discrepancies=rows)
    (held,) = [each.ledger for each in table_healths(results, lake, NOON) if each.table == "orders"]
    assert held.again == 1, "of the worst severity alone"
    assert [(each.kind, each.number, each.again) for each in of_table.broken(results, "orders", NOON)] == [
        ("dropped", 2, 1), ("hidden", 1, 1),
    ]  # fmt: skip


def test_what_belongs_to_no_table_is_not_counted_as_one() -> None:
    names = {"a": "critical", "b": "unjudged", "c": "fine", "d": "info", NO_TABLE: "unjudged"}
    healths = [Health(name, level, "", LedgerSums({}, None), None) for name, level in names.items()]
    assert levels(healths) == {"critical": 1, "unjudged": 1, "fine": 1, "info": 1}


@pytest.mark.parametrize(
    ("kind", "severity", "until", "told"),
    [
        ("overwritten_commit", "critical", NOON + WEEK, NOON + WEEK),
        ("overwritten_commit", "critical", NOON - WEEK, None),  # over
        ("overwritten_commit", "warning", NOON + WEEK, None),  # something is worse
        ("dropped", "critical", NOON + WEEK, None),  # its file is restored, not only read
    ],
)
def test_until_when_a_lost_version_can_be_read(
    place: Location,
    results: Results,
    lake: Lake,
    kind: str,
    severity: str,
    until: datetime,
    told: datetime | None,
) -> None:
    lost = finding(kind, "orders/a", severity=severity, recoverable="yes", recoverable_until=until)
    others = [discrepancy(dropped("b", recoverable="no", recoverable_until=None))]
    publish(place, runs=[run()], coverage=WHOLE, discrepancies=[discrepancy(lost), *others])
    (held,) = [each.ledger for each in table_healths(results, lake, NOON) if each.table == "orders"]
    assert (held.worst_recovery.readable_until, held.recovery.until) == (
        told,
        NOON + WEEK if kind == "dropped" else None,
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            run("r2", "running", started_at=NOON),
            "Run r2, started 2026-11-21 12:00:00Z, has not finished after 2 h:",
        ),
        (
            run("r2", "suspect", started_at=NOON, error="bad"),
            "The evidence of the last audit is suspect: run r2",
        ),
        (run("r2", "failed", started_at=NOON), "The last audit failed: run r2"),
        (run("r2", started_at=NOON, gates=["gate x"]), "Gate failed in run r2: x"),
        (
            run("r2", started_at=NOON, finished_at=LATER - 2 * WEEK),
            "The audit is overdue: the last one was published",
        ),
    ],
)
def test_the_audits_own_troubles(
    place: Location, results: Results, lake: Lake, given: Row, told: str
) -> None:
    before: Row = {"started_at": NOON - WEEK, "finished_at": NOON - 3 * WEEK}
    publish(place, runs=[run("r1", **before), given])
    troubles = lake_figures(results, lake, LATER).troubles
    assert [trouble for trouble in troubles if trouble.startswith(told)]


def test_nights_with_lost_coverage_or_a_failed_gate_differ_from_others(
    place: Location, results: Results, lake: Lake
) -> None:
    nights = [NOON - timedelta(days=n) for n in (4, 3, 2, 1)]
    runs = [
        run(
            f"r{at}",
            "partial",
            as_of=night,
            started_at=night,
            finished_at=night,
            gates=["gate x"] if at == 3 else None,
        )
        for at, night in enumerate(nights)
    ]
    blind = finding("coverage_lost", "orders", subject_type="table")
    ledger = [discrepancy(blind, "resolved", opened_at=nights[1], resolved_at=nights[2])]
    publish(place, runs=runs, discrepancies=ledger)
    alarms = lake_figures(results, lake, NOON).alarms
    assert alarms == {"r1": "coverage lost in 1 table", "r3": "1 failed gate"}
    drawn = markup.ticks(runs, {}, alarms)
    assert drawn.count('class="partial alarm"') == 2
    assert "! 2 with lost coverage or a failed gate" in drawn
    assert "2 partial" in drawn, "the others: no run counts twice"


def day(at: datetime) -> date:
    return at.date()


def test_what_changed_by_day(place: Location, results: Results, lake: Lake) -> None:
    """Runs that published nothing do not count; what was open is counted back from what is open now."""
    a, b, c = (dropped(name) for name in "abc")
    yesterday = NOON - timedelta(days=1)
    told = [
        transition(a, "opened", at=yesterday, transition_id="1"),
        transition(b, "opened", at=yesterday, transition_id="2"),
        transition(a, "resolved", transition_id="3"),
        transition(c, "opened", transition_id="4"),
        transition(b, "acknowledged", run_id=None, transition_id="5"),
        transition(c, "opened", run_id="r9", transition_id="6"),
    ]
    ledger = [discrepancy(a, "resolved"), discrepancy(b) | ACCEPTED, discrepancy(c, table_name="other")]
    publish(place, runs=[run(), run("r9", "failed")], discrepancies=ledger, transitions=told)
    mine = of_table.changes(changes(results), "orders")
    two, before = (
        Period(day(yesterday), day(NOON)),
        Period(day(yesterday - WEEK), day(yesterday - 2 * WEEK / 7)),
    )
    after = Period(day(NOON + WEEK), day(NOON + WEEK))
    seen = [
        [(d.day, d.opened, d.reopened, d.resolved, d.open) for d in days_in(results, "orders", mine, period)]
        for period in (two, before, after)
    ]
    assert seen == [
        [(day(yesterday), 2, 0, 0, 2), (day(NOON), 0, 0, 1, 1)],
        [(before.first, 0, 0, 0, 0), (before.last, 0, 0, 0, 0)],
        [(after.first, 0, 0, 0, 1)],
    ]
    assert figures_by_day(lake_days(results, LATER)) == {
        ("other", "critical"): {day(NOON): 1},
        ("orders", "critical"): {day(yesterday): 1},
    }


def figures_by_day(found: OpenByDay) -> dict[tuple[str, str], dict[date, int]]:
    """Without the days on which nothing was open."""
    return {
        key: kept
        for key, numbers in found.numbers.items()
        if (kept := {at: number for at, number in zip(found.days, numbers, strict=True) if number})
    }


@pytest.mark.parametrize(
    ("told", "state", "open_days"),
    [
        ([("opened", 5)], "open", [5, 4, 3, 2, 1, 0]),
        ([("opened", 5), ("resolved", 3)], "resolved", [5, 4]),
        ([("opened", 5), ("resolved", 3), ("reopened", 1)], "open", [5, 4, 1, 0]),
        ([("opened", 90)], "open", range(SPAN)),
        ([("opened", 90), ("resolved", 40)], "resolved", []),
        ([], "pending", []),
    ],
)
def test_what_was_open_at_the_end_of_each_day(
    place: Location,
    results: Results,
    lake: Lake,
    told: list[tuple[str, int]],
    state: str,
    open_days: Iterable[int],
) -> None:
    """Given what happened how many days ago, on which days it was open."""
    lost = dropped("a")
    rows = [
        transition(lost, word, at=NOON - timedelta(days=ago), transition_id=f"{n}", from_severity="critical",
                   to_severity="critical")
        for n, (word, ago) in enumerate(told)
    ]  # fmt: skip
    publish(place, runs=[run()], discrepancies=[discrepancy(lost, state)], transitions=rows)
    found = figures_by_day(lake_days(results, LATER))
    expected = {day(NOON - timedelta(days=ago)): 1 for ago in open_days}
    assert found == ({("orders", "critical"): expected} if expected else {})


def test_a_day_has_the_severity_that_was_open_then(place: Location, results: Results, lake: Lake) -> None:
    lost = dropped("a")
    rows = [
        transition(lost, "opened", at=NOON - timedelta(days=2), transition_id="1", to_severity="info"),
        transition(lost, "escalated", transition_id="2", from_severity="info", to_severity="critical"),
    ]
    publish(place, runs=[run()], discrepancies=[discrepancy(lost)], transitions=rows)
    found = lake_days(results, LATER)
    assert figures_by_day(found) == {
        ("orders", "critical"): {day(NOON): 1},
        ("orders", "info"): {day(NOON - timedelta(days=ago)): 1 for ago in (2, 1)},
    }
    assert found.of_severity("critical")[-1] == found.of_table("orders")[-1] == 1
    assert found.audited == {day(NOON)}


@pytest.mark.parametrize(
    ("numbers", "without_audit", "course"),
    [
        (
            {("a", "critical"): [0] * 29 + [3], ("b", "error"): [2] * 30},
            (),
            "5 today, 2 yesterday, 2 a week ago.",
        ),
        ({("a", "warning"): [1] * 22 + [9] + [1] * 7}, (), "1 today, 1 yesterday, 9 a week ago."),
        ({("a", "warning"): [7] * 29 + [0]}, (), "0 today, 7 yesterday, 7 a week ago."),
        ({("a", "warning"): [7] * 30}, (0,), "no audit today, 7 yesterday, 7 a week ago."),
        ({("a", "warning"): [0] * 29 + [7]}, (1, 7), "7 today, no audit yesterday, no audit a week ago."),
        ({("a", "info"): [7] * 30}, (), ""),
        ({("a", "critical"): [0] * 30}, (), ""),
    ],
)
def test_the_course_compares_today_with_yesterday_and_a_week_ago(
    numbers: dict[tuple[str, str], list[int]], without_audit: tuple[int, ...], course: str
) -> None:
    days = tuple(day(NOON) - timedelta(days=ago) for ago in reversed(range(SPAN)))
    audited = frozenset(days) - {days[-1 - ago] for ago in without_audit}
    found = OpenByDay(days, {of: tuple(each) for of, each in numbers.items()}, audited).course
    assert found == (course and f"Open discrepancies above info: {course}")


def test_how_old_the_evidence_is(place: Location, results: Results, tmp_path: Path) -> None:
    inventory = {"kind": "s3_inventory", "location": "s3://inv/daily", "max_age": "2d"}
    lake = load_lake(lake_file(tmp_path, place, inventories=[inventory]), {})

    def source(role: str, kind: str, location: str, hours: int | None) -> Row:
        cut = NOON - timedelta(hours=hours) if hours is not None else None
        return {"role": role, "kind": kind, "location": location, "identity": "x", "cut_from": cut}

    sources = [
        source("manifest", "delta", "s3://lake/", 1),
        source("metastore", "s3guard", "dynamodb://guard", 3),
        source("storage", "s3_inventory", "s3://inv/daily/", 24),
        source("storage", "listing", "s3://lake/", None),
    ]
    publish(place, runs=[run(sources=sources)], coverage=WHOLE)
    found = lake_figures(results, lake, NOON).evidence
    assert [(each.kind, NOON - each.at, each.limit, each.nearness(NOON)) for each in found] == [
        ("s3_inventory", timedelta(days=1), timedelta(days=2), 0.5), ("s3guard", timedelta(hours=3), None, 0.0),
    ]  # fmt: skip


# --- a table -----------------------------------------------------------------------------------------------


def test_what_is_broken_in_a_table(place: Location, results: Results) -> None:
    until = NOON + WEEK
    rows = [
        discrepancy(dropped("a", rows_at_stake=5, bytes_at_stake=7, recoverable="yes", recoverable_until=until)),
        discrepancy(dropped("b", rows_at_stake=None, bytes_at_stake=3, recoverable="no", cause="a job"),
                    first_seen_at=NOON - WEEK, last_evidence_at=LATER),
        discrepancy(dropped("c")) | ACCEPTED,
        discrepancy(finding("hidden", "orders/d")),
        discrepancy(dropped("e"), "resolved"),
        discrepancy(dropped("f", table_name="other")),
    ]  # fmt: skip
    publish(place, discrepancies=rows)
    first, accepted, hidden = of_table.broken(results, "orders", LATER)
    assert (first.kind, first.standing, first.number, first.files) == (
        "dropped",
        "open",
        2,
        Amount(2, whole=True),
    )
    assert (first.rows, first.bytes) == (Amount(5, whole=False), Amount(10, whole=True))
    assert (first.since, first.recovery.until) == (NOON - WEEK, until)
    assert (first.answers, first.cause) == ({"yes": 1, "no": 1}, "1 of 2: a job; 1 of 2: not known")
    assert first.why == "the table lists the file, but storage has no current object for it"
    assert (accepted.standing, accepted.number) == ("accepted", 1)
    assert (hidden.kind, hidden.answers, hidden.rows) == ("hidden", {}, Amount(None, whole=False))
    assert of_table.broken(results, "no' OR '1'='1", LATER) == ()


def test_where_it_is_broken(place: Location, results: Results) -> None:
    paths = ["d=1", "d=1", "d=2", None, "d=3"]
    rows = [discrepancy(dropped(str(at), partition_path=path)) for at, path in enumerate(paths)]
    rows += [
        discrepancy(finding("hidden", "h", partition_path="d=1")),
        discrepancy(finding("hidden", "i", partition_path="d=0")),
    ]
    rows[4] |= ACCEPTED
    publish(place, discrepancies=rows)
    found = of_table.partitions(results, "orders", LATER)
    assert [(part.path, part.worst, part.by_severity) for part in found.shown] == [
        ("d=1", "critical", {"critical": 2, "info": 1}), ("", "critical", {"critical": 1}),
        ("d=2", "critical", {"critical": 1}), ("d=0", "info", {"info": 1}),
    ]  # fmt: skip
    assert found.rest == 0


def test_only_the_worst_partitions_are_drawn(
    place: Location, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_table, "PARTITIONS", 2)
    publish(place, discrepancies=[discrepancy(dropped(f"{n}", partition_path=f"d={n}")) for n in range(5)])
    found = of_table.partitions(results, "orders", LATER)
    assert ([part.path for part in found.shown], found.rest) == (["d=0", "d=1"], 3)


def test_commits_that_what_is_open_goes_back_to(place: Location, results: Results) -> None:
    told: Row = {"table_version": 4, "commit_id": "c4"}
    rows = [
        dropped("a", **told, manifest_time=LATER), dropped("b", **told, manifest_time=NOON),
        dropped("c", table_version=9),
        dropped("d"), finding("overwritten", "orders/e", **told),
    ]  # fmt: skip
    publish(
        place,
        discrepancies=[*map(discrepancy, rows), discrepancy(dropped("f", table_version=11), "resolved")],
    )
    found = of_table.commits(results, "orders", LATER)
    assert [(each.commit_id, each.kind, each.number, each.committed) for each in found] == [
        ("c4", "dropped", 2, NOON), ("c4", "overwritten", 1, None),
    ]  # fmt: skip


HOSTILE = "x' OR 1=1 -- \u202e<b>%_\\"
LISTED = [
    discrepancy(dropped("small", bytes_at_stake=1)),
    discrepancy(dropped("big", bytes_at_stake=9, partition_path="d=1")),
    discrepancy(dropped("unknown")),
    discrepancy(finding("hidden", f"orders/{HOSTILE}", bytes_at_stake=99)),
    discrepancy(dropped("accepted", bytes_at_stake=50)) | ACCEPTED,
    discrepancy(dropped("gone", bytes_at_stake=50), "resolved"),
    discrepancy(dropped("elsewhere", table_name="other")),
]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        (ListFilter(), ["big", "small", "unknown", HOSTILE]),
        (ListFilter(standings=("accepted",)), ["accepted"]),
        (ListFilter(standings=()), ["accepted", "gone", "big", "small", "unknown", HOSTILE]),
        (ListFilter(severities=("info",)), [HOSTILE]),
        (ListFilter(kinds=("hidden", "'; DROP TABLE discrepancies")), [HOSTILE]),
        (ListFilter(partition="d=1"), ["big"]),
        (ListFilter(partition=""), ["small", "unknown", HOSTILE]),
        (ListFilter(like="orders/s"), ["small"]),
        (ListFilter(like=HOSTILE), [HOSTILE]),
        (ListFilter(like="%"), [HOSTILE]),
        (ListFilter(like="' OR ''='"), []),
    ],
)
def test_a_list_is_narrowed_down(
    place: Location, results: Results, wanted: ListFilter, keys: list[str]
) -> None:
    publish(place, discrepancies=LISTED)
    found = of_table.listed(results, "orders", wanted, LATER, 1)
    assert [row["subject"].removeprefix("s3://lake/orders/") for row in found.rows] == keys
    assert found.total == len(keys)


def test_a_list_is_shown_page_by_page(place: Location, results: Results) -> None:
    publish(place, discrepancies=[discrepancy(dropped(f"{n:03d}")) for n in range(PAGE_ROWS + 3)])
    pages = [of_table.listed(results, "orders", ListFilter(), LATER, page) for page in (1, 2, 3)]
    assert [(len(page.rows), page.total) for page in pages] == [(PAGE_ROWS, 53), (3, 53), (0, 53)]
    assert pages[1].rows[0]["subject"].endswith("050")


# --- a file, a group ---------------------------------------------------------------------------------------


def subject_of(results: Results, discrepancy_id: str) -> of_subject.Subject:
    asked = of_subject.row_of(results, discrepancy_id)
    assert asked is not None
    return of_subject.subject_of(results, asked)


def test_all_that_is_known_of_a_file(place: Location, results: Results) -> None:
    lost = dropped("a")
    hidden = finding("hidden", "orders/a", discrepancy_id="d-hidden")
    new = finding("duplicate_content", "orders/a", discrepancy_id="d-new")
    told = [transition(lost, "resolved", at=LATER, transition_id="2"), transition(lost, "opened", transition_id="1"),
            transition(dropped("b"), "opened", transition_id="3")]  # fmt: skip
    publish(place, runs=[run()], findings=[lost, new, dropped("b")], transitions=told,
            discrepancies=[discrepancy(hidden), discrepancy(lost, "resolved"), discrepancy(dropped("b"))])  # fmt: skip
    found = subject_of(results, lost["discrepancy_id"])
    assert found is not None
    assert [row["discrepancy_id"] for row in found.rows] == ["d-orders/a", "d-hidden"]
    assert {row["discrepancy_id"] for row in found.findings} == {"d-orders/a", "d-new"}
    assert [change["transition"] for change in found.history] == ["opened", "resolved"]
    assert of_subject.file_of(results, "lake", "orders/a").rows[0]["discrepancy_id"] == "d-hidden"
    assert of_subject.row_of(results, "d-' OR ''='") is None
    assert of_subject.file_of(results, "lake", "orders/nobody").rows == []


def test_the_files_behind_a_group(place: Location, results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_subject, "GROUP_FILES", 2)
    strays = group("temporary", "d=1", 3)
    files = [
        leftover(strays, "orders/a", size=None),
        leftover(strays, "orders/b", size=9),
        leftover(strays, "orders/c"),
    ]
    publish(place, runs=[run()], discrepancies=[discrepancy(strays)], leftover_files=files)
    found = subject_of(results, strays["discrepancy_id"])
    assert found is not None
    assert ([file["key"] for file in found.files], found.files_known) == (["orders/b", "orders/c"], 3)
    assert found.findings == []


def test_the_life_of_a_file() -> None:
    """The known events in order of time, from all sources."""
    hour = timedelta(hours=1)
    lost = discrepancy(dropped(
        "a", manifest_time=NOON - 9 * hour, manifest_kind="delta", table_version=7, metastore_time=NOON - 8 * hour,
        storage_time=NOON - 2 * hour, cause="deleted", cause_at=NOON - 2 * hour, cause_principal="ops",
        commit_id="5", recoverable="yes", recoverable_until=NOON + WEEK,
    ))  # fmt: skip
    held = {name: lost.get(name) for name in RESULTS["discrepancies"].names}
    events = of_subject.events(
        [held], [transition(lost, "opened"), transition(lost, "resolved", at=LATER, run_id=None)]
    )
    assert [(event.what, event.by) for event in events] == [
        ("listed, commit 5", "delta"),
        ("entered", "the metadata store"),
        ("deleted", "ops"),
        ("replaced by a delete marker", "storage"),
        ("opened", "run r1"),
        ("resolved", "a person"),
        ("the file is no longer recoverable", "the bucket's lifecycle rules"),
    ]
    assert of_subject.events([dict.fromkeys(held)], []) == ()
    done = {"action": "remove_delete_marker", "plan_id": "p1", "done_at": NOON}
    assert [
        (event.what, event.by)
        for status in ("applied", "undone", "moved_on")
        for event in of_subject.events([], [], [done | {"status": status}])
    ] == [
        ("remove delete marker: done", "plan p1"),
        ("remove delete marker: done earlier by the plan, and undone now", "plan p1"),
        ("remove delete marker: moved on", "plan p1"),
    ]
    other = held | {"table_name": "copies", "commit_id": None, "manifest_time": NOON, "recoverable": None}
    assert [
        event.what for event in of_subject.events([held, other], []) if event.what.startswith("listed")
    ] == [
        "listed by orders, commit 5",  # the commits of two tables say nothing of each other
        "listed by copies",
    ]


def test_what_each_side_claims() -> None:
    sides = [f"{side}_{what}" for side in formatting.SIDES for what in formatting.CLAIMS]
    row = dict.fromkeys(sides) | {"manifest_size": 7, "storage_size": 0}
    assert of_subject.claims(row) == {"size": {"manifest": 7, "metastore": None, "storage": 0}}


# --- runs --------------------------------------------------------------------------------------------------


def test_the_newest_run_comes_first(
    place: Location, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_runs, "RUNS", 2)
    starts = {"r1": NOON, "r3": LATER, "r2": NOON}
    publish(place, runs=[run(name, started_at=at) for name, at in starts.items()])
    found = of_runs.newest_runs(results)
    assert ([each["run_id"] for each in found.shown], found.rest) == (["r3", "r2"], 1)


def test_a_run_that_published_nothing_has_no_coverage(place: Location, results: Results) -> None:
    publish(place, runs=[run(), run("r2", "failed")], coverage=[covered(), covered(run_id="r2")])
    one, failed = of_runs.run_figures(results, "r1"), of_runs.run_figures(results, "r2")
    assert [table.name for table in one.tables] == ["orders"] if one else False
    assert failed is not None
    assert failed.tables == ()
    assert of_runs.run_figures(results, "r3") is None


# --- tables that cannot be read ----------------------------------------------------------------------------


def _without_files(table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.unlink()


def _half_a_log(table: Path) -> None:
    log = table / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text()[:100])


def _of_tomorrow(table: Path) -> None:
    log = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    told = [
        {"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}} if "protocol" in each else each
        for each in actions
    ]
    log.write_text("\n".join(map(json.dumps, told)))


DAMAGE = {"missing file": (_without_files, "restore it"), "half a log": (_half_a_log, "restore it"),
          "tomorrow's": (_of_tomorrow, "use the newer of the two")}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_table_that_cannot_be_read(place: Location, results: Results, lake: Lake, damage: str) -> None:
    publish(place, runs=[run()], discrepancies=[CRITICAL])
    harm, hint = DAMAGE[damage]
    harm(Path(place.spark_path, "discrepancies"))
    with pytest.raises(CannotAudit, match=f"discrepancies: the table cannot be read .*; .*{hint}"):
        lake_figures(results, lake, NOON)


def test_a_column_of_another_version(place: Location, results: Results) -> None:
    publish(place, discrepancies=[CRITICAL])
    with pytest.raises(CannotAudit, match="use the newer of the two"):
        ask(results, "SELECT not_yet FROM discrepancies", "discrepancies")


def test_results_on_s3(clients: Clients, bucket: str, aws: Aws, tmp_path: Path) -> None:
    place = Location(bucket, "results")
    publish(
        place,
        clients,
        runs=[run()],
        coverage=WHOLE,
        discrepancies=[CRITICAL],
        transitions=[transition(CRITICAL | {"run_id": "r1"}, "opened")],
    )
    lake = load_lake(lake_file(tmp_path, place), {})
    figures = lake_figures(Results(place, clients, LAKE), lake, LATER)
    assert [(each.table, each.level) for each in figures.tables] == [("orders", "critical")]


# --- plans and notices -------------------------------------------------------------------------------------


def planned(plan_id: str, **given: Any) -> Row:
    made: Row = {
        "created_at": NOON,
        "expires_at": NOON + timedelta(days=1),
        "created_by": "ann",
        "status": "planned",
    }
    return {"plan_id": plan_id, "lake": LAKE, "steps": 2, "for_person": 1, **made, **given}


def step(plan_id: str, number: int, status: str, **given: Any) -> Row:
    about: Row = {
        "action": "restore_version",
        "table_name": "orders",
        "reversibility": "reversible",
        "bucket": "lake",
    }
    return {"plan_id": plan_id, "lake": LAKE, "action_id": f"{plan_id}-{number}", "batch": 0, "key": f"orders/{number}",
            "status": status, **about, **given}  # fmt: skip


def test_what_became_of_plans(place: Location, results: Results) -> None:
    assert of_plans.newest_plans(results).shown == []
    steps = [step("p1", 1, "applied"), step("p1", 2, "failed", error="denied"), step("p1", 3, "applied")]
    publish(
        place,
        plans=[planned("p1"), planned("p2", created_at=LATER), planned("x", lake="other")],
        actions=steps,
    )
    found = of_plans.newest_plans(results.again())
    assert [plan["plan_id"] for plan in found.shown] == ["p2", "p1"]
    assert found.steps == {"p1": {"applied": 2, "failed": 1}}
    one = of_plans.plan_steps(results.again(), "p1")
    assert one is not None
    assert [(row["status"], row["number"]) for row in one.summed] == [("failed", 1), ("applied", 2)]
    assert [row["key"] for row in one.steps] == ["orders/2", "orders/1", "orders/3"]
    assert of_plans.plan_steps(results.again(), "' OR ''='") is None


def test_the_newest_notices(place: Location, results: Results) -> None:
    told = [{"notice_id": name, "lake": LAKE, "made_at": at} for name, at in (("a", NOON), ("b", LATER))]
    publish(place, notices=told)
    assert [row["notice_id"] for row in of_plans.newest_notices(results)] == ["b", "a"]

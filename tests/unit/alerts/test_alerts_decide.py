"""The notices about a run: given news and routes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakeaudit.alerts.decide import Notice, concerns, decide, due_reminders, overdue, reminders
from lakeaudit.alerts.run_summary import News
from lakeaudit.config import Alert, AppriseAlert, SnsAlert
from lakeaudit.results.summaries.change_summary import Change

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SLACK = AppriseAlert(kind="apprise", url_env="SLACK")
PAGER = SnsAlert(kind="sns", topic_arn="arn:aws:sns:us-east-1:1:page", min_severity="critical")
SALES = AppriseAlert(kind="apprise", url_env="SALES", tables=("sales.*",), min_severity="info")

DROPPED = Change("sales.orders", "opened", "dropped", "critical", 3)
LEFT = Change("sales.orders", "opened", "unvacuumed", "info", 9)
BACK = Change("sales.orders", "resolved", "dropped", "critical", 3)
STRAY = Change("raw.events", "opened", "uncommitted", "warning", 2)
SOURCE = Change(None, "opened", "unreadable_evidence", "warning", 1)


def news(*changes: Change, **given: object) -> News:
    return replace(News("r1", NOON, "complete", changes=changes), **given)  # type: ignore[arg-type]


def as_rows(notices: list[Notice]) -> list[tuple[str, str | None, str, str, int]]:
    return [
        (notice.receiver.rpartition(":")[2], notice.table, notice.kind, notice.transition,
         sum(change.number for change in notice.changes))
        for notice in notices
    ]  # fmt: skip


WHO = [
    # changes, who is told what of which table
    ([DROPPED], [("SLACK", "sales.orders", "discrepancies", "opened", 3),
                 ("page", "sales.orders", "discrepancies", "opened", 3),
                 ("SALES", "sales.orders", "discrepancies", "opened", 3)]),
    ([LEFT], [("SALES", "sales.orders", "discrepancies", "opened", 9)]),
    ([DROPPED, LEFT], [("SLACK", "sales.orders", "discrepancies", "opened", 3),
                       ("page", "sales.orders", "discrepancies", "opened", 3),
                       ("SALES", "sales.orders", "discrepancies", "opened", 12)]),
    ([STRAY], [("SLACK", "raw.events", "discrepancies", "opened", 2)]),
    ([SOURCE], [("SLACK", None, "discrepancies", "opened", 1), ("SALES", None, "discrepancies", "opened", 1)]),
    ([BACK], [("SLACK", "sales.orders", "discrepancies", "resolved", 3),
              ("page", "sales.orders", "discrepancies", "resolved", 3),
              ("SALES", "sales.orders", "discrepancies", "resolved", 3)]),
    ([BACK, replace(DROPPED, transition="reopened")], [
        ("SLACK", "sales.orders", "discrepancies", "reopened", 6),
        ("page", "sales.orders", "discrepancies", "reopened", 6),
        ("SALES", "sales.orders", "discrepancies", "reopened", 6)]),
    ([replace(DROPPED, transition="acknowledged")], []),
    ([], []),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), WHO)
def test_each_receiver_gets_its_tables_from_its_severity_on(
    changes: list[Change], expected: list[tuple[str, str | None, str, str, int]]
) -> None:
    assert as_rows(decide(news(*changes), [SLACK, PAGER, SALES], {})) == expected


def test_two_routes_to_one_receiver_are_one_notice_a_table() -> None:
    both = [SALES, replace_route(SALES, tables=("raw.*",))]
    assert as_rows(decide(news(LEFT, STRAY), both, {})) == [
        ("SALES", "sales.orders", "discrepancies", "opened", 9),
        ("SALES", "raw.events", "discrepancies", "opened", 2),
    ]


def replace_route(route: AppriseAlert, **changes: object) -> AppriseAlert:
    return route.model_copy(update=changes)


OVER = [
    # what is still open in the table, whether the receiver may close its incident
    ({}, True),
    ({"sales.orders": {"info": 4}}, True),
    ({"sales.orders": {"critical": 1}}, False),
    ({"sales.orders": {"warning": 0}}, True),
    ({"raw.events": {"critical": 1}}, True),
]


@pytest.mark.parametrize(("left", "over"), OVER)
def test_a_table_is_over_when_nothing_that_concerns_the_receiver_is_open(
    left: dict[str | None, dict[str, int]], over: bool
) -> None:
    (notice,) = decide(news(BACK, open=left), [SLACK], {})
    assert notice.over is over


def test_a_mass_loss_is_one_notice() -> None:
    lost = {"sales.orders": "mass loss: 400 of 500 files"}
    (notice,) = decide(news(DROPPED, losses=lost, open={"sales.orders": {"critical": 3}}), [SLACK], {})
    assert (notice.kind, notice.words, notice.severity) == ("mass_loss", lost["sales.orders"], "critical")
    (notice,) = decide(news(BACK, losses=lost), [SLACK], {})
    assert notice.kind == "discrepancies"


def test_a_notice_says_that_a_table_fell_behind() -> None:
    behind = {"sales.orders": "fell behind: none of its commits is verified"}
    (notice,) = decide(news(DROPPED, behind=behind), [SLACK], {})
    assert (notice.kind, notice.words) == ("discrepancies", behind["sales.orders"])
    (notice,) = decide(news(BACK, behind=behind), [SLACK], {})
    assert notice.words == ""


AUDITS = [
    # status of the run, the last that was told of audits, what is told now
    ("suspect", None, ["audit_suspect"]),
    ("suspect", "audit_suspect", []),
    ("suspect", "audit_recovered", ["audit_suspect"]),
    ("suspect", "audit_overdue", ["audit_suspect"]),
    ("failed", None, ["audit_failed"]),
    ("failed", "audit_suspect", []),
    ("complete", None, []),
    ("complete", "audit_recovered", []),
    ("complete", "audit_suspect", ["audit_recovered"]),
    ("partial", "audit_failed", ["audit_recovered"]),
    ("complete", "audit_overdue", ["audit_recovered"]),
]


@pytest.mark.parametrize(("status", "last", "expected"), AUDITS)
def test_trouble_of_the_audit_is_reported_when_it_begins_and_when_it_ends(
    status: str, last: str | None, expected: list[str]
) -> None:
    before = {SLACK.receiver: last} if last else {}
    found = decide(news(status=status, error="half is missing"), [SLACK], before)
    assert [notice.kind for notice in found] == expected
    assert {notice.severity for notice in found} <= {"critical", "info"}


def test_an_overdue_audit_is_reported_once() -> None:
    receivers = [SLACK.receiver, PAGER.receiver]
    before = {SLACK.receiver: "audit_overdue"}
    assert [notice.receiver for notice in overdue(receivers, "since Monday", before)] == [PAGER.receiver]


DAYS = timedelta(days=1)
WEEKLY = SLACK.model_copy(update={"repeat": 7 * DAYS})
OPEN = {"sales.orders": {"critical": 3, "info": 9}, "raw.events": {"info": 1}, None: {"warning": 1}}


@pytest.mark.parametrize(
    ("routes", "told", "expected"),
    [
        ([SLACK, PAGER], {}, []),
        ([WEEKLY], {}, ["sales.orders", None]),  # never reported: for example accepted until yesterday
        ([WEEKLY], {"sales.orders": 6 * DAYS, None: 7 * DAYS}, [None]),
        ([WEEKLY, WEEKLY], {"sales.orders": 8 * DAYS, None: DAYS}, ["sales.orders"]),
        ([WEEKLY.model_copy(update={"tables": ("raw.*",)})], {}, [None]),
    ],
)
def test_discrepancies_that_stay_open_are_reported_again(
    routes: list[Alert], told: dict[str | None, timedelta], expected: list[str | None]
) -> None:
    before = {(SLACK.receiver, table): NOON - ago for table, ago in told.items()}
    due = due_reminders(OPEN, routes, before, {SLACK.receiver: NOON - 30 * DAYS}, NOON)
    assert due == [(SLACK.receiver, table) for table in expected]


def test_a_new_route_gets_no_reminder_before_its_first_interval_is_over() -> None:
    for ago, expected in ((6 * DAYS, []), (7 * DAYS, ["sales.orders", None])):
        due = due_reminders(OPEN, [WEEKLY], {}, {SLACK.receiver: NOON - ago}, NOON)
        assert due == [(SLACK.receiver, table) for table in expected]
    assert due_reminders(OPEN, [WEEKLY], {}, {}, NOON) == []


def test_a_reminder_tells_what_concerns_the_receiver_and_is_open() -> None:
    held = [replace(change, transition="open") for change in (DROPPED, LEFT, STRAY)]
    due = [(SLACK.receiver, "sales.orders"), (PAGER.receiver, None)]
    assert reminders(due, held, [WEEKLY, PAGER]) == [
        Notice(SLACK.receiver, "sales.orders", "still_open", "open", (held[0],))
    ]


def test_a_fingerprint_names_receiver_and_table_and_nothing_else() -> None:
    notices = [
        decide(replace(news(change), run_id=run), [SLACK], {})[0]
        for run, change in (("r1", DROPPED), ("r2", BACK), ("r3", STRAY))
    ]
    first, again, elsewhere = (notice.fingerprint("shop") for notice in notices)
    assert first == again
    assert len({first, elsewhere, notices[0].fingerprint("other")}) == 3
    assert replace(notices[0], receiver="x").fingerprint("shop") != first


@pytest.mark.parametrize(
    ("route", "table", "severity", "expected"),
    [
        (SLACK, "t", "warning", True),
        (SLACK, "t", "info", False),
        (PAGER, "t", "error", False),
        (SALES, "sales.orders", "info", True),
        (SALES, "sales", "critical", False),
        (SALES, "presales.x", "critical", False),
    ],
)
def test_what_concerns_a_route(route: Alert, table: str, severity: str, expected: bool) -> None:
    assert concerns(route, table, severity) is expected

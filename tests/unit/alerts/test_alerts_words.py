"""The text of a message, and that stored text in it cannot act."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakeaudit.alerts.decide import Notice
from lakeaudit.alerts.message_text import MOST_SECTIONS, Wording, body, headline, text, title
from lakeaudit.results.summaries.change_summary import Change

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LOST = Change(
    "sales.orders", "opened", "dropped", "critical", 12, files=12, rows=600, bytes=2048, since=NOON,
    partitions=("day=1", "day=2", "day=3"), more_partitions=4, recoverable={"yes": 7, "no": 5}, until=NOON,
    example="s3://lake/orders/day=1/a",
)  # fmt: skip


def notice(*changes: Change, **given: object) -> Notice:
    made = Notice("r", "sales.orders", "discrepancies", "opened", changes)
    return replace(made, **given)  # type: ignore[arg-type]


BLIND = Change("sales.orders", "opened", "coverage_lost", "error", 1, by_cause={"the report is gone": 1})
STALE = Change("sales.orders", "opened", "stale_pointer", "error", 2)
STRAY = Change("sales.orders", "opened", "uncommitted", "warning", 1)
HEADLINES = [
    (notice(LOST), "CRITICAL: 12 files dropped in sales.orders"),
    (notice(LOST, replace(LOST, kind="size_mismatch", number=1)),
     "CRITICAL: 12 files dropped, 1 size mismatch in sales.orders"),
    (notice(replace(LOST, kind="archived", severity="error", number=2), LOST),
     "CRITICAL: 12 files dropped and 2 less severe in sales.orders"),
    (notice(replace(LOST, severity="warning")), "WARNING: 12 files dropped in sales.orders"),
    (notice(replace(LOST, transition="resolved"), over=True), "RESOLVED: 12 files dropped in sales.orders"),
    (notice(replace(LOST, transition="resolved")), "RESOLVED: 12 files dropped in sales.orders; more is open"),
    (notice(LOST, replace(LOST, transition="resolved", kind="torn")), "CRITICAL: 12 files dropped in sales.orders"),
    (notice(replace(LOST, transition="resolved", resolution="reference_removed"), over=True),
     "CLOSED, NOT RESTORED: 12 files dropped in sales.orders"),
    (notice(LOST, kind="mass_loss"), "MASS LOSS: CRITICAL: 12 files dropped in sales.orders"),
    (notice(BLIND, STALE, kind="coverage_lost"),
     "COVERAGE LOST (error), 2 stale pointers in sales.orders: the report is gone"),
    (notice(BLIND, STRAY, kind="coverage_lost"),
     "COVERAGE LOST (error) and 1 less severe in sales.orders: the report is gone"),
    (notice(LOST, BLIND, STALE),
     "CRITICAL: 12 files dropped and 3 less severe (coverage lost) in sales.orders"),
    (notice(replace(LOST, transition="open"), kind="still_open"),
     "STILL OPEN: CRITICAL: 12 files dropped in sales.orders"),
    (notice(LOST, table=None), "CRITICAL: 12 files dropped"),
    (notice(kind="audit_failed", table=None), "the audit failed"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "line"), HEADLINES)
def test_a_headline_says_what_and_where(told: Notice, line: str) -> None:
    assert headline(told) == line


SAID = [
    (
        LOST,
        "12 files dropped (critical), new: the table lists the file, but storage has no current object for it",
    ),
    (LOST, "at stake: 12 files, 600 rows, 2.0 KiB"),
    (LOST, "in day=1, day=2, day=3 and 4 more"),
    (LOST, "since 2026-11-21 12:00:00Z; cause not known"),
    (LOST, "recoverable: 7 of 12, until 2026-11-21 12:00:00Z"),
    (LOST, "more: lakeaudit explain lake.yaml s3://lake/orders/day=1/a"),
    (replace(LOST, transition="reopened"), "12 files dropped (critical), back again"),
    (replace(LOST, transition="escalated"), "12 files dropped (critical), worse"),
    (replace(LOST, transition="resolved"), "12 files dropped resolved"),
    (
        replace(LOST, transition="resolved", resolution="restored"),
        "12 files dropped resolved: the files are back, and all sources agree again",
    ),
    (
        replace(LOST, transition="resolved", resolution="restored", number=1, files=1),
        "1 file dropped resolved: the file is back, and all sources agree again",
    ),
    (
        replace(LOST, transition="resolved", resolution="restored", files=500),  # of whole partitions
        "files dropped resolved: all sources agree again",
    ),
    (
        replace(BLIND, since=NOON, since_newest=NOON + timedelta(days=2)),
        "blind since 2026-11-21 12:00:00Z (noticed 2026-11-23 12:00:00Z); cause: the report is gone",
    ),
    (
        replace(LOST, kind="clone_at_risk", transition="resolved", resolution="restored"),
        "12 clones at risk resolved: no longer the case",
    ),
    (
        replace(LOST, transition="resolved", resolution="reference_removed"),
        "12 files dropped closed, NOT restored: the table no longer lists it; lost: 12 files, 600 rows",
    ),
    (
        replace(LOST, number=2, recoverable={"no": 2}),
        "recoverable: no (no older version, and no copy below the table",
    ),
    (
        replace(LOST, transition="resolved", resolution="restored", recoverable={"no": 12}),
        "if its rows were written again, they may now be there twice",
    ),
    (replace(LOST, number=1, recoverable={"unknown": 1}), "recoverable: unknown"),
    (replace(LOST, recoverable={}), "recoverable: unknown"),
    (
        LOST,
        "plan lake.yaml --table sales.orders --kind dropped --allow restore -o sales.orders.dropped.jsonl",
    ),
    (replace(LOST, by_cause={"expired by a lifecycle rule": 12}), "--kind dropped"),
    (replace(LOST, recoverable={"no": 12}), "do: Write the rows again from their source"),
    (replace(LOST, kind="content_mismatch", recoverable={"unknown": 12}), "do: "),
    (
        replace(LOST, kind="uncommitted"),
        "apply sales.orders.uncommitted.jsonl` repairs): lakeaudit reconcile plan lake.yaml --table sales.orders ",
    ),
    (
        LOST,
        "Without --allow restore, the plan below repairs 0 of 12 lost or changed files.\n  plan",
    ),
    (
        replace(LOST, by_cause={"deleted, by arn:aws:sts::1:assumed-role/nightly-etl/spark": 9}),
        "cause: 9 of 12: deleted, by arn:aws:sts::1:assumed-role/nightly-etl/spark; 3 of 12: not known",
    ),
    (
        replace(LOST, by_cause={"deleted, by arn:aws:sts::1:assumed-role/nightly-etl/spark": 9}),
        "first answer: Did nightly-etl or somebody else remove them on purpose?",
    ),
    (replace(LOST, by_cause={"expired by a lifecycle rule": 9}), "--kind dropped --allow restore"),
    (replace(LOST, since_newest=NOON + timedelta(days=2)), "(the newest since 2026-11-23 12:00:00Z)"),
    (
        BLIND,
        "check important tables without it: lakeaudit audit lake.yaml --live --table sales.orders.",
    ),
    (replace(LOST, until=None), "recoverable: 7 of 12 (expiry date not known: restore these files soon)"),
    (replace(LOST, files=None, rows=None, bytes=None), "at stake: not known"),
    (
        replace(LOST, since=None, by_cause={"a lifecycle rule": 12}),
        "since an unknown time; cause: a lifecycle rule",
    ),
    (
        replace(LOST, example=None),
        "more: lakeaudit findings lake.yaml --run-id r1 --kind dropped --table",
    ),
]


WORDING = Wording("lake.yaml", "r1")


@pytest.mark.parametrize(("change", "line"), SAID)
def test_each_change_has_its_lines(change: Change, line: str) -> None:
    assert line in text(notice(change), WORDING)


HOSTILE = ["<!channel>", "@everyone", "<https://evil|click>", "a\nCRITICAL: b", "\x1b[31m", "\u202egpj"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_key_calls_nobody_and_forges_no_line(name: str) -> None:
    hostile = replace(LOST, table=name, partitions=(f"day={name}",), example=f"s3://lake/{name}")
    said = text(notice(hostile, table=name), WORDING)
    assert name not in said
    assert len(said.splitlines()) == 8
    assert said.splitlines()[-1].startswith("  do: Restore the file")


def test_a_message_is_capped_and_its_title_counts_the_rest() -> None:
    sections = [f"table {n}" for n in range(MOST_SECTIONS + 3)]
    assert body(sections).splitlines()[-1] == "... and 3 more: see the report"
    assert body(sections[:2]) == "table 0\n\ntable 1"
    assert title("shop", sections) == f"lakeaudit shop: table 0 (and {MOST_SECTIONS + 2} more)"
    assert title("shop", sections[:1]) == "lakeaudit shop: table 0"

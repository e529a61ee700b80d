"""The view model of recovery: its numbers, and the text that every page renders."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeaudit.report import summary
from lakeaudit.results.recovery import Recovery, brief, of_finding, sentence

END = datetime(2026, 12, 9, tzinfo=UTC)


def row(
    kind: str = "dropped", recoverable: str | None = "yes", number: int = 1, **given: Any
) -> dict[str, Any]:
    end = END if recoverable == "yes" else None
    return {
        "kind": kind,
        "recoverable": recoverable,
        "recoverable_until": end,
        "recovery": None,
        "table_name": "orders",
        "findings": number,
        **given,
    }


LOST_COMMIT = row("overwritten_commit")

UNTIL = "until 2026-12-09 00:00:00Z"
OTHERS = "reconcile may repair 3 other findings (the plan decides); 1 other finding has no automatic repair"
SENTENCES: list[tuple[list[dict[str, Any]], str]] = [
    ([], ""),
    ([row()], "recoverable: yes, until 2026-12-09 00:00:00Z"),
    ([row(recoverable="no")], "recoverable: no"),
    ([row(recoverable="no", number=3)], "0 of 3 lost or changed files are recoverable"),
    ([row(recoverable=None, number=3)], "0 of 3 lost or changed files are recoverable, unknown for 3"),
    (
        [row(recoverable="no"), row(recoverable="unknown")],
        "0 of 2 lost or changed files are recoverable, unknown for 1",
    ),
    ([row(number=9, recoverable_until=None)], "9 of 9 lost or changed files are recoverable"),
    (
        [row(number=9), row(recoverable="no", number=4)],
        "9 of 13 lost or changed files are recoverable, the first one until 2026-12-09 00:00:00Z",
    ),
    (
        [row(number=2), row("phantom", None, 3), row("unclassified", None)],
        f"2 of 2 lost or changed files are recoverable, the first one {UNTIL}; {OTHERS}",
    ),
    ([row("phantom", None, 2)], "reconcile may repair them; the plan decides"),
    ([row("unclassified", None, 2)], "no automatic repair"),
    ([row("phantom", None, 2), row("unclassified", None)], "reconcile may repair 2 of 3; the plan decides"),
    ([LOST_COMMIT], "no automatic repair, older object version readable, until 2026-12-09 00:00:00Z"),
]


@pytest.mark.parametrize(("rows", "words"), SENTENCES, ids=[words or "none" for _, words in SENTENCES])
def test_a_sentence_counts_every_discrepancy(rows: list[dict[str, Any]], words: str) -> None:
    assert sentence(Recovery.of_sums(rows)) == words


def test_the_first_expiry_counts_and_names_its_table() -> None:
    later = row(recoverable_until=END + timedelta(days=1), table_name="a")
    recovery = Recovery.of_sums([later, row(), row(recoverable="no", table_name="b")])
    assert (recovery.until, recovery.first_table) == (END, "orders")
    assert sentence(recovery, with_table=True).endswith(", the first one until 2026-12-09 00:00:00Z (orders)")


@pytest.mark.parametrize(("past", "words"), [(-2, "(2 h left)"), (0, "(passed)"), (2, "(passed)")])
def test_an_expiry_is_measured_from_now(past: int, words: str) -> None:
    now = END + timedelta(hours=past)
    assert brief(Recovery.of_sums([row()]), now) == f"yes, until 2026-12-09 00:00:00Z {words}"


@pytest.mark.parametrize(
    ("kind", "recoverable", "words"),
    [
        ("dropped", "yes", "recoverable: yes, from an older version, no expiry date known"),
        ("dropped", "no", "recoverable: no"),
        ("dropped", None, "recoverable: unknown"),
        ("metastore_broken", "unknown", ""),
        ("overwritten_commit", "yes", "older object version readable"),
        ("overwritten_commit", "no", ""),
        ("of another version", "yes", "recoverable: yes, from an older version, no expiry date known"),
        ("of another version", None, ""),
    ],
)
def test_the_recovery_of_one_finding(kind: str, recoverable: str | None, words: str) -> None:
    assert of_finding(row(kind, recoverable, recovery="older_version", recoverable_until=None)) == words


def test_the_lost_version_of_a_commit_is_readable_and_not_recoverable() -> None:
    """It must not be restored over the other version, and its end is not that of a recoverable file."""
    assert of_finding(LOST_COMMIT) == "older object version readable until 2026-12-09 00:00:00Z"
    recovery = Recovery.of_sums([LOST_COMMIT])
    assert (recovery.restorable, recovery.losses, recovery.until) == (0, 0, None)
    sums = dict.fromkeys(("files", "rows_at_stake", "bytes_at_stake"))
    assert summary.Stake.of([LOST_COMMIT | sums]).until is None

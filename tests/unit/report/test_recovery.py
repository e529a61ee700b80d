"""The view model of recovery: its numbers, and the text that every page renders."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeaudit.advice.next_steps import may_be_repaired
from lakeaudit.report import summary
from lakeaudit.results.recovery import Recovery, brief, expiry, of_finding, sentence, statements

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

BY_HAND = row("missing_metadata", by_hand="")
FOLLOWER = row("missing_metadata", by_hand="overwritten_commit")

EXPIRES = "restorable until 2026-12-09 00:00:00Z"
SOME_EXPIRE = "at least one file can be restored only until 2026-12-09 00:00:00Z"
OTHERS = "reconcile may repair 3 other findings (the plan decides); 1 other finding has no automatic repair"
SENTENCES: list[tuple[list[dict[str, Any]], str]] = [
    ([], ""),
    ([row()], "recoverable: yes, until 2026-12-09 00:00:00Z"),
    ([row(recoverable="no")], "recoverable: no"),
    ([row(recoverable="no", number=3)], "3 lost or changed files cannot be restored"),
    (
        [row(recoverable=None, number=3)],
        "it is not known whether 3 lost or changed files can be restored",
    ),
    (
        [row(recoverable="no"), row(recoverable="unknown")],
        "1 of 2 lost or changed files cannot be restored; for the other file, this is not known",
    ),
    (
        [row(number=9, recoverable_until=None)],
        "9 lost or changed files can be restored; expiry date not known: restore these files soon",
    ),
    (
        [row(number=9), row(recoverable="no", number=4)],
        f"9 of 13 lost or changed files can be restored, and 4 cannot; {SOME_EXPIRE}",
    ),
    (
        [row(number=4), row(recoverable="no", number=3), row(recoverable="unknown")],
        (
            "4 of 8 lost or changed files can be restored, and 3 cannot; for the other file, this is not known; "
            f"{SOME_EXPIRE}"
        ),
    ),
    (
        [row(), row(recoverable="no")],
        f"1 of 2 lost or changed files can be restored, and 1 cannot; {EXPIRES}",
    ),
    (
        [row(number=2), row("phantom", None, 3), row("unclassified", None)],
        f"2 lost or changed files can be restored; {SOME_EXPIRE}; {OTHERS}",
    ),
    (
        [row(), row("unclassified", None)],
        f"1 lost or changed file can be restored; {EXPIRES}; 1 other finding has no automatic repair",
    ),
    (
        [FOLLOWER, row(number=2), row(recoverable="no")],
        (
            "3 of 4 lost or changed files can be restored (1 of them only by hand), and 1 cannot; "
            f"{SOME_EXPIRE}"
        ),
    ),
    (
        [FOLLOWER, BY_HAND],
        f"2 lost or changed files can be restored (only by hand); {SOME_EXPIRE}",
    ),
    ([row("phantom", None, 2)], "reconcile may repair them; the plan decides"),
    ([row("unclassified", None, 2)], "no automatic repair"),
    ([row("phantom", None, 2), row("unclassified", None)], "reconcile may repair 2 of 3; the plan decides"),
    ([LOST_COMMIT], "no automatic repair; the older object version is readable until 2026-12-09 00:00:00Z"),
    (
        [LOST_COMMIT, LOST_COMMIT],
        "no automatic repair; the older object versions are readable, the first one until 2026-12-09 00:00:00Z",
    ),
]


@pytest.mark.parametrize(("rows", "words"), SENTENCES, ids=[words or "none" for _, words in SENTENCES])
def test_a_sentence_counts_every_discrepancy(rows: list[dict[str, Any]], words: str) -> None:
    assert sentence(Recovery.of_sums(rows)) == words


@pytest.mark.parametrize(
    ("rows", "short", "long"),
    [
        # nobody knows who removed them
        ([row(number=7, needs_allow=7, recoverable_until=None)], "7 of 7; only with --allow restore",
         "7 lost or changed files can be restored (only with reconcile plan --allow restore)"),
        # a lifecycle rule expired four of them
        ([row(number=7, needs_allow=3, recoverable_until=None)], "7 of 7; 3 of these only with --allow restore",
         "7 lost or changed files can be restored (3 of them only with reconcile plan --allow restore)"),
        ([row(number=7, needs_allow=0, recoverable_until=None)], "7 of 7", "7 lost or changed files can be restored"),
        # no plan restores these
        ([row("overwritten", number=2, needs_allow=2, recoverable_until=None)], "2 of 2",
         "2 lost or changed files can be restored"),
        ([row(recoverable="no", number=2, needs_allow=2)], "no", "2 lost or changed files cannot be restored"),
        ([row("missing_metadata", by_hand="", number=2, needs_allow=2, recoverable_until=None)], "2 of 2",
         "2 lost or changed files can be restored (only by hand)"),
    ],
)  # fmt: skip
def test_how_many_files_a_plan_restores_by_default(rows: list[dict[str, Any]], short: str, long: str) -> None:
    recovery = Recovery.of_sums(rows)
    soon = "; expiry date not known: restore these files soon" if "can be restored" in long else ""
    assert (brief(recovery), sentence(recovery)) == (short, long + soon)


def test_the_first_expiry_counts_and_names_its_table() -> None:
    later = row(recoverable_until=END + timedelta(days=1), table_name="a")
    recovery = Recovery.of_sums([later, row(), row(recoverable="no", table_name="b")])
    assert (recovery.until, recovery.first_table) == (END, "orders")
    assert statements(recovery, with_table=True)[-1] == f"{SOME_EXPIRE} (orders)"


@pytest.mark.parametrize(("past", "words"), [(-2, "(2 h left)"), (0, "(passed)"), (2, "(passed)")])
def test_an_expiry_is_measured_from_now(past: int, words: str) -> None:
    now = END + timedelta(hours=past)
    assert brief(Recovery.of_sums([row()]), now) == f"yes, until 2026-12-09 00:00:00Z {words}"


@pytest.mark.parametrize(
    ("past", "copy", "copies"),
    [
        (None, EXPIRES, SOME_EXPIRE),
        (-2, f"{EXPIRES} (2 h left)", f"{SOME_EXPIRE} (2 h left)"),
        (
            0,
            "the version to restore expired at 2026-12-09 00:00:00Z",
            "the version to restore of at least one file expired at 2026-12-09 00:00:00Z",
        ),
    ],
)
def test_the_copies_of_files_expire(past: int | None, copy: str, copies: str) -> None:
    now = None if past is None else END + timedelta(hours=past)
    assert expiry(Recovery.of_sums([row()]), now) == copy
    assert expiry(Recovery.of_sums([row(number=2)]), now) == copies
    assert expiry(Recovery.of_sums([row(recoverable="no")]), now) == ""


ONE = "Without --allow restore, the plan below repairs 1 of"
NONE = "Without --allow restore, the plan below repairs 0 of"


@pytest.mark.parametrize(
    ("yes", "unknown", "by_default", "words"),
    [
        (4, 0, 4, ""),
        (4, 0, 1, f"{ONE} 4 lost or changed files."),
        (0, 1, 0, "It is not known whether the plan below can repair the lost or changed file."),
        (1, 1, 1, f"{ONE} 2 lost or changed files; for the other file, this is not known."),
        (3, 2, 1, f"{ONE} 5 lost or changed files; for 2 of the others, this is not known."),
        (3, 2, 0, f"{NONE} 5 lost or changed files; for 2 of these, this is not known."),
    ],
)
def test_the_extent_of_a_plan(yes: int, unknown: int, by_default: int, words: str) -> None:
    answers = Counter({"yes": yes, "unknown": unknown})
    needs_allow = yes - by_default
    recovery = Recovery(
        yes + unknown, answers, plannable=answers, needs_allow=needs_allow, by_default=by_default
    )
    assert recovery.plan_extent(restore=False) == words


SEE = "only by hand (see the finding overwritten_commit)"


@pytest.mark.parametrize(
    ("rows", "plannable", "words"),
    [
        ([row()], {"yes": 1}, "yes, until 2026-12-09 00:00:00Z"),
        ([BY_HAND], {"no": 1}, "yes, until 2026-12-09 00:00:00Z"),
        ([FOLLOWER], {"no": 1}, f"yes, until 2026-12-09 00:00:00Z; {SEE}"),
        (
            [FOLLOWER, row("missing_metadata", "unknown", by_hand="")],
            {"no": 2},
            f"1 of 2 (1 unknown), until 2026-12-09 00:00:00Z; {SEE}",
        ),
        ([row("stale_pointer", None, by_hand="")], {"no": 1}, "no automatic repair"),
        (
            [row("stale_pointer", None, by_hand=""), row("stale_pointer", None, by_hand=None)],
            {"no": 1, "unknown": 1},
            "reconcile may repair 1 of 2; the plan decides",
        ),
        ([FOLLOWER, FOLLOWER], {"no": 2}, f"2 of 2, until 2026-12-09 00:00:00Z; {SEE}"),
        (
            [FOLLOWER | {"recoverable": "no"}, row()],
            {"no": 1, "yes": 1},
            "1 of 2, until 2026-12-09 00:00:00Z",
        ),
    ],
)
def test_a_file_that_no_plan_restores(
    rows: list[dict[str, Any]], plannable: dict[str, int], words: str
) -> None:
    recovery = Recovery.of_sums(rows)
    assert recovery.plannable == plannable
    assert brief(recovery) == words


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row("phantom", None)], "no lost file"),
        ([LOST_COMMIT], "no automatic repair"),
        ([row(recoverable="no")], "no"),
        ([row(recoverable="no"), row(recoverable="unknown")], "not known"),
        ([row(recoverable="no"), row(recoverable_until=None)], "expiry date not known"),
    ],
)
def test_why_no_expiry_is_known(rows: list[dict[str, Any]], words: str) -> None:
    assert Recovery.of_sums(rows).without_end == words


@pytest.mark.parametrize(
    ("kind", "recoverable", "words"),
    [
        (
            "dropped",
            "yes",
            "recoverable: yes, from an older version (expiry date not known: restore this file soon)",
        ),
        ("dropped", "no", "recoverable: no"),
        ("dropped", None, "recoverable: unknown"),
        ("metastore_broken", "unknown", ""),
        ("overwritten_commit", "yes", "older object version readable"),
        ("overwritten_commit", "no", ""),
        (
            "of another version",
            "yes",
            "recoverable: yes, from an older version (expiry date not known: restore this file soon)",
        ),
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
    assert summary.Stake.of([LOST_COMMIT | sums]).recovery.until is None


@pytest.mark.parametrize("recoverable", [None, "no", "unknown", "yes"])
def test_a_plan_is_offered_for_kinds_that_lose_no_file_whatever_their_row_says(
    recoverable: str | None,
) -> None:
    finding = row("phantom", recoverable) | {"recovery": None}
    assert may_be_repaired("phantom", Recovery.of_finding(finding).plannable)

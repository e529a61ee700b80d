"""When so much is missing that the evidence itself is doubted, and what a sample says of it."""

from dataclasses import replace

import pytest

from lakeaudit.compare.ceiling import BAD, LEAST, REAL, UNSURE, Missing, Trial, doubts, losses, of_table

HALF = Missing("orders", "storage:1", "storage", 500, 1000)

CEILINGS = [
    # missing, of, share, whether a sample has to be looked at first
    (500, 1000, 0.2, True),
    (200, 1000, 0.2, False),
    (201, 1000, 0.2, True),
    (LEAST - 1, LEAST - 1, 0.2, False),
    (LEAST, LEAST, 0.2, True),
    (LEAST, LEAST, 1.0, False),
    (150_000, 1_000_000, 0.2, False),
]


@pytest.mark.parametrize(("files", "of", "share", "over"), CEILINGS)
def test_a_ceiling_is_a_share_of_many(files: int, of: int, share: float, over: bool) -> None:
    assert replace(HALF, files=files, of=of).over(share) is over


TRIALS = [
    # asked, answered, gone, verdict
    (400, 400, 400, REAL),
    (400, 400, 360, REAL),
    (400, 400, 359, UNSURE),
    (400, 400, 41, UNSURE),
    (400, 400, 40, BAD),
    (400, 400, 0, BAD),
    (400, 200, 200, REAL),
    (400, 199, 199, UNSURE),
    (400, 0, 0, UNSURE),
    (0, 0, 0, BAD),
]


@pytest.mark.parametrize(("asked", "answered", "gone", "verdict"), TRIALS)
def test_a_sample_decides(asked: int, answered: int, gone: int, verdict: str) -> None:
    trial = Trial(HALF, asked, answered, gone)
    assert trial.verdict == verdict
    assert (trial in doubts([trial]), trial in losses([trial])) == (verdict != REAL, verdict == REAL)


SAID = [
    (Trial(HALF, 400, 400, 399),
     "mass loss: storage:1 lacks 500 of 1,000 files of orders, and of 400 looked at now 399 are gone"),
    (Trial(HALF, 400, 400, 1), "storage:1 lacks 500 of 1,000 files of orders, but of 400 looked at now 1 are gone"),
    (Trial(HALF, 400, 100, 1),
     "storage:1 lacks 500 of 1,000 files of orders, but of 100 looked at now 1 are gone (300 more were not answered)"),
    (Trial(HALF), "storage:1 lacks 500 of 1,000 files of orders, and storage may not be asked (confirm.mode)"),
]  # fmt: skip


@pytest.mark.parametrize(("trial", "words"), SAID)
def test_it_is_said_in_words(trial: Trial, words: str) -> None:
    assert trial.words == words


OF_STORE = Trial(replace(HALF, source="metastore:0", role="metastore"))


@pytest.mark.parametrize(
    ("axis", "table", "expected"),
    [
        ("content", "orders", [Trial(HALF)]),
        ("leftover", "orders", [Trial(HALF)]),
        ("metastore", "orders", [Trial(HALF), OF_STORE]),
        ("metastore_tree", "orders", [Trial(HALF), OF_STORE]),
        ("content", "customers", []),
    ],
)
def test_an_axis_is_touched_by_what_it_rests_on(axis: str, table: str, expected: list[Trial]) -> None:
    assert of_table([Trial(HALF), OF_STORE], table, axis) == expected

"""The causes of several discrepancies, and the question before their files are restored."""

import pytest

from lakeaudit.advice.causes import ByCause, causes_in_words, purpose_question

ETL = "deleted, by arn:aws:sts::123456789012:assumed-role/nightly-etl/spark-2026"
JOE = "deleted, by arn:aws:iam::123456789012:user/people/joe"
EXPIRED = "expired by a lifecycle rule: rule-0"


@pytest.mark.parametrize(
    ("by_cause", "total", "words"),
    [
        ({}, 7, ""),
        ({ETL: 4}, 4, ETL),
        ({ETL: 4}, 7, f"4 of 7: {ETL}; 3 of 7: not known"),
        ({JOE: 1, ETL: 4}, 5, f"4 of 5: {ETL}; 1 of 5: {JOE}"),
        ({JOE: 1, ETL: 4}, 7, f"4 of 7: {ETL}; 1 of 7: {JOE}; 2 of 7: not known"),
        ({"a": 4, "b": 3, "c": 2, "d": 1, "e": 1}, 11, "4 of 11: a; 3 of 11: b; 2 of 11: c; 2 of 11: 2 other causes"),
    ],
)  # fmt: skip
def test_a_cause_is_stated_only_for_those_that_have_it(by_cause: ByCause, total: int, words: str) -> None:
    assert causes_in_words(by_cause, total) == words


@pytest.mark.parametrize(
    ("kinds", "by_cause", "total", "question"),
    [
        (["dropped"], {}, 7, "Did somebody remove them on purpose?"),
        (["dropped"], {}, 1, "Did somebody remove it on purpose?"),
        (["dropped"], {ETL: 4}, 4, "Did nightly-etl remove them on purpose?"),
        (["dropped"], {ETL: 4}, 7, "Did nightly-etl or somebody else remove them on purpose?"),
        (["dropped"], {ETL: 4, JOE: 1}, 5, "Did nightly-etl or joe remove them on purpose?"),
        (["dropped"], {ETL: 4, EXPIRED: 3}, 7, "Did nightly-etl remove them on purpose?"),
        (["dropped"], {EXPIRED: 3}, 7, "Did somebody remove them on purpose?"),
        (["dropped"], {"deleted, by a service": 7}, 7, "Did a service remove them on purpose?"),
        (["size_mismatch"], {ETL: 4}, 4, "Did nightly-etl replace them on purpose?"),
        (["size_mismatch", "dropped"], {}, 4, "Did somebody remove or replace them on purpose?"),
        (
            ["dropped"],
            {f"deleted, by {n}": 1 for n in "abcde"},
            5,
            "Did a, b, c or 2 other principals remove them on purpose?",
        ),
    ],
)
def test_the_question_names_those_who_are_known(
    kinds: list[str], by_cause: ByCause, total: int, question: str
) -> None:
    assert purpose_question(kinds, by_cause, total) == question

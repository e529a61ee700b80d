"""The rule of `airflow.fail_on`: `doctor` and the DAG state the same sentence."""

from itertools import combinations

import pytest

import lake_fail_on
from lakeaudit.commands import audit_task
from lakeaudit.config.file import Airflow
from lakeaudit.kinds import SEVERITIES

LISTS = [
    ("never",),
    *(each for length in range(1, 7) for each in combinations(lake_fail_on.CONDITIONS[:-1], length)),
]


def test_doctor_and_the_dag_state_the_same_rule() -> None:
    sentences = {each: lake_fail_on.rule_of(each) for each in LISTS}
    assert sentences == {each: audit_task.rule_of(each) for each in LISTS}
    assert len(LISTS) == 64
    assert len(set(sentences.values())) == 5 * 2 * 2, "a higher severity of a list changes nothing"


def test_both_know_the_same_conditions() -> None:
    assert lake_fail_on.SEVERITIES == SEVERITIES
    assert Airflow().fail_on == lake_fail_on.DEFAULT
    assert Airflow(fail_on=lake_fail_on.CONDITIONS[:-1]).fail_on == lake_fail_on.CONDITIONS[:-1]


@pytest.mark.parametrize(
    ("fail_on", "sentence"),
    [
        (("never",), "the task `audit` is green whatever the audit reports"),
        (
            ("failed",),
            "the task `audit` fails if the audit ends with another exit code than 0, 1 and 3",
        ),
        (
            ("error", "coverage_lost"),
            (
                "the task `audit` fails if the audit has findings of severity error or higher that nobody accepted or "
                "can no longer judge a table that an earlier audit could judge"
            ),
        ),
    ],
)
def test_the_sentence(fail_on: tuple[str, ...], sentence: str) -> None:
    assert lake_fail_on.rule_of(fail_on) == sentence

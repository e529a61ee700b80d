"""The rule of `airflow.fail_on`: `doctor`, the DAG and docs/airflow.md state the same."""

import re
from itertools import combinations
from pathlib import Path

import pytest
import yaml

import lake_fail_on
from lake_outcomes import ALERT, AUDIT, BY_FINDINGS, DOCTOR, REPORT, THE_AUDIT_FAILED
from lakeaudit.commands import audit_task
from lakeaudit.config.file import Airflow
from lakeaudit.kinds import SEVERITIES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "airflow.md").read_text("utf-8")
RULE = PAGE.partition("\n## Red or green\n")[2].partition("\n## ")[0]
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


def rows(section: str) -> list[list[str]]:
    """Return the cells of the table of a section, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_page_and_the_example_name_the_default() -> None:
    (line,) = re.findall(r"^(airflow: .*)# this is the default$", RULE, re.MULTILINE)
    assert tuple(yaml.safe_load(line)["airflow"]["fail_on"]) == lake_fail_on.DEFAULT == Airflow().fail_on
    example = (ROOT / "conf" / "example.yaml").read_text("utf-8")
    (line,) = [line for line in example.splitlines() if line.startswith("  fail_on: ")]
    assert line.endswith("this is the default")
    assert tuple(yaml.safe_load(line)["fail_on"]) == lake_fail_on.DEFAULT
    assert {*re.findall(r"\w+", line.partition("#")[2])} >= {*lake_fail_on.CONDITIONS} - {
        *lake_fail_on.DEFAULT
    }


def test_the_page_explains_every_condition_once() -> None:
    conditions = [re.findall(r"`(\w+)`", name) for name, _ in rows(RULE)]
    assert [name for names in conditions for name in names] == [*lake_fail_on.CONDITIONS]
    assert conditions[0] == [*SEVERITIES]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("error", ("of this severity or of a higher one", "nobody accepted")),
        ("coverage_lost", ("the audit can no longer judge a table that an earlier audit could judge",)),
        ("failed", ("another exit code than 0, 1 and 3",)),
        ("never", ("never", "alone")),
    ],
)
def test_the_page_states_the_rule_of_each_condition(condition: str, words: tuple[str, ...]) -> None:
    (meaning,) = [meaning for names, meaning in rows(RULE) if f"`{condition}`" in names]
    assert [text for text in words if text not in meaning] == []
    rule = audit_task.rule_of((condition,))
    assert condition in ("error", "never") or words[0].removeprefix("the audit ") in rule


def test_the_page_has_the_first_words_of_both_errors() -> None:
    prose = " ".join(RULE.split())
    assert f"`{BY_FINDINGS}: " in prose
    assert f"`{THE_AUDIT_FAILED}: " in prose


def test_the_page_has_the_exit_codes_after_which_a_task_is_green() -> None:
    tasks = rows(PAGE.partition("\n## The tasks\n")[2].partition("\n## ")[0])
    codes = {name.strip("`"): success.partition(";")[0] for name, _, success, _ in tasks}
    for step in (DOCTOR, AUDIT, ALERT, REPORT):
        assert codes[step.name] == ", ".join(map(str, step.fine)), step.name

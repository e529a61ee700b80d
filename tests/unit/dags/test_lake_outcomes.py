"""The arguments of each task of the DAG, and its outcome by the status file. No Airflow."""

from pathlib import Path
from typing import Any

import pytest

from lake_files import LakeFile
from lake_outcomes import (
    ALERT,
    APPLY,
    AUDIT,
    DOCTOR,
    PLAN,
    REPORT,
    Step,
    apply_arguments,
    arguments,
    judge,
    table_events,
)

LAKE = LakeFile(Path("/conf/shop.yaml"), "lake_audit_shop", "shop", ("a", "b"), None)
NOTHING = {"tables": [], "live": False, "partitions": []}


@pytest.mark.parametrize(
    ("step", "params", "typed"),
    [
        (DOCTOR, NOTHING, []),
        (AUDIT, NOTHING, ["--fail-on", "never"]),
        (AUDIT, {}, ["--fail-on", "never"]),
        (AUDIT, {"tables": ["a", "b"]}, ["--fail-on", "never", "--table", "a", "--table", "b"]),
        (
            AUDIT,
            {"tables": ["a"], "live": True, "partitions": ["day=1", "day=2"]},
            ["--fail-on", "never", "--table", "a", "--live", "--partition", "day=1", "--partition", "day=2"],
        ),
        (ALERT, {"tables": ["a"], "live": True}, []),
        (REPORT, {"tables": ["a"]}, ["--in-results"]),
        (PLAN, NOTHING, ["--in-results"]),
        (
            PLAN,
            {"tables": ["a"], "kinds": ["dropped"], "allow": ["restore"]},
            ["--in-results", "--table", "a", "--kind", "dropped", "--allow", "restore"],
        ),
    ],
)
def test_what_is_typed(step: Step, params: dict[str, Any], typed: list[str]) -> None:
    words = ["/conf/shop.yaml", *typed, "--status-file", "/s.json"]
    assert arguments(step, LAKE, params, "/s.json") == words


@pytest.mark.parametrize(
    ("user", "named"),
    [
        ({"id": "1", "name": "eve"}, ["--approved-by", "eve"]),
        ({"id": "1"}, ["--approved-by", "1"]),
        (None, []),
    ],
)
def test_the_plan_that_was_approved_is_applied_and_no_other(
    user: dict[str, str] | None, named: list[str]
) -> None:
    plan = {"plan": "s3://r/plan.jsonl", "digest": "ab12", "steps": 3}
    words = ["/conf/shop.yaml", "s3://r/plan.jsonl", "--digest", "ab12", *named, "--status-file", "/s.json"]
    assert apply_arguments(LAKE, plan, {"responded_by_user": user}, "/s.json") == words


def status_file(code: int | None, *, retry: bool = False, **more: Any) -> dict[str, Any]:
    return {"exit_code": code, "retry": retry, **more}


@pytest.mark.parametrize(
    ("step", "status", "failure", "action"),
    [
        # findings and a part that could not be judged are told elsewhere: the audit was made
        (AUDIT, status_file(0), None, "go on"),
        (AUDIT, status_file(1), "exit 1", "go on"),
        (AUDIT, status_file(3), "exit 3", "go on"),
        # a file that is wrong, a gate, suspect evidence, a newer audit, a bug: another try would do the same
        *((AUDIT, status_file(code), f"exit {code}", "fail") for code in (2, 10, 11, 12, 13, 14, 70, 130)),
        # another audit at work, a store that does not answer
        *((AUDIT, status_file(code, retry=True), f"exit {code}", "retry") for code in (10, 13, 14)),
        # a doctor who finds one source ill lets the audit judge the rest
        (DOCTOR, status_file(0), None, "go on"),
        (DOCTOR, status_file(3, retry=True), "exit 3", "go on"),
        (DOCTOR, status_file(10), "exit 10", "fail"),
        (DOCTOR, status_file(10, retry=True), "exit 10", "retry"),
        # a message that did not arrive is sent again
        (ALERT, status_file(0), None, "go on"),
        (ALERT, status_file(3, retry=True), "exit 3", "retry"),
        (ALERT, status_file(13, retry=True), "exit 13", "retry"),
        (REPORT, status_file(0), None, "go on"),
        # nothing to do: nobody is asked
        (PLAN, status_file(0, steps=3), None, "go on"),
        (PLAN, status_file(0, steps=0), None, "skip"),
        # what could not be done in part is told by the audit after; an audit that holds the lease is waited for
        (APPLY, status_file(0), None, "go on"),
        (APPLY, status_file(3), "exit 3", "go on"),
        (APPLY, status_file(2), "exit 2", "fail"),
        (APPLY, status_file(13, retry=True), "exit 13", "retry"),
        (REPORT, status_file(10), "exit 10", "fail"),
        # killed, or never begun
        (AUDIT, status_file(None), "killed", "retry"),
        (AUDIT, None, "no such program", "retry"),
        # all is well, and nobody can say how it ended
        (AUDIT, None, None, "fail"),
        (AUDIT, status_file(None), None, "fail"),
        (AUDIT, {}, "odd", "retry"),
    ],
)
def test_what_becomes_of_a_task(
    step: Step, status: dict[str, Any] | None, failure: str | None, action: str
) -> None:
    assert judge(step, status, failure).action == action


@pytest.mark.parametrize(
    ("status", "failure", "words"),
    [
        (
            status_file(1, status="complete", severities={"critical": 2, "info": 1}),
            None,
            "audit ended with exit code 1: complete, 2 critical, 1 info",
        ),
        (
            status_file(0, status="complete", severities={}),
            None,
            "audit ended with exit code 0: complete, no finding",
        ),
        (
            status_file(
                1,
                status="partial",
                severities={"critical": 2},
                coverage={
                    "a": {"content": {"status": "complete", "decided_share": 1.0}},
                    "b": {"content": {"status": "partial", "decided_share": None}, "leftover": {}},
                },
            ),
            None,
            "audit ended with exit code 1: 1 of 2 tables could not be judged; partial, 2 critical",
        ),
        (
            status_file(14, error="s3://r: denied; grant it"),
            "x",
            "audit ended with exit code 14: s3://r: denied; grant it",
        ),
        (None, "no spark-submit", "audit did not start: no spark-submit"),
        (status_file(None), "killed", "audit was interrupted: killed"),
        (None, None, "audit left no status file: set `airflow.status`"),
        (status_file(None), None, "audit has not ended although its submission has: set `airflow.status`"),
    ],
)
def test_the_reason_of_an_outcome(status: dict[str, Any] | None, failure: str | None, words: str) -> None:
    assert judge(AUDIT, status, failure).words.startswith(words)


@pytest.mark.parametrize(("tables", "events", "left_out"), [(0, 0, 0), (100, 100, 0), (2000, 100, 1900)])
def test_tables_with_an_event_are_bounded(tables: int, events: int, left_out: int) -> None:
    answers = {f"t{number:04}": {"answer": "ok"} for number in range(tables)}
    selected, others = table_events({"answers": answers})
    assert (len(selected), others) == (events, left_out)
    assert list(selected) == sorted(answers)[:100]
    assert table_events({}) == ({}, 0)

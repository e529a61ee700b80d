"""The arguments of each task of the DAG, and its outcome by the status file. No Airflow."""

from pathlib import Path
from typing import Any

import pytest

from lake_fail_on import DEFAULT, FAILED
from lake_files import LakeFile
from lake_outcomes import (
    ALERT,
    APPLY,
    AUDIT,
    BY_FINDINGS,
    DOCTOR,
    PLAN,
    REPORT,
    THE_AUDIT_FAILED,
    DagRun,
    Step,
    Verdict,
    apply_arguments,
    arguments,
    is_published,
    judge,
    table_events,
)
from lakeaudit.cli.options import run_id_of

LAKE = LakeFile(Path("/conf/shop.yaml"), "lake_audit_shop", "shop", ("a", "b"), None)
NOTHING = {"tables": [], "live": False, "partitions": [], "as_of": None}
RUN_ID = "scheduled__2026-11-21T05:00:00+00:00"
AUDIT_ID = "lake_audit_shop.scheduled__2026-11-21T05-00-00-00-00-ID"
NIGHTLY = ["--run-id", AUDIT_ID, "--fail-on", "never"]


@pytest.mark.parametrize(
    ("step", "params", "typed"),
    [
        (DOCTOR, NOTHING, []),
        (AUDIT, NOTHING, NIGHTLY),
        (AUDIT, {}, NIGHTLY),
        (AUDIT, {"tables": ["a", "b"]}, [*NIGHTLY, "--table", "a", "--table", "b"]),
        (
            AUDIT,
            {"tables": ["a"], "live": True, "partitions": ["day=1", "day=2"]},
            [*NIGHTLY, "--table", "a", "--live", "--partition", "day=1", "--partition", "day=2"],
        ),
        (AUDIT, {"as_of": "2026-11-20T00:00:00Z"}, [*NIGHTLY, "--as-of", "2026-11-20T00:00:00Z"]),
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
    run = DagRun("lake_audit_shop", RUN_ID, params)
    expected = [run.audit_id if word == AUDIT_ID else word for word in typed]
    assert arguments(step, LAKE, run, "/s.json") == ["/conf/shop.yaml", *expected, "--status-file", "/s.json"]


def test_a_retry_has_the_same_run_id_and_nothing_else_has() -> None:
    ids = {
        DagRun(dag_id, run_id, {}, clears).audit_id
        for dag_id in ("lake_audit_shop", "lake_reconcile_shop")
        for run_id in (
            RUN_ID,
            RUN_ID.replace(":", "-"),
            "manual__2026-11-21",
            "x" * 250,
            "x" * 249,
            "'; rm\n\x00",
        )
        for clears in (0, 1)
    }
    assert len(ids) == 24
    assert (
        DagRun("lake_audit_shop", RUN_ID, {}).audit_id == DagRun("lake_audit_shop", RUN_ID, NOTHING).audit_id
    )
    assert DagRun("lake_audit_shop", RUN_ID, {}).audit_id.startswith(AUDIT_ID.removesuffix("ID"))
    assert {run_id_of(each) for each in ids} == ids, "lakeaudit refuses other ids"


@pytest.mark.parametrize(
    ("params", "backfilled_at", "as_of"),
    [
        (NOTHING, None, None),
        (NOTHING, "2026-11-01T05:00:00+00:00", "2026-11-01T05:00:00+00:00"),
        ({"as_of": "2026-10-01T00:00:00Z"}, "2026-11-01T05:00:00+00:00", "2026-10-01T00:00:00Z"),
    ],
)
def test_the_time_that_is_audited(
    params: dict[str, Any], backfilled_at: str | None, as_of: str | None
) -> None:
    run = DagRun("lake_audit_shop", RUN_ID, params, backfilled_at=backfilled_at)
    assert run.as_of == as_of
    typed = arguments(AUDIT, LAKE, run, "/s.json")
    assert (typed[typed.index("--as-of") + 1] if "--as-of" in typed else None) == as_of


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
        # without a count of findings there is no reason to fail
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
    assert judge(step, status, failure, DEFAULT).action == action


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
            "the audit failed: audit ended with exit code 14: s3://r: denied; grant it",
        ),
        (None, "no spark-submit", "audit did not start: no spark-submit"),
        (status_file(None), "killed", "audit was interrupted: killed"),
        (None, None, "audit left no status file: set `airflow.status`"),
        (status_file(None), None, "audit has not ended although its submission has: set `airflow.status`"),
    ],
)
def test_the_reason_of_an_outcome(status: dict[str, Any] | None, failure: str | None, words: str) -> None:
    assert judge(AUDIT, status, failure, (FAILED,)).words.startswith(words)


@pytest.mark.parametrize(("tables", "events", "left_out"), [(0, 0, 0), (100, 100, 0), (2000, 100, 1900)])
def test_tables_with_an_event_are_bounded(tables: int, events: int, left_out: int) -> None:
    answers = {f"t{number:04}": {"answer": "ok"} for number in range(tables)}
    selected, others = table_events({"answers": answers})
    assert (len(selected), others) == (events, left_out)
    assert list(selected) == sorted(answers)[:100]
    assert table_events({}) == ({}, 0)


def audited(code: int = 0, **more: Any) -> dict[str, Any]:
    status = {0: "complete", 1: "complete", 3: "partial", 12: "suspect"}.get(code, "failed")
    return status_file(code, status=status, severities={}, unaccepted={}, **more)


def counts(findings: dict[str, int], accepted: dict[str, int] | None = None) -> dict[str, Any]:
    """Return the counts of a status file; some of the findings are accepted."""
    left = {name: number - (accepted or {}).get(name, 0) for name, number in findings.items()}
    return {"severities": findings, "unaccepted": {name: number for name, number in left.items() if number}}


BLIND = {
    "coverage": {
        "a": {"content": {"status": "partial", "decided_share": None}},
        "b": {"content": {"status": "complete", "decided_share": 1.0}},
    }
}
NEVER = ("never",)
GREEN, RED = "go on", "fail"


@pytest.mark.parametrize(
    ("status", "fail_on", "action", "note"),
    [
        # nothing to report
        (audited(), DEFAULT, GREEN, ""),
        (audited(), ("info", "coverage_lost", "failed"), GREEN, ""),
        # findings by severity
        (audited() | counts({"critical": 2, "info": 1}), DEFAULT, RED, BY_FINDINGS),
        (audited() | counts({"error": 2, "warning": 3}), DEFAULT, GREEN, "2 error, 3 warning findings"),
        (audited() | counts({"error": 1}), ("error",), RED, BY_FINDINGS),
        (audited() | counts({"critical": 1}), ("error",), RED, BY_FINDINGS),
        (audited() | counts({"critical": 1}), ("critical", "warning"), RED, BY_FINDINGS),
        (audited() | counts({"warning": 1}), ("critical", "warning"), RED, BY_FINDINGS),
        (audited() | counts({"warning": 1}), ("error",), GREEN, "1 warning finding"),
        (audited() | counts({"critical": 1}), ("failed", "coverage_lost"), GREEN, "1 critical finding"),
        (audited() | counts({"critical": 1}), NEVER, GREEN, "1 critical finding"),
        # accepted findings do not count
        (audited() | counts({"critical": 2}, {"critical": 2}), DEFAULT, GREEN, "2 accepted findings"),
        (audited() | counts({"critical": 2}, {"critical": 1}), DEFAULT, RED, BY_FINDINGS),
        (
            audited() | counts({"critical": 1, "error": 2}, {"critical": 1}),
            DEFAULT,
            GREEN,
            "2 error findings; 1 accepted finding",
        ),
        # an older lakeaudit on the cluster counts all findings together
        ({**audited(), "severities": {"critical": 1}, "unaccepted": None}, DEFAULT, RED, BY_FINDINGS),
        # coverage
        (audited(coverage_lost=2), DEFAULT, RED, BY_FINDINGS),
        (audited(coverage_lost=0), DEFAULT, GREEN, ""),
        (audited(coverage_lost=None), DEFAULT, GREEN, ""),
        (audited(coverage_lost=1), ("critical", "failed"), GREEN, "coverage lost in 1 table"),
        (audited(3), DEFAULT, GREEN, "the audit is partial: not everything could be judged"),
        (
            audited(3, error="b could not be read whole"),
            DEFAULT,
            GREEN,
            "the audit is partial: b could not be read whole",
        ),
        (audited(3) | BLIND, DEFAULT, GREEN, "1 of 2 tables could not be judged"),
        (
            audited(3) | BLIND | counts({"warning": 1}),
            DEFAULT,
            GREEN,
            "1 warning finding; 1 of 2 tables could not be judged",
        ),
        # an audit that failed
        (audited(11, error="gate"), DEFAULT, RED, THE_AUDIT_FAILED),
        (audited(12, error="inventory"), DEFAULT, RED, THE_AUDIT_FAILED),
        (
            audited(11, error="gate"),
            ("critical",),
            GREEN,
            "audit ended with exit code 11: gate",
        ),
        (audited(12) | counts({"critical": 1}), ("critical",), RED, THE_AUDIT_FAILED),
        (
            audited(70, error="TypeError"),
            NEVER,
            GREEN,
            "audit ended with exit code 70: TypeError",
        ),
    ],
)
def test_red_or_green_after_an_audit(
    status: dict[str, Any], fail_on: tuple[str, ...], action: str, note: str
) -> None:
    verdict = judge(AUDIT, status, None, fail_on)
    stated = (
        verdict.note.partition(":")[0] if action == RED else verdict.note
    )  # a red one states why, and what
    assert (verdict.action, stated) == (action, note)
    assert action != RED or verdict.words.startswith(verdict.note)


@pytest.mark.parametrize(
    ("step", "status", "last_try", "fail_on", "action"),
    [
        # a retry may help, whatever the list says
        (AUDIT, audited(13) | {"retry": True}, False, DEFAULT, "retry"),
        (AUDIT, audited(13) | {"retry": True}, False, NEVER, "retry"),
        (AUDIT, audited(13) | {"retry": True}, True, DEFAULT, "retry"),
        (AUDIT, audited(13) | {"retry": True}, True, NEVER, GREEN),
        # nobody knows how it ended
        (AUDIT, None, True, NEVER, RED),
        (AUDIT, status_file(None), True, NEVER, RED),
        # the list is about audits
        (DOCTOR, status_file(10), True, NEVER, RED),
        (ALERT, status_file(14), True, NEVER, RED),
    ],
)
def test_what_the_list_does_not_change(
    step: Step, status: dict[str, Any] | None, last_try: bool, fail_on: tuple[str, ...], action: str
) -> None:
    assert judge(step, status, None, fail_on, last_try=last_try).action == action


def test_a_red_audit_states_why_and_by_which_rule() -> None:
    status = audited(coverage_lost=2) | counts({"critical": 2, "error": 1}, {"error": 1})
    assert judge(AUDIT, status, None, DEFAULT) == Verdict(
        "fail",
        "the audit worked, and its findings or gaps make this task red: "
        "2 critical findings that nobody accepted; coverage lost in 2 tables; audit ended with exit code 0: complete, "
        "2 critical, 1 error; `airflow.fail_on`: the task `audit` fails if the audit has findings of severity critical "
        "that nobody accepted, can no longer judge a table that an earlier audit could judge or ends with another exit "
        "code than 0, 1 and 3",
        note="the audit worked, and its findings or gaps make this task red: 2 critical findings that nobody "
        "accepted; coverage lost in 2 tables; audit ended with exit code 0: complete, 2 critical, 1 error",
    )


@pytest.mark.parametrize(
    ("outcome", "published"),
    [(None, False), ({}, False), (audited(), True), (audited(3), True), (audited(12), True), (audited(11), False),
     ({"status": "running"}, False)],
)  # fmt: skip
def test_events_and_report_need_a_published_audit(outcome: dict[str, Any] | None, published: bool) -> None:
    assert is_published(outcome) is published

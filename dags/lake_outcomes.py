"""Defines the command of each task of a DAG, and judges its status file. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from lake_fail_on import FAILED, PUBLISHED, not_judged, notes, reasons, rule_of
from lake_files import LakeFile

Action = Literal["go on", "skip", "retry", "fail"]


@dataclass(frozen=True)
class Step:
    """A command of lakeaudit; after the exit codes `fine` the DAG continues.

    `job` is its application in jobs/, if that has another name. A command that is `small` needs no Spark.
    """

    name: str
    does: str
    fine: tuple[int, ...]
    job: str = ""
    small: bool = False


DOCTOR = Step("doctor", "checks everything that the audit needs", (0, 3), small=True)
AUDIT = Step("audit", "audits, publishes the results, and sends alerts", (0, 1, 3))
ALERT = Step("alert", "sends alerts that could not be sent before", (0,), small=True)
REPORT = Step("report", "writes report.html to the folder of the results", (0,), small=True)
PLAN = Step("plan", "plans repairs of open discrepancies, and changes nothing", (0,), "reconcile")
APPLY = Step("apply", "carries out the approved plan", (0, 3), "reconcile")


@dataclass(frozen=True)
class Verdict:
    """The next state of the task, and its reason in one line."""

    action: Action
    words: str
    note: str = ""
    """Findings and gaps after which the task is green, or why it is red."""


@dataclass(frozen=True)
class DagRun:
    """The DAG run of a task.

    Attributes:
        clears: how often a person has cleared the run or one of its tasks.
        backfilled_at: end of the data interval, if the run is part of a backfill.
    """

    dag_id: str
    run_id: str
    params: Mapping[str, Any]
    clears: int = 0
    backfilled_at: str | None = None

    @property
    def audit_id(self) -> str:
        """Return the run id of the audit: a retry has the same one, a cleared task a new one."""
        digest = sha256(f"{self.dag_id}\n{self.run_id}\n{self.clears}".encode()).hexdigest()[:8]
        readable = re.sub(r"[^A-Za-z0-9._-]", "-", f"{self.dag_id}.{self.run_id}")
        return f"{readable[:110]}-{digest}"

    @property
    def as_of(self) -> str | None:
        """Return the time at which the lake is judged; None: now."""
        return self.params.get("as_of") or self.backfilled_at


def arguments(step: Step, lake: LakeFile, run: DagRun, status: str) -> list[str]:
    """Return the arguments of `lakeaudit STEP`.

    An audit with findings exits like one without (`--fail-on never`): a cluster repeats a driver that exits with 1.
    The status file says what the findings mean for the task.
    """
    options: list[str] = []
    params = run.params
    if step is AUDIT:
        options = ["--run-id", run.audit_id, "--fail-on", "never"]
        options += ["--as-of", run.as_of] if run.as_of else []
        options += _repeated("--table", params.get("tables"))
        options += ["--live"] if params.get("live") else []
        options += _repeated("--partition", params.get("partitions"))
    if step is REPORT:
        options = ["--in-results"]
    if step is PLAN:
        options = ["--in-results", *_repeated("--table", params.get("tables"))]
        options += [*_repeated("--kind", params.get("kinds")), *_repeated("--allow", params.get("allow"))]
    return [str(lake.path), *options, "--status-file", status]


def apply_arguments(
    lake: LakeFile, plan: Mapping[str, Any], approved: Mapping[str, Any], status: str
) -> list[str]:
    """Return the arguments of `lakeaudit reconcile apply`, from the plan of the task before and its approval."""
    user = approved.get("responded_by_user") or {}
    by = user.get("name") or user.get("id")
    named = ["--approved-by", str(by)] if by else []
    plan_is = [str(plan["plan"]), "--digest", str(plan["digest"])]
    return [str(lake.path), *plan_is, *named, "--status-file", status]


MOST_TABLES = 100
"""Number of tables with an event of their own after an audit."""


def table_events(status: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the answers for tables with an asset, at most MOST_TABLES, and the number of the others."""
    answers: Mapping[str, Any] = status.get("answers") or {}
    names = sorted(answers)
    return {name: answers[name] for name in names[:MOST_TABLES]}, len(names[MOST_TABLES:])


def _repeated(option: str, values: Sequence[str] | None) -> list[str]:
    return [word for value in values or () for word in (option, value)]


def judge(
    step: Step,
    status: Mapping[str, Any] | None,
    failure: str | None,
    fail_on: Sequence[str],
    *,
    last_try: bool = False,
) -> Verdict:
    """Return what a status file means for the task.

    Args:
        step: the command that ran.
        status: the status file, None if there is none.
        failure: the error of the process, None if it succeeded.
        fail_on: the conditions on which an audit fails.
        last_try: whether no retry is left.
    """
    code = status.get("exit_code") if status else None
    if status is None or code is None:
        return _without_exit_code(step, status, failure)
    words = f"{step.name} ended with exit code {code}: {_summary(status)}"
    if step is AUDIT:
        return _judge_audit(status, words, fail_on, last_try=last_try)
    if step is PLAN and code in step.fine and not status.get("steps"):
        return Verdict("skip", words)
    if code in step.fine:
        return Verdict("go on", words)
    return Verdict("retry" if status.get("retry") else "fail", words)


def _judge_audit(status: Mapping[str, Any], words: str, fail_on: Sequence[str], *, last_try: bool) -> Verdict:
    failed = status["exit_code"] not in AUDIT.fine
    if failed and status.get("retry") and (FAILED in fail_on or not last_try):
        return Verdict("retry", f"{THE_AUDIT_FAILED}: {words}")
    serious = list(reasons(status, fail_on))
    if serious or (failed and FAILED in fail_on):
        why = THE_AUDIT_FAILED if failed else BY_FINDINGS
        line = "; ".join([*serious, words, f"`airflow.fail_on`: {rule_of(fail_on)}"])
        return Verdict("fail", f"{why}: {line}", f"{why}: {'; '.join([*serious, words])}")
    return Verdict("go on", words, "; ".join([*([words] if failed else []), *notes(status)]))


THE_AUDIT_FAILED = "the audit failed"
BY_FINDINGS = "the audit worked, and its findings or gaps make this task red"
"""The two reasons why the task `audit` is red."""


def is_published(outcome: Mapping[str, Any] | None) -> bool:
    """Return whether the audit with this outcome has published its results."""
    return outcome is not None and outcome.get("status") in PUBLISHED


def _without_exit_code(step: Step, status: Mapping[str, Any] | None, failure: str | None) -> Verdict:
    """Retry a job that was killed or did not start; fail one that succeeded, since its status file is elsewhere."""
    if failure is not None:
        outcome = "was interrupted" if status else "did not start"
        return Verdict("retry", f"{step.name} {outcome}: {failure}")
    what = "has not ended although its submission has" if status else "left no status file"
    return Verdict(
        "fail",
        f"{step.name} {what}: set `airflow.status` of the lake file to a folder that the driver and Airflow reach, "
        "and make spark-submit wait for the driver",
    )


def _summary(status: Mapping[str, Any]) -> str:
    """Return the command's own line; for an audit without one its findings by severity."""
    line = status.get("error") or status.get("verdict")
    if line:
        return str(line)
    severities = status.get("severities") or {}
    counts = ", ".join(f"{number} {severity}" for severity, number in severities.items()) or "no finding"
    gaps = f"{line}; " if (line := not_judged(status)) else ""
    return f"{gaps}{status.get('status', '')}, {counts}".lstrip(", ")

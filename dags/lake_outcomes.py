"""Defines the command of each task of a DAG, and judges its status file. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lake_files import LakeFile

Action = Literal["go on", "skip", "retry", "fail"]


@dataclass(frozen=True)
class Step:
    """A command of lakeaudit; after the exit codes `fine` the DAG continues.

    `job` is its application in jobs/, if that has another name.
    """

    name: str
    does: str
    fine: tuple[int, ...]
    job: str = ""


DOCTOR = Step("doctor", "checks everything that the audit needs", (0, 3))
AUDIT = Step("audit", "audits, publishes the results, and sends alerts", (0, 1, 3))
ALERT = Step("alert", "sends alerts that could not be sent before", (0,))
REPORT = Step("report", "writes report.html to the folder of the results", (0,))
PLAN = Step("plan", "plans repairs of open discrepancies, and changes nothing", (0,), "reconcile")
APPLY = Step("apply", "carries out the approved plan", (0, 3), "reconcile")


@dataclass(frozen=True)
class Verdict:
    """The next state of the task, and its reason in one line."""

    action: Action
    words: str


def arguments(step: Step, lake: LakeFile, params: Mapping[str, Any], status: str) -> list[str]:
    """Return the arguments of `lakeaudit STEP`; `params` are those of the DAG run.

    An audit with findings ends like one without (`--fail-on never`): findings do not fail the task.
    """
    options: list[str] = []
    if step is AUDIT:
        options = ["--fail-on", "never", *_repeated("--table", params.get("tables"))]
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


def judge(step: Step, status: Mapping[str, Any] | None, failure: str | None) -> Verdict:
    """Return what a status file means for the task.

    Args:
        step: the command that ran.
        status: the status file, None if there is none.
        failure: the error of spark-submit, None if it succeeded.
    """
    code = status.get("exit_code") if status else None
    if status is None or code is None:
        return _without_exit_code(step, status, failure)
    words = f"{step.name} ended with exit code {code}: {_summary(status)}"
    if step is PLAN and code in step.fine and not status.get("steps"):
        return Verdict("skip", words)
    if code in step.fine:
        return Verdict("go on", words)
    return Verdict("retry" if status.get("retry") else "fail", words)


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
    return f"{_not_judged(status)}{status.get('status', '')}, {counts}".lstrip(", ")


def _not_judged(status: Mapping[str, Any]) -> str:
    """Return how many tables of an audit could not be judged, for the text before its findings."""
    content = [axes.get("content") or {} for axes in (status.get("coverage") or {}).values()]
    blind = sum(each.get("status") == "partial" and not each.get("decided_share") for each in content)
    return f"{blind} of {len(content)} tables could not be judged; " if blind else ""

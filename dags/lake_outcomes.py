"""What a task of the DAG runs, and what its status file means for it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lake_files import LakeFile

Action = Literal["go on", "skip", "retry", "fail"]


@dataclass(frozen=True)
class Step:
    """One command of lakeaudit; `fine` are the exit codes after which the DAG goes on.

    `job` is its application in jobs/, where that has another name.
    """

    name: str
    does: str
    fine: tuple[int, ...]
    job: str = ""


DOCTOR = Step("doctor", "looks at everything the audit will need", (0, 3))
AUDIT = Step("audit", "audits, publishes, and tells whom it concerns", (0, 1, 3))
ALERT = Step("alert", "tells again what could not be told", (0,))
REPORT = Step("report", "writes report.html beside the results", (0,))
PLAN = Step("plan", "plans what mends open discrepancies, and changes nothing", (0,), "reconcile")
APPLY = Step("apply", "does what the approved plan says", (0, 3), "reconcile")


@dataclass(frozen=True)
class Verdict:
    """What becomes of the task, and the line that says why."""

    action: Action
    words: str


def arguments(step: Step, lake: LakeFile, params: Mapping[str, Any], status: str) -> list[str]:
    """The words behind `lakeaudit STEP`; `params` are those of the DAG run.

    An audit that finds something is told as one that does not (`--fail-on never`): a finding is no failure of the job.
    """
    asked: list[str] = []
    if step is AUDIT:
        asked = ["--fail-on", "never", *_repeated("--table", params.get("tables"))]
        asked += ["--live"] if params.get("live") else []
        asked += _repeated("--partition", params.get("partitions"))
    if step is REPORT:
        asked = ["--in-results"]
    if step is PLAN:
        asked = ["--in-results", *_repeated("--table", params.get("tables"))]
        asked += [*_repeated("--kind", params.get("kinds")), *_repeated("--allow", params.get("allow"))]
    return [str(lake.path), *asked, "--status-file", status]


def apply_arguments(
    lake: LakeFile, plan: Mapping[str, Any], approved: Mapping[str, Any], status: str
) -> list[str]:
    """The words behind `lakeaudit reconcile apply`: of the plan that the task before left, and of its approval."""
    user = approved.get("responded_by_user") or {}
    by = user.get("name") or user.get("id")
    named = ["--approved-by", str(by)] if by else []
    plan_is = [str(plan["plan"]), "--digest", str(plan["digest"])]
    return [str(lake.path), *plan_is, *named, "--status-file", status]


def _repeated(option: str, values: Sequence[str] | None) -> list[str]:
    return [word for value in values or () for word in (option, value)]


def judge(step: Step, said: Mapping[str, Any] | None, failure: str | None) -> Verdict:
    """What a status file means.

    Args:
        step: what ran.
        said: the status file, None where there is none.
        failure: what spark-submit ended with, None where it ended well.
    """
    code = said.get("exit_code") if said else None
    if said is None or code is None:
        return _unsaid(step, said, failure)
    words = f"{step.name} ended with exit code {code}: {_told(said)}"
    if step is PLAN and code in step.fine and not said.get("steps"):
        return Verdict("skip", words)
    if code in step.fine:
        return Verdict("go on", words)
    return Verdict("retry" if said.get("retry") else "fail", words)


def _unsaid(step: Step, said: Mapping[str, Any] | None, failure: str | None) -> Verdict:
    """Killed, or never begun: another try may do. A job that went well and said nothing wrote to another place."""
    if failure is not None:
        begun = "was cut off" if said else "did not begin"
        return Verdict("retry", f"{step.name} {begun}: {failure}")
    what = "has not ended although its submission has" if said else "left no status file"
    return Verdict(
        "fail",
        f"{step.name} {what}: let `airflow.status` of the lake file name a folder that the driver and Airflow reach, "
        "and let spark-submit wait for the driver",
    )


def _told(said: Mapping[str, Any]) -> str:
    """The line of the command; of an audit what it found."""
    line = said.get("error") or said.get("verdict")
    if line:
        return str(line)
    found = said.get("severities") or {}
    counts = ", ".join(f"{number} {severity}" for severity, number in found.items()) or "no finding"
    return f"{_not_judged(said)}{said.get('status', '')}, {counts}".lstrip(", ")


def _not_judged(said: Mapping[str, Any]) -> str:
    """How many tables of an audit could not be judged, which comes before its findings."""
    content = [axes.get("content") or {} for axes in (said.get("coverage") or {}).values()]
    blind = sum(each.get("status") == "partial" and not each.get("decided_share") for each in content)
    return f"{blind} of {len(content)} tables could not be judged; " if blind else ""

"""Decides by `airflow.fail_on` of the lake file when the task `audit` fails. Pure.

`lakeaudit doctor` prints the same rule from `jobs/lakeaudit/commands/audit_task.py`; a test compares both.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SEVERITIES = ("critical", "error", "warning", "info")
COVERAGE_LOST, FAILED, NEVER = "coverage_lost", "failed", "never"
CONDITIONS = (*SEVERITIES, COVERAGE_LOST, FAILED, NEVER)
DEFAULT = ("critical", COVERAGE_LOST, FAILED)

PUBLISHED: Sequence[str] = ("complete", "partial", "suspect")
"""States of an audit that has published its results."""


def rule_of(fail_on: Sequence[str]) -> str:
    """Return the rule in one sentence."""
    clauses = []
    if (severity := _least(fail_on)) is not None:
        higher = "" if severity == SEVERITIES[0] else " or higher"
        clauses.append(f"has findings of severity {severity}{higher} that nobody accepted")
    if COVERAGE_LOST in fail_on:
        clauses.append("can no longer judge a table that an earlier audit could judge")
    if FAILED in fail_on:
        clauses.append("ends with another exit code than 0, 1 and 3")
    if not clauses:
        return "the task `audit` is green whatever the audit reports"
    listed = " or ".join(filter(None, [", ".join(clauses[:-1]), clauses[-1]]))
    return f"the task `audit` fails if the audit {listed}"


def reasons(status: Mapping[str, Any], fail_on: Sequence[str]) -> Iterator[str]:
    """Yield why the task fails although the audit ended by itself: findings and lost coverage."""
    severity = _least(fail_on)
    serious = SEVERITIES[: SEVERITIES.index(severity) + 1] if severity else ()
    if line := _by_severity(unaccepted(status), serious):
        yield f"{line} that nobody accepted"
    if COVERAGE_LOST in fail_on and (line := _coverage_lost(status)):
        yield line


def notes(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield the findings and gaps of an audit."""
    open_findings = unaccepted(status)
    if line := _by_severity(open_findings, SEVERITIES):
        yield line
    if accepted := sum((status.get("severities") or {}).values()) - sum(open_findings.values()):
        yield f"{accepted} accepted {_noun(accepted)}"
    if line := _coverage_lost(status):
        yield line
    if line := not_judged(status):
        yield line
    elif status.get("status") == "partial":
        yield f"the audit is partial: {status.get('error') or 'not everything could be judged'}"


def unaccepted(status: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the findings that nobody accepted, by severity; from an older lakeaudit all findings."""
    counts = status.get("unaccepted")
    return (status.get("severities") if counts is None else counts) or {}


def not_judged(status: Mapping[str, Any]) -> str:
    """Return how many tables of an audit could not be judged; empty if all were."""
    content = [axes.get("content") or {} for axes in (status.get("coverage") or {}).values()]
    blind = sum(each.get("status") == "partial" and not each.get("decided_share") for each in content)
    return f"{blind} of {len(content)} tables could not be judged" if blind else ""


def _least(fail_on: Sequence[str]) -> str | None:
    """Return the lowest severity of a list of conditions."""
    return next((each for each in reversed(SEVERITIES) if each in fail_on), None)


def _by_severity(counts: Mapping[str, int], severities: Sequence[str]) -> str:
    numbers = {severity: counts[severity] for severity in severities if counts.get(severity)}
    line = ", ".join(f"{number} {severity}" for severity, number in numbers.items())
    return f"{line} {_noun(sum(numbers.values()))}" if line else ""


def _coverage_lost(status: Mapping[str, Any]) -> str:
    lost = status.get("coverage_lost") or 0
    return f"coverage lost in {lost} table{'' if lost == 1 else 's'}" if lost else ""


def _noun(number: int) -> str:
    return "finding" if number == 1 else "findings"

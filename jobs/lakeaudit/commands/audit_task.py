"""States when the task `audit` of the lake's DAG fails, for `doctor`.

`dags/lake_fail_on.py` decides by the same rule in Airflow, without lakeaudit; a test compares both.
"""

from collections.abc import Sequence

from lakeaudit.kinds import SEVERITIES


def rule_of(fail_on: Sequence[str]) -> str:
    """Return the rule of `airflow.fail_on` in one sentence."""
    clauses = []
    severity = next((each for each in reversed(SEVERITIES) if each in fail_on), None)
    if severity is not None:
        higher = "" if severity == SEVERITIES[0] else " or higher"
        clauses.append(f"has findings of severity {severity}{higher} that nobody accepted")
    if "coverage_lost" in fail_on:
        clauses.append("can no longer judge a table that an earlier audit could judge")
    if "failed" in fail_on:
        clauses.append("ends with another exit code than 0, 1 and 3")
    if not clauses:
        return "the task `audit` is green whatever the audit reports"
    listed = " or ".join(filter(None, [", ".join(clauses[:-1]), clauses[-1]]))
    return f"the task `audit` fails if the audit {listed}"

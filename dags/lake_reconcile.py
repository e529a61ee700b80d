"""Builds a DAG for each lake file with `airflow.reconcile`: plan, a person's approval, apply, audit again.

A lake changes only by a plan that somebody has approved. A plan without steps skips the other tasks.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from airflow.sdk import DAG, Param, get_parsing_context

sys.path.append(str(Path(__file__).parent))  # a bundle may hold this folder at any depth

from lake_broken import broken_dag
from lake_events import discrepancies
from lake_fail_on import FAILED
from lake_files import ON_DISCREPANCIES, PREFIX, BrokenFile, LakeFile, lake_files
from lake_outcomes import APPLY, AUDIT, PLAN
from lake_pages import address
from lake_platforms import lake_step
from lake_steps import APPROVAL, CHECKOUT

CONF = Path(os.environ.get("LAKEAUDIT_CONF") or CHECKOUT / "conf").resolve()
RECONCILES = "lake_reconcile_"

SUBJECT = "Repair the lake {lake}: {{{{ ti.xcom_pull(task_ids='plan')['verdict'] }}}}"
BODY = """\
{% set plan = ti.xcom_pull(task_ids='plan') %}
| step | number |
|---|---|
{% for action, number in plan['actions'].items() %}| `{{ action }}` | {{ number }} |
{% endfor %}
The plan is `{{ plan['plan'] }}`; the log of the task `plan` lists its first steps. It expires 24 hours after it was
made. `lakeaudit reconcile undo {{ plan['plan'] }}` reverses its steps
{%- if '://' not in plan['plan'] %}, on the worker of the task `plan`{% endif %}.
"""
PAGE = "\n[The plan in the dashboard]({address}plan={{{{ plan['plan_id'] | urlencode | replace('/', '%2F') }}}})\n"
DOC = """\
Plans repairs of the open discrepancies of `{file}`, waits for a person's approval, applies the plan, and audits again:
only an audit resolves discrepancies. docs/reconcile.md describes the steps of a plan.
"""


def reconcile_dag(lake: LakeFile) -> DAG:
    """Return the reconcile DAG of a lake."""
    from airflow.providers.standard.operators.hitl import ApprovalOperator  # fails in Airflow 3.0

    with DAG(
        _dag_id(lake),
        description=f"Repairs findings of audits in the lake {lake.lake}, after a person's approval",
        doc_md=DOC.format(file=lake.path.name),
        schedule=[discrepancies(lake)] if lake.reconcile == ON_DISCREPANCIES else None,
        catchup=False,
        auto_register=False,
        max_active_runs=1,
        max_active_tasks=1,
        tags=["lakeaudit", "reconcile", *lake.tags],
        params=_params(lake),
        default_args={"owner": lake.owner, "retries": lake.retries, "retry_delay": lake.retry_delay},
    ) as dag:
        plan = lake_step(lake=lake, step=PLAN)
        approve = ApprovalOperator(
            task_id=APPROVAL, subject=SUBJECT.format(lake=lake.lake), body=_body(lake), retries=0
        )
        # findings that the plan leaves are the matter of the audit DAG
        audit = lake_step(lake=replace(lake, fail_on=(FAILED,)), step=AUDIT)
        plan >> approve >> lake_step(lake=lake, step=APPLY) >> audit
    return dag


def _body(lake: LakeFile) -> str:
    page = address(lake, "plans", plan="").removesuffix("plan=")
    return f"{BODY}{PAGE.format(address=page)}" if page else BODY


def _dag_id(lake: LakeFile) -> str:
    return f"{RECONCILES}{lake.dag_id.removeprefix(PREFIX)}"


def _params(lake: LakeFile) -> dict[str, Param]:
    texts = {"type": "string", "minLength": 1}
    return {
        "tables": Param(
            [], type="array", items=texts, examples=list(lake.tables), title="Tables",
            description="Tables to repair and to audit again; default: all.",
        ),
        "kinds": Param([], type="array", items=texts, title="Kinds", description="Kinds to repair; default: all."),
        "allow": Param(
            [], type="array", items=texts, examples=["restore"], title="Allow",
            description="Actions for `lakeaudit reconcile plan --allow`.",
        ),
        "live": Param(
            True, type="boolean", title="Live",
            description="List the tables for the second audit: an inventory may not contain the repairs yet.",
        ),
    }  # fmt: skip


def dags(folder: Path, dag_id: str | None) -> Iterator[DAG]:
    """Yield the DAGs of a folder; for a running task only its own. The audit DAG of a broken file reports it."""
    for file in lake_files(folder):
        if isinstance(file, LakeFile) and file.reconcile is not None and dag_id in (None, _dag_id(file)):
            yield _dag_of(file)


def _dag_of(lake: LakeFile) -> DAG:
    try:
        dag = reconcile_dag(lake)
        dag.validate()
    except Exception as error:  # noqa: BLE001 - such as a tag that is too long
        return broken_dag(BrokenFile(lake.path, _dag_id(lake), f"Airflow cannot use it: {error}"))
    return dag


for _dag in dags(CONF, get_parsing_context().dag_id):
    globals()[_dag.dag_id] = _dag

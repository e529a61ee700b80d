"""One DAG for each lake file that asks for it (`airflow.reconcile`): plan, a person's approval, apply, audit again.

Nothing of a lake changes before somebody has approved the very plan that is applied. A plan without a step skips the
rest.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, get_parsing_context

sys.path.append(str(Path(__file__).parent))  # a bundle may hold this folder at any depth

from lake_files import ON_DISCREPANCIES, PREFIX, LakeFile, lake_files
from lake_outcomes import APPLY, AUDIT, PLAN
from lake_steps import APPROVAL, CHECKOUT, LakeStep, discrepancies

CONF = Path(os.environ.get("LAKEAUDIT_CONF") or CHECKOUT / "conf").resolve()
RECONCILES = "lake_reconcile_"

SUBJECT = "Mend the lake {lake}: {{{{ ti.xcom_pull(task_ids='plan')['verdict'] }}}}"
BODY = """\
{% set plan = ti.xcom_pull(task_ids='plan') %}
| step | how many |
|---|---|
{% for action, number in plan['actions'].items() %}| `{{ action }}` | {{ number }} |
{% endfor %}
The plan is `{{ plan['plan'] }}`, the log of the task `plan` names its first steps. It is good for 24 hours from when it
was made. What it did is taken back by `lakeaudit reconcile undo {{ plan['plan'] }}`.
"""
DOC = """\
Plans what mends the open discrepancies of `{file}`, asks a person, does what was approved, and audits again: the audit
alone says what is resolved. docs/reconcile.md says what a plan may hold.
"""


def reconcile_dag(lake: LakeFile) -> DAG:
    """The DAG of a lake."""
    with DAG(
        f"{RECONCILES}{lake.dag_id.removeprefix(PREFIX)}",
        description=f"Mends what audits found in the lake {lake.lake}, once a person has approved it",
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
        plan = LakeStep(lake=lake, step=PLAN)
        approve = ApprovalOperator(
            task_id=APPROVAL, subject=SUBJECT.format(lake=lake.lake), body=BODY, retries=0
        )
        plan >> approve >> LakeStep(lake=lake, step=APPLY) >> LakeStep(lake=lake, step=AUDIT)
    return dag


def _params(lake: LakeFile) -> dict[str, Param]:
    texts = {"type": "string", "minLength": 1}
    return {
        "tables": Param(
            [], type="array", items=texts, examples=list(lake.tables), title="Tables",
            description="Whose discrepancies are planned, and which are audited again. Empty: all of them.",
        ),
        "kinds": Param([], type="array", items=texts, title="Kinds", description="Empty: all of them."),
        "allow": Param(
            [], type="array", items=texts, examples=["restore"], title="Allow",
            description="What `lakeaudit reconcile plan --allow` names.",
        ),
        "live": Param(
            True, type="boolean", title="Live",
            description="List the tables for the audit after: an inventory may not know yet what was mended.",
        ),
    }  # fmt: skip


def dags(folder: Path, wanted: str | None) -> Iterator[DAG]:
    """The DAGs of a folder; for a task at work only its own. Of a broken file its audit DAG tells."""
    for file in lake_files(folder):
        if isinstance(file, LakeFile) and file.reconcile is not None:
            dag = reconcile_dag(file)
            if wanted in (None, dag.dag_id):
                yield dag


for _dag in dags(CONF, get_parsing_context().dag_id):
    globals()[_dag.dag_id] = _dag

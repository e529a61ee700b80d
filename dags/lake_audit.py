"""Builds a DAG for each lake file in conf/ (or in the folder LAKEAUDIT_CONF): doctor, audit, alert and report.

A broken file has a DAG that fails with the reason, and the DAGs of the other files are not affected.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_parsing_context, task
from airflow.sdk.exceptions import AirflowFailException

sys.path.append(str(Path(__file__).parent))  # a bundle may hold this folder at any depth

from lake_files import PREFIX, BrokenFile, LakeFile, lake_files, removed_lake_file
from lake_outcomes import ALERT, AUDIT, DOCTOR, REPORT
from lake_steps import CHECKOUT, LakeStep, outlets

CONF = Path(os.environ.get("LAKEAUDIT_CONF") or CHECKOUT / "conf").resolve()
WHEN_BROKEN = "@daily"
"""Schedule on which the DAG of a broken lake file fails, so that somebody notices it."""


def audit_dag(lake: LakeFile) -> DAG:
    """Return the DAG of a lake: on schedule it audits all tables, by hand those of the parameters."""
    with DAG(
        lake.dag_id,
        description=f"Consistency audit of the lake {lake.lake}",
        doc_md=DOC.format(file=lake.path.name),
        schedule=lake.schedule,
        catchup=False,
        auto_register=False,  # only valid DAGs become globals below
        max_active_runs=1,
        max_active_tasks=1,
        tags=["lakeaudit", *lake.tags],
        params=_params(lake),
        default_args={"owner": lake.owner, "retries": lake.retries, "retry_delay": lake.retry_delay},
    ) as dag:
        doctor = LakeStep(lake=lake, step=DOCTOR)
        audit = LakeStep(lake=lake, step=AUDIT, outlets=outlets(lake))
        # alerts matter most when the audit failed; the report needs a new audit
        alert = LakeStep(lake=lake, step=ALERT, trigger_rule="all_done", priority_weight=10)
        report = LakeStep(lake=lake, step=REPORT)
        doctor >> audit >> [alert, report]
    return dag


def broken_dag(file: BrokenFile, steps: tuple[str, ...] = ("lake_file",)) -> DAG:
    """Return a DAG that fails with the reason."""
    reason = f"{file.path.name}: {file.reason}"
    with DAG(
        file.dag_id,
        description=reason,
        doc_md=f"No audit is scheduled for `{file.path.name}`.",
        schedule=WHEN_BROKEN,
        catchup=False,
        auto_register=False,
        max_active_runs=1,
        tags=["lakeaudit", "broken"],
        default_args={"owner": "lakeaudit", "retries": 0},
    ) as dag:
        for step in steps:
            _failing(reason).override(task_id=step)()
    return dag


def _failing(reason: str) -> Any:
    @task
    def lake_file() -> None:
        raise AirflowFailException(reason)

    return lake_file


def _params(lake: LakeFile) -> dict[str, Param]:
    texts = {"type": "string", "minLength": 1}
    return {
        "tables": Param(
            [],
            type="array",
            items=texts,
            examples=list(lake.tables),
            title="Tables",
            description="Tables to audit; default: all.",
        ),
        "live": Param(
            False,
            type="boolean",
            title="Live",
            description="List the tables now instead of reading inventories.",
        ),
        "partitions": Param(
            [],
            type="array",
            items=texts,
            title="Partitions",
            description="Partitions of a live audit, as col=value/col=value; default: all.",
        ),
    }


DOC = """\
Audits the lake of `{file}`. Findings never fail a task: they are in the report, the dashboard and the alerts. A task
fails when something could not be audited or reported, and is retried only if a retry may succeed.

Trigger it with parameters to audit some tables, live or from the inventories.
"""


def _dag_of(file: LakeFile | BrokenFile) -> DAG:
    if isinstance(file, BrokenFile):
        return broken_dag(file)
    try:
        dag = audit_dag(file)
        dag.validate()
    except Exception as error:  # noqa: BLE001 - such as a schedule that Airflow cannot read
        return broken_dag(
            BrokenFile(file.path, file.dag_id, f"Airflow cannot use it (schedule {file.schedule}): {error}")
        )
    return dag


def dags(folder: Path, dag_id: str | None) -> Iterator[DAG]:
    """Yield the DAGs of a folder; for a running task only its own DAG, even after its file was removed."""
    files = [file for file in lake_files(folder) if dag_id in (None, file.dag_id)]
    for file in files:
        yield _dag_of(file)
    if dag_id is not None and dag_id.startswith(PREFIX) and not files:
        yield broken_dag(
            removed_lake_file(folder, dag_id),
            ("lake_file", *(s.name for s in (DOCTOR, AUDIT, ALERT, REPORT))),
        )


for _dag in dags(CONF, get_parsing_context().dag_id):
    globals()[_dag.dag_id] = _dag

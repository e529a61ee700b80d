"""Builds the DAG of a lake file that cannot be used: it fails with the reason."""

from typing import Any

from airflow.sdk import DAG, task

from lake_airflow import AirflowFailException
from lake_files import BrokenFile

WHEN_BROKEN = "@hourly"
"""Schedule on which the DAG of a broken lake file fails, so that somebody notices it."""


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

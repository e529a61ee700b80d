"""Builds a DAG for each lake file in conf/ (or in the folder LAKEAUDIT_CONF): doctor, audit, alert, events and report.

A broken file has a DAG that fails with the reason, and the DAGs of the other files are not affected.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, get_parsing_context

sys.path.append(str(Path(__file__).parent))  # a bundle may hold this folder at any depth

from lake_airflow import in_utc
from lake_broken import broken_dag
from lake_events import EVENTS, LakeEvents
from lake_fail_on import rule_of
from lake_files import PREFIX, BrokenFile, LakeFile, lake_files, removed_lake_file
from lake_outcomes import ALERT, AUDIT, DOCTOR, REPORT
from lake_platforms import lake_step
from lake_steps import CHECKOUT

CONF = Path(os.environ.get("LAKEAUDIT_CONF") or CHECKOUT / "conf").resolve()
OUTCOME = "outcome"
"""The last task, which does nothing: it fails with any task before it, and so does the DAG run."""
TASKS = (DOCTOR.name, AUDIT.name, ALERT.name, EVENTS, REPORT.name, OUTCOME)


def audit_dag(lake: LakeFile) -> DAG:
    """Return the DAG of a lake: on schedule it audits all tables, by hand those of the parameters."""
    with DAG(
        lake.dag_id,
        description=f"Consistency audit of the lake {lake.lake}",
        doc_md=_doc(lake),
        schedule=in_utc(lake.schedule),
        catchup=False,
        auto_register=False,  # only valid DAGs become globals below
        max_active_runs=1,
        max_active_tasks=1,
        tags=["lakeaudit", *lake.tags],
        params=_params(lake),
        default_args={"owner": lake.owner, "retries": lake.retries, "retry_delay": lake.retry_delay},
    ) as dag:
        doctor = lake_step(lake=lake, step=DOCTOR)
        audit = lake_step(lake=lake, step=AUDIT)
        # they run after a failed audit, too; events and report are skipped if nothing was published
        alert = lake_step(lake=lake, step=ALERT, trigger_rule="all_done", priority_weight=10)
        events = LakeEvents(lake=lake, trigger_rule="all_done")
        report = lake_step(lake=lake, step=REPORT, trigger_rule="all_done")
        outcome = EmptyOperator(task_id=OUTCOME, trigger_rule="none_failed")
        doctor >> audit >> [alert, events, report, outcome]
        [alert, events, report] >> outcome
    return dag


def _params(lake: LakeFile) -> dict[str, Param]:
    texts = {"type": "string", "minLength": 1}
    return {
        "tables": Param(
            [],
            type="array",
            items=texts,
            examples=list(lake.tables),
            title="Tables",
            description="Names of the tables to audit; empty: all.",
        ),
        "live": Param(
            False,
            type="boolean",
            title="Live",
            description="List the files of the tables now instead of reading an inventory.",
        ),
        "partitions": Param(
            [],
            type="array",
            items=texts,
            title="Partitions",
            description="With Live: list only these partitions, as col=value/col=value; empty: all.",
        ),
        "as_of": Param(
            None,
            type=["null", "string"],
            format="date-time",
            pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)?$",  # Airflow does not check the format
            title="As of",
            description="Judge the lake as it was at this time; empty: now. Not with Live.",
        ),
    }


DOC = """\
Audits the lake of `{file}`. Red or green: {rule}. Accepted findings do not count. `doctor`, `events`, `alert` and
`report` fail if they could not do their work. A task is retried only if a retry may succeed.

The XCom `note` of a green task `audit` names the findings and gaps that do not make it red. Trigger the DAG with
parameters to audit some tables, live or from the inventories.
"""


def _doc(lake: LakeFile) -> str:
    text = DOC.format(file=lake.path.name, rule=rule_of(lake.fail_on))
    return f"{text}\n{lake.pool_note}\n" if lake.pool_note else text


def _dag_of(file: LakeFile | BrokenFile, steps: tuple[str, ...]) -> DAG:
    """Return the DAG of a file; one that fails in each of the steps if the file cannot be used."""
    if isinstance(file, BrokenFile):
        return broken_dag(file, steps)
    try:
        dag = audit_dag(file)
        dag.validate()
    except Exception as error:  # noqa: BLE001 - such as a schedule that Airflow cannot read
        reason = f"Airflow cannot use it (schedule {file.schedule}): {error}"
        return broken_dag(BrokenFile(file.path, file.dag_id, reason), steps)
    return dag


def dags(folder: Path, dag_id: str | None) -> Iterator[DAG]:
    """Yield the DAGs of a folder; for a running task only its own DAG, even after its file broke or was removed."""
    files = [file for file in lake_files(folder) if dag_id in (None, file.dag_id)]
    steps = ("lake_file",) if dag_id is None else ("lake_file", *TASKS)
    for file in files:
        yield _dag_of(file, steps)
    if dag_id is not None and dag_id.startswith(PREFIX) and not files:
        yield broken_dag(removed_lake_file(folder, dag_id), steps)


for _dag in dags(CONF, get_parsing_context().dag_id):
    globals()[_dag.dag_id] = _dag

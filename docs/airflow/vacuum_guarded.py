"""VACUUM of `sales.orders`: a dry run, a check that no table needs one of its files, and only then the VACUUM."""

import sys
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

sys.path.append(str(Path(__file__).parent))  # lake_guard.py is in this folder

from lake_guard import GuardDeletes

LAKE_FILE = "/opt/lakeaudit/conf/shop.yaml"
PYTHON = "/opt/lakeaudit/bin/python"  # with the packages deltalake and lakeaudit
TABLE = "s3://lake/warehouse/orders"
LISTS = "/var/lib/airflow/vacuum"  # a folder that all workers share


@task.external_python(python=PYTHON, expect_airflow=False)
def dry_run(table: str, delete_list: str) -> None:
    """Write the files that VACUUM would delete."""
    import json
    from pathlib import Path

    from deltalake import DeltaTable

    files = DeltaTable(table).vacuum(dry_run=True, full=True)
    Path(delete_list).write_text(json.dumps(files))


@task.external_python(python=PYTHON, expect_airflow=False)
def vacuum(table: str) -> None:
    """Delete the files."""
    from deltalake import DeltaTable

    DeltaTable(table).vacuum(dry_run=False, full=True)


with DAG(
    "vacuum_guarded",
    schedule="@weekly",
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=5)},
) as dag:
    delete_list = f"{LISTS}/orders.json"
    checked = GuardDeletes(
        task_id="guard",
        lake=LAKE_FILE,
        delete_list=delete_list,
        safe_list=f"{LISTS}/orders-safe.csv",
        tables=["sales.orders"],
        program=f"{PYTHON} -m lakeaudit",
    )
    dry_run(TABLE, delete_list) >> checked >> vacuum(TABLE)

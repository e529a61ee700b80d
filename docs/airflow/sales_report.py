"""A pipeline that reads `sales.orders`: it runs after each audit of this table, and only if the table may be used."""

import sys
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

sys.path.append(str(Path(__file__).parent))  # lake_gate.py and lake_check.py are in this folder

from lake_gate import TableOk, table_asset

CHECK_FILE = "s3://audit-results/shop/check/shop.json"

with DAG(
    "sales_report",
    schedule=[table_asset("shop", "sales.orders")],
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
) as dag:

    @task
    def report() -> None:
        """Read sales.orders here."""

    may_be_used = TableOk(
        task_id="orders_may_be_used",
        lake=CHECK_FILE,
        table="sales.orders",
        judged=0.99,
        poke_interval=timedelta(minutes=5),
        timeout=timedelta(hours=6),
    )
    may_be_used >> report()

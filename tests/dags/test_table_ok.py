"""The gate of another pipeline in a real Airflow: it waits for an audit, continues, and stops at a lost file.

The DAG is docs/airflow/sales_report.py beside copies of the two modules that its authors copy.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from standalone import AIRFLOW, CHECKOUT, Service, airflow_env, airflow_served
from tests.dags.test_airflow import request, until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

AUDIT, PIPELINE, SENSOR = "lake_audit_shop", "sales_report", "orders_may_be_used"
ASSET = "lakeaudit://shop/sales.orders"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two tables, its lake file, and a DAG folder with the audit and the pipeline."""
    home = tmp_path_factory.mktemp("gate")
    for table in ("orders", "returns"):
        for part in range(2):
            write_deltalake(home / "lake" / table, pa.table({"id": [part]}), mode="append")
    tables = "".join(
        f"  - {{name: sales.{table}, location: {home}/lake/{table}, manifests: [{{kind: delta}}]}}\n"
        for table in ("orders", "returns")
    )
    (home / "conf").mkdir()
    (home / "conf" / "shop.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {home}/results\ndefaults: {{grace: 0s}}\n"
        f"inventories: [{{kind: listing, location: {home}/lake/}}]\ntables:\n{tables}"
        "airflow: {assets: [sales.orders]}\n"
    )
    _dag_folder(home)
    return home


def _dag_folder(home: Path) -> None:
    folder = home / "dags"
    (folder / "audit").mkdir(parents=True)
    (folder / "pipeline").mkdir()
    for module in CHECKOUT.joinpath("dags").glob("lake_*.py"):
        (folder / "audit" / module.name).symlink_to(module)
    for name in ("lake_gate.py", "lake_check.py"):
        shutil.copy(CHECKOUT / "dags" / name, folder / "pipeline")
    text = (CHECKOUT / "docs" / "airflow" / "sales_report.py").read_text()
    text = text.replace("s3://audit-results/shop", f"{home}/results").replace("minutes=5", "seconds=20")
    (folder / "pipeline" / "sales_report.py").write_text(text)


@pytest.fixture(scope="module")
def service(home: Path) -> Iterator[Service]:
    env = airflow_env(home / "conf", home / "airflow")
    own = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # for a busy machine
    }
    with airflow_served(env | own) as service:
        until(lambda: {AUDIT, PIPELINE} <= {dag["dag_id"] for dag in request(service, "dags")["dags"]}, 180)
        yield service


def start(service: Service, dag: str) -> str:
    run_id: str = request(service, f"dags/{dag}/dagRuns", "POST", logical_date=None)["dag_run_id"]
    return run_id


def runs(service: Service, dag: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = request(service, f"dags/{dag}/dagRuns")["dag_runs"]
    return found


def final_state(service: Service, dag: str, run_id: str) -> str:
    def state() -> Any:
        states = {run["dag_run_id"]: run["state"] for run in runs(service, dag)}
        return states[run_id] in ("success", "failed") and states[run_id]

    return str(until(state))


def task_states(service: Service, run_id: str) -> dict[str, str]:
    rows = request(service, f"dags/{PIPELINE}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
    return {row["task_id"]: row["state"] for row in rows}


def sensor_log(home: Path, run_id: str) -> str:
    """The logs of all tries: on a busy machine Airflow itself may end the first one."""
    folder = home / "airflow" / "logs" / f"dag_id={PIPELINE}" / f"run_id={run_id}" / f"task_id={SENSOR}"
    return "".join(path.read_text() for path in sorted(folder.glob("attempt=*.log")))


def events(service: Service) -> list[Mapping[str, Any]]:
    found = request(service, "assets/events")["asset_events"]
    return [each for each in found if each["uri"] == ASSET]


def run_of_asset(service: Service, known: int) -> str:
    """The id of the next run that the asset has started."""

    def started() -> Any:
        ids = [run["dag_run_id"] for run in runs(service, PIPELINE) if run["run_type"] == "asset_triggered"]
        return len(ids) > known and max(ids)

    return str(until(started))


LOOK = """
import json, sys
from lake_gate import TableOk, table_asset
place, cases = sys.argv[1], json.loads(sys.argv[2])
for options in cases:
    try:
        print(TableOk(task_id="gate", lake=place, **options).execute({})["answer"])
    except BaseException as error:
        print(type(error).__name__)
print(table_asset("shop", "a/b \u00e9%?#\\n").uri)
"""
NOW = datetime.now(UTC).isoformat()
JUDGED = {"also": [], "run_id": "r1", "as_of": NOW, "through": NOW, "judged_share": 1.0, "remark": "", "doubts": [],
          "accepted_until": None, "open": {}, "pending": {}}  # fmt: skip
CONTENT = {"format": 1, "lake": "shop", "overdue_seconds": 9999,
           "tables": {"good": JUDGED, "bad": JUDGED | {"open": {"error": 1}}}}  # fmt: skip
CASES: list[tuple[dict[str, Any], str]] = [
    ({"table": "good"}, "ok"),
    ({"table": "good", "after": "2020-01-01T00:00:00Z"}, "ok"),
    ({"table": "good", "after": "2999-01-01T00:00:00Z"}, "TaskDeferred"),
    ({"table": "good", "after": "soon"}, "TaskDeferred"),
    ({"table": "bad"}, "AirflowFailException"),
    ({"table": "bad", "min_severity": "critical"}, "ok"),
    ({"table": "bad", "on_discrepancies": "wait"}, "TaskDeferred"),
    ({"table": "bad", "on_discrepancies": "wait", "timeout": 0}, "AirflowSensorTimeout"),
    ({"table": "bad", "soft_fail": True}, "AirflowSkipException"),
    ({"table": "other"}, "TaskDeferred"),
    ({"table": "other", "on_unknown": "fail"}, "AirflowException"),
    ({"table": "other", "timeout": 0}, "AirflowSensorTimeout"),
    ({"table": "good", "judged": 99}, "ValueError"),
    ({"table": "good", "on_unknown": "ok"}, "ValueError"),
    ({"table": "good", "min_severity": "bad"}, "ValueError"),
]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_look_ends_as_its_parameters_require(tmp_path: Path, scheme: str) -> None:
    """Airflow's own file systems read the file where the location has another scheme than s3."""
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(CONTENT))
    python, env = AIRFLOW.with_name("python"), airflow_env(tmp_path, tmp_path / "airflow")
    words = [str(python), "-c", LOOK, f"{scheme}{file}", json.dumps([options for options, _ in CASES])]
    done = subprocess.run(
        words, env=env | {"PYTHONPATH": str(CHECKOUT / "dags")}, capture_output=True, text=True, check=True
    )
    *ends, asset = [line for line in done.stdout.splitlines() if " " not in line][-len(CASES) - 1 :]
    assert dict(enumerate(ends)) == dict(enumerate(end for _, end in CASES)), done.stderr[-2000:]
    assert asset == "lakeaudit://shop/a%2Fb%20%C3%A9%25%3F%23%0A"


def opened(event: Mapping[str, Any]) -> Any:
    """The open discrepancies of an event; Airflow 3.0 gets them as a JSON text."""
    value = event["extra"]["open"]
    return json.loads(value) if isinstance(value, str) else value


def test_the_gate_waits_opens_and_closes(service: Service, home: Path) -> None:
    by_hand = start(service, PIPELINE)
    until(lambda: task_states(service, by_hand).get(SENSOR) == "deferred")

    assert final_state(service, AUDIT, start(service, AUDIT)) == "success"
    assert final_state(service, PIPELINE, by_hand) == "success"
    assert "FileNotFoundError" in sensor_log(home, by_hand), "before the first audit nobody can tell"
    (event,) = events(service)
    assert (event["extra"]["answer"], opened(event)) == ("ok", {})
    first = run_of_asset(service, 0)
    assert final_state(service, PIPELINE, first) == "success"

    next((home / "lake" / "orders").glob("*.parquet")).unlink()
    assert final_state(service, AUDIT, start(service, AUDIT)) == "failed", "it is red, and updates the asset"
    last = max(events(service), key=lambda event: str(event["timestamp"]))
    assert (last["extra"]["answer"], opened(last)) == ("discrepancies", {"critical": 1})
    second = run_of_asset(service, 1)
    assert final_state(service, PIPELINE, second) == "failed"
    assert task_states(service, second) == {SENSOR: "failed", "report": "upstream_failed"}
    assert "sales.orders: 1 critical discrepancy is open" in sensor_log(home, second)

"""A guarded VACUUM in a real Airflow: docs/airflow/vacuum_guarded.py beside a copy of the operator's module."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from standalone import AIRFLOW, CHECKOUT, airflow_env
from tests.builders.delta_lake import add, remove

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

PYTHON = CHECKOUT / ".venv" / "bin" / "python"
MONTH = datetime.now(UTC) - timedelta(days=30)
OLD, ORPHAN = "replaced.parquet", "orphan.parquet"


def commit(table: Path, *actions: object) -> None:
    version = len(list((table / "_delta_log").glob("*.json")))
    lines = "".join(f"{json.dumps(action)}\n" for action in actions)
    (table / "_delta_log" / f"{version:020}.json").write_text(lines)


def age(table: Path) -> None:
    for path in table.rglob("*"):
        os.utime(path, (MONTH.timestamp(), MONTH.timestamp()))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of an Airflow with its database; its DAG folder is empty."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "conf").mkdir()
    (home / "dags").mkdir()
    env = airflow_env(home / "conf", home) | {"AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags")}
    env |= {"PYTHONPATH": str(CHECKOUT / "jobs"), "HOME_OF_TEST": str(home)}
    subprocess.run([AIRFLOW, "db", "migrate"], env=env, check=True, capture_output=True)
    return env


@pytest.fixture
def orders(tmp_path: Path, airflow: Mapping[str, str]) -> Path:
    """A table of one live file, one that was replaced a month ago, and one of a job that failed."""
    orders = tmp_path / "orders"
    write_deltalake(orders, pa.table({"id": [1]}))
    (live,) = orders.glob("*.parquet")
    shutil.copy(live, orders / OLD)
    shutil.copy(live, orders / ORPHAN)
    commit(orders, add(OLD, size=live.stat().st_size))
    commit(orders, remove(OLD, removed=MONTH))
    age(orders)
    (tmp_path / "shop.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path}/results\ndefaults: {{leftover_age: 1d, grace: 1h}}\n"
        f"inventories: [{{kind: listing, location: {tmp_path}}}]\ntables:\n"
        + "".join(
            f"  - {{name: sales.{name}, location: {tmp_path}/{name}, manifests: [{{kind: delta}}]}}\n"
            for name in ("orders", "clone")
        )
    )
    write_deltalake(tmp_path / "clone", pa.table({"id": [2]}))
    age(tmp_path / "clone")
    dags = Path(airflow["HOME_OF_TEST"]) / "dags"
    shutil.copy(CHECKOUT / "dags" / "lake_guard.py", dags)
    text = (CHECKOUT / "docs" / "airflow" / "vacuum_guarded.py").read_text()
    for place, own in {
        "/opt/lakeaudit/conf/shop.yaml": tmp_path / "shop.yaml",
        "/opt/lakeaudit/bin/python": PYTHON,
        "s3://lake/warehouse/orders": orders,
        "/var/lib/airflow/vacuum": tmp_path,
    }.items():
        assert place in text
        text = text.replace(place, str(own))
    (dags / "vacuum_guarded.py").write_text(text)
    return orders


def run(airflow: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and output of the DAG."""
    words = [str(AIRFLOW), "dags", "test", "vacuum_guarded"]
    done = subprocess.run(words, env=dict(airflow), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def files(table: Path) -> set[str]:
    return {path.name for path in table.glob("*.parquet")} & {OLD, ORPHAN}


def test_files_that_no_table_needs_are_deleted(airflow: Mapping[str, str], orders: Path) -> None:
    code, printed = run(airflow)
    assert code == 0, printed[-3000:]
    assert files(orders) == set()
    safe = (orders.parent / "orders-safe.csv").read_text()
    assert {OLD, ORPHAN} == {line.split(",")[1].rpartition("/")[2] for line in safe.splitlines()[1:]}


def test_nothing_to_delete(airflow: Mapping[str, str], orders: Path) -> None:
    """The VACUUM is skipped if its dry run names no file."""
    for name in (OLD, ORPHAN, *(f"_delta_log/{version:020}.json" for version in (1, 2))):
        (orders / name).unlink()
    code, printed = run(airflow)
    assert code == 0, printed[-3000:]
    assert "the list names no file" in printed
    assert len(list((orders / "_delta_log").iterdir())) == 1, "VACUUM enters its start and its end"


def test_a_file_that_a_clone_needs_stops_the_vacuum(airflow: Mapping[str, str], orders: Path) -> None:
    """VACUUM of a table knows nothing of its shallow clones."""
    commit(orders.parent / "clone", add((orders / OLD).as_uri(), size=(orders / OLD).stat().st_size))
    code, printed = run(airflow)
    assert code == 1
    assert "delete nothing: of the files 1 referenced, 1 free" in printed
    assert _solid(f"{OLD}: referenced, a table at another location lists it") in _solid(printed)
    assert files(orders) == {OLD, ORPHAN}
    assert "up_for_retry" not in printed.lower()


def test_a_table_that_cannot_be_read_stops_the_vacuum(airflow: Mapping[str, str], orders: Path) -> None:
    (orders.parent / "clone" / "_delta_log" / f"{0:020}.json").write_text("{damaged")
    code, printed = run(airflow)
    assert code == 1
    assert "delete nothing: of the files 2 unknown" in printed
    assert files(orders) == {OLD, ORPHAN}


def _solid(text: str) -> str:
    """The text without colours and spaces: Airflow 3.0 wraps and colours errors."""
    return "".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())

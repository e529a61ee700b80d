"""Airflow on this machine starts the DAG of the demo as soon as it knows it (`make airflow`)."""

import pytest

import standalone
from tests.builders.catcher import catching


@pytest.mark.parametrize(
    ("statuses", "requests", "fault"),
    [([], 1, ""), ([404], 2, ""), ([404] * 9, 2, "has no DAG lake_audit_demo"), ([500], 1, "500")],
    ids=["known", "known after a second", "never known", "fault"],
)
def test_the_demo_dag_is_started_at_once(
    monkeypatch: pytest.MonkeyPatch, statuses: list[int], requests: int, fault: str
) -> None:
    monkeypatch.setattr(standalone, "PATIENCE", 1.5)
    with catching() as airflow:
        airflow.busy = [*statuses]
        service = standalone.Service(airflow.url)
        if fault:
            with pytest.raises(standalone.CannotServe, match=fault):
                standalone.start_run(service, standalone.DEMO)
        else:
            standalone.start_run(service, standalone.DEMO)
    assert airflow.paths == [f"/api/v2/dags/{standalone.DEMO}/dagRuns"] * requests
    assert airflow.posts == [{"logical_date": None}] * requests

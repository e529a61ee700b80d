"""The DAGs as Airflow parses them, without a database: the form of their parameters and the times of schedules."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from standalone import AIRFLOW, CHECKOUT, OTHER_VERSION, airflow_env

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(300)]

ZONE = "Europe/Berlin"
"""The default time zone of this Airflow, which changes to daylight saving time and back."""
SCHEDULES = {
    "cron": "0 5 * * *",
    "night": "30 1 * * *",
    "preset": "@daily",
    "hourly": "@hourly",
    "sunday": "15 2 * * 0",
}
LAKE = """\
lake: {name}
results: /tmp/{name}
tables: [{{name: sales.orders}}, {{name: sales.items}}]
airflow: {{schedule: "{schedule}", reconcile: manual}}
"""
PARSE = """
import json, sys
from datetime import datetime
try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.models.dagbag import DagBag
from airflow.timetables.base import DataInterval, TimeRestriction
try:
    from airflow.serialization.encoders import coerce_to_core_timetable
except ImportError:
    coerce_to_core_timetable = lambda timetable: timetable
import pendulum

def times(timetable, after):
    "The next five times."
    core = coerce_to_core_timetable(timetable)
    last = DataInterval.exact(pendulum.parse(after))
    for _ in range(5):
        run = core.next_dagrun_info(
            last_automated_data_interval=last, restriction=TimeRestriction(None, None, catchup=True)
        )
        if run is None:
            return
        last = run.data_interval
        yield run.run_after.in_timezone("UTC").isoformat()

bag = DagBag(sys.argv[1])
print(json.dumps({
    dag.dag_id: {
        "params": {
            name: dag.params.get_param(name).schema
            | {"description": dag.params.get_param(name).description, "default": dag.params[name]}
            for name in dag.params
        },
        "times": {after: [*times(dag.timetable, after)] for after in sys.argv[2:]},
    }
    for dag in bag.dags.values()
}))
"""
CHANGES = ("2026-03-27T23:59:00+00:00", "2026-10-23T23:59:00+00:00")
"""Shortly before the nights of 29 March and 25 October, in which the clocks of Berlin change."""


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The parameters and the next times of each DAG, in an Airflow whose default time zone is not UTC."""
    home = tmp_path_factory.mktemp("parsed")
    conf = home / "conf"
    conf.mkdir()
    for name, schedule in SCHEDULES.items():
        (conf / f"{name}.yaml").write_text(LAKE.format(name=name, schedule=schedule))
    env = airflow_env(conf, home / "airflow") | {"AIRFLOW__CORE__DEFAULT_TIMEZONE": ZONE}
    python = AIRFLOW.with_name("python")
    line = [str(python), "-c", PARSE, str(CHECKOUT / "dags"), *CHANGES]
    parsed = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert parsed.returncode == 0, parsed.stderr[-3000:]
    found: dict[str, Any] = json.loads(parsed.stdout.splitlines()[-1])
    return found


def steps(first: str, each: timedelta) -> list[str]:
    begin = datetime.fromisoformat(first).replace(tzinfo=UTC)
    return [(begin + at * each).isoformat() for at in range(5)]


DAY, WEEK, HOUR = timedelta(days=1), timedelta(days=7), timedelta(hours=1)


@pytest.mark.parametrize(
    ("name", "spring", "autumn"),
    [
        ("cron", steps("2026-03-28 05:00", DAY), steps("2026-10-24 05:00", DAY)),
        ("night", steps("2026-03-28 01:30", DAY), steps("2026-10-24 01:30", DAY)),
        ("preset", steps("2026-03-28 00:00", DAY), steps("2026-10-24 00:00", DAY)),
        ("hourly", steps("2026-03-28 00:00", HOUR), steps("2026-10-24 00:00", HOUR)),
        ("sunday", steps("2026-03-29 02:15", WEEK), steps("2026-10-25 02:15", WEEK)),
    ],
)
def test_a_schedule_is_utc_also_when_the_clocks_change(
    dags: dict[str, Any], name: str, spring: list[str], autumn: list[str]
) -> None:
    """conf/example.yaml says that a schedule is UTC, whatever the default time zone of Airflow is."""
    assert dags[f"lake_audit_{name}"]["times"] == dict(zip(CHANGES, (spring, autumn), strict=True))


PARAMETERS = {
    "lake_audit_cron": ["tables", "live", "partitions", "as_of"],
    "lake_reconcile_cron": ["tables", "kinds", "allow", "live"],
}
NO_APPROVAL = (OTHER_VERSION or "").startswith("3.0.")
FORMS = [
    "lake_audit_cron",
    pytest.param(
        "lake_reconcile_cron",
        marks=pytest.mark.skipif(NO_APPROVAL, reason="Airflow 3.0 cannot ask a person"),
    ),
]


@pytest.mark.parametrize("dag", FORMS)
def test_each_field_of_the_form_has_a_title_a_description_and_a_type(dags: dict[str, Any], dag: str) -> None:
    params = dags[dag]["params"]
    assert [*params] == PARAMETERS[dag]
    for name, field in params.items():
        assert field["title"].strip(), name
        assert field["title"].casefold().replace(" ", "_") == name
        assert field["description"].strip().endswith("."), name
        assert field["type"] in ("boolean", "array", ["null", "string"]), name
        if field["type"] == "array":
            assert field["items"] == {"type": "string", "minLength": 1}, name
            assert field["default"] == []
        if field["type"] == "boolean":
            assert isinstance(field["default"], bool), name


@pytest.mark.parametrize("dag", FORMS)
def test_the_form_offers_the_tables_of_the_lake(dags: dict[str, Any], dag: str) -> None:
    assert dags[dag]["params"]["tables"]["examples"] == ["sales.orders", "sales.items"]


def test_the_form_has_a_field_for_a_time(dags: dict[str, Any]) -> None:
    field = dags["lake_audit_cron"]["params"]["as_of"]
    assert (field["format"], field["default"]) == ("date-time", None)


def test_docs_explain_each_parameter_of_an_audit(dags: dict[str, Any]) -> None:
    page = (CHECKOUT / "docs" / "airflow.md").read_text("utf-8")
    section = page.partition("\n## Start by hand\n")[2].partition("\n## ")[0]
    types = {"array": "list of texts", "boolean": "yes or no"}
    documented = dict(line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `"))
    assert {name.strip(" `"): kind.strip() for name, kind in documented.items()} == {
        name: "time, or empty" if name == "as_of" else types[field["type"]]
        for name, field in dags["lake_audit_cron"]["params"].items()
    }

"""The DAGs in a real Airflow, on a broken demo lake: findings, retries and messages.

Airflow has an environment of its own, and the tests use its commands and its API, as its users do.
"""

import json
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import requests
from deltalake import DeltaTable, write_deltalake
from playwright.sync_api import Page, expect, sync_playwright

from lake_fail_on import rule_of
from lake_outcomes import DagRun
from lakeaudit.config import Lake, load_lake
from lakeaudit.demo.breaker import Fault
from lakeaudit.demo.compare import compare, read_run
from lakeaudit.demo.scenario import Draw
from lakeaudit.demo.standing_lake import CONF, lake_served
from lakeaudit.formatting import second, times, visible
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import KINDS, rank
from lakeaudit.ledger.lease import leased
from lakeaudit.results.read import Results
from lakeaudit.results.recovery import of_finding
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import SilentProgress
from standalone import (
    AIRFLOW,
    CHECKOUT,
    OTHER_VERSION,
    Service,
    airflow_env,
    airflow_served,
    create_pools,
)

CHROMIUM = shutil.which("chromium")
NO_APPROVAL = (OTHER_VERSION or "").startswith("3.0.")
"""Airflow 3.0 cannot ask a person, so that it has no DAG which repairs a lake."""
PRINTED = 2 if NO_APPROVAL else 1
"""How often `airflow dags test` prints each line: Airflow 3.0 has two handlers for the same log."""
DEMO = "lake_audit_demo"
STEPS = ("doctor", "audit", "alert", "events", "report", "outcome")
BAD = {
    "torn.yaml": "lake: [",
    "odd.yaml": "lake: odd\nairflow: {schedule: 99 5 * * *}\n",
    "long.yaml": f"lake: long\nresults: /tmp/long\nairflow: {{reconcile: manual, tags: [{'x' * 200}]}}\n",
    "unknown.yaml": "version: 1\nlake: unknown\nresults: /tmp/x\ntables: []\nairflow: {retries: 1}\n",
}
BAG = """
import json, sys, time
try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.models.dagbag import DagBag
begun = time.process_time()  # the machine may be busy
bag = DagBag(sys.argv[1])
parsed = time.process_time() - begun
dags = {dag.dag_id: [dag.description, sorted(dag.tags), dag.task_ids] for dag in bag.dags.values()}
heavy = sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "lakeaudit", "boto3", "pandas"})
print(json.dumps({"dags": dags, "errors": bag.import_errors, "seconds": parsed, "heavy": heavy}))
"""

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scheduled") / "demo"


@pytest.fixture(scope="module")
def broken(folder: Path) -> Iterator[list[Fault]]:
    draw = Draw.of(None, None)
    print(draw)  # noqa: T201 - pytest shows it with a failure
    with lake_served(folder, draw, SilentProgress()) as made:
        yield made


@pytest.fixture(scope="module")
def lake(folder: Path, broken: list[Fault]) -> Lake:
    return load_lake(str(folder / CONF / "demo.yaml"), {})


@pytest.fixture(scope="module")
def env(folder: Path, lake: Lake) -> dict[str, str]:
    for name, text in BAD.items():
        (folder / CONF / name).write_text(text)
    env = airflow_env(folder / CONF, folder / "airflow")
    subprocess.run([AIRFLOW, "db", "migrate"], env=env, check=True, capture_output=True)
    return env


def dags_test(env: Mapping[str, str], dag: str, conf: object = None) -> tuple[int, str]:
    """Exit code and output of `airflow dags test`, as one line without colours: Airflow 3.0 wraps errors."""
    given = ["--conf", json.dumps(conf)] if conf is not None else []
    words = [str(AIRFLOW), "dags", "test", dag, *given]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    return done.returncode, " ".join(said.split())


def bag_of(env: Mapping[str, str]) -> dict[str, Any]:
    """What Airflow makes of the DAG folder; no database is needed."""
    python = AIRFLOW.with_name("python")
    done = subprocess.run(
        [python, "-c", BAG, CHECKOUT / "dags"], env=env, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_one_dag_for_each_lake_file_whatever_is_in_it(env: Mapping[str, str]) -> None:
    bag = bag_of(env)
    assert bag["errors"] == {}
    assert bag["heavy"] == []
    assert bag["seconds"] < (3 if OTHER_VERSION else 1)
    broken, healthy = ["broken", "lakeaudit"], ["demo", "lakeaudit"]
    needed = "Human in the loop functionality needs Airflow 3.1+."
    reason = needed if NO_APPROVAL else "tag cannot be longer than 100 characters"
    said = (
        "odd.yaml: Airflow cannot use it (schedule 99 5 * * *): [99 5 * * *] is not acceptable, out of range"
    )
    assert bag["dags"] == {
        DEMO: ["Consistency audit of the lake demo", healthy, list(STEPS)],
        "lake_audit_unknown": ["Consistency audit of the lake unknown", ["lakeaudit"], list(STEPS)],
        "lake_audit_odd": [said, broken, ["lake_file"]],
        "lake_audit_torn": [
            "torn.yaml: it is not valid YAML: line 2: did not find expected node content", broken, ["lake_file"],
        ],
        "lake_audit_long": [
            "long.yaml: Airflow cannot use it (schedule None): tag cannot be longer than 100 characters",
            broken, ["lake_file"],
        ],
        "lake_reconcile_long": [f"long.yaml: Airflow cannot use it: {reason}", broken, ["lake_file"]],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dag", "reason"),
    [
        (
            "lake_audit_shop",
            "shop.yaml: the lake file was removed: restore it, or delete the DAG lake_audit_shop",
        ),
        ("lake_audit_torn", "torn.yaml: it is not valid YAML: line 2: did not find expected node content"),
    ],
)
def test_a_lake_file_that_was_removed_or_broken_while_its_dag_was_at_work(
    env: Mapping[str, str], dag: str, reason: str
) -> None:
    at_work = {**env, "_AIRFLOW_PARSING_CONTEXT_DAG_ID": dag}
    assert bag_of(at_work)["dags"] == {dag: [reason, ["broken", "lakeaudit"], ["lake_file", *STEPS]]}


@pytest.mark.parametrize(
    ("dag", "said"),
    [
        ("lake_audit_torn", "torn.yaml: it is not valid YAML"),
        ("lake_audit_unknown", "doctor ended with exit code 2: "),
    ],
)
def test_a_dag_says_why_nothing_is_audited(env: Mapping[str, str], dag: str, said: str) -> None:
    code, told = dags_test(env, dag)
    assert code == 1
    assert said in told


def test_without_its_connection_nothing_is_submitted_anywhere(env: Mapping[str, str]) -> None:
    bare = {name: value for name, value in env.items() if not name.startswith("AIRFLOW_CONN_")}
    code, told = dags_test(bare, DEMO)
    assert code == 1
    assert "Airflow has no connection spark_default: add it, for example by `airflow connections add" in told
    assert "--master" not in told


def test_the_outcome_of_a_driver_on_a_cluster_needs_a_place(env: Mapping[str, str]) -> None:
    cluster = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    code, told = dags_test({**env, "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(cluster)}, DEMO)
    assert code == 1
    assert "set `airflow.status` of demo.yaml to s3://bucket/folder/" in told


def last_run(lake: Lake) -> dict[str, Any]:
    found = Results(lake.results, clients_of(lake), lake.name).last_published()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def audited(env: Mapping[str, str], lake: Lake) -> Results:
    """Tens of findings: the audit is red, and only the audit needed Spark."""
    code, told = dags_test(env, DEMO)
    assert code == 1, told[-3000:]
    assert re.search(
        r"[0-9]+ critical findings? that nobody accepted; audit ended with exit code [03]: ", told
    )
    assert rule_of(("critical", "coverage_lost", "failed")) in told
    assert told.count("Spark-Submit cmd:") == PRINTED
    assert all(f"jobs/{step}.py" in told for step in ("doctor", "alert", "report"))
    return Results(lake.results, clients_of(lake), lake.name)


def test_a_red_dag_finds_what_was_broken_and_writes_its_report(
    audited: Results, lake: Lake, broken: list[Fault]
) -> None:
    verdict = compare(broken, *read_run(audited, last_run(lake)["run_id"]))
    assert verdict.matched, verdict.differences
    assert (Path(lake.results.spark_path) / "report.html").is_file()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_two_clicks_say_what_is_broken_since_when_why_and_whether_it_is_recoverable(
    audited: Results, folder: Path
) -> None:
    """In the dashboard, of the worst that the audit of a lake broken at random has found."""
    held = [row for batch in audited.discrepancies(("open",)) for row in batch.to_pylist()]
    pressing = Counter((row["table_name"], row["severity"]) for row in held)
    worst = min(
        (row for row in held if row["subject_type"] == "file" and row["table_name"]),
        key=lambda row: (
            rank(row["severity"]), -pressing[row["table_name"], row["severity"]], row["table_name"],
        ),
    )  # fmt: skip
    alike = [
        row for row in held if all(row[name] == worst[name] for name in ("table_name", "kind", "severity"))
    ]
    files = sum(row["files"] or 0 for row in alike)
    with dashboard(folder) as page:
        main = page.get_by_test_id("stMain")
        page.get_by_role("link", name=worst["table_name"], exact=True).click()
        for words in (
            counted_kind(worst["kind"], len(alike), files),
            KINDS[worst["kind"]].words,
            f"Since {second(min(row['first_seen_at'] for row in alike))}",
        ):
            expect(main).to_contain_text(words, ignore_case=True)
        page.get_by_role("link", name=visible(worst["subject"])[-30:]).first.click()
        for words in (visible(worst["subject"]), times(worst["explanation"]), of_finding(worst)):
            expect(main).to_contain_text(words, ignore_case=True)


@contextmanager
def dashboard(folder: Path) -> Iterator[Page]:
    """The first page of the dashboard of the demo lake."""
    line = [str(CHECKOUT / ".venv" / "bin" / "lakeaudit"), "dashboard", str(folder / CONF / "demo.yaml")]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with sync_playwright() as driver:
                browser = driver.chromium.launch(
                    executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
                )
                page = browser.new_page()
                page.set_default_timeout(60_000)
                expect.set_options(timeout=60_000)
                page.goto(process.stdout.readline().strip())
                yield page
        finally:
            process.kill()


@pytest.fixture(scope="module")
def service(env: dict[str, str], folder: Path) -> Iterator[Service]:
    """Airflow at work: the demo lake is audited every minute, findings do not matter, and status files lie on S3."""
    file = folder / CONF / "demo.yaml"
    settings = '"* * * * *", status: "s3://inventories/status", fail_on: [failed]'
    file.write_text(file.read_text().replace('"@hourly"', settings))
    with airflow_served(env) as service:
        yield service


def request(service: Service, path: str, method: str = "GET", **body: Any) -> dict[str, Any]:
    answer = requests.request(method, f"{service.url}/api/v2/{path}", json=body or None, timeout=60)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def until(ready: Callable[[], Any], seconds: int = 300) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(1)
    raise AssertionError(f"not within {seconds} s")


def run_of(service: Service, run_id: str) -> dict[str, Any]:
    return request(service, f"dags/{DEMO}/dagRuns/{quote(run_id)}")


def final_state(service: Service, run_id: str) -> str:
    """How a DAG run ends."""
    states = ("success", "failed")
    state: str = until(lambda: (state := run_of(service, run_id)["state"]) in states and state)
    return state


def tries(service: Service, run_id: str) -> dict[str, tuple[str, int]]:
    """State and number of tries of each task."""
    rows = request(service, f"dags/{DEMO}/dagRuns/{quote(run_id)}/taskInstances")["task_instances"]
    return {row["task_id"]: (row["state"], row["try_number"]) for row in rows}


ALL_WELL = dict.fromkeys(STEPS, ("success", 1))


def triggered(service: Service, **params: Any) -> str:
    run_id: str = request(service, f"dags/{DEMO}/dagRuns", "POST", logical_date=None, conf=params)[
        "dag_run_id"
    ]
    return run_id


@pytest.fixture(scope="module")
def scheduled(service: Service, folder: Path) -> str:
    """The first run that nobody asked for; from then on the lake file has no schedule."""

    def first() -> Any:
        return [run["dag_run_id"] for run in request(service, f"dags/{DEMO}/dagRuns")["dag_runs"]
                if run["run_type"] == "scheduled"]  # fmt: skip

    run_id = until(first, 180)[0]
    file = folder / CONF / "demo.yaml"
    file.write_text(file.read_text().replace('schedule: "* * * * *", ', ""))
    until(lambda: request(service, f"dags/{DEMO}")["timetable_summary"] != "* * * * *", 120)
    return str(run_id)


def test_on_schedule(service: Service, scheduled: str, lake: Lake) -> None:
    """Findings that the rule does not count leave the audit green, with a note."""
    assert final_state(service, scheduled) == "success"
    states = {task: state for task, (state, _) in tries(service, scheduled).items()}
    assert states == dict.fromkeys(STEPS, "success"), (
        "on a busy machine Airflow may end the first try of a task"
    )
    assert last_run(lake)["tables_audited"] == len(lake.tables)
    assert re.search("[0-9]+ critical, .*findings", note_of(service, scheduled, "audit"))


def note_of(service: Service, run_id: str, task: str) -> str:
    place = f"dags/{DEMO}/dagRuns/{quote(run_id)}/taskInstances/{task}/xcomEntries/note"
    return str(request(service, place)["value"])


def test_by_hand_with_parameters(service: Service, scheduled: str, lake: Lake) -> None:
    final_state(service, scheduled)
    run_id = triggered(service, tables=["sales.orders"], live=True)
    assert final_state(service, run_id) == "success"
    run = last_run(lake)
    listings = [source["location"] for source in run["sources"] if source["role"] == "storage"]
    assert (run["tables_audited"], listings) == (1, ["s3://lake/warehouse/orders"])
    events = request(service, "assets/events?order_by=-timestamp")["asset_events"]
    newest = {str(event["name"]): event for event in reversed(events)}
    assert newest[f"{DEMO}.discrepancies"]["extra"]["run_id"] == run["run_id"]
    of_table = next(event for name, event in newest.items() if name.endswith("/sales.orders"))
    assert of_table["extra"]["run_id"] == run["run_id"], "tables have assets without any key"


@pytest.mark.parametrize(
    "params", [{"tables": "sales.orders"}, {"tables": [""]}, {"as_of": "soon"}, {"live": "yes"}]
)
def test_parameters_that_cannot_be(service: Service, scheduled: str, params: dict[str, Any]) -> None:
    with pytest.raises(requests.HTTPError, match=r"400|422"):
        triggered(service, **params)


def test_what_a_retry_cures_is_tried_again(
    service: Service, scheduled: str, lake: Lake, folder: Path
) -> None:
    """Another audit is at work: the task waits for it, and keeps its run id."""
    with leased(lake.results, Clients(), "other", SilentProgress()):
        run_id = triggered(service, tables=["sales.orders"])
        until(lambda: tries(service, run_id)["audit"] == ("up_for_retry", 1))
    assert final_state(service, run_id) == "success"
    assert tries(service, run_id) == ALL_WELL | {"audit": ("success", 2)}
    audit_id = DagRun(DEMO, run_id, {}).audit_id
    assert last_run(lake)["run_id"] == audit_id
    assert [audit_id in log_of(folder, run_id, "audit", attempt) for attempt in (1, 2)] == [True, True]


def log_of(folder: Path, run_id: str, task: str, attempt: int = 1) -> str:
    logs = folder / "airflow" / "logs" / f"dag_id={DEMO}" / f"run_id={run_id}" / f"task_id={task}"
    return (logs / f"attempt={attempt}.log").read_text()


def test_what_a_retry_cannot_cure_is_not(service: Service, scheduled: str, lake: Lake) -> None:
    """There is no such table: the audit fails at once, people are still told, and there is no new report."""
    run_id = triggered(service, tables=["no.such_table"])
    assert final_state(service, run_id) == "failed"
    states = tries(service, run_id)
    assert states["audit"] == ("failed", 1)
    assert {name: states[name][0] for name in STEPS[2:]} == {
        "alert": "success", "events": "skipped", "report": "skipped", "outcome": "upstream_failed",
    }  # fmt: skip


def rewrite(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_backfill_audits_the_past(service: Service, scheduled: str, folder: Path) -> None:
    """Newer audits have judged the tables, so the audit fails; a schedule is needed, and this one is not due."""
    final_state(service, scheduled)
    file = folder / CONF / "demo.yaml"
    rewrite(file, "airflow: {", 'airflow: {schedule: "0 5 1 1 *", ')
    until(lambda: request(service, f"dags/{DEMO}")["timetable_summary"] == "0 5 1 1 *", 120)
    days = {"from_date": "2025-12-31T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}

    def backfilled() -> Any:
        """Return the runs; a backfill has none while Airflow stores the schedule, but not yet the DAG that has it."""
        with suppress(requests.HTTPError):  # one is running
            request(service, "backfills", "POST", dag_id=DEMO, **days)
        runs = request(service, f"dags/{DEMO}/dagRuns")["dag_runs"]
        return [run["dag_run_id"] for run in runs if run["run_type"] == "backfill"]

    (run_id,) = until(backfilled)
    assert final_state(service, run_id) == "failed"
    rewrite(file, 'schedule: "0 5 1 1 *", ', "")
    log = log_of(folder, run_id, "audit")
    assert "--as-of 2026-01-01T05:00:00+00:00" in log
    assert "audit ended with exit code 13: " in log, "newer audits have judged the tables"


TWIN = "lake_audit_twin"


def test_two_lakes_with_one_results_place_take_turns(service: Service, scheduled: str, folder: Path) -> None:
    """Without a pool a note names the other file; with one no audit meets the other's lease."""
    final_state(service, scheduled)
    demo, twin = folder / CONF / "demo.yaml", folder / CONF / "twin.yaml"
    twin.write_text(demo.read_text().replace("lake: demo", "lake: twin"))
    until(lambda: TWIN in {dag["dag_id"] for dag in request(service, "dags")["dags"]}, 180)
    run_id = triggered(service, tables=["sales.orders"])
    assert final_state(service, run_id) == "success"
    assert "twin.yaml and demo.yaml write to the same results" in note_of(service, run_id, "doctor")

    for file in (demo, twin):
        rewrite(file, "airflow: {", "airflow: {pool: shared, ")
    create_pools(service, folder / CONF)
    create_pools(service, folder / CONF)
    until(lambda: {pool_of(service, dag) for dag in (DEMO, TWIN)} == {"shared"}, 180)
    runs = {dag: start(service, dag) for dag in (DEMO, TWIN)}
    rows = [row for dag, run in runs.items() for row in task_instances(service, dag, run)]
    times = sorted((row["start_date"], row["end_date"]) for row in rows if row["pool"] == "shared")
    assert {
        row["task_id"]: (row["state"], row["try_number"]) for row in rows if row["task_id"] == "audit"
    } == {"audit": ("success", 1)}
    assert len(times) == 8
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def start(service: Service, dag: str) -> str:
    body = {"logical_date": None, "conf": {"tables": ["sales.orders"]}}
    return str(request(service, f"dags/{dag}/dagRuns", "POST", **body)["dag_run_id"])


def pool_of(service: Service, dag: str) -> str:
    return str(request(service, f"dags/{dag}/tasks/audit")["pool"])


def task_instances(service: Service, dag: str, run_id: str) -> list[dict[str, Any]]:
    """Wait for a DAG run, and return its task instances."""
    place = f"dags/{dag}/dagRuns/{quote(run_id)}"
    until(lambda: request(service, place)["state"] in ("success", "failed"))
    found: list[dict[str, Any]] = request(service, f"{place}/taskInstances")["task_instances"]
    return found


def test_a_file_that_becomes_invalid_stops_only_its_own_dag(
    service: Service, scheduled: str, folder: Path
) -> None:
    twin = folder / CONF / "twin.yaml"
    twin.write_text((folder / CONF / "demo.yaml").read_text().replace("lake: demo", "lake: twin"))
    until(lambda: description_of(service, TWIN) == "Consistency audit of the lake twin", 180)
    well = twin.read_text()
    twin.write_text("lake: [")
    reason = "twin.yaml: it is not valid YAML: line 2: did not find expected node content"
    until(lambda: description_of(service, TWIN) == reason, 180)
    assert {
        row["task_id"]: row["state"] for row in task_instances(service, TWIN, start_plain(service, TWIN))
    } == {"lake_file": "failed"}
    assert final_state(service, triggered(service, tables=["sales.orders"])) == "success"
    twin.write_text(well)
    until(lambda: description_of(service, TWIN) == "Consistency audit of the lake twin", 180)
    twin.unlink()


def start_plain(service: Service, dag: str) -> str:
    return str(request(service, f"dags/{dag}/dagRuns", "POST", logical_date=None)["dag_run_id"])


def description_of(service: Service, dag: str) -> str | None:
    found = {each["dag_id"]: each["description"] for each in request(service, "dags")["dags"]}
    return found.get(dag)


RECONCILE = "lake_reconcile_demo"


REPAIRED = "repairs.orders"
"""A table with one lost file that S3 still has: what the demo breaks at random may not be recoverable."""


def lose_a_recoverable_file(lake: Lake, file: Path) -> None:
    """Add the table to the lake and to its lake file."""
    place = "s3://lake/repairs/orders"
    options = {
        "AWS_ENDPOINT_URL": str(lake.s3.endpoint), "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
    }  # fmt: skip
    write_deltalake(place, pa.table({"id": [1, 2]}), storage_options=options)
    (uri,) = DeltaTable(place, storage_options=options).file_uris()
    clients_of(lake).s3("lake").delete_object(Bucket="lake", Key=uri.removeprefix("s3://lake/"))
    entry = f"  - {{name: {REPAIRED}, location: {place}, manifests: [{{kind: delta}}]}}\n"
    rewrite(file, "\ntables:\n", f"\ntables:\n{entry}")


@pytest.fixture(scope="module")
def asking(service: Service, scheduled: str, folder: Path, lake: Lake) -> str:
    """The demo lake has a reconcile DAG, which waits for a person; the id of its run."""
    final_state(service, scheduled)
    file = folder / CONF / "demo.yaml"
    lose_a_recoverable_file(lake, file)
    assert final_state(service, triggered(service, tables=[REPAIRED], live=True)) == "success"
    file.write_text(file.read_text().replace("airflow: {", "airflow: {reconcile: manual, "))
    until(lambda: RECONCILE in {dag["dag_id"] for dag in request(service, "dags")["dags"]}, 180)
    request(service, f"dags/{RECONCILE}", "PATCH", is_paused=False)
    given = {"allow": ["restore"], "kinds": ["dropped"], "tables": [REPAIRED]}
    run: str = request(service, f"dags/{RECONCILE}/dagRuns", "POST", logical_date=None, conf=given)[
        "dag_run_id"
    ]
    return run


NOTICED = 12
"""Seconds after which Airflow's scheduler has seen that the task paused: it fails a task that is answered before."""


@pytest.mark.skipif(NO_APPROVAL, reason="Airflow 3.0 cannot ask a person")
def test_nothing_is_done_before_a_person_says_yes(service: Service, asking: str, lake: Lake) -> None:
    place = f"dags/{RECONCILE}/dagRuns/{quote(asking)}"

    def waiting() -> Any:
        """Return the question once the task has paused: an answer before that fails it."""
        details = request(service, f"{place}/hitlDetails")["hitl_details"]
        tasks = request(service, f"{place}/taskInstances")["task_instances"]
        states = {row["task_id"]: row["state"] for row in tasks}
        return details[0] if details and states["approve"] in ("deferred", "awaiting_input") else None

    question = until(waiting)
    time.sleep(NOTICED)
    assert question["subject"].startswith("Repair the lake demo: ")
    assert "| `remove_delete_marker` | 1 |" in question["body"]
    assert plans(lake)[-1]["status"] == "planned"
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    request(service, f"{place}/taskInstances/approve/-1/hitlDetails", "PATCH", **answer)
    until(lambda: request(service, place)["state"] in ("success", "failed"))
    rows = request(service, f"{place}/taskInstances")["task_instances"]
    assert {row["task_id"]: row["state"] for row in rows} == dict.fromkeys(
        ("plan", "approve", "apply", "audit"), "success"
    )
    plan = plans(lake)[-1]
    assert plan["status"] == "applied"
    assert plan["approved_by"]


def plans(lake: Lake) -> list[dict[str, Any]]:
    results = Results(lake.results, clients_of(lake), lake.name)
    rows = [row for batch in results.batches("plans", pc.scalar(True)) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["created_at"]))

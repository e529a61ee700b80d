"""The tasks of `airflow.run_on` with the real operators of the platforms; their requests are checked, and not sent.

Airflow's own environment has no operators of platforms. `make check-airflow` makes another one that has them,
.venv-airflow-platforms, for the newest Airflow.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from standalone import AIRFLOW, CHECKOUT, OTHER_VERSION, airflow_env

PYTHON = CHECKOUT / ".venv-airflow-platforms" / "bin" / "python"
PLACES = 'jobs: "s3://code/jobs", lake_file: "s3://code/shop.yaml"'
PLACE_IN_IMAGE = "lake_file: /etc/lakeaudit/shop.yaml"
PLATFORMS = {
    "emr": "{job_flow_id: j-1}",
    "emr_serverless": '{application_id: a, execution_role_arn: "arn:aws:iam::123456789012:role/x"}',
    "databricks": "{new_cluster: {spark_version: 18.x, num_workers: 2}}",
    "dataproc": "{cluster_name: c, region: europe-west1, project_id: p}",
    "kubernetes": "{image: lakeaudit, namespace: audits}",
}

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(300)]

REQUESTS = """
import json, sys
from botocore.session import get_session
from botocore.validate import ParamValidator
import lake_audit

import lake_steps
from airflow.sdk.exceptions import TaskDeferred

class Ti:
    dag_id, run_id, task_id, try_number, max_tries = "d", "r", "audit", 1, 2
    def xcom_push(self, **more): self.pushed = more

def resumed(task, event):
    "What a task does after its trigger has fired: the status file decides."
    context = {"ti": Ti(), "params": {}, "dag_run": None}
    good = {"exit_code": 0, "status": "complete", "run_id": "r1", "answers": {}}
    lake_steps.read_s3 = lambda place, s3: json.dumps(good)
    assert task.resume_execution("execute_complete", {"event": event}, context)["run_id"] == "r1"
    assert task.pages == {"Dashboard": "https://lake.example/runs?lake=shop&run=r1"}
    lake_steps.read_s3 = lambda place, s3: json.dumps({"exit_code": 14, "verdict": "not written", "retry": False})
    for method, kwargs in (("execute_complete", {"event": event}), ("__fail__", {"error": "Trigger timeout"})):
        try:
            task.resume_execution(method, kwargs, context)
        except Exception as error:
            assert str(error).startswith("the audit failed: audit ended with exit code 14: not written"), error
            assert str(error).endswith("page: https://lake.example/?lake=shop"), error
        else:
            raise SystemExit("a failed audit is green")

def deferred(task, operator):
    "A task that waits for its trigger is not judged."
    def wait(self, context): raise TaskDeferred(trigger=None, method_name="execute_complete")
    operator.execute = wait
    try:
        task._run({}, [])
    except TaskDeferred:
        return
    raise SystemExit("it does not wait")

JSON = json.dumps({"life_cycle_state": "TERMINATED", "state_message": "", "result_state": "SUCCESS"})
EVENTS = {
    "emr": {"status": "success", "value": ["s-1"]},
    "emr_serverless": {"status": "success", "job_details": {"job_id": "j", "application_id": "a"}},
    "databricks": {"run_id": 1, "run_page_url": "x", "run_state": JSON, "repair_run": False,
                   "errors": []},
    "dataproc": {"job_state": "DONE", "job_id": "j", "job": {}},
}

def sent(kind):
    task = getattr(lake_audit, f"lake_audit_{kind}").get_task("audit")
    operator = type(task).__bases__[1]
    operator.execute = lambda self, context: None
    assert task._run({}, ["--run-id", "r1", "--status-file", "s3://st/1.json"]) is None
    def refuse(self, context): raise RuntimeError("no such cluster\\nand more")
    operator.execute = refuse
    assert task._run({}, []) == "no such cluster"
    deferred(task, operator)
    assert [link.name for link in task.operator_extra_links][-2:] == ["Dashboard", "Table"]
    if kind in EVENTS:
        resumed(task, EVENTS[kind])
    operator.execute = lambda self, context: None
    task._run({}, ["--run-id", "r1", "--status-file", "s3://st/1.json"])
    return task

def aws(service, operation, request):
    shape = get_session().create_client(service, region_name="us-east-1").meta.service_model.operation_model(operation)
    report = ParamValidator().validate(request, shape.input_shape)
    assert not report.has_errors(), report.generate_report()
    return request

def emr(task):
    assert task.deferrable
    return aws("emr", "AddJobFlowSteps", {"JobFlowId": task.job_flow_id, "Steps": task.steps})

def emr_serverless(task):
    assert task.wait_for_completion and task.deferrable
    request = {"applicationId": task.application_id, "executionRoleArn": task.execution_role_arn, "clientToken": "t"}
    return aws("emr-serverless", "StartJobRun", {**request, "jobDriver": task.job_driver})

def databricks(task):
    assert task.wait_for_termination and task.deferrable
    return {name: value for name, value in task._get_named_json_parameters().items() if value is not None}

def dataproc(task):
    from google.cloud.dataproc_v1 import Job
    assert not task.asynchronous and task.deferrable
    job = Job(task.job)
    return {"region": task.region, "cluster": job.placement.cluster_name, "args": list(job.pyspark_job.args),
            "program": job.pyspark_job.main_python_file_uri, "properties": dict(job.pyspark_job.properties)}

def kubernetes(task):
    assert task.deferrable
    type(task.hook).is_in_cluster = False  # there is no cluster
    (container,) = task.build_pod_request_obj().spec.containers
    return {"image": container.image, "command": container.command, "args": container.args}

KINDS = (emr, emr_serverless, databricks, dataproc, kubernetes)
print(json.dumps({each.__name__: each(sent(each.__name__)) for each in KINDS}))
"""
AFTER = ["--run-id", "r1", "--status-file", "s3://st/1.json"]
SETTINGS = ["--conf", "spark.executor.memory=4g", "--files", "s3://code/shop.yaml"]
EXPECTED: dict[str, Any] = {
    "emr": {"JobFlowId": "j-1", "Steps": [{
        "Name": "lakeaudit audit shop", "ActionOnFailure": "CONTINUE",
        "HadoopJarStep": {"Jar": "command-runner.jar", "Args": [
            "spark-submit", "--deploy-mode", "cluster", *SETTINGS, "s3://code/jobs/audit.py", "shop.yaml", *AFTER,
        ]},
    }]},
    "emr_serverless": {
        "applicationId": "a", "clientToken": "t", "executionRoleArn": "arn:aws:iam::123456789012:role/x",
        "jobDriver": {"sparkSubmit": {
            "entryPoint": "s3://code/jobs/audit.py", "entryPointArguments": ["shop.yaml", *AFTER],
            "sparkSubmitParameters": " ".join(SETTINGS),
        }},
    },
    "databricks": {
        "run_name": "lakeaudit audit shop",
        "new_cluster": {"spark_version": "18.x", "num_workers": 2, "spark_conf": {"spark.executor.memory": "4g"}},
        "spark_python_task": {"python_file": "s3://code/jobs/audit.py", "parameters": ["s3://code/shop.yaml", *AFTER]},
    },
    "dataproc": {
        "region": "europe-west1", "cluster": "c", "args": ["shop.yaml", *AFTER], "program": "s3://code/jobs/audit.py",
        "properties": {"spark.executor.memory": "4g"},
    },
    "kubernetes": {
        "image": "lakeaudit", "command": ["lakeaudit"], "args": ["audit", "/etc/lakeaudit/shop.yaml", *AFTER],
    },
}  # fmt: skip


def conf(folder: Path) -> Path:
    """A folder with a lake file for each platform."""
    folder.mkdir()
    for kind, arguments in PLATFORMS.items():
        in_image = kind == "kubernetes"
        settings = "" if in_image else "spark_conf: {spark.executor.memory: 4g}, "
        places = PLACE_IN_IMAGE if in_image else PLACES
        run_on = f"run_on: {{kind: {kind}, {places}, arguments: {arguments}}}"
        (folder / f"{kind}.yaml").write_text(
            f"lake: shop\ndashboard_url: https://lake.example\nairflow: {{status: s3://st/, {settings}{run_on}}}\n"
        )
    return folder


@pytest.mark.skipif(bool(OTHER_VERSION), reason="the operators are installed beside the newest Airflow only")
@pytest.mark.skipif(
    not PYTHON.exists(), reason="requirements/install-airflow.sh platforms installs the operators"
)
def test_each_platform_gets_a_valid_request(tmp_path: Path) -> None:
    env = airflow_env(conf(tmp_path / "conf"), tmp_path / "airflow") | {"PYTHONPATH": str(CHECKOUT / "dags")}
    run = subprocess.run([PYTHON, "-c", REQUESTS], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert json.loads(run.stdout.splitlines()[-1]) == EXPECTED


DESCRIPTIONS = """
import json, lake_audit
dags = {name: dag for name, dag in vars(lake_audit).items() if name.startswith("lake_audit_")}
print(json.dumps({name: dag.description for name, dag in dags.items()}))
"""


def test_without_its_operator_a_platform_has_a_dag_that_names_the_package(tmp_path: Path) -> None:
    env = airflow_env(conf(tmp_path / "conf"), tmp_path / "airflow") | {"PYTHONPATH": str(CHECKOUT / "dags")}
    python = AIRFLOW.with_name("python")
    run = subprocess.run([python, "-c", DESCRIPTIONS], env=env, capture_output=True, text=True, check=True)
    descriptions = json.loads(run.stdout.splitlines()[-1])
    packages = {
        "emr": "amazon",
        "emr_serverless": "amazon",
        "dataproc": "google",
        "kubernetes": "cncf-kubernetes",
    }
    for kind in PLATFORMS:
        package = f"apache-airflow-providers-{packages.get(kind, kind)}"
        assert f"run_on {kind} needs the package {package}" in descriptions[f"lake_audit_{kind}"]

"""Describes the commands of a lake as jobs of a platform, in the arguments of the platform's Airflow operator. Pure."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DAY = 24 * 60 * 60
"""Seconds for which an operator waits for its job at most, if the lake file sets no other limit."""


@dataclass(frozen=True)
class RunOn:
    """The platform on which the commands of a lake run.

    Attributes:
        kind: a key of PLATFORMS.
        jobs: folder with the programs of jobs/, where the platform reads it; empty for an image with lakeaudit.
        lake_file: this lake file, where the platform reads it; empty: each task uploads it to `airflow.status`.
        arguments: arguments of the operator, such as the id of the cluster.
    """

    kind: str
    jobs: str
    lake_file: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        name: a name for people.
        program: name of the program in jobs/.
        before: words before the lake file.
        after: words after the lake file.
        conf: properties of Spark.
        uploaded: address of the lake file that this task has uploaded, which lakeaudit reads itself; empty: none.
    """

    name: str
    program: str
    before: Sequence[str]
    after: Sequence[str]
    conf: Mapping[str, str]
    uploaded: str = ""


@dataclass(frozen=True)
class Platform:
    """An operator of Airflow: its place, its package, its fixed arguments, and those of a job."""

    operator: str
    package: str
    fixed: Mapping[str, Any]
    render: Callable[[RunOn, Job], dict[str, Any]]
    needs: tuple[str, ...] = ()
    """Arguments of the lake file that only `render` uses."""
    has_jobs: bool = True
    """Whether its jobs are the programs of jobs/."""


def _program(on: RunOn, job: Job) -> str:
    return f"{on.jobs.rstrip('/')}/{job.program}.py"


def _copied(on: RunOn, job: Job) -> list[str]:
    """Return the words of a job that has a copy of the lake file in its working folder, if it was not uploaded."""
    return [*job.before, job.uploaded or on.lake_file.rpartition("/")[2], *job.after]


def _read_in_place(on: RunOn, job: Job) -> list[str]:
    return [*job.before, job.uploaded or on.lake_file, *job.after]


def _files(on: RunOn, job: Job) -> list[str]:
    """Return the files that the platform copies into the working folder of a job."""
    return [] if job.uploaded else [on.lake_file]


def _submit_options(on: RunOn, job: Job) -> list[str]:
    conf = [word for name, value in job.conf.items() for word in ("--conf", f"{name}={value}")]
    return [*conf, *(word for file in _files(on, job) for word in ("--files", file))]


def _emr(on: RunOn, job: Job) -> dict[str, Any]:
    submit = ["spark-submit", "--deploy-mode", "cluster", *_submit_options(on, job), _program(on, job)]
    jar = {"Jar": "command-runner.jar", "Args": [*submit, *_copied(on, job)]}
    return {"steps": [{"Name": job.name, "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}]}


def _emr_serverless(on: RunOn, job: Job) -> dict[str, Any]:
    submit = {
        "entryPoint": _program(on, job),
        "entryPointArguments": _copied(on, job),
        "sparkSubmitParameters": shlex.join(_submit_options(on, job)),
    }
    return {"job_driver": {"sparkSubmit": submit}}


def _databricks(on: RunOn, job: Job) -> dict[str, Any]:
    task = {"python_file": _program(on, job), "parameters": _read_in_place(on, job)}
    rendered: dict[str, Any] = {"spark_python_task": task, "run_name": job.name}
    if cluster := on.arguments.get("new_cluster"):
        conf = {**(cluster.get("spark_conf") or {}), **job.conf}
        rendered["new_cluster"] = {**cluster, "spark_conf": conf}
    return rendered


def _dataproc(on: RunOn, job: Job) -> dict[str, Any]:
    program = {
        "main_python_file_uri": _program(on, job),
        "args": _copied(on, job),
        "file_uris": _files(on, job),
        "properties": dict(job.conf),
    }
    return {"job": {"placement": {"cluster_name": on.arguments["cluster_name"]}, "pyspark_job": program}}


def _kubernetes(on: RunOn, job: Job) -> dict[str, Any]:
    return {"cmds": ["lakeaudit"], "arguments": [job.program, *_read_in_place(on, job)]}


def takes_conf(on: RunOn) -> bool:
    """Return whether the properties of Spark reach a job."""
    return on.kind in ("emr", "emr_serverless", "dataproc") or bool(on.arguments.get("new_cluster"))


PLATFORMS: Mapping[str, Platform] = {
    "emr": Platform(
        "airflow.providers.amazon.aws.operators.emr.EmrAddStepsOperator",
        "apache-airflow-providers-amazon",
        {
            "wait_for_completion": True,
            "waiter_delay": 30,
            "waiter_max_attempts": DAY // 30,
            "deferrable": True,
        },
        _emr,
    ),
    "emr_serverless": Platform(
        "airflow.providers.amazon.aws.operators.emr.EmrServerlessStartJobOperator",
        "apache-airflow-providers-amazon",
        {
            "job_driver": {},
            "wait_for_completion": True,
            "waiter_delay": 30,
            "waiter_max_attempts": DAY // 30,
            "deferrable": True,
        },
        _emr_serverless,
    ),
    "databricks": Platform(
        "airflow.providers.databricks.operators.databricks.DatabricksSubmitRunOperator",
        "apache-airflow-providers-databricks",
        {"wait_for_termination": True, "deferrable": True, "durable": False},
        _databricks,
    ),
    "dataproc": Platform(
        "airflow.providers.google.cloud.operators.dataproc.DataprocSubmitJobOperator",
        "apache-airflow-providers-google",
        {"job": {}, "asynchronous": False, "deferrable": True},
        _dataproc,
        needs=("cluster_name",),
    ),
    "kubernetes": Platform(
        "airflow.providers.cncf.kubernetes.operators.pod.KubernetesPodOperator",
        "apache-airflow-providers-cncf-kubernetes",
        {"deferrable": True, "durable": False, "do_xcom_push": False},
        _kubernetes,
        has_jobs=False,
    ),
}

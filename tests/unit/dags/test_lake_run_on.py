"""The job of each platform, in the arguments of the platform's operator. No Airflow."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lake_files import BrokenFile, LakeFile, read_lake_file
from lake_run_on import PLATFORMS, Job, RunOn
from lakeaudit.config.file import RunOn as CheckedRunOn

AUDIT = Job(
    "lakeaudit audit shop", "audit", [], ["--run-id", "r 1", "--status-file", "s3://st/1.json"],
    {"spark.executor.memory": "4g"},
)  # fmt: skip
APPLY = Job("lakeaudit apply shop", "reconcile", ["apply", "--lake"], ["s3://r/plan.jsonl"], {})
AFTER = ["--run-id", "r 1", "--status-file", "s3://st/1.json"]


def on(kind: str, **arguments: Any) -> RunOn:
    return RunOn(kind, "s3://code/jobs/", "s3://code/shop.yaml", arguments)


SUBMIT = ["spark-submit", "--deploy-mode", "cluster"]


@pytest.mark.parametrize(
    ("run_on", "job", "rendered"),
    [
        (
            on("emr", job_flow_id="j-1"),
            AUDIT,
            {"steps": [{
                "Name": "lakeaudit audit shop", "ActionOnFailure": "CONTINUE",
                "HadoopJarStep": {"Jar": "command-runner.jar", "Args": [
                    *SUBMIT, "--conf", "spark.executor.memory=4g", "--files", "s3://code/shop.yaml",
                    "s3://code/jobs/audit.py", "shop.yaml", *AFTER,
                ]},
            }]},
        ),
        (
            on("emr", job_flow_id="j-1"),
            APPLY,
            {"steps": [{
                "Name": "lakeaudit apply shop", "ActionOnFailure": "CONTINUE",
                "HadoopJarStep": {"Jar": "command-runner.jar", "Args": [
                    *SUBMIT, "--files", "s3://code/shop.yaml", "s3://code/jobs/reconcile.py",
                    "apply", "--lake", "shop.yaml", "s3://r/plan.jsonl",
                ]},
            }]},
        ),
        (
            on("emr_serverless", application_id="a", execution_role_arn="arn:aws:iam::1:role/r"),
            AUDIT,
            {"job_driver": {"sparkSubmit": {
                "entryPoint": "s3://code/jobs/audit.py", "entryPointArguments": ["shop.yaml", *AFTER],
                "sparkSubmitParameters": "--conf spark.executor.memory=4g --files s3://code/shop.yaml",
            }}},
        ),
        (
            on("databricks", existing_cluster_id="c"),
            APPLY,
            {"run_name": "lakeaudit apply shop", "spark_python_task": {
                "python_file": "s3://code/jobs/reconcile.py",
                "parameters": ["apply", "--lake", "s3://code/shop.yaml", "s3://r/plan.jsonl"],
            }},
        ),
        (
            on("databricks", new_cluster={"num_workers": 2, "spark_conf": {"a": "b"}}),
            AUDIT,
            {"run_name": "lakeaudit audit shop",
             "new_cluster": {"num_workers": 2, "spark_conf": {"a": "b", "spark.executor.memory": "4g"}},
             "spark_python_task": {
                "python_file": "s3://code/jobs/audit.py", "parameters": ["s3://code/shop.yaml", *AFTER],
            }},
        ),
        (
            on("dataproc", cluster_name="c"),
            AUDIT,
            {"job": {"placement": {"cluster_name": "c"}, "pyspark_job": {
                "main_python_file_uri": "s3://code/jobs/audit.py", "args": ["shop.yaml", *AFTER],
                "file_uris": ["s3://code/shop.yaml"], "properties": {"spark.executor.memory": "4g"},
            }}},
        ),
        (
            RunOn("kubernetes", "", "/etc/shop.yaml", {"image": "i"}),
            AUDIT,
            {"cmds": ["lakeaudit"], "arguments": ["audit", "/etc/shop.yaml", *AFTER]},
        ),
        (
            RunOn("kubernetes", "", "/etc/shop.yaml", {"image": "i"}),
            APPLY,
            {"cmds": ["lakeaudit"],
             "arguments": ["reconcile", "apply", "--lake", "/etc/shop.yaml", "s3://r/plan.jsonl"]},
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, RunOn) else "",
)  # fmt: skip
def test_the_job_of_a_platform(run_on: RunOn, job: Job, rendered: dict[str, Any]) -> None:
    assert PLATFORMS[run_on.kind].render(run_on, job) == rendered


UPLOADED = "s3://st/shop.yaml"


@pytest.mark.parametrize("kind", sorted(PLATFORMS))
def test_an_uploaded_lake_file_is_read_where_it_is(kind: str) -> None:
    """No platform gets the lake file as a file of its own."""
    on_platform = RunOn(kind, "s3://code/jobs", "", {"cluster_name": "c"})
    words = repr(PLATFORMS[kind].render(on_platform, replace(AUDIT, uploaded=UPLOADED)))
    assert words.count("shop.yaml") == words.count(UPLOADED) == 1
    assert "--files" not in words


def test_hostile_words_stay_one_argument() -> None:
    job = Job("n", "audit", [], [], {"spark.x": "a b; $(rm) 'q'"})
    submit = PLATFORMS["emr_serverless"].render(on("emr_serverless"), job)["job_driver"]["sparkSubmit"]
    assert (
        submit["sparkSubmitParameters"]
        == "--conf 'spark.x=a b; $(rm) '\"'\"'q'\"'\"'' --files s3://code/shop.yaml"
    )


def test_both_readers_know_the_same_platforms_and_keys() -> None:
    kinds = CheckedRunOn.model_json_schema()["properties"]["kind"]["enum"]
    assert sorted(kinds) == sorted(PLATFORMS)
    assert set(CheckedRunOn.model_fields) == set(RunOn.__dataclass_fields__)


BLOCK = "kind: emr, jobs: 's3://c/jobs', lake_file: 's3://c/shop.yaml'"


def read(folder: Path, airflow: str) -> LakeFile | BrokenFile:
    (folder / "shop.yaml").write_text(f"lake: shop\nairflow: {{{airflow}}}\n")
    return read_lake_file(folder / "shop.yaml")


def test_a_platform_of_a_lake_file(tmp_path: Path) -> None:
    found = read(tmp_path, f"status: s3://s/, run_on: {{{BLOCK}, arguments: {{job_flow_id: j-1}}}}")
    assert isinstance(found, LakeFile)
    assert found.run_on == RunOn("emr", "s3://c/jobs", "s3://c/shop.yaml", {"job_flow_id": "j-1"})


def test_a_platform_without_a_copy_of_the_lake_file(tmp_path: Path) -> None:
    found = read(tmp_path, "status: s3://s/, run_on: {kind: emr, jobs: 's3://c/jobs'}")
    assert isinstance(found, LakeFile)
    assert found.run_on == RunOn("emr", "s3://c/jobs", "", {})


def test_lists_of_tables_are_not_uploaded(tmp_path: Path) -> None:
    found = read(
        tmp_path, "status: s3://s/, run_on: {kind: emr, jobs: 's3://c/jobs'}}\ninclude: {a: tables/*.yaml"
    )
    assert isinstance(found, BrokenFile)
    assert found.reason.startswith("airflow.run_on needs lake_file, because the file has an include")


@pytest.mark.parametrize(
    ("airflow", "reason"),
    [
        (f"run_on: {{{BLOCK}}}", "airflow.run_on needs airflow.status: a folder that"),
        ("status: s3://s/, run_on: emr", "airflow.run_on must be a mapping"),
        ("status: s3://s/, run_on: {kind: emr}", "airflow.run_on.jobs must be a text"),
        (f"status: s3://s/, run_on: {{{BLOCK.replace('emr', 'glue')}}}", "airflow.run_on.kind must be one of emr, "),
        (f"status: s3://s/, run_on: {{{BLOCK}, options: {{}}}}", "airflow.run_on.options is not known: write one of"),
        (f"status: s3://s/, run_on: {{{BLOCK}, arguments: [x]}}", "airflow.run_on.arguments must be a mapping"),
        (
            f"status: s3://s/, run_on: {{{BLOCK.replace('emr', 'dataproc')}}}",
            "airflow.run_on.arguments needs cluster_name for dataproc",
        ),
        (
            "status: gs://s/, run_on: {kind: databricks, jobs: 's3://c/jobs'}",
            "airflow.run_on needs lake_file, because the file has an airflow.status that is not on S3",
        ),
        *(
            (
                f"status: s3://s/, spark_conf: {{a: b}}, run_on: {{{BLOCK.replace('emr', kind)}}}",
                f"airflow.spark_conf does not reach {kind}",
            )
            for kind in ("kubernetes", "databricks")
        ),
    ],
)  # fmt: skip
def test_a_platform_that_cannot_be_used(tmp_path: Path, airflow: str, reason: str) -> None:
    found = read(tmp_path, airflow)
    assert isinstance(found, BrokenFile)
    assert found.reason.startswith(reason)

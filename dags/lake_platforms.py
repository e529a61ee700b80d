"""Builds the tasks of a lake: by spark-submit, or by the operator of the platform in `airflow.run_on`."""

from importlib import import_module
from types import new_class
from typing import Any

from airflow.sdk import BaseOperator

from lake_airflow import AirflowFailException, has_durable
from lake_check import write_s3
from lake_files import LakeFile
from lake_outcomes import Step
from lake_run_on import PLATFORMS, Job
from lake_steps import LakeStep, LakeTask, first_line, job_name, words_before


def lake_step(*, lake: LakeFile, step: Step, **options: Any) -> BaseOperator:
    """Return the task of one step.

    Raises:
        ValueError: the operator of the platform is not installed, or refuses its arguments.
    """
    if lake.run_on is None:
        return LakeStep(lake=lake, step=step, **options)
    platform = PLATFORMS[lake.run_on.kind]
    operator = _operator(lake.run_on.kind)
    fixed = {
        name: value for name, value in platform.fixed.items() if name != "durable" or has_durable(operator)
    }
    given = {name: value for name, value in lake.run_on.arguments.items() if name not in platform.needs}
    task = new_class("LakePlatformStep", (LakePlatformTask, operator))(
        **{**fixed, **given},
        task_id=step.name,
        doc=f"lakeaudit {step.name} {step.does}",
        pool=lake.pool,
        **options,
    )
    task.lake, task.step = lake, step
    return task


def _operator(kind: str) -> type:
    platform = PLATFORMS[kind]
    module, _, name = platform.operator.rpartition(".")
    try:
        operator: type = getattr(import_module(module), name)
    except ImportError as error:
        raise ValueError(f"run_on {kind} needs the package {platform.package} ({error})") from error
    return operator


def _upload(lake: LakeFile) -> str:
    """Upload the lake file as it is now, and return its address; empty if `run_on.lake_file` names a copy."""
    if lake.run_on is None or lake.run_on.lake_file or lake.status is None:
        return ""
    place = f"{lake.status.rstrip('/')}/{lake.path.name}"
    write_s3(place, lake.path.read_bytes(), lake.s3)
    return place


class LakePlatformTask(LakeTask):
    """One step of a lake's DAG, by the operator of a platform."""

    def _run(self, context: Any, options: list[str]) -> str | None:
        on, step, lake = self.lake.run_on, self.step, self.lake
        if on is None:
            raise AirflowFailException(f"{lake.path.name} names no platform")
        job = Job(
            job_name(lake, step),
            step.job or step.name,
            words_before(step),
            options,
            lake.spark_conf,
            _upload(lake),
        )
        for name, value in PLATFORMS[on.kind].render(on, job).items():
            setattr(self, name, value)
        try:
            super(LakeTask, self).execute(context)  # type: ignore[misc]  # the operator is the next base class
        except Exception as error:  # noqa: BLE001 - each platform has its own errors; the status file decides
            return first_line(error)
        return None

"""Builds the tasks of a lake: by spark-submit, or by the operator of the platform in `airflow.run_on`."""

from importlib import import_module
from types import new_class
from typing import Any

from airflow.sdk import BaseOperator

from lake_airflow import AirflowFailException, has_durable
from lake_check import write_s3
from lake_files import LakeFile
from lake_links import links
from lake_outcomes import AUDIT, Step
from lake_pages import pages_of
from lake_run_on import PLATFORMS, Job
from lake_steps import LakeStep, LakeTask, first_line, job_name, status_place, words_before


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
    task_class = new_class("LakePlatformStep", (LakePlatformTask, operator), exec_body=_with_links(operator))
    task = task_class(
        **{**fixed, **given},
        task_id=step.name,
        doc=f"lakeaudit {step.name} {step.does}",
        pool=lake.pool,
        **options,
    )
    task.lake, task.step = lake, step
    return task


def _with_links(operator: Any) -> Any:
    """Return what adds the links to the dashboard to those of the operator."""

    def operator_extra_links(task: Any) -> Any:
        own = operator.operator_extra_links
        own = own.__get__(task) if isinstance(own, property) else own
        step = getattr(task, "step", None)
        return (*own, *links(getattr(task, "lake", None), of_audit=step is AUDIT))

    return lambda body: body.update(operator_extra_links=property(operator_extra_links))


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
        return _failure(super(LakeTask, self).execute, context)  # type: ignore[misc]  # the operator is the next base

    def resume_execution(self, next_method: str, next_kwargs: Any, context: Any) -> Any:
        """Continue when the trigger has seen the end of the job, and judge its status file."""
        if next_method == "execute":  # EMR Serverless: only its application has started
            return self.execute(context)
        self.pages = pages_of(self.lake, self.step, context["params"], None)
        resume = super(LakeTask, self).resume_execution  # type: ignore[misc]
        failure = _failure(resume, next_method, next_kwargs, context)
        with status_place(self.lake, context) as place:
            return self.judged(context, place, failure)

    def _place_of_commands(self) -> str:
        on = self.lake.run_on
        place = (on and on.lake_file) or f"{(self.lake.status or '').rstrip('/')}/{self.lake.path.name}"
        return f"Commands of this task can name the lake file {place}, where its place can be read"


def _failure(run: Any, *arguments: Any) -> str | None:
    """Return the error of an operator, None if it succeeded; one that waits for its trigger goes on to wait."""
    try:
        run(*arguments)
    except Exception as error:  # noqa: BLE001 - each platform has its own errors; the status file decides
        return first_line(error)
    return None

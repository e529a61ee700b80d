"""Runs one lakeaudit command as a task, and judges it by its status file.

In cluster modes exit codes are lost, and in client mode they do not separate findings from all failures. A small
command runs without Spark on a worker that has lakeaudit, unless the driver runs on a cluster: only there it can check
the access of the audit.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname
from typing import Any
from urllib.parse import quote

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.hooks.subprocess import SubprocessHook

from lake_airflow import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    BaseHook,
    has_durable,
)
from lake_check import read_s3
from lake_files import LakeFile
from lake_levels import LineLevels
from lake_links import links
from lake_outcomes import (
    APPLY,
    AUDIT,
    DOCTOR,
    PLAN,
    REPORT,
    DagRun,
    Step,
    Verdict,
    apply_arguments,
    arguments,
    is_published,
    judge,
    table_events,
)
from lake_pages import PAGE, pages_of

CHECKOUT = Path(__file__).resolve().parents[1]
PREPARED = CHECKOUT / ".venv" / "spark-conf" / "spark-submit"
"""The spark-submit that `make install` writes, with the settings of this checkout."""

PYTHON = CHECKOUT / ".venv" / "bin" / "python"
"""The Python with lakeaudit that `make install` sets up."""

APPROVAL = "approve"
"""The task in which a person approves or rejects a plan."""
PLAN_FIELDS = (
    "plan",
    "plan_id",
    "digest",
    "steps",
    "for_person",
    "actions",
    "counts",
    "exit_code",
    "verdict",
)
AUDIT_FIELDS = (
    "run_id",
    "status",
    "exit_code",
    "findings",
    "severities",
    "unaccepted",
    "coverage_lost",
    "states",
)
NOTE = "note"
"""Key of the XCom with the findings and gaps after which a task is green, or with the reason why it is red.

Airflow lets no task write its own note.
"""
ERRORS: Mapping[str, type[AirflowException]] = {
    "fail": AirflowFailException,
    "retry": AirflowException,
    "skip": AirflowSkipException,
}
"""How a task ends that does not succeed."""


class LakeTask:
    """Runs one command of a lake by an operator of Airflow, its other base class, and judges it by its status file."""

    lake: LakeFile
    step: Step
    log: Any
    pages: Mapping[str, str] = {}
    """Addresses in the dashboard by the names of the links."""

    def execute(self, context: Any) -> dict[str, Any] | None:
        """Run the command, wait, and end as the status file requires; the outcome goes to XCom."""
        ti = context["ti"]
        self.pages = pages_of(self.lake, self.step, context["params"], None)
        if self.step is REPORT:
            audit_outcome(ti)
        self._prepare()
        with status_place(self.lake, context) as place:
            failure = self._run(context, self._arguments(context, place)[1:])
            return self.judged(context, place, failure)

    def judged(self, context: Any, place: str, failure: str | None) -> dict[str, Any] | None:
        """End the task as its status file and the error of the process require."""
        ti, status = context["ti"], _read(place, self.lake)
        last_try = ti.try_number > ti.max_tries
        verdict = judge(self.step, status, failure, self.lake.fail_on, last_try=last_try)
        outcome = self._outcome(status or {})
        self.pages = pages_of(self.lake, self.step, context["params"], outcome)
        self.log.info("%s", self._place_of_commands())
        return self._end(verdict, outcome, ti)

    def _place_of_commands(self) -> str:
        """Return where the commands in the log can be run: they name the lake file as the process knew it."""
        return f"Run commands of this log on {gethostname()}, where the lake file is {self.lake.path}"

    def _prepare(self) -> None:
        """Check the settings of Airflow."""

    def _run(self, context: Any, options: list[str]) -> str | None:
        """Run the command with the arguments that follow the lake file; return the error, None if it succeeded."""
        raise NotImplementedError

    def _end(self, verdict: Verdict, outcome: dict[str, Any] | None, ti: Any) -> dict[str, Any] | None:
        """End the task as the verdict requires, with its outcome and its note in XCom."""
        if verdict.action == "fail" and outcome is not None:
            ti.xcom_push(key="return_value", value=outcome)  # a task that fails returns nothing
        if (error := ERRORS.get(verdict.action)) is not None:
            page = self.pages.get(PAGE)
            if verdict.action == "fail" and verdict.note:
                ti.xcom_push(key=NOTE, value=verdict.note)
            raise error(f"{verdict.words}; page: {page}" if page else verdict.words)
        self.log.info("%s", verdict.words)
        for name, address in self.pages.items():
            self.log.info("%s: %s", name, address)
        if note := verdict.note or (self.lake.pool_note if self.step is DOCTOR else ""):
            self.log.warning("%s", note)
            ti.xcom_push(key=NOTE, value=note)
        return outcome

    def _arguments(self, context: Any, status: str) -> list[str]:
        if self.step is not APPLY:
            return arguments(self.step, self.lake, _dag_run(context), status)
        plan, approved = (context["ti"].xcom_pull(task_ids=name) or {} for name in (PLAN.name, APPROVAL))
        return apply_arguments(self.lake, plan, approved, status)

    def _outcome(self, status: dict[str, Any]) -> dict[str, Any] | None:
        if self.step in (PLAN, APPLY):
            return {name: status.get(name) for name in PLAN_FIELDS}
        if self.step is not AUDIT:
            return None
        answers, left_out = table_events(status)
        fields = {name: status.get(name) for name in AUDIT_FIELDS}
        return {**fields, "answers": answers, "answers_left_out": left_out}


class LakeStep(LakeTask, SparkSubmitOperator):
    """One step of a lake's DAG, by spark-submit or as a plain program."""

    def __init__(self, *, lake: LakeFile, step: Step, **options: Any) -> None:
        binary = str(PREPARED) if PREPARED.is_file() else shutil.which("spark-submit") or "spark-submit"
        super().__init__(
            task_id=step.name,
            doc=f"lakeaudit {step.name} {step.does}",
            application=_application(step),
            name=job_name(lake, step),
            conn_id=lake.connection,
            conf=dict(lake.spark_conf),
            spark_binary=binary,
            pool=lake.pool,
            # a successful job may need a retry: the status file decides
            **({"durable": False} if has_durable(SparkSubmitOperator) else {}),
            **options,
        )
        self.lake = lake
        self.step = step
        self.pages = {}
        self.on_cluster = False
        self.process: SubprocessHook | None = None

    @property
    def operator_extra_links(self) -> Any:
        """Return the links to the dashboard."""
        return links(getattr(self, "lake", None), of_audit=getattr(self, "step", None) is AUDIT)

    def _get_hook(self) -> Any:
        return _with_levels(super()._get_hook())

    def on_kill(self) -> None:
        """End the command."""
        if self.process is not None:
            self.process.send_sigterm()
        else:
            super().on_kill()

    def _prepare(self) -> None:
        self.on_cluster = self._driver_is_elsewhere()
        if self.on_cluster:
            self.files = str(self.lake.path)

    def _run(self, context: Any, options: list[str]) -> str | None:
        file = self.lake.path.name if self.on_cluster else str(self.lake.path)
        self.application_args = [*words_before(self.step), file, *options]
        program = _program(self.step) if self.step.small and not self.on_cluster else ()
        try:
            if not program:
                SparkSubmitOperator.execute(self, context)
                return None
            self.process = _with_levels(SubprocessHook())
            code = self.process.run_command([*program, *self.application_args]).exit_code
        except AirflowException as error:
            return first_line(error)
        return f"exit code {code}" if code else None

    def _driver_is_elsewhere(self) -> bool:
        """Return whether the driver runs elsewhere; fail without a connection, where Airflow would use `yarn`."""
        name = self.lake.connection
        try:
            connection = BaseHook.get_connection(name)
        except AirflowNotFoundException:
            hint = f"airflow connections add {name} --conn-type spark --conn-host 'local[*]'"
            raise AirflowFailException(
                f"Airflow has no connection {name}: add it, for example by `{hint}`"
            ) from None
        extra = connection.extra_dejson
        mode = self.lake.spark_conf.get("spark.submit.deployMode") or extra.get("deploy-mode") or "client"
        if mode == "cluster" and self.lake.status is None:
            what = f"{name} submits in cluster mode, where the outcome is lost"
            raise AirflowFailException(
                f"{what}: set `airflow.status` of {self.lake.path.name} to s3://bucket/folder/"
            )
        return bool(mode == "cluster")


def _with_levels(hook: Any) -> Any:
    """Let a hook log the lines of its process at their own levels."""
    hook._log = LineLevels(hook.log)
    return hook


def job_name(lake: LakeFile, step: Step) -> str:
    """Return the name of a command for people."""
    return f"lakeaudit {step.name} {lake.lake}"


def words_before(step: Step) -> list[str]:
    """Return the arguments before the lake file."""
    if step is APPLY:
        return ["apply", "--lake"]
    return ["plan"] if step is PLAN else []


def first_line(error: Exception) -> str:
    """Return the first line of an error of an operator."""
    return (str(error).splitlines() or [type(error).__name__])[0][:500]


def audit_outcome(ti: Any) -> dict[str, Any]:
    """Return the outcome of the task `audit`; skip the task if this DAG run has published no audit."""
    outcome: dict[str, Any] | None = ti.xcom_pull(task_ids=AUDIT.name)
    if outcome is None or not is_published(outcome):
        raise AirflowSkipException("this DAG run has published no audit")
    return outcome


def _dag_run(context: Any) -> DagRun:
    run = context["dag_run"]
    end = run.data_interval_end if run.run_type == "backfill" else None
    return DagRun(
        run.dag_id, run.run_id, context["params"], run.clear_number or 0, end.isoformat() if end else None
    )


def _application(step: Step) -> str:
    return str(CHECKOUT / "jobs" / f"{step.job or step.name}.py")


def _program(step: Step) -> tuple[str, ...]:
    """Return the command of a step without Spark; empty if this worker has no lakeaudit."""
    if PYTHON.is_file():
        return str(PYTHON), _application(step)
    program = shutil.which("lakeaudit")
    return (program, step.name) if program else ()


@contextmanager
def status_place(lake: LakeFile, context: Any) -> Iterator[str]:
    """Yield the path of a status file for this try only, so that an older file is not read."""
    ti = context["ti"]
    if lake.status is None:
        with tempfile.TemporaryDirectory(prefix="lakeaudit-") as folder:
            yield str(Path(folder) / "status.json")
        return
    folder = f"{lake.status.rstrip('/')}/{ti.dag_id}/{quote(ti.run_id, safe='')}"
    if not lake.status.startswith("s3"):
        Path(folder.removeprefix("file://")).mkdir(parents=True, exist_ok=True)
    yield f"{folder.removeprefix('file://')}/{ti.task_id}-{ti.try_number}.json"


def _read(place: str, lake: LakeFile) -> dict[str, Any] | None:
    """Return the content of the status file; None if there is none."""
    try:
        text = read_s3(place, lake.s3) if place.startswith("s3") else Path(place).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    status = json.loads(text)
    return status if isinstance(status, dict) else None

"""Runs one lakeaudit command by spark-submit as a task, and judges it by its status file.

In cluster modes exit codes are lost, and in client mode they do not separate findings from all failures.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, AssetAlias, BaseHook
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)

from lake_check import read_s3
from lake_files import LakeFile
from lake_gate import table_asset
from lake_outcomes import APPLY, AUDIT, PLAN, Step, apply_arguments, arguments, judge, table_events

CHECKOUT = Path(__file__).resolve().parents[1]
PREPARED = CHECKOUT / ".venv" / "spark-conf" / "spark-submit"
"""The spark-submit that `make install` writes, with the settings of this checkout."""

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
AUDIT_FIELDS = ("run_id", "status", "exit_code", "findings", "severities", "states")


class LakeStep(SparkSubmitOperator):
    """One step of a lake's DAG."""

    def __init__(self, *, lake: LakeFile, step: Step, **options: Any) -> None:
        binary = str(PREPARED) if PREPARED.is_file() else shutil.which("spark-submit") or "spark-submit"
        super().__init__(
            task_id=step.name,
            doc=f"lakeaudit {step.name} {step.does}",
            application=str(CHECKOUT / "jobs" / f"{step.job or step.name}.py"),
            name=f"lakeaudit {step.name} {lake.lake}",
            conn_id=lake.connection,
            conf=dict(lake.spark_conf),
            spark_binary=binary,
            durable=False,  # a successful job may need a retry: the status file decides
            **options,
        )
        self.lake = lake
        self.step = step

    def execute(self, context: Any) -> dict[str, Any] | None:
        """Submit, wait, and end as the status file requires; the outcome goes to XCom and the asset."""
        on_cluster = self._on_cluster()
        if on_cluster:
            self.files = str(self.lake.path)
        with _status_place(self.lake, context) as place:
            file, *options = self._arguments(context, place)
            self.application_args = self._before(self.lake.path.name if on_cluster else file) + options
            failure = self._submit(context)
            status = _read(place, self.lake)
        verdict = judge(self.step, status, failure)
        if verdict.action == "fail":
            raise AirflowFailException(verdict.words)
        if verdict.action == "retry":
            raise AirflowException(verdict.words)
        if verdict.action == "skip":
            raise AirflowSkipException(verdict.words)
        self.log.info("%s", verdict.words)
        return self._publish_outcome(status or {}, context)

    def _arguments(self, context: Any, status: str) -> list[str]:
        if self.step is not APPLY:
            return arguments(self.step, self.lake, context["params"], status)
        plan, approved = (context["ti"].xcom_pull(task_ids=name) or {} for name in (PLAN.name, APPROVAL))
        return apply_arguments(self.lake, plan, approved, status)

    def _before(self, lake_file: str) -> list[str]:
        """Return the arguments up to the lake file."""
        if self.step is APPLY:
            return ["apply", "--lake", lake_file]
        return ["plan", lake_file] if self.step is PLAN else [lake_file]

    def _submit(self, context: Any) -> str | None:
        """Submit, and return the error; None if it succeeded."""
        try:
            super().execute(context)
        except AirflowException as error:
            return str(error).splitlines()[0][:500]
        return None

    def _on_cluster(self) -> bool:
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

    def _publish_outcome(self, status: dict[str, Any], context: Any) -> dict[str, Any] | None:
        if self.step not in (AUDIT, PLAN, APPLY):
            return None
        if self.step is not AUDIT:
            return {name: status.get(name) for name in PLAN_FIELDS}
        outcome = {name: status.get(name) for name in AUDIT_FIELDS}
        for asset in self.outlets:
            if isinstance(asset, AssetAlias):
                self._publish_tables(status, context["outlet_events"][asset])
            else:
                context["outlet_events"][asset].extra = outcome
        return outcome

    def _publish_tables(self, status: dict[str, Any], events: Any) -> None:
        """Add an event for the asset of each table that the audit judged."""
        answers, left_out = table_events(status)
        for name, answer in answers.items():
            events.add(table_asset(self.lake.lake, name), extra=answer)
        if left_out:
            self.log.warning("%s more tables of airflow.assets have no event: there are too many", left_out)


def discrepancies(lake: LakeFile) -> Asset:
    """Return the asset that signals a change of the ledger to other DAGs."""
    name = f"{lake.dag_id}.discrepancies"
    if lake.results is None:
        return Asset(name)
    return Asset(
        name, uri=f"{lake.results}/discrepancies?lake={lake.lake}"
    )  # several lakes may share a place


def outlets(lake: LakeFile) -> list[Asset | AssetAlias]:
    """Return what an audit updates: the asset of the ledger, and the assets of single tables by an alias."""
    return [discrepancies(lake), *([AssetAlias(f"{lake.dag_id}.tables")] if lake.assets else [])]


@contextmanager
def _status_place(lake: LakeFile, context: Any) -> Iterator[str]:
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

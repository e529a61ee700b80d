"""Gates pipelines on the audit of a table: the sensor `TableOk`, and the asset of a table, `table_asset`.

Copy this file and `lake_check.py` into the DAG folder of another Airflow, or import them here. They need neither
lakeaudit nor Spark: they read the check file that every audit writes. For `s3://` they need boto3.

While the sensor waits, only a trigger of Airflow itself is in the triggerer: that process cannot import from DAG
folders, and its loop never waits for storage.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NoReturn
from urllib.parse import quote

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import Asset, BaseSensorOperator

try:
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowSensorTimeout,
        TaskDeferred,
    )
except ImportError:  # Airflow 3.0
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout, TaskDeferred

from lake_check import DISCREPANCIES, OK, SEVERITIES, UNKNOWN, Demand, answer_of, read_check_file, time_of

OnBad = Literal["wait", "fail"]


def table_asset(lake: str, table: str) -> Asset:
    """Return the asset of a table; audits update it unless `airflow.assets` of the lake file leaves the table out."""
    return Asset(f"lakeaudit://{quote(lake, safe='')}/{quote(table, safe='')}")


class TableOk(BaseSensorOperator):
    """Succeeds when the last audit says that a table may be used; it frees its worker while it waits.

    Args:
        lake: the check file (`s3://audit-results/shop/check/shop.json`, `gs://...`, a path), or the path of a lake
            file that names its results without variables.
        table: name of the table.
        min_severity: severity from which open discrepancies count.
        judged: share of the files that are not too young which the audit must have judged, such as 0.99.
        max_age: oldest usable audit; default: `overdue` of the lake file.
        after: time (or template) of the storage snapshot that the audit must have used, or of a later one.
        verified_through: time (or template) up to which all commits must be verified, as `lakeaudit verified` answers.
        on_unknown: wait for the next audit, or fail if nobody can tell.
        on_discrepancies: fail at once and for good, or wait until they are resolved.
        conn_id: connection for the check file; default: the credentials of the environment.
        poke_interval, timeout, soft_fail: those of every sensor.
    """

    template_fields = ("lake", "table", "after", "verified_through")

    def __init__(
        self,
        *,
        lake: str,
        table: str,
        min_severity: str = "error",
        judged: float = 1.0,
        max_age: timedelta | None = None,
        after: str | datetime | None = None,
        verified_through: str | datetime | None = None,
        on_unknown: OnBad = "wait",
        on_discrepancies: OnBad = "fail",
        conn_id: str | None = None,
        poke_interval: timedelta | float = 300,
        **options: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **options)
        _require("min_severity", min_severity, SEVERITIES)
        _require("on_unknown", on_unknown, ("wait", "fail"))
        _require("on_discrepancies", on_discrepancies, ("wait", "fail"))
        if not 0 < judged <= 1:
            raise ValueError(f"judged is {judged}: write a share above 0 and up to 1")
        self.lake, self.table = lake, table
        self.after, self.verified_through = after, verified_through
        self.min_severity, self.judged, self.max_age = min_severity, judged, max_age
        self.on_unknown, self.on_discrepancies, self.conn_id = on_unknown, on_discrepancies, conn_id

    def execute(self, context: Any) -> Any:
        """Look once, and wait if it is necessary."""
        started = datetime.now(UTC).isoformat()
        return self.resume_execution("look", {"started": started}, context)  # it handles soft_fail

    def look(self, context: Any, started: str, event: Any = None) -> dict[str, str]:  # noqa: ARG002
        """Return the answer of the check file if the table may be used; fail or wait if not."""
        now = datetime.now(UTC)
        answer, line = self._answer(now)
        line = f"{ascii(self.table)[1:-1]}: {line}"
        if answer != OK:
            self._fail_or_wait(answer, line, started, now)
        return {"answer": answer, "line": line}

    def _fail_or_wait(self, answer: str, line: str, started: str, now: datetime) -> NoReturn:
        if answer == DISCREPANCIES and self.on_discrepancies == "fail":
            raise AirflowFailException(line)
        if answer == UNKNOWN and self.on_unknown == "fail":
            raise AirflowException(line)
        if now >= datetime.fromisoformat(started) + timedelta(seconds=self.timeout):
            raise AirflowSensorTimeout(f"{line}; waited since {started}")
        self.log.info("%s: %s; the next look is in %s s", answer, line, self.poke_interval)
        moment = now + timedelta(seconds=self.poke_interval)
        raise TaskDeferred(trigger=DateTimeTrigger(moment), method_name="look", kwargs={"started": started})

    def _answer(self, now: datetime) -> tuple[str, str]:
        try:
            content = read_check_file(self.lake, self.conn_id)
            times = time_of(self.after), time_of(self.verified_through)
            demand = Demand(self.min_severity, self.judged, self.max_age, *times)
            return answer_of(content, self.table, demand, now)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody can tell
            return UNKNOWN, f"{self.lake} cannot be used ({type(error).__name__}: {error})"


def _require(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: write one of {', '.join(allowed)}")

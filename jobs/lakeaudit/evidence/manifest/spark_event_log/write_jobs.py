"""Turn the events of one application into its writes: pure.

Events are those of Spark's `JsonProtocol` (Spark 3.1 to 4.1), one JSON object in each line. Sizes, rows and files are
those of task commit messages and of the job's own totals: none of them comes from a listing of the output.

* `SparkListenerSQLExecutionStart` has the plan, whose node `Execute InsertIntoHadoopFsRelationCommand` names the output
  path, the static partition, the save mode and the format, and has the ids of the job's totals.
* `SparkListenerJobStart` maps stages to executions.
* `SparkListenerTaskEnd` has split, attempt, outcome, and bytes and records written.
* `SparkListenerDriverAccumUpdates` has the totals, once the job is committed.
* `SparkListenerSQLExecutionEnd` has the job's end, and since Spark 3.4 the message of an error.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_SQL = "org.apache.spark.sql.execution.ui."
EXECUTION_START, EXECUTION_END = (
    f"{_SQL}SparkListenerSQLExecutionStart",
    f"{_SQL}SparkListenerSQLExecutionEnd",
)
TOTALS = f"{_SQL}SparkListenerDriverAccumUpdates"
JOB_START, JOB_END = "SparkListenerJobStart", "SparkListenerJobEnd"
TASK_END = "SparkListenerTaskEnd"
APPLICATION_START, APPLICATION_END = "SparkListenerApplicationStart", "SparkListenerApplicationEnd"
LOG_START, ENVIRONMENT = "SparkListenerLogStart", "SparkListenerEnvironmentUpdate"
_ASKED = frozenset(
    {EXECUTION_START, EXECUTION_END, TOTALS, JOB_START, JOB_END, TASK_END, APPLICATION_START, APPLICATION_END,
     LOG_START, ENVIRONMENT}
)  # fmt: skip
_NAME = re.compile(rb'^\s*\{\s*"Event"\s*:\s*"([^"]+)"')
_FIRST_ATTEMPT = b'"Attempt":0,'
_NUL = b"\x00"
"""JSON writes NUL as an escape."""
_WROTE_NOTHING = b'"Output Metrics":{"Bytes Written":0,"Records Written":0}'

INSERT = "Execute InsertIntoHadoopFsRelationCommand"
_INSERT = re.compile(
    rf"^{INSERT} (?P<path>.+?), (?:Map\((?P<fixed_before>[^)]*)\), )?(?P<unless_there>true|false), "
    r"(?:\[(?P<fixed>[^\]]*=[^\]]*)\], |Map\((?P<fixed_map>[^)]*)\), )?"
    r"(?:\[(?P<by>[^\]]*#[^\]]*)\], )?(?P<format>\w+), (?:\[(?P<options>.*?)\]|Map\((?P<options_map>.*?)\)), "
    r"(?P<mode>Append|Overwrite|ErrorIfExists|Ignore)\b",
    re.DOTALL,
)
"""The plan's node; before Spark 3.3 maps are written as `Map(path -> s3a://lake/t)`."""
_METRICS = {
    "number of written files": "files",
    "written output": "bytes",
    "number of output rows": "records",
    "number of dynamic part": "partitions",
}
_DYNAMIC = "partitionOverwriteMode"

SUCCEEDED, FAILED, UNFINISHED = "succeeded", "failed", "unfinished"


@dataclass(frozen=True)
class Split:
    """Holds the totals that one attempt of one task committed. `ended_at` is UTC."""

    number: int
    attempt: int
    records: int
    bytes: int
    ended_at: datetime | None


@dataclass
class WriteJob:
    """Describes one write of one application. Times are UTC.

    Attributes:
        path: the output path, as Spark writes it.
        mode: Append, Overwrite, ErrorIfExists or Ignore.
        fixed: the static partition of an INSERT, such as `d=1`; "" if there is none.
        by: whether the output has a folder for each value of partition columns.
        dynamic: whether an overwrite empties only the partitions that it writes; None if the log does not record it.
        outcome: succeeded, failed, or unfinished: its application, or the log, ended before the write.
        totals: files, bytes, records and partitions that the committed job counted; empty if it did not.
        splits: by number the attempts that committed rows or bytes, in the order of their ends.
        retried: numbers of splits with several attempts.
    """

    application: str
    execution: int
    path: str
    mode: str
    fixed: str
    by: bool
    format: str
    dynamic: bool | None
    started_at: datetime | None
    ended_at: datetime | None = None
    outcome: str = UNFINISHED
    totals: dict[str, int] = field(default_factory=dict)
    splits: dict[int, list[Split]] = field(default_factory=dict)
    retried: set[int] = field(default_factory=set)


@dataclass
class Application:
    """Collects the events of one application so far.

    `ended`: its log has an end. `version` is Spark's. Lines that are not events are counted in `rejected`, and `fault`
    describes the first; `unread` counts writes whose plan cannot be understood.
    """

    id: str = ""
    version: str = ""
    ended: bool = False
    lines: int = 0
    rejected: int = 0
    fault: str = ""
    unread: int = 0
    jobs: dict[int, WriteJob] = field(default_factory=dict)
    _default_dynamic: bool | None = None
    _execution_of_stage: dict[int, int] = field(default_factory=dict)
    _executions_of_job: dict[int, int] = field(default_factory=dict)
    _metrics: dict[int, dict[int, str]] = field(default_factory=dict)

    def take(self, lines: Iterable[bytes]) -> None:
        """Add the next lines of the log."""
        for line in lines:
            self.lines += 1
            event = self._event(line)
            if event is not None:
                self._handle(event)

    def writes(self) -> Iterator[WriteJob]:
        """Yield the writes, in the order of their starts."""
        for job in self.jobs.values():
            job.application = self.id
            yield job

    def _event(self, line: bytes) -> Mapping[str, Any] | None:
        # a zeroed block may include line ends, also of events that are not read
        if _NUL in line:
            self._reject("holds NUL bytes")
            return None
        named = _NAME.match(line)
        name = named[1].decode(errors="replace") if named else ""
        if named and (
            name not in _ASKED or (name == TASK_END and _WROTE_NOTHING in line and _FIRST_ATTEMPT in line)
        ):
            return None
        if not line.strip():
            return None
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            self._reject("is not a complete event" if named else "is not an event")
            return None
        if not isinstance(event, dict) or not isinstance(event.get("Event"), str):
            self._reject("is not an event")
            return None
        return event if event["Event"] in _ASKED else None

    def _reject(self, fault: str) -> None:
        self.rejected += 1
        self.fault = self.fault or f"line {self.lines} {fault}"

    def _handle(self, event: Mapping[str, Any]) -> None:
        try:
            _HANDLERS[event["Event"]](self, event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError):
            self._reject(
                f"has an event {str(event.get('Event')).rpartition('.')[2]} without a required field"
            )

    def _log_start(self, event: Mapping[str, Any]) -> None:
        self.version = _text(event["Spark Version"])

    def _application_start(self, event: Mapping[str, Any]) -> None:
        attempt = event.get("App Attempt ID")
        self.id = _text(event.get("App ID") or "") + (f"_{_text(attempt)}" if attempt else "")

    def _application_end(self, event: Mapping[str, Any]) -> None:  # noqa: ARG002 - every handler receives one
        self.ended = True

    def _environment(self, event: Mapping[str, Any]) -> None:
        given = event.get("Spark Properties") or {}
        pairs = dict(given) if not isinstance(given, Mapping) else given
        if (mode := pairs.get(f"spark.sql.sources.{_DYNAMIC}")) is not None:
            self._default_dynamic = str(mode).upper() == "DYNAMIC"

    def _execution_start(self, event: Mapping[str, Any]) -> None:
        for node in _nodes(event["sparkPlanInfo"]):
            if not node["simpleString"].startswith(INSERT):
                continue
            read = _INSERT.match(_text(node["simpleString"]))
            if read is None:
                self.unread += 1
                continue
            execution = int(event["executionId"])
            self.jobs[execution] = WriteJob(
                application=self.id,
                execution=execution,
                path=read["path"],
                mode=read["mode"],
                fixed=_static_partition(read),
                by=read["by"] is not None,
                format=read["format"].lower(),
                dynamic=self._dynamic(event, read["options"] or read["options_map"] or ""),
                started_at=_time(event["time"]),
            )
            self._metrics[execution] = {
                int(m["accumulatorId"]): _METRICS[m["name"]] for m in node["metrics"] if m["name"] in _METRICS
            }

    def _dynamic(self, event: Mapping[str, Any], options: str) -> bool | None:
        """Return the write's own option, else the session's changed setting, else the application's."""
        option = re.search(rf"(?i)\b{_DYNAMIC}(?:=| -> )(\w+)", options)
        changed = (event.get("modifiedConfigs") or {}).get(f"spark.sql.sources.{_DYNAMIC}")
        mode = option[1] if option else changed
        if mode is not None:
            return str(mode).upper() == "DYNAMIC"
        return self._default_dynamic or False

    def _execution_end(self, event: Mapping[str, Any]) -> None:
        job = self.jobs.get(int(event["executionId"]))
        if job is not None:
            job.ended_at = _time(event["time"])
            failed = job.outcome == FAILED or bool(event.get("errorMessage"))
            # before Spark 3.4 the end has no message: a committed job has counted its totals
            job.outcome = FAILED if failed or not (job.totals or "errorMessage" in event) else SUCCEEDED

    def _totals(self, event: Mapping[str, Any]) -> None:
        job = self.jobs.get(int(event["executionId"]))
        names = self._metrics.get(int(event["executionId"]), {})
        if job is not None:
            job.totals |= {
                names[int(n)]: _amount(value) for n, value in event["accumUpdates"] if int(n) in names
            }

    def _job_start(self, event: Mapping[str, Any]) -> None:
        execution = (event.get("Properties") or {}).get("spark.sql.execution.id")
        if execution is not None and int(execution) in self.jobs:
            self._executions_of_job[int(event["Job ID"])] = int(execution)
            self._execution_of_stage |= dict.fromkeys(map(int, event["Stage IDs"]), int(execution))

    def _job_end(self, event: Mapping[str, Any]) -> None:
        execution = self._executions_of_job.pop(int(event["Job ID"]), None)
        if execution is not None and event["Job Result"]["Result"] != "JobSucceeded":
            self.jobs[execution].outcome = FAILED

    def _task_end(self, event: Mapping[str, Any]) -> None:
        execution = self._execution_of_stage.get(int(event["Stage ID"]))
        if execution is None:
            return
        task = event["Task Info"]
        if int(task["Attempt"]) or int(event.get("Stage Attempt ID", 0)):
            self.jobs[execution].retried.add(_amount(task.get("Partition ID", task["Index"])))
        written = (event.get("Task Metrics") or {}).get("Output Metrics")
        if not written or event["Task End Reason"]["Reason"] != "Success":
            return
        records, size = _amount(written["Records Written"]), _amount(written["Bytes Written"])
        # Spark 3.3 numbers a task within its stage attempt, which may have fewer than there are splits
        number = _amount(task.get("Partition ID", task["Index"]))
        split = Split(number, int(task["Attempt"]), records, size, _time(task["Finish Time"]))
        if records or size:
            self.jobs[execution].splits.setdefault(number, []).append(split)


_HANDLERS = {
    LOG_START: Application._log_start,
    APPLICATION_START: Application._application_start,
    APPLICATION_END: Application._application_end,
    ENVIRONMENT: Application._environment,
    EXECUTION_START: Application._execution_start,
    EXECUTION_END: Application._execution_end,
    TOTALS: Application._totals,
    JOB_START: Application._job_start,
    JOB_END: Application._job_end,
    TASK_END: Application._task_end,
}


def _static_partition(read: re.Match[str]) -> str:
    """Return the static partition, as `d=1`."""
    by_map = read["fixed_map"] or read["fixed_before"] or ""
    return read["fixed"] or by_map.replace(" -> ", "=")


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node["children"]


def _time(millis: object) -> datetime | None:
    """Return the time from milliseconds since 1970; None if the log has none."""
    number = int(str(millis))
    return datetime.fromtimestamp(number / 1000, UTC) if number > 0 else None


MOST = 1 << 50
"""Most rows or bytes of a write; a larger number is invalid: a pebibyte."""


def _amount(value: Any) -> int:
    """Return a count of rows, bytes, files or splits.

    Raises:
        ValueError: the number is out of range.
    """
    number = int(value)
    if not 0 <= number <= MOST:
        raise ValueError(f"{number} is out of range")
    return number


def _text(value: Any) -> str:
    """Return a text that can be stored.

    Raises:
        ValueError: it has halves of characters.
    """
    text = str(value)
    text.encode()
    return text

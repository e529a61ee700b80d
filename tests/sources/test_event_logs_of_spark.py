"""Logs that Spark 3.3, 3.4 and 3.5 wrote, each in another codec; tests/spark writes those of 4.1.

Each log has the events of five writes, without stack traces, environment and metrics that are not used, and
packed again by that Spark's own codec; `stored.csv` is what lay in the output folders in the end. The writes: an append
of four tasks one of which had no rows, several files a task, partitions, a dynamic overwrite of one of them, and one
with FileOutputCommitter's algorithm 2 whose last task failed.
"""

import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.evidence.manifest.spark_event_log import log_files, names, stored_parts
from lakeaudit.evidence.manifest.spark_event_log.rows import Homes, application_of, rows_of
from lakeaudit.evidence.manifest.spark_event_log.write_jobs import Application
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time
from tests.builders.connections import connection

NEVER = datetime.max.replace(tzinfo=UTC)
"""When a log was written that puts no bound on its times."""
DATA = Path(__file__).parents[1] / "data" / "event_logs"
VERSIONS = ("3.3.4", "3.4.4", "3.5.7")
HOMES = {Location("lake", f"wh/{name}"): name for name in ("events", "events2", "days", "failed")}

Rows = dict[str, list[dict[str, Any]]]


def application(version: str) -> Application:
    (log,) = log_files.find(Clients(), Location.parse(str(DATA / version)))
    read, lacks = application_of(Clients(), log)
    assert (lacks, log.is_open, read.version) == (None, False, version)
    return read


def stored(version: str) -> dict[str, tuple[int, datetime]]:
    """Return size and time of the files that the writes left, by key."""
    with (DATA / version / "stored.csv").open() as file:
        return {
            row["key"]: (int(row["size"]), datetime.fromtimestamp(int(row["millis"]) / 1000, UTC))
            for row in csv.DictReader(file)
        }


def resolved(version: str, without: str = "?") -> Rows:
    """What the log's writes claim beside these objects but those whose key holds `without`."""
    con = connection()
    kept = {key: each for key, each in stored(version).items() if without not in key}
    objects = pa.table(
        {"bucket": ["lake"] * len(kept), "key": [f"wh/{key}" for key in kept],
         "reject": pa.nulls(len(kept), pa.string()), "size": [size for size, _ in kept.values()],
         "modified_at": pa.array([plain_time(at) for _, at in kept.values()], pa.timestamp("us")),
         "is_latest": [True] * len(kept), "is_delete_marker": [False] * len(kept)}
    )  # fmt: skip
    below = pa.table({"bucket": ["lake"], "prefix": ["wh/"]})
    rows: dict[str, duck.Rows] = dict(rows_of(application(version), Homes(HOMES), None, NEVER))
    rows["parts"] = stored_parts.parts(con, objects, below)
    return {kind: duck.rows_of(duck.relation(con, made)) for kind, made in names.resolved("m", con, rows)}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_its_writes_say(version: str) -> None:
    told = [
        (job.path.rpartition("/")[2], job.mode, job.by, job.dynamic, job.outcome, job.totals.get("records"),
         job.totals.get("files"), job.totals.get("partitions"), {n: each[-1].records for n, each in job.splits.items()})
        for job in application(version).writes()
    ]  # fmt: skip
    hundred = dict.fromkeys(range(4), 100)
    assert told == [
        ("events", "ErrorIfExists", False, False, "succeeded", 300, 4, 0, hundred | {0: 0}),
        ("events2", "Append", False, False, "succeeded", 400, 12, 0, hundred),
        ("days", "ErrorIfExists", True, False, "succeeded", 400, 12, 3, hundred),
        ("days", "Overwrite", True, True, "succeeded", 133, 4, 1, {0: 33, 1: 34, 2: 33, 3: 33}),
        ("failed", "ErrorIfExists", False, True, "failed", None, None, None, dict.fromkeys(range(3), 100)),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_file_that_was_committed_is_claimed_and_nothing_is_short(version: str) -> None:
    found = resolved(version)
    committed = {
        f"wh/{key}": size for key, (size, _) in stored(version).items() if not key.startswith("failed/")
    }
    assert {row["key"]: row["size"] for row in found["events"]} == committed
    # two of the writes began where nothing was
    assert sorted(row["scope_key"] for row in found["acts"]) == ["wh/days", "wh/days/day=1", "wh/events"]
    assert (found["attempts"], [row["commit_id"][-2:] for row in found["short"]]) == ([], ["/2"])
    assert {row["replaced"] for row in found["short"]} == {
        "partly"
    }  # its partition that was overwritten since


@pytest.mark.parametrize("version", VERSIONS)
def test_files_that_are_lost_are_named_with_their_rows(version: str) -> None:
    lost = {
        f"wh/{key}": size for key, (size, _) in stored(version).items() if key.startswith("events/part-00002")
    }
    found = {row["key"]: row for row in resolved(version, "events/part-00002")["events"]}
    assert [(found[key]["size"], found[key]["records"]) for key in lost] == [
        (size, 100) for size in lost.values()
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_of_which_nothing_is_left_is_short_of_all(version: str) -> None:
    rows = {row["table_name"]: row for row in resolved(version, "events2/")["short"]}
    told = rows["events2"]
    assert (told["rows"], told["rows_there"], told["bytes"], told["replaced"]) == (400, 0, 2290, "no")

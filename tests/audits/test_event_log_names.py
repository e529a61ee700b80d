"""Event logs under any name, delivered by Databricks with gzip, and of Spark 3.1: one lake, a table for each."""

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.evidence.manifest.spark_event_log import log_files
from lakeaudit.evidence.manifest.spark_event_log.write_jobs import Application
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import rows_of
from tests.audits.test_event_logs import Site, lake_of
from tests.builders.audits import audited, results_of
from tests.builders.event_logs import UUIDS, App

DELIVERED_FIRST = b'{"Event":"DBCEventLoggingListenerMetadata","Rollover Number":0}\n'


def content(app: App) -> bytes:
    return b"".join(line + b"\n" for line in app.lines)


def of_spark_3_1(app: App) -> bytes:
    """The same log with maps as Spark 3.1 writes them, and without messages at ends."""
    for event in app.events:
        plan = event.get("sparkPlanInfo")
        if plan:
            path = plan["simpleString"].split(" ")[2].rstrip(",")
            plan["simpleString"] = plan["simpleString"].replace(f"[path={path}]", f"Map(path -> {path})")
            assert "Map(" in plan["simpleString"]
        event.pop("errorMessage", None)
    return content(app)


def save_history(site: Site) -> None:
    (site.logs / "nightly load (2026)").write_bytes(content(site.app))


def save_gzip(site: Site) -> None:
    (site.logs / f"{site.app.id}.gz").write_bytes(gzip.compress(content(site.app)))


def save_delivered(site: Site) -> None:
    lines, home = content(site.app).splitlines(keepends=True), site.logs / "0123-4_10_0_0_1" / "77"
    home.mkdir(parents=True)
    third = len(lines) // 3
    first, second, last = lines[:third], lines[third : 2 * third], lines[2 * third :]
    packed = gzip.compress(DELIVERED_FIRST) + gzip.compress(b"".join(first))
    (home / "eventlog-2026-11-16--03-00.gz").write_bytes(packed)
    (home / "eventlog-2026-11-16--04-00.gz").write_bytes(gzip.compress(b"".join(second)))
    (home / "eventlog").write_bytes(b"".join(last))


def save_old(site: Site) -> None:
    (site.logs / "job_17").write_bytes(of_spark_3_1(site.app))


FORMS = {"history": save_history, "gzip": save_gzip, "delivered": save_delivered, "old": save_old}


@dataclass(frozen=True)
class Night:
    lost: dict[str, str]
    dropped: dict[str, str]
    partial: set[str]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """Each table has lost a file of its only write."""
    folder, lines, lost = tmp_path_factory.mktemp("names"), [], {}
    for number, (name, save) in enumerate(FORMS.items()):
        site = Site(folder, name, number)
        site.wrote(name, UUIDS[0])
        site.app.end()
        site.logs.mkdir(parents=True)
        save(site)
        (site.logs / "README.txt").write_text("no log\n")
        (site.logs / "broken.gz").write_bytes(b"no gzip")
        site.lose(name, UUIDS[0], 2)
        lost[name] = str(site.file(name, UUIDS[0], 2))[1:]
        lines.append(site.line(name))
    lake = lake_of(folder, lines)
    audited(lake, run_id="r")
    dropped = {
        row["table_name"]: row["key"]
        for row in rows_of(results_of(lake).findings("r"))
        if row["kind"] == "dropped"
    }
    partial = {row["table_name"] for row in results_of(lake).coverage("r") if row["status"] == "partial"}
    return Night(lost, dropped, partial)


@pytest.mark.parametrize("name", FORMS)
def test_a_loss_is_found_by_the_log(night: Night, name: str) -> None:
    assert night.dropped[name] == night.lost[name]
    assert name not in night.partial


def test_a_gzip_that_was_cut_off_is_torn(tmp_path: Path) -> None:
    app = App(at=datetime.now(UTC) - timedelta(days=9)).end()
    path = tmp_path / f"{app.id}.gz"
    path.write_bytes(gzip.compress(content(app))[:-20])
    (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
    with pytest.raises(log_files.TornError):
        list(log_files.lines(Clients(), log))


PLANS = {
    "file:/w/t, false, Parquet, Map(path -> file:/w/t), Append, [a, b]": ("file:/w/t", "", False, "parquet"),
    "gs://w/t, false, [c#1, d#2], ORC, Map(path -> gs://w/t), Overwrite, [c, d]": ("gs://w/t", "", True, "orc"),
    "s3a://w/t, Map(d -> 1), false, [h#1], Parquet, Map(), Overwrite, [h]": ("s3a://w/t", "d=1", True, "parquet"),
    "s3a://w/t, false, Map(d -> 1, e -> 2), CSV, Map(sep -> ;, path -> s3a://w/t), Append, [h]": (
        "s3a://w/t", "d=1, e=2", False, "csv",
    ),
    "s3a://w/t, false, [d=1], [h#1], Parquet, [path=s3a://w/t], Overwrite, [h]": ("s3a://w/t", "d=1", True, "parquet"),
}  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
def test_what_a_plan_says(plan: str) -> None:
    app = App()
    app.write("s3a://w/x", {0: (1, 10)}, "Overwrite")
    for event in app.events:
        if "sparkPlanInfo" in event:
            event["sparkPlanInfo"]["simpleString"] = f"Execute InsertIntoHadoopFsRelationCommand {plan}"
    read = Application()
    read.take(app.lines)
    (job,) = read.writes()
    assert (job.path, job.fixed, job.by, job.format) == PLANS[plan]


def test_the_option_of_an_old_plan_decides_how_partitions_are_overwritten() -> None:
    app = App()
    app.write("s3a://w/x", {0: (1, 10)}, "Overwrite")
    text = json.dumps(app.events).replace(
        "[path=s3a://w/x]", "Map(partitionoverwritemode -> dynamic, path -> x)"
    )
    read = Application()
    read.take(json.dumps(event, separators=(",", ":")).encode() for event in json.loads(text))
    (job,) = read.writes()
    assert job.dynamic

"""Hadoop's own committers, on the tests' S3 server and on disk: their records, and complete audits that use them."""

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeaudit.config import Lake, load_lake
from lakeaudit.emit.spark import event_log
from lakeaudit.evidence.manifest.point import lookup_claims
from lakeaudit.runtime.cache import cache_dir
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.jars import Pin, fetched
from lakeaudit.runtime.java import find_java
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, includes_soak, results_of
from tests.builders.committers import JOB, Committed
from tests.builders.late_list import LateList, listing_late
from tests.conftest import Aws

pytestmark = pytest.mark.variant

AWKWARD = "d=a b%2F+ü/part-00001-x y%20.bin"
FILES = [
    (0, "d=1/part-00000.bin", b"one"),
    (0, "d=2/part-00000.bin", b"other"),
    (1, "d=1/part-00001.bin", b"second"),
    (1, AWKWARD, b"odd"),
]


def lake_of(folder: Path, data: str, kind: str, s3: Endpoint | None, more: str = "", name: str = "a") -> Lake:
    way = f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n" if s3 else ""
    path = folder / f"{name}.yaml"
    path.write_text(
        f"version: 1\nlake: jobs\nresults: {folder / f'results-{name}'}\n"
        f"defaults: {{grace: 0s, leftover_age: 0s}}\n{way}"
        f"inventories: [{{kind: listing, location: '{data}'}}]\n"
        f"tables:\n- {{name: t, location: '{data}/t', manifests: [{{kind: {kind}{more}}}]}}\n"
    )
    return load_lake(path, {})


def findings(lake: Lake) -> list[tuple[Any, ...]]:
    rows = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    return sorted((row["kind"], (row["key"] or row["subject"]).rpartition("/t/")[2]) for row in rows)


def live_claims(lake: Lake) -> int:
    (row,) = [row for row in results_of(lake).coverage("r") if row["axis"] == "content"]
    assert row["status"] == "complete", row["reason"]
    return int(row["consistent"])


S3A = ("magic", "directory", "partitioned")
"""Committers of S3A; `make test-all` runs the first one."""
SOAK_ALONE = ("directory", "partitioned", "killed_directory", "manifest_cleaned")
"""Tables that only the soak has."""
REPORTS = "fs.s3a.committer.summary.report.directory"
CLEANUP = "mapreduce.fileoutputcommitter.cleanup.skipped"
JOBS = (JOB, JOB.replace("1", "9"))


@dataclass(frozen=True)
class CommitterTables:
    """Tables below `wh` in a bucket and on disk that committers wrote, and the lake file of all of them."""

    spark: SparkSession
    s3: Endpoint
    aws: Aws
    bucket: str
    folder: Path
    entries: dict[str, str] = field(default_factory=dict)
    """Lines of the lake file, by table."""

    def commit(
        self, name: str, committer: str, job: str = JOB, number: int = 1, **settings: str
    ) -> Committed:
        """A job that writes a table of the bucket."""
        self.entries[name] = self.entry(name, f"s3://{self.bucket}/wh", "s3a_committer")
        out = f"s3a://{self.bucket}/wh/{name}"
        return Committed(self.spark, committer, out, self.folder, job, settings, number)

    def entry(self, name: str, data: str, manifest: str) -> str:
        return f"- {{name: {name}, location: '{data}/{name}', manifests: [{{kind: {manifest}}}]}}\n"

    def keys(self, name: str, start: str = "") -> list[str]:
        """Keys below a table of the bucket."""
        listed = self.aws.s3.list_objects_v2(Bucket=self.bucket, Prefix=f"wh/{name}/{start}")
        return [each["Key"] for each in listed.get("Contents", [])]

    def marker(self, name: str) -> Any:
        """What the job says that it committed."""
        return json.loads(
            self.aws.s3.get_object(Bucket=self.bucket, Key=f"wh/{name}/_SUCCESS")["Body"].read()
        )

    def home(self, name: str) -> Path:
        """A table on disk."""
        return self.folder / "wh" / name

    def audit(self, run: str) -> "RunRows":
        """Audit all tables; results of their own for each run."""
        path = self.folder / f"{run}.yaml"
        listings = [
            f"{{kind: listing, location: '{p}'}}" for p in (f"s3://{self.bucket}/wh", self.folder / "wh")
        ]
        path.write_text(
            f"version: 1\nlake: jobs\nresults: {self.folder / f'results-{run}'}\n"
            "defaults: {grace: 0s, leftover_age: 0s}\n"
            f"s3: {{endpoint: '{self.s3.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{', '.join(listings)}]\ntables:\n{''.join(self.entries.values())}"
        )
        lake = load_lake(path, {})
        audited(lake, run_id="r")
        results = results_of(lake)
        return RunRows(lake, list(rows_of(results.findings("r"))), results.coverage("r"))


@dataclass(frozen=True)
class RunRows:
    """Findings and coverage of one audit of all tables."""

    lake: Lake
    rows: list[dict[str, Any]]
    coverage: list[dict[str, Any]]

    def findings(self, table: str, *, left: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        """(kind, file) of a table's findings, without those of kinds that a job may leave."""
        rows = [row for row in self.rows if row["table_name"] == table and row["kind"] not in left]
        return sorted(
            (row["kind"], (row["key"] or row["subject"]).rpartition(f"/{table}/")[2]) for row in rows
        )

    def live_claims(self, table: str) -> int:
        (row,) = [r for r in self.coverage if (r["axis"], r["table_name"]) == ("content", table)]
        assert row["status"] == "complete", row["reason"]
        return int(row["consistent"])


@dataclass(frozen=True)
class CommitterAudits:
    """All tables as committers left them, and again after each lost a file; `lost` has the lost ones by table."""

    written: CommitterTables
    lost: dict[str, list[str]]
    healthy: RunRows
    broken: RunRows


@pytest.fixture(scope="module")
def audits(
    spark: SparkSession, s3: Endpoint, aws: Aws, tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> CommitterAudits:  # fmt: skip
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    written = CommitterTables(spark, s3, aws, bucket, tmp_path_factory.mktemp("committers"))
    soak = includes_soak(request)
    for committer in S3A if soak else S3A[:1]:
        written.commit(committer, committer).run(FILES)
        if committer != "partitioned":
            written.commit(f"killed_{committer}", committer).run(FILES, killed=True)
    written.commit("classic", "classic").run(FILES)
    lost = {"lagging": write_while_lists_lag(written)}
    write_twice_with_reports(written)
    for name, skipped in {"manifest": "true", "manifest_cleaned": "false"}.items():
        if soak or name not in SOAK_ALONE:
            write_on_disk(written, name, skipped)
    healthy = written.audit("healthy")
    for table in [name for name in written.entries if name not in lost and "killed" not in name]:
        lost[table] = lose(written, table)
    return CommitterAudits(written, lost, healthy, written.audit("broken"))


def write_while_lists_lag(written: CommitterTables) -> list[str]:
    """A list that lags hides files from the committer; the names of the files that it lost."""
    files = [(task, f"part-{task:05d}-{JOB}-c000.bin", b"x" * (task + 1)) for task in range(12)]
    with listing_late(LateList(written.bucket, 3, 0.2)) as late:
        written.commit("lagging", "magic").run(files, sees_all=False)
    there = written.keys("lagging", "part-")
    lost = sorted(name for _, name, _ in files if f"wh/lagging/{name}" not in there)
    marker = written.marker("lagging")
    assert (marker["success"], len(marker["filenames"])) == (True, len(files) - len(lost))
    assert late.hidden
    return lost


def write_twice_with_reports(written: CommitterTables) -> None:
    """The second job's marker takes the place of the first one's; the report of the first is still there."""
    for name in ("marker_alone", "reported"):
        reports = f"{written.bucket}/reports/{name}"
        for number, job in enumerate(JOBS):
            files = [(task, f"part-{task:05d}-{job}.bin", b"x") for task in range(2)]
            written.commit(name, "directory", job, number, **{REPORTS: f"s3a://{reports}"}).run(files)
    manifest = f"s3a_committer, reports: 's3://{reports}'"
    written.entries["reported"] = written.entry("reported", f"s3://{written.bucket}/wh", manifest)


def write_on_disk(written: CommitterTables, name: str, skipped: str) -> None:
    """By the manifest committer, whose clean-up of its tasks' manifests may be skipped."""
    out = written.home(name).as_uri()
    Committed(written.spark, "manifest", out, written.folder, settings={CLEANUP: skipped}).run(FILES)
    written.entries[name] = written.entry(name, str(written.folder / "wh"), "manifest_committer")


def lose(written: CommitterTables, table: str) -> list[str]:
    """Delete a file of a table, and cut another one of those on disk; the name of the deleted one."""
    if table.startswith("manifest"):
        (written.home(table) / AWKWARD).unlink()
        cut, times = written.home(table) / CUT, (written.home(table) / CUT).stat()
        cut.write_bytes(b"cut")
        os.utime(cut, ns=(times.st_atime_ns, times.st_mtime_ns))  # its time alone tells nothing
        return [AWKWARD]
    name = f"part-00001-{JOB}.bin"
    key = f"wh/{table}/{name}" if table in ("marker_alone", "reported") else ""
    key = key or next(each for each in written.keys(table, "d=") if "ü" in each)
    written.aws.s3.delete_object(Bucket=written.bucket, Key=key)
    return [key.removeprefix(f"wh/{table}/")]


CUT = "d=1/part-00001.bin"


def soak_if(name: str) -> Any:
    """A table as a parameter; some are only in the soak."""
    return pytest.param(name, marks=pytest.mark.soak) if name in SOAK_ALONE else name


def test_every_finding_is_of_a_table(audits: CommitterAudits) -> None:
    named = {row["table_name"] for run in (audits.healthy, audits.broken) for row in run.rows}
    assert named <= audits.written.entries.keys()


@pytest.mark.parametrize("committer", [soak_if(name) for name in S3A])
def test_what_s3a_committers_committed_is_claimed(audits: CommitterAudits, committer: str) -> None:
    assert audits.healthy.findings(committer) == []
    assert audits.healthy.live_claims(committer) == len(FILES)
    (lost,) = audits.lost[committer]
    assert audits.broken.findings(committer) == [("dropped", lost)]
    lake, bucket = audits.broken.lake, audits.written.bucket
    (table,) = [each for each in lake.tables if each.name == committer]
    (reported,) = lookup_claims(table, clients_of(lake), bucket, f"wh/{committer}/{lost}")
    assert (reported.answer, reported.history[0]["commit_id"]) == ("present", JOB)


def test_files_that_a_magic_job_lost_are_named_by_what_its_tasks_left(audits: CommitterAudits) -> None:
    """A list that lags hides files from the committer: it reports success, and names those that it saw."""
    lost = audits.lost["lagging"]
    assert lost
    assert [key for kind, key in audits.healthy.findings("lagging") if kind == "dropped"] == lost


@pytest.mark.parametrize("table", [soak_if(f"killed_{name}") for name in S3A[:2]])
def test_what_a_killed_job_left_is_not_claimed(audits: CommitterAudits, table: str) -> None:
    assert audits.healthy.findings(table, left=("temporary", "unfinished_upload")) == []


def test_an_empty_marker_claims_nothing(audits: CommitterAudits) -> None:
    """A file that is gone is not reported either; the table's coverage is complete."""
    for run in (audits.healthy, audits.broken):
        assert run.findings("classic") == []
        assert run.live_claims("classic") == 0


def test_reports_of_jobs_that_only_add_files(audits: CommitterAudits) -> None:
    """The second job's marker takes the place of the first one's; the report of the first is still there."""
    expected = {"marker_alone": ([], 2), "reported": ([("dropped", f"part-00001-{JOB}.bin")], 3)}
    found = {name: (audits.broken.findings(name), audits.broken.live_claims(name)) for name in expected}
    assert found == expected


@pytest.mark.parametrize("table", [soak_if(name) for name in ("manifest", "manifest_cleaned")])
def test_what_the_manifest_committer_committed_is_claimed(audits: CommitterAudits, table: str) -> None:
    """Where it leaves the manifests of its tasks, sizes are known too."""
    assert audits.healthy.findings(table, left=("temporary",)) == []
    assert audits.healthy.live_claims(table) == len(FILES)
    sizes = [("size_mismatch", CUT)] if table == "manifest" else []
    assert audits.broken.findings(table, left=("temporary",)) == [("dropped", AWKWARD), *sizes]


@pytest.mark.soak
@pytest.mark.parametrize("named", [True, False])
def test_what_a_large_job_lacks_is_counted(
    spark: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, named: bool
) -> None:
    """Its marker has the names of a hundred of its files, and the number of all."""
    files = [(task % 2, f"d={task % 3}/part-{task:05d}-{JOB}.bin", b"x" * 10) for task in range(130)]
    Committed(spark, "directory", f"s3a://{bucket}/wh/t", tmp_path).run(files)
    lake = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3)
    assert audited(lake, run_id="r").status == "complete"
    assert (findings(lake), live_claims(lake)) == ([], 100)
    marker = json.loads(aws.s3.get_object(Bucket=bucket, Key="wh/t/_SUCCESS")["Body"].read())
    reported = {name.removeprefix("/wh/t/") for name in marker["filenames"]}
    for name in [name for _, name, _ in files if (name in reported) == named][:3]:
        aws.s3.delete_object(Bucket=bucket, Key=f"wh/t/{name}")
    aws.s3.put_object(Bucket=bucket, Key=f"wh/t/d=0/another-{JOB.replace('1', '8')}", Body=b"another job's")
    again = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3, name="b")
    audited(again, spark, run_id="r")
    if named:
        assert [kind for kind, _ in findings(again)] == ["dropped"] * 3
        return
    (row,) = [row for batch in results_of(again).findings("r") for row in batch.to_pylist()]
    assert (row["kind"], row["files"], row["bytes_at_stake"]) == ("incomplete_commit", 3, 30)
    assert row["subject"] == f"s3://{bucket}/wh/t/#{JOB}"
    assert (
        f"the marker s3://{bucket}/wh/t/_SUCCESS wrongly says that the write is complete"
        in row["explanation"]
    )


CLOUD = Pin(
    "org.apache.spark",
    "spark-hadoop-cloud_2.13",
    "4.1.2",
    "672d7d872f434cb7fe1c90f7edcd19b1e8c67a335a578288426fbd4db5096915",
)
"""By which Spark's SQL writes with S3A's committers; Spark would unasked, were it among the product's own jars."""
PROTOCOL = "spark.sql.sources.commitProtocolClass"
SPLITS = 20


@pytest.fixture
def by_magic(spark: SparkSession) -> Iterator[SparkSession]:
    folder = cache_dir(os.environ) / f"jars-of-tests-{CLOUD.sha256[:16]}"
    (jar,) = fetched(find_java(os.environ).executable, os.environ, [CLOUD], folder)
    spark.sql(f"ADD JAR '{jar}'")
    spark.conf.set(PROTOCOL, "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol")
    yield spark
    spark.conf.unset(PROTOCOL)


def magic_losses_and_findings(
    spark: SparkSession, folder: Path, s3: Endpoint, aws: Aws, bucket: str, seed: int, share: float
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """(splits that a magic job lost while it reported success, what the audit finds), each with its rows."""
    options = {
        "fs.s3a.committer.name": "magic",
        "fs.s3a.committer.magic.enabled": "true",
        "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    }
    with event_log(spark, str(folder / "logs"), "app-1"), listing_late(LateList(bucket, seed, share)):
        spark.range(0, SPLITS * 10, 1, SPLITS).write.options(**options).json(f"s3a://{bucket}/wh/t")
    listed = aws.s3.list_objects_v2(Bucket=bucket, Prefix="wh/t/part-").get("Contents", [])
    there = {each["Key"].rpartition("/")[2] for each in listed}
    marker = json.loads(aws.s3.get_object(Bucket=bucket, Key="wh/t/_SUCCESS")["Body"].read())
    assert marker["success"]
    assert {name.rpartition("/")[2] for name in marker["filenames"]} == there
    log = f"}}, {{kind: spark_event_log, location: {folder / 'logs'}"
    lake = lake_of(folder, f"s3://{bucket}/wh", "s3a_committer", s3, log)
    audited(lake, run_id="r")
    rows = [
        row
        for batch in results_of(lake).findings("r")
        for row in batch.to_pylist()
        if row["severity"] != "info"
    ]
    reported = [(row["kind"], row["key"].rpartition("/")[2][5:10], row["rows_at_stake"]) for row in rows]
    splits = {name[5:10] for name in there}
    return [("dropped", f"{n:05d}", 10) for n in range(SPLITS) if f"{n:05d}" not in splits], sorted(reported)


@pytest.mark.parametrize("share", [0.1, pytest.param(0.0, marks=pytest.mark.soak)])
def test_the_event_log_reports_the_rows_that_a_magic_job_lost(
    by_magic: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, share: float
) -> None:
    """Its marker lists the files that it saw, so that alone it reveals nothing."""
    lost, reported = magic_losses_and_findings(by_magic, tmp_path, s3, aws, bucket, 5, share)
    assert reported == lost
    assert bool(lost) == bool(share)

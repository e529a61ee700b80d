"""Hadoop's own committers, on the tests' S3 server and on disk: their records, and complete audits that use them."""

import json
import os
from collections.abc import Iterator
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
from tests.builders.audits import audited, results_of
from tests.builders.committers import JOB, Committed
from tests.builders.late_list import LateList, listing_late
from tests.conftest import Aws

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


OTHERS = [pytest.param(name, marks=pytest.mark.soak) for name in ("directory", "partitioned")]


@pytest.mark.parametrize("committer", ["magic", *OTHERS])
def test_what_s3a_committers_committed_is_claimed(
    spark: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, committer: str
) -> None:
    Committed(spark, committer, f"s3a://{bucket}/wh/t", tmp_path).run(FILES)
    lake = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3)
    audited(lake, run_id="r")
    assert findings(lake) == []
    assert live_claims(lake) == len(FILES)
    keys = [each["Key"] for each in aws.s3.list_objects_v2(Bucket=bucket, Prefix="wh/t/d=")["Contents"]]
    lost = next(key for key in keys if "ü" in key)
    aws.s3.delete_object(Bucket=bucket, Key=lost)
    again = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3, name="b")
    audited(again, run_id="r")
    assert findings(again) == [("dropped", lost.removeprefix("wh/t/"))]
    (reported,) = lookup_claims(again.tables[0], clients_of(again), bucket, lost)
    assert (reported.answer, reported.history[0]["commit_id"]) == ("present", JOB)


def test_files_that_a_magic_job_lost_are_named_by_what_its_tasks_left(
    spark: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str
) -> None:
    """A list that lags hides files from the committer: it reports success, and names those that it saw."""
    files = [(task, f"part-{task:05d}-{JOB}-c000.bin", b"x" * (task + 1)) for task in range(12)]
    with listing_late(LateList(bucket, 3, 0.2, 4)) as late:
        Committed(spark, "magic", f"s3a://{bucket}/wh/t", tmp_path).run(files, sees_all=False)
    there = {
        each["Key"] for each in aws.s3.list_objects_v2(Bucket=bucket, Prefix="wh/t/part-").get("Contents", [])
    }
    lost = sorted(name for _, name, _ in files if f"wh/t/{name}" not in there)
    assert lost
    assert late.hidden
    marker = json.loads(aws.s3.get_object(Bucket=bucket, Key="wh/t/_SUCCESS")["Body"].read())
    assert (marker["success"], len(marker["filenames"])) == (True, len(files) - len(lost))
    lake = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3)
    audited(lake, run_id="r")
    assert [key for kind, key in findings(lake) if kind == "dropped"] == lost


@pytest.mark.parametrize("committer", ["magic", OTHERS[0]])
def test_what_a_killed_job_left_is_not_claimed(
    spark: SparkSession, tmp_path: Path, s3: Endpoint, bucket: str, committer: str
) -> None:
    Committed(spark, committer, f"s3a://{bucket}/wh/t", tmp_path).run(FILES, killed=True)
    lake = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3)
    audited(lake, run_id="r")
    assert {kind for kind, _ in findings(lake)} <= {"temporary", "unfinished_upload"}


def test_an_empty_marker_claims_nothing(
    spark: SparkSession, tmp_path: Path, s3: Endpoint, bucket: str
) -> None:
    Committed(spark, "classic", f"s3a://{bucket}/wh/t", tmp_path).run(FILES)
    lake = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3)
    assert audited(lake, run_id="r").status == "complete"
    assert findings(lake) == []


def test_reports_of_jobs_that_only_add_files(
    spark: SparkSession, tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str
) -> None:
    """The second job's marker takes the place of the first one's; the report of the first is still there."""
    reports = {"fs.s3a.committer.summary.report.directory": f"s3a://{bucket}/reports"}
    jobs = [JOB, JOB.replace("1", "9")]
    for number, job in enumerate(jobs):
        files = [(task, f"part-{task:05d}-{job}.bin", b"x") for task in range(2)]
        Committed(spark, "directory", f"s3a://{bucket}/wh/t", tmp_path, job, reports, number).run(files)
    aws.s3.delete_object(Bucket=bucket, Key=f"wh/t/part-00001-{JOB}.bin")
    for number, more in enumerate(["", f", reports: 's3://{bucket}/reports'"]):
        lake = lake_of(tmp_path, f"s3://{bucket}/wh", "s3a_committer", s3, more, name=f"l{number}")
        audited(lake, run_id="r")
        assert findings(lake) == [("dropped", f"part-00001-{JOB}.bin")] * number
        assert live_claims(lake) == 2 + number


@pytest.mark.parametrize("cleanup", [pytest.param(True, marks=pytest.mark.soak), False])
def test_what_the_manifest_committer_committed_is_claimed(
    spark: SparkSession, tmp_path: Path, cleanup: bool
) -> None:
    """Where it leaves the manifests of its tasks, sizes are known too."""
    skipped = {"mapreduce.fileoutputcommitter.cleanup.skipped": str(not cleanup).lower()}
    home = tmp_path / "wh" / "t"
    Committed(spark, "manifest", home.as_uri(), tmp_path, settings=skipped).run(FILES)
    lake = lake_of(tmp_path, str(tmp_path / "wh"), "manifest_committer", None)
    audited(lake, run_id="r")
    assert {kind for kind, _ in findings(lake)} <= {"temporary"}
    assert live_claims(lake) == len(FILES)
    (home / AWKWARD).unlink()
    cut, times = home / "d=1/part-00001.bin", (home / "d=1/part-00001.bin").stat()
    cut.write_bytes(b"cut")
    os.utime(cut, ns=(times.st_atime_ns, times.st_mtime_ns))  # its time alone tells nothing
    again = lake_of(tmp_path, str(tmp_path / "wh"), "manifest_committer", None, name="b")
    audited(again, run_id="r")
    sizes = [] if cleanup else [("size_mismatch", "d=1/part-00001.bin")]
    assert [each for each in findings(again) if each[0] != "temporary"] == [("dropped", AWKWARD), *sizes]


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
    with event_log(spark, str(folder / "logs"), "app-1"), listing_late(LateList(bucket, seed, share, 4)):
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

"""The live check against a real server: 404 with a right to list is absent, 200 present, the rest cannot be told."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeaudit.compare.ceiling import Missing, Trial
from lakeaudit.pipeline.live_check import candidates, limited, look
from lakeaudit.pipeline.recheck import by_sample, by_second_cut
from lakeaudit.runtime.aws import Clients, Endpoint
from tests.conftest import Aws


def answers(spark: SparkSession, clients: Clients, keys: list[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    frame = spark.createDataFrame(keys, "bucket string, key string")
    return {row["key"]: row.asDict() for row in look(frame, clients, rate=1000, tasks=2).collect()}


@contextmanager
def server_that_says(status: int) -> Iterator[Endpoint]:
    """A store that gives one answer to everything."""

    class Always(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Always)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Endpoint(endpoint=f"http://127.0.0.1:{server.server_port}", region="us-east-1", path_style=True)
    finally:
        server.shutdown()
        server.server_close()


def test_what_storage_answers_now(spark: SparkSession, clients: Clients, aws: Aws, bucket: str) -> None:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ("there", "marked", "wiped", "a b%2B+ü/there"):
        aws.s3.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    aws.s3.put_object(Bucket=bucket, Key="cold", Body=b"bytes", StorageClass="GLACIER")
    aws.s3.delete_object(Bucket=bucket, Key="marked")
    only = aws.s3.list_object_versions(Bucket=bucket, Prefix="wiped")["Versions"][0]["VersionId"]
    aws.s3.delete_object(Bucket=bucket, Key="wiped", VersionId=only)
    told = answers(
        spark, clients, [(bucket, key) for key in ("there", "marked", "wiped", "cold", "a b%2B+ü/there")]
    )
    assert {key: (row["l_confirmation"], row["l_presence"]) for key, row in told.items()} == {
        "there": ("live", "present"),
        "marked": ("live", "absent"),
        "wiped": ("live", "absent"),
        "cold": ("live", "present"),
        "a b%2B+ü/there": ("live", "present"),
    }
    assert (told["there"]["l_size"], told["there"]["l_etag"]) == (5, hashlib.md5(b"bytes").hexdigest())
    assert told["there"]["l_archived"] is False
    assert told["cold"]["l_archived"] is True
    assert (told["marked"]["l_delete_marker"], told["marked"]["l_older_size"]) == (True, 5)
    assert (told["wiped"]["l_older_version_id"], told["wiped"]["l_versions_known"]) == (None, True)


@pytest.mark.parametrize(
    ("status", "confirmation"), [(403, "denied"), (404, "denied"), (500, "error"), (400, "error")]
)
def test_only_a_proven_404_means_absent(spark: SparkSession, status: int, confirmation: str) -> None:
    """A store that says 404 to everything gives no proof that the asker may list."""
    with server_that_says(status) as endpoint:
        told = answers(spark, Clients(endpoint), [("lake", "key")])
    assert (told["key"]["l_confirmation"], told["key"]["l_presence"]) == (confirmation, None)


def test_local_files_are_looked_at_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"bytes")
    keys = [("", str(tmp_path / name)[1:]) for name in ("there", "gone")]
    told = answers(spark, Clients(), keys)
    assert [(told[key]["l_presence"], told[key]["l_size"]) for _, key in keys] == [
        ("present", 5),
        ("absent", None),
    ]


def test_what_is_open_comes_first_then_the_worst_and_every_table_has_its_turn(spark: SparkSession) -> None:
    rows = [
        ("content", "finding", "warning", "a", "small-warning", 1, None),
        ("content", "finding", "critical", "a", "critical", 5, None),
        ("content", "finding", "warning", "a", "big-warning", 100, None),
        ("content", "consistent", None, "a", "open-before", 1, "known"),
        ("metastore", "finding", "warning", "b", "other-table", 1, None),
        ("leftover", "finding", "critical", "a", "never-asked", 1, None),
        ("content", "undecided", None, "a", "no-finding", 1, None),
    ]
    texts = "axis string, outcome string, severity string, judged_table string, key string"
    schema = f"{texts}, c_size long, known_as string"
    named = spark.createDataFrame(rows, schema).selectExpr(
        "*", "'b' bucket", "c_size s_size", "c_size m_size"
    )
    within = limited(named, {"a": 3, "b": 9})
    order = ["open-before", "critical", "other-table", "big-warning"]
    assert [row["key"] for row in candidates(within, 9).collect()] == order
    assert [row["key"] for row in candidates(within, 1).collect()] == order[:1]


TWICE = [
    # axis, outcome, confirmation, found before, cuts of storage and metastore, confirmation then
    ("content", "finding", "none", 1, 2, None, "second_cut"),
    ("content", "finding", "limit", 1, 2, None, "second_cut"),
    ("content", "finding", "live", 1, 2, None, "live"),
    ("content", "finding", "none", 2, 2, None, "none"),
    ("content", "finding", "none", None, 2, None, "none"),
    ("content", "undecided", "none", 1, 2, None, "none"),
    ("content", "finding", "none", 1, None, None, "none"),
    ("content", "finding", "none", 1, 2, 1, "second_cut"),
    ("metastore", "finding", "none", 1, 2, 3, "second_cut"),
    ("metastore", "finding", "none", 1, 2, 1, "none"),
]


def test_a_second_picture_confirms_what_nobody_looked_at(spark: SparkSession) -> None:
    def at(hour: int | None) -> datetime | None:
        return None if hour is None else datetime(2026, 11, 21, hour, tzinfo=UTC)

    rows = [(n, axis, outcome, told, at(before), at(storage), at(store))
            for n, (axis, outcome, told, before, storage, store, _) in enumerate(TWICE)]  # fmt: skip
    times = "known_at timestamp, s_from timestamp, m_from timestamp"
    frame = spark.createDataFrame(rows, f"n int, axis string, outcome string, l_confirmation string, {times}")
    found = {row["n"]: row["l_confirmation"] for row in by_second_cut(frame).collect()}
    assert [found[n] for n in range(len(TWICE))] == [row[-1] for row in TWICE]


LOST = [
    # table, kind, outcome, source of storage, confirmation, confirmation then
    ("wiped", "dropped", "finding", "inventory", "limit", "sample"),
    ("wiped", "dropped", "finding", "inventory", "live", "live"),
    ("wiped", "dropped", "finding", "inventory", "denied", "denied"),
    ("wiped", "dropped", "finding", "listing", "limit", "limit"),
    ("wiped", "size_mismatch", "finding", "inventory", "limit", "limit"),
    ("wiped", "dropped", "undecided", "inventory", "limit", "limit"),
    ("whole", "dropped", "finding", "inventory", "limit", "limit"),
]


@pytest.mark.parametrize("lost", [True, False])
def test_a_sample_speaks_for_the_rest_of_a_mass_loss(spark: SparkSession, *, lost: bool) -> None:
    columns = (
        "n int, judged_table string, kind string, outcome string, s_source string, l_confirmation string"
    )
    frame = spark.createDataFrame([(n, *row[:-1]) for n, row in enumerate(LOST)], columns)
    trials = [Trial(Missing("wiped", "inventory", "storage", 200, 300), 9, 9, 9)] if lost else []
    then = by_sample(frame.withColumn("m_source", F.lit("store")), trials).orderBy("n").collect()
    assert [row["l_confirmation"] for row in then] == [row[-1 if lost else -2] for row in LOST]

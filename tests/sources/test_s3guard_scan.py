"""S3Guard scanned live: the cut, many pages, point reads, and every way the table may not be reachable."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from lakeaudit.config import S3Options
from lakeaudit.engine.local import LocalBufferedRows
from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard import reader as s3guard
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders import s3guard as built
from tests.conftest import Aws
from tests.sources.metastore_contract import AT, OLD, rows_of
from tests.sources.test_s3guard import context, options


def test_the_cut_is_the_time_of_the_reading_and_the_rows_stay_as_read(clients: Clients, aws: Aws) -> None:
    built.create_table(aws.dynamodb, "cut-table", [built.file("b", "x", mod_time=OLD)])
    ticks = iter([AT, AT + timedelta(seconds=9)])
    source = S3Guard(kind="s3guard", table="cut-table", s3=options(clients))
    read = s3guard.read(source, context(clients), "m", lambda: next(ticks))
    built.put_items(aws.dynamodb, "cut-table", [built.file("b", "later", mod_time=OLD)])
    cut = read.info.cut
    assert cut is not None
    assert (cut.start, cut.end, cut.margin) == (AT, AT + timedelta(seconds=9), timedelta(0))
    assert [row["key"] for row in rows_of(read)] == ["x"]


def test_the_margin_of_a_scan_may_be_set(clients: Clients, aws: Aws) -> None:
    built.create_table(aws.dynamodb, "margin-table", [built.file("b", "x", mod_time=OLD)])
    source = S3Guard(kind="s3guard", table="margin-table", s3=options(clients), margin=timedelta(minutes=2))
    cut = s3guard.read(source, context(clients), "m").info.cut
    assert cut is not None
    assert cut.margin == timedelta(minutes=2)


def test_every_page_of_every_segment_is_read(clients: Clients, aws: Aws) -> None:
    """Answers end at 1 MB, so long values make many pages; folders are hash keys, so segments differ."""
    pad = "e" * 30_000
    keys = [f"f{n % 7}/{n:03d}" for n in range(210)]
    built.create_table(
        aws.dynamodb, "paged-table", [built.file("b", key, mod_time=OLD, etag=pad) for key in keys]
    )
    read = s3guard.read(
        S3Guard(kind="s3guard", table="paged-table", s3=options(clients)), context(clients), "m"
    )
    assert [row["key"] for row in rows_of(read)] == sorted(keys)


def test_a_table_of_one_page_is_read_by_one_request(clients: Clients) -> None:
    scans: Answers = [(200, {"Items": [built.file("b", "x", mod_time=OLD)]}), (500, {})]
    with answering(GetItem=[MARKER], Scan=scans) as s3:
        read = s3guard.read(S3Guard(kind="s3guard", table="small-table", s3=s3), context(clients), "m")
    assert [row["key"] for row in rows_of(read)] == ["x"]
    assert read.info.rows == 1


def test_a_live_table_has_no_past(clients: Clients) -> None:
    source = S3Guard(kind="s3guard", table="any-table", s3=options(clients))
    with pytest.raises(SourceError, match="DynamoDB table any-table: a live table cannot show its past"):
        s3guard.read(source, context(clients, live=False), "m")


Answers = list[tuple[int, dict[str, Any]]]


class FakeDynamo(BaseHTTPRequestHandler):
    """Answers each operation as told: moto knows neither throttling nor refusals."""

    answers: ClassVar[dict[str, Answers]] = {}

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        told = self.answers[self.headers["X-Amz-Target"].rpartition(".")[2]]
        status, body = told.pop(0) if len(told) > 1 else told[0]
        sent = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(**answers: Answers) -> Iterator[S3Options]:
    handler = type("Told", (FakeDynamo,), {"answers": answers})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield S3Options(endpoint=f"http://127.0.0.1:{server.server_port}", region="us-east-1")
        server.shutdown()
        thread.join()


MARKER: tuple[int, dict[str, Any]] = (200, {"Item": built.marker()})
THROTTLED = (400, {"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"})


def refusal(code: str) -> tuple[int, dict[str, Any]]:
    return 400, {
        "__type": f"com.amazon.coral.service#{code}",
        "message": "arn:aws:iam::1:role/secret says no",
    }


def test_throttling_and_empty_pages_only_take_longer(clients: Clients) -> None:
    item = built.file("b", "x", mod_time=OLD)
    more = {"LastEvaluatedKey": built.place("b", "x")}
    pages: Answers = [THROTTLED, (200, {"Items": [], **more}), THROTTLED, (200, {"Items": [item], **more})]
    with answering(GetItem=[MARKER], Scan=[*pages, (200, {"Items": []})]) as s3:
        read = s3guard.read(S3Guard(kind="s3guard", table="slow-table", s3=s3), context(clients), "m")
        assert [row["key"] for row in rows_of(read)] == ["x"]


REFUSALS = [
    ("GetItem", "AccessDeniedException", "access denied; grant read and list rights"),
    ("Scan", "AccessDeniedException", "access denied; grant read and list rights"),
    ("GetItem", "ResourceNotFoundException", "the table does not exist; check its name, region"),
    ("Scan", "ExpiredTokenException", "the credentials have expired"),
]


@pytest.mark.parametrize(("operation", "code", "told"), REFUSALS)
def test_refusals_are_one_line_without_secrets(
    clients: Clients, operation: str, code: str, told: str
) -> None:
    answers: dict[str, Answers] = {"GetItem": [MARKER], "Scan": [(200, {"Items": []})]} | {
        operation: [refusal(code)]
    }
    with answering(**answers) as s3, pytest.raises(SourceError) as failure:
        s3guard.read(S3Guard(kind="s3guard", table="shut-table", s3=s3), context(clients), "m")
    assert str(failure.value).startswith("DynamoDB table shut-table: ")
    assert told in str(failure.value)
    assert "secret" not in str(failure.value)


def test_a_segment_that_fails_late_fails_the_whole_scan(clients: Clients) -> None:
    more = {"Items": [built.file("b", "x", mod_time=OLD)], "LastEvaluatedKey": built.place("b", "x")}
    with answering(GetItem=[MARKER], Scan=[(200, more), refusal("AccessDeniedException")]) as s3:
        source = S3Guard(kind="s3guard", table="half-table", s3=s3)
        with pytest.raises(
            SourceError, match="DynamoDB table half-table: access denied; grant read and list"
        ):
            s3guard.read(source, context(clients), "m")


def test_rejected_items_are_counted_as_they_are_kept(clients: Clients, aws: Aws) -> None:
    broken = {**built.file("b", "y", mod_time=OLD), "file_length": {"N": "-1"}}
    built.create_table(aws.dynamodb, "broken-table", [built.file("b", "x", mod_time=OLD), broken])
    source = S3Guard(kind="s3guard", table="broken-table", s3=options(clients))
    read = s3guard.read(source, context(clients), "m")
    assert (read.info.rows, read.info.identity) == (3, "scan of broken-table: 3 items")
    assert isinstance(read.rows, LocalBufferedRows)
    assert read.rows.counts["entries"] == 1
    counted = [
        row for chunk in read.rows.chunks if chunk.kind == "counted" for row in chunk.batch.to_pylist()
    ]
    assert [row["sample"] for row in counted if row["rejected"]] == [
        "file_length is not a number of bytes in the item of /b/y"
    ]


def test_a_wrong_region_is_reported(clients: Clients, aws: Aws) -> None:
    built.create_table(aws.dynamodb, "region-table", [])
    elsewhere = options(clients).model_copy(update={"region": "eu-west-1"})
    source = S3Guard(kind="s3guard", table="region-table", s3=elsewhere)
    with pytest.raises(SourceError, match="the table does not exist; check its name, region and endpoint"):
        s3guard.read(source, context(clients), "m")


def test_missing_credentials_are_reported(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    unasked = options(clients).model_copy(update={"region": "sa-east-1"})  # clients are kept by endpoint
    source = S3Guard(kind="s3guard", table="some-table", s3=unasked)
    with pytest.raises(SourceError, match="no AWS credentials found"):
        s3guard.read(source, context(clients), "m")


def test_point_reads_say_what_the_store_says_or_that_it_says_nothing(clients: Clients, aws: Aws) -> None:
    built.create_table(
        aws.dynamodb, "point-table", [built.file("b", "d/f", 5, mod_time=OLD), built.folder("b", "d")]
    )
    source = S3Guard(kind="s3guard", table="point-table", s3=options(clients))
    found = s3guard.get_entry(source, clients, "b", "d/f")
    assert found is not None
    assert (found["file_length"], found["is_deleted"]) == ("5", False)
    assert s3guard.get_entry(source, clients, "b", "d/") == s3guard.get_entry(source, clients, "b", "d")
    assert s3guard.get_entry(source, clients, "b", "d/none") is None


def test_an_export_has_no_point_reads(clients: Clients) -> None:
    source = S3Guard(kind="s3guard", table="point-table", export=Location("", "exports"))
    with pytest.raises(SourceError, match="no point reads"):
        s3guard.get_entry(source, clients, "b", "k")

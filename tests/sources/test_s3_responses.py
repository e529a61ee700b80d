"""Unusual responses of stores: pages that do not end, missing fields, storage classes of every cloud."""

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence import s3_pages
from lakeaudit.evidence.files import folders, list_files, named_folders, older_files, older_version, stat
from lakeaudit.evidence.s3_responses import (
    head_response,
    listed_folders,
    listed_objects,
    listed_versions,
    open_uploads,
    time_of,
    written_version,
)
from lakeaudit.evidence.storage.head import head_of
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections import aws as aws_module
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.aws_failures import (
    BrokenListing,
    IncompleteResponse,
    UnreadableResponse,
    WebPage,
)
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.storage_classes import ClassKind, StorageClasses, cloud_of, unknown_class_warnings
from tests.builders.backdate import put
from tests.builders.odd_stores import AGAIN, as_it_is, cut_off, habit, without
from tests.builders.refusals import BROKEN_OFF, Refusals, refusing
from tests.conftest import Aws

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def page(number: int, token: str | None = None, **fields: Any) -> dict[str, Any]:
    following = {} if token is None else {"IsTruncated": True, "NextContinuationToken": token}
    return {"IsTruncated": False, "Contents": [{"Key": str(number)}]} | following | fields


def listing(*pages: Mapping[str, Any]) -> Iterator[Any]:
    """The pages of a store that gives these, and the last ones over and over."""
    given = iter([*pages, *pages[-2:] * 50])
    return s3_pages.pages(lambda **_: next(given), {}, {"ContinuationToken": "NextContinuationToken"})


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([page(1, "a"), page(2, "a")], id="the same token at once"),
        pytest.param([page(0, "x"), page(1, "a"), page(2, "b"), page(3, "a"), page(4, "b")], id="two tokens in turn"),
        pytest.param([page(1, "a"), page(1, "b"), page(1, "c"), page(1, "d")], id="the same page by other tokens"),
        pytest.param([{"IsTruncated": True, "Contents": []}], id="no token"),
        pytest.param([{"Contents": [{"Key": str(n)} for n in range(1000)]}], id="a full page that says nothing"),
        pytest.param([{"MaxKeys": 3, "Contents": [{"Key": str(n)} for n in range(3)]}], id="a full page of its size"),
        pytest.param([{"ResponseMetadata": {}}], id="other XML"),
    ],
)  # fmt: skip
def test_an_incomplete_list_is_broken(pages: list[Any]) -> None:
    with pytest.raises(BrokenListing):
        list(listing(*pages))


@pytest.mark.parametrize(
    ("pages", "count"),
    [
        pytest.param([page(1, "a"), page(2, "b", Contents=[]), page(3)], 3, id="an empty page"),
        pytest.param([{"Name": "b", "Contents": [{"Key": "k"}]}], 1, id="a short page that says nothing"),
        pytest.param([{"Name": "b"}], 1, id="an empty bucket"),
        pytest.param([{"Name": "b", "NextContinuationToken": "a"}, page(2)], 2, id="a token alone goes on"),
        pytest.param([page(n, str(n)) for n in range(300)] + [page(300)], 301, id="a long list"),
    ],
)  # fmt: skip
def test_a_list_with_an_end_is_whole(pages: list[Any], count: int) -> None:
    assert len(list(listing(*pages))) == count


WHERE = (
    "report/",
    "AWSDynamoDB/",
    "AWSLogs/",
    "_delta_log/",
    "_delta_log/_sidecars/",
    ".hoodie/",
    "metadata/",
)


@pytest.fixture(scope="module")
def filled(aws: Aws) -> str:
    """A bucket with three files in each folder that evidence is listed in; tests only read it."""
    bucket = f"filled-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    for folder in WHERE:
        for number in range(3):
            for key in (f"t/{folder}{number}/file", f"t/{folder}{number}"):
                put(bucket, key, b"x")
    return bucket


@pytest.mark.parametrize("token", ["", AGAIN])
@pytest.mark.parametrize("where", WHERE)
def test_a_cut_off_list_of_any_evidence_is_an_error(
    clients: Clients, filled: str, where: str, token: str
) -> None:
    folder = Location(filled, f"t/{where.rstrip('/')}")
    with habit(cut_off(where, keep=1, token=token)):
        for read in (list_files, folders):
            with pytest.raises(SourceError, match="the store"):
                list(read(clients, folder))


def test_fields_missing_in_a_listing_are_read_from_the_object_and_the_reverse(
    clients: Clients, filled: str
) -> None:
    folder, place = Location(filled, "t/metadata"), Location(filled, "t/metadata/0")
    known = stat(clients, place)
    assert known is not None
    for lacking in (
        without("Size", "LastModified", "ETag", heads=False),
        without("Size", "LastModified", lists=False),
    ):
        with habit(lacking):
            listed = [file for file in list_files(clients, folder, flat=True) if file.place == place]
            assert [(file.size, file.modified_at) for file in [*listed, stat(clients, place)] if file] == [
                (known.size, known.modified_at)
            ] * 2
    with habit(without("LastModified")), pytest.raises(SourceError, match="does not say its time"):
        stat(clients, place)


def test_a_folder_behind_two_slashes_is_found(clients: Clients, aws: Aws, bucket: str) -> None:
    for key in ("x//lake/daily/file", "x/plain/file", "/first/file"):
        aws.s3.put_object(Bucket=bucket, Key=key, Body=b"")
    assert folders(clients, Location(bucket, "x")) == ["", "plain"]
    found = {parent.join(name).key for parent, name in named_folders(clients, Location(bucket, "x"))}
    assert found == {"x//lake", "x/plain"}
    assert [name for _, name in named_folders(clients, Location(bucket, ""))] == ["x"]


@pytest.mark.parametrize(
    ("given", "time"),
    [
        (NOON, NOON),
        (NOON.replace(tzinfo=None), NOON),
        (NOON.astimezone(timezone(timedelta(hours=9))), NOON),
        (datetime(1, 1, 1, tzinfo=UTC), None),
        (datetime(1970, 1, 1, tzinfo=UTC), None),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))), None),
        (None, None),
        ("2026-11-01T12:00:00Z", None),
    ],
)
def test_a_time_is_one_in_utc_or_unknown(given: Any, time: datetime | None) -> None:
    assert time_of(given) == time


def test_every_field_but_the_key_may_be_missing() -> None:
    entry = {"Key": "k"}
    (found,) = listed_objects({"Contents": [entry]})
    assert (found.size, found.etag, found.modified_at, found.storage_class) == (None, None, None, None)
    (version,) = listed_versions({"Versions": [entry | {"Size": None, "ETag": '""'}]})
    assert (version.version_id, version.is_latest, version.etag) == (None, None, None)
    (upload,) = open_uploads({"Uploads": [entry, entry | {"UploadId": "u"}]})
    assert upload.initiated_at is None
    head = head_response({})
    assert (head.size, head.etag, head.modified_at, head.multipart, head.archived) == (
        None,
        None,
        None,
        None,
        False,
    )
    assert (written_version({}), written_version({"CopyObjectResult": {}}, "CopyObjectResult")) == (
        None,
        None,
    )
    assert written_version({"ETag": '"e"'}) == "e"
    assert written_version({"ETag": '"e"', "VersionId": "v"}) == "v"
    assert written_version({"CopyObjectResult": {"ETag": '"e"'}}, "CopyObjectResult") == "e"
    with pytest.raises(IncompleteResponse, match="TagSet"):
        required({}, "TagSet")
    for lists in (listed_objects({"Contents": [{"Size": 1}]}), listed_versions({"Versions": [{}]})):
        with pytest.raises(BrokenListing):
            list(lists)
    with pytest.raises(BrokenListing):
        listed_folders({"CommonPrefixes": [{}]})


def version(hour: int | None, *, latest: bool | None = None, key: str = "k") -> dict[str, Any]:
    return {"Key": key, "LastModified": hour and NOON.replace(hour=hour), "IsLatest": latest}


TWO, HIDDEN = [version(2), version(1)], [version(3)]


@pytest.mark.parametrize(
    ("versions", "markers", "fields", "latest"),
    [
        pytest.param(TWO, [], {}, [True, False], id="by their order"),
        pytest.param(TWO, HIDDEN, {}, [False, False, True], id="beneath a marker"),
        pytest.param([version(4), *TWO], HIDDEN, {}, [True, False, False, False], id="over a marker"),
        pytest.param([version(2), version(2)], [], {}, [True, False], id="two of one second, newest first"),
        pytest.param([version(3)], HIDDEN, {}, [None, None], id="an object and a marker of one second"),
        pytest.param([version(1), version(2)], [], {}, [None, None], id="oldest first"),
        pytest.param([version(2), version(None)], [], {}, [None, None], id="one without a time"),
        pytest.param([version(2, latest=False), version(1)], [], {}, [False, None], id="the newest is not the latest"),
        pytest.param([version(2, latest=True), version(1)], [], {}, [True, False], id="one is named"),
        pytest.param([version(2, latest=False)], [version(1, latest=True)], {}, [False, True], id="both are named"),
        pytest.param(TWO, HIDDEN, {"KeyMarker": "k"}, [False] * 3, id="of a key that the page before began with"),
        pytest.param(TWO, [], {"KeyMarker": "j"}, [True, False], id="of a key that begins the page"),
        pytest.param([version(1, key="j"), version(1)], [version(2)], {}, [True, False, True], id="by key"),
    ],
)  # fmt: skip
def test_which_version_is_the_latest_where_the_store_does_not_say(
    versions: list[Any], markers: list[Any], fields: dict[str, Any], latest: list[bool | None]
) -> None:
    found = listed_versions({"Versions": versions, "DeleteMarkers": markers, **fields})
    assert [each.is_latest for each in found] == latest


def test_older_versions_of_a_store_that_does_not_say_which_is_the_latest(
    aws: Aws, clients: Clients, bucket: str
) -> None:
    """A file beneath a delete marker is one; a file that is there is none, and its older version is known."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = [
        aws.s3.put_object(Bucket=bucket, Key=f"log/{name}", Body=b"1")["VersionId"]
        for name in ("gone", "there")
    ]
    time.sleep(1.1)  # the store names whole seconds
    aws.s3.delete_object(Bucket=bucket, Key="log/gone")
    aws.s3.put_object(Bucket=bucket, Key="log/there", Body=b"2")
    for change in (without("IsLatest"), as_it_is):
        with habit(change):
            assert older_files(clients, Location(bucket, "log"), 3) == ["gone"]
            assert [
                older_version(clients, Location(bucket, f"log/{name}")) for name in ("gone", "there")
            ] == first


def test_a_page_holds_its_request() -> None:
    """Else the first versions of a page could be taken for the latest of a key that the page before began with."""
    given = iter([{"Name": "b", "NextKeyMarker": "k", "NextVersionIdMarker": "v"}, {"Name": "b"}])
    follow = {"KeyMarker": "NextKeyMarker", "VersionIdMarker": "NextVersionIdMarker"}
    assert [page.get("KeyMarker") for page in s3_pages.pages(lambda **_: next(given), {}, follow)] == [
        None,
        "k",
    ]


def test_what_is_acted_on_names_size_etag_and_time() -> None:
    whole = {"ContentLength": 1, "ETag": '"e"', "LastModified": NOON}
    assert head_of(whole).etag == "e"
    for name in whole:
        with pytest.raises(IncompleteResponse):
            head_of({key: value for key, value in whole.items() if key != name})


def test_what_is_acted_on_is_archived_by_the_names_of_its_store() -> None:
    answer = {"ContentLength": 1, "ETag": '"e"', "LastModified": NOON, "StorageClass": "Archive"}
    assert head_of(answer, StorageClasses(cloud="Alibaba OSS")).archived is True
    assert head_of(answer).archived is None
    assert head_of({**answer, "StorageClass": ""}).archived is False


OWN: dict[str, ClassKind] = {"Vault": "archived", "archive": "readable"}
STORES = {
    "private": StorageClasses(),
    "OSS": StorageClasses(cloud="Alibaba OSS"),
    "COS": StorageClasses(cloud="Tencent COS"),
    "OBS": StorageClasses(cloud="Huawei OBS"),
    "Google": StorageClasses(cloud="Google"),
    "private, by its rule": StorageClasses(OWN),
    "OSS, by its rule": StorageClasses(OWN, "Alibaba OSS"),
}
EVERYWHERE = {
    "STANDARD": False,
    "Standard": False,
    "GLACIER_IR": False,
    "INTELLIGENT_TIERING": None,
    "": None,
}
S3_ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")
READABLE, UNDECIDED, ARCHIVED = "readable", "undecided", "archived"
CLASSES = {
    "ColdArchive": {"OSS": ARCHIVED, "OSS, by its rule": ARCHIVED},
    "cold-archive": {"OSS": ARCHIVED, "OSS, by its rule": ARCHIVED},
    "Archive": {"OSS": ARCHIVED, "COS": ARCHIVED, "Google": READABLE, "private, by its rule": READABLE,
                "OSS, by its rule": READABLE},
    "COLD": {"OBS": ARCHIVED},
    "WARM": {"OBS": READABLE},
    "IA": {"OSS": READABLE, "OSS, by its rule": READABLE},
    "MAZ_STANDARD_IA": {"COS": READABLE},
    "NEARLINE": {"Google": READABLE},
    "VAULT": {"private, by its rule": ARCHIVED, "OSS, by its rule": ARCHIVED},
}  # fmt: skip
"""By class the stores that know it."""


def expected_class(name: str, store: str) -> bool | None:
    if name in EVERYWHERE:
        return EVERYWHERE[name]
    if name in S3_ARCHIVES:
        return store != "Google"
    return {READABLE: False, ARCHIVED: True, UNDECIDED: None}[CLASSES[name].get(store, UNDECIDED)]


@pytest.mark.parametrize("store", STORES)
def test_a_class_is_archived_readable_or_unknown_in_python_and_sql(store: str) -> None:
    classes = STORES[store]
    with duck.task_connection() as con:
        for name in (*EVERYWHERE, *S3_ARCHIVES, *CLASSES):
            sql = f"SELECT {classes.sql('class')} AS archived FROM (SELECT {duck.literal(name)} AS class)"
            (row,) = duck.rows_of(duck.query(con, sql))
            assert {classes.archived(name), row["archived"]} == {expected_class(name, store)}, name


@pytest.mark.parametrize(
    ("endpoint", "cloud"),
    [
        ("https://oss-cn-hangzhou-internal.aliyuncs.com", "Alibaba OSS"),
        ("https://s3.oss-eu-central-1.aliyuncs.com:443", "Alibaba OSS"),
        ("https://cos.ap-guangzhou.myqcloud.com", "Tencent COS"),
        ("https://OBS.cn-north-4.myhuaweicloud.com/", "Huawei OBS"),
        ("https://storage.googleapis.com", "Google"),
        ("https://googleapis.com.example.com", None),
        ("https://notaliyuncs.com", None),
        ("http://minio.lake.local:9000", None),
        ("https://s3.eu-central-1.amazonaws.com", None),
        (None, None),
    ],
)
def test_a_cloud_is_known_by_its_endpoint_alone(endpoint: str | None, cloud: str | None) -> None:
    assert cloud_of(endpoint) == cloud
    found = Clients(Endpoint(endpoint=endpoint)).storage_classes("lake")
    assert found.cloud == cloud


def test_unknown_classes_are_one_line_a_bucket() -> None:
    lines = unknown_class_warnings(["lake/VAULT", "lake/VAULT", "lake/PIT", "raw/VAULT"])
    assert [line.partition(":")[0] for line in lines] == ["lake", "raw"]
    assert "PIT, VAULT" in lines[0]


HTML = b"<!doctype html><html><head><title>Sign in</title><br></head></html>"
XHTML = b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body/></html>"


class Answering(BaseHTTPRequestHandler):
    """Answers everything with one body."""

    body, kind, more = b"", "text/html", False

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Length", str(len(self.body)))
        if self.more:
            self.send_header("x-amz-request-id", "1")
            self.send_header("ETag", '"e"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.body)

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@pytest.fixture
def answering(own_clients: None) -> Iterator[tuple[type[Answering], Any]]:
    handler = type("Handler", (Answering,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}", path_style=True)
    yield handler, Clients(endpoint).s3("lake")
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        pytest.param(HTML, "text/html; charset=utf-8", WebPage, id="a page"),
        pytest.param(XHTML, "text/html", WebPage, id="a page that is XML, too"),
        pytest.param(b'{"error": "no such API"}', "application/json", UnreadableResponse, id="JSON"),
    ],
)
def test_a_server_that_is_not_a_store_is_an_error_that_names_the_endpoint(
    answering: tuple[Any, Any], body: bytes, kind: str, error: type[Exception]
) -> None:
    handler, s3 = answering
    handler.body, handler.kind = body, kind
    with pytest.raises(error, match=r"http://127\.0\.0\.1:\d+"):
        s3.list_objects_v2(Bucket="lake")
    if error is WebPage:
        with pytest.raises(WebPage):
            s3.head_object(Bucket="lake", Key="k")


def test_an_object_that_is_a_page_is_an_object(answering: tuple[Any, Any]) -> None:
    handler, s3 = answering
    handler.body, handler.more = HTML, True
    assert s3.head_object(Bucket="lake", Key="index.html")["ETag"] == '"e"'
    assert s3.get_object(Bucket="lake", Key="index.html")["Body"].read() == HTML


@pytest.mark.parametrize(("lasting", "error"), [(False, ClientError), (True, BotoCoreError)])
def test_an_error_that_breaks_off_is_requested_again(
    clients: Clients, bucket: str, patched: pytest.MonkeyPatch, *, lasting: bool, error: type[Exception]
) -> None:
    twice = {"retries": {"mode": "standard", "total_max_attempts": 2}, "read_timeout": 1}
    patched.setattr(aws_module, "_patience", lambda _: twice)
    with (
        refusing(Refusals(first=0, lasting=lasting, answer=BROKEN_OFF)) as rules,
        pytest.raises(error, match="Read timeout" if lasting else "NoSuchKey"),
    ):
        clients.s3(bucket).get_object(Bucket=bucket, Key="none")
    assert len(rules.refused) == (2 if lasting else 1)


def test_an_empty_page_before_the_first_object_does_not_end_a_folder(clients: Clients, filled: str) -> None:
    """Ceph may answer with nothing and a way to go on; not every store counts its keys."""
    s3 = clients.s3(filled)
    given = iter([page(0, "a", Contents=[]), {"IsTruncated": False, "Contents": [{"Key": "k"}]}])
    store: Any = type("Store", (), {"list_objects_v2": lambda _, **__: next(given)})()
    assert s3_pages.holds_any(store, "lake", "")
    with habit(without("KeyCount")):
        assert s3_pages.holds_any(s3, filled, "t/report/")
        assert not s3_pages.holds_any(s3, filled, "nothing/")

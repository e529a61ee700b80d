"""Live listings of S3 and of local folders: the storage contract, versions, uploads, rights, failures."""

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakeaudit.engine.local import InProcessEngine, LocalBufferedRows
from lakeaudit.errors import SourceError
from lakeaudit.evidence import s3_pages
from lakeaudit.evidence.protocol import Part, Stored
from lakeaudit.evidence.storage.listing import Listing, reader, s3_listing
from lakeaudit.evidence.storage.listing.listing_partitions import Split
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.aws_failures import BrokenListing
from lakeaudit.schemas import UPLOAD, VERSION
from tests.conftest import Aws
from tests.sources.storage_contract import (
    OBJECTS,
    S3_ONLY,
    VERSIONED,
    StorageContract,
    World,
    context,
    rejected_by,
    stored_rows,
    uploads_of,
)

NOW = datetime.now(UTC)


def read(clients: Clients, where: str | Path, rate: float = 500, **options: Any) -> Stored:
    source = Listing(kind="listing", location=Location.parse(str(where)))
    paced = replace(context(clients, datetime.now(UTC)), rate=rate)
    return reader.read(source, paced, "listing 1", **options)


def _put_or_delete(aws: Aws, bucket: str, key: str, content: bytes | None) -> None:
    if content is None:
        aws.s3.delete_object(Bucket=bucket, Key=key)
    else:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=content)


class TestS3Contract(StorageContract):
    @pytest.fixture(scope="class", params=["unversioned", "versioned", "by-folder"])
    @classmethod
    def world(cls, request: pytest.FixtureRequest, clients: Clients, aws: Aws) -> World:
        bucket = f"listing-{request.param}"
        aws.s3.create_bucket(Bucket=bucket)
        if versioned := request.param != "unversioned":
            enabled: Any = {"Status": "Enabled"}
            aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
        began = datetime.now(UTC)
        for key, content in (OBJECTS | S3_ONLY).items():
            aws.s3.put_object(Bucket=bucket, Key=f"wh/{key}", Body=content)
        aws.s3.put_object(Bucket=bucket, Key="wh2/not/below", Body=b"")
        for key, contents in VERSIONED.items() if versioned else ():
            for version in contents:
                _put_or_delete(aws, bucket, f"wh/{key}", version)
        with pytest.MonkeyPatch.context() as patched:
            if request.param == "by-folder":  # as where there is more than few requests list
                patched.setattr(s3_listing.S3Lister, "few", lambda *_: None)
            stored = read(clients, f"s3://{bucket}/wh/")
        return World(
            stored=stored,
            place=Location(bucket, "wh"),
            objects=OBJECTS | S3_ONLY,
            began=began,
            versions=versioned,
            rows=stored_rows(stored),
        )


class TestLocalContract(StorageContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, tmp_path_factory: pytest.TempPathFactory) -> World:
        root = tmp_path_factory.mktemp("lake")
        for key, content in OBJECTS.items():
            (root / "wh" / key).parent.mkdir(parents=True, exist_ok=True)
            (root / "wh" / key).write_bytes(content)
        (root / "wh2").mkdir()
        (root / "wh2" / "other").write_bytes(b"")
        began = datetime.now(UTC)
        stored = read(Clients(), root / "wh")
        return World(
            stored=stored,
            place=Location.parse(str(root / "wh")),
            objects=OBJECTS,
            began=began,
            etags=False,
            rows=stored_rows(stored),
        )


def test_a_listing_is_done_within_its_cut_and_not_done_again(clients: Clients, aws: Aws, bucket: str) -> None:
    times = iter([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)])
    aws.s3.put_object(Bucket=bucket, Key="before", Body=b"")
    stored = read(clients, f"s3://{bucket}/", clock=lambda: next(times))
    aws.s3.put_object(Bucket=bucket, Key="after", Body=b"")
    assert [row["key"] for row in stored_rows(stored)] == ["before"]
    cut = stored.info.cut
    assert cut is not None
    assert (cut.start, cut.end) == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    assert cut.margin == timedelta(0)


def test_the_margin_of_a_listing_may_be_set(clients: Clients, tmp_path: Path) -> None:
    source = Listing(kind="listing", location=Location.parse(str(tmp_path)), margin=timedelta(minutes=10))
    cut = reader.read(source, context(clients, datetime.now(UTC)), "listing 1").info.cut
    assert cut is not None
    assert cut.margin == timedelta(minutes=10)


@pytest.mark.parametrize(
    ("page", "asked"),
    [
        (30, [("wh/", "")]),
        (10, [("wh/", "")]),
        (9, [("wh/", ""), ("wh/", "/"), *[("wh/day=0/", ""), ("wh/day=1/", "")]]),
    ],
)
def test_what_few_requests_list_is_listed_once_and_not_folder_by_folder(
    page: int,
    asked: list[tuple[str, str]],
    clients: Clients,
    aws: Aws,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table of a few files in partitions: three requests list it, or its folders are listed beside each other."""
    for number in range(30):
        aws.s3.put_object(Bucket=bucket, Key=f"wh/day={number % 2}/{number}", Body=b"")
    begun: list[tuple[str, str]] = []
    pages = s3_listing.S3Lister._pages

    def record_pages(self: s3_listing.S3Lister, prefix: str, delimiter: str) -> Iterator[s3_pages.Page]:
        begun.append((prefix, delimiter))
        return pages(self, prefix, delimiter)

    monkeypatch.setattr(s3_listing.S3Lister, "_pages", record_pages)
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", str(page))
    assert len(stored_rows(read(clients, f"s3://{bucket}/wh/"))) == 30
    assert set(begun) >= set(asked)
    assert (len(begun) == 1) == (len(asked) == 1)


def test_a_later_page_that_fails_is_reported_by_the_task_that_lists_it_again(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.s3.put_object(Bucket=bucket, Key="wh/day=1/a", Body=b"")
    pages = s3_listing.S3Lister._pages

    def failing(self: s3_listing.S3Lister, prefix: str, delimiter: str) -> Iterator[s3_pages.Page]:
        for page in pages(self, prefix, delimiter):
            yield {**page, "IsTruncated": not delimiter}
        if not delimiter:
            raise BrokenListing(reason="torn")

    monkeypatch.setattr(s3_listing.S3Lister, "_pages", failing)
    stored = read(clients, f"s3://{bucket}/wh/")
    assert [hole.subject for hole in stored.holes] == [f"s3://{bucket}/wh/day=1/"]


def test_a_listing_of_many_pages_and_folders_is_whole(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    keys = {f"f/{i % 3}/{i % 7}/{i}" for i in range(40)} | {f"flat/{i:04}" for i in range(40)} | {"top"}
    for key in keys:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=b"")
    stored = read(clients, f"s3://{bucket}/", rate=1000.0)
    found = [row["key"] for row in stored_rows(stored)]
    assert (len(found), set(found)) == (len(keys), keys)


def test_open_uploads_are_listed(clients: Clients, aws: Aws, bucket: str) -> None:
    begun = {
        key: aws.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in ("wh/a b+%41", "x")
    }
    stored = read(clients, f"s3://{bucket}/wh/")
    assert stored.lists_uploads
    answer = aws.s3.list_multipart_uploads(Bucket=bucket)["Uploads"][0]
    assert uploads_of(stored) == [
        {
            "source": "listing 1",
            "bucket": bucket,
            "key": "wh/a b+%41",
            "upload_id": begun["wh/a b+%41"],
            "initiated_at": answer["Initiated"].astimezone(UTC).replace(tzinfo=None),
        }
    ]


def test_uploads_with_a_gap_are_left_out_with_a_warning(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.s3.put_object(Bucket=bucket, Key="k", Body=b"")
    aws.s3.create_multipart_upload(Bucket=bucket, Key="u")
    real = s3_pages.upload_pages

    def first_page_only(*args: Any) -> Iterator[Any]:
        yield from real(*args)
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "list_multipart_uploads")

    monkeypatch.setattr(s3_pages, "upload_pages", first_page_only)
    stored = read(clients, f"s3://{bucket}/")
    assert (stored.lists_uploads, uploads_of(stored)) == (False, [])
    assert stored.warnings == (f"s3://{bucket}: open uploads could not be listed (access denied)",)
    assert stored.holes == ()
    assert [row["key"] for row in stored_rows(stored)] == ["k"]


def test_a_past_time_cannot_be_listed(tmp_path: Path) -> None:
    past = context(Clients(), datetime(2024, 5, 7, tzinfo=UTC), live=False)
    with pytest.raises(SourceError, match="a listing is live and cannot answer for 2024-05-07T00:00Z"):
        reader.read_place(Location.parse(str(tmp_path)), past, "listing 1")


def refuse(monkeypatch: pytest.MonkeyPatch, **answers: str) -> None:
    """The store answers the named calls with an error code."""
    real = Clients.s3

    def s3(self: Clients, *where: str) -> Any:
        client = real(self, *where)
        for name, code in answers.items():

            def refuse(code: str = code, name: str = name, **_: Any) -> Any:
                raise ClientError({"Error": {"Code": code, "Message": ""}}, name)

            setattr(client, name, refuse)
        return client

    monkeypatch.setattr(Clients, "s3", s3)


def test_refused_versions_and_uploads_are_warnings(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.s3.put_object(Bucket=bucket, Key="k", Body=b"")
    refuse(
        monkeypatch,
        get_bucket_versioning="AccessDenied",
        list_object_versions="AccessDenied",
        list_multipart_uploads="AccessDenied",
    )
    stored = read(clients, f"s3://{bucket}/")
    assert [row["key"] for row in stored_rows(stored)] == ["k"]
    assert (stored.lists_uploads, uploads_of(stored)) == (False, [])
    assert stored.warnings == (
        f"s3://{bucket}: versions may not be listed (access denied): delete markers and older versions are unknown",
        f"s3://{bucket}: open uploads may not be listed (access denied)",
    )


REFUSED = [("AccessDenied", "access denied"), ("PermanentRedirect", "lies in another region")]


@pytest.mark.parametrize(("code", "told"), REFUSED)
def test_a_refused_listing_is_an_error_and_never_an_empty_one(
    clients: Clients, bucket: str, monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    refuse(monkeypatch, list_objects_v2=code)
    with pytest.raises(SourceError, match=told):
        read(clients, f"s3://{bucket}/")


def test_a_missing_bucket_is_an_error(clients: Clients) -> None:
    with pytest.raises(SourceError, match=r"s3://no-such-bucket-at-all/.*: the bucket does not exist"):
        read(clients, "s3://no-such-bucket-at-all/wh/")


def test_no_credentials_is_an_error(s3: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SourceError, match="no AWS credentials found"):
        read(Clients(s3), "s3://lake/")


def test_a_split_that_fails_is_an_evidence_gap_and_the_rest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"1")
    root = f"{str(tmp_path)[1:]}/"
    splits = [Split(root, flat=True), Split(f"{root}gone/", flat=False), Split(f"{root}\udcff/", flat=False)]
    monkeypatch.setattr(reader, "partition", lambda *_: splits)
    stored = read(Clients(), tmp_path)
    assert [row["size"] for row in stored_rows(stored)] == [1]
    assert sorted((hole.subject, hole.reason, hole.hides) for hole in stored.holes) == [
        (f"/{root}{name}/", "could not be listed: No such file or directory", "the objects below it")
        for name in ("\\udcff", "gone")
    ]
    assert {(hole.source, hole.count, hole.kind) for hole in stored.holes} == {
        ("listing 1", 1, "unreadable_evidence")
    }


def test_what_was_listed_before_a_failure_is_kept(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    for number in range(9):
        aws.s3.put_object(Bucket=bucket, Key=f"flat/{number}", Body=b"")
    monkeypatch.setattr(reader, "partition", lambda root, *_: [Split(root, flat=False)])
    real = s3_pages.object_pages

    def two_pages(*args: Any) -> Iterator[Any]:
        yield from islice(real(*args), 2)
        raise ClientError({"Error": {"Code": "SlowDown", "Message": ""}}, "list_objects_v2")

    monkeypatch.setattr(s3_pages, "object_pages", two_pages)
    stored = read(clients, f"s3://{bucket}/")
    assert [row["key"] for row in stored_rows(stored)] == [f"flat/{number}" for number in range(6)]
    assert [(hole.subject, hole.reason) for hole in stored.holes] == [
        (f"s3://{bucket}/", "could not be listed: the store answered SlowDown")
    ]


def test_requests_are_paced_for_all_tasks_together(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    read(clients, f"s3://{bucket}/", rate=50.0)
    assert {wait for wait in waits if wait < 1} == {2 / 50.0}, "longer ones are those of other threads"


class Recorder(InProcessEngine):
    """Holds the parts that it was given, after a journey to another process and back."""

    parts: tuple[Part, ...] = ()

    def keep(self, parts: Sequence[Part]) -> LocalBufferedRows:
        self.parts = tuple(pickle.loads(pickle.dumps(parts)))
        return super().keep(self.parts)


def test_parts_travel_and_give_rows_as_the_schemas_have_them(clients: Clients, aws: Aws, bucket: str) -> None:
    aws.s3.put_object(Bucket=bucket, Key="k", Body=b"")
    aws.s3.create_multipart_upload(Bucket=bucket, Key="u")
    engine = Recorder()
    reader.read_place(Location(bucket, ""), replace(context(clients, NOW), engine=engine), "listing 1")
    kept = engine.keep(engine.parts)
    schemas = {chunk.kind: chunk.batch.schema for chunk in kept.chunks if chunk.kind != "counted"}
    assert schemas == {"versions": VERSION, "uploads": UPLOAD}
    assert {chunk.batch["source"][0].as_py() for chunk in kept.chunks} == {"listing 1"}


def test_pages_travel_in_large_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages: Any = [[{"bucket": "b", "key": f"{page}/{row}"} for row in range(4)] for page in range(5)]
    monkeypatch.setattr(reader, "BATCH_ROWS", 8)
    batches = list(reader._batches("listing 1", iter(pages), VERSION))
    assert [batch.num_rows for batch in batches] == [8, 8, 4]
    assert [key for batch in batches for key in batch["key"].to_pylist()] == [
        row["key"] for page in pages for row in page
    ]


def test_a_store_that_stops_in_the_middle_is_an_evidence_gap(
    clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket goes away between the first look and the tasks."""
    aws.s3.put_object(Bucket=bucket, Key="a/k", Body=b"")
    real = s3_listing.rights

    def then_gone(clients: Clients, place: Location) -> Any:
        found = real(clients, place)
        aws.s3.delete_object(Bucket=bucket, Key="a/k")
        aws.s3.delete_bucket(Bucket=bucket)
        return found

    monkeypatch.setattr(reader, "rights", then_gone)
    with pytest.raises(SourceError, match="the bucket does not exist"):
        read(clients, f"s3://{bucket}/")


def test_other_than_plain_files_are_rejected_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    Path(os.fsdecode(bytes(tmp_path / "folder") + b"/bad\xff")).write_bytes(b"")
    engine = Recorder()
    place = Location.parse(str(tmp_path))
    stored = reader.read_place(place, replace(context(Clients(), NOW), engine=engine), "listing 1")
    assert [row["key"] for row in stored_rows(stored) if "key" in row] == [f"{str(tmp_path)[1:]}/plain"]
    assert sorted(reason for part in engine.parts for reason in rejected_by(part)) == sorted(
        [
            f"{tmp_path}/folder/bad\\udcff: name is not UTF-8",
            f"{tmp_path}/link: symbolic link, not followed",
            f"{tmp_path}/loop: symbolic link, not followed",
        ]
    )


def test_a_local_place_that_is_not_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a folder"):
        read(Clients(), tmp_path / "nothing")

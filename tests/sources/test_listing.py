"""Live listings of S3 and of local folders: the storage contract, versions, uploads, rights, failures."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyspark.sql import SparkSession

from lakeaudit.config import Listing
from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Stored
from lakeaudit.evidence.storage import listing, s3_listing
from lakeaudit.evidence.storage.local_folder import LocalLister
from lakeaudit.evidence.storage.splits import Split
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients, Endpoint
from lakeaudit.schemas import VERSION
from tests.conftest import Aws
from tests.sources.storage_contract import (
    OBJECTS,
    S3_ONLY,
    VERSIONED,
    StorageContract,
    World,
    context,
    rows_of,
)


def read(spark: SparkSession, clients: Clients, where: str | Path, **options: Any) -> Stored:
    source = Listing(kind="listing", location=Location.parse(str(where)))
    return listing.read(source, context(spark, clients, datetime.now(UTC)), "listing 1", **options)


def _put_or_delete(aws: Aws, bucket: str, key: str, content: bytes | None) -> None:
    if content is None:
        aws.s3.delete_object(Bucket=bucket, Key=key)
    else:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=content)


class TestS3Contract(StorageContract):
    @pytest.fixture(scope="class", params=["unversioned", "versioned"])
    @classmethod
    def world(cls, request: pytest.FixtureRequest, spark: SparkSession, clients: Clients, aws: Aws) -> World:
        bucket = f"listing-{request.param}"
        aws.s3.create_bucket(Bucket=bucket)
        if versioned := request.param == "versioned":
            enabled: Any = {"Status": "Enabled"}
            aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
        began = datetime.now(UTC)
        for key, content in (OBJECTS | S3_ONLY).items():
            aws.s3.put_object(Bucket=bucket, Key=f"wh/{key}", Body=content)
        aws.s3.put_object(Bucket=bucket, Key="wh2/not/below", Body=b"")
        for key, contents in VERSIONED.items() if versioned else ():
            for version in contents:
                _put_or_delete(aws, bucket, f"wh/{key}", version)
        stored = read(spark, clients, f"s3://{bucket}/wh/")
        return World(
            stored=stored,
            place=Location(bucket, "wh"),
            objects=OBJECTS | S3_ONLY,
            began=began,
            versions=versioned,
            rows=rows_of(stored.frame),
        )


class TestLocalContract(StorageContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
        root = tmp_path_factory.mktemp("lake")
        for key, content in OBJECTS.items():
            (root / "wh" / key).parent.mkdir(parents=True, exist_ok=True)
            (root / "wh" / key).write_bytes(content)
        (root / "wh2").mkdir()
        (root / "wh2" / "other").write_bytes(b"")
        began = datetime.now(UTC)
        stored = read(spark, Clients(), root / "wh")
        return World(
            stored=stored,
            place=Location.parse(str(root / "wh")),
            objects=OBJECTS,
            began=began,
            etags=False,
            rows=rows_of(stored.frame),
        )


def test_a_listing_is_done_within_its_cut_and_not_done_again(
    spark: SparkSession, clients: Clients, aws: Aws, bucket: str
) -> None:
    times = iter([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)])
    aws.s3.put_object(Bucket=bucket, Key="before", Body=b"")
    stored = read(spark, clients, f"s3://{bucket}/", clock=lambda: next(times))
    aws.s3.put_object(Bucket=bucket, Key="after", Body=b"")
    assert [row["key"] for row in rows_of(stored.frame)] == ["before"]
    cut = stored.info.cut
    assert cut is not None
    assert (cut.start, cut.end) == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    assert cut.margin == timedelta(0)


def test_a_listing_of_many_pages_and_folders_is_whole(
    spark: SparkSession, clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    keys = {f"f/{i % 3}/{i % 7}/{i}" for i in range(40)} | {f"flat/{i:04}" for i in range(40)} | {"top"}
    for key in keys:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=b"")
    stored = read(spark, clients, f"s3://{bucket}/", rate=1000.0)
    found = [row.key for row in stored.frame.select("key").collect()]
    assert (len(found), set(found)) == (len(keys), keys)


def test_open_uploads_are_listed(spark: SparkSession, clients: Clients, aws: Aws, bucket: str) -> None:
    begun = {
        key: aws.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for key in ("wh/a b+%41", "x")
    }
    stored = read(spark, clients, f"s3://{bucket}/wh/")
    assert stored.uploads is not None
    assert [row.asDict() for row in stored.uploads.drop("initiated_at").collect()] == [
        {"source": "listing 1", "bucket": bucket, "key": "wh/a b+%41", "upload_id": begun["wh/a b+%41"]}
    ]


def test_a_past_time_cannot_be_listed(spark: SparkSession, tmp_path: Path) -> None:
    past = context(spark, Clients(), datetime(2024, 5, 7, tzinfo=UTC), live=False)
    with pytest.raises(SourceError, match="a listing is live and cannot answer for 2024-05-07T00:00Z"):
        listing.read_place(Location.parse(str(tmp_path)), past, "listing 1")


def refuse(monkeypatch: pytest.MonkeyPatch, **answers: str) -> None:
    """The store answers the named calls with an error code."""
    real = Clients.s3

    def s3(self: Clients, bucket: str) -> Any:
        client = real(self, bucket)
        for name, code in answers.items():

            def refused(code: str = code, name: str = name, **_: Any) -> Any:
                raise ClientError({"Error": {"Code": code, "Message": ""}}, name)

            setattr(client, name, refused)
        return client

    monkeypatch.setattr(Clients, "s3", s3)


def test_refused_versions_and_uploads_are_warnings(
    spark: SparkSession, clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.s3.put_object(Bucket=bucket, Key="k", Body=b"")
    refuse(
        monkeypatch,
        get_bucket_versioning="AccessDenied",
        list_object_versions="AccessDenied",
        list_multipart_uploads="AccessDenied",
    )
    stored = read(spark, clients, f"s3://{bucket}/")
    assert [row["key"] for row in rows_of(stored.frame)] == ["k"]
    assert stored.uploads is None
    assert stored.warnings == (
        "versions may not be listed (access denied): delete markers and older versions are unknown",
        "open uploads may not be listed (access denied)",
    )


REFUSED = [("AccessDenied", "access denied"), ("PermanentRedirect", "lies in another region")]


@pytest.mark.parametrize(("code", "told"), REFUSED)
def test_a_refused_listing_is_an_error_and_never_an_empty_one(
    spark: SparkSession, clients: Clients, bucket: str, monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    refuse(monkeypatch, list_objects_v2=code)
    with pytest.raises(SourceError, match=told):
        read(spark, clients, f"s3://{bucket}/")


def test_a_missing_bucket_is_an_error(spark: SparkSession, clients: Clients) -> None:
    with pytest.raises(SourceError, match=r"s3://no-such-bucket-at-all/.*: the bucket does not exist"):
        read(spark, clients, "s3://no-such-bucket-at-all/wh/")


def test_no_credentials_is_an_error(
    spark: SparkSession, s3: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SourceError, match="no AWS credentials found"):
        read(spark, Clients(s3), "s3://lake/")


def test_a_split_that_fails_is_a_hole_and_the_rest_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    splits = [Split(f"{str(tmp_path)[1:]}/", flat=True), Split(f"{str(tmp_path)[1:]}/gone/", flat=False)]
    frame, faults = listing._listed(LocalLister().rows, splits, VERSION, spark)
    assert [row.size for row in frame.collect()] == [1]
    assert [(fault.prefix, fault.reason) for fault in faults] == [
        (splits[1].prefix, "No such file or directory")
    ]


def test_a_store_that_ends_in_the_middle_is_a_hole(
    spark: SparkSession, clients: Clients, aws: Aws, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket goes away between the first look and the tasks."""
    aws.s3.put_object(Bucket=bucket, Key="a/k", Body=b"")
    real = s3_listing.rights

    def then_gone(clients: Clients, place: Location) -> Any:
        found = real(clients, place)
        aws.s3.delete_object(Bucket=bucket, Key="a/k")
        aws.s3.delete_bucket(Bucket=bucket)
        return found

    monkeypatch.setattr(listing, "rights", then_gone)
    with pytest.raises(SourceError, match="the bucket does not exist"):
        read(spark, clients, f"s3://{bucket}/")


def test_what_is_no_plain_file_is_rejected_or_left_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    Path(os.fsdecode(bytes(tmp_path / "folder") + b"/bad\xff")).write_bytes(b"")
    rows = rows_of(read(spark, Clients(), tmp_path).frame)
    assert [row["key"] for row in rows if "key" in row] == [f"{str(tmp_path)[1:]}/plain"]
    assert sorted(row["reject"] for row in rows if "reject" in row) == sorted(
        [
            f"{tmp_path}/folder/bad\\udcff: name is not UTF-8",
            f"{tmp_path}/link: symbolic link, not followed",
            f"{tmp_path}/loop: symbolic link, not followed",
        ]
    )


def test_a_local_place_that_is_no_folder_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is no folder"):
        read(spark, Clients(), tmp_path / "nothing")

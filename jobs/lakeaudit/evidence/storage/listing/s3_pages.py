"""Pages of the S3 listing calls, each page as plain rows. Runs in tasks and on the driver alike.

The end of a list is what `IsTruncated` says, never a short page, and an empty page is no end. Keys come
decoded: botocore asks for `EncodingType=url` and undoes it, save for uploads, where that is done here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from botocore.parsers import ResponseParserError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from lakeaudit.keys import ARCHIVE_CLASSES, NULL_VERSION
from lakeaudit.schemas import plain_time

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Page = Mapping[str, Any]
Row = dict[str, Any]
Pace = Callable[[], None]
"""Waits until the next request may be made."""


class BrokenListingError(Exception):
    """A store's answers do not make a list: more is promised without a way to ask for it."""


def object_pages(client: "S3Client", bucket: str, prefix: str, delimiter: str, pace: Pace) -> Iterator[Page]:
    """ListObjectsV2: the current objects, and CommonPrefixes where a delimiter is given."""
    request = {"Bucket": bucket, "Prefix": prefix, "Delimiter": delimiter}
    return _pages(client.list_objects_v2, request, {"ContinuationToken": "NextContinuationToken"}, pace)


def version_pages(client: "S3Client", bucket: str, prefix: str, delimiter: str, pace: Pace) -> Iterator[Page]:
    """ListObjectVersions: every version and delete marker."""
    request = {"Bucket": bucket, "Prefix": prefix, "Delimiter": delimiter}
    follow = {"KeyMarker": "NextKeyMarker", "VersionIdMarker": "NextVersionIdMarker"}
    return _pages(client.list_object_versions, request, follow, pace)


def upload_pages(client: "S3Client", bucket: str, prefix: str, pace: Pace) -> Iterator[Page]:
    """ListMultipartUploads: what was begun and not completed."""
    request = {"Bucket": bucket, "Prefix": prefix, "EncodingType": "url"}
    follow = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
    return map(_decoded_uploads, _pages(client.list_multipart_uploads, request, follow, pace))


def object_rows(bucket: str, page: Page) -> list[Row]:
    """VERSION rows of a page of objects: each is the latest version of its key."""
    return [
        _row(bucket, entry) | {"is_latest": True, "is_delete_marker": False}
        for entry in page.get("Contents", [])
    ]


def version_rows(bucket: str, page: Page) -> list[Row]:
    """VERSION rows of a page of versions; the text `null` is the null version."""
    kinds = [("Versions", False), ("DeleteMarkers", True)]
    return [
        _row(bucket, entry) | {"is_latest": entry["IsLatest"], "is_delete_marker": marker}
        for name, marker in kinds
        for entry in page.get(name, [])
    ]


def upload_rows(bucket: str, page: Page) -> list[Row]:
    """UPLOAD rows of a page."""
    return [
        {
            "bucket": bucket,
            "key": entry["Key"],
            "upload_id": entry["UploadId"],
            "initiated_at": plain_time(entry["Initiated"]),
        }
        for entry in page.get("Uploads", [])
    ]


def _row(bucket: str, entry: Mapping[str, Any]) -> Row:
    etag = entry.get("ETag", "").strip('"') or None
    version = entry.get("VersionId", NULL_VERSION)
    return {
        "bucket": bucket,
        "key": entry["Key"],
        "version_id": None if version == NULL_VERSION else version,
        "size": entry.get("Size"),
        "etag": etag,
        "modified_at": plain_time(entry["LastModified"]),
        "storage_class": entry.get("StorageClass"),
        "archived": _archived(entry.get("StorageClass")),
        # A suffix proves an upload in parts; its absence proves nothing under KMS.
        "multipart": True if etag and "-" in etag else None,
    }


def _archived(storage_class: str | None) -> bool | None:
    """A listing tells neither the tier of INTELLIGENT_TIERING nor that an object is restored just now."""
    if storage_class is None or storage_class == "INTELLIGENT_TIERING":
        return None
    return storage_class in ARCHIVE_CLASSES


def _pages(
    call: Callable[..., Page], request: Mapping[str, str], follow: Mapping[str, str], pace: Pace
) -> Iterator[Page]:
    markers: dict[str, str] = {}
    # The SDK repeats what failed on the way; a 200 with half a body it gives up on.
    patient = Retrying(
        retry=retry_if_exception_type(ResponseParserError),
        stop=stop_after_attempt(5),
        wait=wait_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    while True:
        pace()
        page = patient(call, **request, **markers)
        yield page
        if not page.get("IsTruncated"):
            return
        following = {name: page[answer] for name, answer in follow.items() if page.get(answer)}
        if not following or following == markers:
            raise BrokenListingError("the store says that its list goes on and not where")
        markers = following


def _decoded_uploads(page: Page) -> Page:
    if page.get("EncodingType") != "url":
        return page
    uploads = [{**entry, "Key": unquote_plus(entry["Key"])} for entry in page.get("Uploads", [])]
    return {**page, "Uploads": uploads}

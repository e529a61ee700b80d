"""Iterate over the pages of the S3 listing calls, on the driver and in tasks.

A listing is complete only if its last page says so. The SDK's own paginators stop without an error at a page that is
truncated and has no continuation token; here that is an error, and so is a list that repeats itself. `IsTruncated`
marks the end of a list; a short or an empty page does not. Keys are decoded: botocore requests `EncodingType=url` and
decodes the keys, except for uploads, which are decoded here.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from lakeaudit.runtime.connections.aws_failures import BrokenListing, UnreadableResponse

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Page = Mapping[str, Any]
Pace = Callable[[], None]
"""Waits until the next request may be made."""
_ENTRIES = (
    "Contents",
    "Versions",
    "DeleteMarkers",
    "Uploads",
    "CommonPrefixes",
    "InventoryConfigurationList",
)
_NEXT = ("NextContinuationToken", "NextKeyMarker")
TRIES = 5
_FULL_PAGE = 1000
"""The page size that is assumed if the store does not name its own."""
_OF_LISTINGS = ("IsTruncated", "Name", "Bucket", "KeyCount", *_NEXT, *_ENTRIES)
"""A page of a listing has one of these; other XML that is parsed as a listing has none of them."""
NO_LISTING = "the store's response is not a listing: check s3.endpoint and s3.path_style"
ENDLESS = "the store's listing of this folder ends early: it is truncated, but has no continuation token"
REPEATED = "the store's list repeats itself and does not end"


def at_once() -> None:
    """Do not wait: for a few requests."""


def object_pages(
    client: "S3Client", bucket: str, prefix: str, delimiter: str = "", pace: Pace = at_once, after: str = ""
) -> Iterator[Page]:
    """Yield pages of ListObjectsV2: the current objects after the key `after`; with a delimiter, CommonPrefixes too."""
    request = {"Bucket": bucket, "Prefix": prefix, "Delimiter": delimiter} | (
        {"StartAfter": after} if after else {}
    )
    return pages(client.list_objects_v2, request, {"ContinuationToken": "NextContinuationToken"}, pace)


def holds_any(client: "S3Client", bucket: str, prefix: str) -> bool:
    """Return whether there is an object whose key begins with a prefix; reads on after an empty, truncated page."""
    request: dict[str, str | int] = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": 1}
    follow = {"ContinuationToken": "NextContinuationToken"}
    return any(page.get("Contents") for page in pages(client.list_objects_v2, request, follow))


def version_pages(
    client: "S3Client", bucket: str, prefix: str, delimiter: str = "", pace: Pace = at_once
) -> Iterator[Page]:
    """Yield pages of ListObjectVersions: every version and delete marker."""
    request = {"Bucket": bucket, "Prefix": prefix, "Delimiter": delimiter}
    follow = {"KeyMarker": "NextKeyMarker", "VersionIdMarker": "NextVersionIdMarker"}
    return pages(client.list_object_versions, request, follow, pace)


def upload_pages(client: "S3Client", bucket: str, prefix: str, pace: Pace = at_once) -> Iterator[Page]:
    """Yield pages of ListMultipartUploads: the uploads in progress."""
    request = {"Bucket": bucket, "Prefix": prefix, "EncodingType": "url"}
    follow = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
    return map(_decoded_uploads, pages(client.list_multipart_uploads, request, follow, pace))


def pages(
    call: Callable[..., Page],
    request: Mapping[str, str | int],
    follow: Mapping[str, str],
    pace: Pace = at_once,
) -> Iterator[Page]:
    """Yield every page of a listing call; `follow` maps the parameters of the next request to fields of a page.

    A page includes the parameters of its request, also where the store does not repeat them.

    Raises:
        BrokenListing: the list is truncated without a continuation token, repeats itself, or is not a listing.
    """
    markers: dict[str, str] = {}
    progress = _Progress()
    while True:
        pace()
        page = _patiently(call, {**request, **markers})
        if not any(name in page for name in _OF_LISTINGS):
            raise BrokenListing(reason=NO_LISTING)
        yield {**page, **markers}
        following = {name: page[field] for name, field in follow.items() if page.get(field)}
        if not _goes_on(page, following):
            return
        if not following:
            raise BrokenListing(reason=ENDLESS)
        progress.check(page, following)
        markers = following


def _patiently(call: Callable[..., Page], request: Mapping[str, str | int]) -> Page:
    """Return a page. The SDK retries failed requests, but not a 200 with half a body."""
    for number in range(TRIES):
        try:
            return call(**request)
        except UnreadableResponse:
            if number == TRIES - 1:
                raise
            time.sleep(0.2 * 2**number)
    raise AssertionError("the last try raises")


def is_whole(page: Page) -> bool:
    """Return whether a single page is the whole list."""
    return not _goes_on(page, {name: page[name] for name in _NEXT if page.get(name)})


def _goes_on(page: Page, following: Mapping[str, str]) -> bool:
    """Return whether more pages follow; without `IsTruncated`, a page is the last unless full or naming the next."""
    truncated = page.get("IsTruncated")
    if truncated is not None:
        return bool(truncated)
    count = sum(len(page.get(name) or ()) for name in _ENTRIES)
    return bool(following) or count >= (page.get("MaxKeys") or page.get("MaxUploads") or _FULL_PAGE)


@dataclass
class _Progress:
    """Detects that a list repeats itself, with any period and in constant memory (Brent's algorithm).

    One page is stored; the current page replaces it after 1, 2, 4, 8, ... pages.
    """

    remembered: tuple[object, object] | None = None
    since: int = 0
    limit: int = 1

    def check(self, page: Page, following: Mapping[str, str]) -> None:
        """Raise BrokenListing if the page, or the next page that it names, equals the stored one."""
        place, first = tuple(sorted(following.items())), _first_entry(page)
        if self.remembered is not None:
            known_place, known_first = self.remembered
            if place == known_place or (first is not None and first == known_first):
                raise BrokenListing(reason=REPEATED)
        self.since += 1
        if self.since == self.limit:
            self.remembered, self.since, self.limit = (place, first), 0, self.limit * 2


def _first_entry(page: Page) -> object:
    """Return the first entries of a page and its size; None for an empty page."""
    first = [
        (name, len(entries), entries[0].get("Key"), entries[0].get("Prefix"), entries[0].get("VersionId"),
         entries[0].get("UploadId"), entries[0].get("Id"), entries[-1].get("Key"))
        for name in _ENTRIES if (entries := page.get(name))
    ]  # fmt: skip
    return first or None


def _decoded_uploads(page: Page) -> Page:
    if page.get("EncodingType") != "url":
        return page
    uploads = [{**entry, "Key": unquote_plus(entry.get("Key") or "")} for entry in page.get("Uploads") or ()]
    return {**page, "Uploads": uploads}

"""List one S3 bucket: the permitted requests, its folders, and the rows of a split."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence import s3_pages
from lakeaudit.evidence.s3_responses import listed_folders, listed_versions
from lakeaudit.evidence.storage.listing.listing_partitions import Split
from lakeaudit.evidence.storage.listing.rows import Row, object_rows, upload_rows, version_rows
from lakeaudit.keys import Location, is_of_aws
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import BrokenListing, explain

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


FEW = 3
"""Requests after which a place is cut into folders, to be listed side by side."""
MOST_UPLOAD_PAGES = 100
"""Pages of a whole bucket's uploads that are read for those of one place."""
NO_VERSION_IDS = "the store names no version ids: delete markers and older versions are unknown"


@dataclass(frozen=True)
class S3Lister:
    """Lists one bucket; plain data that travels to the tasks.

    `versions`: every version is listed; `interval` is the number of seconds between two requests of a task.
    """

    clients: Clients
    bucket: str
    versions: bool
    interval: float = 0.0

    def folders(self, prefix: str) -> Iterator[list[str]]:
        """The sub-folders, page by page; with versions, also those that hold only delete markers."""
        for page in self._pages(prefix, "/"):
            yield listed_folders(page)

    def few(self, prefix: str) -> list[Row] | None:
        """Return VERSION rows of all objects below a prefix, if FEW requests list them; else None.

        Only a failure of the first request is raised: the caller, which lists the rest, meets the other ones again.
        """
        pages = self._pages(prefix, "")
        listed = [next(pages)]
        with suppress(ClientError, BotoCoreError):
            listed += islice(pages, FEW - 1)
        if not s3_pages.is_whole(listed[-1]):
            return None
        return [row for page in listed for row in self._rows(page)]

    def rows(self, split: Split) -> Iterator[list[Row]]:
        """VERSION rows of a split, page by page."""
        yield from map(self._rows, self._pages(split.prefix, "/" if split.flat else ""))

    def uploads(self, prefix: str) -> Iterator[list[Row]]:
        """UPLOAD rows below a prefix, page by page.

        Some stores (MinIO) list uploads by their whole key alone and answer any other prefix with nothing: there an
        empty list is believed only of the whole bucket. AWS lists by prefix.
        """
        none = True
        for rows in self._uploads_of(prefix, prefix):
            none = none and not rows
            yield rows
        if none and prefix and not is_of_aws(self.clients.s3(self.bucket, prefix).meta.endpoint_url):
            yield from self._uploads_of("", prefix)

    def _uploads_of(self, requested: str, prefix: str) -> Iterator[list[Row]]:
        client = self.clients.s3(self.bucket, prefix)
        for number, page in enumerate(s3_pages.upload_pages(client, self.bucket, requested, self._pace)):
            if number >= MOST_UPLOAD_PAGES and requested != prefix:
                raise BrokenListing(
                    reason="the store lists uploads of whole buckets alone, and there are too many"
                )
            yield upload_rows(self.bucket, page, prefix)

    def _rows(self, page: s3_pages.Page) -> list[Row]:
        rows = version_rows if self.versions else object_rows
        return rows(self.bucket, page, self.clients.storage_classes(self.bucket))

    def _pages(self, prefix: str, delimiter: str) -> Iterator[s3_pages.Page]:
        request = s3_pages.version_pages if self.versions else s3_pages.object_pages
        return request(self.clients.s3(self.bucket, prefix), self.bucket, prefix, delimiter, self._pace)

    def _pace(self) -> None:
        time.sleep(self.interval)


@dataclass(frozen=True)
class Rights:
    """What the audit may ask of a place beside its current objects.

    A warning names the bucket alone, so that the places of one bucket give one warning.
    """

    versions: bool
    uploads: bool
    warnings: tuple[str, ...]


def rights(clients: Clients, place: Location) -> Rights:
    """Probes the place with one small request of each sort.

    Raises:
        SourceError: its objects may not be listed, or it cannot be reached.
    """
    client = clients.s3(*place)
    try:
        client.list_objects_v2(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=1)
        versions, no_versions = _versions(client, place)
        uploads, no_uploads = _uploads(client, place)
    except (ClientError, BotoCoreError) as error:
        raise SourceError(place.uri, *explain(error)) from error
    warnings = (f"s3://{place.bucket}: {each}" for each in (*no_versions, *no_uploads))
    return Rights(versions, uploads, tuple(warnings))


def never_versioned(client: "S3Client", bucket: str) -> bool:
    """Whether a bucket surely never kept versions: only then does it have no word on them."""
    return "Status" not in client.get_bucket_versioning(Bucket=bucket)


def _versions(client: "S3Client", place: Location) -> tuple[bool, list[str]]:
    """Only a bucket that surely never had versions is listed without asking for them."""
    try:
        if never_versioned(client, place.bucket):
            return False, []
    except ClientError:
        pass
    try:
        page = client.list_object_versions(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=1)
    except ClientError as error:
        why = explain(error)[0]
        return False, [f"versions may not be listed ({why}): delete markers and older versions are unknown"]
    if any(version.version_id is None for version in listed_versions(page)):
        return False, [NO_VERSION_IDS]
    return True, []


def _uploads(client: "S3Client", place: Location) -> tuple[bool, list[str]]:
    try:
        client.list_multipart_uploads(Bucket=place.bucket, Prefix=place.prefix, MaxUploads=1)
    except ClientError as error:
        return False, [f"open uploads may not be listed ({explain(error)[0]})"]
    return True, []

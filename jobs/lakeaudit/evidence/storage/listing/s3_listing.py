"""One S3 bucket as the listing reader sees it: what may be asked of it, its folders, the rows of a split."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.storage.listing import s3_pages
from lakeaudit.evidence.storage.listing.listing_partitions import Split
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class S3Lister:
    """Lists one bucket; plain data that travels to the tasks.

    `versions` says that every version is asked for, `interval` how many seconds lie between two requests
    of a task.
    """

    clients: Clients
    bucket: str
    versions: bool
    interval: float = 0.0

    def folders(self, prefix: str) -> Iterator[list[str]]:
        """The sub-folders, page by page; with versions, also those that hold only delete markers."""
        for page in self._pages(prefix, "/"):
            yield [folder["Prefix"] for folder in page.get("CommonPrefixes", [])]

    def is_one_page(self, prefix: str) -> bool:
        """Whether one request lists all of it: then folders need not be listed each on its own."""
        return not next(self._pages(prefix, "")).get("IsTruncated")

    def rows(self, split: Split) -> Iterator[list[s3_pages.Row]]:
        """VERSION rows of a split, page by page."""
        rows = s3_pages.version_rows if self.versions else s3_pages.object_rows
        for page in self._pages(split.prefix, "/" if split.flat else ""):
            yield rows(self.bucket, page)

    def uploads(self, prefix: str) -> Iterator[list[s3_pages.Row]]:
        """UPLOAD rows below a prefix, page by page."""
        client = self.clients.s3(self.bucket, prefix)
        for page in s3_pages.upload_pages(client, self.bucket, prefix, self._pace):
            yield s3_pages.upload_rows(self.bucket, page)

    def _pages(self, prefix: str, delimiter: str) -> Iterator[s3_pages.Page]:
        ask = s3_pages.version_pages if self.versions else s3_pages.object_pages
        return ask(self.clients.s3(self.bucket, prefix), self.bucket, prefix, delimiter, self._pace)

    def _pace(self) -> None:
        time.sleep(self.interval)


@dataclass(frozen=True)
class Rights:
    """What the audit may ask of a place beside its current objects."""

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
    return Rights(versions, uploads, (*no_versions, *no_uploads))


def _versions(client: "S3Client", place: Location) -> tuple[bool, list[str]]:
    """Only a bucket that surely never had versions is listed without asking for them."""
    try:
        if "Status" not in client.get_bucket_versioning(Bucket=place.bucket):
            return False, []
    except ClientError:
        pass
    try:
        client.list_object_versions(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=1)
    except ClientError as error:
        why = explain(error)[0]
        return False, [f"versions may not be listed ({why}): delete markers and older versions are unknown"]
    return True, []


def _uploads(client: "S3Client", place: Location) -> tuple[bool, list[str]]:
    try:
        client.list_multipart_uploads(Bucket=place.bucket, Prefix=place.prefix, MaxUploads=1)
    except ClientError as error:
        return False, [f"open uploads may not be listed ({explain(error)[0]})"]
    return True, []

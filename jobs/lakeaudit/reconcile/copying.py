"""Server-side copies that carry all that an object bears, in its own parts where it was uploaded in parts.

An ETag of parts is a digest of the parts' MD5s (S3 User Guide, "Checking object integrity"): a copy in the same parts
has the same one. What a copy does not take from its source by itself is given: storage class and encryption; to an
upload in parts everything else, tags among it. Access control lists are not carried.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.s3_responses import written_version
from lakeaudit.evidence.storage.head import ObjectHead, head_of
from lakeaudit.keys import Location
from lakeaudit.reconcile.canary import COMPLETE_IF_ABSENT, COPY_IF_ABSENT, PUT_IF_ABSENT
from lakeaudit.reconcile.protocol import NotProved
from lakeaudit.runtime.aws_failures import is_missing
from lakeaudit.runtime.aws_responses import required
from lakeaudit.storage_classes import EVERY_ARCHIVE

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MOST_COPIED = 5 << 30
"""Bytes that one CopyObject takes (S3 API reference)."""
MOST_READ = 64 << 20
"""Bytes that are held in memory, by each of a few threads, where the store's copies have no conditions."""
OF_COPY = ("StorageClass", "ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled")
"""What a copy does not take from its source by itself."""
CARRIED = (
    *("ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl", "Metadata"),
    *OF_COPY,
)
"""What an object that is written anew is given."""


def cannot_be_copied(size: int, etag: str | None) -> str | None:
    """Why no request copies an object of that size: above 5 GiB its own parts have to be known."""
    if size <= MOST_COPIED or "-" in (etag or ""):
        return None
    return "it is above 5 GiB and was not uploaded in parts: no copy would have its ETag"


@dataclass(frozen=True)
class Copying:
    """A copy of the object `source` of an ETag, or of one of its versions, to `to`.

    `s3` reaches `to`, and `source` as well, unless `of` does. What copies gives the id of the version that was written,
    else its ETag, else None: the store named neither. A condition is of what lies at `to`; `{}`: none.
    """

    s3: "S3Client"
    source: Location
    etag: str
    to: Location
    version_id: str | None = None
    of: "S3Client | None" = None

    @cached_property
    def head(self) -> Any:
        """What the store answers of the source."""
        return self._reader.head_object(**self._from, **self._unchanged)

    @property
    def needs_parts(self) -> bool:
        """Whether it has to be made in parts."""
        return "-" in self.etag

    def copy(self, condition: Mapping[str, Any]) -> str | None:
        """Copy it as it was uploaded, on the server's side."""
        return self.in_parts(condition) if self.needs_parts else self.whole(condition)

    def whole(self, condition: Mapping[str, Any]) -> str | None:
        """Copy it by one request, on the server's side."""
        given = carried(self.head, OF_COPY) | dict(condition)
        done: Any = self.s3.copy_object(
            **self._to, CopySource=self._from, CopySourceIfMatch=f'"{self.etag}"', **given
        )
        return written_version(done, "CopyObjectResult")

    def read_and_put(self, condition: Mapping[str, Any]) -> str | None:
        """Read it into memory, and write it."""
        got: Any = self._reader.get_object(**self._from, **self._unchanged)
        given = carried(got, CARRIED) | tagging(self._reader, self._from, got)
        put = self.s3.put_object(**self._to, Body=got["Body"].read(), **given, **condition)
        return written_version(put)

    def in_parts(self, condition: Mapping[str, Any]) -> str | None:
        """Copy it in the parts that it was uploaded in, on the server's side."""
        head = self.head
        tags = tagging(self.s3, self._from, head | {"TagCount": head.get("TagCount", 1)})
        begun = self.s3.create_multipart_upload(**self._to, **(carried(head, CARRIED) | tags))
        upload: Any = {**self._to, "UploadId": required(begun, "UploadId")}
        try:
            done: Any = [
                {"PartNumber": number, "ETag": self._part(upload, number, first, last)}
                for number, (first, last) in enumerate(self._ranges(required(head, "ContentLength")), 1)
            ]
            parts: Any = {"Parts": done}
            written = self.s3.complete_multipart_upload(**upload, MultipartUpload=parts, **condition)
        except (ClientError, BotoCoreError):
            with suppress(ClientError, BotoCoreError):
                self.s3.abort_multipart_upload(**upload)
            raise
        return written_version(written)

    def is_conditional(self, forms: frozenset[str]) -> bool:
        """Whether the store honours that a copy is made only where nothing is."""
        return (COMPLETE_IF_ABSENT if self.needs_parts else COPY_IF_ABSENT) in forms

    def unsafe(self, forms: frozenset[str]) -> str | None:
        """Why it cannot be written only where nothing is, by copy or otherwise; None: it can."""
        if self.is_conditional(forms):
            return None
        if self.needs_parts:
            return "the store does not honour If-None-Match of CompleteMultipartUpload"
        if PUT_IF_ABSENT not in forms:
            return "the store honours If-None-Match neither of CopyObject nor of PutObject"
        if required(self.head, "ContentLength") > MOST_READ:
            return f"the store's copies have no conditions, and it is above {MOST_READ >> 20} MiB"
        return None

    def where_absent(self, forms: frozenset[str]) -> None:
        """Write it only where nothing is, by the first form that the store honours.

        Raises:
            NotProved: it honours none.
        """
        if why := self.unsafe(forms):
            raise NotProved(why)
        if self.is_conditional(forms):
            self.copy({"IfNoneMatch": "*"})
        else:
            self.read_and_put({"IfNoneMatch": "*"})

    @property
    def _reader(self) -> "S3Client":
        return self.of or self.s3

    @property
    def _unchanged(self) -> Any:
        return {"IfMatch": f'"{self.etag}"'}

    @property
    def _from(self) -> Any:
        version = {} if self.version_id is None else {"VersionId": self.version_id}
        return {"Bucket": self.source.bucket, "Key": self.source.key, **version}

    @property
    def _to(self) -> Any:
        return {"Bucket": self.to.bucket, "Key": self.to.key}

    def _size_of_part(self, number: int) -> int:
        head: Any = self.s3.head_object(**self._from, PartNumber=number)
        return int(required(head, "ContentLength"))

    def _part(self, upload: Any, number: int, first: int, last: int) -> str:
        copied: Any = self.s3.upload_part_copy(
            **upload, PartNumber=number, CopySource=self._from, CopySourceIfMatch=self.etag,
            CopySourceRange=f"bytes={first}-{last}",
        )  # fmt: skip
        return str(required(required(copied, "CopyPartResult"), "ETag"))

    def _ranges(self, size: int) -> list[tuple[int, int]]:
        """(first byte, last byte) of each part, as it was uploaded."""
        parts = int(self.etag.partition("-")[2])
        first = self._size_of_part(1)
        if (parts - 1) * first < size <= parts * first:
            return ranges([first] * parts, size)
        return ranges([self._size_of_part(n) for n in range(1, parts + 1)], size)


def found(s3: "S3Client", place: Location) -> ObjectHead | None:
    """The object at a place. Raises ClientError, BotoCoreError: nobody can tell."""
    try:
        return head_of(s3.head_object(Bucket=place.bucket, Key=place.key, ChecksumMode="ENABLED"))
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def ranges(sizes: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Parts of these sizes one after the other, the last one cut off at the object's end."""
    found, at = [], 0
    for each in sizes:
        found.append((at, min(at + each, size) - 1))
        at += each
    return found


def carried(source: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Of an object's attributes those that a new one takes; an archive class is not one that is written to."""
    found = {name: source[name] for name in names if source.get(name)}
    if found.get("StorageClass") in EVERY_ARCHIVE:
        del found["StorageClass"]
    return found


def tagging(s3: "S3Client", at: Any, head: Mapping[str, Any]) -> dict[str, Any]:
    """The tags of an object as a new one takes them, asked for where there may be some."""
    if not head.get("TagCount"):
        return {}
    answer: Any = s3.get_object_tagging(**at)
    tags = [(required(tag, "Key"), required(tag, "Value")) for tag in required(answer, "TagSet")]
    return {"Tagging": urlencode(tags)} if tags else {}

"""Copy objects on the server's side with all their attributes, in the same parts if they were uploaded in parts.

The ETag of a multipart object is a digest of the parts' MD5s (S3 User Guide, "Checking object integrity"): a copy in
the same parts has the same ETag. CopyObject does not preserve storage class and encryption, and a multipart upload
preserves nothing, so these attributes are passed on. Access control lists are not copied.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.files import cut_off
from lakeaudit.evidence.s3_responses import written_version
from lakeaudit.evidence.storage.head import ObjectHead, head_of
from lakeaudit.keys import Location
from lakeaudit.reconcile.canary import COMPLETE_IF_ABSENT, COPY_IF_ABSENT, PUT_IF_ABSENT
from lakeaudit.reconcile.protocol import CannotActSafely
from lakeaudit.runtime.connections.aws_failures import is_missing
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.storage_classes import EVERY_ARCHIVE

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MOST_COPIED = 5 << 30
"""Largest object in bytes that one CopyObject copies (S3 API reference)."""
MOST_READ = 64 << 20
"""Largest object in bytes that a thread reads into memory if the store's copies have no conditions."""
OF_COPY = ("StorageClass", "ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled")
"""Attributes that CopyObject does not preserve."""
CARRIED = (
    *("ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl", "Metadata"),
    *OF_COPY,
)
"""Attributes that a newly written object needs."""


def cannot_be_copied(size: int, etag: str | None) -> str | None:
    """Return why an object cannot be copied: above 5 GiB its original parts have to be known."""
    if size <= MOST_COPIED or "-" in (etag or ""):
        return None
    return "it is above 5 GiB and was not uploaded in parts: no copy would have its ETag"


@dataclass(frozen=True)
class Copying:
    """A copy of an object, or of one of its versions, to `to`, while the source has its ETag.

    `s3` is the client for `to`, and for `source` unless `of` is given. Methods that copy return the id of the written
    version, else its ETag, else None if the store returns neither. A condition applies to the object at `to`; `{}`:
    none.
    """

    s3: "S3Client"
    source: Location
    etag: str
    to: Location
    version_id: str | None = None
    of: "S3Client | None" = None

    @cached_property
    def head(self) -> Any:
        """Return the HEAD response for the source."""
        return self._reader.head_object(**self._from, **self._unchanged)

    @property
    def needs_parts(self) -> bool:
        """Return whether the object was uploaded in parts."""
        return "-" in self.etag

    def copy(self, condition: Mapping[str, Any]) -> str | None:
        """Copy the object as it was uploaded, on the server's side."""
        return self.in_parts(condition) if self.needs_parts else self.whole(condition)

    def whole(self, condition: Mapping[str, Any]) -> str | None:
        """Copy the object with one request, on the server's side."""
        given = carried_attributes(self.head, OF_COPY) | dict(condition)
        done: Any = self.s3.copy_object(
            **self._to, CopySource=self._from, CopySourceIfMatch=f'"{self.etag}"', **given
        )
        return written_version(done, "CopyObjectResult")

    def read_and_put(self, condition: Mapping[str, Any]) -> str | None:
        """Read the object into memory, and write it.

        Raises:
            SourceError: fewer bytes arrived than the object has; nothing was written.
        """
        got: Any = self._reader.get_object(**self._from, **self._unchanged)
        given = carried_attributes(got, CARRIED) | tagging(self._reader, self._from, got)
        content, size = got["Body"].read(), required(self.head, "ContentLength")
        if len(content) != size:
            raise cut_off(self.source, len(content), size)
        put = self.s3.put_object(**self._to, Body=content, **given, **condition)
        return written_version(put)

    def in_parts(self, condition: Mapping[str, Any]) -> str | None:
        """Copy the object in its original parts, on the server's side."""
        head = self.head
        tags = tagging(self.s3, self._from, head | {"TagCount": head.get("TagCount", 1)})
        begun = self.s3.create_multipart_upload(**self._to, **(carried_attributes(head, CARRIED) | tags))
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
        """Return whether the store honours the condition that the target of a copy is absent."""
        return (COMPLETE_IF_ABSENT if self.needs_parts else COPY_IF_ABSENT) in forms

    def unsafe(self, forms: frozenset[str]) -> str | None:
        """Return why the object cannot be written on the condition that the target is absent; None: it can."""
        if self.is_conditional(forms):
            return None
        if self.needs_parts:
            return "the store does not honour If-None-Match of CompleteMultipartUpload"
        if PUT_IF_ABSENT not in forms:
            return "the store honours If-None-Match neither of CopyObject nor of PutObject"
        if required(self.head, "ContentLength") > MOST_READ:
            return f"the store's copies have no conditions, and the object is above {MOST_READ >> 20} MiB"
        return None

    def where_absent(self, forms: frozenset[str]) -> None:
        """Write the object if the target is absent, with the first form that the store honours.

        Raises:
            CannotActSafely: the store honours no form.
        """
        if why := self.unsafe(forms):
            raise CannotActSafely(why)
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
        """Return (first byte, last byte) of each original part."""
        parts = int(self.etag.partition("-")[2])
        first = self._size_of_part(1)
        if (parts - 1) * first < size <= parts * first:
            return ranges([first] * parts, size)
        return ranges([self._size_of_part(n) for n in range(1, parts + 1)], size)


def head_or_none(s3: "S3Client", place: Location) -> ObjectHead | None:
    """Return the object's head; None: there is no object. Raises ClientError, BotoCoreError: no answer."""
    try:
        return head_of(s3.head_object(Bucket=place.bucket, Key=place.key, ChecksumMode="ENABLED"))
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def ranges(sizes: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Return the byte ranges of consecutive parts of these sizes; the last one ends with the object."""
    parts, at = [], 0
    for each in sizes:
        parts.append((at, min(at + each, size) - 1))
        at += each
    return parts


def carried_attributes(source: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the attributes for a new object, without an archive class: the copy has to be readable."""
    attributes = {name: source[name] for name in names if source.get(name)}
    if attributes.get("StorageClass") in EVERY_ARCHIVE:
        del attributes["StorageClass"]
    return attributes


def tagging(s3: "S3Client", at: Any, head: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's tags in the form of a write request; they are read only if there are any."""
    if not head.get("TagCount"):
        return {}
    answer: Any = s3.get_object_tagging(**at)
    tags = [(required(tag, "Key"), required(tag, "Value")) for tag in required(answer, "TagSet")]
    return {"Tagging": urlencode(tags)} if tags else {}

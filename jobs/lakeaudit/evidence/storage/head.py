"""One current object of S3 as a HEAD request describes it: for the live check, and for `explain`.

Headers are those of the S3 API reference, HeadObject.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lakeaudit.evidence.s3_responses import HeadResponse, head_response
from lakeaudit.runtime.connections.aws_failures import is_denied
from lakeaudit.storage_classes import KNOWN_CLASSES, StorageClasses

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class ObjectHead:
    """A HEAD response that names size, ETag and time, see `HeadResponse`: nothing less may be acted on."""

    size: int
    etag: str
    version_id: str | None
    modified_at: datetime
    storage_class: str
    archived: bool | None
    multipart: bool
    encryption: str
    checksum: str | None
    expiration: str | None

    @property
    def checksum_algorithm(self) -> str | None:
        return self.checksum.partition(":")[0] if self.checksum else None


MD5_ENCRYPTIONS = ("NONE", "SSE-S3")
"""Encryptions under which the ETag of an object uploaded in one piece is the MD5 of its content."""


def is_md5(etag: str | None) -> bool:
    """Whether an ETag has the form of an MD5."""
    return etag is not None and re.fullmatch("[0-9a-f]{32}", etag) is not None


def head_object(
    s3: "S3Client",
    bucket: str,
    key: str,
    before_request: Callable[[], None] = lambda: None,
    version_id: str | None = None,
    classes: StorageClasses = KNOWN_CLASSES,
) -> HeadResponse:
    """HEAD of one key, its current version unless another is named; `before_request` is called before each request.

    There are two requests at most: S3 refuses the checksums of objects under KMS to a role that may not decrypt
    them, so after a refusal they are left out.

    Raises:
        ClientError: the store's refusal, or 404.
        BotoCoreError: no answer.
    """
    asked: Any = {"Bucket": bucket, "Key": key} | ({"VersionId": version_id} if version_id else {})
    before_request()
    try:
        return head_response(s3.head_object(**asked, ChecksumMode="ENABLED"), classes)
    except ClientError as error:
        if not is_denied(error):
            raise
    before_request()
    return head_response(s3.head_object(**asked), classes)


def head_of(answer: Mapping[str, Any], classes: StorageClasses = KNOWN_CLASSES) -> ObjectHead:
    """What a response of HeadObject says of an object that is to be acted on.

    Raises:
        IncompleteResponse: it names no size, ETag or time.
    """
    head = head_response(answer, classes)
    head.require("size", "etag", "modified_at")
    return ObjectHead(**asdict(head))

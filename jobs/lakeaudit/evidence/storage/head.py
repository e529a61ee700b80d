"""One current object of S3 as a HEAD request describes it: for the live check, and for `explain`.

Headers are those of the S3 API reference, HeadObject.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lakeaudit.keys import ARCHIVE_CLASSES
from lakeaudit.runtime.aws_failures import is_denied

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_ENCRYPTIONS = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
_CHECKSUMS = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")
"""Strongest first."""


@dataclass(frozen=True)
class ObjectHead:
    """The object's attributes, named as in schemas.STORED.

    `size` is in bytes, `modified_at` is UTC with its zone. `version_id` is as the API writes it: "null" is the null
    version, None a bucket that never had versions. `expiration` is the lifecycle rule's header as it stands.
    """

    size: int
    etag: str
    version_id: str | None
    modified_at: datetime
    storage_class: str
    archived: bool
    multipart: bool
    encryption: str
    checksum: str | None
    expiration: str | None

    @property
    def checksum_algorithm(self) -> str | None:
        return self.checksum.partition(":")[0] if self.checksum else None


MD5_ENCRYPTIONS = ("NONE", "SSE-S3")
"""Encryptions under which the ETag of an object uploaded in one piece is the MD5 of its content."""


def is_md5(etag: str) -> bool:
    """Whether an ETag has the form of an MD5."""
    return re.fullmatch("[0-9a-f]{32}", etag) is not None


def head_object(
    s3: "S3Client",
    bucket: str,
    key: str,
    before_request: Callable[[], None] = lambda: None,
    version_id: str | None = None,
) -> ObjectHead:
    """HEAD of one key, its current version unless told; `before_request` is called before each request.

    There are two requests at most.

    S3 refuses the checksums of objects under KMS to who may not decrypt them, so after a refusal it is asked without.

    Raises:
        ClientError: the store's refusal, or 404.
        BotoCoreError: no answer.
    """
    asked: Any = {"Bucket": bucket, "Key": key} | ({"VersionId": version_id} if version_id else {})
    before_request()
    try:
        return head_of(s3.head_object(**asked, ChecksumMode="ENABLED"))
    except ClientError as error:
        if not is_denied(error):
            raise
    before_request()
    return head_of(s3.head_object(**asked))


def head_of(answer: Mapping[str, Any]) -> ObjectHead:
    """What an answer of HeadObject says."""
    etag = answer["ETag"].strip('"')
    storage_class = answer.get("StorageClass", "STANDARD")
    in_archive = storage_class in ARCHIVE_CLASSES or answer.get("ArchiveStatus") is not None
    restored = 'ongoing-request="false"' in answer.get("Restore", "")
    return ObjectHead(
        size=answer["ContentLength"],
        etag=etag,
        version_id=answer.get("VersionId"),
        modified_at=answer["LastModified"].astimezone(UTC),
        storage_class=storage_class,
        archived=in_archive and not restored,
        multipart="-" in etag,
        encryption=_encryption(answer),
        checksum=checksum_of(answer),
        expiration=answer.get("Expiration"),
    )


def _encryption(answer: Mapping[str, Any]) -> str:
    if answer.get("SSECustomerAlgorithm"):
        return "SSE-C"
    return _ENCRYPTIONS.get(answer.get("ServerSideEncryption", ""), "NONE")


def checksum_of(answer: Mapping[str, Any]) -> str | None:
    """The strongest checksum of the whole object; a composite one says nothing of the bytes as a whole."""
    if answer.get("ChecksumType") == "COMPOSITE":
        return None
    for name in _CHECKSUMS:
        value = answer.get(f"Checksum{name}")
        if value and "-" not in value:
            return f"{name.lower()}:{base64.b64decode(value).hex()}"
    return None

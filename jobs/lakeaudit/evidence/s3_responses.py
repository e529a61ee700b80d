"""What an S3-like store says of its objects: one tolerant model of listings, version lists, uploads and HEAD. Pure.

Only the key of a listed entry is required. Everything else may be missing or unreadable, and is None then: unknown, and
never a value that looks like an answer. Stores that leave fields out are common: listings without ETag, HEAD responses
without Content-Length, versions without VersionId (Google names a generation).
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakeaudit.runtime.aws_failures import BrokenListing, IncompleteResponse
from lakeaudit.storage_classes import KNOWN_CLASSES, STANDARD, StorageClasses

Response = Mapping[str, Any]

_ENCRYPTIONS = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
_CHECKSUMS = ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32")
"""Strongest first."""
_OLDEST = datetime(1971, 1, 1, tzinfo=UTC)
"""Stores write an unset time as the year 1 or as 1970; no object is that old."""


@dataclass(frozen=True)
class ListedObject:
    """An entry of a listing; `modified_at` is UTC with its zone."""

    key: str
    size: int | None
    etag: str | None
    modified_at: datetime | None
    storage_class: str | None


@dataclass(frozen=True)
class ListedVersion(ListedObject):
    """An entry of a version list; `version_id` "null" is the null version, None: the store names no version."""

    version_id: str | None
    is_latest: bool | None
    is_marker: bool


@dataclass(frozen=True)
class OpenUpload:
    """A multipart upload that was begun and not completed."""

    key: str
    upload_id: str
    initiated_at: datetime | None


@dataclass(frozen=True)
class HeadResponse:
    """A HEAD response; the attributes are named as in schemas.STORED.

    `size` is in bytes, `modified_at` is UTC with its zone. `version_id` is as the API writes it: "null" is the null
    version, None a bucket that never had versions. `archived` None: the storage class is not known. `expiration` is the
    lifecycle rule's header as it stands.
    """

    size: int | None
    etag: str | None
    version_id: str | None
    modified_at: datetime | None
    storage_class: str
    archived: bool | None
    multipart: bool | None
    encryption: str
    checksum: str | None
    expiration: str | None

    @property
    def checksum_algorithm(self) -> str | None:
        return self.checksum.partition(":")[0] if self.checksum else None

    def require(self, *names: str) -> None:
        """Raise IncompleteResponse where one of the named attributes is unknown."""
        unknown = [name.replace("_", " ") for name in names if getattr(self, name) is None]
        if unknown:
            raise IncompleteResponse(fields=" and ".join(unknown))


def listed_objects(page: Response) -> Iterator[ListedObject]:
    """The objects of a page of ListObjectsV2."""
    return (ListedObject(*_common(entry)) for entry in _entries(page, "Contents"))


def listed_versions(page: Response) -> Iterator[ListedVersion]:
    """The versions and delete markers of a page of ListObjectVersions."""
    for name, is_marker in (("Versions", False), ("DeleteMarkers", True)):
        for entry in _entries(page, name):
            version_id = text_of(entry.get("VersionId"))
            yield ListedVersion(*_common(entry), version_id, entry.get("IsLatest"), is_marker)


def open_uploads(page: Response) -> Iterator[OpenUpload]:
    """The uploads of a page of ListMultipartUploads; one without an id cannot be aborted, and is left out."""
    for entry in _entries(page, "Uploads"):
        if upload_id := text_of(entry.get("UploadId")):
            yield OpenUpload(entry["Key"], upload_id, time_of(entry.get("Initiated")))


def head_response(response: Response, classes: StorageClasses = KNOWN_CLASSES) -> HeadResponse:
    """What a response of HeadObject says.

    S3 leaves the storage class out where it is STANDARD (API reference, HeadObject).
    """
    etag = etag_of(response.get("ETag"))
    storage_class = text_of(response.get("StorageClass")) or STANDARD
    restored = 'ongoing-request="false"' in (response.get("Restore") or "")
    in_archive = True if response.get("ArchiveStatus") is not None else classes.archived(storage_class)
    return HeadResponse(
        size=size_of(response.get("ContentLength")),
        etag=etag,
        version_id=text_of(response.get("VersionId")),
        modified_at=time_of(response.get("LastModified")),
        storage_class=storage_class,
        archived=False if restored else in_archive,
        multipart=None if etag is None else "-" in etag,
        encryption=_encryption(response),
        checksum=checksum_of(response),
        expiration=text_of(response.get("Expiration")),
    )


def _entries(page: Response, name: str) -> Iterator[Response]:
    """The entries of a page. Raises BrokenListing: one has no key, so that the list does not say what there is."""
    for entry in page.get(name) or ():
        if not entry.get("Key"):
            raise BrokenListing(reason="the store lists an object without its key")
        yield entry


def _common(entry: Response) -> tuple[str, int | None, str | None, datetime | None, str | None]:
    return (
        entry["Key"],
        size_of(entry.get("Size")),
        etag_of(entry.get("ETag")),
        time_of(entry.get("LastModified")),
        text_of(entry.get("StorageClass")),
    )


def size_of(value: object) -> int | None:
    """A number of bytes."""
    return value if type(value) is int and value >= 0 else None


def etag_of(value: object) -> str | None:
    """An ETag without its quotation marks."""
    return (value.strip('"') or None) if isinstance(value, str) else None


def text_of(value: object) -> str | None:
    """A text that is not empty."""
    return value if isinstance(value, str) and value else None


def time_of(value: object) -> datetime | None:
    """A time in UTC; one without a zone is UTC already."""
    if not isinstance(value, datetime):
        return None
    try:
        time = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
    return time if time >= _OLDEST else None


def _encryption(response: Response) -> str:
    if response.get("SSECustomerAlgorithm"):
        return "SSE-C"
    return _ENCRYPTIONS.get(response.get("ServerSideEncryption", ""), "NONE")


def checksum_of(response: Response) -> str | None:
    """The strongest checksum of the whole object; a composite one says nothing of the bytes as a whole."""
    if response.get("ChecksumType") == "COMPOSITE":
        return None
    for name in _CHECKSUMS:
        value = response.get(f"Checksum{name}")
        if value and "-" not in value and (digest := _decoded(value)) is not None:
            return f"{name.lower()}:{digest.hex()}"
    return None


def _decoded(value: str) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return None

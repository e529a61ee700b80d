"""Parse the responses of an S3-like store: one tolerant model of listings, version lists, uploads and HEAD.

Only the key of a listed entry is required. Any other field that is missing or unreadable is None, which means unknown.
Many stores leave fields out: listings without ETag, HEAD responses without Content-Length, versions without VersionId
(Google names a generation).
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from lakeaudit.runtime.connections.aws_failures import BrokenListing, IncompleteResponse
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
    version, None means a bucket that never had versions. `archived` None: the storage class is not known. `expiration`
    is the lifecycle rule's header, unchanged.
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
    """Return the objects of a page of ListObjectsV2."""
    return (ListedObject(*_common(entry)) for entry in _entries(page, "Contents"))


def listed_versions(page: Response) -> Iterator[ListedVersion]:
    """Yield the versions and delete markers of a page of ListObjectVersions.

    If the store does not mark the latest version, it is derived from the order of the list, see `_newest`.
    """
    versions = [
        ListedVersion(*_common(entry), text_of(entry.get("VersionId")), entry.get("IsLatest"), is_marker)
        for name, is_marker in (("Versions", False), ("DeleteMarkers", True))
        for entry in _entries(page, name)
    ]
    if any(each.is_latest is None for each in versions):
        yield from _with_latest(versions, page.get("KeyMarker"))
    else:
        yield from versions


def listed_folders(page: Response) -> list[str]:
    """Return the sub-folders in a page of a listing with a delimiter. Raises BrokenListing: one has no name."""
    folders = [text_of(entry.get("Prefix")) for entry in page.get("CommonPrefixes") or ()]
    if None in folders:
        raise BrokenListing(reason="the store lists a folder without its name")
    return [folder for folder in folders if folder is not None]


def open_uploads(page: Response) -> Iterator[OpenUpload]:
    """Yield the uploads of a page of ListMultipartUploads, except those without an id, which cannot be aborted."""
    for entry in _entries(page, "Uploads"):
        if upload_id := text_of(entry.get("UploadId")):
            yield OpenUpload(entry["Key"], upload_id, time_of(entry.get("Initiated")))


def head_response(response: Response, classes: StorageClasses = KNOWN_CLASSES) -> HeadResponse:
    """Parse a response of HeadObject. S3 leaves the storage class STANDARD out (API reference, HeadObject)."""
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


def written_version(response: Response, result: str = "") -> str | None:
    """Return the version id that a write response names, else the ETag; None where it names neither.

    Args:
        response: of PutObject, CopyObject or CompleteMultipartUpload.
        result: the structure of the response that holds the ETag, if it is not the response itself.
    """
    fields = response.get(result) or {} if result else response
    return text_of(response.get("VersionId")) or etag_of(fields.get("ETag"))


def _with_latest(versions: Sequence[ListedVersion], key_marker: object) -> Iterator[ListedVersion]:
    """Yield the versions of a page, with `is_latest` from the store or, if missing, from the order of the list.

    Versions of the key with which the last page ended (`key_marker`) are not the latest.
    """
    by_key: dict[str, list[ListedVersion]] = {}
    for each in versions:
        by_key.setdefault(each.key, []).append(each)
    decided = {
        key for key, mine in by_key.items() if key == key_marker or any(each.is_latest for each in mine)
    }
    newest = {key: None if key in decided else _newest(mine) for key, mine in by_key.items()}
    for each in versions:
        if each.is_latest is not None or (newest[each.key] is None and each.key not in decided):
            yield each
        else:
            yield replace(each, is_latest=each is newest[each.key])


def _newest(versions: Sequence[ListedVersion]) -> ListedVersion | None:
    """Return the newest version or delete marker of a key by the order of the list and the times, which must agree.

    S3 lists the versions of a key newest first, and its delete markers likewise (API reference, ListObjectVersions).
    None: it is not known which of the two is newer, or the list contradicts itself.
    """
    times = [each.modified_at for each in versions if each.modified_at is not None]
    firsts = [next((each for each in versions if each.is_marker is marker), None) for marker in (False, True)]
    newest = [each for each in firsts if each is not None and times and each.modified_at == max(times)]
    return (
        newest[0] if len(times) == len(versions) and [each.is_latest for each in newest] == [None] else None
    )


def _entries(page: Response, name: str) -> Iterator[Response]:
    """Yield the entries of a page. Raises BrokenListing: an entry has no key, so the list is not usable."""
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
    """Return a number of bytes; None for any other value."""
    return value if type(value) is int and value >= 0 else None


def etag_of(value: object) -> str | None:
    """Return an ETag without its quotation marks; None for any other value."""
    return (value.strip('"') or None) if isinstance(value, str) else None


def text_of(value: object) -> str | None:
    """Return a text that is not empty; None for any other value."""
    return value if isinstance(value, str) and value else None


def time_of(value: object) -> datetime | None:
    """Return a time in UTC; a time without a zone is in UTC already."""
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
    """Return the strongest checksum of the whole object; a composite checksum does not cover the whole object."""
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

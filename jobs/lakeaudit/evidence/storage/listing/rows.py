"""VERSION and UPLOAD rows of the pages of a listing."""

from collections.abc import Iterator
from typing import Any

from lakeaudit.evidence.s3_pages import Page
from lakeaudit.evidence.s3_responses import (
    ListedObject,
    ListedVersion,
    listed_objects,
    listed_versions,
    open_uploads,
)
from lakeaudit.keys import NULL_VERSION
from lakeaudit.schemas import plain_time
from lakeaudit.storage_classes import STANDARD, StorageClasses

Row = dict[str, Any]


def object_rows(bucket: str, page: Page, classes: StorageClasses) -> list[Row]:
    """VERSION rows of a page of objects: each is the latest version of its key."""
    return [_row(bucket, each, classes, None, latest=True) for each in listed_objects(page)]


def version_rows(bucket: str, page: Page, classes: StorageClasses) -> list[Row]:
    """VERSION rows of a page of versions; the text `null` is the null version."""
    return [
        _row(bucket, each, classes, each.version_id, latest=each.is_latest, marker=each.is_marker)
        for each in _addressable(page)
    ]


def upload_rows(bucket: str, page: Page, prefix: str = "") -> list[Row]:
    """UPLOAD rows of a page, of keys that begin with `prefix`."""
    return [
        {
            "bucket": bucket,
            "key": each.key,
            "upload_id": each.upload_id,
            "initiated_at": plain_time(each.initiated_at),
        }
        for each in open_uploads(page)
        if each.key.startswith(prefix)
    ]


def _addressable(page: Page) -> Iterator[ListedVersion]:
    return (each for each in listed_versions(page) if _can_be_named(each))


def _can_be_named(version: ListedVersion) -> bool:
    """Return whether a request can name the version: by its key if it is current, else by a version id."""
    return version.version_id is not None or (version.is_latest is not False and not version.is_marker)


def _row(
    bucket: str,
    entry: ListedObject,
    classes: StorageClasses,
    version: str | None,
    *,
    latest: bool | None,
    marker: bool = False,
) -> Row:
    # a listing names no class where the store has none, or where it is the usual one; a marker has no class
    storage_class = entry.storage_class or (None if marker else STANDARD)
    return {
        "bucket": bucket,
        "key": entry.key,
        "version_id": None if version == NULL_VERSION else version,
        "is_latest": latest,
        "is_delete_marker": marker,
        "size": entry.size,
        "etag": entry.etag,
        "modified_at": plain_time(entry.modified_at),
        "storage_class": storage_class,
        # A listing says neither the tier of a tiered class nor that an object is restored just now.
        "archived": classes.archived(storage_class),
        # A suffix proves an upload in parts; its absence proves nothing under KMS.
        "multipart": True if entry.etag and "-" in entry.etag else None,
    }

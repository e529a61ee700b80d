"""The versions of one object, and which of them was current when a table claimed it. Pure.

A version is current from when it was written until the next version or delete marker of its key was (S3 User Guide,
"How S3 Versioning works"). A version that was replaced before the claim cannot be what was claimed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.evidence.s3_pages import is_whole
from lakeaudit.evidence.s3_responses import ListedVersion, listed_versions

STEP = timedelta(seconds=2)
"""S3 times have whole seconds, writers' clocks have skew: what lies closer together has no order."""


@dataclass(frozen=True)
class Claimed:
    """What is claimed of an object. Times are UTC without a zone.

    `since` is the time of the claim; an object written up to `until` may still be what was claimed. `least_size` is all
    that a log says of the size of a deletion vector's file. None: not known.
    """

    since: datetime | None = None
    until: datetime | None = None
    size: int | None = None
    etag: str | None = None
    least_size: int | None = None

    def fits(self, size: int) -> bool:
        """Whether an object of so many bytes may be what was claimed."""
        return self.size in (None, size) and size >= (self.least_size or 0)

    @property
    def says_something(self) -> bool:
        """Whether anything is claimed of the object itself."""
        return (self.size, self.etag, self.least_size) != (None, None, None)


@dataclass(frozen=True)
class ObjectVersion:
    """One version, or delete marker, of an object; `size` and `etag` are empty for a marker.

    `is_latest` None: neither the store nor the order of its list says which one is current.
    """

    version_id: str
    modified_at: datetime
    is_latest: bool | None = False
    is_marker: bool = False
    size: int = 0
    etag: str = ""
    storage_class: str | None = None


@dataclass(frozen=True)
class History:
    """The versions and delete markers of one key, newest first; `whole`: there are no others.

    `incomplete`: entries lack an id, a time or a size, or it is unknown which one is current.
    """

    versions: Sequence[ObjectVersion]
    whole: bool = True
    incomplete: bool = False

    @property
    def is_marked(self) -> bool | None:
        """Whether a delete marker hides the object; None: nobody can tell."""
        if any(each.is_latest is None for each in self.versions):
            return None
        return any(each.is_latest and each.is_marker for each in self.versions)

    @property
    def newest_older(self) -> ObjectVersion | None:
        """The newest version that is neither current nor a marker."""
        return next((each for each in self.versions if each.is_latest is False and not each.is_marker), None)

    @property
    def marker_id(self) -> str | None:
        """The version id of the delete marker that hides the object."""
        return next((each.version_id for each in self.versions if each.is_latest and each.is_marker), None)

    def replaced_at(self, version: ObjectVersion) -> datetime | None:
        """When a version became an older one: when the next version or marker was written."""
        newer = self._newer(version)
        return newer[-1].modified_at if newer else None

    def newer_than(self, version: ObjectVersion) -> int:
        """How many newer versions and markers there are that are not current themselves."""
        return sum(each.is_latest is False for each in self._newer(version))

    def is_beneath_marker(self, version: ObjectVersion) -> bool:
        """Return whether the object is that version again once the newest delete marker is removed.

        Stores record whole seconds: the order of versions that were written in the same second is unknown.
        """
        beneath = self.versions[1:] if self.is_marked else ()
        same_second = [each for each in beneath if each.modified_at == version.modified_at]
        return bool(beneath) and beneath[0] == version and len(same_second) == 1

    def at_claim(self, claimed: Claimed) -> list[ObjectVersion]:
        """The versions of the claimed size that may have been current when the object was claimed."""
        if claimed.since is None or claimed.until is None:
            return []
        return [
            each
            for each in self._since(claimed)
            if each.modified_at <= claimed.until and claimed.fits(each.size)
        ]

    def is_untouched_since(self, claimed: Claimed) -> bool:
        """Whether the current version is the one that was claimed, of which no ETag was recorded."""
        then = self.at_claim(claimed)
        if len(then) != 1 or claimed.since is None or claimed.etag is not None:
            return False
        return then[0].is_latest is True and then[0].modified_at <= claimed.since

    def match(self, claimed: Claimed) -> ObjectVersion | None:
        """The older version that holds what was claimed; None where none surely does.

        Its size and ETag say so; of a deletion vector's file, which is written once, that it was current at the claim.
        """
        known = self._since(claimed) if claimed.etag is not None else self.at_claim(claimed)
        found = [
            each
            for each in known
            if each.is_latest is False
            and claimed.fits(each.size)
            and claimed.etag in (None, each.etag)
            and claimed.says_something
        ]
        before = [each for each in found if claimed.since is None or each.modified_at <= claimed.since]
        return next(iter(before or found[::-1]), None)

    def _newer(self, version: ObjectVersion) -> Sequence[ObjectVersion]:
        return self.versions[: self.versions.index(version)]

    def _since(self, claimed: Claimed) -> list[ObjectVersion]:
        """Versions that were not replaced before the claim."""
        newer = [None, *self.versions][: len(self.versions)]
        return [
            each
            for each, after in zip(self.versions, newer, strict=True)
            if not each.is_marker
            and (after is None or claimed.since is None or after.modified_at + STEP > claimed.since)
        ]


def history_of(page: Mapping[str, Any], key: str) -> History:
    """The history of a key, of the first page of ListObjectVersions under it as a prefix.

    A page has a thousand versions; for a key with more of them the newest are returned. A version without an id or a
    time cannot be requested, or not be ordered: it is left out, and the history is incomplete. It is incomplete too if
    the current version is unknown.
    """
    mine = [each for each in listed_versions(page) if each.key == key]
    versions = [
        ObjectVersion(
            each.version_id,
            each.modified_at.replace(tzinfo=None),
            each.is_latest,
            each.is_marker,
            each.size or 0,
            each.etag or "",
            each.storage_class,
        )
        for each in mine
        if each.version_id is not None and each.modified_at is not None and _is_sized(each)
    ]
    newest_first = sorted(versions, key=lambda each: (each.is_latest is True, each.modified_at), reverse=True)
    incomplete = len(versions) < len(mine) or any(each.is_latest is None for each in mine)
    return History(newest_first, whole=not incomplete and _is_past(page, key), incomplete=incomplete)


def _is_sized(version: ListedVersion) -> bool:
    return version.is_marker or version.size is not None


def _is_past(page: Mapping[str, Any], key: str) -> bool:
    """Whether nothing of a key follows a page: the list ends with it, or goes on behind the key."""
    following = page.get("NextKeyMarker")
    return is_whole(page) or (isinstance(following, str) and following > key)

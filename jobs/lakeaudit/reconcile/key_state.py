"""Read the current state of a key: all its versions and delete markers, and the versioning of its bucket."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.s3_pages import holds_any
from lakeaudit.evidence.s3_responses import head_response
from lakeaudit.evidence.storage.head import ObjectHead, head_of
from lakeaudit.evidence.storage.object_versions import History, ObjectVersion, history_of
from lakeaudit.keys import NULL_VERSION
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_missing
from lakeaudit.runtime.threads import Pacer
from lakeaudit.storage_classes import restore_takes

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ENABLED = "Enabled"
MOST_PAGES = 50
"""Most pages of a key's versions, of a thousand each, that are read."""


MOST_ARCHIVED = 10
"""Archived versions of a key that are checked for a restored copy; older ones count as archived."""


def must_be_restored(version_id: str, storage_class: str) -> str:
    """Return the instruction to restore an archived version before it can be read or copied."""
    return (
        f"its version {version_id} is in {storage_class}: first restore that version "
        f"(`aws s3api restore-object`, which takes {restore_takes(storage_class)}), then plan again"
    )


@dataclass(frozen=True)
class KeyState:
    """The versions of a key, newest first, and the bucket's versioning: Enabled, Suspended, or empty for never.

    `archived`: storage class by version id, for versions that must be restored before they can be read; `restored`:
    those of them with a restored copy that can be read for some days.
    """

    versioning: str
    history: History
    archived: Mapping[str, str] = field(default_factory=dict)
    restored: Collection[str] = ()

    @property
    def current(self) -> ObjectVersion | None:
        """Return the version that readers get; None: no object."""
        newest = next((each for each in self.history.versions if each.is_latest), None)
        return None if newest is None or newest.is_marker else newest

    def version(self, version_id: str) -> ObjectVersion | None:
        """Return the version with that id, unless it is a delete marker."""
        return next(
            (v for v in self.history.versions if v.version_id == version_id and not v.is_marker), None
        )

    def unreadable(self, version_id: str) -> str:
        """Return why a version cannot be read or copied now; empty: it can."""
        if version_id not in self.archived or version_id in self.restored:
            return ""
        return must_be_restored(version_id, self.archived[version_id])

    @property
    def marker_id(self) -> str | None:
        """Return the id of the delete marker that hides the key; None: there is none with an id of its own.

        A marker that was written while versioning was suspended has the id `null`, and so has the next object: removing
        that id could remove an object.
        """
        marker = self.history.marker_id
        return None if marker == NULL_VERSION else marker


Kind = TypeVar("Kind", bound=KeyState)


def with_more(state: KeyState, kind: type[Kind], **more: Any) -> Kind:
    """Return the state as a subclass with more fields."""
    return kind(**{each.name: getattr(state, each.name) for each in fields(KeyState)}, **more)


@dataclass(frozen=True, kw_only=True)
class StateWithRows(KeyState):
    """A state with `rows_of`, which reads the number of rows from a version's Parquet footer, given id and size."""

    rows_of: Callable[[str, int], int | None]


@dataclass(frozen=True)
class Current:
    """The current object of a key, and its object lock if the credentials permit reading it."""

    head: ObjectHead
    locked_until: datetime | None = None
    legal_hold: bool = False


class Unclear(Exception):
    """Storage did not give a usable response; the text is the reason."""


def all_versions(s3: "S3Client", bucket: str, key: str, pace: Callable[[], None]) -> History:
    """Return every version of a key, from all pages of the listing.

    Raises:
        Unclear: the listing is truncated without a continuation marker, has more than MOST_PAGES pages, or its entries
            lack fields that distinguish them.
        ClientError, BotoCoreError: a refusal, or no answer.
    """
    versions: list[Any] = []
    markers: list[Any] = []
    next_page: Any = {}
    for _ in range(MOST_PAGES):
        pace()
        page: Any = s3.list_object_versions(Bucket=bucket, Prefix=key, **next_page)
        versions += page.get("Versions", [])
        markers += page.get("DeleteMarkers", [])
        history = history_of({**page, "Versions": versions, "DeleteMarkers": markers, "KeyMarker": ""}, key)
        if history.whole:
            return history
        if history.incomplete:
            raise Unclear(
                f"the listing of versions of s3://{bucket} lacks fields that identify the current version"
            )
        names = {"KeyMarker": page.get("NextKeyMarker"), "VersionIdMarker": page.get("NextVersionIdMarker")}
        if None in names.values() or names == next_page:
            raise Unclear(
                f"the listing of versions of s3://{bucket} is truncated without a continuation marker"
            )
        next_page = names
    raise Unclear(f"a key of s3://{bucket} has more than {MOST_PAGES} pages of versions")


class KeyReader:
    """Reads states of keys at a limited rate, for one batch. Safe to share between threads."""

    def __init__(self, clients: Clients, pacer: Pacer) -> None:
        self._clients = clients
        self._pacer = pacer
        self._versioning: dict[str, str] = {}
        self._below: dict[tuple[str, str], bool] = {}
        self._lock = Lock()

    def read(self, bucket: str, key: str) -> KeyState:
        """Read the state of a key.

        Raises:
            Unclear: a refusal or no answer; neither means that the key is absent.
        """
        try:
            s3 = self._clients.s3(bucket, key)
            versioning = self._versioning_of(s3, bucket)
            history = all_versions(s3, bucket, key, self._pacer.wait)
            archived = self._archived(bucket, history)
            return KeyState(versioning, history, archived, self._restored(s3, bucket, key, history, archived))
        except (ClientError, BotoCoreError) as error:
            raise Unclear(f"versions of s3://{bucket} cannot be listed: {explain(error).what}") from error

    def _archived(self, bucket: str, history: History) -> dict[str, str]:
        classes = self._clients.storage_classes(bucket)
        return {
            each.version_id: each.storage_class
            for each in history.versions
            if not each.is_marker and each.storage_class and classes.archived(each.storage_class)
        }

    def _restored(
        self, s3: "S3Client", bucket: str, key: str, history: History, archived: Collection[str]
    ) -> set[str]:
        """Return the archived versions with a restored copy; only the newest versions are checked.

        If the store does not answer, the version counts as archived.
        """
        of_key = [each for each in history.versions if each.version_id in archived][:MOST_ARCHIVED]
        restored = set()
        for each in of_key:
            at: Any = {"Bucket": bucket, "Key": key}
            if not each.is_latest:  # a bucket without versioning may not know the id of the only version
                at["VersionId"] = each.version_id
            self._pacer.wait()
            with suppress(ClientError, BotoCoreError):
                answer = s3.head_object(**at)
                if head_response(answer, self._clients.storage_classes(bucket)).archived is False:
                    restored.add(each.version_id)
        return restored

    def pace(self) -> None:
        """Wait for the next free slot, for requests to another store."""
        self._pacer.wait()

    def versioning(self, bucket: str, key: str) -> str:
        """Return the bucket's versioning as in `KeyState`. Raises Unclear."""
        with _as_unclear(f"the versioning of s3://{bucket}"):
            return self._versioning_of(self._clients.s3(bucket, key), bucket)

    def current(self, bucket: str, key: str) -> Current | None:
        """Return the current object; None: there is none. Raises Unclear."""
        with _as_unclear(f"s3://{bucket}/{key}"):
            s3 = self._clients.s3(bucket, key)
            self._pacer.wait()
            try:
                answer = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
            except ClientError as error:
                if is_missing(error):
                    return None
                raise
            until = answer.get("ObjectLockRetainUntilDate")
            head = head_of(answer, self._clients.storage_classes(bucket))
            return Current(head, until, answer.get("ObjectLockLegalHoldStatus") == "ON")

    def holds_any(self, bucket: str, prefix: str) -> bool:
        """Return whether there is an object below a prefix; each prefix is requested once. Raises Unclear."""
        with _as_unclear(f"s3://{bucket}/{prefix}"), self._lock:
            if (bucket, prefix) not in self._below:
                self._pacer.wait()
                s3 = self._clients.s3(bucket, prefix)
                self._below[bucket, prefix] = holds_any(s3, bucket, prefix)
            return self._below[bucket, prefix]

    def _versioning_of(self, s3: "S3Client", bucket: str) -> str:
        with self._lock:
            if bucket not in self._versioning:
                self._pacer.wait()
                self._versioning[bucket] = s3.get_bucket_versioning(Bucket=bucket).get("Status", "")
            return self._versioning[bucket]


@contextmanager
def _as_unclear(what: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"{what} cannot be read: {explain(error).what}") from error

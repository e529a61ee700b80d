"""What storage answers of one key now: all its versions and delete markers, and whether its bucket keeps versions."""

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
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain, is_missing
from lakeaudit.runtime.threads import Pacer
from lakeaudit.storage_classes import restore_takes

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ENABLED = "Enabled"
MOST_PAGES = 50
"""Pages of a key's versions, of a thousand each, that are read."""


MOST_ARCHIVED = 10
"""Archived versions of a key that are asked whether they are restored; older ones are taken for archived."""


def must_be_restored(version_id: str, storage_class: str) -> str:
    """What comes before an archived version can be read or copied."""
    return (
        f"its version {version_id} is in {storage_class}: first have that version restored "
        f"(`aws s3api restore-object`, which takes {restore_takes(storage_class)}), then plan again"
    )


@dataclass(frozen=True)
class KeyState:
    """The versions of a key, newest first, and the bucket's versioning: Enabled, Suspended, or empty for never.

    `archived`: by the id of a version its storage class, where that has to be restored before it can be read;
    `restored`: those of them of which a copy can be read for some days.
    """

    versioning: str
    history: History
    archived: Mapping[str, str] = field(default_factory=dict)
    restored: Collection[str] = ()

    @property
    def current(self) -> ObjectVersion | None:
        """What readers are given; None: no object."""
        newest = next((each for each in self.history.versions if each.is_latest), None)
        return None if newest is None or newest.is_marker else newest

    def version(self, version_id: str) -> ObjectVersion | None:
        """The version, no delete marker, of that id."""
        return next(
            (v for v in self.history.versions if v.version_id == version_id and not v.is_marker), None
        )

    def unreadable(self, version_id: str) -> str:
        """Why a version cannot be read or copied now; empty where it can."""
        if version_id not in self.archived or version_id in self.restored:
            return ""
        return must_be_restored(version_id, self.archived[version_id])

    @property
    def marker_id(self) -> str | None:
        """The delete marker that hides the key; None where there is none, or none of an id of its own.

        A marker that was written while versioning was suspended has the id `null`, and so has what is written next:
        to remove that id could remove an object.
        """
        found = self.history.marker_id
        return None if found == NULL_VERSION else found


Kind = TypeVar("Kind", bound=KeyState)


def with_more(state: KeyState, kind: type[Kind], **more: Any) -> Kind:
    """The same state as one of a kind that knows `more`."""
    return kind(**{each.name: getattr(state, each.name) for each in fields(KeyState)}, **more)


@dataclass(frozen=True, kw_only=True)
class Counted(KeyState):
    """The same; `rows_of` is how many rows a version of some size has by its Parquet footer, read when it is asked."""

    rows_of: Callable[[str, int], int | None]


@dataclass(frozen=True)
class Current:
    """The current object of a key, and its object lock, where whoever asks may know of it."""

    head: ObjectHead
    locked_until: datetime | None = None
    legal_hold: bool = False


class Unclear(Exception):
    """Storage gave no answer that anything can be concluded from; its text says why."""


def all_versions(s3: "S3Client", bucket: str, key: str, pace: Callable[[], None]) -> History:
    """Every version of a key: a version beyond the first page of a listing is not gone.

    Raises:
        Unclear: the listing is cut off, and does not say how it goes on, or has more than MOST_PAGES. Or its entries
            lack fields without which they cannot be distinguished.
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
                f"the listing of versions of s3://{bucket} lacks fields: which one is current cannot be decided"
            )
        names = {"KeyMarker": page.get("NextKeyMarker"), "VersionIdMarker": page.get("NextVersionIdMarker")}
        if None in names.values() or names == next_page:
            raise Unclear(
                f"the listing of versions of s3://{bucket} is cut off and does not say how it goes on"
            )
        next_page = names
    raise Unclear(f"a key of s3://{bucket} has more than {MOST_PAGES} pages of versions")


class KeyReader:
    """Asks storage about keys, at most so many requests a second. Safe to share between threads; made for one batch."""

    def __init__(self, clients: Clients, pacer: Pacer) -> None:
        self._clients = clients
        self._pacer = pacer
        self._versioning: dict[str, str] = {}
        self._below: dict[tuple[str, str], bool] = {}
        self._asking = Lock()

    def read(self, bucket: str, key: str) -> KeyState:
        """The state of a key.

        Raises:
            Unclear: a refusal or no answer, which is never an absence.
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
        """Those of some archived versions that can be read for some days; only the newest ones are asked for.

        A version of which the store does not say so is not restored.
        """
        of_key = [each for each in history.versions if each.version_id in archived][:MOST_ARCHIVED]
        restored = set()
        for each in of_key:
            at: Any = {"Bucket": bucket, "Key": key}
            if not each.is_latest:  # a bucket without versions may not know an id of the only one
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
        """As in `KeyState`. Raises Unclear."""
        with _answered(f"the versioning of s3://{bucket}"):
            return self._versioning_of(self._clients.s3(bucket, key), bucket)

    def current(self, bucket: str, key: str) -> Current | None:
        """The current object; None: there is none. Raises Unclear."""
        with _answered(f"s3://{bucket}/{key}"):
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
        """Whether any object lies below a prefix; each is asked for once. Raises Unclear."""
        with _answered(f"s3://{bucket}/{prefix}"), self._asking:
            if (bucket, prefix) not in self._below:
                self._pacer.wait()
                s3 = self._clients.s3(bucket, prefix)
                self._below[bucket, prefix] = holds_any(s3, bucket, prefix)
            return self._below[bucket, prefix]

    def _versioning_of(self, s3: "S3Client", bucket: str) -> str:
        with self._asking:
            if bucket not in self._versioning:
                self._pacer.wait()
                self._versioning[bucket] = s3.get_bucket_versioning(Bucket=bucket).get("Status", "")
            return self._versioning[bucket]


@contextmanager
def _answered(what: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"{what} cannot be asked for: {explain(error).what}") from error

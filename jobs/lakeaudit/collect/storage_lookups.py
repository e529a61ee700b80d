"""Requests single objects from storage now, with a limited rate; callers pass the claim of each key.

200 means present, 404 with a proven right to list means absent, anything else is unknown. A 404 of a weakly consistent
store may be outdated: the object is requested twice.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.s3_responses import HeadResponse, etag_of, time_of
from lakeaudit.evidence.storage.footers import VisibleRows, fault_of
from lakeaudit.evidence.storage.head import MD5_ENCRYPTIONS, head_object, is_md5
from lakeaudit.evidence.storage.listing.s3_listing import never_versioned
from lakeaudit.evidence.storage.object_versions import Claimed, History, ObjectVersion, history_of
from lakeaudit.keys import NULL_VERSION, Location, in_known_store, is_azure, true_place
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_denied, is_missing
from lakeaudit.runtime.connections.azure import DENIED, open_blob, require_container
from lakeaudit.runtime.threads import Pacer, beside
from lakeaudit.schemas import LIVE, plain_time
from lakeaudit.storage_classes import StorageClasses

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FROM_HEAD = (
    "size",
    "etag",
    "modified_at",
    "storage_class",
    "archived",
    "multipart",
    "encryption",
    "checksum",
)

CLAIMED = ("claimed_at", "claimed_until", "size", "etag", "least_size")
"""The columns of ASKED that make a `Claimed`, in its order."""

APART = 60.0
"""Seconds between the two requests."""

Look = Callable[[pa.Table], pa.Table]
"""Turns ASKED rows into LIVE rows, in their order."""


def look_twice(
    keys: pa.Table, look: Look, is_weak: Callable[[str], bool], pause: Callable[[float], None]
) -> pa.Table:
    """Return LIVE rows of ASKED rows; an object that a weak bucket lacks is requested twice, the later answer wins."""
    answers = look(keys)
    buckets, presence = (answers.column(name).to_pylist() for name in ("bucket", "l_presence"))
    weak = {bucket for bucket in set(buckets) if is_weak(bucket)}
    doubtful = [at for at, one in enumerate(presence) if one == "absent" and buckets[at] in weak]
    if not doubtful:
        return answers
    pause(APART)
    later = dict(zip(doubtful, look(keys.take(doubtful)).to_pylist(), strict=True))
    rows = [later.get(at, row) for at, row in enumerate(answers.to_pylist())]
    return pa.Table.from_pylist(rows, schema=answers.schema)


def look(keys: pa.Table, clients: Clients, *, rate: float, threads: int = 16) -> pa.Table:
    """Return LIVE rows for (bucket, key) rows, in their order, with at most `rate` requests a second in all threads.

    Other columns of ASKED contain the claim of a key.
    """
    questioner = _Questioner(clients, Pacer(rate))
    with beside(threads) as pool:
        answers = list(pool.map(questioner.ask, keys.to_pylist()))
    return pa.Table.from_pylist(answers, schema=LIVE)


class _Questioner:
    """Requests keys, and caches per bucket whether it may be listed. Safe to share between threads."""

    def __init__(self, clients: Clients, pacer: Pacer) -> None:
        self._clients = clients
        self._pacer = pacer
        self._may_list: dict[str, bool] = {}
        self._no_versions: set[str] = set()
        self._keeping_none: dict[str, bool] = {}
        self._asking = Lock()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return one LIVE row for one row of ASKED."""
        bucket, key = request["bucket"], request["key"]
        row = {"bucket": bucket, "key": key, "l_at": datetime.now(UTC).replace(tzinfo=None)}
        claimed = Claimed(*(request.get(name) for name in CLAIMED))
        if not in_known_store(true_place(self._clients.names, bucket, key)[0]):
            return row | {"l_confirmation": "none"}
        if not bucket:
            return row | self._with_footer(_ask_local(key), request)
        if is_azure(bucket):
            return row | self._ask_azure(Location(bucket, key))
        flags = {name: bool(request.get(name)) for name in ("fresh", "current_only")}
        return row | self._with_footer(self._ask_s3(bucket, key, claimed, **flags), request)

    def _with_footer(self, answer: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
        """Check the first and last bytes of the object, if requested and if its size is the recorded one."""
        size = answer.get("l_size")
        known = request.get("size") in (None, size) and answer.get("l_presence") == "present"
        if not request.get("footer") or not known or size is None or answer.get("l_archived"):
            return answer
        place = Location(request["bucket"], request["key"])
        counted = VisibleRows(request.get("records"), hides_rows=bool(request.get("hides_rows")))
        fault = fault_of(self._clients, place, size, counted, self._pacer.wait)
        return answer | {"l_footer_fault": fault}

    def _ask_azure(self, place: Location) -> dict[str, Any]:
        """Return a blob's properties without versions. A 404 means absent only if the container exists."""
        endpoint = self._clients.azure_endpoint(place.bucket)
        self._pacer.wait()
        try:
            with open_blob(place, endpoint) as blob:
                return _of_blob(blob)
        except FileNotFoundError:
            pass
        except SourceError as error:
            return {"l_confirmation": "denied" if error.what == DENIED else "error"}
        try:
            require_container(place, endpoint)
        except SourceError:
            return {"l_confirmation": "denied"}
        return {"l_confirmation": "live", "l_presence": "absent", "l_versions_known": False}

    def _ask_s3(
        self, bucket: str, key: str, claimed: Claimed, *, fresh: bool, current_only: bool
    ) -> dict[str, Any]:
        try:
            s3 = self._clients.s3(bucket, key)
            answer = self._current(s3, bucket, key)
        except (ClientError, BotoCoreError) as error:
            return {"l_confirmation": _failure(error)}
        if current_only or (fresh and _as_claimed(answer, claimed)):
            return answer | {"l_versions_known": False}
        return answer | self._versions(s3, bucket, key, answer, claimed)

    def _current(self, s3: "S3Client", bucket: str, key: str) -> dict[str, Any]:
        """Request the current object. A 404 means absent only with the right to list."""
        try:
            classes = self._clients.storage_classes(bucket)
            return _present(head_object(s3, bucket, key, self._pacer.wait, classes=classes))
        except ClientError as error:
            if not is_missing(error):
                raise
            self._prove_list_right(s3, bucket, key, error)
        return {"l_confirmation": "live", "l_presence": "absent"}

    def _prove_list_right(self, s3: "S3Client", bucket: str, key: str, missing: ClientError) -> None:
        """Raise if the bucket may not be listed. The answer is cached for the bucket, a failure counts for this key."""
        if bucket not in self._may_list:
            self._pacer.wait()
            try:
                s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
                self._may_list[bucket] = True
            except ClientError as error:
                if explain(error).retryable:
                    raise
                if is_denied(error):
                    self._may_list[bucket] = False
                raise missing from error
        if not self._may_list[bucket]:
            raise missing

    def _versions(
        self, s3: "S3Client", bucket: str, key: str, answer: Mapping[str, Any], claimed: Claimed
    ) -> dict[str, Any]:
        """Return older versions of the key. A refusal is cached for the bucket; other failures count for this key."""
        if bucket in self._no_versions:
            return {"l_versions_known": False}
        try:
            history = self._history(s3, bucket, key, answer)
            since = self._since_claim(s3, bucket, key, answer, history, claimed)
            return (
                _marker(answer, history)
                | _older(history, claimed, self._clients.storage_classes(bucket))
                | {"l_versus_claimed": since}
            )
        except ClientError as error:
            if is_denied(error):
                self._no_versions.add(bucket)
        except BotoCoreError:
            pass
        return {"l_versions_known": False}

    def _history(self, s3: "S3Client", bucket: str, key: str, answer: Mapping[str, Any]) -> History:
        """Return the key's versions; for a bucket that was never versioned only the current object."""
        if self._keeps_none(s3, bucket):
            return _only_version(answer)
        self._pacer.wait()
        return history_of(s3.list_object_versions(Bucket=bucket, Prefix=key), key)

    def _keeps_none(self, s3: "S3Client", bucket: str) -> bool:
        """Whether the bucket was never versioned; requested once, and again after a temporary failure."""
        with self._asking:
            if bucket not in self._keeping_none:
                self._pacer.wait()
                try:
                    self._keeping_none[bucket] = never_versioned(s3, bucket)
                except ClientError as error:
                    if explain(error).retryable:
                        return False
                    self._keeping_none[bucket] = False
            return self._keeping_none[bucket]

    def _since_claim(
        self,
        s3: "S3Client",
        bucket: str,
        key: str,
        answer: Mapping[str, Any],
        history: History,
        claimed: Claimed,
    ) -> str | None:
        """Compare today's content with the version that was current at the claim: `same` or `differs`.

        None if either is unknown. Several versions may have been current; one equal version suffices.
        """
        then = history.at_claim(claimed)
        if answer["l_presence"] != "present" or not then:
            return None
        if any(each.is_latest for each in then):
            return SAME if history.is_untouched_since(claimed) else None
        if any(each.etag == answer["l_etag"] and each.size == answer["l_size"] for each in then):
            return SAME
        if len(then) > FEW:
            return None
        heads = [head_object(s3, bucket, key, self._pacer.wait, each.version_id) for each in then]
        results = {_against(answer, head) for head in heads}
        return SAME if SAME in results else DIFFERS if results == {DIFFERS} else None


SAME, DIFFERS = "same", "differs"
FEW = 3
"""The most versions of one key that are requested singly."""


def _against(answer: Mapping[str, Any], then: HeadResponse) -> str | None:
    """Compare two versions by checksums or ETags; different ETags prove a difference only if both are MD5s."""
    if None in (answer["l_size"], then.size):
        return None
    if answer["l_size"] != then.size:
        return DIFFERS
    sums = (answer["l_checksum"], then.checksum)
    if None not in sums and sums[0].partition(":")[0] == then.checksum_algorithm:
        return SAME if sums[0] == sums[1] else DIFFERS
    plain = all(
        is_md5(etag) and encryption in MD5_ENCRYPTIONS
        for etag, encryption in ((answer["l_etag"], answer["l_encryption"]), (then.etag, then.encryption))
    )
    return DIFFERS if plain and answer["l_etag"] != then.etag else None


def _as_claimed(answer: Mapping[str, Any], claimed: Claimed) -> bool:
    """Whether the object plainly is the claimed one, so that older versions are not requested."""
    return (
        answer["l_presence"] == "present"
        and claimed.until is not None
        and None not in (answer["l_modified_at"], answer["l_size"])
        and answer["l_modified_at"] <= claimed.until
        and claimed.fits(answer["l_size"])
        and claimed.etag in (None, answer["l_etag"])
    )


def _failure(error: ClientError | BotoCoreError) -> str:
    """Return `denied` for missing rights; a 404 that does not prove absence counts as such."""
    if isinstance(error, ClientError) and (is_denied(error) or is_missing(error)):
        return "denied"
    return "error"


def _present(head: HeadResponse) -> dict[str, Any]:
    given = {f"l_{name}": getattr(head, name) for name in FROM_HEAD}
    return given | {
        "l_confirmation": "live",
        "l_presence": "present",
        "l_version_id": _version_id_or_none(head.version_id),
        "l_modified_at": plain_time(head.modified_at),
    }


def _only_version(answer: Mapping[str, Any]) -> History:
    """Return the history of a key in a bucket without versions."""
    if answer["l_presence"] != "present":
        return History(())
    size, etag, at = answer["l_size"], answer["l_etag"], answer["l_modified_at"]
    if size is None or at is None:
        return History((), whole=False)
    return History((ObjectVersion(NULL_VERSION, at, is_latest=True, size=size, etag=etag or ""),))


def _version_id_or_none(version_id: str | None) -> str | None:
    return None if version_id == NULL_VERSION else version_id


def _marker(answer: Mapping[str, Any], history: History) -> dict[str, Any]:
    """Return the version id of the delete marker that hides an absent object."""
    hidden = answer["l_presence"] == "absent" and history.is_marked
    return {"l_version_id": _version_id_or_none(history.marker_id)} if hidden else {}


def _older(history: History, claimed: Claimed, classes: StorageClasses) -> dict[str, Any]:
    """Return the columns of the version with the claimed content, else of the newest older one."""
    match = history.match(claimed)
    older = match or history.newest_older
    return {
        "l_versions_known": history.whole or match is not None,
        "l_delete_marker": history.is_marked,
        "l_older_version_id": older.version_id if older else None,
        "l_older_size": older.size if older else None,
        "l_older_class": older.storage_class if older and classes.archived(older.storage_class) else None,
        "l_older_since": history.replaced_at(older) if older else None,
        "l_older_newer": history.newer_than(older) if older else None,
        "l_older_matches": match is not None,
        "l_older_beneath_marker": older is not None and history.is_beneath_marker(older),
    }


def _of_blob(blob: Any) -> dict[str, Any]:
    """Return the columns of a blob from its properties."""
    properties = {name: value.decode() for name, value in blob.metadata().items()}
    tier = properties.get("Access-Tier")
    return {"l_confirmation": "live", "l_presence": "present", "l_size": blob.size(),
            "l_etag": etag_of(properties.get("ETag")),
            "l_modified_at": plain_time(_blob_time(properties.get("Last-Modified"))),
            "l_storage_class": tier, "l_archived": tier == "Archive", "l_versions_known": False}  # fmt: skip


def _blob_time(text: str | None) -> datetime | None:
    with suppress(ValueError):
        return time_of(datetime.fromisoformat(text)) if text else None
    return None


def _ask_local(key: str) -> dict[str, Any]:
    try:
        info = Path(f"/{key}").stat()
    except FileNotFoundError:
        return {"l_confirmation": "live", "l_presence": "absent", "l_versions_known": True}
    except (OSError, ValueError) as error:  # ValueError: a key that no path can have
        return {"l_confirmation": "denied" if isinstance(error, PermissionError) else "error"}
    modified = datetime.fromtimestamp(info.st_mtime, UTC).replace(tzinfo=None)
    return {"l_confirmation": "live", "l_presence": "present", "l_size": info.st_size, "l_modified_at": modified,
            "l_archived": False, "l_versions_known": True}  # fmt: skip

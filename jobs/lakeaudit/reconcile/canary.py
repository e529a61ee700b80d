"""Test which conditional requests a store honours: each is sent to a canary object with a condition that must fail.

Some stores accept conditions and ignore them (moto 5.2.5 ignores those of CopyObject), so one form proves nothing about
another. A form whose request does not fail is not used.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.s3_responses import listed_versions, open_uploads
from lakeaudit.evidence.table_grants import on_tables
from lakeaudit.grants import (
    ABORT,
    DELETE,
    DELETE_VERSION,
    GET,
    LIST_UPLOADS,
    LIST_VERSIONS,
    PUT,
    Grant,
    S3Grant,
)
from lakeaudit.keys import Location, digest
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_condition_refused, is_denied

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

COPY_IF_ABSENT, PUT_IF_ABSENT, DELETE_IF_MATCH = "copy_if_absent", "put_if_absent", "delete_if_match"
COMPLETE_IF_ABSENT, COMPLETE_IF_MATCH = "complete_if_absent", "complete_if_match"
COPY_IF_MATCH, PUT_IF_MATCH = "copy_if_match", "put_if_match"
DELETE_MANY_IF_MATCH = "delete_many_if_match"
"""DeleteObjects, of which each entry has the ETag of its object (S3 API reference, ObjectIdentifier)."""
_FOLDER = ".lakeaudit-canary"
_NO_ONES = '"00000000000000000000000000000000"'


def _place(results: Location, bucket: str) -> Location:
    if results.bucket == bucket:
        return results.join(_FOLDER)
    return Location(bucket, "").join(_FOLDER, digest(results.uri)[:12])


def changed_files(purpose: str, lake: Lake, actions: tuple[str, ...]) -> Iterator[Grant]:
    """Yield the grants to change files of all tables, and to test conditional requests in their buckets."""
    grants = [*on_tables(purpose, lake, actions)]
    yield from (*grants, *canary_grants(lake, grants))


def canary_grants(lake: Lake, grants: Iterable[Grant]) -> Iterator[Grant]:
    """Yield the grants to test the conditional requests in the buckets of other grants."""
    for each in grants:
        if isinstance(each, S3Grant):
            place = _place(lake.results, each.place.bucket)
            yield S3Grant("TestConditionalWrites", place, _REQUESTS, each.is_pattern)


_REQUESTS = (GET, PUT, DELETE, DELETE_VERSION, ABORT, LIST_VERSIONS, LIST_UPLOADS)


class Forms:
    """The conditional forms by bucket; each bucket is tested once. Safe to share between threads.

    The canaries are in the results location if it is in the same bucket, else in `.lakeaudit-canary/` of the bucket,
    and every version of them is removed again. Their names are the same for every run on the same results, so that the
    next run removes those of a killed run. `require_lease` raises Busy if another run may write there now: it is called
    before each request of the canaries and after them, since the caller may act next.
    """

    def __init__(self, clients: Clients, results: Location, require_lease: Callable[[], None]) -> None:
        self._clients = clients
        self._results = results
        self._require_lease = require_lease
        self._honoured: dict[str, frozenset[str] | SourceError] = {}
        self._denied: dict[str, str] = {}
        self._others: dict[str, bool] = {}
        self._lock = Lock()

    def holds(self, name: str, prove: Callable[[], bool]) -> bool:
        """Return whether a store of another kind honours its conditions; each name is tested once."""
        with self._lock:
            if name not in self._others:
                self._others[name] = prove()
            return self._others[name]

    def honoured(self, bucket: str) -> frozenset[str]:
        """Return the forms that failed on a wrong condition.

        Raises:
            SourceError: a canary cannot be written, or a request to it failed for a reason that may pass; this run
                does not know then which forms the store honours.
        """
        with self._lock:
            if bucket not in self._honoured:
                self._require_lease()
                self._honoured[bucket] = self._prove(bucket)
                self._require_lease()
            known = self._honoured[bucket]
        if isinstance(known, SourceError):
            raise known
        return known

    def _prove(self, bucket: str) -> frozenset[str] | SourceError:
        place = _place(self._results, bucket)
        canary = _Canary(
            self._clients.s3(bucket, place.key), bucket, place.join("a").key, place.join("b").key
        )
        try:
            canary.write()
            errors = {name: self._error_of(form) for name, form in canary.forms.items()}
            return self._honoured_of(bucket, errors)
        except (ClientError, BotoCoreError) as error:
            failed = explain(error)
            what = f"the store's conditional requests cannot be tested with an object there: {failed.what}"
            return SourceError(place.join("a").uri, what, failed.hint)
        finally:
            self._require_lease()  # else these canaries belong to the other run
            with suppress(ClientError, BotoCoreError):
                canary.remove()

    def _error_of(self, form: Callable[[], Any]) -> ClientError | None:
        self._require_lease()
        return _error_of(form)

    def _honoured_of(self, bucket: str, errors: Mapping[str, ClientError | None]) -> frozenset[str]:
        """Return the forms that failed on their condition. Raises ClientError: none did, and some are denied."""
        honoured = frozenset(name for name, error in errors.items() if error and is_condition_refused(error))
        denied = next((error for error in errors.values() if error and is_denied(error)), None)
        if denied and not honoured:
            raise denied
        if denied:
            self._denied[bucket] = explain(denied).what
        return honoured

    def denied(self, bucket: str) -> str | None:
        """Return why some forms could not be tested in a bucket; None: all were, or none was yet."""
        return self._denied.get(bucket)


class _Canary:
    """Two objects: an existing target and a source of copies."""

    def __init__(self, s3: "S3Client", bucket: str, there: str, source: str) -> None:
        self._s3, self._bucket, self._there, self._source = s3, bucket, there, source

    def write(self) -> None:
        for key in (self._there, self._source):
            self._s3.put_object(Bucket=self._bucket, Key=key, Body=b"canary")

    @property
    def forms(self) -> dict[str, Callable[[], Any]]:
        """Return for each form a request whose condition does not hold."""
        s3 = self._s3
        at: Any = {"Bucket": self._bucket, "Key": self._there}
        source: Any = {"Bucket": self._bucket, "Key": self._source}
        return {
            COPY_IF_ABSENT: lambda: s3.copy_object(**at, CopySource=source, IfNoneMatch="*"),
            PUT_IF_ABSENT: lambda: s3.put_object(**at, Body=b"other", IfNoneMatch="*"),
            COPY_IF_MATCH: lambda: s3.copy_object(**at, CopySource=source, IfMatch=_NO_ONES),
            PUT_IF_MATCH: lambda: s3.put_object(**at, Body=b"other", IfMatch=_NO_ONES),
            DELETE_IF_MATCH: lambda: s3.delete_object(**at, IfMatch=_NO_ONES),
            COMPLETE_IF_ABSENT: lambda: self._complete(at, {"IfNoneMatch": "*"}),
            COMPLETE_IF_MATCH: lambda: self._complete(at, {"IfMatch": _NO_ONES}),
            DELETE_MANY_IF_MATCH: self._delete_many,  # the last: a store that ignores it deletes the object
        }

    def _delete_many(self) -> None:
        """Raise the error of an entry: DeleteObjects itself succeeds."""
        objects: Any = [{"Key": self._there, "ETag": _NO_ONES}]
        answer: Any = self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": objects})
        for entry in answer.get("Errors", []):
            raise entry_error(entry)

    def _complete(self, at: Any, condition: Any) -> None:
        """Complete a multipart upload over the existing object; abort it if that fails."""
        upload: Any = {**at, "UploadId": self._s3.create_multipart_upload(**at).get("UploadId", "")}
        try:
            part: Any = {
                "PartNumber": 1,
                "ETag": self._s3.upload_part(**upload, PartNumber=1, Body=b"other").get("ETag", ""),
            }
            self._s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [part]}, **condition)
        except (ClientError, BotoCoreError):
            with suppress(ClientError, BotoCoreError):
                self._s3.abort_multipart_upload(**upload)
            raise

    def remove(self) -> None:
        """Remove every version and marker of both objects, and uploads of a killed run."""
        for key in (self._there, self._source):
            page: Any = self._s3.list_object_versions(Bucket=self._bucket, Prefix=key)
            for each in listed_versions(page):
                version: Any = {"VersionId": each.version_id} if each.version_id else {}
                self._s3.delete_object(Bucket=self._bucket, Key=each.key, **version)
        uploads: Any = self._s3.list_multipart_uploads(Bucket=self._bucket, Prefix=self._there)
        for upload in open_uploads(uploads):
            if upload.key == self._there:
                self._s3.abort_multipart_upload(
                    Bucket=self._bucket, Key=self._there, UploadId=upload.upload_id
                )


def entry_error(entry: Any) -> ClientError:
    """Return the error of one entry of DeleteObjects in the form of a failed request."""
    response: Any = {"Error": {"Code": entry.get("Code", ""), "Message": entry.get("Message", "")}}
    return ClientError(response, "DeleteObjects")


def fails(form: Callable[[], Any]) -> bool:
    """Return whether a request fails because of its condition; another lasting failure means that it cannot be used.

    Raises:
        ClientError, BotoCoreError: it failed for a reason that may pass, which proves nothing.
    """
    error = _error_of(form)
    return error is not None and is_condition_refused(error)


def _error_of(form: Callable[[], Any]) -> ClientError | None:
    """Return the error of a request; None: it succeeded. Raises errors that may pass."""
    try:
        form()
    except ClientError as error:
        if explain(error).retryable:
            raise
        return error
    return None

"""The lease of a results place as one S3 object, written by conditional PUT alone.

`If-None-Match: *` takes a lease that never existed, `If-Match: <ETag>` one that was read before; S3 answers 412 or 409
if another writer was faster. Some stores do not support these conditions, and some accept and ignore them:
`honours_conditions` tests it. Ages use only the store's own clock (`Date` less `Last-Modified`), so that no local clock
matters.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws_failures import is_condition_refused, is_missing
from lakeaudit.runtime.connections.aws_responses import required

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NO_ONES = '"00000000000000000000000000000000"'

Words = dict[str, str | int | None]
"""The content of a lease: holder (a random id, null once released), run_id, host, beat."""


@dataclass(frozen=True)
class LeaseState:
    """The lease as it was read; `holder` is None after it was released."""

    etag: str
    age: timedelta
    holder: str | None
    run_id: str


@dataclass(frozen=True)
class LeaseObject:
    """One lease; a `ClientError` other than a failed condition is raised."""

    client: "S3Client"
    place: Location

    def read(self) -> LeaseState | None:
        """Return the lease, or None if there never was one."""
        try:
            got: Any = self.client.get_object(Bucket=self.place.bucket, Key=self.place.key)
        except ClientError as error:
            if is_missing(error):
                return None
            raise
        now = parsedate_to_datetime(required(got["ResponseMetadata"]["HTTPHeaders"], "date"))
        words = _content(got["Body"].read())
        age = now - required(got, "LastModified")
        return LeaseState(required(got, "ETag"), age, words["holder"], words["run_id"])

    def write(self, words: Words, over: str | None) -> str | None:
        """Overwrite the lease of that ETag, or create it; return the new ETag, or None if another writer was faster.

        A PUT that the client repeats after a lost response fails because of its own first one, which counts. After a
        response without an ETag the lease is read again for it.
        """
        etag = self._put(words, over)
        if etag:
            return etag
        there = self.read()
        return there.etag if there and words["holder"] and there.holder == words["holder"] else None

    def honours_conditions(self, words: Words) -> bool:
        """Try two writes that the store must refuse; only the holder may try them, since a bad store accepts them."""
        return self._put(words, None) is None and self._put(words, _NO_ONES) is None

    def remove(self) -> None:
        """Remove the lease."""
        self.client.delete_object(Bucket=self.place.bucket, Key=self.place.key)

    def _put(self, words: Words, over: str | None) -> str | None:
        """Write the lease; return the ETag, "" if the store does not name it, or None if the condition failed."""
        body = json.dumps(words).encode()
        condition: Any = {"IfMatch": over} if over else {"IfNoneMatch": "*"}
        try:
            put = self.client.put_object(
                Bucket=self.place.bucket, Key=self.place.key, Body=body, ContentType="application/json", **condition
            )  # fmt: skip
        except ClientError as error:
            if is_condition_refused(error) or is_missing(error):
                return None
            raise
        return put.get("ETag", "")


def _content(body: bytes) -> dict[str, Any]:
    """Parse a lease; an unreadable one counts as held until it is too old."""
    try:
        words = json.loads(body)
        return {"holder": words["holder"], "run_id": str(words["run_id"])}
    except (ValueError, TypeError, KeyError):
        return {"holder": "?", "run_id": "unknown"}

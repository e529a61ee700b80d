"""The lease of a results place as one S3 object, written by conditional PUT alone.

`If-None-Match: *` takes a lease that was never there, `If-Match: <ETag>` one that was read before; S3 answers 412 or
409 where another was faster. Not every store knows these conditions, and some accept and ignore them:
`honours_conditions` finds out. Ages are told by the store's own clock alone (`Date` less `Last-Modified`), so that no
clock here matters.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lakeaudit.keys import Location
from lakeaudit.runtime.aws_failures import is_condition_refused, is_missing
from lakeaudit.runtime.aws_responses import required

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NO_ONES = '"00000000000000000000000000000000"'

Words = dict[str, str | int | None]
"""What a lease says: holder (a random id, null once given back), run_id, host, beat."""


@dataclass(frozen=True)
class LeaseState:
    """The lease as it was read; `holder` is None when it was given back."""

    etag: str
    age: timedelta
    holder: str | None
    run_id: str


@dataclass(frozen=True)
class LeaseObject:
    """One lease; `ClientError` of any other kind than a failed condition goes through."""

    client: "S3Client"
    place: Location

    def read(self) -> LeaseState | None:
        """The lease, None when there never was one."""
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
        """Write over the lease of that ETag, or over none; the new ETag, None where another was faster.

        A PUT that the client repeats after a lost answer meets its own first one: that one counts. A response without
        an ETag is read again for it.
        """
        etag = self._put(words, over)
        if etag:
            return etag
        there = self.read()
        return there.etag if there and words["holder"] and there.holder == words["holder"] else None

    def honours_conditions(self, words: Words) -> bool:
        """Ask for two writes that have to be refused; asked by the holder, whose words a bad store may then keep."""
        return self._put(words, None) is None and self._put(words, _NO_ONES) is None

    def remove(self) -> None:
        """Leave nothing there."""
        self.client.delete_object(Bucket=self.place.bucket, Key=self.place.key)

    def _put(self, words: Words, over: str | None) -> str | None:
        """The ETag, empty where the store does not name it; None: the condition was refused."""
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
    """Whatever cannot be read is held by someone, until it is too old."""
    try:
        words = json.loads(body)
        return {"holder": words["holder"], "run_id": str(words["run_id"])}
    except (ValueError, TypeError, KeyError):
        return {"holder": "?", "run_id": "unknown"}

"""Objects written from others, on a condition that the store was shown to honour: absent there, or as they were seen.

By CopyObject where its condition is honoured; else, for objects of bounded size, by reading and PutObject; what one
request cannot copy in the parts that it was uploaded in. Metadata, tags, storage class and encryption are carried.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeaudit.keys import Location
from lakeaudit.reconcile.canary import (
    COMPLETE_IF_ABSENT,
    COMPLETE_IF_MATCH,
    COPY_IF_ABSENT,
    COPY_IF_MATCH,
    PUT_IF_ABSENT,
    PUT_IF_MATCH,
)
from lakeaudit.reconcile.copying import (
    CARRIED,
    MOST_COPIED,
    MOST_READ,
    OF_COPY,
    Copying,
    carried,
    tagging,
)
from lakeaudit.reconcile.protocol import NotProved, Target

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def cannot_be_copied(size: int, etag: str | None) -> str | None:
    """Why no request copies an object of that size: above 5 GiB its own parts have to be known."""
    if size <= MOST_COPIED or "-" in (etag or ""):
        return None
    return "it is above 5 GiB and was not uploaded in parts: no copy would have its ETag"


@dataclass(frozen=True)
class Source:
    """What is copied: one version by its id, or the object, while it has an ETag."""

    bucket: str
    key: str
    size: int
    version_id: str | None = None
    etag: str | None = None

    @property
    def at(self) -> dict[str, Any]:
        """Its place."""
        version = {"VersionId": self.version_id} if self.version_id is not None else {}
        return {"Bucket": self.bucket, "Key": self.key, **version}

    @property
    def condition(self) -> dict[str, Any]:
        """That it is what was seen."""
        return {} if self.etag is None else {"IfMatch": f'"{self.etag}"'}


def write_where_absent(target: Target, source: Source) -> str | None:
    """Write a copy where there is no object; the id of its version, else its ETag. Raises as `Action.act`."""
    return _written(target, source, {"IfNoneMatch": "*"}, COPY_IF_ABSENT, PUT_IF_ABSENT)


def write_over(target: Target, source: Source, etag: str) -> str | None:
    """Write a copy over the object of that ETag. Returns and raises as `write_where_absent`."""
    return _written(target, source, {"IfMatch": f'"{etag}"'}, COPY_IF_MATCH, PUT_IF_MATCH)


def _written(target: Target, source: Source, condition: dict[str, Any], copy: str, put: str) -> str | None:
    forms = target.forms.proved(target.bucket)
    of = target.clients.s3(source.bucket, source.key)
    if source.size > MOST_COPIED:
        return _in_parts(of, target, source, condition, forms)
    if copy in forms and of is target.s3:
        return _copied(target, source, condition)
    if put not in forms:
        name = next(iter(condition))
        raise NotProved(f"the store honours {name} neither of CopyObject nor of PutObject")
    if source.size > MOST_READ:
        raise NotProved(f"the store's copies have no conditions, and it is above {MOST_READ >> 20} MiB")
    return _read_and_put(of, target, source, condition)


def _in_parts(
    of: "S3Client", target: Target, source: Source, condition: dict[str, Any], forms: frozenset[str]
) -> str | None:
    form = COMPLETE_IF_ABSENT if "IfNoneMatch" in condition else COMPLETE_IF_MATCH
    if form not in forms or of is not target.s3 or source.etag is None:
        raise NotProved(f"the store does not honour {next(iter(condition))} of CompleteMultipartUpload")
    places = Location(source.bucket, source.key), Location(target.bucket, target.key)
    return Copying(target.s3, places[0], source.etag, places[1], source.version_id).copy(condition)


def _copied(target: Target, source: Source, condition: dict[str, Any]) -> str | None:
    s3: Any = target.s3
    head = s3.head_object(**source.at, **source.condition)
    given = carried(head, OF_COPY)
    seen = {} if source.etag is None else {"CopySourceIfMatch": f'"{source.etag}"'}
    at = {"Bucket": target.bucket, "Key": target.key, "CopySource": source.at}
    copied = s3.copy_object(**at, **seen, **condition, **given)
    return str(copied.get("VersionId") or copied["CopyObjectResult"]["ETag"].strip('"'))


def _read_and_put(of: "S3Client", target: Target, source: Source, condition: dict[str, Any]) -> str | None:
    got: Any = of.get_object(**source.at, **source.condition)
    given = carried(got, CARRIED) | tagging(of, source.at, got)
    at: Any = {"Bucket": target.bucket, "Key": target.key}
    put = target.s3.put_object(**at, Body=got["Body"].read(), **condition, **given)
    return put.get("VersionId") or put["ETag"].strip('"')

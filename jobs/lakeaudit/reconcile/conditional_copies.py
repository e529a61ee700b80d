"""Copy objects on a condition that the store honours: the target is absent, or has a known ETag.

CopyObject is used if its condition is honoured; else objects of limited size are read and written with PutObject. An
object that one request cannot copy is copied in its original parts. Metadata, tags, storage class and encryption are
preserved.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from lakeaudit.keys import Location
from lakeaudit.reconcile.canary import (
    COMPLETE_IF_ABSENT,
    COMPLETE_IF_MATCH,
    COPY_IF_ABSENT,
    COPY_IF_MATCH,
    PUT_IF_ABSENT,
    PUT_IF_MATCH,
)
from lakeaudit.reconcile.copying import MOST_COPIED, MOST_READ, Copying
from lakeaudit.reconcile.protocol import CannotActSafely, Target


@dataclass(frozen=True)
class Source:
    """The object, or a version of it, that is copied while it has its ETag."""

    bucket: str
    key: str
    size: int
    etag: str
    version_id: str | None = None


def write_where_absent(target: Target, source: Source) -> str | None:
    """Write a copy if there is no object; return its version id, else its ETag, else None. Raises as `Action.act`."""
    forms = _Forms(COPY_IF_ABSENT, PUT_IF_ABSENT, COMPLETE_IF_ABSENT)
    return _write(target, source, {"IfNoneMatch": "*"}, forms)


def write_over(target: Target, source: Source, etag: str) -> str | None:
    """Overwrite the object that has this ETag with a copy. Returns and raises as `write_where_absent`."""
    forms = _Forms(COPY_IF_MATCH, PUT_IF_MATCH, COMPLETE_IF_MATCH)
    return _write(target, source, {"IfMatch": f'"{etag}"'}, forms)


class _Forms(NamedTuple):
    """The forms of one condition for each kind of request."""

    copy: str
    put: str
    complete: str


def _write(target: Target, source: Source, condition: dict[str, Any], forms: _Forms) -> str | None:
    proved, (name,) = target.forms.honoured(target.bucket), condition
    of = target.clients.s3(source.bucket, source.key)
    by_server = of is target.s3
    places = Location(source.bucket, source.key), Location(target.bucket, target.key)
    copying = Copying(target.s3, places[0], source.etag, places[1], source.version_id, of)
    if source.size > MOST_COPIED:
        if forms.complete not in proved or not by_server:
            raise CannotActSafely(f"the store does not honour {name} of CompleteMultipartUpload")
        return copying.in_parts(condition)
    if forms.copy in proved and by_server:
        return copying.whole(condition)
    if forms.put not in proved:
        raise CannotActSafely(f"the store honours {name} neither of CopyObject nor of PutObject")
    if source.size > MOST_READ:
        raise CannotActSafely(
            f"the store's copies have no conditions, and the object is above {MOST_READ >> 20} MiB"
        )
    return copying.read_and_put(condition)

"""Objects written from others, on a condition that the store was shown to honour: absent there, or as they were seen.

By CopyObject where its condition is honoured; else, for objects of bounded size, by reading and PutObject; what one
request cannot copy in the parts that it was uploaded in. Metadata, tags, storage class and encryption are carried.
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
from lakeaudit.reconcile.protocol import NotProved, Target


@dataclass(frozen=True)
class Source:
    """What is copied while it has its ETag: an object, or one of its versions by its id."""

    bucket: str
    key: str
    size: int
    etag: str
    version_id: str | None = None


def write_where_absent(target: Target, source: Source) -> str | None:
    """Write a copy where there is no object; the id of its version, else its ETag, if named. Raises as `Action.act`."""
    forms = _Forms(COPY_IF_ABSENT, PUT_IF_ABSENT, COMPLETE_IF_ABSENT)
    return _written(target, source, {"IfNoneMatch": "*"}, forms)


def write_over(target: Target, source: Source, etag: str) -> str | None:
    """Write a copy over the object of that ETag. Returns and raises as `write_where_absent`."""
    forms = _Forms(COPY_IF_MATCH, PUT_IF_MATCH, COMPLETE_IF_MATCH)
    return _written(target, source, {"IfMatch": f'"{etag}"'}, forms)


class _Forms(NamedTuple):
    """How a store may be asked to honour one condition."""

    copy: str
    put: str
    complete: str


def _written(target: Target, source: Source, condition: dict[str, Any], forms: _Forms) -> str | None:
    proved, (name,) = target.forms.proved(target.bucket), condition
    of = target.clients.s3(source.bucket, source.key)
    by_server = of is target.s3
    places = Location(source.bucket, source.key), Location(target.bucket, target.key)
    copying = Copying(target.s3, places[0], source.etag, places[1], source.version_id, of)
    if source.size > MOST_COPIED:
        if forms.complete not in proved or not by_server:
            raise NotProved(f"the store does not honour {name} of CompleteMultipartUpload")
        return copying.in_parts(condition)
    if forms.copy in proved and by_server:
        return copying.whole(condition)
    if forms.put not in proved:
        raise NotProved(f"the store honours {name} neither of CopyObject nor of PutObject")
    if source.size > MOST_READ:
        raise NotProved(f"the store's copies have no conditions, and it is above {MOST_READ >> 20} MiB")
    return copying.read_and_put(condition)

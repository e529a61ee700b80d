"""The AWS permissions of a listing."""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.evidence.storage.listing import Listing
from lakeaudit.grants import GET, LIST, LIST_UPLOADS, LIST_VERSIONS, VERSIONING, Grant, S3Grant

LISTED = (GET, LIST, LIST_VERSIONS, LIST_UPLOADS, VERSIONING)


def permissions(source: Listing, lake: Lake) -> Iterator[Grant]:  # noqa: ARG001 - the signature of all kinds
    """See `kind.Kind`. Attributes that a listing leaves out are requested by HEAD."""
    yield S3Grant("ListStorage", source.location, LISTED)

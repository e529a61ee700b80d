"""Puts objects of the tests' own server into the past, versions and delete markers among them."""

from datetime import datetime, timedelta
from typing import Any


def backdate(bucket: str, key: str, *times: datetime) -> None:
    """Set when the versions and delete markers of a key were written, oldest first."""
    versions = _bucket(bucket).keys.getlist(key)
    for version, at in zip(versions, times, strict=True):
        version.last_modified = at.replace(tzinfo=None)


def _bucket(name: str) -> Any:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[name]


def age_all(bucket: str, by: timedelta) -> None:
    """Everything that a bucket holds, delete markers and noncurrent versions included, was written so much earlier."""
    keys = _bucket(bucket).keys
    for key in list(keys):
        for version in keys.getlist(key):
            version.last_modified -= by

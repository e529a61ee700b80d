"""Objects of the tests' own server, which runs in this process: written, copied, dated and restored."""

import pickle
from datetime import datetime, timedelta
from typing import Any


def backdate(bucket: str, key: str, *times: datetime) -> None:
    """Set when the versions and delete markers of a key were written, oldest first."""
    versions = _bucket(bucket).keys.getlist(key)
    for version, at in zip(versions, times, strict=True):
        version.last_modified = at.replace(tzinfo=None)


def put(bucket: str, key: str, body: bytes) -> None:
    """Write an object as a client does, at a tenth of the time."""
    _backend().put_object(bucket, key, body)


def body_of(bucket: str, key: str) -> bytes:
    """Return the bytes of an object."""
    body: bytes = _bucket(bucket).keys[key].value
    return body


def copy(bucket: str, key: str, to: str) -> None:
    """Copy an object as a client does, at a tenth of the time."""
    backend = _backend()
    backend.copy_object(backend.get_object(bucket, key), bucket, to)


def delete(bucket: str, key: str) -> None:
    """Delete an object as a client does, at a tenth of the time."""
    _backend().delete_object(bucket, key)


def present(bucket: str, prefix: str) -> list[str]:
    """Keys of the objects that a client finds below a prefix, in order."""
    from moto.s3.models import FakeDeleteMarker

    keys = _bucket(bucket).keys
    return sorted(
        key for key in list(keys) if key.startswith(prefix) and not isinstance(keys[key], FakeDeleteMarker)
    )


def versions(bucket: str, key: str) -> list[Any]:
    """Every version and delete marker of a key, oldest first, as `put_versions` takes them."""
    return list(_bucket(bucket).keys.getlist(key, []))


def put_versions(bucket: str, key: str, them: list[Any]) -> None:
    """Give a key the versions and delete markers that it had before; none of them was deleted since."""
    _bucket(bucket).keys.setlist(key, them)


def saved_objects(bucket: str) -> bytes:
    """Every version and delete marker of a bucket, as `restore_objects` takes them."""
    return pickle.dumps({key: versions(bucket, key) for key in list(_bucket(bucket).keys)})


def restore_objects(bucket: str, saved: bytes) -> None:
    """Give a bucket the objects that it had before, with their version ids and times, whatever was done since."""
    keys = _bucket(bucket).keys
    for key in list(keys):
        keys.setlist(key, [])
        dict.pop(keys, key)
    for key, them in pickle.loads(saved).items():
        keys.setlist(key, them)


def _bucket(name: str) -> Any:
    return _backend().buckets[name]


def _backend() -> Any:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def age_all(bucket: str, by: timedelta, prefix: str = "") -> None:
    """Everything that a bucket holds, delete markers and noncurrent versions included, was written so much earlier."""
    keys = _bucket(bucket).keys
    for key in (each for each in list(keys) if each.startswith(prefix)):
        for version in keys.getlist(key):
            version.last_modified -= by

"""Check whether a file was overwritten with other content since an audit recorded its ETag.

An ETag is the MD5 of the content, or a digest of the MD5s of its parts (S3 User Guide, "Checking object integrity"):
equal bytes have two ETags if one upload had parts and the other had none. With KMS, and on Azure, an ETag does not
depend on the bytes.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import CLOCK_STEP, File, older_version, read_bytes
from lakeaudit.evidence.storage.head import is_md5
from lakeaudit.runtime.connections.aws import Clients

PART_SIZES = tuple(size << 20 for size in (5, 8, 10, 15, 16, 32, 50, 64, 100, 128))
"""Default part sizes of clients in bytes: the AWS CLI and boto3 use 8 MiB, PyArrow 10, Hadoop's S3A 64 or 100."""
_OF_PARTS = re.compile("[0-9a-f]{32}-([1-9][0-9]{0,4})")


def is_rewritten(clients: Clients, now: File, etag: str, written_at: datetime | None) -> bool | None:
    """Return whether a file has other content than the one that had this ETag and time; None: it is not known.

    Only a file with another ETag and another time is read. An older version with the ETag decides. If there is none,
    the content must prove that ETags of this place are digests, and that its own digest is another one.
    """
    if not etag or not now.etag or now.etag == etag:
        return False
    if written_at is not None and abs(now.modified_at - written_at) < CLOCK_STEP:
        return False
    try:
        content = read_bytes(clients, now.place, size=now.size)
        if content is None:
            return None
        if etag in _digests(content, etag):
            return False
        older = _older_content(clients, now, etag)
    except SourceError:
        return None
    if older is not None:
        return content != older
    return True if _is_of_whole(etag) and now.etag in _digests(content, now.etag) else None


def rewritten_words(subject: str, *, surely: bool) -> str:
    """Return the sentence about a state's file that was, or may have been, overwritten with other content."""
    if surely:
        return f"{subject} was overwritten with other content"
    return f"{subject} was overwritten, perhaps with other content: its ETag is another one"


def _older_content(clients: Clients, now: File, etag: str) -> bytes | None:
    """Return the content of the older version with this ETag; None: there is none, or versions cannot be listed."""
    try:
        version = older_version(clients, now.place, etag)
    except SourceError:
        return None
    return None if version is None else read_bytes(clients, now.place, version)


def _is_of_whole(etag: str) -> bool:
    """Return whether content has exactly one ETag of this form, whatever the sizes of the parts are."""
    return is_md5(etag) or (is_of_parts(etag) and etag.endswith("-1"))


def is_of_parts(etag: str) -> bool:
    """Return whether an ETag has the form of a multipart upload's."""
    return _OF_PARTS.fullmatch(etag) is not None


def _digests(content: bytes, etag: str) -> Iterator[str]:
    """Yield the ETags that content has if it was uploaded in the form of this ETag: whole, or in as many parts."""
    if is_md5(etag):
        yield hashlib.md5(content, usedforsecurity=False).hexdigest()
    found = _OF_PARTS.fullmatch(etag)
    count = int(found[1]) if found else 0
    sizes = (len(content) or 1,) if count == 1 else PART_SIZES
    for size in sizes:
        if found and -(-len(content) // size) in {count, 0}:
            yield _of_parts(content, size)


def _of_parts(content: bytes, size: int) -> str:
    parts = [content[at : at + size] for at in range(0, len(content), size)] or [b""]
    digests = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"

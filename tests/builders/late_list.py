"""A store that lists too late."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from moto.s3.models import S3Backend


@dataclass
class LateList:
    """Lists of a bucket lack some keys, as those of S3 did for a while before December 2020: here until the job ends.

    HEAD, GET and PUT see them at once. Which ones is drawn from the seed and the name of the task that wrote them;
    `hidden` returns them.
    """

    bucket: str
    seed: int
    share: float
    hidden: set[str] = field(default_factory=set)

    def hides(self, key: str) -> bool:
        """Whether lists lack a key."""
        name = key.rpartition("/")[2]
        if not name.startswith("part-"):
            return False
        stage = "final" if "_temporary" not in key else "attempt" if "attempt_" in key else "task"
        drawn = hashlib.sha1(f"{self.seed}|{name[:10]}|{stage}".encode()).digest()
        if int.from_bytes(drawn[:4]) / 2**32 >= self.share:
            return False
        self.hidden.add(key)
        return True


@contextmanager
def listing_late(late: LateList) -> Iterator[LateList]:
    """The tests' own server lists like that."""
    real = S3Backend.list_objects

    def lists(self: S3Backend, bucket: Any, *given: Any, **named: Any) -> Any:
        if getattr(bucket, "name", "") != late.bucket:
            return real(self, bucket, *given, **named)
        seen = {n: k for n, k in bucket.keys.items() if not late.hides(n)}
        return real(self, cast("Any", SimpleNamespace(keys=seen)), *given, **named)

    S3Backend.list_objects = lists  # type: ignore[method-assign]
    try:
        yield late
    finally:
        S3Backend.list_objects = real  # type: ignore[method-assign]

"""A server of S3 that strikes at the sender of a request: at the n-th one of a victim, before or after it is served."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import unquote

import pytest

from tests.builders.zygote import VICTIM

WRITES = ("PUT", "POST", "DELETE")


@dataclass
class Strike:
    """At the victim's request number `at` (the first is 0) `act` is called; `after`: once it was served.

    No `at`: the requests are only recorded.
    """

    at: int | None = None
    after: bool = False
    act: Callable[[], None] = lambda: None
    requests: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """Writes of the victim that were served with success since `act`."""
    done: bool = False
    _counting: Lock = field(default_factory=Lock)

    def number(self, request: str) -> int:
        with self._counting:
            self.requests.append(request)
            return len(self.requests) - 1


@contextmanager
def striking(strike: Strike) -> Iterator[Strike]:
    """All servers of this process strike so while the block runs."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application

    served: Any = Application.__call__

    def serve_or_strike(self: Any, environ: dict[str, Any], start: Any) -> Any:
        if f"Credential={VICTIM}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            return served(self, environ, start)
        request = (
            f"{environ['REQUEST_METHOD']} {unquote(environ['PATH_INFO'])}?{environ.get('QUERY_STRING', '')}"
        )
        is_it = strike.number(request) == strike.at
        if is_it and not strike.after:
            strike.done = True
            strike.act()
        statuses: list[str] = []

        def record_status(status: str, *rest: Any) -> Any:
            statuses.append(status)
            return start(status, *rest)

        if is_it and not strike.after and strike.act.__name__ == "kill":
            start("503 Service Unavailable", [("Content-Length", "0")])
            return []
        body = served(self, environ, record_status)
        if strike.done and environ["REQUEST_METHOD"] in WRITES and statuses and statuses[0][0] == "2":
            strike.written.append(request)
        if is_it and strike.after:
            body = [b"".join(body)]
            strike.done = True
            strike.act()
        return body

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "__call__", serve_or_strike)
        yield strike


@dataclass(frozen=True)
class Contents:
    """The content of some buckets of the tests' own server, which can be restored any number of times."""

    buckets: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]]

    @classmethod
    def of(cls, *names: str) -> "Contents":
        return cls({name: _content_of(name) for name in names})

    def restore(self) -> None:
        """Put it back."""
        for name, (keys, uploads) in self.buckets.items():
            bucket = _bucket(name)
            bucket.keys.clear()  # nothing of it is disposed of
            for key, versions in keys.items():
                dict.__setitem__(bucket.keys, key, list(versions))
                for number, version in enumerate(versions, 1):
                    version.is_latest = number == len(versions)
            bucket.multiparts.clear()
            bucket.multiparts.update(uploads)


@contextmanager
def undisposed() -> Iterator[None]:
    """moto closes the content of an object that is overwritten or removed; while the block runs it does not."""
    from moto.s3.models import FakeKey

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeKey, "dispose", lambda _, **__: None)
        yield


def _content_of(name: str) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    bucket = _bucket(name)
    return {key: list(bucket.keys.getlist(key)) for key in dict(bucket.keys)}, dict(bucket.multiparts)


def _bucket(name: str) -> Any:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[name]

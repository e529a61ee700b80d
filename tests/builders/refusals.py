"""A store that fails: from the k-th request of some kind on, or only at that one, from any client.

It refuses, answers slowly, or truncates its response, with the full Content-Length or a shortened one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from lakeaudit.runtime.connections import aws as aws_module
from lakeaudit.runtime.connections import quick_reads

DENIED = ("403 Forbidden", "AccessDenied")
EXPIRED = ("400 Bad Request", "ExpiredToken")
UNAVAILABLE = ("503 Service Unavailable", "ServiceUnavailable")
BROKEN = ("500 Internal Server Error", "InternalError")
BROKEN_OFF = ("cut", "half of the bytes, Content-Length right")
SHORTENED = ("cut", "half of the bytes, Content-Length that of the half")
LINES_SHORT = ("cut", "whole lines of the first half, Content-Length that of these")
SLOW = ("slow", "2 s later")
FAILURES = (DENIED, EXPIRED, UNAVAILABLE, BROKEN, BROKEN_OFF, SHORTENED, LINES_SHORT, SLOW)
"""In which ways a request may fail; an answer is a status and a code, or a way to change what is sent."""


@dataclass
class Refusals:
    """Requests as `METHOD key?query`; those of `kind` are refused from number `first` on (the first is 0).

    `lasting`: every later one of the kind is refused, too. No `first`: none is refused. `retried`: boto's clients send
    a refused request again, which takes minutes where the answer is one that may pass.
    """

    kind: Callable[[str], bool] = lambda _: True
    first: int | None = None
    lasting: bool = True
    answer: tuple[str, str] = DENIED
    retried: bool = True
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def refuses(self, request: str) -> bool:
        """Whether this request is refused; every request is counted."""
        if not self.kind(request):
            return False
        number = len(self.requests)
        self.requests.append(request)
        if self.first is None or number < self.first or (number > self.first and not self.lasting):
            return False
        self.refused.append(request)
        return True

    def answer_to(self, request: str) -> tuple[str, str] | None:
        """Return how this request is refused; None: it is not."""
        return self.answer if self.refuses(request) else None


class Together(Refusals):
    """Several kinds of requests, each refused by a rule of its own."""

    def __init__(self, *each: Refusals) -> None:
        super().__init__(retried=each[0].retried)
        self.each = each

    def answer_to(self, request: str) -> tuple[str, str] | None:
        answers = [rules.answer_to(request) for rules in self.each]  # every rule counts it
        return next(filter(None, answers), None)


@contextmanager
def refusing(rules: Refusals) -> Iterator[Refusals]:
    """Every server of this process refuses so while the block runs; clients start and end without memory of it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application

    answered: Any = Application.__call__

    def refused_or_answered(self: Any, environ: dict[str, Any], start: Any) -> Any:
        answer = rules.answer_to(_request(environ))
        if answer is None:
            return answered(self, environ, start)
        if answer in (BROKEN_OFF, SHORTENED, LINES_SHORT):
            if environ["REQUEST_METHOD"] == "HEAD":  # there is no body to cut, and the size is the object's
                return answered(self, environ, start)
            return _truncated(answer, answered(self, environ, start_of := _Start()), start_of, start)
        if answer == SLOW:
            time.sleep(2)
            return answered(self, environ, start)
        status, code = answer
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    _forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "__call__", refused_or_answered)
        if not rules.retried:
            patch.setattr(
                aws_module, "_patience", lambda _: {"retries": {"mode": "standard", "total_max_attempts": 1}}
            )
        yield rules
    _forget()


class _Start:
    """Holds status and headers back until what follows is known."""

    def __call__(self, status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        self.status, self.headers = status, headers
        return lambda _: None


def _truncated(how: tuple[str, str], body: Any, of: _Start, start: Any) -> list[bytes]:
    content = b"".join(body)
    kept = content[: len(content) // 2]
    if how == LINES_SHORT:
        kept = kept[: kept.rfind(b"\n") + 1]
    length = len(content if how == BROKEN_OFF else kept)
    headers = [(name, value) for name, value in of.headers if name.lower() != "content-length"]
    start(of.status, [*headers, ("Content-Length", str(length))])
    return [kept]


def _forget() -> None:
    aws_module.forget_clients()
    quick_reads._left_to_boto.clear()
    quick_reads._stores.clear()


def _request(environ: dict[str, Any]) -> str:
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    asked = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    words = {
        name: values[0] for name, values in asked.items() if name in ("prefix", "versions", "start-after")
    }
    return f"{environ['REQUEST_METHOD']} {bucket}/{key}" + (f"?{words}" if words else "")

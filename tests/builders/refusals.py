"""A store that refuses: from the k-th request of some kind on, or that one alone, whoever sends it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from lakeaudit.runtime import aws as aws_module
from lakeaudit.runtime import quick_reads

DENIED = ("403 Forbidden", "AccessDenied")
EXPIRED = ("400 Bad Request", "ExpiredToken")
UNAVAILABLE = ("503 Service Unavailable", "ServiceUnavailable")


@dataclass
class Refusals:
    """Requests as `METHOD key?query`; those of `kind` are refused from number `first` on (the first is 0).

    `lasting`: every later one of the kind is refused, too. No `first`: none is refused.
    """

    kind: Callable[[str], bool] = lambda _: True
    first: int | None = None
    lasting: bool = True
    answer: tuple[str, str] = DENIED
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


@contextmanager
def refusing(rules: Refusals) -> Iterator[Refusals]:
    """Every server of this process refuses so while the block runs; clients start and end without memory of it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application

    answered: Any = Application.__call__

    def refused_or_answered(self: Any, environ: dict[str, Any], start: Any) -> Any:
        if not rules.refuses(_request(environ)):
            return answered(self, environ, start)
        status, code = rules.answer
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    _forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "__call__", refused_or_answered)
        yield rules
    _forget()


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

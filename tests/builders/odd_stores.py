"""Stores with habits: the tests' own server, whose responses are changed on their way out.

Every client (boto3, obstore, delta-rs) gets the changed response.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

AGAIN = "again"
"""A continuation token that the server takes for none: the list begins once more."""
_ENTRY = re.compile(r"<(Contents|Version|DeleteMarker|Upload)>.*?</\1>", re.DOTALL)


@dataclass(frozen=True)
class Request:
    """A request of the S3 API: `key` is empty for one of a bucket."""

    method: str
    bucket: str
    key: str
    asked: Mapping[str, str]

    @property
    def is_listing(self) -> bool:
        """Whether it lists objects, versions or uploads."""
        others = {"versioning", "lifecycle", "inventory", "location", "delete"} & self.asked.keys()
        return self.method == "GET" and not self.key and not others

    @property
    def prefix(self) -> str:
        return self.asked.get("prefix", "")


@dataclass(frozen=True)
class Response:
    """A response: `headers` by their names in lower case."""

    status: str
    headers: Mapping[str, str]
    body: bytes


Habit = Callable[[Request, Response], Response]


@dataclass
class RequestLog:
    """The requests that reached the server while the habit was on."""

    requests: list[Request] = field(default_factory=list)


@contextmanager
def habit(change: Habit) -> Iterator[RequestLog]:
    """Responses of every server of this process are changed while the block runs."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application

    answered: Any = Application.__call__
    seen = RequestLog()

    def changed(self: Any, environ: dict[str, Any], start: Any) -> Any:
        if "HTTP_X_AMZ_TARGET" in environ:
            return answered(self, environ, start)
        request = _request(environ)
        seen.requests.append(request)
        environ["QUERY_STRING"] = environ.get("QUERY_STRING", "").replace(f"continuation-token={AGAIN}", "")
        begun: list[Any] = []
        body = b"".join(answered(self, environ, lambda status, headers, *_: begun.append((status, headers))))
        status, headers = begun[0]
        was = Response(status, {name.lower(): value for name, value in headers}, body)
        now = change(request, was)
        if request.method != "HEAD" and now.body != was.body:
            now = replace(now, headers={**now.headers, "content-length": str(len(now.body))})
        start(now.status, [*now.headers.items()])
        return [now.body]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "__call__", changed)
        yield seen


def _request(environ: dict[str, Any]) -> Request:
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    asked = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    return Request(environ["REQUEST_METHOD"], bucket, key, {name: each[0] for name, each in asked.items()})


def as_it_is(request: Request, response: Response) -> Response:
    """No habit."""
    return response


def every(*habits: Habit) -> Habit:
    """Several habits, one after the other."""

    def change(request: Request, response: Response) -> Response:
        for each in habits:
            response = each(request, response)
        return response

    return change


def about(where: str, habit: Habit) -> Habit:
    """A habit of responses about keys below a prefix, and of the listings of it."""
    return lambda request, response: (
        habit(request, response) if (request.key or request.prefix).startswith(where) else response
    )


def cut_off(where: str, *, keep: int, says: str = "true", token: str = "") -> Habit:
    """Listings of prefixes that contain `where` end after `keep` entries, with IsTruncated as it `says`.

    `token`: the same one names the next page for ever.
    """

    def change(request: Request, response: Response) -> Response:
        if not request.is_listing or where not in request.prefix:
            return response
        text, count = response.body.decode(), 0

        def keep_first(match: re.Match[str]) -> str:
            nonlocal count
            count += 1
            return match[0] if count <= keep else ""

        text = _ENTRY.sub(keep_first, text)
        text = re.sub(r"<Next\w*>.*?</Next\w*>|<Next\w*/>", "", text)
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        text = re.sub(r"<IsTruncated>.*?</IsTruncated>", f"<IsTruncated>{says}</IsTruncated>{more}", text)
        return replace(response, body=text.encode())

    return change


def hiding(name: str) -> Habit:
    """Listings lack the objects of a name, and say that they are complete."""

    def change(request: Request, response: Response) -> Response:
        if not request.is_listing:
            return response
        kept = _ENTRY.sub(
            lambda match: "" if f"{name}</Key>" in match[0] else match[0], response.body.decode()
        )
        return replace(response, body=kept.encode())

    return change


def without(*fields: str, where: str = "", heads: bool = True, lists: bool = True) -> Habit:
    """Entries of listings lack these elements, and responses of HEAD the headers of the same meaning."""
    names = {_HEADERS[name] for name in fields if name in _HEADERS}

    def change(request: Request, response: Response) -> Response:
        if request.method == "HEAD" and heads and where in request.key:
            kept = {name: value for name, value in response.headers.items() if name not in names}
            return replace(response, headers=kept)
        if not request.is_listing or not lists or where not in request.prefix:
            return response
        text = response.body.decode()
        for name in fields:
            text = re.sub(rf"<{name}>.*?</{name}>|<{name}/>", "", text, flags=re.DOTALL)
        return replace(response, body=text.encode())

    return change


def silent_writes(request: Request, response: Response) -> Response:
    """Responses to writes name no ETag: neither of an object nor of a copy."""
    if request.method not in ("PUT", "POST") or "partNumber" in request.asked:
        return response
    headers = {name: value for name, value in response.headers.items() if name != "etag"}
    return replace(response, headers=headers, body=re.sub(rb"<ETag>.*?</ETag>", b"", response.body))


_HEADERS = {
    "ETag": "etag",
    "Size": "content-length",
    "LastModified": "last-modified",
    "StorageClass": "x-amz-storage-class",
    "VersionId": "x-amz-version-id",
}


def rewritten(pattern: str, to: str) -> Habit:
    """The text of listings is rewritten."""

    def change(request: Request, response: Response) -> Response:
        if not request.is_listing:
            return response
        return replace(response, body=re.sub(pattern, to, response.body.decode()).encode())

    return change


def console(request: Request, response: Response) -> Response:
    """A web console answers everything with its page."""
    page = b"<!doctype html><html><head><title>Console</title></head><body><br></body></html>"
    return Response("200 OK", {"content-type": "text/html", "content-length": str(len(page))}, page)


def uploads_by_key_alone(request: Request, response: Response) -> Response:
    """As MinIO: uploads are listed for a whole key or a whole bucket, and for a prefix there are none."""
    if "uploads" not in request.asked or not request.prefix.endswith("/"):
        return response
    return replace(response, body=_ENTRY.sub("", response.body.decode()).encode())

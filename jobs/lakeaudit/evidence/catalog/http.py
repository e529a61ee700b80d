"""Send requests to catalogs and metadata stores over HTTP: with a token, few retries, and responses of bounded size.

Responses are hostile input: the message of a refusal is cut short, and every secret that was sent is removed from it.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import groupby
from threading import Lock
from typing import Any
from urllib.parse import quote, quote_plus, urljoin, urlsplit

from botocore.exceptions import BotoCoreError
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.source import HttpAccess
from lakeaudit.runtime.connections.aws import Endpoint, bundle_of
from lakeaudit.runtime.connections.http_pool import HttpPool
from lakeaudit.runtime.connections.resolve import certificates_of

THREADS = 16
"""Requests at once."""
CONNECT, READ, WHOLE = 10.0, 60.0, 300.0
"""Timeouts in seconds: to connect, between two pieces of a response, and for the whole response."""
LARGEST = 1 << 28
"""The most bytes of a response; the metadata of a table with thousands of snapshots has a few million."""
TRIES = 4
LONGEST_PAUSE = 10.0
"""The most seconds between two tries, whatever the catalog demands."""
_PASSING = (408, 429, 500, 502, 503, 504)
_UNKNOWN = (400, 405, 406, 422)
_LACKING = 501
_SAME_METHOD = (307, 308)
"""Redirects that keep method and body."""
REDIRECTS = 3
_EXPIRED = (401, 419)
"""419 is Iceberg's status for an expired token."""
_LONGEST_MESSAGE = 200
"""The most characters of a refusal's message."""
_READ_OF_MESSAGE = 2_000
"""The most characters of a refusal's message that are searched for secrets."""
MOST_PAGES = 1_000_000
"""The most pages of a list."""
_PIECE = 8
"""A server may quote a secret in part: pieces of this many characters are removed."""

Json = dict[str, Any]


class NotThere(SourceError):
    """The source has no such thing (404)."""


class Unsupported(SourceError):
    """The source does not support the request; no right is missing."""


class Conflict(SourceError):
    """A requirement of the request does not hold (409)."""


class _Busy(Exception):
    """A failure that may pass; `pause` is the catalog's Retry-After, in seconds."""

    def __init__(self, error: SourceError, pause: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.pause = error, pause


@dataclass
class CatalogClient:
    """A client of one catalog or metadata store. Threads may share it; it does not travel to tasks.

    `base` is the URL before all paths. `env` holds the secrets that the lake file names: the driver has them, and the
    executors of a cluster may not, so a reader whose tasks send requests takes the values on the driver.
    """

    source: HttpAccess
    base: str
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._secrets: set[str] = set()
        self._look = f"check uri and {self.source.noun}'s own log"
        secure = any((url or "").startswith("https:") for url in (self.base, self.source.oauth2_uri))
        self._pool = HttpPool(THREADS, _authorities() if secure else None)
        self._lock = Lock()
        self._token: str | None = None

    def get(self, path: str, **params: str | None) -> Json:
        """Return the JSON object at a path below `base`; parameters that are None are left out.

        Raises:
            NotThere: 404.
            SourceError: the request is refused, has no response, or the response is not a JSON object.
        """
        given = {name: value for name, value in params.items() if value is not None}
        return self._patiently(lambda: self._with_token("GET", f"{self.base}/{path}", fields=given))

    def not_understood(self, what: str) -> SourceError:
        """Return the error of a response that cannot be parsed."""
        return self._error(what, self._look)

    def post(self, path: str, body: Json) -> Json:
        """Send a change to a path below `base` and return the response.

        It is sent once: a change without a response may have been applied.

        Raises:
            Conflict: its condition does not hold.
            NotThere, SourceError: as `get`.
        """
        try:
            return self._with_token("POST", f"{self.base}/{path}", json=body)
        except _Busy as busy:
            raise busy.error from None

    def _patiently(self, ask: Callable[[], Json]) -> Json:
        for number in range(TRIES):
            try:
                return ask()
            except _Busy as busy:
                if number == TRIES - 1:
                    raise busy.error from None
                wait_a_while(min(0.2 * 3**number if busy.pause is None else busy.pause, LONGEST_PAUSE))
        raise AssertionError("the last try raises")

    def _with_token(self, method: str, url: str, **more: Any) -> Json:
        """Send one request; if its token has expired, send it once more with a new one."""
        token = self._current_token(None)
        try:
            return self._request(method, url, token, **more)
        except _TokenOver as over:
            fresh = self._current_token(token) if self.source.credential_env else token
            if fresh == token:
                raise over.error from None
        try:
            return self._request(method, url, fresh, **more)
        except _TokenOver as over:
            raise over.error from None

    def _current_token(self, over: str | None) -> str | None:
        """Return the token to send, another one than `over`; None where the lake file names no secret."""
        if self.source.bearer_env:
            return self._secret(self.source.bearer_env)
        if not self.source.credential_env:
            return None
        with self._lock:
            if self._token is None or self._token == over:
                self._token = self._exchange(self._secret(self.source.credential_env))
            return self._token

    def _exchange(self, credential: str) -> str:
        """Exchange a client's `id:secret` for a token (OAuth2, client credentials)."""
        name, colon, secret = credential.partition(":")  # a secret may hold one, a client's id never does
        self._add_secret(secret if colon else name)
        form = {"grant_type": "client_credentials", "client_secret": secret if colon else name}
        named = {"client_id": name if colon else None, "scope": self.source.scope}
        named |= {"audience": self.source.audience, "resource": self.source.resource}
        form |= {word: value for word, value in named.items() if value}
        url = self.source.oauth2_uri or f"{self.base}/v1/oauth/tokens"
        try:
            answer = self._request("POST", url, None, fields=form, encode_multipart=False)
        except _TokenOver as over:
            raise over.error from None
        token = answer.get("access_token")
        if not isinstance(token, str) or not token.isprintable() or not token.isascii():
            raise self._error("gives no token for the credential", "check oauth2_uri and scope")
        self._add_secret(token)
        return token

    def _secret(self, variable: str) -> str:
        value = self.env.get(variable, "").strip()
        if not value:
            raise self._error(f"the variable {variable} is not set", "set it where audits run")
        self._add_secret(value)
        return value

    def _add_secret(self, secret: str) -> None:
        """Remember a secret, in the forms in which a server may quote it."""
        self._secrets = {*self._secrets, secret, quote(secret, safe=""), quote_plus(secret)} - {""}

    def _request(self, method: str, url: str, token: str | None, **more: Any) -> Json:
        headers = {"Accept": "application/json", "User-Agent": "lakeaudit"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            answer, body = self._send(method, url, headers, **more)
            for _ in range(REDIRECTS):
                location = answer.get_redirect_location()
                if not location:
                    break
                if method == "GET":
                    more.pop("fields", None)  # the location names them
                url = self._redirect_target(method, url, location, answer.status)
                answer, body = self._send(method, url, headers, **more)
        except (HTTPError, UnicodeError) as error:
            raise _Busy(
                self._error(f"does not answer ({type(error).__name__})", self._look, passes=True)
            ) from None
        return self._parse(answer, body)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], **more: Any
    ) -> tuple[BaseHTTPResponse, bytes]:
        with closing(self._pool.send(method, url, headers, (CONNECT, READ), **more)) as answer:
            return answer, self._body(answer)

    def _redirect_target(self, method: str, url: str, location: str, status: int) -> str:
        """Return the target of a redirect. Credentials are sent only to the origin that the lake file names."""
        target = urljoin(url, location)
        if _origin(target) != _origin(url):
            origin = without_secrets("://".join(_origin(target)[:2]), self._secrets)
            raise self._error(
                f"redirects to {origin}, which the lake file does not name",
                "write that address as uri if it is the catalog's own",
            )
        if method != "GET" and status not in _SAME_METHOD:
            raise self._error(f"redirects a {method} ({status})", self._look)
        return target

    def _body(self, answer: BaseHTTPResponse) -> bytes:
        """Return the whole response. Raises SourceError: it is too long, or takes too long."""
        until, body = self.clock() + WHOLE, bytearray()
        for piece in answer.stream(1 << 16, decode_content=True):
            body += piece
            if len(body) > LARGEST:
                raise self._error(f"answers with more than {LARGEST >> 20} MiB", self._look)
            if self.clock() > until:
                raise self._error(f"was still answering after {WHOLE:.0f} s", self._look, passes=True)
        return bytes(body)

    def _parse(self, answer: BaseHTTPResponse, body: bytes) -> Json:
        status = answer.status
        if status != HTTPStatus.OK:
            raise self._refusal(status, body, answer.headers.get("Retry-After", ""))
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._error(
                "sent a response that is not a JSON object", "check uri: it is what comes before /v1"
            )
        return found

    def _refusal(self, status: int, body: bytes, retry_after: str) -> Exception:
        noun, what = self.source.noun, f"answers {status}{_message(body, self._secrets)}"
        if status == HTTPStatus.NOT_FOUND:
            return self._error(what, f"check uri, and the table's name in {noun}", of=NotThere)
        if status == HTTPStatus.CONFLICT:
            return self._error(what, self._look, of=Conflict)
        if status == _LACKING:
            return self._error(f"{LACKS}: it {what}", NO_RIGHT, of=Unsupported)
        if status in _UNKNOWN:
            return self._error(what, self._look, of=Unsupported)
        if status in _EXPIRED:
            return _TokenOver(self._error(what, "check the values of bearer_env or credential_env"))
        if status in _PASSING:
            pause = float(retry_after) if retry_after.isdecimal() else None
            return _Busy(self._error(what, self._look, passes=True), pause)
        hint = f"grant {noun}'s rights to list and load" if status == HTTPStatus.FORBIDDEN else self._look
        return self._error(what, hint)

    def _error(
        self, what: str, hint: str, *, passes: bool = False, of: type[SourceError] = SourceError
    ) -> SourceError:
        return of(self.source.name, f"{self.source.noun} {what}", hint, passes)


def _authorities() -> str | None:
    """Return the certificates that boto trusts: a company's own often signs for its stores and its catalogs."""
    try:
        return certificates_of(bundle_of(Endpoint()))
    except BotoCoreError:  # no such profile: requests to the store report it
        return None


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


LACKS = "lacks this operation"
NO_RIGHT = "no right is missing: leave this out, or use a catalog that has it"


class _TokenOver(Exception):
    def __init__(self, error: SourceError) -> None:
        super().__init__(str(error))
        self.error = error


def wait_a_while(seconds: float) -> None:
    """Wait between two tries; tests replace it."""
    time.sleep(seconds)


def _message(body: bytes, secrets: Collection[str]) -> str:
    """Return the message of a refusal without secrets, from one of its usual fields."""
    texts = (without_secrets(text[:_READ_OF_MESSAGE], secrets) for text in _texts(body))
    return next((f": {text[:_LONGEST_MESSAGE]}" for text in texts), "")


def without_secrets(text: str, secrets: Collection[str]) -> str:
    """Return a text without secrets and without their pieces; upper and lower case are the same."""
    low, known = text.lower(), [secret.lower() for secret in secrets]
    hidden = [False] * len(text)
    for secret in known:
        length = min(_PIECE, len(secret))
        for at in range(len(low) - length + 1):
            if low[at : at + length] in secret:
                hidden[at : at + length] = [True] * length
    pieces = groupby(zip(text, hidden, strict=True), key=lambda each: each[1])
    return "".join("***" if is_secret else "".join(c for c, _ in piece) for is_secret, piece in pieces)


def _texts(body: bytes) -> Iterator[str]:
    try:
        found = json.loads(body)
        error = found.get("error", found)
        if isinstance(error, str):  # OAuth2, "Error Response" of RFC 6749
            why = found.get("error_description")
            texts: list[object] = [f"{error}: {why}" if isinstance(why, str) and why else error]
        else:
            texts = [error.get("message"), found.get("error_description"), error.get("error_code")]
    except (ValueError, RecursionError, AttributeError):
        return
    yield from (text for text in texts if isinstance(text, str) and text)


def all_pages(
    client: CatalogClient, path: str, words: tuple[str, str], **params: str | None
) -> Iterator[Json]:
    """Yield every page of a list; `words` are the names of the page token in requests and in responses.

    The list ends with the page whose token is missing, null or empty. A source that always writes the token may check
    that each page has one.

    Raises:
        SourceError: as `CatalogClient.get`; or the list cannot be read to its end: a token is not text, a page is named
            a second time, or there are more than `MOST_PAGES`.
    """
    parameter, field_ = words
    seen: set[str] = set()
    name: str | None = None
    while True:
        page = client.get(path, **{parameter: name}, **params)
        yield page
        name = page.get(field_)
        if name is None or name == "":
            return
        if not isinstance(name, str):
            raise client.not_understood(f"names a page of a list by {type(name).__name__}, not by text")
        if name in seen:
            raise client.not_understood("names a page of a list a second time")
        if len(seen) >= MOST_PAGES:
            raise client.not_understood(f"answers a list of more than {MOST_PAGES:,} pages")
        seen.add(name)


def all_items(
    client: CatalogClient, path: str, words: tuple[str, str], what: str, **params: str | None
) -> Iterator[Any]:
    """Yield every item of the list `what` on every page; a page without it has no item.

    Raises:
        SourceError: as `all_pages`; or the value is not a list.
    """
    for page in all_pages(client, path, words, **params):
        items = page.get(what)
        if items is not None and not isinstance(items, list):
            raise not_understood(client, what)
        yield from items or ()


def not_understood(client: CatalogClient, what: str) -> SourceError:
    """Return the error of a list that cannot be parsed: items may be missing, so it does not count at all."""
    return client.not_understood(f"answers {what} that cannot be understood")

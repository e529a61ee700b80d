"""Guards the dashboard's server: it accepts only known host names, and requires a token.

Another site may point its own name to this machine's address (DNS rebinding); the Host header of such requests still
has that name. Streamlit checks it only for WebSockets. A token is required if other machines can reach the server. It
is in the address once and then in a cookie, or in `Authorization: Bearer`.
"""

import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

COOKIE = "lakeaudit_token"
PARAMETER = "token"
ALIVE = "/_stcore/health"
"""Returns only that the server runs, and needs no token."""
_REFUSED = 1008
"""WebSocket's code for a policy violation."""

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server at this host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def known_names(host: str, names: Collection[str]) -> frozenset[str]:
    """Return the allowed host names of a server at `host`: the machine's own and `names`."""
    own = {"localhost"} if is_loopback(host) else {"localhost", socket.gethostname(), socket.getfqdn()}
    return frozenset(each.lower().rstrip(".") for each in {host, *own, *names})


@dataclass(frozen=True)
class Gate:
    """An ASGI application in front of another. `token`: None if none is required."""

    app: App
    names: frozenset[str]
    token: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        if not self._knows(headers.get("host", "")):
            await _refuse(scope, send, HTTPStatus.MISDIRECTED_REQUEST, "this host name is not allowed")
        elif self.token is None or scope["path"].endswith(ALIVE) or self._has_token(headers):
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and self._is_in_address(scope):
            await _redirect_with_cookie(scope, send, self.token)
        else:
            await _refuse(
                scope,
                send,
                HTTPStatus.UNAUTHORIZED,
                "open the address with the token that `lakeaudit dashboard` printed; then this address works, too",
            )

    def _knows(self, host: str) -> bool:
        """Return whether the host is allowed: a known name, or a numeric address, which no site has as its name."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            return name in self.names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        tokens = [headers.get("authorization", "").removeprefix("Bearer ")]
        tokens += [cookies[COOKIE].value] if COOKIE in cookies else []
        return any(map(self._is_right, tokens))

    def _is_in_address(self, scope: Scope) -> bool:
        return any(name == PARAMETER and self._is_right(value) for name, value in _parameters(scope))

    def _is_right(self, token: str) -> bool:
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())


def _parameters(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


async def _redirect_with_cookie(scope: Scope, send: Send, token: str) -> None:
    """Redirect to the same page without the token, which would stay in histories and links; a cookie stores it."""
    rest = urlencode([(name, value) for name, value in _parameters(scope) if name != PARAMETER])
    path = "/" + quote(scope["path"].lstrip("/"))  # with two slashes it would be another host
    cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Lax; Path=/"
    headers = [("location", f"{path}?{rest}" if rest else path), ("set-cookie", cookie)]
    await answer(send, HTTPStatus.SEE_OTHER, headers, b"")


async def _refuse(scope: Scope, send: Send, status: HTTPStatus, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _REFUSED})
        return
    await answer(send, status, [], f"{status.value}: {why}\n".encode())


async def answer(
    send: Send, status: HTTPStatus, headers: list[tuple[str, str]], body: bytes, kind: str = "text/plain"
) -> None:
    """Send a whole answer of text; no browser or proxy may store it."""
    own = [
        ("content-type", f"{kind}; charset=utf-8"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
    ]
    raw = [(name.encode(), value.encode("latin-1")) for name, value in [*own, *headers]]
    await send({"type": "http.response.start", "status": status.value, "headers": raw})
    await send({"type": "http.response.body", "body": body})

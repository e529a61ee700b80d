"""What stands before the dashboard's server: only known host names are answered, and a token is asked for.

A page of another site may give its own name this machine's address (DNS rebinding); the Host header of its requests
still has that name. Streamlit checks it for WebSockets alone. The token is asked for wherever more than this machine
can reach the server. It comes in the address once and then in a cookie, or in `Authorization: Bearer`.
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
"""Says that the server runs, and nothing else: asked without a token."""
_REFUSED = 1008
"""WebSocket's code for a policy that is violated."""

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def known_names(host: str, names: Collection[str]) -> frozenset[str]:
    """The host names that are answered by a server that listens at `host`: its own, and those that are allowed."""
    own = {"localhost"} if is_loopback(host) else {"localhost", socket.gethostname(), socket.getfqdn()}
    return frozenset(each.lower().rstrip(".") for each in {host, *own, *names})


@dataclass(frozen=True)
class Gate:
    """An ASGI application in front of another. `token`: None where none is asked for."""

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
            await _refuse(scope, send, HTTPStatus.MISDIRECTED_REQUEST, "this host name is not answered")
        elif self.token is None or scope["path"].endswith(ALIVE) or self._is_shown(headers):
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and self._is_in(scope):
            await _let_in(scope, send, self.token)
        else:
            await _refuse(
                scope, send, HTTPStatus.UNAUTHORIZED, "open the address that `lakeaudit dashboard` printed"
            )

    def _knows(self, host: str) -> bool:
        """An address in digits is nobody's name, so that no other site can go by it."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            return name in self.names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _is_shown(self, headers: Mapping[str, str]) -> bool:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        shown = [headers.get("authorization", "").removeprefix("Bearer ")]
        shown += [cookies[COOKIE].value] if COOKIE in cookies else []
        return any(map(self._is_right, shown))

    def _is_in(self, scope: Scope) -> bool:
        return any(name == PARAMETER and self._is_right(value) for name, value in _parameters(scope))

    def _is_right(self, shown: str) -> bool:
        return self.token is not None and hmac.compare_digest(shown.encode(), self.token.encode())


def _parameters(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


async def _let_in(scope: Scope, send: Send, token: str) -> None:
    """The same page without the token in its address, which would stand in histories and links; a cookie holds it."""
    rest = urlencode([(name, value) for name, value in _parameters(scope) if name != PARAMETER])
    path = "/" + quote(scope["path"].lstrip("/"))  # two slashes would name another host
    cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Lax; Path=/"
    headers = [("location", f"{path}?{rest}" if rest else path), ("set-cookie", cookie)]
    await _answer(send, HTTPStatus.SEE_OTHER, headers, "")


async def _refuse(scope: Scope, send: Send, status: HTTPStatus, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _REFUSED})
        return
    await _answer(send, status, [], f"{status.value}: {why}\n")


async def _answer(send: Send, status: HTTPStatus, headers: list[tuple[str, str]], text: str) -> None:
    body = text.encode()
    own = [
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
    ]
    raw = [(name.encode(), value.encode("latin-1")) for name, value in [*own, *headers]]
    await send({"type": "http.response.start", "status": status.value, "headers": raw})
    await send({"type": "http.response.body", "body": body})

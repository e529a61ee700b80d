"""Serves the metrics of the lake to Prometheus, next to the pages and behind the same gate."""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus

from lakeaudit.dashboard.gate import App, Receive, Scope, Send, answer
from lakeaudit.errors import AuditError, one_line

METRICS = "/metrics"
CACHED = 30.0
"""Seconds for which an answer is sent again, so that many scrapes cost as much as one."""
FORMAT = "text/plain; version=0.0.4"
"""Prometheus' text format."""


class MetricsEndpoint:
    """An ASGI application that answers one path, and passes every other request to the application behind it.

    `read` runs in a thread, one at a time, so that pages are served meanwhile. Its answer is cached, also a failure.
    """

    def __init__(
        self, app: App, path: str, read: Callable[[], bytes], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._path = path
        self._read = read
        self._clock = clock
        self._lock = asyncio.Lock()
        self._cached: tuple[HTTPStatus, bytes] = HTTPStatus.SERVICE_UNAVAILABLE, b""
        self._valid_until = -CACHED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._app(scope, receive, send)
        elif scope["method"] != "GET":
            await answer(send, HTTPStatus.METHOD_NOT_ALLOWED, [("allow", "GET")], b"")
        else:
            status, body = await self._current()
            await answer(send, status, [], body, FORMAT if status == HTTPStatus.OK else "text/plain")

    async def _current(self) -> tuple[HTTPStatus, bytes]:
        async with self._lock:
            if self._clock() >= self._valid_until:
                self._cached = await asyncio.to_thread(self._answer)
                self._valid_until = self._clock() + CACHED
            return self._cached

    def _answer(self) -> tuple[HTTPStatus, bytes]:
        """Return the metrics, or the failure in one line: numbers that cannot be read are never 0."""
        try:
            return HTTPStatus.OK, self._read()
        except AuditError as error:
            reason = one_line(str(error), 500)
        except Exception as error:  # noqa: BLE001 - the server continues
            reason = f"unexpected {type(error).__name__}: {one_line(str(error), 200)}"
        return HTTPStatus.SERVICE_UNAVAILABLE, f"{reason}\n".encode()

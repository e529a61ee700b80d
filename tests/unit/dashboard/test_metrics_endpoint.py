"""`/metrics` of the dashboard: its answers, its cost, and that pages do not wait for it."""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakeaudit.dashboard.app import current_metrics
from lakeaudit.dashboard.gate import Gate, known_names
from lakeaudit.dashboard.metrics_endpoint import CACHED, MetricsEndpoint
from lakeaudit.errors import BadInput, CannotAudit

Answer = tuple[int, dict[str, str], bytes]
PATH = "/data/lake/metrics"


async def page(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the endpoint."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a page"})


async def ask(app: Any, path: str = PATH, method: str = "GET", kind: str = "http", **headers: str) -> Answer:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
    await app({"type": kind, "path": path, "method": method, "query_string": b"", "headers": raw}, None, send)
    first, *rest = sent
    found = {name.decode(): value.decode() for name, value in first.get("headers", ())}
    return first.get("status", 0), found, b"".join(each.get("body", b"") for each in rest)


def run(coroutine: Any) -> Any:
    """In a thread of its own: the browser of other tests has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def fail(error: Exception) -> Callable[[], bytes]:
    def read() -> bytes:
        raise error

    return read


@pytest.mark.parametrize(
    ("path", "method", "kind", "status", "body"),
    [
        (PATH, "GET", "http", 200, b"x 1\n"),
        (PATH, "POST", "http", 405, b""),
        (PATH, "GET", "websocket", 200, b"a page"),
        ("/metrics", "GET", "http", 200, b"a page"),
        (f"{PATH}/", "GET", "http", 200, b"a page"),
        ("/data/lake/table", "POST", "http", 200, b"a page"),
    ],
)
def test_it_answers_one_path(path: str, method: str, kind: str, status: int, body: bytes) -> None:
    endpoint = MetricsEndpoint(page, PATH, lambda: b"x 1\n")
    found, headers, text = run(ask(endpoint, path, method, kind))
    assert (found, text) == (status, body)
    if body == b"x 1\n":
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CannotAudit("s3://r", "cannot be read", "try\x1b[31m again"), "s3://r: cannot be read; try again"),
        (BadInput("lake.yaml:3", "two\nlines", "correct it"), "lake.yaml:3: two lines; correct it"),
        (KeyError("no_column"), "unexpected KeyError: 'no_column'"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_read_are_an_error_in_one_line(error: Exception, reason: str) -> None:
    status, headers, text = run(ask(MetricsEndpoint(page, PATH, fail(error))))
    assert (status, text.decode()) == (503, f"{reason}\n")
    assert headers["content-type"] == "text/plain; charset=utf-8"


def test_a_missing_client_library_names_its_extra(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "lakeaudit.alerts.metrics", raising=False)
    status, _, text = run(ask(MetricsEndpoint(page, PATH, lambda: current_metrics([lake]))))
    missing = (
        "prometheus_client: is not installed; pip install 'lakeaudit[dashboard]' or 'lakeaudit[alerts]'\n"
    )
    assert (status, text.decode()) == (503, missing)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer right"}, 200),
        ({"authorization": "Bearer right", "host": "evil.example"}, 421),
    ],
)
def test_it_is_behind_the_gate(headers: dict[str, str], status: int) -> None:
    gate = Gate(MetricsEndpoint(page, PATH, lambda: b"x 1\n"), known_names("127.0.0.1", ()), "right")
    found, _, text = run(ask(gate, **headers))
    assert (found, b"x 1" in text) == (status, status == 200)


@pytest.mark.parametrize("fails", [False, True])
def test_many_scrapes_cost_as_much_as_one(fails: bool) -> None:
    """Also at the same time, and also of results that cannot be read."""
    reads, now = [], [0.0]

    def read() -> bytes:
        reads.append(now[0])
        if fails:
            raise CannotAudit("r", "cannot be read", "x")
        return str(len(reads)).encode()

    async def scrapes() -> list[int]:
        endpoint = MetricsEndpoint(page, PATH, read, lambda: now[0])
        counted = []
        for at in (0.0, CACHED - 1, CACHED, CACHED + 1):
            now[0] = at
            await asyncio.gather(*(ask(endpoint) for _ in range(20)))
            counted.append(len(reads))
        return counted

    assert run(scrapes()) == [1, 1, 2, 2]


def test_pages_are_served_while_the_metrics_are_read() -> None:
    release = threading.Event()

    def read() -> bytes:
        assert release.wait(20)
        return b"x 1\n"

    async def both() -> tuple[bytes, bool, bytes]:
        endpoint = MetricsEndpoint(page, PATH, read)
        scrape = asyncio.create_task(ask(endpoint))
        await asyncio.sleep(0.05)
        _, _, shown = await ask(endpoint, "/data/lake/")
        waiting = not scrape.done()
        release.set()
        return shown, waiting, (await scrape)[2]

    assert run(both()) == (b"a page", True, b"x 1\n")

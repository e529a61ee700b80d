"""Access to the dashboard: only known host names, and a token for requests from other machines."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakeaudit.dashboard.gate import Gate, is_loopback, known_names

TOKEN = "right-token"


def ask(
    names: frozenset[str],
    token: str | None = None,
    kind: str = "http",
    path: str = "/",
    query: str = "",
    **headers: str,
) -> tuple[int, dict[str, str]]:
    """(status, headers) of an answer; 200 and 101 where the application itself was reached."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "reached"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> None:
        return None

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": raw}
    with ThreadPoolExecutor(1) as pool:  # the browser of other tests has a loop in this thread
        pool.submit(asyncio.run, Gate(app, names, token)(scope, receive, send)).result()
    first = sent[0]
    if first["type"] == "reached":
        return (200 if kind == "http" else 101), {}
    if first["type"] == "websocket.close":
        return 403, {}
    return first["status"], {name.decode(): value.decode() for name, value in first["headers"]}


HERE = known_names("127.0.0.1", ("data.example.com",))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8501", 200),
        ("localhost:8501", 200),
        ("LOCALHOST", 200),
        ("data.example.com", 200),
        ("data.example.com.", 200),
        ("[::1]:8501", 200),
        ("10.1.2.3:8501", 200),
        ("evil.example", 421),
        ("data.example.com.evil.example", 421),
        ("127.0.0.1.nip.example", 421),
        ("", 421),
        ("[", 421),
        ("a@localhost.evil.example", 421),
    ],
)
def test_known_host_names_are_answered(host: str, status: int) -> None:
    """Another site cannot use a numeric address as its name for this machine."""
    assert ask(HERE, host=host)[0] == status
    assert ask(HERE, kind="websocket", host=host)[0] == {200: 101, 421: 403}[status]


def test_a_request_without_a_host_is_refused() -> None:
    assert ask(HERE)[0] == 421


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({}, "", 401),
        ({}, "token=wrong", 401),
        ({}, "token=", 401),
        ({"cookie": "lakeaudit_token=wrong"}, "", 401),
        ({"cookie": f"a=b; lakeaudit_token={TOKEN}"}, "", 200),
        ({"authorization": f"Bearer {TOKEN}"}, "", 200),
        ({"authorization": "Bearer \u00fc"}, "", 401),
        ({"cookie": "\x00;;=;"}, "", 401),
        ({}, f"token={TOKEN}", 303),
    ],
)
def test_a_token_is_required(headers: dict[str, str], query: str, status: int) -> None:
    assert ask(HERE, TOKEN, query=query, host="localhost", **headers)[0] == status
    if status != 303:
        assert (
            ask(HERE, TOKEN, "websocket", query=query, host="localhost", **headers)[0]
            == {200: 101, 401: 403}[status]
        )


@pytest.mark.parametrize(
    ("path", "query", "location"),
    [
        ("/data/table", f"table=a%26b&token={TOKEN}&key=%2F", "/data/table?table=a%26b&key=%2F"),
        ("//evil.example/x", f"token={TOKEN}", "/evil.example/x"),
        ("/a\r\nb", f"token={TOKEN}", "/a%0D%0Ab"),
    ],
)
def test_the_token_leaves_the_address_and_leads_nowhere_else(path: str, query: str, location: str) -> None:
    status, headers = ask(HERE, TOKEN, path=path, query=query, host="localhost")
    assert (status, headers["location"]) == (303, location)
    assert headers["set-cookie"] == f"lakeaudit_token={TOKEN}; HttpOnly; SameSite=Lax; Path=/"


def test_the_health_check_needs_no_token() -> None:
    assert ask(HERE, TOKEN, path="/data/_stcore/health", host="localhost")[0] == 200
    assert ask(HERE, TOKEN, path="/data/_stcore/health", host="evil.example")[0] == 421


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.5", False), ("data.example.com", False),
    ],
)  # fmt: skip
def test_what_only_this_machine_reaches(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone

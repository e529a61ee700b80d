"""Catalogs over HTTP: token requests, messages of refusals, allowed redirects, trusted certificates."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import http
from lakeaudit.evidence.catalog.http import CatalogClient, Unsupported
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.runtime.aws import forget_clients
from tests.builders import stores

ENV = {"CATALOG": "audit:hush:with:colons", "ALONE": "hush"}


@dataclass
class Server:
    """Answers (status, headers, JSON) by path, and records requests: path, Authorization, form."""

    answers: dict[str, tuple[int, dict[str, str], Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def _answer(self, form: dict[str, str]) -> None:
            state.asked.append((self.path, self.headers.get("Authorization", ""), form))
            status, headers, content = state.answers.get(self.path.partition("?")[0], (404, {}, {}))
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = stores.server_context(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    state.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "wait_a_while", lambda _: None)


def client(server: Server, **more: Any) -> CatalogClient:
    source = IcebergRest(kind="iceberg_rest", uri=server.url, **more)
    return CatalogClient(source, server.url, ENV)


TOKEN: tuple[int, dict[str, str], Any] = (200, {}, {"access_token": "token"})


@pytest.mark.parametrize(
    ("variable", "more", "form"),
    [
        ("CATALOG", {}, {"client_id": "audit", "client_secret": "hush:with:colons", "scope": "catalog"}),
        ("ALONE", {"scope": "x"}, {"client_secret": "hush", "scope": "x"}),
        (
            "CATALOG",
            {"audience": "https://api.example", "resource": "urn:lake"},
            {
                "client_id": "audit", "client_secret": "hush:with:colons", "scope": "catalog",
                "audience": "https://api.example", "resource": "urn:lake",
            },
        ),
    ],
)  # fmt: skip
def test_what_is_sent_for_a_token(
    server: Server, variable: str, more: dict[str, str], form: dict[str, str]
) -> None:
    server.answers = {"/v1/oauth/tokens": TOKEN, "/a": (200, {}, {"b": 1})}
    assert client(server, credential_env=variable, **more).get("a") == {"b": 1}
    (_, _, sent), (_, authorization, _) = server.asked
    assert sent == {"grant_type": "client_credentials"} | form
    assert authorization == "Bearer token"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": "invalid_client", "error_description": "Client authentication failed"},
         "answers 400: invalid_client: Client authentication failed"),
        ({"error": "invalid_scope"}, "answers 400: invalid_scope"),
        ({"error": {"message": "no", "code": 400}}, "answers 400: no"),
        ({"error_code": "DENIED", "message": "why"}, "answers 400: why"),
        ({"error_code": "DENIED"}, "answers 400: DENIED"),
        ({"error": 7}, "answers 400"),
        ({"error": "a\x1b[31m\u202eb", "error_description": "\r\n"}, "answers 400: a b"),
    ],
)  # fmt: skip
def test_a_token_endpoint_s_own_message_is_reported(server: Server, body: Any, said: str) -> None:
    server.answers = {"/v1/oauth/tokens": (400, {}, body)}
    with pytest.raises(SourceError) as refused:
        client(server, credential_env="CATALOG").get("a")
    assert said in refused.value.what
    assert refused.value.what.isprintable()
    assert "hush" not in str(refused.value)


def test_a_missing_operation_is_a_missing_permission(server: Server) -> None:
    server.answers = {"/a": (501, {}, {"message": "not here"})}
    with pytest.raises(
        Unsupported, match="lacks this operation: it answers 501: not here; no right is missing"
    ):
        client(server).get("a")
    assert len(server.asked) == 1, "no second request is sent"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("credentials", [{"bearer_env": "ALONE"}, {"credential_env": "CATALOG"}, {}])
def test_no_redirect_leads_to_another_origin(
    server: Server, status: int, credentials: dict[str, str]
) -> None:
    """Another port is another origin; the token endpoint's form holds the secret, which a 307 would send on."""
    with serving() as other:
        away = {"Location": f"{other.url}/a"}
        server.answers = {"/a": (status, away, {}), "/v1/oauth/tokens": (status, away, {})}
        with pytest.raises(
            SourceError, match=r"redirects to http://127\.0\.0\.1, which the lake file does not name"
        ):
            client(server, **credentials).get("a")
        assert other.asked == []


def test_a_redirect_to_the_same_origin_is_followed_with_the_token(server: Server) -> None:
    server.answers = {
        "/a": (307, {"Location": "/b?x=2"}, {}),
        "/b": (302, {"Location": f"{server.url}/c"}, {}),
        "/c": (200, {}, {"found": True}),
        "/again": (302, {"Location": "/again"}, {}),
    }
    assert client(server, bearer_env="ALONE").get("a", x="1") == {"found": True}
    assert [(path, told) for path, told, _ in server.asked] == [
        ("/a?x=1", "Bearer hush"), ("/b?x=2", "Bearer hush"), ("/c", "Bearer hush"),
    ]  # fmt: skip
    with pytest.raises(SourceError, match="answers 302"):
        client(server).get("again")


def test_a_change_is_not_redirected_into_a_read(server: Server) -> None:
    server.answers = {"/a": (302, {"Location": "/b"}, {}), "/b": (200, {}, {})}
    with pytest.raises(SourceError, match="redirects a POST"):
        client(server).post("a", {})
    assert [path for path, _, _ in server.asked] == ["/a"]


@pytest.mark.usefixtures("own_clients")
def test_the_authority_that_boto_trusts_is_trusted_beside_the_public_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, own = stores.authority(tmp_path)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with serving(own) as asked:
        asked.answers = {"/a": (200, {}, {"found": True})}
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "server.pem"))
        with pytest.raises(SourceError, match="does not answer \\(SSLError\\)"):
            client(asked).get("a")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
        forget_clients()
        assert client(asked).get("a") == {"found": True}

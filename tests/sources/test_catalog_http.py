"""Sources over HTTP: token requests, messages of refusals without secrets, redirects, certificates, pages."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import http
from lakeaudit.evidence.catalog.http import CatalogClient, Unsupported, all_pages
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.evidence.catalog.source import HttpAccess
from lakeaudit.runtime.connections.aws import forget_clients
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
    return CatalogClient(source.access, server.url, ENV)


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


TOKEN_OF_ENV = "eyJhbGciOi.JIUzI1+NiIsI/nR5cCI6"
SECRET = "s3cr3t/with+signs&more"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 429, 501, 503])
@pytest.mark.parametrize(
    "quoted",
    [
        TOKEN_OF_ENV,
        TOKEN_OF_ENV.upper(),
        TOKEN_OF_ENV[5:],
        quote(TOKEN_OF_ENV, safe=""),
        f"{'x' * 190}{TOKEN_OF_ENV}",
    ],
    ids=["whole", "in capitals", "in part", "as in a URL", "across the cut"],
)
def test_a_token_that_a_server_quotes_is_not_in_the_error(server: Server, status: int, quoted: str) -> None:
    server.answers = {"/a": (status, {}, {"message": f"bad token {quoted} of audit"})}
    access = HttpAccess("shelf", bearer_env="TOKEN", noun="Shelf")
    with pytest.raises(SourceError) as refused:
        CatalogClient(access, server.url, {"TOKEN": f" {TOKEN_OF_ENV}\n"}).get("a")
    text = str(refused.value)
    assert "Shelf" in text
    assert "bad token " in text
    forms = (TOKEN_OF_ENV, quote(TOKEN_OF_ENV, safe=""))
    pieces = {form[at : at + 8].lower() for form in forms for at in range(len(form) - 7)}
    assert not [piece for piece in pieces if piece in text.lower()]


def test_no_secret_of_a_client_and_no_exchanged_token_is_in_the_error(server: Server) -> None:
    env = {"CATALOG": f"audit:{SECRET}"}
    access = HttpAccess("x", credential_env="CATALOG")
    server.answers = {
        "/v1/oauth/tokens": (400, {}, {"error": "invalid", "error_description": f"<{SECRET}> of audit"})
    }
    with pytest.raises(SourceError, match=r"answers 400: invalid: <\*\*\*> of audit"):
        CatalogClient(access, server.url, env).get("a")
    answered = {"message": f"no {SECRET} and no tokenofserver, Bearer tokenofserver"}
    server.answers = {
        "/v1/oauth/tokens": (200, {}, {"access_token": "tokenofserver"}), "/a": (403, {}, answered),
    }  # fmt: skip
    with pytest.raises(SourceError, match=r"answers 403: no \*\*\* and no \*\*\*, Bearer \*\*\*"):
        CatalogClient(access, server.url, env).get("a")


def test_a_client_does_not_show_its_secrets(server: Server) -> None:
    assert SECRET not in repr(CatalogClient(HttpAccess("x"), server.url, {"CATALOG": SECRET}))


@pytest.mark.parametrize(("pages", "why"), [
    ([{"next": "b"}, {"next": "c"}, {"next": None}], ""),
    ([{"next": "b"}, {"next": ""}], ""),
    ([{"next": "b"}, {}], ""),
    ([{"next": "b"}, {"next": "b"}], "Shelf names a page of a list a second time"),
    ([{"next": 2}], "Shelf names a page of a list by int, not by text"),
    ([{"next": False}], "Shelf names a page of a list by bool, not by text"),
    ([{"next": str(n)} for n in range(9)], "Shelf answers a list of more than 5 pages"),
])  # fmt: skip
def test_a_list_is_read_to_its_end_or_refused(
    pages: list[dict[str, Any]], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MOST_PAGES", 5)
    client, left = CatalogClient(HttpAccess("x", noun="Shelf"), "http://127.0.0.1:1"), iter(pages)
    monkeypatch.setattr(client, "get", lambda *_, **__: next(left))
    read = all_pages(client, "a", ("after", "next"))
    with pytest.raises(SourceError, match=why) if why else nullcontext():
        assert list(read) == pages

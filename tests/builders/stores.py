"""Stores of other kinds than the tests' own: behind a private authority's certificate, behind a proxy, or old.

All of them hold what the tests' own server holds: servers of one process share moto's contents.
"""

import datetime as dt
import ipaddress
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

App = Callable[[dict[str, Any], Callable[..., Any]], Any]


@contextmanager
def store(certificate: Path | None = None, around: Callable[[App], App] | None = None) -> Iterator[str]:
    """An S3 server and its URL; with `certificate` (PEM of key and certificate) by TLS."""
    app: App = DomainDispatcherApplication(create_backend_app)
    context = server_context(certificate) if certificate is not None else None
    server = make_server("127.0.0.1", 0, around(app) if around else app, threaded=True, ssl_context=context)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def server_context(certificate: Path) -> ssl.SSLContext:
    """The TLS context of a server whose key and certificate stand in one PEM file."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


REFUSED = (
    b"""<Error><Code>InvalidArgument</Code><Message>aws-chunked encoding is not supported</Message></Error>"""
)


def before_checksums(app: App) -> App:
    """A store as they were before 2025: it knows Content-MD5, and no checksum in headers or trailers."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        names = [
            name for name in environ if name.startswith(("HTTP_X_AMZ_CHECKSUM", "HTTP_X_AMZ_SDK_CHECKSUM"))
        ]
        chunked = "aws-chunked" in environ.get("HTTP_CONTENT_ENCODING", "") or "HTTP_X_AMZ_TRAILER" in environ
        if (names and names != ["HTTP_X_AMZ_CHECKSUM_MODE"]) or chunked:
            # a client that still writes sees no response
            whole = -1 if environ.get("wsgi.input_terminated") else 0
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or whole))
            start(
                "400 Bad Request",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(REFUSED)))],
            )
            return [REFUSED]
        return app(environ, start)

    return answer


def authority(folder: Path) -> tuple[Path, Path]:
    """(PEM of a private authority, PEM of key and certificate that it signed for loopback)."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = _certificate("Test Authority", root_key, "Test Authority", root_key)
    signed = _certificate("localhost", key, "Test Authority", root_key)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    authority, own = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(b"# the authority of a test\n" + root.public_bytes(pem))
    own.write_bytes(private + signed.public_bytes(pem))
    return authority, own


def _certificate(name: str, key: Any, issuer: str, issuer_key: Any) -> x509.Certificate:
    now, is_authority = dt.datetime.now(dt.UTC), name == issuer
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer)]
    built = (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
    )
    if not is_authority:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        built = built.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return built.sign(issuer_key, hashes.SHA256())


@dataclass
class Proxy:
    """A forward proxy: user agents and passwords of plain requests, hosts of tunnels."""

    url: str = ""
    agents: list[str] = field(default_factory=list)
    passwords: list[str] = field(default_factory=list)
    tunnels: list[str] = field(default_factory=list)


@contextmanager
def proxy() -> Iterator[Proxy]:
    """A forward proxy on loopback."""
    state = Proxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            state.tunnels.append(self.path)
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port)), 5) as upstream:
                self.send_response(200)
                self.end_headers()
                _pump(self.connection, upstream)
            self.close_connection = True

        def _forward(self) -> None:
            state.agents.append(self.headers.get("User-Agent", ""))
            state.passwords += self.headers.get_all("Proxy-Authorization", [])
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = HTTPConnection(parts.netloc, timeout=10)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            upstream.request(self.command, target, body, dict(self.headers.items()))
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815 - http.server names them so

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def _pump(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until either end closes."""
    while True:
        ready, _, _ = select.select([one, other], [], [], 10)
        if not ready:
            return
        for each in ready:
            data = each.recv(1 << 16)
            if not data:
                return
            (other if each is one else one).sendall(data)

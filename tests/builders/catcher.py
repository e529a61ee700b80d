"""A receiver of messages on loopback: it stores all requests, and returns a configured answer."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Catcher:
    """The received requests; `answer`, `location` and `body` are the response, `hangs` suppresses it."""

    port: int = 0
    answer: int = 200
    body: bytes = b"{}"
    location: str = ""
    hangs: threading.Event | None = None
    posts: list[Any] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    raw: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)
    """Bodies of POST requests, with the headers by their names in lower case."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def catching() -> Iterator[Catcher]:
    """A catcher while it listens."""
    caught = Catcher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            caught.gets.append(self.path)
            self._end()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            caught.posts.append(json.loads(body))
            caught.raw.append((body, {name.lower(): value for name, value in self.headers.items()}))
            self._end()

        def _end(self) -> None:
            if caught.hangs is not None:
                caught.hangs.wait(60)
            self.send_response(caught.answer)
            if caught.location:
                self.send_header("Location", caught.location)
            self.send_header("Content-Length", str(len(caught.body)))
            self.end_headers()
            self.wfile.write(caught.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    caught.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield caught
    finally:
        if caught.hangs is not None:
            caught.hangs.set()
        server.shutdown()
        server.server_close()

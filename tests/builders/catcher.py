"""A receiver of messages on loopback: it stores all requests, and returns a configured answer."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any


@dataclass
class Catcher:
    """The received requests; `answer`, `location` and `body` are the response, `hangs` suppresses it.

    The first requests get the statuses of `busy`, with `retry_after` as their header Retry-After.
    """

    port: int = 0
    answer: int = 200
    body: bytes = b"{}"
    location: str = ""
    hangs: threading.Event | None = None
    busy: list[int] = field(default_factory=list)
    retry_after: str = ""
    posts: list[Any] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """The paths of POST requests."""
    raw: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)
    """Bodies of POST requests, with the headers by their names in lower case."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next_answer(self) -> tuple[int, str]:
        """Return the status of the next response, and its header Retry-After."""
        return (self.busy.pop(0), self.retry_after) if self.busy else (self.answer, "")


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
            caught.paths.append(self.path)
            caught.posts.append(json.loads(body))
            caught.raw.append((body, {name.lower(): value for name, value in self.headers.items()}))
            self._end()

        def _end(self) -> None:
            if caught.hangs is not None:
                caught.hangs.wait(60)
            status, wait = caught.next_answer()
            self.send_response(status)
            self.send_header("Retry-After", wait)
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


@dataclass
class Mailbox:
    """The mails that a mail server has received, as they were sent."""

    port: int
    mails: list[str] = field(default_factory=list)


@contextmanager
def receiving_mail() -> Iterator[Mailbox]:
    """A mail server (SMTP without encryption) on loopback, which accepts every mail."""
    box = Mailbox(0)

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 mail")
            for line in self.rfile:
                command = line[:4].upper()
                if command == b"DATA":
                    self._say("354 go on")
                    box.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                self._say("221 bye" if command == b"QUIT" else "250 ok")
                if command == b"QUIT":
                    return

        def _say(self, answer: str) -> None:
            self.wfile.write(f"{answer}\r\n".encode())

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        box.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield box
        server.shutdown()

"""Serves the logs of generated lakes as a read-only S3 endpoint that takes little time: 0.1 ms per request.

It supports the requests of an audit: ListObjectsV2 by prefix, delimiter, start-after and token, GET with a range, HEAD.

usage: python -m tests.bench.log_server FOLDER...    (lakes of `lake.lake_folder`; a later one adds to those before it)
It prints its endpoint when it listens, and ends when its standard input is closed.
"""

import asyncio
import hashlib
import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape

from tests.bench.spec import BUCKET

PAGE = 1000
_RANGE = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d+)", re.IGNORECASE)
_MISSING = b"<Error><Code>NoSuchKey</Code><Message>not there</Message></Error>"


class Object(NamedTuple):
    """A log file as an S3 object."""

    path: Path
    size: int
    etag: str
    at: datetime


class Answer(NamedTuple):
    """The response to a request."""

    status: str
    headers: str
    body: bytes


class Logs:
    """All log files by their keys, sorted."""

    objects: Mapping[str, Object]

    def __init__(self, folders: Sequence[Path]) -> None:
        self.objects = {key: found for folder in folders for key, found in _objects(folder)}
        self.keys = sorted(self.objects)

    def answer(self, method: str, path: str, query: str, span: tuple[int, int] | None) -> Answer:
        """Answer one request; `span` has the first and the last requested byte."""
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        if bucket != BUCKET or method not in ("GET", "HEAD"):
            return Answer("501 Not Implemented", "", b"")
        if not key:
            return Answer("200 OK", "content-type: application/xml\r\n", self._listed(dict(parse_qsl(query))))
        found = self.objects.get(key)
        if found is None:
            return Answer("404 Not Found", "content-type: application/xml\r\n", _MISSING)
        content = found.path.read_bytes() if method == "GET" else b""
        headers = f'etag: "{found.etag}"\r\nlast-modified: {format_datetime(found.at, usegmt=True)}\r\n'
        if method == "HEAD":
            return Answer("200 OK", f"{headers}content-length: {found.size}\r\n", b"")
        if span is None:
            return Answer("200 OK", headers, content)
        first, last = span
        headers += f"content-range: bytes {first}-{min(last, found.size - 1)}/{found.size}\r\n"
        return Answer("206 Partial Content", headers, content[first : last + 1])

    def _listed(self, parameters: dict[str, str]) -> bytes:
        prefix, delimiter = parameters.get("prefix", ""), parameters.get("delimiter", "")
        after = max(parameters.get("start-after", ""), parameters.get("continuation-token", ""))
        at = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
        rows: list[str] = []
        last = ""
        while at < len(self.keys) and self.keys[at].startswith(prefix) and len(rows) < PAGE:
            last = key = self.keys[at]
            folder, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if cut:
                last = f"{prefix}{folder}{cut}\U0010ffff"  # beyond all that lies in the folder
                rows.append(
                    f"<CommonPrefixes><Prefix>{quote(prefix + folder + cut)}</Prefix></CommonPrefixes>"
                )
                at = bisect_right(self.keys, last)
                continue
            found = self.objects[key]
            rows.append(
                f"<Contents><Key>{quote(key)}</Key><LastModified>{found.at:%Y-%m-%dT%H:%M:%S}.000Z</LastModified>"
                f"<ETag>&quot;{found.etag}&quot;</ETag><Size>{found.size}</Size></Contents>"
            )
            at += 1
        more = at < len(self.keys) and self.keys[at].startswith(prefix)
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        return (
            f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{''.join(rows)}</ListBucketResult>"
        ).encode()


def _objects(folder: Path) -> Iterator[tuple[str, Object]]:
    for name, at in json.loads((folder / "log_times.json").read_text()).items():
        path = folder / "logs" / name
        info = path.stat()
        text = f"{name} {info.st_size} {info.st_mtime_ns}"
        etag = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        yield name, Object(path, info.st_size, f"{etag}-1", datetime.fromtimestamp(at, UTC))


class Connection(asyncio.Protocol):
    """The connection of one client; requests have no bodies and are answered in order."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *whole, self._held = (self._held + data).split(b"\r\n\r\n")
        for head in whole:
            method, target, _ = head[: head.index(b"\r\n")].decode().split(" ")
            path, _, query = target.partition("?")
            span = _RANGE.search(head)
            status, headers, body = self._logs.answer(
                method, path, query, (int(span[1]), int(span[2])) if span else None
            )
            length = "" if "content-length:" in headers else f"content-length: {len(body)}\r\n"
            self._transport.write(f"HTTP/1.1 {status}\r\n{headers}{length}\r\n".encode() + body)


async def serve(logs: Logs) -> None:
    """Print the endpoint of these logs, and answer until standard input is closed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(logs), "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        print(f"http://{host}:{port}", flush=True)  # noqa: T201 - what `server.serving` waits for
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Logs([Path(name) for name in sys.argv[1:]])))

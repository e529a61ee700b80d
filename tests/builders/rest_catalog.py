"""A stand-in for an Iceberg REST catalog: the protocol's lists, loads and commits over real HTTP, answered from tables
that PyIceberg holds in this process. No real catalog; tests/soak/test_nessie.py has one.
"""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.update import update_table_metadata

Answer = tuple[int, Any]
Params = dict[str, str]
Parts = tuple[str, ...]


@dataclass
class RestCatalog:
    """The tables that it serves, the requests that it received, and its faults.

    `heeds`: a commit whose requirements do not hold is refused. A body of JSON is the parameter `body`.
    `faults` are tried first: (method, path, params) -> an answer of their own, or None. `tokens` are those that are let
    in (empty: everybody), `grants` those that it gives for a credential, in turn.
    """

    tables: dict[Parts, Table | Path] = field(default_factory=dict)
    """A table of PyIceberg, or the metadata.json of one."""
    port: int = 0
    prefix: str = "main"
    page: int = 1000
    heeds: bool = True
    tokens: set[str] = field(default_factory=set)
    grants: list[str] = field(default_factory=list)
    faults: list[Callable[[str, str, Params], Answer | None]] = field(default_factory=list)
    asked: list[tuple[str, str, Params]] = field(default_factory=list)
    _committing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/iceberg"

    def paths(self, part: str = "") -> list[str]:
        """Return the requested paths below the prefix, in order."""
        return [path for _, path, _ in self.asked if part in path]

    def answer(self, method: str, path: str, params: Params, token: str) -> Answer:
        self.asked.append((method, path, params))
        for fault in self.faults:
            if (found := fault(method, path, params)) is not None:
                return found
        if path == "/v1/oauth/tokens":
            right = params.get("client_secret") == "hush"
            return (
                (200, {"access_token": self.grants.pop(0)}) if right else (401, {"error": "invalid_client"})
            )
        if self.tokens and token not in self.tokens:
            return 401, {"error": {"message": "Unauthorized", "type": "NotAuthorizedException", "code": 401}}
        return self.commit(path, params["body"]) if "body" in params else self.content(path, params)

    def content(self, path: str, params: Params) -> Answer:
        """Answer an authorized request."""
        if path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {"prefix": self.prefix}}
        root = f"/v1/{self.prefix}/namespaces"
        return self._read(path.removeprefix(root), params) if path.startswith(root) else (404, {})

    def commit(self, path: str, body: str) -> Answer:
        """A table's next metadata.json, where the requirements hold."""
        parts = unquote(path.removeprefix(f"/v1/{self.prefix}/namespaces/")).split("/tables/")
        table = self.tables[(*parts[0].split("\x1f"), parts[1])]
        assert isinstance(table, Table)
        name = {"namespace": parts[0].split("\x1f"), "name": parts[1]}
        asked = CommitTableRequest.model_validate({"identifier": name} | json.loads(body))
        with self._committing:
            try:
                for each in asked.requirements if self.heeds else ():
                    each.validate(table.metadata)
            except CommitFailedException as error:
                return 409, {"error": {"message": str(error), "type": "CommitFailedException", "code": 409}}
            after = update_table_metadata(
                table.metadata, asked.updates, metadata_location=table.metadata_location
            )
            place = f"{after.location}/metadata/{len(after.metadata_log):05}-{uuid.uuid4()}.metadata.json"
            ToOutputFile.table_metadata(after, table.io.new_output(place))
            table.metadata, table.metadata_location = after, place
        return 200, {"metadata-location": place, "metadata": json.loads(after.model_dump_json())}

    def _read(self, path: str, params: Params) -> Answer:
        parts = [unquote(part) for part in path.strip("/").split("/") if part]
        namespace = tuple((parts[0] if parts else params.get("parent", "")).split("\x1f"))
        namespace = () if namespace == ("",) else namespace
        if not parts:
            below = {
                each[: len(namespace) + 1] for each in self._namespaces if each[: len(namespace)] == namespace
            }
            return self._paged("namespaces", sorted(list(each) for each in below - {namespace}), params)
        if len(parts) == 2 and namespace in self._namespaces:
            names = sorted(each[-1] for each in self.tables if each[:-1] == namespace)
            listed = [{"namespace": list(namespace), "name": name} for name in names]
            return self._paged("identifiers", listed, params)
        table = self.tables.get((*namespace, *parts[2:]))
        if table is None:
            return 404, {"error": {"message": "does not exist", "type": "NoSuchTableException", "code": 404}}
        text = table.read_text() if isinstance(table, Path) else table.metadata.model_dump_json()
        location = f"file://{table}" if isinstance(table, Path) else table.metadata_location
        return 200, {"metadata-location": location, "metadata": json.loads(text), "config": {}}

    @property
    def _namespaces(self) -> set[Parts]:
        return {name[:end] for name in self.tables for end in range(1, len(name))}

    def _paged(self, name: str, found: list[Any], params: Params) -> Answer:
        start = int(params.get("pageToken") or 0)
        more = {"next-page-token": str(start + self.page)} if start + self.page < len(found) else {}
        return 200, {name: found[start : start + self.page], **more}


@contextmanager
def served(catalog: RestCatalog) -> Iterator[RestCatalog]:
    """The catalog while it listens. An answer that is bytes is sent as it is."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            if self.headers.get_content_type() != "application/x-www-form-urlencoded":
                return self._answer({"body": body})
            return self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def _answer(self, form: Params) -> None:
            url = urlsplit(self.path)
            params = {name: values[0] for name, values in parse_qs(url.query).items()} | form
            token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            status, content = catalog.answer(self.command, url.path.removeprefix("/iceberg"), params, token)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    catalog.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield catalog
    finally:
        server.shutdown()
        server.server_close()

"""Runs moto's S3 and DynamoDB server in this process, on a free loopback port, with its own credentials."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from threading import Thread
from typing import Any, cast

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.connections.aws import Clients, Endpoint

LAKE, INVENTORIES, QUARANTINE = "lake", "inventories", "quarantine"
CUT_OFF = "demo/cut-off/"
"""An object with this name and a prefix truncates the listing of the prefix, without a continuation token."""
MOST_LISTED = 2
"""Number of entries of a truncated listing."""
_CONNECTIONS: dict[str, Any] = {
    "numthreads": 16,
    "timeout": 300,
    "request_queue_size": 128,
    "shutdown_timeout": 1,
}
_MOST_IDLE = 1_000
"""Highest number of idle connections, which one thread reads."""
_OWN = {
    "AWS_ACCESS_KEY_ID": "demo",
    "AWS_SECRET_ACCESS_KEY": "demo",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


@dataclass(frozen=True)
class Server:
    """A running server: a versioned bucket for the lake, one for its inventory reports."""

    endpoint: Endpoint

    @property
    def clients(self) -> Clients:
        """Return clients of this server."""
        return Clients(self.endpoint)

    def create_buckets(self) -> None:
        """Create the buckets, empty; that of the lake is versioned."""
        s3 = self.clients.s3(LAKE)
        for bucket in (LAKE, INVENTORIES, QUARANTINE):
            s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket=LAKE, VersioningConfiguration={"Status": "Enabled"})


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server until the block ends; its contents are then deleted."""
    with own_credentials(), moto() as endpoint:
        server = Server(endpoint)
        try:
            server.create_buckets()
            yield server
        finally:
            forget()


@contextmanager
def own_credentials() -> Iterator[None]:
    """Hide the user's own AWS settings from this process and its child processes, until the block ends."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("AWS_") and name != "AWS_CA_BUNDLE"]:
        del os.environ[name]
    os.environ.update(_OWN)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("AWS_") or name in _OWN]:
            del os.environ[name]
        restored = {name: value for name, value in before.items() if name.startswith("AWS_") or name in _OWN}
        os.environ.update(restored)


@contextmanager
def moto() -> Iterator[Endpoint]:
    """Serve S3, DynamoDB and STS on a free loopback port. All servers of one process share their contents."""
    try:
        from cheroot.wsgi import Server as WsgiServer
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application
        from moto.moto_server.werkzeug_app import create_backend_app
    except ImportError:
        raise CannotAudit("demo", "its server is not installed", "pip install 'lakeaudit[demo]'") from None
    _list_without_bodies()
    _look_services_up_once()
    _read_times_once()
    _cut_listings_off()
    server = WsgiServer(("127.0.0.1", 0), _with_raw_paths(Application(create_backend_app)), **_CONNECTIONS)
    server.keep_alive_conn_limit = _MOST_IDLE
    server.prepare()
    thread = Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield Endpoint(
            endpoint=f"http://127.0.0.1:{server.bind_addr[1]}", region="us-east-1", path_style=True
        )
    finally:
        server.stop()
        thread.join()


def _with_raw_paths(application: Any) -> Any:
    """Pass the raw path under moto's name: moto needs it to distinguish keys such as `a//b` and `a%2Fb`."""

    def respond(environ: dict[str, Any], start_response: Any) -> Any:
        return application({**environ, "RAW_URI": environ["REQUEST_URI"]}, start_response)

    return respond


def _list_without_bodies() -> None:
    """Make listings of versions fast: moto copies every version of the bucket with its body, 90 ms for 560 files."""
    from moto.s3.models import FakeKey

    class Listed(FakeKey):
        """A version in a listing, which shares the body of the original and does not close it."""

        def __init__(self, original: FakeKey) -> None:
            self.__dict__.update(original.__dict__)

        def __del__(self) -> None:
            pass

    cast("Any", FakeKey).__deepcopy__ = lambda key, _: Listed(key)


def _look_services_up_once() -> None:
    """Cache the service of a host: at every request moto tries the patterns of all services, a third of its time."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    dispatcher = cast("Any", DomainDispatcherApplication)
    if not hasattr(dispatcher.get_backend_for_host, "cache_info"):
        dispatcher.get_backend_for_host = lru_cache(64)(dispatcher.get_backend_for_host)


def _read_times_once() -> None:
    """Cache parsed times: moto parses the time of each object of a listing, half of the time of a listing."""
    from moto.core import serialize

    module = cast("Any", serialize)
    if not hasattr(module.parse_to_aware_datetime, "cache_info"):
        module.parse_to_aware_datetime = lru_cache(100_000)(module.parse_to_aware_datetime)


def _cut_listings_off() -> None:
    """Truncate listings of prefixes that objects in CUT_OFF name, without a token for the next page."""
    from moto.s3.models import S3Backend

    backend = cast("Any", S3Backend)
    whole = backend.list_objects_v2
    if hasattr(whole, "__wrapped__"):
        return

    @wraps(whole)
    def cut_off(self: Any, bucket: Any, prefix: str | None, **rest: Any) -> Any:
        page = whole(self, bucket=bucket, prefix=prefix, **rest)
        is_cut = bucket.name == LAKE and f"{CUT_OFF}{prefix}" in bucket.keys
        return (page[0][:MOST_LISTED], True, None) if is_cut else page

    backend.list_objects_v2 = cut_off


def forget() -> None:
    """Delete the demo's own buckets and tables from moto's memory, which all servers of one process share."""
    from moto.dynamodb.models import dynamodb_backends
    from moto.s3.models import s3_backends

    for s3 in s3_backends.values():
        for bucket in (LAKE, INVENTORIES, QUARANTINE):
            s3["aws"].buckets.pop(bucket, None)
            s3_backends.bucket_accounts.pop(bucket, None)
    for dynamodb in dynamodb_backends.values():
        tables = dynamodb["us-east-1"].tables
        for name in [name for name in tables if name.startswith("demo-")]:
            del tables[name]

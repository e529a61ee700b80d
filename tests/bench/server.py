"""Runs S3 servers in other processes: `log_server` with generated logs, and the embedded server with a live lake.

usage: python -m tests.bench.server FILES    (a small live lake, in moto)
It prints its endpoint when all is loaded, and ends when its standard input is closed.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.bench.spec import BUCKET, ROOT


@contextmanager
def serving(*folders: str) -> Iterator[str]:
    """Yield the endpoint of a server of these lakes' logs."""
    with running("log_server", *folders) as endpoint:
        yield endpoint


@contextmanager
def serving_live(files: int) -> Iterator[str]:
    """Yield the endpoint of the embedded server with a live lake of this many files."""
    with running("server", str(files)) as endpoint:
        yield endpoint


@contextmanager
def running(module: str, *arguments: str) -> Iterator[str]:
    """Yield the endpoint of a server module of this package, with these arguments."""
    line = [sys.executable, "-m", f"tests.bench.{module}", *arguments]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdin
    assert process.stdout
    try:
        endpoint = process.stdout.readline().strip()
        if not endpoint:
            raise RuntimeError("the S3 server did not start")
        yield endpoint
    finally:
        process.stdin.close()
        process.wait()


def put(s3: Any, key: str, body: bytes, at: datetime) -> None:
    """Store an object with this time of storage."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    stored: Any = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys[key]
    stored.last_modified = at.astimezone(UTC).replace(tzinfo=None)


def _main(arguments: Sequence[str]) -> None:
    os.environ.setdefault("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", str(1 << 30))
    from lakeaudit.demo.server import moto, own_credentials
    from lakeaudit.runtime.connections.aws import Clients

    with own_credentials(), moto() as endpoint:
        clients = Clients(endpoint)
        s3 = clients.s3(BUCKET)
        s3.create_bucket(Bucket=BUCKET)
        from tests.bench import live_objects

        live_objects.load(s3, clients, int(arguments[0]))
        print(endpoint.endpoint, flush=True)  # noqa: T201 - what `serving` waits for
        sys.stdin.read()


if __name__ == "__main__":
    _main(sys.argv[1:])

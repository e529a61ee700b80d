"""A moto server in this process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

from lakeaudit.aws import Endpoint


@contextmanager
def moto_server() -> Iterator[Endpoint]:
    """S3, DynamoDB and STS on a free loopback port. All servers of one process share their contents."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield Endpoint(endpoint=f"http://{host}:{port}", region="us-east-1", path_style=True)
    finally:
        server.stop()

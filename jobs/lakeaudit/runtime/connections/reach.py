"""Check by one connection that a server listens at an endpoint, before clients with many retries are built."""

import socket
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

SECONDS = 3.0


@lru_cache(maxsize=64)
def listens(url: str) -> bool:
    """Return whether the URL's host and port accept a connection within a few seconds; behind a proxy, True."""
    parts = urlsplit(url)
    if parts.hostname is None:
        return True
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return True
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname, port), SECONDS):
            return True
    except (OSError, ValueError):
        return False

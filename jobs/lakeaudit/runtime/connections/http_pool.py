"""Send HTTP requests through the proxies of the environment, with the certificates that it names.

Certificates: REQUESTS_CA_BUNDLE, else CURL_CA_BUNDLE, else the public ones that boto trusts and those of the machine
(SSL_CERT_FILE). Proxies: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, which may name networks, as in `10.0.0.0/8`.
"""

import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from botocore.httpsession import ProxyConfiguration, get_cert_path
from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Retry, Timeout
from urllib3.exceptions import MaxRetryError
from urllib3.util import create_urllib3_context, make_headers

from lakeaudit.runtime.connections.resolve import certificates_of

MOST_REDIRECTS = 3
_ONCE = Retry(0, redirect=False)
_REDIRECTED = Retry(None, connect=0, read=0, status=0, other=0, redirect=MOST_REDIRECTS)


class HttpPool:
    """Connections to servers, which threads may share. `further` are certificates (PEM) to trust beside the others."""

    def __init__(self, connections: int = 1, further: str | None = None) -> None:
        self._connections = connections
        self._further = further
        self._managers: dict[tuple[str | None, bool], PoolManager] = {}

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        timeout: tuple[float, float],
        *,
        redirect: bool = False,
        **more: Any,
    ) -> BaseHTTPResponse:
        """Send a request once and return its response, whose body is not read yet: close it after use.

        `timeout` is in seconds: to connect, and between two pieces of the response. `more` is the `json`, `body` or
        `fields` of urllib3.

        Raises:
            HTTPError: there is no response.
            UnicodeError: the URL or a header cannot be sent.
            CannotAudit: the certificates cannot be read.
        """
        connect, read = timeout
        try:
            return self._manager(url).request(
                method,
                url,
                headers={**make_headers(accept_encoding=True), **headers},
                timeout=Timeout(connect=connect, read=read),
                retries=_REDIRECTED if redirect else _ONCE,
                redirect=redirect,
                preload_content=False,
                **more,
            )
        except MaxRetryError as error:
            raise error.reason or error from error

    def _manager(self, url: str) -> PoolManager:
        proxy = proxy_for(url)
        known = proxy, "https:" in (url[:6].lower(), (proxy or "")[:6].lower())
        if known not in self._managers:
            self._managers[known] = self._new_manager(*known)
        return self._managers[known]

    def _new_manager(self, proxy: str | None, secure: bool) -> PoolManager:
        settings: dict[str, Any] = {"maxsize": self._connections}
        settings |= {"ssl_context": self._trust} if secure else {}
        if proxy is None:
            return PoolManager(**settings)
        settings |= {"proxy_ssl_context": self._trust} if secure else {}
        return ProxyManager(proxy, proxy_headers=ProxyConfiguration().proxy_headers_for(proxy), **settings)

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        context = create_urllib3_context()
        own = certificates_of(
            os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or None
        )
        if own is None:
            context.load_verify_locations(get_cert_path(True))
            context.load_default_certs()
        for authorities in filter(None, (own, self._further)):
            context.load_verify_locations(cadata=authorities)
        return context


def proxy_for(url: str) -> str | None:
    """Return the URL of the proxy for a request; None: it goes directly."""
    proxies, parts = getproxies(), urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    host = parts.hostname or ""
    if (
        not proxy
        or proxy_bypass(parts.netloc.rpartition("@")[2])
        or _in_networks(host, proxies.get("no", ""))
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _in_networks(host: str, names: str) -> bool:
    """Return whether a host is an address in one of the networks among these names."""
    for name in names.split(","):
        with suppress(ValueError):
            if ip_address(host) in ip_network(name.strip(), strict=False):
                return True
    return False

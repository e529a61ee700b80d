"""One chain of connection settings: the settings that boto resolves for its own client, passed to the other clients.

boto takes endpoint, addressing, region, certificates, proxy and credentials from the lake file, the environment and the
profile of the AWS configuration. obstore and delta-rs read other variables and no profile, so all settings are passed
to them explicitly.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies

from botocore.exceptions import NoCredentialsError
from botocore.utils import get_environ_proxies

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.connections.aws import Endpoint, bundle_of, s3_client, session_of, store_url

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_NO_PROXY = "http://127.0.0.1:9"
"""A placeholder where a proxy must be named only to exclude hosts from it."""
_ANY_REGION = "us-east-1"


class Proxy(NamedTuple):
    """A proxy, and the host that is excluded from it; either may be empty."""

    url: str
    excluded: str


@dataclass(frozen=True)
class Route:
    """How one bucket is reached.

    Attributes:
        endpoint: scheme, host and port that requests go to; with `by_name` the host begins with the bucket.
        region: for signatures.
        by_name: whether the bucket stands in the host (virtual-hosted style) and not in the path.
        certificates: PEM of the authorities that boto trusts; None: those of the machine.
        proxy: None: nothing in the environment names one.
    """

    endpoint: str
    region: str
    by_name: bool
    requester_pays: bool = False
    certificates: str | None = None
    proxy: Proxy | None = None


def route_to(at: Endpoint, bucket: str) -> Route:
    """The route that boto takes to a bucket.

    Raises:
        CannotAudit: the certificates that boto is to trust cannot be read.
        BotoCoreError: boto itself cannot tell, as where the profile does not exist.
    """
    endpoint, by_name = _address(store_url(at, bucket), bucket)
    region = s3_client(at).meta.region_name
    secure = endpoint.startswith("https:")
    return Route(
        endpoint,
        _ANY_REGION if region in (None, "aws-global") else region,
        by_name,
        at.requester_pays,
        certificates_of(bundle_of(at)) if secure else None,
        _proxy(endpoint),
    )


def _address(url: str, bucket: str) -> tuple[str, bool]:
    """(endpoint, whether the bucket stands in its host) of the URL of a request about the bucket alone."""
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    if path.endswith(f"/{bucket}"):
        return base + path.removesuffix(f"/{bucket}"), False
    return base + path, True


def _proxy(endpoint: str) -> Proxy | None:
    """By boto's rules, which differ from those of other clients in small things (`NO_PROXY`, `ALL_PROXY`)."""
    parts = urlsplit(endpoint)
    url = get_environ_proxies(endpoint).get(parts.scheme)
    if url:
        return Proxy(url if "://" in url else f"http://{url}", "")
    return Proxy(_NO_PROXY, parts.hostname or "") if getproxies() else None


def certificates_of(bundle: str | None) -> str | None:
    """The content of a CA bundle; None where there is none of one's own. Raises CannotAudit: it cannot be read."""
    return None if bundle is None else _certificates(bundle)


@lru_cache(maxsize=8)
def _certificates(bundle: str) -> str:
    path = Path(bundle)
    files = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    try:
        text = "\n".join(each.read_text(encoding="utf-8", errors="replace") for each in files)
    except OSError as error:
        what = f"the CA bundle cannot be read ({error.strerror or type(error).__name__})"
        raise CannotAudit(
            bundle, what, "correct AWS_CA_BUNDLE, REQUESTS_CA_BUNDLE or `ca_bundle` of the profile"
        ) from error
    return "\n".join(_PEM.findall(text))


_PEM = re.compile(
    r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----.*?-----END (?:TRUSTED )?CERTIFICATE-----", re.DOTALL
)
"""Certificates without the comments between them, which some clients refuse."""


def obstore_options(route: Route) -> "ClientConfig":
    """Return the route as obstore's `client_options`."""
    options: ClientConfig = {"allow_http": True}
    if route.certificates is not None:
        options["root_certificate"] = route.certificates
    if route.proxy is not None:
        options["proxy_url"] = route.proxy.url
        options["proxy_excludes"] = route.proxy.excluded
    return options


def delta_rs_options(at: Endpoint, bucket: str) -> dict[str, str]:
    """Return the route to one bucket as options of delta-rs, with the endpoint's current credentials.

    delta-rs does not renew them: call this again for each table that is opened. Renewable credentials are renewed if
    they expire within 15 minutes (botocore's advisory period). delta-rs has no option for certificates alone: those of
    a proxy are trusted for every host, and the host itself may be excluded from the proxy.

    Raises:
        NoCredentialsError: the AWS chain has none.
        ClientError: the role may not be assumed.
        CannotAudit: as `route_to`.
    """
    credentials = session_of(at).get_credentials()
    if credentials is None:
        raise NoCredentialsError
    current = credentials.get_frozen_credentials()
    route = route_to(at, bucket)
    options: dict[str, str] = {
        "AWS_ACCESS_KEY_ID": current.access_key or "",
        "AWS_SECRET_ACCESS_KEY": current.secret_key or "",
        "AWS_REGION": route.region,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": route.endpoint,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true" if route.by_name else "false",
    }
    if current.token:
        options["AWS_SESSION_TOKEN"] = current.token
    if route.requester_pays:
        options["AWS_REQUEST_PAYER"] = "true"
    return options | _tls_and_proxy(route)


def _tls_and_proxy(route: Route) -> dict[str, str]:
    proxy = route.proxy
    if route.certificates is None:
        return {} if proxy is None else _proxy_options(proxy)
    alone = Proxy(_NO_PROXY, urlsplit(route.endpoint).hostname or "")
    return _proxy_options(proxy or alone) | {"proxy_ca_certificate": route.certificates}


def _proxy_options(proxy: Proxy) -> dict[str, str]:
    return {"proxy_url": proxy.url} | ({"proxy_excludes": proxy.excluded} if proxy.excluded else {})

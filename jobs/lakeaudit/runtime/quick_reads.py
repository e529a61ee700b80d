"""Small objects of S3 by obstore: a tenth of the processor time of boto's requests, and outside of Python's lock.

A lake's logs and manifests are thousands of small objects. obstore is asked for those whose names every client writes
alike; what it does not give, whatever the reason, boto is asked for: its answer counts, and its errors are those that
are understood. A store that once failed otherwise than by having no such object is left to boto for good: to its
patience with stores that throttle, and its redirects.

Folders are not listed this way: obstore drops the slash at the end of a key, and makes `log/5.json/` a file of the log.
"""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from lakeaudit.errors import one_line
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import USER_AGENT, Clients
from lakeaudit.runtime.connections import obstore_options, route_to

if TYPE_CHECKING:
    import boto3
    from obstore.store import S3Store

_KEY = re.compile(r"[\w.=-]+(/[\w.=-]+)*", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_ASKED_AGAIN = timedelta(minutes=6)
"""How long obstore may use credentials until it asks boto for them again; its last five minutes do not count."""

_Known: TypeAlias = "tuple[boto3.Session, str]"
"""A bucket, and the session whose credentials it is asked with."""
_stores: dict[_Known, "S3Store"] = {}
_left_to_boto: set[_Known] = set()


def quick_read(clients: Clients, place: Location) -> bytes | None:
    """The whole content of an object of S3; None: it was not got this way, which says nothing of it."""
    if not _is_plain(place):
        return None
    known = clients.session(*place), place.bucket
    if known in _left_to_boto:
        return None
    try:
        import obstore

        if known not in _stores:
            _stores[known] = _store(clients, place)
        return obstore.get(_stores[known], place.key).bytes().to_bytes()
    except FileNotFoundError:
        return None
    except Exception:  # noqa: BLE001 - boto is asked instead, and says what it is
        _left_to_boto.add(known)
        return None


def why_left_to_boto(clients: Clients, place: Location) -> str | None:
    """Why obstore cannot read an object that boto can; None: it can, or its name is left to boto anyway."""
    if not _is_plain(place):
        return None
    try:
        import obstore

        obstore.get_range(_store(clients, place), place.key, start=0, length=1)
    except Exception as error:  # noqa: BLE001 - whatever it is, boto reads in its place
        return f"fails: {one_line(str(error), 200)}"
    return None


def _is_plain(place: Location) -> bool:
    names = place.key.split("/")
    plain = _BUCKET.fullmatch(place.bucket) and not place.bucket.endswith("--x-s3")
    return bool(plain and _KEY.fullmatch(place.key) and not {".", ".."} & {*names})


def _store(clients: Clients, place: Location) -> "S3Store":
    """The bucket, asked where boto would ask, with the credentials that boto has."""
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import S3Store

    route = route_to(clients.endpoint(*place), place.bucket)
    return S3Store(
        place.bucket,
        endpoint=route.endpoint,
        region=route.region,
        virtual_hosted_style_request=route.by_name,
        request_payer=route.requester_pays,
        credential_provider=Boto3CredentialProvider(clients.session(*place), ttl=_ASKED_AGAIN),
        client_options={
            **obstore_options(route),
            "connect_timeout": "10s",
            "timeout": "60s",
            "user_agent": USER_AGENT,
        },
        retry_config={"max_retries": 0},
    )

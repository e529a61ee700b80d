"""Read small objects of S3 by obstore: a tenth of the processor time of boto's requests, and outside of Python's lock.

A lake's logs and manifests are thousands of small objects. obstore reads those whose names every client encodes in the
same way. If it returns nothing, for whatever reason, boto reads the object: its response counts, and its errors are
explained. After any failure other than a missing object, boto reads from that store for good, with its retries for
stores that throttle, and its redirects.

Folders are not listed this way: obstore drops the slash at the end of a key, and makes `log/5.json/` a file of the log.
"""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from lakeaudit.errors import one_line
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import USER_AGENT, Clients
from lakeaudit.runtime.connections.resolve import obstore_options, route_to

if TYPE_CHECKING:
    import boto3
    from obstore.store import S3Store

_KEY = re.compile(r"[\w.=-]+(/[\w.=-]+)*", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_CREDENTIALS_TTL = timedelta(minutes=6)
"""How long obstore uses credentials before it gets new ones from boto; its last five minutes do not count."""

_Known: TypeAlias = "tuple[boto3.Session, str]"
"""A session with its credentials, and a bucket."""
_stores: dict[_Known, "S3Store"] = {}
_left_to_boto: set[_Known] = set()


def quick_read(clients: Clients, place: Location) -> bytes | None:
    """Return the whole content of an object of S3; None if obstore did not read it, which proves nothing."""
    if not _is_plain(place):
        return None
    known, budget = (clients.session(*place), place.bucket), clients.endpoint(*place).budget
    if known in _left_to_boto or (budget is not None and budget.is_spent):
        return None
    try:
        if budget is not None:
            budget.take()
        import obstore

        if known not in _stores:
            _stores[known] = _store(clients, place)
        return obstore.get(_stores[known], place.key).bytes().to_bytes()
    except FileNotFoundError:
        return None
    except Exception:  # noqa: BLE001 - boto reads it instead, and reports its error
        _left_to_boto.add(known)
        return None


def why_left_to_boto(clients: Clients, place: Location) -> str | None:
    """Return why obstore cannot read an object that boto can; None: it can, or boto reads such names anyway."""
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
    """Return the bucket at boto's endpoint, with boto's credentials."""
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import S3Store

    route = route_to(clients.endpoint(*place), place.bucket)
    return S3Store(
        place.bucket,
        endpoint=route.endpoint,
        region=route.region,
        virtual_hosted_style_request=route.by_name,
        request_payer=route.requester_pays,
        credential_provider=Boto3CredentialProvider(clients.session(*place), ttl=_CREDENTIALS_TTL),
        client_options={
            **obstore_options(route),
            "connect_timeout": "10s",
            "timeout": "60s",
            "user_agent": USER_AGENT,
        },
        retry_config={"max_retries": 0},
    )

"""Checks before an audit whether its stores can be reached, and whether there are credentials for them.

Each endpoint (with region and role) is checked once, however many buckets and tables use it. If only some endpoints
fail, the readers of their sources report evidence gaps; if all of them fail, the audit does not start.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakeaudit.config import Lake, Table
from lakeaudit.errors import CannotAudit, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint, why_no_credentials, why_unusable
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint
from lakeaudit.runtime.extras import install_hint, missing_of

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws_failures import Failure

NAMED = 3


def require_gates(lake: Lake) -> None:
    """Check whether the results can be checked, if the lake file requires it.

    Raises:
        CannotAudit: Great Expectations 1.6 or newer is not installed.
    """
    if lake.gates_required and missing_of("gates"):
        why = "its lake file has `gates: required`, but Great Expectations 1.6 or newer is not installed"
        raise CannotAudit(lake.name, why, install_hint("gates"))


def require_results(place: Location, clients: Clients) -> None:
    """Check whether the results location can be reached.

    Raises:
        CannotAudit: the AWS chain has no credentials, or their session has expired.
        CannotPublish: the location cannot be reached with them.
    """
    if place.is_local:
        return
    at = clients.endpoint(place.bucket, place.key)
    if missing := why_no_credentials(at):
        raise CannotAudit(place.uri, missing.what, missing.hint, missing.retryable)
    if failure := why_unusable(at):
        raise CannotPublish(place.uri, failure.what, failure.hint, failure.retryable)


def nothing_to_read(
    lake: Lake, scope: Sequence[Table], clients: Clients, *, live: bool
) -> CannotAudit | None:
    """Return the error if no source of the audit can be reached; None if any source can."""
    names_by_endpoint: dict[Endpoint, list[str]] = {}
    for at, about in _endpoints(lake, scope, clients, live=live):
        if at is None:
            return None
        names_by_endpoint.setdefault(at, []).append(about)
    failures: dict[Failure, list[str]] = {}
    for at, names in names_by_endpoint.items():
        failure = why_unusable(at)
        if failure is None:
            return None
        failures.setdefault(failure, []).extend(names)
    if not failures:
        return None
    what = "; ".join(
        f"{first_of([*dict.fromkeys(about)], NAMED)}: {failure.what}" for failure, about in failures.items()
    )
    first = next(iter(failures))
    return CannotAudit(
        lake.name, f"no source can be reached: {what}", first.hint, all(f.retryable for f in failures)
    )


def first_of(names: Sequence[str], most: int) -> str:
    """Join the first names, and state how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _endpoints(
    lake: Lake, scope: Sequence[Table], clients: Clients, *, live: bool
) -> Iterator[tuple[Endpoint | None, str]]:
    """Yield the endpoint of each location (None if it is local or on Azure) and its display name."""
    for place in _places(lake, scope, live=live):
        at = clients.endpoint(place.bucket, place.key) if place.is_in_s3 else None
        yield at, f"bucket {place.bucket}"
    for store in lake.metastores:
        if store.live_table is not None:
            yield dynamodb_endpoint(store.live_table), f"DynamoDB table {store.name}"
        for place in store.places:
            yield (
                None if place.is_local else clients.endpoint(place.bucket, place.key),
                f"bucket {place.bucket}",
            )


def _places(lake: Lake, scope: Sequence[Table], *, live: bool) -> Iterator[Location]:
    if not live:
        yield from (source.location for source in lake.inventories)
    for table in scope:
        yield table.location
        yield from (place for manifest in table.manifests for place in manifest.places)

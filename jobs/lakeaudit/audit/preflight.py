"""Before anything is read or started: whether the stores of an audit can be reached and there are credentials for them.

One look a way of reaching (endpoint, region, role), however many buckets and tables there are. What only some sources
lack is left to their readers, which make it a hole; where nothing can be reached there is nothing to start for.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakeaudit.config import Lake, Table
from lakeaudit.errors import CannotAudit, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients, Endpoint, why_no_credentials, why_unusable
from lakeaudit.runtime.endpoints import dynamodb_endpoint

if TYPE_CHECKING:
    from lakeaudit.runtime.aws_failures import Failure

NAMED = 3


def require_results(place: Location, clients: Clients) -> None:
    """See whether the results place can be reached at all.

    Raises:
        CannotAudit: the AWS chain has no credentials, or their session has ended.
        CannotPublish: the place cannot be reached with them.
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
    """Why nothing of the audit can be read, told once; None where anything can."""
    ways: dict[Endpoint, list[str]] = {}
    for at, about in _ways(lake, scope, clients, live=live):
        if at is None:
            return None
        ways.setdefault(at, []).append(about)
    failures: dict[Failure, list[str]] = {}
    for at, names in ways.items():
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
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _ways(
    lake: Lake, scope: Sequence[Table], clients: Clients, *, live: bool
) -> Iterator[tuple[Endpoint | None, str]]:
    """How each place is reached, None for one that is local or on Azure, and what it is called."""
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

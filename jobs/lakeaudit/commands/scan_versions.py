"""Count the noncurrent versions below tables: bytes that no reader of a table sees, and that somebody pays for."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.s3_pages import version_pages
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.threads import beside

THREADS = 16


@dataclass(frozen=True)
class NoncurrentVersions:
    """Number and bytes of noncurrent versions; `unread`: why some locations could not be counted, by location."""

    files: int
    bytes: int
    unread: dict[str, str]


def noncurrent_versions(locations: Collection[Location], clients: Clients) -> NoncurrentVersions:
    """Count the noncurrent versions below locations, in buckets whose versioning is or was on; others have none."""
    outermost = [place for place in locations if place.is_in_s3 and not _is_inside_other(place, locations)]
    with beside(THREADS) as pool:
        counted = [*pool.map(lambda place: _count(place, clients), outermost)]
    unread = {
        place.uri: each for place, each in zip(outermost, counted, strict=True) if isinstance(each, str)
    }
    sums = [each for each in counted if not isinstance(each, str)]
    return NoncurrentVersions(sum(files for files, _ in sums), sum(size for _, size in sums), unread)


def _is_inside_other(place: Location, locations: Collection[Location]) -> bool:
    return any(other != place and other.contains(place) for other in locations)


def _count(place: Location, clients: Clients) -> tuple[int, int] | str:
    """Return number and bytes of the noncurrent versions below a location, or why they cannot be counted."""
    try:
        sizes = [*_sizes(place, clients)]
    except (ClientError, BotoCoreError) as error:
        return explain(error).what
    return sum(number for number, _ in sizes), sum(size for _, size in sizes)


def _sizes(place: Location, clients: Clients) -> Iterator[tuple[int, int]]:
    """Yield number and bytes by page."""
    s3 = clients.s3(*place)
    if "Status" not in s3.get_bucket_versioning(Bucket=place.bucket):
        return  # versioning was never on
    for page in version_pages(s3, place.bucket, place.prefix):
        old = [version for version in page.get("Versions", ()) if not version.get("IsLatest", True)]
        yield len(old), sum(version.get("Size", 0) for version in old)

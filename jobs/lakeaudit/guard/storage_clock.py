"""Compare the clock of this machine with that of storage: with a clock that is ahead, young files look old."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.files import CLOCK_STEP
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

MOST_BUCKETS = 5
"""The most buckets whose time is requested: the stores of one lake hardly have different clocks."""
Clock = Callable[[], datetime]


def clock_lead(clients: Clients, places: Iterable[Location], clock: Clock) -> timedelta:
    """Return by how much a clock is ahead of the stores of these locations; zero if it is not, or none shows its time.

    Stores write their time into each response, also into a refusal. A clock that is behind makes files look younger,
    which only protects more of them.
    """
    some = sorted({place.bucket: place for place in places if place.is_in_s3}.values())[:MOST_BUCKETS]
    leads = [before - date for place in some for before, date in _times(clients, place, clock)]
    lead = max(leads, default=timedelta(0))
    return lead if lead > CLOCK_STEP else timedelta(0)


def _times(clients: Clients, place: Location, clock: Clock) -> Iterator[tuple[datetime, datetime]]:
    """Yield the time of the clock before a request, and the time of its response."""
    before = clock()
    try:
        response = clients.s3(*place).head_bucket(Bucket=place.bucket)["ResponseMetadata"]
    except ClientError as error:
        response = error.response.get("ResponseMetadata", {})  # type: ignore[assignment]
    except BotoCoreError:
        return
    text = response.get("HTTPHeaders", {}).get("date", "")
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return
    yield before, date if date.tzinfo else date.replace(tzinfo=UTC)

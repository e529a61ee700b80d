"""Compare the clock of this machine with that of storage: with a clock that is ahead, young files look old."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.files import CLOCK_STEP
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_responses import response_time

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
        date = response_time(clients.s3(*place).head_bucket(Bucket=place.bucket))
    except ClientError as error:
        date = response_time(error.response)
    except BotoCoreError:
        return
    if date is not None:
        yield before, date

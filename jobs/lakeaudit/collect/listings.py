"""The listings of a live audit, each of which is made once although the tables are judged several times."""

from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock

from lakeaudit.evidence.protocol import Stored
from lakeaudit.keys import Location


class Listings:
    """Remembers what the listing of each location has returned; the number of a location is that of its source.

    Several threads may read different locations.
    """

    def __init__(self, places: Sequence[Location]) -> None:
        self._places = tuple(places)
        self._stored: dict[int, Stored] = {}
        self._lock = Lock()

    def numbered(self, places: Collection[Location]) -> Iterator[tuple[int, Location]]:
        """Yield these locations with their numbers."""
        wanted = frozenset(places)
        yield from ((number, place) for number, place in enumerate(self._places) if place in wanted)

    def read(self, number: int, list_place: Callable[[], Stored]) -> Stored:
        """Return the listing of a location; it is made unless it was made before.

        Raises:
            SourceError: the location cannot be listed; the next call tries again.
        """
        with self._lock:
            known = self._stored.get(number)
        if known is None:
            known = list_place()
            with self._lock:
                self._stored[number] = known
        return known

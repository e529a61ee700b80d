"""Order the events of one key, and recognise duplicates and late events. Pure.

S3 delivers events at least once and in any order. Sequencers of one key compare as text once the shorter is padded with
zeros on the right; those of different keys do not compare (Amazon S3 User Guide, "Event message structure"). Some
events have none, such as those of lifecycle rules: then the time of the event decides, and close times decide nothing.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import pairwise
from typing import Literal, NamedTuple

from lakeaudit.follow.events import Change, ObjectEvent

Order = Literal["earlier", "later", "same", "unknown"]
Key = tuple[str, str]
"""(bucket, key)."""
RESOLUTION = timedelta(seconds=1)
"""Times of events that differ by less order nothing: EventBridge writes whole seconds, and hosts of S3 differ."""


class _Moment(NamedTuple):
    """What orders an event among those of its key."""

    sequencer: str | None
    at: datetime | None
    request_id: str | None
    change: Change
    version_id: str | None


def order(first: ObjectEvent, second: ObjectEvent) -> Order:
    """Return when the first of two events of one key occurred, relative to the second."""
    return _order(_moment(first), _moment(second))


@dataclass(frozen=True)
class KeyEvents:
    """The different events of one key, the latest last.

    Attributes:
        is_ordered: whether the order of all of them is known.
    """

    events: tuple[ObjectEvent, ...]
    is_ordered: bool

    @property
    def last(self) -> ObjectEvent:
        return self.events[-1]


def by_key(events: Iterable[ObjectEvent]) -> Mapping[Key, KeyEvents]:
    """Return the events of each key in their order, without duplicates."""
    grouped: dict[Key, dict[_Moment, ObjectEvent]] = {}
    for event in events:
        grouped.setdefault((event.bucket, event.key), {}).setdefault(_moment(event), event)
    return {key: _in_order(distinct) for key, distinct in grouped.items()}


class DecidedEvents:
    """The latest decided event of each of the last `capacity` keys.

    Record an event only once it is decided: a copy that arrives before must not be dropped, since the first may fail.
    An event of a key that is no longer here is decided again, which costs a look and reports nothing twice.
    """

    def __init__(self, capacity: int = 50_000) -> None:
        self._capacity = capacity
        self._latest: OrderedDict[bytes, _Moment] = OrderedDict()

    def __len__(self) -> int:
        return len(self._latest)

    def covers(self, event: ObjectEvent) -> bool:
        """Return whether this event or a later one of its key was decided: the state after it is known."""
        decided = self._latest.get(_digest(event))
        return decided is not None and _order(_moment(event), decided) in ("earlier", "same")

    def record(self, event: ObjectEvent) -> None:
        """Record a decided event, unless a later one of its key is recorded."""
        name, moment = _digest(event), _moment(event)
        if moment.sequencer is not None:
            # it alone orders the events of the key: the others would only take memory
            moment = moment._replace(request_id=None, version_id=None)
        decided = self._latest.get(name)
        if decided is None or _order(moment, decided) != "earlier":
            self._latest[name] = moment
        self._latest.move_to_end(name)
        while len(self._latest) > self._capacity:
            self._latest.popitem(last=False)


def _digest(event: ObjectEvent) -> bytes:
    """Return 16 bytes for a key: a bucket's name has no slash, so that two keys never have one text."""
    return blake2b(f"{event.bucket}/{event.key}".encode(), digest_size=16).digest()


def _moment(event: ObjectEvent) -> _Moment:
    sequencer = None if event.sequencer is None else event.sequencer.rstrip("0")
    return _Moment(sequencer, event.at, event.request_id, event.change, event.version_id)


def _order(first: _Moment, second: _Moment) -> Order:
    if first.sequencer is not None and second.sequencer is not None:
        if first.sequencer == second.sequencer:
            return "same"
        return "earlier" if first.sequencer < second.sequencer else "later"
    if first == second and first.request_id is not None:
        return "same"
    if first.at is None or second.at is None or abs(first.at - second.at) <= RESOLUTION:
        return "unknown"
    return "earlier" if first.at < second.at else "later"


def _in_order(distinct: Mapping[_Moment, ObjectEvent]) -> KeyEvents:
    """Sort by sequencer if all have one, else by time; events without a time come first."""
    by_sequencer = all(moment.sequencer is not None for moment in distinct)
    ranks = {moment: _rank(moment, by_sequencer=by_sequencer) for moment in distinct}
    moments = sorted(distinct, key=ranks.__getitem__)
    orders = [_order(first, second) for first, second in pairwise(moments)]
    events = [distinct[moments[0]]]
    events += [distinct[moment] for moment, known in zip(moments[1:], orders, strict=True) if known != "same"]
    return KeyEvents(tuple(events), "unknown" not in orders)


def _rank(moment: _Moment, *, by_sequencer: bool) -> tuple[str, str]:
    return (moment.sequencer or "") if by_sequencer else "", moment.at.isoformat() if moment.at else ""

"""Decide which events are losses: track each object until its events are decided. Pure; the caller checks and reads.

An object whose key no table lists is given up once the newest commits of its table were read after its event. Any
other object is checked twice, some seconds apart, because a job may commit the removal of a file after it deleted it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakeaudit.evidence.references import Key
from lakeaudit.follow.events import ObjectEvent

SECOND_CHECK = 8.0
"""Seconds between the two checks of a loss."""
RETRY, LONGEST_RETRY, GIVE_UP = 10.0, 60.0, 900.0
"""Seconds until an object without an answer is checked again, at first and at most, and until it is given up."""
REFRESH = 10.0
"""Seconds between two reads of the newest commits of a table."""
MANY_WAITING = 20_000
"""So many objects that wait for the commits of a table let them be read at once."""

Loss, NoLoss, NoAnswer = "loss", "no loss", "no answer"
"""What a check shows."""


@dataclass
class Candidate:
    """An object that a table may need, with its events.

    Attributes:
        key: of the object.
        tables: which may need it.
        events: about it.
        since: when its first event arrived; all times are seconds of a monotonic clock.
        due: when it is checked next.
        shown: when a check first showed a loss; None: none has.
        attempts: the number of checks without an answer.
    """

    key: Key
    tables: frozenset[str]
    events: list[ObjectEvent]
    since: float
    due: float
    shown: float | None = None
    attempts: int = 0


@dataclass
class Waiting:
    """Removed objects of a table that no commit lists as far as it was read.

    Attributes:
        objects: their events by key.
        read_at: when the newest commits were last read.
    """

    objects: dict[Key, list[ObjectEvent]] = field(default_factory=dict)
    read_at: float = float("-inf")


@dataclass
class Decisions:
    """The objects whose events are not decided yet.

    Attributes:
        settled: is called with each object whose events are decided, and these events.
        candidates: objects that a table may need.
        waiting: by table the objects that wait for its newest commits.
        given_up: the number of objects about which nothing could be known for too long.
    """

    settled: Callable[[Key, Sequence[ObjectEvent]], None]
    candidates: dict[Key, Candidate] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    given_up: int = 0

    def __len__(self) -> int:
        return len(self.candidates) + sum(len(each.objects) for each in self.waiting.values())

    def add(
        self, key: Key, events: Sequence[ObjectEvent], tables: Collection[str], around: str | None, now: float
    ) -> None:
        """Add the events of an object.

        Args:
            key: of the object.
            events: about it.
            tables: which may need it, as far as their commits were read.
            around: the table that contains it; None: none does.
            now: the time.
        """
        if key in self.candidates:
            self.candidates[key].events += events
        elif tables:
            self._suspect(key, events, frozenset(tables), now)
        elif around is None or not removes(events):
            self.settled(key, events)
        else:
            self.waiting.setdefault(around, Waiting()).objects.setdefault(key, []).extend(events)

    def _suspect(self, key: Key, events: Iterable[ObjectEvent], tables: frozenset[str], now: float) -> None:
        self.candidates[key] = Candidate(key, tables, [*events], now, now)

    def to_read(self, now: float) -> list[str]:
        """Return the tables whose newest commits are to be read, since objects wait for them."""
        return [
            table
            for table, each in self.waiting.items()
            if each.objects and (now - each.read_at >= REFRESH or len(each.objects) >= MANY_WAITING)
        ]

    def commits_read(
        self,
        table: str,
        listed: Callable[[Sequence[Key]], Sequence[Collection[str]]],
        now: float,
        *,
        whole: bool,
    ) -> None:
        """Decide the objects that waited for the commits of a table.

        Args:
            table: its name.
            listed: the tables that list each object now.
            now: the time.
            whole: whether the commits could be read; if not, any of the objects may be needed.
        """
        waiting = self.waiting.setdefault(table, Waiting())
        keys = [*waiting.objects]
        for key, tables in zip(keys, listed(keys), strict=True):
            events = waiting.objects.pop(key)
            if tables or not whole:
                self._suspect(key, events, frozenset(tables) | ({table} if not whole else frozenset()), now)
            else:
                self.settled(key, events)
        waiting.read_at = now

    def due(self, now: float) -> list[Candidate]:
        """Return the objects that are to be checked now."""
        return [each for each in self.candidates.values() if each.due <= now]

    def decide(self, shown: Mapping[Key, str], now: float) -> list[Candidate]:
        """Decide objects by what a check shows (`Loss`, `NoLoss`, `NoAnswer`); return the losses that two have shown.

        These stay undecided until `reported`.
        """
        lost = []
        for key, outcome in shown.items():
            candidate = self.candidates[key]
            if outcome == NoLoss:
                self._end(candidate)
            elif outcome == NoAnswer:
                self._retry(candidate, now)
            elif candidate.shown is not None and now - candidate.shown >= SECOND_CHECK:
                lost.append(candidate)
            else:
                candidate.shown = now if candidate.shown is None else candidate.shown
                candidate.due = candidate.shown + SECOND_CHECK
        return lost

    def reported(self, candidates: Iterable[Candidate]) -> None:
        """End losses that were reported."""
        for each in candidates:
            self._end(each)

    def put_off(self, candidates: Iterable[Candidate], now: float) -> None:
        """Let losses that could not be reported be checked again a little later, however long that lasts."""
        for each in candidates:
            each.due = now + RETRY

    def _retry(self, candidate: Candidate, now: float) -> None:
        candidate.attempts += 1
        if now - candidate.since >= GIVE_UP:
            self.given_up += 1
            self._end(candidate)
        else:
            candidate.due = now + min(RETRY * candidate.attempts, LONGEST_RETRY)

    def _end(self, candidate: Candidate) -> None:
        del self.candidates[candidate.key]
        self.settled(candidate.key, candidate.events)


def removes(events: Iterable[ObjectEvent]) -> bool:
    """Return whether any of the events takes an object away."""
    return any(each.change not in ("created", "restored", "other") for each in events)


@dataclass
class OpenMessages:
    """The messages whose events are not all decided, in the order of their arrival."""

    _open: dict[str, set[Key]] = field(default_factory=dict)
    _of_key: dict[Key, list[str]] = field(default_factory=dict)
    _done: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, message: str, keys: Iterable[Key]) -> None:
        """Add a message about these objects; one without objects is decided."""
        open_keys = {*keys}
        if not open_keys:
            self._done.append(message)
            return
        known = self._open.setdefault(message, set())
        for key in open_keys - known:
            self._of_key.setdefault(key, []).append(message)
        known |= open_keys

    def settle(self, key: Key) -> None:
        """Record that all events of an object that arrived are decided."""
        for message in self._of_key.pop(key, ()):
            keys = self._open[message]
            keys.discard(key)
            if not keys:
                del self._open[message]
                self._done.append(message)

    def take_decided(self) -> list[str]:
        """Return the messages whose events became decided since the last call."""
        done, self._done = self._done, []
        return done

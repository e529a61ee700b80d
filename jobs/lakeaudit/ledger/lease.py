"""Allow one audit at a time, and one writer at a time, in a results place.

There are two leases. The audit lease admits one audit or one repair, which may take hours. The ledger lease admits one
writer of the ledger, the check file and the notices, for seconds: an audit of inventories holds it only while it
begins and while it settles and publishes, so that `follow` can report a loss meanwhile. A run that needs both
acquires the audit lease first.

In a folder a lease is a lock, which the system releases when the process ends. On S3 it is an object with a
heartbeat: a lease without a heartbeat for a minute was left by a killed process, and is taken over.
"""

import fcntl
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import TextIO
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import Busy, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.ledger.lease_object import LeaseObject, LeaseState, Words
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import code_of, explain
from lakeaudit.runtime.interrupt import at_interrupt
from lakeaudit.runtime.progress import Progress

NAME, LEDGER, CANARY = "_lease", "_ledger_lease", "_canary"

WAIT, LONGEST_WAIT = 2.0, 600.0
"""Seconds between attempts to get a lease that another audit holds, and seconds after which they end."""
LONGEST_BRIEF = 60.0
"""Seconds after which attempts end to get a lease that a brief command holds."""

BRIEF = ("follow", "alert", "ack", "unack", "baseline")
"""Beginnings of the names under which commands hold the lease that need it for some seconds."""

Check = Callable[[], None]
"""Raises `Busy` if the lease is not held any more."""


@dataclass(frozen=True)
class Pace:
    """Seconds between heartbeats, and seconds without one after which a lease is taken over (S3 has whole seconds)."""

    beat: float = 15.0
    expires: float = 60.0


PACE = Pace()
"""The pace of all leases that are given none."""


@contextmanager
def leased(
    place: Location,
    clients: Clients,
    run_id: str,
    progress: Progress,
    pace: Pace | None = None,
    pause: Callable[[float], None] = sleep,
) -> Iterator[Check]:
    """Hold both leases of a results place; wait for a command that holds the ledger lease for some seconds.

    Raises:
        Busy: another audit holds one of them.
        CannotPublish: the place cannot be written, or its store would let two audits write at once.
    """
    with (
        audit_lease(place, clients, run_id, progress, pace) as only_audit,
        ledger_lease_when_free(
            place, clients, run_id, progress, pace, pause, longest=LONGEST_BRIEF
        ) as only_writer,
    ):
        yield both(only_audit, only_writer)


def audit_lease(
    place: Location, clients: Clients, run_id: str, progress: Progress, pace: Pace | None = None
) -> AbstractContextManager[Check]:
    """Hold the audit lease of a results place: no other audit or repair runs. Raises as `leased`."""
    return _holding(place.join(NAME), clients, run_id, progress, pace)


def ledger_lease(
    place: Location, clients: Clients, run_id: str, progress: Progress, pace: Pace | None = None
) -> AbstractContextManager[Check]:
    """Hold the ledger lease of a results place: nobody else writes to the ledger. Raises as `leased`."""
    return _holding(place.join(LEDGER), clients, run_id, progress, pace)


def both(first: Check, second: Check) -> Check:
    """Return the check that a run holds two leases."""

    def check() -> None:
        first()
        second()

    return check


def _holding(
    lease: Location, clients: Clients, run_id: str, progress: Progress, pace: Pace | None
) -> AbstractContextManager[Check]:
    return (
        _locked(lease, run_id) if lease.is_local else _beating(lease, clients, run_id, progress, pace or PACE)
    )


class HeldBrieflyError(Busy):
    """A command holds the lease that needs it for some seconds."""


@contextmanager
def audit_lease_soon(
    place: Location, clients: Clients, run_id: str, progress: Progress, pause: Callable[[float], None] = sleep
) -> Iterator[Check]:
    """Hold the audit lease; wait for a command that needs it for some seconds, and not for an audit.

    Raises:
        Busy, CannotPublish: as `leased`.
    """
    with ExitStack() as held:
        yield _acquired_soon(held, lambda: audit_lease(place, clients, run_id, progress), pause)


@contextmanager
def ledger_lease_when_free(
    place: Location,
    clients: Clients,
    run_id: str,
    progress: Progress,
    pace: Pace | None = None,
    pause: Callable[[float], None] = sleep,
    longest: float = LONGEST_WAIT,
) -> Iterator[Check]:
    """Hold the ledger lease; wait for it, since every holder needs it for some seconds or minutes only.

    Raises:
        Busy: it is still held after `longest` seconds.
        CannotPublish: as `leased`.
    """
    with ExitStack() as held:
        lease = lambda: ledger_lease(place, clients, run_id, progress, pace)  # noqa: E731
        yield _acquired(held, lease, progress, pause, longest)


def _acquired_soon(
    held: ExitStack, lease: Callable[[], AbstractContextManager[Check]], pause: Callable[[float], None]
) -> Check:
    for _ in range(round(LONGEST_BRIEF / WAIT)):
        with suppress(HeldBrieflyError):
            return held.enter_context(lease())
        pause(WAIT)
    return held.enter_context(lease())


@contextmanager
def leased_when_free(
    place: Location, clients: Clients, run_id: str, progress: Progress, pause: Callable[[float], None] = sleep
) -> Iterator[Check]:
    """Hold both leases of a results place once other audits have released them.

    Raises:
        Busy: another audit still holds it after ten minutes.
        CannotPublish: as `leased`.
    """
    with ExitStack() as held:
        lease = lambda: leased(place, clients, run_id, progress, pause=pause)  # noqa: E731
        yield _acquired(held, lease, progress, pause, LONGEST_WAIT)


def _acquired(
    held: ExitStack,
    lease: Callable[[], AbstractContextManager[Check]],
    progress: Progress,
    pause: Callable[[float], None],
    longest: float,
) -> Check:
    if longest <= 0:
        return held.enter_context(lease())
    with suppress(Busy):
        return held.enter_context(lease())
    with progress.stage("wait to publish"):
        end = _seconds() + longest
        for _ in range(round(longest / WAIT)):
            if _seconds() > end:  # an attempt on S3 takes several seconds itself
                break
            pause(WAIT)
            with suppress(Busy):
                return held.enter_context(lease())
    return held.enter_context(lease())


def probe_conditions(place: Location, clients: Clients) -> None:
    """Test with a temporary object whether a store honours the conditional writes that keep two audits apart.

    Raises:
        CannotPublish: it does not, or the object cannot be written.
    """
    canary = LeaseObject(clients.s3(*place), place.join(CANARY))
    words = _words_of("doctor")
    with _refusals(canary.place):
        canary.remove()
        canary.write(words, None)
        honoured = canary.honours_conditions(words)
        canary.remove()
    if not honoured:
        raise _unfit(canary.place, "ignores")


@contextmanager
def _locked(lease: Location, run_id: str) -> Iterator[Check]:
    try:
        file = _opened(Path(lease.spark_path))
    except BlockingIOError:
        raise _busy(lease, Path(lease.spark_path).read_text(encoding="utf-8")) from None
    except (FileExistsError, NotADirectoryError) as error:
        folder = lease.spark_path.rpartition("/")[0]
        way_out = "move that file away, and put the folder with the earlier results back"
        raise CannotPublish(folder, "a file is in the place of this folder", way_out) from error
    except OSError as error:
        what = f"cannot be locked ({error.strerror})"
        raise CannotPublish(lease.uri, what, "let `results` be a folder that can be written") from error
    with file:
        file.write(run_id)
        file.flush()
        yield lambda: None
        file.truncate(0)


def _opened(path: Path) -> TextIO:
    """Return the file, locked and empty; the lock ends with the last handle to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    file.truncate(0)
    return file


@contextmanager
def _beating(
    lease: Location, clients: Clients, run_id: str, progress: Progress, pace: Pace
) -> Iterator[Check]:
    words = _words_of(run_id)
    store = LeaseObject(clients.s3(*lease), lease)
    with _refusals(lease):
        etag = _acquire(store, words, progress, pace)
        if not store.honours_conditions(words):
            raise _unfit(lease, "ignores")
    heart = _Heart(store, words, etag, pace)
    try:
        with at_interrupt(heart.stop):
            yield heart.check
    finally:
        heart.stop()


def _words_of(run_id: str) -> Words:
    """Return the content of a new holder's lease."""
    return {"holder": uuid4().hex, "run_id": run_id, "host": socket.gethostname(), "beat": 0}


def _acquire(store: LeaseObject, words: Words, progress: Progress, pace: Pace) -> str:
    """Acquire the lease, and return its ETag."""
    seen = store.read()
    if seen is not None and seen.holder is not None:
        with progress.stage("wait whether another audit is alive"):
            seen = _outlived(store, seen, pace)
    etag = store.write(words, seen.etag if seen else None)
    if etag is None:
        raise _busy(store.place, "that was faster just now")
    return etag


def _outlived(store: LeaseObject, held: LeaseState, pace: Pace) -> LeaseState | None:
    """Return the lease once it is free, or too old."""
    seen: LeaseState | None = held
    while seen is not None and seen.holder is not None and seen.age <= timedelta(seconds=pace.expires):
        if seen.etag != held.etag:
            raise _busy(store.place, seen.run_id)
        sleep(pace.beat / 4)
        seen = store.read()
    return seen


class _Heart:
    """Renews the lease, and knows whether this process still holds it."""

    def __init__(self, store: LeaseObject, words: Words, etag: str, pace: Pace) -> None:
        self._store, self._words, self._etag, self._pace = store, words, etag, pace
        self._last, self._lost, self._stopped = _seconds(), False, Event()
        self._thread = Thread(target=self._beats, name="lease", daemon=True)
        self._thread.start()

    def _beats(self) -> None:
        """Renew the lease until stopped, or until another audit takes it over; a failed request is repeated."""
        for beat in count(1):
            if self._lost or self._stopped.wait(self._pace.beat):
                return
            with suppress(ClientError, BotoCoreError):
                self._beat(beat)

    def _beat(self, number: int) -> None:
        at = _seconds()
        etag = self._store.write(self._words | {"beat": number}, self._etag)
        if etag is None:
            self._lost = True
        else:
            self._etag, self._last = etag, at

    def check(self) -> None:
        """Raise `Busy` if another audit may have taken over."""
        if self._lost or _seconds() - self._last > self._pace.expires:
            what = "another audit may have taken over the results while this one stood still"
            hint = "nothing of this run is published; run it again"
            raise Busy(self._store.place.uri, what, hint, retryable=True)

    def stop(self) -> None:
        """Release the lease; one that cannot be released expires."""
        self._stopped.set()
        self._thread.join(self._pace.beat)
        if not self._lost and not self._thread.is_alive():
            with suppress(ClientError, BotoCoreError):
                self._store.write(self._words | {"holder": None}, self._etag)


def _seconds() -> float:
    """Return a monotonic time that includes sleep of the machine, which Linux's `monotonic` does not."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _busy(lease: Location, run_id: str) -> Busy:
    what = f"another audit writes here ({run_id or 'unknown'})"
    kind = HeldBrieflyError if run_id.startswith(BRIEF) else Busy
    return kind(lease.uri, what, "run again when it has ended", retryable=True)


def _unfit(lease: Location, how: str) -> CannotPublish:
    what = f"the store {how} conditional writes, so two audits could overwrite each other's results"
    return CannotPublish(lease.uri, what, "use a store that honours them, or a folder, for `results`")


@contextmanager
def _refusals(lease: Location) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and code_of(error) == "NotImplemented":
            raise _unfit(lease, "does not know") from error
        raise CannotPublish(lease.uri, *explain(error)) from error

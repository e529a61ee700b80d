"""Follow the journal table of S3 Metadata as a queue: each new data file brings the changes of its rows.

The position is a local file: the data files that were decided, and the time of the state that had them. A process that
is killed reads the files again that it had not decided. The first process begins at the newest state; the next audit
finds what was lost before.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from lakeaudit.errors import AuditError, CannotAudit, CannotPublish, SourceError
from lakeaudit.evidence.events.journal.reader import newest_files
from lakeaudit.evidence.files import File
from lakeaudit.evidence.protocol import Context
from lakeaudit.follow.events import ParsedMessage
from lakeaudit.follow.journal_rows import ROWS, parsed_rows
from lakeaudit.follow.queue import MOST_PARTS, Batch, Message
from lakeaudit.keys import Location
from lakeaudit.runtime.whole_files import replace_file
from lakeaudit.schemas import plain_time

POLL = 15.0
"""Seconds between two reads of the table's newest state; S3 adds rows within minutes."""
LATE = timedelta(hours=1)
"""Older rows than this before the last decided state were decided: a compaction copies them into new files."""
NAME = "journal.json"


@dataclass
class _Reading:
    """A data file that is read, with the ids of its messages that are not decided."""

    file: File
    at: datetime
    messages: Iterator[ParsedMessage]
    open: set[str] = field(default_factory=set)
    is_whole: bool = False


class JournalQueue:
    """The new rows of a journal, in messages, with the operations of `queue.EventQueue`."""

    def __init__(
        self,
        place: Location,
        folder: Path,
        context: Callable[[], Context],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place, self._path, self._context, self._seconds = place, folder / NAME, context, seconds
        self._position = _Position.read(self._path, place)
        self._waiting: list[tuple[File, datetime]] = []
        self._readings: dict[str, _Reading] = {}
        self._newest: datetime | None = None
        self._identity = ""
        self._read = 0
        self._polled_at = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._readings.clear()

    def missing(self) -> int:
        """Return 0: rows stay in the journal until they are older than the expiration that its owner has set."""
        return 0

    def collect(self, window: timedelta, idle: timedelta) -> Batch:
        """Return messages of new data files; wait up to `idle` for the next state if there are none.

        Raises:
            CannotAudit: a request failed, or the table cannot be read now; `retryable` if another may succeed.
        """
        end = self._seconds() + max(window, idle).total_seconds()
        while not (messages := self._messages()):
            wait = min(self._polled_at + POLL, end) - self._seconds()
            if wait > 0:
                time.sleep(wait)
            if self._seconds() < self._polled_at + POLL:
                return Batch()
            self._poll()
            if not self._waiting:
                return Batch()
        return Batch(tuple(messages))

    def hidden(self, messages: Sequence[Message]) -> AbstractContextManager[None]:  # noqa: ARG002 - see `EventQueue`
        """Do nothing: no other process takes rows of the journal away."""
        return nullcontext()

    def delete(self, messages: Sequence[Message]) -> None:
        """Record that messages are decided; the position moves past the files that have no others.

        Raises:
            CannotPublish: the position cannot be written.
        """
        for message in messages:
            reading = self._readings.get(message.receipt)
            if reading is not None:
                reading.open.discard(message.id)
        self._settle()

    def release(self, messages: Sequence[Message]) -> None:
        """Do nothing: the next process reads the files again whose rows are not decided."""

    def _poll(self) -> None:
        """Find the data files of the newest state that were not decided."""
        context = self._context()
        try:
            state = newest_files(context.clients, self._place, context.now, context.engine, self._identity)
        except SourceError as error:  # S3 may be replacing its metadata
            raise CannotAudit(error.where, error.what, error.hint, retryable=True) from error
        self._polled_at = self._seconds()
        if state is None:
            return
        self._identity = state.identity
        names = {file.place.uri for file in state.files}
        if self._position.since is None:
            self._position = _Position(self._place.uri, frozenset(names), state.at)
            self._write()
            return
        pending = {*self._readings, *(file.place.uri for file, _ in self._waiting)}
        new = [file for file in state.files if file.place.uri not in self._position.files | pending]
        self._waiting += [(file, state.at) for file in new]
        self._newest = state.at
        self._position = replace(self._position, files=self._position.files & names)
        self._settle()

    def _messages(self) -> list[Message]:
        """Return the next messages of the files that wait, up to about `MOST_PARTS` rows."""
        found: list[Message] = []
        while len(found) < MOST_PARTS // ROWS and (reading := self._next_reading()):
            try:
                parsed = next(reading.messages, None)
            except AuditError:
                self._begin_again(reading)
                if found:
                    break
                raise
            if parsed is None:
                reading.is_whole = True
                self._settle()
                continue
            self._read += 1
            name = f"{reading.file.place.uri}#{self._read}"
            reading.open.add(name)
            age = max(self._context().now - reading.at, timedelta(0))
            found.append(Message(name, reading.file.place.uri, parsed, age))
        return found

    def _begin_again(self, reading: _Reading) -> None:
        """Read a file again from its beginning, after a request has failed."""
        del self._readings[reading.file.place.uri]
        self._waiting.insert(0, (reading.file, reading.at))

    def _next_reading(self) -> _Reading | None:
        for reading in self._readings.values():
            if not reading.is_whole:
                return reading
        if not self._waiting:
            return None
        file, at = self._waiting.pop(0)
        since = self._position.since
        least = None if since is None else plain_time(since - LATE)
        reading = _Reading(file, at, parsed_rows(self._context().clients, file, least))
        self._readings[file.place.uri] = reading
        return reading

    def _settle(self) -> None:
        """Move the position past the files whose messages are all decided."""
        done = [name for name, each in self._readings.items() if each.is_whole and not each.open]
        for name in done:
            del self._readings[name]
        before = self._position
        since = before.since
        if not self._readings and not self._waiting and self._newest is not None:
            since = self._newest
        self._position = replace(before, files=before.files.union(done), since=since)
        if self._position != before:
            self._write()

    def _write(self) -> None:
        self._position.write(self._path)


@dataclass(frozen=True)
class _Position:
    """What of a journal was decided.

    Attributes:
        place: URI of the journal; the position in another journal does not count.
        files: URIs of the data files of the newest state that were decided.
        since: the time of the last state whose files were all decided; None: nothing was read yet.
    """

    place: str
    files: frozenset[str] = frozenset()
    since: datetime | None = None

    @classmethod
    def read(cls, path: Path, place: Location) -> Self:
        """Return the position in a file; one of another journal, or a damaged one, is like none."""
        try:
            written = json.loads(path.read_text())
            if written["place"] == place.uri:
                return cls(place.uri, frozenset(written["files"]), datetime.fromisoformat(written["since"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return cls(place.uri)

    def write(self, path: Path) -> None:
        since = self.since.isoformat() if self.since else ""
        content = json.dumps({"place": self.place, "files": sorted(self.files), "since": since}).encode()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content)
        except OSError as error:
            raise CannotPublish(
                str(path), f"cannot be written: {error.strerror}", "set `follow.state`"
            ) from error

"""Turn lists of plain writer manifests into parts: rows of kind `events`, `acts` and `notes`. Runs in tasks."""

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.manifest.file_list.columns import Columns
from lakeaudit.evidence.manifest.file_list.fold import ACTS, EVENT, EVENTS
from lakeaudit.evidence.manifest.file_list.parse_columns import column_events
from lakeaudit.evidence.manifest.file_list.parse_rows import Event, event
from lakeaudit.evidence.manifest.file_list.read_lines import ListFile, pieces
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import NOTE

ROWS_A_BATCH = 32_768
MOST_ACTS = 10_000
"""Most acts that are buffered; the same act may come twice after that, which does not change the fold."""

_REQUEST_BYTES = 1 << 16
"""Cost of opening a list, as the bytes that are read in that time."""
_MOST_BYTES = 256 << 20


def parts(
    lists: Sequence[ListFile], clients: Clients, source: str, until: datetime | None, tasks: int
) -> list[Part]:
    """Distribute the lists over about `tasks` parts of even weight, or more if these were too heavy.

    Events after `until` (naive UTC) are left out; None: all count.
    """
    total = sum(listed.size for listed in lists)
    bins = [
        (0, number, list[ListFile]())
        for number in range(min(len(lists), max(tasks, -(-total // _MOST_BYTES))))
    ]
    for listed in sorted(lists, key=lambda listed: -listed.size):
        weight, number, held = heapq.heappop(bins)
        held.append(listed)
        heapq.heappush(bins, (weight + listed.size + _REQUEST_BYTES, number, held))
    return [
        Part(
            source,
            partial(read_lists, lists=tuple(held), clients=clients, source=source, until=until),
            weight,
        )
        for weight, _, held in bins
    ]


def read_lists(
    con: Connection, lists: Sequence[ListFile], clients: Clients, source: str, until: datetime | None
) -> Batches:
    """Yield the rows of some lists: `events` as fold.EVENTS, `acts` as fold.ACTS, one row of schemas.NOTE per list."""
    summaries = Summaries({listed.number: listed for listed in lists}, source)
    for rows in event_tables(con, lists, clients):
        yield "events", summaries.accept(rows, until)
        if len(summaries.acts) > MOST_ACTS:
            yield "acts", summaries.take_acts()
    yield "acts", summaries.take_acts()
    yield "acts", summaries.doubts()
    yield "notes", summaries.notes()


def event_tables(con: Connection, lists: Iterable[ListFile], clients: Clients) -> Iterator[pa.Table]:
    """Yield every row of the lists, in the columns of fold.EVENT."""
    held: list[Event] = []
    for listed in lists:
        for piece in pieces(listed, clients):
            if isinstance(piece, Columns):
                events, others = column_events(con, piece, listed)
                yield events
                held += [event(line, listed) for line in others]
            else:
                held.append(event(piece, listed))
            if len(held) >= ROWS_A_BATCH:
                yield event_table(held)
                held = []
    if held:
        yield event_table(held)


def event_table(rows: Sequence[Event]) -> pa.Table:
    """Return events in the columns of fold.EVENT."""
    columns = zip(zip(*rows, strict=True), EVENT.values(), strict=True)
    return pa.table([pa.array(values, kind) for values, kind in columns], list(EVENT))


@dataclass
class Summary:
    """Sums up a list before its rows are judged.

    `first` is the line of its first fault, with the fault; `lost` the last line with a fault and without a key.
    """

    rows: int = 0
    faults: int = 0
    first: tuple[int, str] | None = None
    unread: bool = False
    oldest: datetime | None = None
    lost: int | None = None

    def add_fault(self, line: int, fault: str, key: str | None, *, unread: bool) -> None:
        self.faults += 1
        self.first = min(self.first or (line, fault), (line, fault))
        self.unread = self.unread or unread
        if key is None:
            self.lost = max(self.lost or 0, line)

    def add_rows(self, rows: int, oldest: datetime) -> None:
        self.rows += rows
        self.oldest = min(self.oldest or oldest, oldest)


@dataclass
class Summaries:
    """Holds the summary of each list, and the replace acts that are not yet returned."""

    lists: dict[int, ListFile]
    source: str
    by_list: dict[int, Summary] = field(default_factory=dict)
    acts: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def accept(self, events: pa.Table, until: datetime | None) -> pa.Table:
        """Count rows of fold.EVENT and return fold.EVENTS rows; those after `until` (None: all count) are left out."""
        in_time = (pc.field("at") <= until) | ~pc.field("fault").is_null() if until is not None else None
        timely = events if in_time is None else events.filter(in_time)
        self.add(timely)
        keyed = timely.filter(pc.field("key").is_valid())
        named = pa.repeat(pa.scalar(self.source, pa.string()), keyed.num_rows)
        return keyed.add_column(0, EVENTS.field("source"), named)

    def add(self, events: pa.Table) -> None:
        """Count rows of fold.EVENT, of any lists."""
        faulty = events.filter(pc.field("fault").is_valid())
        for row in faulty.select(["list_no", "line", "fault", "key", "unread"]).to_pylist():
            self._of(row.pop("list_no")).add_fault(**row)
        sound = events.filter(pc.field("fault").is_null())
        counted = sound.group_by("list_no").aggregate([("line", "count"), ("at", "min")])
        for row in counted.to_pylist():
            self._of(row["list_no"]).add_rows(row["line_count"], row["at_min"])
        replaced = sound.filter(pc.field("action") == "replace")
        scoped = replaced.group_by(["list_no", "at", "scope_bucket", "scope_key"]).aggregate(
            [("line", "min")]
        )
        for row in scoped.to_pylist():
            act = (row["list_no"], row["at"], row["scope_bucket"], row["scope_key"])
            self.acts[act] = min(self.acts.get(act, row["line_min"]), row["line_min"])

    def _of(self, number: int) -> Summary:
        return self.by_list.setdefault(number, Summary())

    def take_acts(self) -> pa.Table:
        """Return fold.ACTS rows of the acts so far, and clear the buffer."""
        held, self.acts = self.acts, {}
        return duck.small(
            ACTS,
            [
                (self.source, self.lists[number].table, number, line, at, bucket, key)
                for (number, at, bucket, key), line in held.items()
            ],
        )

    def doubts(self) -> pa.Table:
        """Return fold.ACTS rows of faults that may concern any file of a table: the last such line of each list."""
        return duck.small(
            ACTS,
            [
                (self.source, listed.table, number, summary.lost, listed.modified_at, None, None)
                for number, summary in self.by_list.items()
                if summary.lost is not None
                for listed in (self.lists[number],)
            ],
        )

    def notes(self) -> pa.Table:
        """Return schemas.NOTE rows, one for each list that has any rows."""
        return duck.small(
            NOTE,
            [
                (self.source, _plain(self.lists[number].place.uri), None, 0, self._data(number, summary))
                for number, summary in self.by_list.items()
            ],
        )

    def _data(self, number: int, summary: Summary) -> str:
        oldest = summary.oldest.isoformat() if summary.oldest is not None else None
        values = {
            **vars(summary),
            "oldest": oldest,
            "table_name": self.lists[number].table,
            "list_no": number,
        }
        return json.dumps(values)


def _plain(text: str) -> str:
    """Return a name that is valid text; names of local files may have invalid bytes."""
    return text.encode(errors="replace").decode()

"""Turn timelines into parts: STEP rows of changes to files, and NOTE rows of unreadable files."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from lakeaudit.errors import SourceError
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.hudi.state.rows import STEP, STEPS
from lakeaudit.evidence.manifest.hudi.timeline.appends import AppendTotals, append_totals
from lakeaudit.evidence.manifest.hudi.timeline.archive import archived_instants
from lakeaudit.evidence.manifest.hudi.timeline.instants import PLANNED, Instant
from lakeaudit.evidence.manifest.hudi.timeline.names import time_of
from lakeaudit.evidence.manifest.hudi.timeline.payload import (
    Act,
    Reason,
    acts,
    record_of,
    rows_not_written,
    taken_back,
)
from lakeaudit.evidence.manifest.hudi.timeline.write_facts import FACTS, WriteFacts, write_facts
from lakeaudit.evidence.protocol import Batches, Part, note_row
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

GONE = "it is missing"
OLDEST = "oldest"
NOT_WRITTEN = "not_written"
DID = "did"
TAKEN_BACK, ARCHIVED, FIRST = "taken_back", "archived", "first"
APPENDED = "appended"
_TAKEN = ("replaced", "cleaned", "undone")
_ROWS = 32_768
_THREADS = 16
_LEAST, _MOST = 4 << 20, 64 << 20
"""Least and most bytes of instants in a part."""


@dataclass(frozen=True)
class OfTable:
    """Holds the constants for the instants of one table: its name, its place, the reading, and its layout.

    Archived instants that are later than `until` are left out; None: all count. `wanted` are instants to look up in the
    archive, `completed_twice` those that several files complete.
    """

    name: str
    location: Location
    reading: int
    layout: int
    utc: bool
    until: datetime | None = None
    wanted: frozenset[str] = frozenset()
    completed_twice: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fate:
    """Names a table's instants that are not in its timeline.

    Attributes:
        taken_back: by a rollback or restore, or by the plan of one.
        archived: those of the wanted ones that the archive has.
        first: the oldest instant of the archive; empty if it has none.
    """

    taken_back: frozenset[str] = frozenset()
    archived: frozenset[str] = frozenset()
    first: str = ""


@dataclass(frozen=True)
class Problem:
    """Describes an unreadable file of a timeline: of an instant (by its action), or of the archive (no action)."""

    table: str
    action: str
    subject: str
    reason: str


@dataclass(frozen=True)
class Item:
    """Names one file of a table's timeline."""

    table: OfTable
    instant: Instant


def problems(notes: Iterable[Mapping[str, object]]) -> list[Problem]:
    """Parse NOTE rows of unreadable files."""
    found = [(note, json.loads(str(note["data"]))) for note in notes if note["reason"]]
    return [
        Problem(data["table"], data["action"], str(note["subject"]), str(note["reason"]))
        for note, data in found
    ]


def oldest(notes: Iterable[Mapping[str, object]]) -> dict[str, datetime]:
    """Return by table when the oldest instant of its archive was completed."""
    parsed = [(str(n["subject"]), json.loads(str(n["data"]))) for n in notes if not n["reason"] and n["data"]]
    found: dict[str, datetime] = {}
    for table, data in parsed:
        if OLDEST in data:
            at = datetime.fromisoformat(data[OLDEST])
            found[table] = min(at, found.get(table, at))
    return found


def not_written(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, int]]:
    """Return by table and instant how many rows writes could not write, as they record it."""
    found: dict[str, dict[str, int]] = {}
    for note in notes:
        data = json.loads(str(note["data"] or "{}"))
        if NOT_WRITTEN in data:
            found.setdefault(str(note["subject"]), {})[data["instant"]] = data[NOT_WRITTEN]
    return found


def files_done(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return by table and instant how many files it wrote, and how many it removed."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for note in notes:
        data = json.loads(str(note["data"] or "{}"))
        if DID in data:
            added, removed = data[DID]
            found.setdefault(str(note["subject"]), {})[data["instant"]] = (added, removed)
    return found


def appends(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, AppendTotals]]:
    """Return by table and instant the sums of an append."""
    found: dict[str, dict[str, AppendTotals]] = {}
    for note in notes:
        data = json.loads(str(note["data"] or "{}"))
        if APPENDED in data:
            found.setdefault(str(note["subject"]), {})[data["instant"]] = AppendTotals(**data[APPENDED])
    return found


def fates(notes: Iterable[Mapping[str, object]]) -> dict[str, Fate]:
    """Return by table the instants that are not in its timeline."""
    found: dict[str, Fate] = {}
    for note in notes:
        data = json.loads(str(note["data"] or "{}"))
        if TAKEN_BACK in data or FIRST in data:
            table, first = str(note["subject"]), data.get(FIRST, "")
            fate = found.get(table, Fate())
            found[table] = Fate(
                fate.taken_back.union(data.get(TAKEN_BACK, ())),
                fate.archived.union(data.get(ARCHIVED, ())),
                min(filter(None, (first, fate.first)), default=""),
            )
    return found


def parts(items: Sequence[Item], source: str, clients: Clients, tasks: int) -> list[Part]:
    """Return parts of several files each."""
    size = min(max(sum(map(_weight, items)) // max(tasks, 1), _LEAST), _MOST)
    found: list[Part] = []
    held: list[Item] = []
    for item in items:
        held.append(item)
        if sum(map(_weight, held)) >= size:
            found.append(_part(held, source, clients))
            held = []
    return [*found, *([_part(held, source, clients)] if held else [])]


def _weight(item: Item) -> int:
    return max(item.instant.file.size, 1)


def _part(items: Sequence[Item], source: str, clients: Clients) -> Part:
    read = partial(read_items, items=tuple(items), source=source, clients=clients)
    return Part(source, read, sum(map(_weight, items)))


def read_items(
    con: Connection,  # noqa: ARG001 - every part receives one
    items: Sequence[Item],
    source: str,
    clients: Clients,
) -> Batches:
    """Yield STEP rows of all that these instants did, and NOTE rows of those that cannot be read."""
    held: list[tuple[Any, ...]] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        for item, content in zip(items, pool.map(partial(_content, clients), items), strict=True):
            facts = _FileFacts()
            try:
                for row in _rows(item, content, facts):
                    held.append(row)
                    if len(held) >= _ROWS:
                        yield STEPS, duck.small(STEP, held)
                        held = []
            except Torn as torn:
                data = json.dumps({"table": item.table.name, "action": item.instant.action})
                subject = item.instant.file.place.uri.encode(errors="replace").decode()
                yield "notes", note_row(source, subject, str(torn), count=1, data=data)
            for known in facts.notes(item):
                yield "notes", note_row(source, item.table.name, data=json.dumps(known))
    if held:
        yield STEPS, duck.small(STEP, held)


@dataclass
class _FileFacts:
    """Collects a file's facts besides its rows: times of archived instants, and rows that a write did not write."""

    times: list[datetime] = field(default_factory=list)
    not_written: int = 0
    did: tuple[int, int] | None = None
    appended: AppendTotals | None = None
    facts: WriteFacts | None = None
    taken_back: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    first: str = ""

    def notes(self, item: Item) -> Iterator[dict[str, object]]:
        if self.times:
            yield {OLDEST: min(self.times).isoformat()}
        if self.not_written:
            yield {NOT_WRITTEN: self.not_written, "instant": item.instant.begin}
        if self.did is not None:
            yield {DID: self.did, "instant": item.instant.begin}
        if self.appended is not None:
            yield {APPENDED: asdict(self.appended), "instant": item.instant.begin}
        if self.facts is not None:
            yield {FACTS: asdict(self.facts), "file": item.instant.file.name}
        if self.taken_back:
            yield {TAKEN_BACK: self.taken_back}
        if self.first:
            yield {ARCHIVED: self.archived, FIRST: self.first}


def _content(clients: Clients, item: Item) -> bytes | Torn:
    try:
        content = read_bytes(clients, item.instant.file.place, size=item.instant.file.size)
    except SourceError as error:
        return Torn(error.what)
    return Torn(GONE) if content is None else content


def _rows(item: Item, content: bytes | Torn, facts: _FileFacts) -> Iterator[tuple[Any, ...]]:
    """Yield STEP rows of one file; add its other facts to `facts`."""
    instant, table = item.instant, item.table
    if isinstance(content, Torn):
        raise content
    if instant.action:
        reason = Reason(instant.begin, instant.completed)
        record = record_of(content)
        facts.not_written = rows_not_written(record)
        facts.taken_back = taken_back(instant.action, instant.state == PLANNED, record)
        added = removed = 0
        for act in acts(instant.action, instant.state == PLANNED, record, reason):
            added, removed = added + (act.act == "wrote"), removed + (act.act in _TAKEN)
            yield _row(table, act, instant.begin, instant.at)
        if instant.state != PLANNED:
            facts.appended, facts.did = append_totals(instant.action, record), (added, removed)
            twice = instant.begin in table.completed_twice
            facts.facts = write_facts(instant.action, instant.begin, record, completed_twice=twice)
        return
    for each in archived_instants(content, table.layout):
        known = time_of(each.completed or each.begin, utc=table.utc)
        if table.until is not None and known is not None and known > table.until:
            continue
        at = instant.at if known is None else min(known, instant.at)
        facts.times.append(at)
        facts.first = min(facts.first or each.begin, each.begin)
        facts.archived += [each.begin] if each.begin in table.wanted else []
        facts.taken_back += taken_back(each.action, False, each.record)
        for act in acts(each.action, False, each.record, Reason(each.begin, each.completed)):
            yield _row(table, act, each.begin, at, archived=True)


def _row(table: OfTable, act: Act, begin: str, at: datetime, *, archived: bool = False) -> tuple[Any, ...]:
    group = f"{act.folder}/{act.file_id}"
    below = [part for part in (act.folder, act.name) if part]
    place = (None, None) if act.name is None else table.location.join(*below)
    return (
        *(table.name, table.reading, group, act.folder, *place, act.act, act.kind, act.slice, plain_time(at)),
        *(act.size, act.least_size, act.records, act.before, act.grown, begin, archived),
    )

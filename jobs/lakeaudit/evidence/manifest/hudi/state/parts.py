"""Turn timelines into parts: STEP rows of changes to files, and NOTE rows of unreadable files."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from lakeaudit.errors import SourceError
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.hudi.state.notes import GONE, FileFacts
from lakeaudit.evidence.manifest.hudi.state.plain_writes import PlainWrites, Write
from lakeaudit.evidence.manifest.hudi.state.rows import STEP, STEPS
from lakeaudit.evidence.manifest.hudi.timeline.appends import append_totals
from lakeaudit.evidence.manifest.hudi.timeline.archive import (
    ArchivedInstant,
    ArchivedInstants,
    archived_instants,
)
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
from lakeaudit.evidence.manifest.hudi.timeline.write_facts import write_facts
from lakeaudit.evidence.protocol import Batches, Part, note_row
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import plain_time

_Row = tuple[Any, ...]
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
class Item:
    """Names one file of a table's timeline."""

    table: OfTable
    instant: Instant


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
    con: Connection,
    items: Sequence[Item],
    source: str,
    clients: Clients,
) -> Batches:
    """Yield STEP rows of all that these instants did, and NOTE rows of those that cannot be read."""
    held: list[_Row] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        for item, content in zip(items, pool.map(partial(_content, clients), items), strict=True):
            facts = FileFacts()
            try:
                for rows in _rows(con, item, content, facts):
                    if isinstance(rows, Relation):
                        yield STEPS, rows
                        continue
                    held.append(rows)
                    if len(held) >= _ROWS:
                        yield STEPS, duck.small(STEP, held)
                        held = []
            except Torn as torn:
                data = json.dumps({"table": item.table.name, "action": item.instant.action})
                subject = item.instant.file.place.uri.encode(errors="replace").decode()
                yield "notes", note_row(source, subject, str(torn), count=1, data=data)
            for known in facts.notes(item.instant):
                yield "notes", note_row(source, item.table.name, data=json.dumps(known))
    if held:
        yield STEPS, duck.small(STEP, held)


def _content(clients: Clients, item: Item) -> bytes | Torn:
    try:
        content = read_bytes(clients, item.instant.file.place, size=item.instant.file.size)
    except SourceError as error:
        return Torn(error.what)
    return Torn(GONE) if content is None else content


def _rows(con: Connection, item: Item, content: bytes | Torn, facts: FileFacts) -> Iterator[_Row | Relation]:
    """Yield STEP rows of one file; add its other facts to `facts`."""
    if isinstance(content, Torn):
        raise content
    if item.instant.action:
        yield from _of_instant(item, content, facts)
        return
    for some in archived_instants(content, item.table.layout):
        yield from _of_archive(con, item, some, facts)


def _of_instant(item: Item, content: bytes, facts: FileFacts) -> Iterator[_Row]:
    instant, table = item.instant, item.table
    record, planned = record_of(content), instant.state == PLANNED
    facts.not_written = rows_not_written(record)
    facts.taken_back = taken_back(instant.action, planned, record)
    added = removed = 0
    for act in acts(instant.action, planned, record, Reason(instant.begin, instant.completed)):
        added, removed = added + (act.act == "wrote"), removed + (act.act in _TAKEN)
        yield _row(table, act, instant.begin, instant.at)
    if not planned:
        facts.appended, facts.did = append_totals(instant.action, record), (added, removed)
        twice = instant.begin in table.completed_twice
        facts.facts = write_facts(instant.action, instant.begin, record, completed_twice=twice)


def _of_archive(
    con: Connection, item: Item, some: ArchivedInstants, facts: FileFacts
) -> Iterator[_Row | Relation]:
    """Yield the rows of plain writes in SQL, and the others one by one; none behind one that is not understood."""
    plain = {
        number: writes
        for each in some.writes
        for writes in [PlainWrites(con, each)]
        for number in writes.numbers
    }
    known: dict[PlainWrites, list[Write]] = {}
    torn = None
    for number, each in enumerate(some.instants):
        at = _archived_at(item, each)
        if at is None:
            continue
        facts.add_archived(each.begin, at, wanted=each.begin in item.table.wanted)
        if number in plain:
            known.setdefault(plain[number], []).append(Write(number, at, each.begin, each.completed))
            continue
        try:
            yield from _of_archived(item.table, each, at, facts)
        except Torn as error:
            torn = error
            break
    for writes, of_them in known.items():
        yield writes.steps(item.table.name, item.table.location, item.table.reading, of_them)
    if torn is not None:
        raise torn


def _archived_at(item: Item, instant: ArchivedInstant) -> datetime | None:
    """Return when an archived instant was completed; None if that was later than the state that is read."""
    known, until = time_of(instant.completed or instant.begin, utc=item.table.utc), item.table.until
    if known is None:
        return item.instant.at
    return None if until is not None and known > until else min(known, item.instant.at)


def _of_archived(table: OfTable, instant: ArchivedInstant, at: datetime, facts: FileFacts) -> Iterator[_Row]:
    record = instant.read()
    facts.taken_back += taken_back(instant.action, False, record)
    for act in acts(instant.action, False, record, Reason(instant.begin, instant.completed)):
        yield _row(table, act, instant.begin, at, archived=True)


def _row(table: OfTable, act: Act, begin: str, at: datetime, *, archived: bool = False) -> tuple[Any, ...]:
    group = f"{act.folder}/{act.file_id}"
    below = [part for part in (act.folder, act.name) if part]
    place = (None, None) if act.name is None else table.location.join(*below)
    return (
        *(table.name, table.reading, group, act.folder, *place, act.act, act.kind, act.slice, plain_time(at)),
        *(act.size, act.least_size, act.records, act.before, act.grown, begin, archived),
    )

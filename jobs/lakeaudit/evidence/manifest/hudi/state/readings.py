"""Read timelines of many tables, and read tables again that changed meanwhile."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.lineage import LastState, LastStates, Witness
from lakeaudit.evidence.manifest import table_states
from lakeaudit.evidence.manifest.hudi.state.groups import COMPLETED, states
from lakeaudit.evidence.manifest.hudi.state.lost_updates import RIVALS, RivalWrites, rival_writes
from lakeaudit.evidence.manifest.hudi.state.metadata_table import broken_indexes, index_files
from lakeaudit.evidence.manifest.hudi.state.notes import (
    GONE,
    Fate,
    Problem,
    appends,
    fates,
    files_done,
    not_written,
    oldest,
    problems,
)
from lakeaudit.evidence.manifest.hudi.state.parts import Item, OfTable, parts
from lakeaudit.evidence.manifest.hudi.state.replaced_groups import REPLACED, ReplacedGroups, replaced_groups
from lakeaudit.evidence.manifest.hudi.timeline.appends import AppendTotals
from lakeaudit.evidence.manifest.hudi.timeline.instants import LocatedTimeline, find
from lakeaudit.evidence.manifest.hudi.timeline.names import instant_of
from lakeaudit.evidence.manifest.hudi.timeline.properties import TableConfig
from lakeaudit.evidence.manifest.hudi.timeline.write_facts import WriteFacts, facts_of
from lakeaudit.evidence.manifest.table_states import read_until_whole
from lakeaudit.evidence.protocol import Clock, Context
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows


@dataclass(frozen=True)
class TableReading:
    """Holds one table as it was read, for the `number`th time.

    `unknown` counts file groups of unknown origin, `before` is the newest unknown instant.
    `since` is when the oldest known instant was completed.
    """

    found: LocatedTimeline
    number: int
    problems: tuple[Problem, ...] = ()
    unknown: int = 0
    before: str = ""
    since: datetime | None = None
    not_written: Mapping[str, int] = field(default_factory=dict)
    """By instant how many rows a write could not write, by its own record."""
    did: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By instant how many files it wrote, and how many it removed."""
    appended: Mapping[str, AppendTotals] = field(default_factory=dict)
    """By instant the sums of an append."""
    fate: Fate = field(default_factory=Fate)
    """The instants that are not in its timeline."""
    rivals: tuple[RivalWrites, ...] = ()
    """Pairs of writes that rewrote one file group from the same base file."""
    facts: Mapping[str, WriteFacts] = field(default_factory=dict)
    """By the name of its file the facts of a write that other evidence may contradict."""
    replaced: Mapping[str, ReplacedGroups] = field(default_factory=dict)
    """By instant the file groups that it replaced."""
    broken: tuple[Witness, ...] = ()
    """Unreadable files of its metadata table's timeline."""

    @property
    def name(self) -> str:
        return self.found.table.name

    @property
    def config(self) -> TableConfig:
        """Return the properties with which it was read."""
        if self.found.config is None:
            raise ValueError(f"{self.name} has no properties")
        return self.found.config

    @property
    def is_known_whole(self) -> bool:
        """Return whether no gap hides archived instants and rollbacks."""
        hidden = ("", "rollback", "restore")
        return self.found.lost is None and all(each.action not in hidden for each in self.problems)

    @property
    def lacks_any(self) -> bool:
        """Return whether an instant was missing, as after it was archived."""
        return any(each.reason == GONE for each in self.problems)


Reading = table_states.Reading[LocatedTimeline, TableReading]


def read_tables(found: Sequence[LocatedTimeline], ctx: Context, source: str, clock: Clock) -> Reading:
    """Read all timelines; tables whose instants were archived meanwhile are read again."""

    def moved_on(tables: Sequence[TableReading]) -> list[LocatedTimeline]:
        lacking = [each.found.table for each in tables if each.lacks_any] if ctx.live else []
        return find(lacking, ctx.clients, None, clock) if lacking else []

    return read_until_whole(found, partial(read_once, ctx=ctx, source=source), moved_on)


def read_once(found: Sequence[LocatedTimeline], number: int, ctx: Context, source: str) -> Reading:
    """Read the timelines of these tables now."""
    if not found:
        return Reading((), ())
    items = [
        item for each in found for item in items_of(each, number, compared_instants(each, ctx.last_states))
    ]
    steps = ctx.engine.keep(parts(items, source, ctx.clients, max(ctx.parallelism, 1) * 4))
    met = ctx.engine.meet([steps], _as_they_are, partial(states, source, completed_rows(found)))
    unread, first = problems(steps.notes), oldest(steps.notes)
    unknown, failed, did = _unknown_groups(met.notes), not_written(steps.notes), files_done(steps.notes)
    fate, appended = fates(steps.notes), appends(steps.notes)
    rivals, replaced = rival_writes(met.notes), replaced_groups(met.notes)
    facts = facts_of(steps.notes)
    read = [
        TableReading(
            each,
            number,
            tuple(one for one in unread if one.table == each.table.name),
            *unknown.get(each.table.name, (0, "")),
            since=min(
                (at for at in (each.oldest, first.get(each.table.name)) if at is not None), default=None
            ),
            not_written=failed.get(each.table.name, {}),
            did=did.get(each.table.name, {}),
            appended=appended.get(each.table.name, {}),
            fate=fate.get(each.table.name, Fate()),
            rivals=tuple(rivals.get(each.table.name, ())),
            facts=facts.get(each.table.name, {}),
            replaced=replaced.get(each.table.name, {}),
        )
        for each in found
    ]
    index, unread_index = index_files(found, number, ctx, source)
    broken = tuple(broken_indexes(unread_index))
    read = [replace(each, broken=tuple(one for one in broken if one.table == each.name)) for each in read]
    return Reading(tuple(read), (met, *index))


def completed_rows(found: Iterable[LocatedTimeline]) -> pa.Table:
    """Return COMPLETED rows of these timelines."""
    known = [(each.table.name, names) for each in found if (names := each.committed_names) is not None]
    return duck.small(COMPLETED, [(name, list(names.instants), names.first) for name, names in known])


def _as_they_are(_: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    yield kind, rows


def _audited_states(found: LocatedTimeline, last: LastStates) -> Iterator[LastState]:
    """Yield the last states that may be of this table: its own, and those of departed tables of the same name."""
    if (own := last.get(("hudi", found.table.name))) is not None:
        yield own
    if found.config is not None:
        departed = (each for (kind, _), each in last.items() if kind == "hudi" and each.departed)
        yield from (each for each in departed if each.state.table_id.partition("@")[0] == found.config.name)


def compared_instants(found: LocatedTimeline, last: LastStates) -> frozenset[str]:
    """Return instants that other evidence names and that are not in the timeline."""
    states = [
        state
        for each in _audited_states(found, last)
        for state in (each.state, *(one.state for one in each.lost))
    ]
    named = {instant_of(each.number) for each in states if each.number is not None}
    return frozenset(
        {*named, *(each.begin for each in found.index_writes)} - {each.begin for each in found.writes}
    )


def items_of(found: LocatedTimeline, number: int, named: frozenset[str] = frozenset()) -> list[Item]:
    """Return the files of a table's timeline to read."""
    if found.config is None:
        return []
    about = OfTable(
        found.table.name,
        found.table.location,
        number,
        found.config.layout,
        found.config.utc,
        found.until,
        named,
        frozenset(found.double_completions),
    )
    return [Item(about, instant) for instant in (*found.archive, *found.instants)]


def _unknown_groups(notes: Sequence[Mapping[str, object]]) -> dict[str, tuple[int, str]]:
    """Return by table how many file groups have an unknown origin, and the newest instant that is missing."""
    found: dict[str, tuple[int, str]] = {}
    for note in notes:
        count, before = found.get(str(note["subject"]), (0, ""))
        data = json.loads(str(note["data"]))
        if RIVALS in data or REPLACED in data:
            continue
        found[str(note["subject"])] = count + int(str(note["count"])), max(before, data["before"])
    return found

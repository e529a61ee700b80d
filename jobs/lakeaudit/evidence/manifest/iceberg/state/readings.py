"""Read lists and manifests of many tables, and read tables again that changed meanwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from lakeaudit.evidence.manifest import table_states
from lakeaudit.evidence.manifest.iceberg.current.collapsed_paths import with_collapsed_names
from lakeaudit.evidence.manifest.iceberg.current.discover import find
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import LocatedMetadata
from lakeaudit.evidence.manifest.iceberg.state.claimed_files import OfTable
from lakeaudit.evidence.manifest.iceberg.state.list_facts import ListFacts
from lakeaudit.evidence.manifest.iceberg.state.lists import GONE, Unread, place_of, read_lists
from lakeaudit.evidence.manifest.iceberg.state.manifests import Problem, parts, problems
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata
from lakeaudit.evidence.manifest.iceberg.state.rows import FILE, KIND, Manifest
from lakeaudit.evidence.manifest.table_states import read_until_whole
from lakeaudit.evidence.protocol import Batches, Clock, Context, Part
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

NUMBERS = 1 << 32
"""The numbers of manifests increase by this much from each reading to the next."""


@dataclass(frozen=True)
class TableReading:
    """Holds one table as it was read, for the `number`th time: its manifests by their numbers, and all problems."""

    found: LocatedMetadata
    number: int
    manifests: tuple[Manifest, ...] = ()
    unread: tuple[Unread, ...] = ()
    problems: tuple[Problem, ...] = ()
    facts: tuple[ListFacts, ...] = ()

    @property
    def name(self) -> str:
        return self.found.table.name

    @property
    def metadata(self) -> Metadata:
        """Return the metadata with which it was read."""
        if self.found.metadata is None:
            raise ValueError(f"{self.name} has no metadata")
        return self.found.metadata

    @property
    def lacks_any(self) -> bool:
        """Return whether a list or a manifest was missing, as after its snapshot has expired."""
        return GONE in [each.reason for each in self.unread] + [each.reason for each in self.problems]


Reading = table_states.Reading[LocatedMetadata, TableReading]


def read_tables(found: Sequence[LocatedMetadata], ctx: Context, source: str, clock: Clock) -> Reading:
    """Read all files that tables' metadata names; tables that lost files because they changed are read again."""
    once = partial(read_once, ctx=ctx, source=source)
    return read_until_whole(found, once, partial(_moved_on, ctx=ctx, clock=clock))


def _moved_on(tables: Sequence[TableReading], ctx: Context, clock: Clock) -> list[LocatedMetadata]:
    """Return the newer metadata of tables with missing files, or why they have none any more."""
    lacking = {each.name: each.found for each in tables if each.lacks_any}
    if not lacking or not ctx.live:
        return []
    newest = find([found.table for found in lacking.values()], ctx.clients, None, clock)
    return [each for each in newest if each.refused or each.identity != lacking[each.table.name].identity]


def read_once(
    found: Sequence[LocatedMetadata],
    number: int,
    ctx: Context,
    source: str,
    known: frozenset[Any] = frozenset(),
) -> Reading:
    """Read the lists of these tables now, and the manifests except the `known` ones (`as_known`)."""
    if not found:
        return Reading((), ())
    tables, clients = [TableReading(each, number) for each in found], with_collapsed_names(ctx.clients, found)
    listed = [file for each in found if each.folder is not None for file in each.folder.lists]
    sizes = {file.name: file.size for file in listed}
    lists = read_lists([each.metadata for each in tables], clients, ctx.engine, sizes)
    unread = lists.unread
    manifests = [replace(each, number=each.number + number * NUMBERS) for each in lists.manifests]
    about = [OfTable(each.name, number, each.metadata.times) for each in tables]
    unknown = [each for each in manifests if as_known(each, tables[each.table].name) not in known]
    rows = [
        row
        for at, each in enumerate(tables)
        for row in own_files(each, _unread_of(unread, at), clients.names)
    ]
    own = Part(source, partial(_rows, duck.small(FILE, rows)), 1)
    tasks = max(ctx.parallelism, 1) * 4
    kept = ctx.engine.keep([own, *parts(unknown, about, source, clients, tasks)])
    noted = problems(kept.notes)
    read = [
        replace(
            each,
            manifests=tuple(one for one in manifests if one.table == at),
            unread=tuple(one for one in unread if one.table == at),
            problems=tuple(one for one in noted if one.table == each.name),
            facts=tuple(one for one in lists.facts if one.table == at),
        )
        for at, each in enumerate(tables)
    ]
    return Reading(tuple(read), (kept,))


def as_known(manifest: Manifest, table: str) -> tuple[Any, ...]:
    """Return the identity of a manifest before and after: it never changes, but the states that list it do."""
    return table, manifest.place, bool(manifest.heads)


def _unread_of(unread: Sequence[Unread], table: int) -> set[int]:
    return {each.snapshot for each in unread if each.table == table}


def _rows(rows: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - every part receives one
    yield KIND, rows


class _Own(NamedTuple):
    """Names a file that the metadata itself names."""

    path: str
    state: str
    explained: bool
    category: str
    at: datetime
    size: int | None = None


def own_files(read: TableReading, unread: set[int], aliases: Aliases) -> Iterator[tuple[Any, ...]]:
    """Yield FILE rows of files that the metadata itself names: metadata.json files, lists of manifests, statistics.

    Lists of `unread` snapshots are reported separately, and are not claims.
    """
    named = dict.fromkeys(_named_files(read.metadata, unread))
    places = [(place_of(each.path, aliases), each) for each in named]
    if read.found.file is not None:
        file = read.found.file
        places.append((file.place, _Own("", "live", False, "log", file.modified_at)))
    for place, each in places:
        if place is not None:
            yield (
                *(read.name, read.number, -1, *place, each.state, each.explained, []),
                *(each.category, plain_time(each.at), each.size, None, "", None),
            )


def _named_files(metadata: Metadata, unread: set[int]) -> Iterator[_Own]:
    for path, at in metadata.old_files:
        yield _Own(path, "history", True, "log", at)
    for snapshot in metadata.snapshots:
        if snapshot.list_path is not None and snapshot.id not in unread:
            yield _Own(snapshot.list_path, "live" if snapshot.heads else "history", False, "log", snapshot.at)
    for path, size, of in metadata.statistics:
        yield _Own(path, "history", False, "statistics", metadata.times.get(of, metadata.updated_at), size)

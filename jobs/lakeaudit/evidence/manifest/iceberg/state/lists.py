"""Read manifest lists in tasks: one row for each manifest, however many snapshots share it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.avro.records import open_avro
from lakeaudit.evidence.files import ensure_whole, read_bytes
from lakeaudit.evidence.manifest.iceberg.state.list_facts import ListFacts, ManifestCounts, counts_of, facts
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata, Snapshot
from lakeaudit.evidence.manifest.iceberg.state.rows import MANIFEST, Manifest
from lakeaudit.evidence.protocol import Engine
from lakeaudit.keys import Aliases, Location, place_by_name
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import plain_time

A_TASK = 32
"""Most lists of one table that one task reads."""
LIST_BYTES = 64 << 10
"""Approximate bytes that reading a list costs."""
GONE = "it is missing"
_THREADS = 16


@dataclass(frozen=True)
class ListToRead:
    """Names a list to read, and the snapshots that use it: often one, but several may share it.

    `at` is the time of the oldest of them; `heads` are the numbers of their states among the branches and tags.
    `others` are snapshots with which the list's own one is compared. `again`: another task reads the list, too, and
    reports its problems. `size` are its bytes by a listing; 0 without a listing.
    """

    snapshots: tuple[int, ...]
    at: datetime
    heads: frozenset[int]
    path: str | None
    manifests: tuple[str, ...]
    others: tuple[int, ...] = ()
    again: bool = False
    size: int = 0


@dataclass(frozen=True)
class Unread:
    """Names a list that could not be read: its table (by index), its snapshot, its path and the reason."""

    table: int
    snapshot: int
    path: str
    reason: str


@dataclass(frozen=True)
class Listed:
    """Holds MANIFEST rows of some lists, the lists that could not be read, and facts of the others."""

    manifests: pa.Table
    unread: tuple[Unread, ...]
    facts: tuple[ListFacts, ...] = ()


@dataclass(frozen=True)
class Lists:
    """Holds the manifests of some tables' lists, each once, lists that could not be read, and facts of the others."""

    manifests: list[Manifest]
    unread: list[Unread]
    facts: list[ListFacts]


def place_of(path: str, aliases: Aliases) -> Location | None:
    """Return the place of a path in the metadata; None in an unknown store. Paths are raw, not URL-encoded."""
    place = place_by_name(aliases, path)
    return None if place is None else Location(*place)


def read_lists(
    tables: Sequence[Metadata],
    clients: Clients,
    engine: Engine | None = None,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> Lists:
    """Read the lists of all retained snapshots of these tables.

    A list is read once; lists of the parents of a task's snapshots, which another task reads, are read again. Without
    an engine they are read here, one after the other. `sizes` are the bytes of lists by their names, if a listing shows
    them: a list that was cut off between two blocks looks whole.
    """
    items = [
        (number, tuple(replace(each, size=_size(each, sizes)) for each in lists))
        for at, metadata in enumerate(tables) for number, lists in _items(at, metadata)
    ]  # fmt: skip
    weight, task = LIST_BYTES * sum(len(item[1]) for item in items), partial(_read, clients)
    answers = engine.map(task, items, weight) if engine else list(map(task, items))
    unread = [each for answer in answers for each in answer.unread]
    manifests = list(_together([answer.manifests for answer in answers]))
    return Lists(manifests, unread, [each for answer in answers for each in answer.facts])


def _size(wanted: ListToRead, sizes: Mapping[str, int]) -> int:
    return 0 if wanted.path is None else sizes.get(wanted.path.rpartition("/")[2], 0)


def _items(number: int, metadata: Metadata) -> Iterator[tuple[int, tuple[ListToRead, ...]]]:
    heads = [snapshot.id for snapshot in metadata.snapshots if snapshot.heads]
    numbers = {id_: head for head, id_ in enumerate(heads)}
    sharing: dict[tuple[str | None, tuple[str, ...]], list[Snapshot]] = defaultdict(list)
    for snapshot in metadata.snapshots:
        sharing[snapshot.list_path, snapshot.manifests].append(snapshot)
    compared = compared_snapshots(metadata)
    lists = [_list_to_read(snapshots, numbers, compared) for snapshots in sharing.values()]
    alone = {each.snapshots[0]: each for each in lists if len(each.snapshots) == 1}
    for start in range(0, len(lists), A_TASK):
        some = lists[start : start + A_TASK]
        here = {each.snapshots[0] for each in some}
        elsewhere = dict.fromkeys(
            id_ for each in some for id_ in each.others if id_ in alone and id_ not in here
        )
        yield number, (*some, *(replace(alone[id_], again=True) for id_ in elsewhere))


def _list_to_read(
    snapshots: Sequence[Snapshot], heads: Mapping[int, int], compared: Mapping[int, tuple[int, ...]]
) -> ListToRead:
    """Return the list that these snapshots share."""
    first = snapshots[0]
    ids = tuple(each.id for each in snapshots)
    known = frozenset(heads[id_] for id_ in ids if id_ in heads)
    others = compared[first.id] if len(snapshots) == 1 else ()
    return ListToRead(
        ids, min(each.at for each in snapshots), known, first.list_path, first.manifests, others
    )


def compared_snapshots(metadata: Metadata) -> dict[int, tuple[int, ...]]:
    """Return for each snapshot those to compare: its parent, and a state before it that is not an ancestor."""
    retained = {each.id for each in metadata.snapshots}
    unrelated = {younger: older for older, younger in metadata.lost_updates}
    named = {each.id: (each.parent, unrelated.get(each.id)) for each in metadata.snapshots}
    return {
        id_: tuple(dict.fromkeys(other for other in others if other in retained and other is not None))
        for id_, others in named.items()
    }


@dataclass
class _ManifestRefs:
    """Collects the entries of some lists for one manifest."""

    length: int | None
    counts: ManifestCounts
    oldest: datetime
    heads: set[int] = field(default_factory=set)

    @property
    def files(self) -> int | None:
        added, existing = self.counts.added_files, self.counts.existing_files
        return None if added is None or existing is None else added + existing


def _read(clients: Clients, item: tuple[int, tuple[ListToRead, ...]]) -> Listed:
    """Read in a task the manifests that lists of one table name."""
    table, lists = item
    known: dict[Location, _ManifestRefs] = {}
    unread: list[Unread] = []
    listed: dict[int, _OfList] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        contents = pool.map(partial(_content, clients), lists)
        for each, content in zip(lists, contents, strict=True):
            try:
                of_list = _add(known, each, _entries(clients, each, content), clients.names)
            except Torn as torn:
                if each.again:
                    continue
                unread += [Unread(table, id_, each.path or "", str(torn)) for id_ in each.snapshots]
            else:
                if len(each.snapshots) == 1:
                    listed[each.snapshots[0]] = of_list
    rows = [
        (
            table,
            *place,
            one.length,
            one.counts.added_by,
            sorted(one.heads),
            plain_time(one.oldest),
            one.files,
            one.counts.deletes,
        )
        for place, one in known.items()
    ]
    return Listed(duck.small(MANIFEST, rows), tuple(unread), tuple(_facts(table, lists, listed)))


_OfList = tuple[Mapping[Location, ManifestCounts], list[str]]
"""The manifests of a list with their counts, and paths that it names more than once."""


def _facts(table: int, lists: Sequence[ListToRead], listed: Mapping[int, _OfList]) -> Iterator[ListFacts]:
    """Yield facts of lists of one snapshot each: no writer shares a list between snapshots."""
    for each in lists:
        snapshot = each.snapshots[0]
        if each.again or each.path is None or snapshot not in listed:
            continue
        own, repeated = listed[snapshot]
        others = {id_: listed[id_][0] for id_ in each.others if id_ in listed}
        yield facts(table, snapshot, own, others, repeated)


def _content(clients: Clients, wanted: ListToRead) -> bytes | Torn:
    if wanted.path is None:
        return b""
    place = place_of(wanted.path, clients.names)
    if place is None:
        return Torn(f"{wanted.path[:200]} is in an unknown store")
    try:
        content = read_bytes(clients, place, size=wanted.size)
    except SourceError as error:
        return Torn(error.what)
    return Torn(GONE) if content is None else content


def _entries(clients: Clients, wanted: ListToRead, content: bytes | Torn) -> Iterable[Mapping[str, Any]]:
    if isinstance(content, Torn):
        raise content
    if wanted.path is None:
        return [{"manifest_path": path} for path in wanted.manifests]
    try:
        return list(open_avro(content).records)
    except Torn:
        if (place := place_of(wanted.path, clients.names)) is not None:
            _ensure_whole(clients, place, content)
        raise


def _ensure_whole(clients: Clients, place: Location, content: bytes) -> None:
    """Raise an error if a list arrives short each time; only storage records its size.

    Raises:
        Torn: storage has more bytes of it, or sends an error.
    """
    try:
        ensure_whole(clients, place, content)
    except SourceError as error:
        raise Torn(error.what) from error


def _add(
    known: dict[Location, _ManifestRefs],
    wanted: ListToRead,
    named: Iterable[Mapping[str, Any]],
    aliases: Aliases,
) -> _OfList:
    """Add the entries of a list to the known manifests."""
    own: dict[Location, ManifestCounts] = {}
    repeated: list[str] = []
    for record in named:
        path = record.get("manifest_path")
        place = place_of(path, aliases) if isinstance(path, str) else None
        if place is None:
            raise Torn(f"it names the manifest {str(path)[:200]!r}, which is in an unknown store")
        one = known.get(place)
        if one is None:
            one = known[place] = _ManifestRefs(
                _whole(record.get("manifest_length")), counts_of(record), wanted.at
            )
        if place in own:
            repeated.append(str(path))
        own[place] = one.counts
        one.oldest = min(one.oldest, wanted.at)
        one.heads |= wanted.heads
    return own, repeated


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None


_TOGETHER = """SELECT "table", bucket, key, any_value(length) AS length, any_value(added_by) AS added_by,
        list_sort(list_distinct(flatten(list(heads)))) AS heads, min(oldest) AS oldest, any_value(files) AS files,
        bool_or(deletes) AS deletes
    FROM input GROUP BY "table", bucket, key ORDER BY "table", bucket, key"""


def _together(answers: Sequence[pa.Table]) -> Iterator[Manifest]:
    """Yield each manifest once, in an order that follows from the lists alone."""
    rows = pa.concat_tables([MANIFEST.empty_table(), *answers])
    with task_connection() as con:
        united = duck.rows_of(duck.query(con, _TOGETHER, input=rows))
    for number, row in enumerate(united):
        place = Location(row.pop("bucket"), row.pop("key"))
        yield Manifest(number, place=place, **row | {"heads": tuple(row["heads"])})

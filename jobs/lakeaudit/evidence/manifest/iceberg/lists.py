"""Manifest lists, read in tasks: one row a manifest that they name, however many snapshots share it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.iceberg.avro import opened
from lakeaudit.evidence.manifest.iceberg.avro_blocks import Torn
from lakeaudit.evidence.manifest.iceberg.metadata import Metadata, Snapshot
from lakeaudit.evidence.manifest.iceberg.rows import MANIFEST, Manifest
from lakeaudit.evidence.protocol import Engine
from lakeaudit.keys import Aliases, Location, place_by_name
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import plain_time

A_TASK = 32
"""Lists of one table that a task reads."""
LIST_BYTES = 64 << 10
"""About what reading a list costs."""
GONE = "it is gone"
_THREADS = 16


@dataclass(frozen=True)
class ListToRead:
    """A list, and what of its snapshots it is read for: often one, but many may share it.

    `at` is the time of the oldest of them; `heads` are the numbers of their states among the branches and tags.
    """

    snapshots: tuple[int, ...]
    at: datetime
    heads: frozenset[int]
    path: str | None
    manifests: tuple[str, ...]


@dataclass(frozen=True)
class Unread:
    """A list that could not be read: of which table (by its place) and snapshot, where it lies and why."""

    table: int
    snapshot: int
    path: str
    reason: str


@dataclass(frozen=True)
class Listed:
    """MANIFEST rows of some lists, and the lists that could not be read."""

    manifests: pa.Table
    unread: tuple[Unread, ...]


def place_of(path: str, aliases: Aliases) -> Location | None:
    """Where a path of the metadata lies; None: in no store that is known. Paths are raw, not URL-encoded."""
    place = place_by_name(aliases, path)
    return None if place is None else Location(*place)


def read_lists(
    tables: Sequence[Metadata], clients: Clients, engine: Engine | None = None
) -> tuple[list[Manifest], list[Unread]]:
    """The manifests of all retained snapshots of these tables, each once, and the lists that could not be read.

    Without an engine they are read here, one after the other.
    """
    items = [item for number, metadata in enumerate(tables) for item in _items(number, metadata)]
    weight, task = LIST_BYTES * sum(len(item[1]) for item in items), partial(_read, clients)
    answers = engine.map(task, items, weight) if engine else list(map(task, items))
    unread = [each for answer in answers for each in answer.unread]
    return list(_together([answer.manifests for answer in answers])), unread


def _items(number: int, metadata: Metadata) -> Iterator[tuple[int, tuple[ListToRead, ...]]]:
    heads = [snapshot.id for snapshot in metadata.snapshots if snapshot.heads]
    numbers = {id_: head for head, id_ in enumerate(heads)}
    sharing: dict[tuple[str | None, tuple[str, ...]], list[Snapshot]] = defaultdict(list)
    for snapshot in metadata.snapshots:
        sharing[snapshot.list_path, snapshot.manifests].append(snapshot)
    lists = [_list_to_read(snapshots, numbers) for snapshots in sharing.values()]
    for start in range(0, len(lists), A_TASK):
        yield number, tuple(lists[start : start + A_TASK])


def _list_to_read(snapshots: Sequence[Snapshot], heads: Mapping[int, int]) -> ListToRead:
    """The list that these snapshots share."""
    first = snapshots[0]
    ids = tuple(each.id for each in snapshots)
    known = frozenset(heads[id_] for id_ in ids if id_ in heads)
    return ListToRead(ids, min(each.at for each in snapshots), known, first.list_path, first.manifests)


@dataclass
class _Known:
    """What some lists say of one manifest."""

    length: int | None
    added_by: int | None
    files: int | None
    oldest: datetime
    deletes: bool
    heads: set[int] = field(default_factory=set)


def _read(clients: Clients, item: tuple[int, tuple[ListToRead, ...]]) -> Listed:
    """In a task: the manifests that lists of one table name."""
    table, lists = item
    known: dict[Location, _Known] = {}
    unread: list[Unread] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        contents = pool.map(partial(_content, clients), lists)
        for each, content in zip(lists, contents, strict=True):
            try:
                _add(known, each, _named(each, content), clients.names)
            except Torn as torn:
                unread += [Unread(table, id_, each.path or "", str(torn)) for id_ in each.snapshots]
    rows = [
        (
            table,
            *place,
            one.length,
            one.added_by,
            sorted(one.heads),
            plain_time(one.oldest),
            one.files,
            one.deletes,
        )
        for place, one in known.items()
    ]
    return Listed(duck.small(MANIFEST, rows), tuple(unread))


def _content(clients: Clients, wanted: ListToRead) -> bytes | Torn:
    if wanted.path is None:
        return b""
    place = place_of(wanted.path, clients.names)
    if place is None:
        return Torn(f"{wanted.path[:200]} lies in a store that is not known")
    try:
        content = read_bytes(clients, place)
    except SourceError as error:
        return Torn(error.what)
    return Torn(GONE) if content is None else content


def _named(wanted: ListToRead, content: bytes | Torn) -> Iterable[Mapping[str, Any]]:
    if isinstance(content, Torn):
        raise content
    if wanted.path is None:
        return [{"manifest_path": path} for path in wanted.manifests]
    return list(opened(content).records)


def _add(
    known: dict[Location, _Known],
    wanted: ListToRead,
    named: Iterable[Mapping[str, Any]],
    aliases: Aliases,
) -> None:
    for record in named:
        path = record.get("manifest_path")
        place = place_of(path, aliases) if isinstance(path, str) else None
        if place is None:
            raise Torn(f"it names the manifest {str(path)[:200]!r}, which lies in no store that is known")
        one = known.setdefault(place, _known(record, wanted.at))
        one.oldest = min(one.oldest, wanted.at)
        one.heads |= wanted.heads


def _known(record: Mapping[str, Any], at: datetime) -> _Known:
    return _Known(
        _whole(record.get("manifest_length")),
        _whole(record.get("added_snapshot_id")),
        _files(record),
        at,
        record.get("content") == 1,
    )


def _files(record: Mapping[str, Any]) -> int | None:
    """Version 1 called them data files; neither version had to count."""
    counts = [
        _whole(record.get(f"{what}_files_count", record.get(f"{what}_data_files_count")))
        for what in ("added", "existing")
    ]
    return None if None in counts else sum(count for count in counts if count is not None)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None


_TOGETHER = """SELECT "table", bucket, key, any_value(length) AS length, any_value(added_by) AS added_by,
        list_sort(list_distinct(flatten(list(heads)))) AS heads, min(oldest) AS oldest, any_value(files) AS files,
        bool_or(deletes) AS deletes
    FROM input GROUP BY "table", bucket, key ORDER BY "table", bucket, key"""


def _together(answers: Sequence[pa.Table]) -> Iterator[Manifest]:
    """Each manifest once, in an order that follows from the lists alone."""
    rows = pa.concat_tables([MANIFEST.empty_table(), *answers])
    with task_connection() as con:
        united = duck.rows_of(duck.query(con, _TOGETHER, input=rows))
    for number, row in enumerate(united):
        place = Location(row.pop("bucket"), row.pop("key"))
        yield Manifest(number, place=place, **row | {"heads": tuple(row["heads"])})

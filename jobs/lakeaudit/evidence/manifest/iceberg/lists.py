"""Manifest lists, read in tasks: one row a manifest that they name, however many snapshots share it."""

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
from lakeaudit.keys import Aliases, Location, identify, true_place
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
class ListedSnapshot:
    """What of a snapshot its list is read for; `head`: the number of its state among the branches and tags."""

    id: int
    at: datetime
    head: int | None
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
    named = identify(path)
    return None if named is None else Location(*true_place(aliases, *named))


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


def _items(number: int, metadata: Metadata) -> Iterator[tuple[int, tuple[ListedSnapshot, ...]]]:
    heads = [snapshot.id for snapshot in metadata.snapshots if snapshot.heads]
    numbers = {id_: head for head, id_ in enumerate(heads)}
    wanted = [_wanted(each, numbers) for each in metadata.snapshots]
    for start in range(0, len(wanted), A_TASK):
        yield number, tuple(wanted[start : start + A_TASK])


def _wanted(snapshot: Snapshot, heads: Mapping[int, int]) -> ListedSnapshot:
    return ListedSnapshot(
        snapshot.id, snapshot.at, heads.get(snapshot.id), snapshot.list_path, snapshot.manifests
    )


@dataclass
class _Known:
    """What some lists say of one manifest."""

    length: int | None
    added_by: int | None
    files: int | None
    oldest: datetime
    deletes: bool
    heads: set[int] = field(default_factory=set)


def _read(clients: Clients, item: tuple[int, tuple[ListedSnapshot, ...]]) -> Listed:
    """In a task: the manifests that lists of one table name."""
    table, snapshots = item
    known: dict[Location, _Known] = {}
    unread: list[Unread] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        contents = pool.map(partial(_content, clients), snapshots)
        for snapshot, content in zip(snapshots, contents, strict=True):
            try:
                _add(known, snapshot, _named(snapshot, content), clients.names)
            except Torn as torn:
                unread.append(Unread(table, snapshot.id, snapshot.path or "", str(torn)))
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


def _content(clients: Clients, snapshot: ListedSnapshot) -> bytes | Torn:
    if snapshot.path is None:
        return b""
    place = place_of(snapshot.path, clients.names)
    if place is None:
        return Torn(f"{snapshot.path[:200]} lies in a store that is not known")
    try:
        content = read_bytes(clients, place)
    except SourceError as error:
        return Torn(error.what)
    return Torn(GONE) if content is None else content


def _named(snapshot: ListedSnapshot, content: bytes | Torn) -> Iterable[Mapping[str, Any]]:
    if isinstance(content, Torn):
        raise content
    if snapshot.path is None:
        return [{"manifest_path": path} for path in snapshot.manifests]
    return list(opened(content).records)


def _add(
    known: dict[Location, _Known],
    snapshot: ListedSnapshot,
    named: Iterable[Mapping[str, Any]],
    aliases: Aliases,
) -> None:
    for record in named:
        path = record.get("manifest_path")
        place = place_of(path, aliases) if isinstance(path, str) else None
        if place is None:
            raise Torn(f"it names the manifest {str(path)[:200]!r}, which lies in no store that is known")
        one = known.setdefault(place, _known(record, snapshot.at))
        one.oldest = min(one.oldest, snapshot.at)
        if snapshot.head is not None:
            one.heads.add(snapshot.head)


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

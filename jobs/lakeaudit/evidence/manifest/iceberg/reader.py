"""The Iceberg reader: what a table's own metadata says of every file that a retained snapshot lists, or has removed.

All Iceberg tables of a lake are read together: metadata is found and read on the driver, lists of manifests in tasks,
manifests in tasks as well, once, and their rows are held. The driver holds a row a snapshot and a manifest, and none
a file.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.iceberg import fold
from lakeaudit.evidence.manifest.iceberg.discover import Found, find
from lakeaudit.evidence.manifest.iceberg.lists import GONE, Unread, place_of, read_lists
from lakeaudit.evidence.manifest.iceberg.manifests import OfTable, parts
from lakeaudit.evidence.manifest.iceberg.metadata import Metadata
from lakeaudit.evidence.manifest.iceberg.rows import FILE, KIND, Manifest
from lakeaudit.evidence.protocol import (
    Batches,
    Claims,
    Clock,
    Context,
    Cut,
    Hole,
    Kept,
    Part,
    SourceInfo,
    TableState,
    utc_now,
)
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

if TYPE_CHECKING:
    from datetime import datetime

NAMED = 5


@dataclass(frozen=True)
class Reading:
    """Tables with readable metadata, their manifests, the rows of these, and what could not be read."""

    tables: tuple[Found, ...]
    manifests: tuple[Manifest, ...]
    unread: tuple[Unread, ...]
    kept: Kept


@dataclass(frozen=True)
class IcebergClaims(Claims):
    """Claims, with the reading that newer states are held against."""

    reading: Reading = field(kw_only=True)


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """The claims of all these tables, in their newest state at `ctx.as_of`, or now when the run is live.

    A table whose metadata cannot be interpreted is refused with one line in its `TableState`; the others go on.
    """
    begun = clock()
    found = find(tables, ctx.clients, None if ctx.live else ctx.as_of, clock)
    reading = _read([each for each in found if each.metadata is not None], ctx, source_id)
    holes = tuple(_holes(reading, source_id))
    constants = duck.small(fold.TABLE, [_table_row(each) for each in reading.tables])
    cut = Cut(begun, clock()) if ctx.live else Cut(ctx.as_of, ctx.as_of)
    holed = {hole.table for hole in holes}
    return IcebergClaims(
        info=_info(source_id, found, cut),
        rows=(reading.kept,),
        fold=partial(fold.claims, constants, source_id),
        states={each.table.name: _state(each, holed) for each in found},
        holes=holes,
        warnings=tuple(_warnings(found)),
        traces={KIND: partial(fold.traces, constants)},
        reading=reading,
    )


def _read(tables: Sequence[Found], ctx: Context, source: str) -> Reading:
    metadata = [metadata_of(each) for each in tables]
    manifests, unread = read_lists(metadata, ctx.clients, ctx.engine)
    about = [OfTable(each.table.name, 0, one.times) for each, one in zip(tables, metadata, strict=True)]
    lost = {(each.table, each.snapshot) for each in unread}
    rows = [
        row
        for number, each in enumerate(tables)
        for row in own_files(each, {id_ for table, id_ in lost if table == number}, 0, ctx.clients.aliases)
    ]
    own = Part(source, partial(_rows, duck.small(FILE, rows)), 1)
    tasks = max(ctx.parallelism, 1) * 4
    kept = ctx.engine.keep([own, *parts(manifests, about, source, ctx.clients, tasks)])
    return Reading(tuple(tables), tuple(manifests), tuple(unread), kept)


def metadata_of(found: Found) -> Metadata:
    """The metadata of a table that has some."""
    if found.metadata is None:
        raise ValueError(f"{found.table.name} has no metadata")
    return found.metadata


def _rows(rows: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - a part is given one
    yield KIND, rows


def own_files(found: Found, unread: set[int], number: int, aliases: Aliases) -> Iterator[tuple[Any, ...]]:
    """FILE rows of what the metadata itself names: the metadata.json files, lists of manifests, statistics."""
    metadata = metadata_of(found)
    known: list[tuple[str, str, bool, str, datetime, int | None]] = [
        (path, "history", True, "log", at, None) for path, at in metadata.old_files
    ]
    known += [
        (each.list_path, "live" if each.heads else "history", False, "log", each.at, None)
        for each in metadata.snapshots
        if each.list_path is not None and each.id not in unread
    ]
    known += [
        (path, "history", False, "statistics", metadata.times.get(snapshot, metadata.updated_at), size)
        for path, size, snapshot in metadata.statistics
    ]
    common: tuple[Any, ...]
    for path, state, explained, category, at, size in dict.fromkeys(known):
        place = place_of(path, aliases)
        if place is not None:
            common = (found.table.name, number, -1, *place, state, explained, [], category)
            yield (*common, plain_time(at), size, None, "", None)
    if found.file is not None:
        common = (found.table.name, number, -1, *found.file.place, "live", False, [], "log")
        yield (*common, plain_time(found.file.modified_at), None, None, "", None)


def _table_row(found: Found) -> tuple[Any, ...]:
    location = found.table.location
    return found.table.name, 0, metadata_of(found).current, location.bucket, location.prefix


def _state(found: Found, holed: set[str | None]) -> TableState:
    name, metadata = found.table.name, found.metadata
    if metadata is None:
        return TableState(name, found.read_at, None, refused=found.refused, complete=False)
    return TableState(name, found.read_at, metadata.horizon, metadata.current, complete=name not in holed)


def _holes(reading: Reading, source: str) -> Iterator[Hole]:
    for each in reading.unread:
        table, metadata = reading.tables[each.table].table.name, metadata_of(reading.tables[each.table])
        snapshot = next(one for one in metadata.snapshots if one.id == each.snapshot)
        counted = snapshot.summary.get("total-data-files", "")
        files = f"{counted} data files" if counted.isdecimal() else "every file"
        hides = f"{files} of {_of(snapshot.heads, each.snapshot)}"
        yield Hole(source, each.reason, each.path, table, hides, 1, _kind(each.reason, bool(snapshot.heads)))
    for note in reading.kept.notes:
        data = json.loads(str(note["data"]))
        manifest = reading.manifests[data["manifest"]]
        yield _hole_of(note, manifest, reading.tables[manifest.table], source, unread=data["unread"])


def _hole_of(note: Mapping[str, Any], manifest: Manifest, found: Found, source: str, *, unread: bool) -> Hole:
    heads = [each.heads for each in metadata_of(found).snapshots if each.heads]
    names = tuple(name for number in manifest.heads for name in heads[number])
    files = f"{manifest.files} files" if manifest.files is not None else "files"
    hides = f"{files} of {_of(names, None)}" if unread else f"{note['count']} files that it names"
    reason, subject = str(note["reason"]), str(note["subject"])
    kind = _kind(reason, bool(names)) if unread else "unreadable_evidence"
    return Hole(source, reason, subject, found.table.name, hides, 1 if unread else int(note["count"]), kind)


def _kind(reason: str, live: bool) -> str:
    """What is gone or torn is lost to readers; what only time travel reads is history."""
    if reason != GONE and not reason.startswith("it "):
        return "unreadable_evidence"
    return "missing_metadata" if live else "dropped_history"


def _of(heads: Sequence[str], snapshot: int | None) -> str:
    if not heads:
        return "an older snapshot" if snapshot is None else f"snapshot {snapshot}"
    more = f" and {len(heads) - NAMED} more" if len(heads) > NAMED else ""
    return f"{', '.join(heads[:NAMED])}{more}"


def _warnings(found: Sequence[Found]) -> Iterator[str]:
    for each in found:
        if each.doubt:
            yield f"{each.table.name}: {each.doubt}"


def _info(source: str, found: Sequence[Found], cut: Cut) -> SourceInfo:
    pinned = sorted(f"{each.table.name}@{each.identity}" for each in found)
    one = found[0] if len(found) == 1 else None
    identity = pinned[0] if one else f"sha256:{hashlib.sha256(chr(10).join(pinned).encode()).hexdigest()}"
    location = (one.file.place if one.file else one.table.location).uri if one else f"{len(found)} tables"
    return SourceInfo(source, "manifest", "iceberg", location, identity, cut)

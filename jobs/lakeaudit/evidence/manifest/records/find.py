"""Locate records: in a folder that is listed, or anywhere below the tables, if storage's rows name them.

For that, only the names of records are read from storage; no folder of data is listed and no object is requested.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, stat
from lakeaudit.evidence.manifest.records.record import RecordSet, Search
from lakeaudit.evidence.manifest.records.totals import sum_by_tag, tagged
from lakeaudit.evidence.protocol import Batches, BufferedRows, Context
from lakeaudit.evidence.storage.versions import BELOW, CURRENT, prefixes_of
from lakeaudit.keys import Location, owner_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows

LISTERS = 8
MARKER = "_SUCCESS"
"""The file that jobs leave in a folder after a complete write, and that schedulers such as Oozie wait for."""
MOST_MARKERS = 100
CLOCKS = timedelta(minutes=2)
"""Largest difference between the clocks of a driver and of a store."""
MOST = 100_000
"""Most records of one kind that a run reads; a lake with more has no such records, but files with such names."""


def each(
    function: Callable[[Clients, Location], tuple[File, ...]], clients: Clients, places: Sequence[Location]
) -> dict[Location, tuple[File, ...] | SourceError]:
    """Return the files at every place, or the error of the store."""

    def attempt(place: Location) -> tuple[File, ...] | SourceError:
        try:
            return function(clients, place)
        except SourceError as error:
            return error

    with ThreadPoolExecutor(LISTERS) as pool:
        return dict(zip(places, pool.map(attempt, places), strict=True))


def listed(clients: Clients, place: Location) -> tuple[File, ...]:
    """List all files below a folder, or the one that the place names."""
    single = stat(clients, place) if place.key else None
    return (single,) if single is not None else tuple(list_files(clients, place))


@dataclass(frozen=True)
class InFolders:
    """Finds records in separate folders, which are listed whole.

    `places` returns the folders of a table, `found` selects its records from the files there.
    """

    places: Callable[[Table], Sequence[Location]]
    found: Callable[[Table, Mapping[Location, Sequence[File]]], RecordSet]

    def find(self, tables: Sequence[Table], ctx: Context) -> Search:
        """Implement `reader.RecordKind.find`: the folders of all tables are listed in parallel."""
        return Search(self._record_sets(tables, ctx.clients))

    def find_near(self, table: Table, clients: Clients, _bucket: str, _key: str) -> RecordSet:
        """Implement `reader.RecordKind.find_near`."""
        (found,) = self._record_sets([table], clients)
        return found

    def _record_sets(self, tables: Sequence[Table], clients: Clients) -> list[RecordSet]:
        places = {table.name: self.places(table) for table in tables}
        there = each(listed, clients, [*dict.fromkeys(chain.from_iterable(places.values()))])
        return [self._of(table, {place: there[place] for place in places[table.name]}) for table in tables]

    def _of(self, table: Table, there: Mapping[Location, tuple[File, ...] | SourceError]) -> RecordSet:
        files = {place: held for place, held in there.items() if not isinstance(held, SourceError)}
        errors = [str(held) for held in there.values() if isinstance(held, SourceError)]
        return RecordSet(table, refused=errors[0]) if errors else self.found(table, files)


@dataclass(frozen=True)
class Stored:
    """Holds files of storage by table, in order of keys, and rows of kind `tagged`; None if not requested."""

    files: Mapping[str, Sequence[File]]
    tagged: BufferedRows | None = None


def stored(ctx: Context, homes: Mapping[Location, str], pattern: str, *, with_tags: bool = False) -> Stored:
    """Return the current objects of storage below the tables whose keys match `pattern`.

    Raises:
        SourceError: there are more than any lake has.
    """
    if not ctx.storage:
        return Stored({})
    found = ctx.engine.meet(
        ctx.stored_rows(), partial(_named_objects, prefixes_of(homes), pattern, with_tags), _current
    )
    if found.counts.get("records", 0) > MOST:
        what = f"storage has {found.counts['records']} objects that are named as records of writers are"
        raise SourceError("manifests", what, "give the tables another kind of manifest")
    files = [_file(**row) for batch in found.batches("records") for row in batch.to_pylist()]
    by_table: dict[str, list[File]] = {}
    for file in sorted(files, key=lambda file: file.place.key):
        owner = owner_of(homes, *file.place)
        if owner is not None:
            by_table.setdefault(owner, []).append(file)
    return Stored(by_table, found if with_tags else None)


def above(clients: Clients, home: Location, key: str, name: str) -> Iterator[File]:
    """Yield the files of that name in the folders from a key's own up to the table's."""
    folder = key.rpartition("/")[0]
    while folder == home.key or folder.startswith(home.prefix):
        file = stat(clients, Location(home.bucket, folder).join(name))
        if file is not None:
            yield file
        if folder == home.key:
            return
        folder = folder.rpartition("/")[0]


def with_markers(short: pa.Table, clients: Clients) -> pa.Table:
    """Add to DECLARED rows the `_SUCCESS` in the folder of the write, if it was stored since the write ended.

    There are few rows; storage is queried for the first ones. An unreadable marker is left out.
    """
    rows = short.to_pylist()
    for row in rows[:MOST_MARKERS]:
        place = Location(row["bucket"], row["path"]).join(MARKER)
        ended = row["ended_at"] and row["ended_at"].replace(tzinfo=UTC)
        try:
            file = stat(clients, place)
        except SourceError:
            continue
        if file is not None and ended is not None and file.modified_at >= ended - CLOCKS:
            row["marker"] = place.key
    return pa.Table.from_pylist(rows, short.schema)


def _named_objects(
    homes: pa.Table, pattern: str, with_tags: bool, con: Connection, kind: str, rows: Rows
) -> Batches:
    """Yield the versions of storage's objects with such names, and the files of each job."""
    if kind == "versions":
        sql = f"""
            SELECT objects.* FROM {BELOW}
            WHERE reject IS NULL AND regexp_matches(key, {duck.pattern(pattern)})
        """
        held = duck.hold(con, rows) if with_tags else rows
        yield "versions", duck.query(con, sql, objects=held, homes=homes)
        if with_tags:
            yield "tagged", tagged(con, held, homes)


def _current(con: Connection, rows: Mapping[str, Rows]) -> Batches:
    """Yield the current object of each key, once."""
    sql = f"""
        SELECT bucket, key, max(size) AS size, max(modified_at) AS modified_at, max(etag) AS etag
        FROM versions WHERE {CURRENT}
        GROUP BY bucket, key
    """
    if "versions" in rows:
        yield "records", duck.query(con, sql, versions=rows["versions"])
    if "tagged" in rows:
        yield "tagged", sum_by_tag(con, rows["tagged"])


def _file(bucket: str, key: str, size: int | None, modified_at: datetime, etag: str | None) -> File:
    return File(Location(bucket, key), size or 0, modified_at.replace(tzinfo=UTC), etag)

"""Where records lie: in a folder that is listed, or anywhere below the tables, where storage's rows name them.

Storage is read for that with the names of records alone; no folder of data is listed and no object is asked for.
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
from lakeaudit.evidence.manifest.records.record import Found, Search
from lakeaudit.evidence.manifest.records.totals import summed, tagged
from lakeaudit.evidence.protocol import Batches, BufferedRows, Context
from lakeaudit.evidence.storage.versions import BELOW, CURRENT, prefixes_of
from lakeaudit.keys import Location, owner_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows

LISTERS = 8
MARKER = "_SUCCESS"
"""What jobs leave in a folder that they wrote whole, and what schedulers such as Oozie wait for."""
MOST_MARKERS = 100
CLOCKS = timedelta(minutes=2)
"""By which the clocks of a driver and of a store may differ."""
MOST = 100_000
"""Records of one kind that a run reads; a lake with more has no such records, but files named like them."""


def each(
    function: Callable[[Clients, Location], tuple[File, ...]], clients: Clients, places: Sequence[Location]
) -> dict[Location, tuple[File, ...] | SourceError]:
    """What there is at every place, or why nobody can say."""

    def tried(place: Location) -> tuple[File, ...] | SourceError:
        try:
            return function(clients, place)
        except SourceError as error:
            return error

    with ThreadPoolExecutor(LISTERS) as pool:
        return dict(zip(places, pool.map(tried, places), strict=True))


def listed(clients: Clients, place: Location) -> tuple[File, ...]:
    """All files below a folder, or the one that the place names."""
    single = stat(clients, place) if place.key else None
    return (single,) if single is not None else tuple(list_files(clients, place))


@dataclass(frozen=True)
class InFolders:
    """Records in folders of their own, which are listed whole.

    `places` says where those of a table lie, `found` which of the files there are its records.
    """

    places: Callable[[Table], Sequence[Location]]
    found: Callable[[Table, Mapping[Location, Sequence[File]]], Found]

    def find(self, tables: Sequence[Table], ctx: Context) -> Search:
        """See `reader.RecordKind`: the folders of all tables are listed beside each other."""
        return Search(self._found(tables, ctx.clients))

    def find_near(self, table: Table, clients: Clients, _bucket: str, _key: str) -> Found:
        """See `reader.RecordKind`."""
        (found,) = self._found([table], clients)
        return found

    def _found(self, tables: Sequence[Table], clients: Clients) -> list[Found]:
        places = {table.name: self.places(table) for table in tables}
        there = each(listed, clients, [*dict.fromkeys(chain.from_iterable(places.values()))])
        return [self._of(table, {place: there[place] for place in places[table.name]}) for table in tables]

    def _of(self, table: Table, there: Mapping[Location, tuple[File, ...] | SourceError]) -> Found:
        files = {place: held for place, held in there.items() if not isinstance(held, SourceError)}
        errors = [str(held) for held in there.values() if isinstance(held, SourceError)]
        return Found(table, refused=errors[0]) if errors else self.found(table, files)


@dataclass(frozen=True)
class Stored:
    """Files of storage by table, in order of keys, and rows of kind `tagged`; None: none were asked for."""

    files: Mapping[str, Sequence[File]]
    tagged: BufferedRows | None = None


def stored(ctx: Context, homes: Mapping[Location, str], pattern: str, *, with_tags: bool = False) -> Stored:
    """The current objects of storage below the tables whose keys have `pattern` somewhere.

    Raises:
        SourceError: there are more than any lake has.
    """
    if not ctx.storage:
        return Stored({})
    found = ctx.engine.meet(
        ctx.stored_rows(), partial(_named, prefixes_of(homes), pattern, with_tags), _current
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
    """The files of that name in the folders from a key's own up to the table's."""
    folder = key.rpartition("/")[0]
    while folder == home.key or folder.startswith(home.prefix):
        file = stat(clients, Location(home.bucket, folder).join(name))
        if file is not None:
            yield file
        if folder == home.key:
            return
        folder = folder.rpartition("/")[0]


def with_markers(short: pa.Table, clients: Clients) -> pa.Table:
    """DECLARED rows with the `_SUCCESS` beside the write, where one was stored since it ended.

    They are few; of the first ones storage is asked. One that may not be asked for is not told.
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


def _named(homes: pa.Table, pattern: str, with_tags: bool, con: Connection, kind: str, rows: Rows) -> Batches:
    """Of storage the versions of objects that are named so, and what there is of each job."""
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
    """The current object of each key, once."""
    sql = f"""
        SELECT bucket, key, max(size) AS size, max(modified_at) AS modified_at, max(etag) AS etag
        FROM versions WHERE {CURRENT}
        GROUP BY bucket, key
    """
    if "versions" in rows:
        yield "records", duck.query(con, sql, versions=rows["versions"])
    if "tagged" in rows:
        yield "tagged", summed(con, rows["tagged"])


def _file(bucket: str, key: str, size: int | None, modified_at: datetime, etag: str | None) -> File:
    return File(Location(bucket, key), size or 0, modified_at.replace(tzinfo=UTC), etag)

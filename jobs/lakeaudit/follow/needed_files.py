"""Answer which tables may need a file: by an index on disk, and by the commits since it was built.

An answer may name too many tables, which costs a check, but never too few: a key that is not known is only given up
once the newest commits of its table were read after the event.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from lakeaudit.collect.claim_lookups import parts_of
from lakeaudit.collect.manifest_reads import tables_by_kind
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.config import Lake, Table
from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Claims, Context, Fold
from lakeaudit.evidence.references import Key
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.follow.index import (
    KEY_HASH,
    AboutIndex,
    FileIndex,
    Files,
    RecentFiles,
    key_hash,
    numbered,
    open_index,
    write_index,
)
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import CLAIM

MOST_RECENT = 200_000
"""Files of newer commits in memory after which the index is built again."""
MOST_CHANGED = 0.2
"""The part of the tables that may have changed since an index was built; for more of them it is built again."""
MOST_REFRESHES = 50
"""After so many reads of the commits since a state, the state itself is read again."""
_FILES = "needed files"


@dataclass
class _Tracked:
    """The state of a table from which newer commits are read, and how often they were."""

    table: Table
    reads: Sequence[Claims]
    refreshes: int = 0


@dataclass
class NeededFiles:
    """The files that the tables of a lake need.

    Attributes:
        lake: the lake with all of its tables.
        folder: where the index is.
        index: the files by the states when it was built.
        recent: files of newer commits.
        unread: by table why its files are not known.
        engine: reads the files of few tables.
    """

    lake: Lake
    folder: Path
    index: FileIndex
    recent: RecentFiles
    unread: dict[str, str]
    engine: AuditEngine
    _tracked: dict[str, _Tracked] = field(default_factory=dict)
    _added: dict[str, set[int]] = field(default_factory=dict)

    @classmethod
    def opened(
        cls,
        lake: Lake,
        folder: Path,
        context: Context,
        engine: AuditEngine,
        builder: AuditEngine,
        *,
        fresh: bool = False,
    ) -> "NeededFiles":
        """Return the needed files by the index of a folder; it is built first if it does not fit.

        Args:
            lake: the lake with all of its tables.
            folder: the folder of the state of `follow`.
            context: reads the states of tables.
            engine: of this process; reads the files of few tables.
            builder: reads the files of all tables.
            fresh: whether the index is built even if one fits.

        Raises:
            CannotPublish: the folder cannot be written.
        """
        claims, unread = _read_states(lake, lake.tables, context)
        states = _states(claims)
        index = open_index(folder, lake.name, lake.results.uri)
        known = index.about.states if index else {}
        changed = {name for name, state in states.items() if known.get(name) != state}
        if fresh or index is None or len(changed) > MOST_CHANGED * len(states):
            index, changed = _built(lake, folder, claims, builder), set()
        needed = cls(lake, folder, index, RecentFiles(), unread, engine, _tracked(lake.tables, claims))
        needed._add_files(claims, changed)
        return needed

    @property
    def is_outgrown(self) -> bool:
        """Return whether newer commits have added so many files that the index should be built again."""
        return len(self.recent.tables) > MOST_RECENT

    def tables_of(self, keys: Sequence[Key]) -> list[frozenset[str]]:
        """Return for each key the tables that may need it, as far as commits were read."""
        hashes = [key_hash(key) for key in keys]
        known = self.index.lookup(hashes) if hashes else []
        return [tables | self.recent.lookup(each) for tables, each in zip(known, hashes, strict=True)]

    def take_added(self, name: str) -> set[int]:
        """Return the hashes of the files that commits of a table have added since the last call."""
        return self._added.pop(name, set())

    def refresh(self, names: Collection[str], context: Context) -> Mapping[str, str]:
        """Read the newest commits of tables; return why some of them cannot be read."""
        unsure: dict[str, str] = {}
        for name in names:
            tracked = self._tracked.get(name)
            if tracked is None:
                unsure[name] = self.unread.get(name, "its manifests were not read")
                continue
            many = tracked.refreshes >= MOST_REFRESHES
            fresh = _read_states(self.lake, [tracked.table], context)[0] if many else []
            if (why := self._add_commits(tracked, context)) is not None:
                unsure[name] = why
            tracked.refreshes += 1
            if fresh:
                self._tracked[name] = _Tracked(tracked.table, fresh)
        return unsure

    def reread(self, name: str, context: Context) -> str | None:
        """Read the state and all files of a table again; return why that is not possible."""
        table = self.lake.table(name)
        claims, unread = _read_states(self.lake, [table], context)
        if name in unread:
            return unread[name]
        self._tracked[name] = _Tracked(table, claims)
        self._add_files(claims, {name})
        return None

    def _add_commits(self, tracked: _Tracked, context: Context) -> str | None:
        """Add the files of commits since the tracked state; return why they cannot be read."""
        name = tracked.table.name
        for read in tracked.reads:
            try:
                changes = MANIFESTS[read.info.kind].changes(read, [tracked.table], context)
            except SourceError as error:
                return str(error)
            if name in changes.unsure:
                return changes.unsure[name]
            with duck.task_connection() as con:
                sql = f"SELECT {KEY_HASH} AS hash FROM rows WHERE state = 'live'"
                rows = duck.table(duck.query(con, sql, rows=changes.rows))
            added = self.recent.add(rows.column("hash").to_pylist(), name)
            self._added.setdefault(name, set()).update(added)
        return None

    def _add_files(self, claims: Sequence[Claims], names: Collection[str]) -> None:
        numbers = numbered(names)
        for hashes, tables in _files(self.engine, claims, numbers) if names else ():
            for name, number in numbers.items():
                self.recent.add(hashes[tables == number].tolist(), name)


def unwatched(lake: Lake) -> dict[str, str]:
    """Return the tables whose losses `follow` cannot see, with the reasons."""
    found: dict[str, str] = {}
    for table in lake.tables:
        deciding = table.state_manifests or table.event_manifests
        if not deciding:
            found[table.name] = "it has no manifest"
        elif all(MANIFESTS[each.kind].by_storage for each in deciding):
            found[table.name] = f"its files are only known by {MANIFESTS[deciding[0].kind].title}"
        elif table.settings.confirm.mode == "none":
            found[table.name] = "confirm.mode none forbids requests for its objects"
    return found


def read_kinds(lake: Lake) -> set[str]:
    """Return the kinds of manifest that `follow` reads: those that need no storage source."""
    return {kind for kind, _ in tables_by_kind(lake) if not MANIFESTS[kind].by_storage}


def _read_states(
    lake: Lake, tables: Sequence[Table], context: Context
) -> tuple[list[Claims], dict[str, str]]:
    """Read the manifests of tables; also return the tables that could not be read, with the reasons."""
    few = lake.model_copy(update={"tables": tuple(tables)})
    claims, gaps = read_manifests(few, context, read_kinds(few))
    unread: dict[str, str] = {}
    for gap in gaps:
        unread |= dict.fromkeys([gap.table] if gap.table else [table.name for table in tables], gap.reason)
    for read in claims:
        unread |= {name: state.refused for name, state in read.states.items() if state.refused}
    return claims, unread


def _states(claims: Sequence[Claims]) -> dict[str, str]:
    """Return by table the states that were read, as text; states without names by the identity of all lists."""
    states: dict[str, list[str]] = {}
    for read in claims:
        for name, each in read.states.items():
            at = each.state
            text = read.info.identity if at is None else f"{at.number} {at.name} {at.table_id} {at.etag}"
            states.setdefault(name, []).append(f"{read.info.kind} {text}")
    return {name: "; ".join(texts) for name, texts in states.items()}


def _tracked(tables: Sequence[Table], claims: Sequence[Claims]) -> dict[str, _Tracked]:
    read = {table.name: [each for each in claims if table.name in each.states] for table in tables}
    return {table.name: _Tracked(table, read[table.name]) for table in tables if read[table.name]}


def _built(lake: Lake, folder: Path, claims: Sequence[Claims], builder: AuditEngine) -> FileIndex:
    """Build the index by these states."""
    about = AboutIndex(lake.name, lake.results.uri, _states(claims))
    return write_index(folder, about, _files(builder, claims, numbered(about.states)))


def _files(engine: AuditEngine, claims: Sequence[Claims], numbers: Mapping[str, int]) -> Iterator[Files]:
    """Yield the files that these tables need, with the numbers of the tables.

    A part of a manifest that cannot be read leaves files out: the audits report it.
    """
    parts = [part for read in claims for part in parts_of(read, numbers)]
    tables = duck.small(_NUMBER, [*numbers.items()])
    stage = partial(_file_rows, tuple(read.fold for read in claims), tables)
    for kind, batch in engine.run(parts, [stage], Reading(partial(_only, tuple(sorted(numbers))))):
        if kind == _FILES:
            yield batch.column("hash").to_numpy(), batch.column("number").to_numpy()


_NUMBER = pa.schema([("name", pa.string()), ("number", pa.uint32())])


def _only(names: Sequence[str], con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    yield kind, of_tables(names, con, rows)


def of_tables(names: Sequence[str], con: Connection, rows: Rows) -> Rows:
    """Return the rows of these tables; rows without the name of a table concern all."""
    if "table_name" not in duck.relation(con, rows).columns:
        return rows
    return duck.query(con, f"FROM input WHERE table_name IN ({duck.literals(names)})", input=rows)


def _file_rows(
    folds: Sequence[Fold], numbers: pa.Table, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    folded = [duck.conform(con, fold(con, rows), CLAIM) for fold in folds]
    sql = f"""
        SELECT {KEY_HASH} AS hash, number FROM claims JOIN numbers ON table_name = name
        WHERE state IN ('live', 'history')
    """
    claims = duck.union(con, [CLAIM.empty_table(), *folded])
    yield _FILES, duck.query(con, sql, claims=claims, numbers=numbers)

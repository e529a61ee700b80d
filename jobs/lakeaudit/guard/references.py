"""Find which of many listed objects the newest states of all tables list: one pass over the manifests and the list."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakeaudit.collect.longest_commits import longest_commits
from lakeaudit.collect.manifest_reads import ManifestRead, manifest_read, tables_by_kind, unread_kinds
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.config import Lake
from lakeaudit.engine.answers import answers_of, few_answers, hold_answers
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.other_listers import OtherListers, other_listers
from lakeaudit.evidence.protocol import Claims, Context, EvidenceGap, not_all_listed
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.listed_folders import listed_folders, tables_around, unnamed_tables
from lakeaudit.guard.share import FOUND, references_found
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import KEY_REFERENCES, REFERENCED_KEY


@dataclass(frozen=True)
class ListedReferences:
    """The references to the listed objects, by the newest states of all tables that could be read.

    Attributes:
        reads: the manifests as they were read.
        found: REFERENCED_KEY rows, one for each listed key.
        doubts: tables that could not be read completely.
        longest: by table the longest of its last commits.
        logs: rows of `Changes`: listed files of logs from which the newest states are read.
    """

    reads: tuple[ManifestRead, ...]
    found: Relation
    doubts: tuple[Doubt, ...]
    longest: Mapping[str, timedelta]
    logs: Relation


@dataclass(frozen=True)
class _Manifests:
    """The manifests of a lake's tables before their rows are read."""

    lake: Lake
    claims: tuple[Claims, ...]
    gaps: tuple[EvidenceGap, ...]
    kinds: frozenset[str]

    @classmethod
    def of(cls, lake: Lake, context: Context) -> "_Manifests":
        kinds = {kind for kind, _ in tables_by_kind(lake) if not MANIFESTS[kind].by_storage}
        claims, gaps = read_manifests(lake, context, kinds)
        return cls(lake, tuple(claims), tuple(gaps), frozenset(kinds))

    def reads(self, notes: Sequence[Mapping[str, object]]) -> list[ManifestRead]:
        """Return the manifests after their rows were read."""
        return [
            manifest_read(
                each, self.gaps, self.lake, [note for note in notes if note["source"] == each.info.id]
            )
            for each in self.claims
        ]

    def unread(self) -> Iterator[Doubt]:
        """Yield the tables of kinds that could not be read at all, and of kinds that `guard` does not read."""
        for _, tables, why in unread_kinds(self.lake, self.kinds, self.claims, self.gaps):
            yield from (Doubt(table.name, why) for table in tables)
        for kind, tables in tables_by_kind(self.lake):
            for table in tables:
                if MANIFESTS[kind].by_storage and table.is_decided_by(kind):
                    unread = f"its files are only known by {MANIFESTS[kind].title}, which guard does not read"
                    yield Doubt(table.name, unread, table.location)


def read_references(
    lake: Lake,
    engine: AuditEngine,
    context: Context,
    con: Connection,
    keys: Relation,
) -> ListedReferences:
    """Read the manifests of all tables, and of other formats and catalog tables at their locations.

    Args:
        lake: the lake with all of its tables.
        engine: reads the manifests.
        context: of the command.
        con: the driver's connection.
        keys: LISTED_KEY rows.
    """
    folders = listed_folders(con, keys)
    holding = tables_around(lake, con, folders)
    others = other_listers(lake, holding, context.clients)
    own = _Manifests.of(lake, context)
    every = [own]
    if others.tables:
        every.append(_Manifests.of(lake.model_copy(update={"tables": others.tables}), context))
    tables = [table for each in every for table in each.lake.tables]
    claims = [each for manifests in every for each in manifests.claims]
    answers = hold_answers(con, references_found(engine, tables, claims, keys))
    notes = few_answers(answers, "notes")
    reads = [read for each in every for read in each.reads(notes)]
    unread = [doubt for each in every for doubt in each.unread()]
    longest = longest_commits(engine, own.claims, holding, context.clients)
    nested = unnamed_tables(lake, con, folders, context.clients)
    doubts = (*unread, *_doubts(reads), *_unknown_listers(lake, others), *nested)
    logs = _needed_logs(con, reads, keys, {table.name for table in (*holding, *others.tables)})
    found = _with_references(con, keys, answers_of(con, answers, FOUND, KEY_REFERENCES))
    return ListedReferences(tuple(reads), found, doubts, longest, logs)


def _with_references(con: Connection, keys: Relation, references: Relation) -> Relation:
    """Return REFERENCED_KEY rows of all keys."""
    sql = "SELECT keys.*, refs.* EXCLUDE id FROM keys LEFT JOIN refs USING (id)"
    return duck.conform(con, duck.query(con, sql, keys=keys, refs=references), REFERENCED_KEY)


def _needed_logs(
    con: Connection, reads: Sequence[ManifestRead], keys: Relation, names: Collection[str]
) -> Relation:
    """Return the listed files of logs from which the newest states of these tables are read."""
    rows = [
        (name, *file.place, "live")
        for each in reads
        for name in each.tables.keys() & {*names}
        if (needed := each.claims.states[name].needed_log) is not None
        for file in needed()
    ]
    needed = duck.small(CHANGED, rows)
    sql = "SELECT needed.* FROM needed SEMI JOIN keys USING (bucket, key)"
    return duck.hold(con, duck.query(con, sql, needed=needed, keys=keys))


def _unknown_listers(lake: Lake, others: OtherListers) -> Iterator[Doubt]:
    for name, why in others.unknown.items():
        yield Doubt(name, why, lake.table(name).location)
    for place, why in others.folders:
        yield Doubt(place.uri, why, place)


def _doubts(reads: Sequence[ManifestRead]) -> Iterator[Doubt]:
    for read in reads:
        for name, why in read.broken.items():
            if not _is_incomplete_list(read, name):
                yield Doubt(name, why)
            elif not MANIFESTS[read.kind].model.is_state:
                yield Doubt(name, why, read.tables[name].location)
        for place, name, why in read.protected:
            yield Doubt(name, why, place)


def _is_incomplete_list(read: ManifestRead, name: str) -> bool:
    """Return whether a table was read completely, and the lake file says that its list lacks files of its folder.

    Readers by a state manifest use no other files. The files that a list of single writes lacks are in the folder.
    """
    lacks = any(each.kind == read.kind and not each.complete for each in read.tables[name].manifests)
    return lacks and read.broken[name] == not_all_listed(read.kind)

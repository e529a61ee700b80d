"""Find which of many listed objects the newest states of all tables list: one pass over the manifests and the list."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from lakeaudit.collect.longest_commits import longest_commits
from lakeaudit.collect.manifest_reads import ManifestRead
from lakeaudit.config import Lake, Table
from lakeaudit.engine.answers import answers_of, few_answers, hold_answers
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.manifest.file_list.fold import CHANGED
from lakeaudit.evidence.other_listers import OtherListers, other_listers
from lakeaudit.evidence.protocol import Changes, Context, not_all_listed
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.guard import odd_references
from lakeaudit.guard.catalog_tables import catalog_evidence
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.listed_folders import listed_folders, tables_around, unnamed_tables
from lakeaudit.guard.manifests import Manifests
from lakeaudit.guard.odd_references import UNKNOWN_STORES, with_resolved
from lakeaudit.guard.share import FOUND, references_found
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import KEY_REFERENCES, REFERENCED_KEY, UNKNOWN_STORE


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
class KnownBefore:
    """What is known before the rows of manifests are read.

    Attributes:
        own: the manifests of the lake's tables.
        expected: about how many of the keys these tables list, if that is known.
        doubts: why tables may be missing.
        left_out: tables that the lake file leaves out.
    """

    own: Manifests
    expected: int | None = None
    doubts: Sequence[Doubt] = ()
    left_out: Sequence[Table] = ()


@dataclass(frozen=True)
class OtherTables:
    """The tables that are read only for the files that they list, and why there may be more."""

    tables: tuple[Table, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def other_tables(
    lake: Lake, con: Connection, context: Context, holding: Sequence[Table], left_out: Sequence[Table]
) -> OtherTables:
    """Return the other lists of files at the locations of `holding`, the tables of catalogs, and those left out."""
    others = other_listers(lake, holding, context.clients)
    beside = catalog_evidence(lake, con, context, {table.name for table in others.tables})
    tables = (*others.tables, *beside.tables, *left_out)
    return OtherTables(tables, (*_unknown_listers(lake, others), *beside.doubts))


def read_references(
    lake: Lake,
    engine: AuditEngine,
    context: Context,
    con: Connection,
    keys: Relation,
    known: KnownBefore,
) -> ListedReferences:
    """Read the rows of the manifests of all tables, and of other formats and catalog tables at their locations.

    Args:
        lake: the lake with all of its tables.
        engine: reads the manifests.
        context: of the command.
        con: the driver's connection.
        keys: LISTED_KEY rows.
        known: what is known before.
    """
    folders = listed_folders(con, keys)
    holding = tables_around(lake, con, folders)
    others = other_tables(lake, con, context, holding, known.left_out)
    every = [known.own]
    if more := others.tables:
        every.append(Manifests.of(lake.model_copy(update={"tables": more}), context))
    answers = hold_answers(con, references_found(engine, every, keys, known.expected))
    notes = few_answers(answers, "notes")
    reads = [read for each in every for read in each.reads(notes)]
    unread = [doubt for each in every for doubt in each.unread()]
    buckets = buckets_of(table for each in every for table in each.lake.tables)
    unread += unknown_stores(con, answers_of(con, answers, UNKNOWN_STORES, UNKNOWN_STORE), buckets)
    longest = longest_commits(engine, known.own.claims, holding, context.clients)
    nested = unnamed_tables(lake, con, folders, context.clients)
    doubts = tuple(widened(reads, (*unread, *_doubts(reads), *known.doubts, *others.doubts, *nested)))
    logs = _needed_logs(con, reads, keys, {table.name for table in (*holding, *more)})
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


def widened(reads: Sequence[ManifestRead], doubts: Sequence[Doubt]) -> Iterator[Doubt]:
    """Yield the doubts; those about a table that also has files elsewhere, such as a clone, concern every file."""
    far = {
        name
        for read in reads
        for name, table in read.tables.items()
        if any(not table.location.contains(root) for root in read.claims.states[name].roots)
    }
    for doubt in doubts:
        yield replace(doubt, place=None) if doubt.table in far else doubt


def unknown_stores(con: Connection, rows: Relation, buckets: Mapping[str, str]) -> Iterator[Doubt]:
    """Yield the tables that list files in stores of which no location is known: these may be any file.

    Args:
        con: the driver's connection.
        rows: UNKNOWN_STORE rows.
        buckets: the bucket of each table's own location, which is known.
    """
    for row in duck.rows_of(
        duck.made_of(con, "SELECT DISTINCT table_name, store FROM input ORDER BY ALL", rows)
    ):
        why = f"it lists files in {row['store']}, which the lake file does not map to a location (`aliases`)"
        if row["store"] != buckets.get(row["table_name"]):
            yield Doubt(row["table_name"], why)


def changed_rows(
    con: Connection, changes: Changes, tables: Mapping[str, Table]
) -> tuple[pa.Table, tuple[Doubt, ...]]:
    """Return the rows of newer commits, also by resolved paths, and doubts about unknown stores that they name."""
    rows = with_resolved(duck.table(duck.relation(con, changes.rows)))
    stores = odd_references.unknown_stores(con, rows)
    return rows, tuple(unknown_stores(con, stores, buckets_of(tables.values())))


def buckets_of(tables: Iterable[Table]) -> dict[str, str]:
    """Return the bucket of each table's own location."""
    return {table.name: table.location.bucket for table in tables}


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

"""Read which of many keys the newest states of all tables list: one pass over the manifests, joined with the list."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import pyarrow as pa

from lakeaudit.collect.claim_lookups import parts_of
from lakeaudit.collect.longest_commits import longest_commits
from lakeaudit.collect.manifest_reads import ManifestRead, manifest_read, tables_by_kind
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.collect.source_facts import deciding_places
from lakeaudit.config import Lake, Table
from lakeaudit.engine.answers import AnswersByKind, answers_of, few_answers, hold_answers
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.other_listers import OtherListers, other_listers
from lakeaudit.evidence.protocol import Batches, Claims, Context, Fold, Part, Stored, pieces
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.evidence.storage.versions import one_row_per_key
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.table_facts import roots
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, STORED

_CLAIMS, _STORED = "claims of listed keys", "objects of listed keys"
_KEYS_A_PART = 200_000


@dataclass(frozen=True)
class Doubt:
    """A reason why a table may list more files than were read: files below `place`, or any file if it is None."""

    table: str
    why: str
    place: Location | None = None


@dataclass(frozen=True)
class ListedReferences:
    """The claims on the listed keys, by the newest states of all tables that could be read.

    Attributes:
        reads: the manifests as they were read.
        claims: CLAIM rows of listed keys.
        doubts: tables that could not be read completely.
        stored: STORED rows, by the storage sources of the lake file, of keys that no table lists.
        longest: by table the longest of its last commits.
    """

    reads: tuple[ManifestRead, ...]
    claims: Relation
    doubts: tuple[Doubt, ...]
    stored: Relation
    longest: Mapping[str, timedelta] = field(default_factory=dict)

    @property
    def retention(self) -> dict[str, timedelta]:
        """Return by table how long a removed file is promised to readers."""
        return {
            name: read.claims.states[name].retention or table.settings.retention
            for read in self.reads
            for name, table in read.tables.items()
        }


def read_references(
    lake: Lake,
    engine: AuditEngine,
    context: Context,
    con: Connection,
    keys: Relation,
    storage: Sequence[Stored] = (),
) -> ListedReferences:
    """Read the manifests of all tables, and of other formats and catalog tables at their locations.

    `storage`: storage sources that are read in the same pass, see `ListedReferences.stored`.
    """
    holding = _tables_around(lake, con, keys)
    own = _Pass(lake, engine, context, con, keys, storage).run()
    longest = longest_commits(engine, [each.claims for each in own.reads], holding, context.clients)
    others = other_listers(lake, holding, context.clients)
    own = replace(own, longest=longest, doubts=(*own.doubts, *_unknown_listers(lake, others)))
    if others.tables:
        beside = _Pass(lake.model_copy(update={"tables": others.tables}), engine, context, con, keys).run()
        claims = duck.union(con, [own.claims, beside.claims])
        reads, doubts = (*own.reads, *beside.reads), (*own.doubts, *beside.doubts)
        own = replace(own, reads=reads, claims=claims, doubts=doubts)
    logs = _needed_logs(con, own.reads, keys, [table.name for table in (*holding, *others.tables)])
    return replace(own, claims=duck.union(con, [own.claims, logs]))


def _needed_logs(
    con: Connection, reads: Sequence[ManifestRead], keys: Relation, names: Iterable[str]
) -> Relation:
    """Return CLAIM rows of the listed keys that are files of logs from which these tables' newest states are read."""
    rows = [
        (each.claims.info.id, each.kind, name, *file.place, each.claims.states[name].version)
        for each in reads
        for name in each.tables.keys() & {*names}
        if (needed := each.claims.states[name].needed_log) is not None
        for file in needed()
    ]
    needed = duck.small(_NEEDED_LOG, rows)
    listed = duck.query(
        con, "SELECT needed.* FROM needed SEMI JOIN keys USING (bucket, key)", needed=needed, keys=keys
    )
    given = {"state": "'live'", "certain": "true", "category": "'log'", "own_root": "true"}
    missing = {name: "NULL" for name in CLAIM.names if name not in (*given, *_NEEDED_LOG.names)}
    return duck.hold(con, duck.conform(con, listed, CLAIM, given | missing))


_NEEDED_LOG = pa.schema(
    [
        *((name, pa.string()) for name in ("source", "manifest_kind", "table_name", "bucket", "key")),
        ("table_version", pa.int64()),
    ]
)


def _tables_around(lake: Lake, con: Connection, keys: Relation) -> list[Table]:
    """Return the tables whose location contains one of the keys."""
    labelled = attach_label(con, keys, roots(lake.tables), "owner")
    found = duck.rows_of(
        duck.made_of(con, "SELECT DISTINCT owner FROM input WHERE owner IS NOT NULL", labelled)
    )
    places = {lake.table(row["owner"]).location for row in found}
    return [table for table in lake.tables if table.location in places]


def _unknown_listers(lake: Lake, others: OtherListers) -> Iterator[Doubt]:
    for name, why in others.unknown.items():
        yield Doubt(name, why, lake.table(name).location)


@dataclass(frozen=True)
class _Pass:
    """One pass over the manifests of a lake's tables."""

    lake: Lake
    engine: AuditEngine
    context: Context
    con: Connection
    keys: Relation
    storage: Sequence[Stored] = ()

    def run(self) -> ListedReferences:
        """Read the manifests and join their claims with the keys."""
        kinds = {kind for kind, _ in tables_by_kind(self.lake) if not MANIFESTS[kind].by_storage}
        claims, holes = read_manifests(self.lake, self.context, kinds)
        answers = self._answers(claims)
        notes = few_answers(answers, "notes")
        reads = tuple(
            manifest_read(each, holes, self.lake, [note for note in notes if note["source"] == each.info.id])
            for each in claims
        )
        lost = kinds - {each.kind for each in reads}
        why = {hole.source: hole.reason for hole in holes}
        unread = tuple(
            Doubt(table.name, why.get(f"manifest:{kind}", "its manifests cannot be read"))
            for kind, tables in tables_by_kind(self.lake)
            if kind in lost
            for table in tables
        )
        doubts = (*unread, *_by_storage(self.lake), *_doubts(reads))
        listed = answers_of(self.con, answers, _CLAIMS, CLAIM)
        stored = answers_of(self.con, answers, _STORED, STORED)
        return ListedReferences(reads, listed, doubts, stored)

    def _answers(self, claims: Sequence[Claims]) -> AnswersByKind:
        names = [table.name for table in self.lake.tables]
        parts = [part for each in claims for part in parts_of(each, names)]
        stored = [*pieces(*(source.rows for source in self.storage))]
        stage = partial(_of_listed_keys, tuple(each.fold for each in claims), _Storage.of(self.storage))
        return hold_answers(self.con, self.engine.run([*stored, *parts, *_list_parts(self.keys)], [stage]))


def _by_storage(lake: Lake) -> Iterator[Doubt]:
    """Yield the tables whose files are only known from storage: their lists are not read here."""
    for kind, tables in tables_by_kind(lake):
        if MANIFESTS[kind].by_storage:
            for table in tables:
                if table.is_decided_by(kind):
                    why = f"its files are only known by {MANIFESTS[kind].title}, which guard does not read"
                    yield Doubt(table.name, why, table.location)


def _doubts(reads: Sequence[ManifestRead]) -> Iterator[Doubt]:
    for read in reads:
        for name, why in read.broken.items():
            yield Doubt(name, why)
        for place, name, why in read.protected:
            yield Doubt(name, why, place)


def _list_parts(keys: Relation) -> Iterator[Part]:
    """Yield the keys as parts, which the engine routes to the shares of their claims."""
    rows = duck.table(keys)
    for start in range(0, rows.num_rows, _KEYS_A_PART):
        few = rows.slice(start, _KEYS_A_PART)
        yield Part("list", partial(_read_keys, few), few.nbytes)


def _read_keys(rows: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - readers of parts receive a connection
    yield "listed_keys", rows


@dataclass(frozen=True)
class _Storage:
    """The storage sources as wholes: plain data that travels to the tasks, see `SourceFacts`."""

    deciding: Mapping[Location, str]
    repeats: tuple[str, ...]
    older_alone: tuple[str, ...]

    @classmethod
    def of(cls, storage: Sequence[Stored]) -> "_Storage":
        return cls(
            deciding_places(storage),
            tuple(source.info.id for source in storage if source.repeats),
            tuple(source.info.id for source in storage if source.older_alone),
        )

    def objects(self, con: Connection, versions: Rows, keys: Rows) -> Relation:
        """Return STORED rows of the keys by the source that decides there."""
        few = duck.query(con, "SELECT v.* FROM v SEMI JOIN keys USING (bucket, key)", v=versions, keys=keys)
        labelled = attach_label(con, few, self.deciding, "decides")
        sql = "SELECT * EXCLUDE decides FROM input WHERE decides = source"
        return one_row_per_key(con, duck.query(con, sql, input=labelled), self.repeats, self.older_alone)


def _of_listed_keys(
    folds: Sequence[Fold], storage: _Storage, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    """Yield the claims of the listed keys of a share, and the objects of those that no table lists."""
    if "listed_keys" not in rows:
        return
    listed = rows["listed_keys"]
    every = duck.union(
        con, [CLAIM.empty_table(), *(duck.conform(con, fold(con, rows), CLAIM) for fold in folds)]
    )
    sql = "SELECT every.* FROM every SEMI JOIN listed USING (bucket, key)"
    claims = duck.hold(con, duck.query(con, sql, every=every, listed=listed))
    yield _CLAIMS, claims
    if "versions" in rows:
        needed = "(SELECT * FROM claims WHERE state IN ('live', 'history'))"
        others = f"SELECT listed.* FROM listed ANTI JOIN {needed} USING (bucket, key)"
        unlisted = duck.hold(con, duck.query(con, others, listed=listed, claims=claims))
        yield _STORED, storage.objects(con, rows["versions"], unlisted)

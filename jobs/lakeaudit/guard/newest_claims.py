"""Returns the references of some files in the newest states of tables: read once, later only newer commits.

Manifests that need a storage snapshot are looked up for each file. The tables and the doubts are those of `guard`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.collect.last_reads import LastRead, last_reads
from lakeaudit.collect.longest_commits import longest_commits
from lakeaudit.collect.manifest_reads import ManifestRead, manifest_read, tables_by_kind, unread_kinds
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.config import Lake, Table
from lakeaudit.engine.answers import answers_of, few_answers, hold_answers
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import AuditError
from lakeaudit.evidence.protocol import Changes, Claims, Context, EvidenceGap
from lakeaudit.evidence.references import FREE, HISTORY, LIVE, READ, UNKNOWN, Key, Reference, Said
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.guard.doubts import Doubt
from lakeaudit.guard.known_lake import KnownLake
from lakeaudit.guard.listed_folders import listed_folders, unnamed_tables
from lakeaudit.guard.odd_references import UNKNOWN_STORES
from lakeaudit.guard.references import buckets_of, changed_rows, other_tables, unknown_stores, widened
from lakeaudit.guard.share import CLAIMS, claims_found
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.threads import beside
from lakeaudit.schemas import CLAIM, UNKNOWN_STORE

THREADS = 8
_KEYS = pa.schema([("bucket", pa.string()), ("key", pa.string())])
_ANSWERS = {"live": LIVE, "history": HISTORY, "gone": FREE}
_LOOKUP_ANSWERS = {"present": LIVE, "deleted": FREE, "absent": FREE}


@dataclass(frozen=True)
class _Read:
    """One kind of manifest after the first read, and the states of each file by table."""

    read: ManifestRead
    states: Mapping[Key, Mapping[str, tuple[str, bool]]]
    stores: tuple[Doubt, ...]


class NewestClaims:
    """Implements `evidence.references.References` for the tables of a lake and files that are known in advance.

    A table that cannot be read raises no error: its references are UNKNOWN.
    """

    def __init__(
        self,
        known: KnownLake,
        engine: AuditEngine,
        keys: Collection[Key],
        *,
        everybody: bool = False,
    ) -> None:
        """With `everybody` also use tables outside of the lake file, see `other_tables`, and reads of the files."""
        self._context, self._engine, self._lake = known.context, engine, known.lake
        by_kind = dict(tables_by_kind(self._lake))
        self._single = {kind: tables for kind, tables in by_kind.items() if MANIFESTS[kind].by_storage}
        self._read: list[_Read] = []
        self._lost: list[tuple[str, list[Table], str]] = []
        wanted = duck.small(_KEYS, sorted(keys))
        self._add(self._lake, by_kind.keys() - self._single.keys(), wanted)
        holding = _holding(self._lake.tables, sorted(keys)) if everybody else []
        own = [each.read.claims for each in self._read]
        self.longest = _longest_at_places(
            self._lake.tables, longest_commits(engine, own, holding, self._context.clients)
        )
        self._doubts = self._other_doubts(known, holding, wanted) if everybody else None
        has_events = everybody and self._lake.events
        self._reads = last_reads(self._lake, engine, self._context, wanted) if has_events else {}

    @property
    def whole(self) -> frozenset[str]:
        """See `References`. Manifests that are looked up by file count as read."""
        read = {
            (each.read.kind, name)
            for each in self._read
            for name in each.read.tables.keys() - each.read.broken
        }
        deciding = ((table, table.state_manifests or table.event_manifests) for table in self._lake.tables)
        return frozenset(
            table.name
            for table, manifests in deciding
            if manifests
            and all(each.kind in self._single or (each.kind, table.name) in read for each in manifests)
        )

    def _add(self, lake: Lake, kinds: AbstractSet[str], keys: pa.Table) -> None:
        """Read the manifests of these kinds."""
        claims, holes = read_manifests(lake, self._context, kinds)
        self._read += [_read(self._engine, each, holes, lake, keys) for each in claims]
        self._lost += unread_kinds(lake, kinds, claims, holes)

    def _other_doubts(
        self, known: KnownLake, holding: Sequence[Table], wanted: pa.Table
    ) -> tuple[Doubt, ...]:
        """Read the tables that the lake file does not name, and return why there may be more references.

        Without tables of the lake file there is no step on a file either.
        """
        if not self._lake.tables:
            return known.doubts
        with duck.task_connection() as con:
            folders = listed_folders(con, duck.relation(con, wanted))
            others = other_tables(self._lake, con, self._context, holding, known.left_out)
            if others.tables:
                beside = self._lake.model_copy(update={"tables": others.tables})
                self._add(beside, {kind for kind, _ in tables_by_kind(beside)}, wanted)
            nested = tuple(unnamed_tables(self._lake, con, folders, self._context.clients))
        protected = (
            Doubt(name, why, place) for each in self._read for place, name, why in each.read.protected
        )
        stores = (doubt for each in self._read for doubt in each.stores)
        doubts = (*protected, *stores, *known.doubts, *others.doubts, *nested)
        return tuple(widened([each.read for each in self._read], doubts))

    def of(self, keys: Collection[Key]) -> Said:
        """Return the references of some of the files now."""
        said: dict[Key, list[Reference]] = defaultdict(list)
        for read in self._read:
            self._since(read, keys, said)
        self._unread(keys, said)
        with beside(THREADS) as pool:
            for key, references in zip(keys, pool.map(self._look_up, keys), strict=True):
                said[key] += references
        for key in self._reads.keys() & set(keys):
            said[key].append(_read_by(self._reads[key]))
        return said

    def _unread(self, keys: Collection[Key], said: dict[Key, list[Reference]]) -> None:
        """Add UNKNOWN references for manifests that may list the files and cannot be read."""
        for kind, tables, why in self._lost:
            for key in keys:
                said[key] += [_reference(table, kind, UNKNOWN, why) for table in tables]
        for doubt in self._doubts or ():
            for key in keys:
                if doubt.place is None or doubt.place.holds(*key):
                    said[key].append(_doubtful(doubt))

    def _since(self, read: _Read, keys: Collection[Key], said: dict[Key, list[Reference]]) -> None:
        manifest = read.read
        newer = manifest.changes(self._context)
        unsure = {**manifest.broken, **newer.unsure}
        touched, stores = _changed_states(newer, keys, manifest.tables)
        for key in keys:
            known = {**read.states.get(key, {}), **touched.get(key, {})}
            of_key = {name: (UNKNOWN, why) for name, why in {**manifest.kept_at(key), **unsure}.items()}
            for name, (state, certain) in known.items():
                answer = _ANSWERS[state]
                if answer != FREE and (certain or name not in unsure):
                    of_key[name] = (answer, "")
            said[key] += [
                _reference(manifest.tables[n], manifest.kind, *told)
                for n, told in of_key.items()
                if n in manifest.tables
            ]
            said[key] += map(_doubtful, stores if self._doubts is not None else ())

    def _look_up(self, place: Key) -> list[Reference]:
        """Look one file up in manifests of the tables around it."""
        return [
            _look_up_file(kind, table, self._context, place)
            for kind, tables in self._single.items()
            for table in tables
            if table.location.holds(*place)
        ]


def _holding(tables: Sequence[Table], keys: Sequence[Key]) -> list[Table]:
    """Return tables that contain any of these keys, which are sorted."""
    return [table for table in tables if _holds_any(table.location, keys)]


def _holds_any(place: Location, keys: Sequence[Key]) -> bool:
    """Whether a place contains any of these keys, which are sorted."""
    at = bisect_left(keys, (place.bucket, place.prefix))
    return at < len(keys) and place.holds(*keys[at])


def _longest_at_places(tables: Sequence[Table], longest: Mapping[str, timedelta]) -> Mapping[str, timedelta]:
    """Return by table the longest commit of all tables at its location: each may list a file there."""
    at: dict[Location, timedelta] = {}
    for table in tables:
        if table.name in longest:
            at[table.location] = max(at.get(table.location, timedelta(0)), longest[table.name])
    return {**longest, **{table.name: at[table.location] for table in tables if table.location in at}}


def _read(
    engine: AuditEngine, claims: Claims, holes: Sequence[EvidenceGap], lake: Lake, keys: pa.Table
) -> _Read:
    tables = {table.name: table for table in lake.tables if table.name in claims.states}
    states: dict[Key, dict[str, tuple[str, bool]]] = defaultdict(dict)
    with duck.task_connection() as con:
        answers = hold_answers(con, claims_found(engine, claims, tables, duck.relation(con, keys)))
        few = "SELECT bucket, key, table_name, state, certain FROM input"
        for row in duck.rows_of(duck.made_of(con, few, answers_of(con, answers, CLAIMS, CLAIM))):
            states[row["bucket"], row["key"]][row["table_name"]] = row["state"], bool(row["certain"])
        elsewhere = answers_of(con, answers, UNKNOWN_STORES, UNKNOWN_STORE)
        stores = tuple(unknown_stores(con, elsewhere, buckets_of(tables.values())))
        notes = few_answers(answers, "notes")
    return _Read(manifest_read(claims, holes, lake, notes), states, stores)


def _changed_states(
    newer: Changes, keys: Collection[Key], tables: Mapping[str, Table]
) -> tuple[dict[Key, dict[str, tuple[str, bool]]], tuple[Doubt, ...]]:
    """Return the states of the keys after newer commits, and the unknown stores in which these list files."""
    with duck.task_connection() as con:
        rows, stores = changed_rows(con, newer, tables)
        wanted = duck.small(_KEYS, sorted(keys))
        sql = "SELECT bucket, key, table_name, state FROM rows SEMI JOIN wanted USING (bucket, key)"
        found = duck.rows_of(duck.query(con, sql, rows=rows, wanted=wanted))
    touched: dict[Key, dict[str, tuple[str, bool]]] = defaultdict(dict)
    for row in found:
        touched[row["bucket"], row["key"]][row["table_name"]] = row["state"], True
    return touched, stores


def _look_up_file(kind: str, table: Table, context: Context, place: Key) -> Reference:
    """Look one file up; a manifest that cannot be read gives UNKNOWN."""
    try:
        answer, _, reason = MANIFESTS[kind].look_up(table, context.clients, *place)
    except AuditError as error:
        answer, reason = UNKNOWN, str(error)
    except (ClientError, BotoCoreError) as error:
        answer, reason = UNKNOWN, explain(error).what
    return _reference(table, kind, _LOOKUP_ANSWERS.get(answer, UNKNOWN), reason)


def _read_by(last: LastRead) -> Reference:
    return Reference("", "events", READ, last.description)


def _doubtful(doubt: Doubt) -> Reference:
    return Reference(doubt.table, "", UNKNOWN, doubt.why, decides=False)


def _reference(table: Table, kind: str, answer: str, why: str = "") -> Reference:
    deciding = table.state_manifests or table.event_manifests
    return Reference(table.name, kind, answer, why, any(each.kind == kind for each in deciding))

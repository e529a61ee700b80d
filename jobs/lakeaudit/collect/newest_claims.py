"""Returns the references of some files in the newest states of tables: read once, later only newer commits.

Manifests that need a storage snapshot are looked up for each file.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.collect.claim_lookups import claims_of
from lakeaudit.collect.last_reads import LastRead, last_reads
from lakeaudit.collect.longest_commits import longest_commits
from lakeaudit.collect.manifest_reads import ManifestRead, manifest_read, tables_by_kind, unread_kinds
from lakeaudit.collect.read_sources import read_manifests
from lakeaudit.config import Lake, Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import AuditError
from lakeaudit.evidence.other_listers import OtherListers, other_listers
from lakeaudit.evidence.protocol import Changes, Claims, Context, EvidenceGap
from lakeaudit.evidence.references import FREE, HISTORY, LIVE, READ, UNKNOWN, Key, Reference, Said
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.threads import beside

THREADS = 8
_KEYS = pa.schema([("bucket", pa.string()), ("key", pa.string())])
_ANSWERS = {"live": LIVE, "history": HISTORY, "gone": FREE}
_LOOKUP_ANSWERS = {"present": LIVE, "deleted": FREE, "absent": FREE}


@dataclass(frozen=True)
class _Read:
    """One kind of manifest after the first read, and the states of each file by table."""

    read: ManifestRead
    states: Mapping[Key, Mapping[str, tuple[str, bool]]]


class NewestClaims:
    """Implements `evidence.references.References` for the tables of a lake and files that are known in advance.

    A table that cannot be read raises no error: its references are UNKNOWN.
    """

    def __init__(
        self,
        lake: Lake,
        engine: AuditEngine,
        context: Context,
        keys: Collection[Key],
        *,
        everybody: bool = False,
    ) -> None:
        """With `everybody` also use tables outside of the lake file, see `other_listers`, and reads of the files."""
        self._context, self._engine, self._lake = context, engine, lake
        by_kind = dict(tables_by_kind(lake))
        self._single = {kind: tables for kind, tables in by_kind.items() if MANIFESTS[kind].by_storage}
        self._read: list[_Read] = []
        self._lost: list[tuple[str, list[Table], str]] = []
        wanted = duck.small(_KEYS, sorted(keys))
        self._add(lake, by_kind.keys() - self._single.keys(), wanted)
        self._holding = _holding(lake.tables, sorted(keys)) if everybody else []
        own = [each.read.claims for each in self._read]
        self.longest = longest_commits(engine, own, self._holding, context.clients)
        self._others = self._listers(wanted)
        self._reads = last_reads(lake, engine, context, wanted) if everybody and lake.events else {}

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

    def _listers(self, wanted: pa.Table) -> OtherListers:
        """Find lists outside of the lake file that may list these files."""
        if not self._holding:
            return OtherListers()
        others = other_listers(self._lake, self._holding, self._context.clients)
        if others.tables:
            beside = self._lake.model_copy(update={"tables": others.tables})
            self._add(beside, {kind for kind, _ in tables_by_kind(beside)}, wanted)
        return others

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
        for table, why in self._unknown():
            for key in keys:
                if table.location.holds(*key):
                    said[key].append(_reference(table, "", UNKNOWN, why))
        for place, why in self._others.folders:
            for key in filter(lambda key: place.holds(*key), keys):
                table = next(each for each in self._holding if each.location.holds(*key))
                said[key].append(_reference(table, "", UNKNOWN, why))

    def _unknown(self) -> Iterator[tuple[Table, str]]:
        """Yield tables whose lists are not all known, with the reason."""
        for table in self._lake.tables:
            if why := self._others.unknown.get(table.name):
                yield table, why

    def _since(self, read: _Read, keys: Collection[Key], said: dict[Key, list[Reference]]) -> None:
        manifest = read.read
        newer = manifest.changes(self._context)
        unsure, touched = {**manifest.broken, **newer.unsure}, _changed_states(newer, keys)
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


def _read(
    engine: AuditEngine, claims: Claims, holes: Sequence[EvidenceGap], lake: Lake, keys: pa.Table
) -> _Read:
    tables = [table.name for table in lake.tables if table.name in claims.states]
    rows, notes = claims_of(engine, claims, tables, keys)
    states: dict[Key, dict[str, tuple[str, bool]]] = defaultdict(dict)
    for batch in rows:
        for row in batch.select(["bucket", "key", "table_name", "state", "certain"]).to_pylist():
            states[row["bucket"], row["key"]][row["table_name"]] = row["state"], bool(row["certain"])
    return _Read(manifest_read(claims, holes, lake, notes), states)


def _changed_states(newer: Changes, keys: Collection[Key]) -> dict[Key, dict[str, tuple[str, bool]]]:
    with duck.task_connection() as con:
        wanted = duck.small(_KEYS, sorted(keys))
        sql = "SELECT bucket, key, table_name, state FROM rows SEMI JOIN wanted USING (bucket, key)"
        found = duck.rows_of(duck.query(con, sql, rows=newer.rows, wanted=wanted))
    touched: dict[Key, dict[str, tuple[str, bool]]] = defaultdict(dict)
    for row in found:
        touched[row["bucket"], row["key"]][row["table_name"]] = row["state"], True
    return touched


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
    return Reference(
        "", "events", READ, f"it was read on {last.at:%Y-%m-%d %H:%M} by {last.by or 'somebody'}"
    )


def _reference(table: Table, kind: str, answer: str, why: str = "") -> Reference:
    deciding = table.state_manifests or table.event_manifests
    return Reference(table.name, kind, answer, why, any(each.kind == kind for each in deciding))

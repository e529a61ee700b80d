"""Joins listed objects with manifests, and with storage: in tasks, each with all rows of some keys."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.collect.claim_lookups import parts_of
from lakeaudit.collect.source_facts import deciding_places
from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import Answers, AuditEngine
from lakeaudit.evidence.protocol import Batches, BufferedRows, Claims, Fold, Part, Stored, pieces
from lakeaudit.evidence.storage.versions import one_row_per_key
from lakeaudit.guard.manifests import Manifests
from lakeaudit.guard.odd_references import IS_ODD, with_odd_references
from lakeaudit.keys import Location
from lakeaudit.matching.prefilter import BITS, BUCKET, is_filtered, is_keyed
from lakeaudit.matching.prefiltered_reads import RowFilter, bitmap, buckets_of
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.runtime.scratch import scratch_root
from lakeaudit.schemas import CLAIM, KEY_REFERENCES

FOUND, OBJECTS, CLAIMS = "found keys", "found objects", "claims of keys"
KEYS_A_PART = 200_000
KEYS_IN_MEMORY = 2_000_000
"""Up to this number, listed keys stay in memory."""
_PACKED = 8
"""Bytes of a list in memory for each byte of evidence as stored, see `Part.weight`."""
_STORED = 40
"""Bytes of evidence, as stored, for one key."""
FEW_BUCKETS = 100_000
"""Up to this number of buckets, rows of other keys are dropped before their other columns are decoded."""


@dataclass(frozen=True)
class ReferenceFacts:
    """The plain data about manifests that travels to the tasks.

    Attributes:
        folds: make claims of the rows of manifests.
        tables: name and kind of the manifests that decide which files a table has, with the table's retention.
    """

    folds: tuple[Fold, ...]
    tables: pa.Table


@dataclass(frozen=True)
class ObjectFacts:
    """The plain data about storage that travels to the tasks.

    Attributes:
        deciding: the storage source that decides in each place.
        repeats: ids of storage sources that may name a version twice.
        older_alone: ids of storage sources of stores without delete markers.
    """

    deciding: Mapping[Location, str]
    repeats: tuple[str, ...]
    older_alone: tuple[str, ...]


_TABLE = pa.schema([("name", pa.string()), ("kind", pa.string()), ("retention", pa.duration("us"))])


def references_found(
    engine: AuditEngine, manifests: Sequence[Manifests], keys: Relation, expected: int | None = None
) -> Answers:
    """Yield FOUND rows of keys with their id that tables reference, and NOTE rows of parts that could not be read.

    `expected` is about how many of the keys have references, if it is known.
    """
    claims = [claims for each in manifests for claims in each.claims]
    deciding = [
        (name, claims.info.kind, retention)
        for each in manifests
        for claims in each.claims
        for name, retention in each.decided_by(claims).items()
    ]
    facts = ReferenceFacts(tuple(each.fold for each in claims), duck.small(_TABLE, deciding))
    names = [table.name for each in manifests for table in each.lake.tables]
    parts = [part for each in claims for part in parts_of(each, names)]
    with _list_parts(engine, duck.query(keys.con, "SELECT id, bucket, key FROM keys", keys=keys)) as listed:
        yield from engine.run(
            [*parts, *listed], [partial(_with_references, facts)], _reading(keys, parts, expected)
        )


def claims_found(engine: AuditEngine, claims: Claims, tables: Collection[str], keys: Relation) -> Answers:
    """Yield the CLAIM rows of few keys as CLAIMS, also those by unusual paths, and UNKNOWN_STORES and NOTE rows."""
    parts = [*parts_of(claims, tables)]
    stage = partial(_claims_of_keys, claims.fold, tuple(sorted(tables)), duck.table(keys))
    yield from engine.run(parts, [stage], _reading(keys, parts))


def objects_found(engine: AuditEngine, storage: Sequence[Stored], keys: Relation) -> Answers:
    """Yield STORED rows of the current objects with these bucket and key, as the storage sources have them."""
    facts = ObjectFacts(
        deciding_places(storage),
        tuple(source.info.id for source in storage if source.repeats),
        tuple(source.info.id for source in storage if source.older_alone),
    )
    with _list_parts(engine, keys) as listed:
        rows = [*pieces(*(source.rows for source in storage))]
        yield from engine.run([*rows, *listed], [partial(_current_objects, facts)], _reading(keys, rows))


def _reading(keys: Relation, rows: Sequence[Part | BufferedRows], expected: int | None = None) -> Reading:
    """Return a reading that drops rows of other keys; nearly all of them if the keys are few."""
    hashes = duck.query(keys.con, f"SELECT DISTINCT {BUCKET} AS bucket FROM ({_HASHES})", keys=keys)
    wanted = RowFilter(bitmap([np.asarray(duck.table(hashes)["bucket"])]), bytes(1 << BITS - 3))
    weight = sum(each.weight for each in rows if isinstance(each, Part))
    matching = (duck.count_of(keys) if expected is None else expected) * _STORED / max(weight, 1)
    left = min(1, matching + wanted.count / (1 << BITS))
    return Reading(partial(_ask_listed, wanted), partial(_only_listed, wanted), left)


_HASHES = "SELECT hash(bucket, key) AS h FROM keys"


def _ask_listed(wanted: RowFilter, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if not is_filtered(kind) or wanted.count > FEW_BUCKETS:
        yield kind, rows
    elif isinstance(rows, Relation) and rows.narrowed:  # whose paths are plain, see `Relation.narrowed`
        yield kind, wanted.filtered(con, rows)
    else:
        yield kind, wanted.filtered_with(con, rows, IS_ODD)


def _only_listed(
    wanted: RowFilter, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """Drop the rows of other keys; rows that are not about one key stay, since they may concern several."""
    if not is_keyed(kind):
        yield kind, batch
        return
    for of_kind, rows in with_odd_references(con, kind, batch):
        if isinstance(rows, pa.RecordBatch):
            yield of_kind, rows.filter(pa.array(wanted.has(buckets_of(con, rows))))
        else:
            yield of_kind, rows


@contextmanager
def _list_parts(engine: AuditEngine, keys: Relation) -> Iterator[list[Part]]:
    """Yield the keys as parts, which the engine routes to the shares of their claims.

    Many keys do not stay in memory: they are written to files, if the tasks can read these.
    """
    if not engine.is_local or duck.count_of(keys) <= KEYS_IN_MEMORY:
        rows = duck.table(keys)
        slices = (rows.slice(start, KEYS_A_PART) for start in range(0, rows.num_rows, KEYS_A_PART))
        yield [Part("list", partial(_read_keys, few), few.nbytes // _PACKED) for few in slices]
        return
    with TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as folder:
        yield [*_parts_on_disk(keys, Path(folder))]


def _parts_on_disk(keys: Relation, folder: Path) -> Iterator[Part]:
    for number, batch in enumerate(keys.to_arrow_reader(KEYS_A_PART)):
        path = str(folder / f"{number}.parquet")
        pq.write_table(pa.Table.from_batches([batch]), path)
        yield Part("list", partial(_read_file, path), batch.nbytes // _PACKED)


def _read_keys(rows: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - readers of parts receive a connection
    yield "listed_keys", rows


def _read_file(path: str, con: Connection) -> Batches:  # noqa: ARG001
    yield "listed_keys", pq.read_table(path)


def _claims_of_keys(
    fold: Fold, tables: Sequence[str], keys: pa.Table, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    """Yield the CLAIM rows of these keys by these tables."""
    sql = f"SELECT * FROM input SEMI JOIN keys USING (bucket, key) WHERE table_name IN ({duck.literals(tables)})"
    yield CLAIMS, duck.query(con, sql, input=duck.conform(con, fold(con, rows), CLAIM), keys=keys)


def _with_references(
    facts: ReferenceFacts, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    """Yield the ids of the listed keys of a share that tables reference, with the references."""
    if "listed_keys" in rows:
        sql = "SELECT id, refs.* EXCLUDE (bucket, key) FROM listed JOIN refs USING (bucket, key)"
        found = duck.query(con, sql, listed=rows["listed_keys"], refs=_references(facts, con, rows))
        yield FOUND, duck.conform(con, found, KEY_REFERENCES)


def _references(facts: ReferenceFacts, con: Connection, rows: Mapping[str, Rows]) -> Relation:
    """Return one row for each key that a table claims."""
    folded = [duck.conform(con, fold(con, rows), CLAIM) for fold in facts.folds]
    live, history = "FILTER (state = 'live')", "FILTER (state = 'history')"
    sql = f"""
        SELECT bucket, key, arg_max(table_name, own_root) {live} AS r_live_table,
            max(own_root) {live} AS r_live_here,
            coalesce(arg_max(category, own_root) {live}, min(category) {history}) AS r_category,
            arg_max(records, own_root) {live} AS r_records, arg_max(table_version, own_root) {live} AS r_version,
            min(table_name) {history} AS r_history_table, max(removed_at + retention) {history} AS r_until,
            coalesce(bool_or(state = 'gone'), false) AS r_gone
        FROM claims JOIN tables ON table_name = name AND manifest_kind = kind GROUP BY bucket, key
    """
    claims = duck.union(con, [CLAIM.empty_table(), *folded])
    return duck.query(con, sql, claims=claims, tables=facts.tables)


def _current_objects(
    facts: ObjectFacts, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    """Yield STORED rows of the listed keys of a share, by the source that decides there."""
    if "listed_keys" not in rows or "versions" not in rows:
        return
    sql = "SELECT v.* FROM v SEMI JOIN listed USING (bucket, key)"
    few = duck.query(con, sql, v=rows["versions"], listed=rows["listed_keys"])
    labelled = attach_label(con, few, facts.deciding, "decides")
    deciding = duck.query(con, "SELECT * EXCLUDE decides FROM input WHERE decides = source", input=labelled)
    objects = one_row_per_key(con, deciding, facts.repeats, facts.older_alone)
    yield OBJECTS, duck.query(con, "SELECT * FROM objects WHERE presence = 'present'", objects=objects)

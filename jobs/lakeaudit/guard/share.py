"""Joins the listed objects with manifests and storage: in tasks, each with all rows of some keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pyarrow as pa

from lakeaudit.collect.claim_lookups import parts_of
from lakeaudit.collect.source_facts import deciding_places
from lakeaudit.config import Table
from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import Answers, AuditEngine
from lakeaudit.evidence.protocol import Batches, Claims, Fold, Part, Stored, pieces
from lakeaudit.evidence.storage.versions import one_row_per_key
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import CLAIM, FOUND_KEY, LISTED_KEY, STORED

FOUND = "found keys"
KEYS_A_PART = 200_000
FEW_KEYS = 2_000_000
"""Up to this number of listed keys, other rows are dropped where they are read."""
_PACKED = 8
"""Bytes of a list in memory for each byte of evidence as stored, see `Part.weight`."""


@dataclass(frozen=True)
class ShareFacts:
    """The plain data that travels to the tasks.

    Attributes:
        folds: make claims of the rows of manifests.
        tables: name and kind of the manifests that decide which files a table has, with the table's retention.
        deciding: the storage source that decides in each place.
        repeats: ids of storage sources that may name a version twice.
        older_alone: ids of storage sources of stores without delete markers.
    """

    folds: tuple[Fold, ...]
    tables: pa.Table
    deciding: Mapping[Location, str]
    repeats: tuple[str, ...]
    older_alone: tuple[str, ...]


_TABLE = pa.schema([("name", pa.string()), ("kind", pa.string()), ("retention", pa.duration("us"))])


def rows_found(
    engine: AuditEngine,
    tables: Sequence[Table],
    claims: Sequence[Claims],
    storage: Sequence[Stored],
    keys: Relation,
) -> Answers:
    """Yield FOUND_KEY rows of the listed keys, and NOTE rows of parts that could not be read."""
    facts = ShareFacts(
        tuple(each.fold for each in claims),
        duck.small(_TABLE, [*_deciding(tables, claims)]),
        deciding_places(storage),
        tuple(source.info.id for source in storage if source.repeats),
        tuple(source.info.id for source in storage if source.older_alone),
    )
    names = [table.name for table in tables]
    parts = [part for each in claims for part in parts_of(each, names)]
    listed = duck.table(keys)
    rows = [*pieces(*(source.rows for source in storage)), *parts, *_list_parts(listed)]
    return engine.run(rows, [partial(_join_list, facts)], Reading(partial(_only_listed, _fingerprints(keys))))


def _deciding(tables: Sequence[Table], claims: Sequence[Claims]) -> Iterator[tuple[str, str, timedelta]]:
    """Yield the manifests that decide which files a table has; records of single writes are only compared with them."""
    by_name = {table.name: table for table in tables}
    for read in claims:
        for name, state in read.states.items():
            table = by_name[name]
            if any(each.kind == read.info.kind for each in table.state_manifests or table.event_manifests):
                yield name, read.info.kind, state.retention or table.settings.retention


_HASH = "hash(bucket, key)"


def _fingerprints(keys: Relation) -> pa.Table | None:
    """Return the hashes of the keys; None if there are so many that dropping other rows would not help."""
    if duck.count_of(keys) > FEW_KEYS:
        return None
    return duck.table(duck.query(keys.con, f"SELECT DISTINCT {_HASH} AS h FROM keys", keys=keys))


def _only_listed(
    fingerprints: pa.Table | None, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Drop the rows of other keys; rows without a key concern all."""
    relation = duck.relation(con, rows)
    if fingerprints is None or kind == "listed_keys" or not {"bucket", "key"} <= {*relation.columns}:
        yield kind, rows
    else:
        sql = f"SELECT rows.* FROM rows SEMI JOIN fingerprints ON {_HASH} = h"
        yield kind, duck.query(con, sql, rows=rows, fingerprints=fingerprints)


def _list_parts(listed: pa.Table) -> Iterator[Part]:
    """Yield the keys as parts, which the engine routes to the shares of their claims."""
    for start in range(0, listed.num_rows, KEYS_A_PART):
        few = listed.slice(start, KEYS_A_PART)
        yield Part("list", partial(_read_keys, few), few.nbytes // _PACKED)


def _read_keys(rows: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - readers of parts receive a connection
    yield "listed_keys", rows


def _join_list(facts: ShareFacts, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Yield the listed keys of a share with their references, and with the objects of those that no table needs."""
    if "listed_keys" not in rows:
        return
    listed = duck.conform(con, rows["listed_keys"], LISTED_KEY)
    references = duck.hold(con, _references(facts, con, rows, listed))
    objects = (
        STORED.empty_table()
        if "versions" not in rows
        else _objects(facts, con, rows["versions"], listed, references)
    )
    sql = """
        SELECT listed.*, r.* EXCLUDE (bucket, key), presence, size, etag, version_id, modified_at,
            multipart AS by_parts, false AS is_folder
        FROM listed LEFT JOIN refs r USING (bucket, key)
        LEFT JOIN (SELECT * FROM objects WHERE presence = 'present') o USING (bucket, key)
    """
    found = duck.query(con, sql, listed=listed, refs=references, objects=objects)
    yield FOUND, duck.conform(con, found, FOUND_KEY)


def _references(facts: ShareFacts, con: Connection, rows: Mapping[str, Rows], listed: Rows) -> Relation:
    """Return one row for each listed key that a table claims."""
    folded = [duck.conform(con, fold(con, rows), CLAIM) for fold in facts.folds]
    live, history = "FILTER (state = 'live')", "FILTER (state = 'history')"
    sql = f"""
        SELECT bucket, key, arg_max(table_name, own_root) {live} AS r_live_table,
            max(own_root) {live} AS r_live_here,
            coalesce(arg_max(category, own_root) {live}, min(category) {history}) AS r_category,
            arg_max(records, own_root) {live} AS r_records, arg_max(table_version, own_root) {live} AS r_version,
            min(table_name) {history} AS r_history_table, max(removed_at + retention) {history} AS r_until,
            coalesce(bool_or(state = 'gone'), false) AS r_gone
        FROM (SELECT * FROM claims SEMI JOIN listed USING (bucket, key))
        JOIN tables ON table_name = name AND manifest_kind = kind GROUP BY bucket, key
    """
    claims = duck.union(con, [CLAIM.empty_table(), *folded])
    return duck.query(con, sql, claims=claims, listed=listed, tables=facts.tables)


def _objects(
    facts: ShareFacts, con: Connection, versions: Rows, listed: Rows, references: Relation
) -> Relation:
    """Return STORED rows, by the source that decides there, of listed keys that no table needs."""
    needed = "(SELECT * FROM refs WHERE r_live_table IS NOT NULL OR r_history_table IS NOT NULL)"
    unlisted = f"(SELECT bucket, key FROM listed ANTI JOIN {needed} USING (bucket, key))"
    sql = f"SELECT v.* FROM v SEMI JOIN {unlisted} USING (bucket, key)"
    few = duck.query(con, sql, v=versions, listed=listed, refs=references)
    labelled = attach_label(con, few, facts.deciding, "decides")
    deciding = duck.query(con, "SELECT * EXCLUDE decides FROM input WHERE decides = source", input=labelled)
    return one_row_per_key(con, deciding, facts.repeats, facts.older_alone)

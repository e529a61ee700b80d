"""Defines the prefilter: it clears keys on which all sources plainly agree, before anything is read in full.

A projection pass reads few columns and turns every row into a fingerprint: the hash of its key, its side (claim,
object, entry), a few attributes, and whether it is plain, that is, whether the row alone cannot cause a finding.
Fingerprints of one key are joined. A key is cleared if every required side has exactly one plain fingerprint and the
fingerprints agree; by the rules such a key is consistent on every axis (a test checks all combinations). All other keys
are read again in full.

Keys are cleared by bucket of their hash: a bucket with a key that is not cleared is read again as a whole. Files that
may have the same content as another file are read again too, and judged on that axis alone. If a metadata store has a
tree, folders of objects and entries are fingerprints that are not plain: a key that is also a folder is never cleared.

Two keys with the same hash of 64 bits are joined as if they were one. Among n keys the expected number of such pairs is
n^2 / 2^65: for 10^8 keys one in 3,700 audits. Nearly always this is harmless: two sound files have two fingerprints per
side, so both are read again. It is harmful if a lost file (a claim alone) and an unlisted file (an object alone) have
the same hash, owner and size, and times and ETags that agree. For d lost and u unlisted files this happens
d * u / 2^64 times: for a million of each 5 * 10^-8 times per audit, and less often because sizes differ. The hash has
no secret, so keys that collide can be made on purpose; but a person who can write both the log and the object could
simply write the lost object.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from lakeaudit.evidence.registry import row_kinds
from lakeaudit.keys import Location
from lakeaudit.matching.pairs import NOBODY, SourceFacts
from lakeaudit.matching.prefix_match import Places, label_around
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.rules.file_facts import CLOCK_STEP
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

CLAIM, OBJECT, ENTRY = 1, 2, 4
OTHER = 64
"""Sides of a fingerprint. A fingerprint of side OTHER prevents that its key is cleared."""

BITS = 26
"""The number of buckets of hashes is 2 to this power."""


def bucket_of(hashed: str) -> str:
    """Return SQL for the bucket of a hash."""
    return f"CAST({hashed} >> {64 - BITS} AS UINTEGER)"


BUCKET = bucket_of("h")

KEYED = ("versions", "entries", "claims", "known")
"""Kinds of rows that are about one key each, apart from the kinds of manifests."""


def is_keyed(kind: str) -> bool:
    """Whether each row of a kind is about one key."""
    rows = row_kinds().get(kind)
    return kind in KEYED or (rows is not None and rows.keyed)


def is_filtered(kind: str) -> bool:
    """Whether rows of a kind matter only for their own key, so that rows of cleared keys can be dropped."""
    rows = row_kinds().get(kind)
    return kind == "claims" or (rows is not None and rows.filtered)


Fingerprint = Callable[[Connection, Rows], Relation]
"""Rows of a manifest's own kind -> table_name, bucket, key, category, size, claimed_at, plain: one row each."""

TABLE = pa.schema(
    [
        ("name", pa.string()),
        ("number", pa.int32()),
        ("sides", pa.int32()),  # that must speak of each of its keys; 0: its keys are never let go
        ("object_limit", pa.timestamp("us")),  # an object written later is too young for a verdict
        ("slack", pa.duration("us")),  # by which an object may be younger than its claim
        ("storage", pa.string()),  # the source that decides presence
        ("store", pa.string()),  # the metadata store that answers, if one does
        (
            "pruned_limit",
            pa.timestamp("us"),
        ),  # an object written by then needs no entry; null: every one does
    ]
)


@dataclass(frozen=True)
class Prefilter:
    """Parameters of fingerprints: plain data that travels to the tasks. `traces` make those of claims, by kind."""

    sources: SourceFacts
    tables: pa.Table
    entry_limits: Mapping[str, datetime]
    traces: Mapping[str, Fingerprint] = field(default_factory=dict)

    @property
    def numbers(self) -> Places:
        """Return the number of the table at each location, as text."""
        of_name = dict(zip(self.tables["name"].to_pylist(), self.tables["number"].to_pylist(), strict=True))
        return {place: str(of_name[name]) for place, name in self.sources.roots.items()}


def prefilter_of(
    sources: SourceFacts, facts: Sequence[TableFacts], scope: Iterable[str], traces: Mapping[str, Fingerprint]
) -> Prefilter:
    """Make the prefilter of a run; keys of tables outside of `scope` are neither cleared nor counted."""
    in_scope = set(scope)
    edges = _edges(sources.storage_cuts) | _edges(sources.metastore_cuts)
    rows = [
        _table(number, fact, sources, edges, fact.table.name in in_scope) for number, fact in enumerate(facts)
    ]
    return Prefilter(sources, duck.small(TABLE, rows), _entry_limits(sources, facts), traces)


def _table(
    number: int, fact: TableFacts, sources: SourceFacts, edges: Mapping[str, datetime], in_scope: bool
) -> tuple[object, ...]:
    table, grace = fact.table, fact.table.settings.grace
    slack = _ANY_TIME if table.moved else max(grace, CLOCK_STEP)
    storage = _one_label(table.location, sources.deciding, None)
    store = _one_label(table.location, sources.scopes, sources.everywhere)
    alone = len(table.manifests) == 1 and (table.manifests[0].is_state or table.manifests[0].is_original)
    if not (in_scope and alone) or fact.has_gap or storage in (None, NOBODY, _MIXED) or store == _MIXED:
        return table.name, number, 0, None, slack, None, None, None
    limit = edges[str(storage)]
    if store is None:
        return table.name, number, CLAIM + OBJECT, limit, slack, storage, None, None
    pruned = _pruned_limit(table.location, store, edges[store], sources)
    limit = min(limit, edges[store]) - grace
    return table.name, number, CLAIM + OBJECT + ENTRY, limit, slack, storage, store, pruned


def _pruned_limit(location: Location, store: str, edge: datetime, sources: SourceFacts) -> datetime | None:
    """Return the latest write time of objects whose entry may be pruned; None if readers trust the store alone."""
    trusted = any(place.contains(location) or location.contains(place) for place in sources.trusted)
    if trusted or store in sources.trusted_stores or store not in sources.ttls:
        return None
    return edge - sources.ttls[store]


_MIXED = "mixed"
_ANY_TIME = timedelta(days=36500)
"""The time by which a copy may be younger than its original."""


def _one_label(location: Location, places: Places, everywhere: str | None) -> str | None:
    """Return the label that holds everywhere below a location; `mixed` if there are several."""
    inside = [place for place in places if location.holds(place.bucket, place.key) and place != location]
    if inside:
        return _MIXED
    around = label_around(places, location)
    return everywhere if around is None else around


def _edges(cuts: pa.Table) -> dict[str, datetime]:
    return {row["source"]: row["start"] - row["margin"] for row in cuts.to_pylist()}


def _entry_limits(sources: SourceFacts, facts: Sequence[TableFacts]) -> dict[str, datetime]:
    """Return by store the latest time of change up to which entries of any table can be judged."""
    grace = max((fact.table.settings.grace for fact in facts), default=CLOCK_STEP)
    storage = list(_edges(sources.storage_cuts).values())
    return {store: min([edge, *storage]) - grace for store, edge in _edges(sources.metastore_cuts).items()}


def cleared_keys(
    prefilter: Prefilter, con: Connection, rows: Mapping[str, Rows], *, singly: bool = False
) -> Iterator[tuple[str, Rows]]:
    """Join the fingerprints of some buckets: sum cleared keys by table, and name the buckets to read again.

    Answers: `settled` (name, files, bytes), `buckets` (bucket), `twins` (bucket: of files with equal content), and with
    `singly` also `keys` (bucket, number, size), a row for each cleared key.
    """
    if "contents" in rows:
        contents = rows["contents"]
        many = _repeated(con, "SELECT content FROM input", contents)
        sql = f"SELECT DISTINCT {BUCKET} AS bucket FROM input SEMI JOIN many ON content = many.number"
        yield "twins", duck.query(con, sql, input=contents, many=many)
    for traces in _ranges(con, rows["traces"]) if "traces" in rows else ():
        yield from _cleared(con, traces, prefilter.tables, singly=singly)


RANGE = 8_000_000
"""Fingerprints that are joined at a time, so that the memory for a join is bounded."""


def _ranges(con: Connection, traces: Rows) -> Iterator[Rows]:
    """Yield the fingerprints by ranges of their buckets."""
    bits = ((duck.known_count(traces) or 0) // RANGE).bit_length()
    for number in range(2**bits if bits else 0):
        sql = f"SELECT * FROM input WHERE h >> {64 - bits} = {number}"
        yield duck.table(duck.query(con, sql, input=traces))
    if not bits:
        yield traces


def _cleared(con: Connection, traces: Rows, tables: pa.Table, *, singly: bool) -> Iterator[tuple[str, Rows]]:
    sides = [_repeated(con, f"SELECT h FROM input WHERE side = {side}", traces) for side in _SIDES.values()]
    repeated = pa.concat_tables(sides)
    keys = duck.table(_keys(con, traces, repeated, tables))
    others = f"SELECT h FROM traces WHERE side = {OTHER} UNION ALL FROM repeated"
    sql = f"SELECT DISTINCT {BUCKET} AS bucket FROM (SELECT h FROM input WHERE NOT agree UNION ALL {others})"
    again = duck.hold(con, duck.query(con, sql, input=keys, traces=traces, repeated=repeated))
    yield "buckets", again
    sql = f"SELECT {BUCKET} AS bucket, number, size FROM input ANTI JOIN again ON {BUCKET} = again.bucket"
    cleared = duck.query(con, sql, input=keys, again=again)
    sums = """
        SELECT name, files, bytes
        FROM (SELECT number, count(*) AS files, CAST(sum(size) AS BIGINT) AS bytes FROM input GROUP BY number)
        JOIN tables USING (number)
    """
    yield "settled", duck.query(con, sums, input=cleared, tables=tables)
    if singly:
        yield "keys", cleared


def _repeated(con: Connection, sql: str, rows: Rows) -> pa.Table:
    """Return the values that a query finds several times: number. NumPy sorts them; groups cost ten times as much."""
    (column,) = duck.table(duck.query(con, sql, input=rows)).columns
    values = np.sort(column.to_numpy())
    return pa.table({"number": np.unique(values[1:][values[1:] == values[:-1]])})


def _keys(con: Connection, traces: Rows, repeated: pa.Table, tables: pa.Table) -> Relation:
    """Join the sides by their hashes: h, number, size, and whether the fingerprints agree.

    Hashes that a side has several times are left out, so a row of one side meets at most one row of another.
    """
    single = "SELECT * FROM traces ANTI JOIN repeated ON h = repeated.number"
    sides = ", ".join(
        f"{name} AS (SELECT * FROM single WHERE side = {side})" for name, side in _SIDES.items()
    )
    sql = f"""
        WITH single AS NOT MATERIALIZED ({single}), {sides},
        met AS (
            SELECT coalesce(o.h, c.h, e.h) AS h, {" + ".join(f"coalesce({name}.side, 0)" for name in _SIDES)} AS sides,
                {", ".join(map(_extremes, _EQUAL))}, o.time AS modified, c.time AS claimed, e.time AS entered
            FROM o FULL JOIN c ON o.h = c.h FULL JOIN e ON coalesce(o.h, c.h) = e.h)
        SELECT h, number, size, coalesce({" AND ".join(AGREEMENT)}, false) AS agree
        FROM met LEFT JOIN tables t ON owner = number
    """
    return duck.query(con, sql, traces=traces, repeated=repeated, tables=tables)


_SIDES = {"c": CLAIM, "o": OBJECT, "e": ENTRY}
_EQUAL = ("owner", "size", "etag", "version")
"""Attributes that are equal wherever they are known."""


def _extremes(name: str) -> str:
    each = ", ".join(f"{side}.{name}" for side in _SIDES)
    return f"least({each}) AS {name}, greatest({each}) AS other_{name}"


AGREEMENT = (
    f"(met.sides = t.sides OR (met.sides = t.sides - {ENTRY} AND modified <= pruned_limit))",
    "owner = other_owner",
    "size = other_size",
    "(etag IS NULL OR etag = other_etag)",
    "(version IS NULL OR version = other_version)",
    "modified <= object_limit",
    "modified <= claimed + slack",
    f"(entered IS NULL OR modified <= entered + {duck.literal(CLOCK_STEP)})",
)
"""Conditions for clearing a key; each of them could be the condition of a rule."""

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
"""Rows of a manifest's own kind -> table_name, bucket, key, size, claimed_at, plain: one row for each of them."""

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
        twins = f"SELECT DISTINCT {BUCKET} AS bucket FROM input SEMI JOIN many USING (content)"
        many = "SELECT content FROM input GROUP BY content HAVING count(*) > 1"
        held = duck.hold(con, rows["contents"])
        yield "twins", duck.query(con, twins, input=held, many=duck.query(con, many, input=held))
    if "traces" in rows:
        keys = duck.hold(con, _keys(con, rows["traces"], prefilter.tables))
        again = duck.hold(
            con, duck.query(con, f"SELECT DISTINCT {BUCKET} AS bucket FROM input WHERE NOT agree", input=keys)
        )
        yield "buckets", again
        sums = f"""
            SELECT name, count(*) AS files, CAST(coalesce(sum(size), 0) AS BIGINT) AS bytes
            FROM input ANTI JOIN again ON {BUCKET} = again.bucket GROUP BY name
        """
        yield "settled", duck.query(con, sums, input=keys, again=again)
        if singly:
            each = f"SELECT {BUCKET} AS bucket, number, size FROM input ANTI JOIN again ON {BUCKET} = again.bucket"
            yield "keys", duck.query(con, each, input=keys, again=again)


def _keys(con: Connection, traces: Rows, tables: pa.Table) -> Relation:
    """Return one row per hash of a key: table and size, and whether all fingerprints of the key agree."""
    sql = f"""
        WITH met AS (
            SELECT h, CAST(sum(side) AS BIGINT) AS sides, count(*) AS traces,
                min(owner) AS owner, max(owner) AS other_owner, min(size) AS size, max(size) AS other_size,
                min(etag) AS etag, max(etag) AS other_etag,
                min(version) AS version, max(version) AS other_version,
                max(time) FILTER (side = {OBJECT}) AS modified, max(time) FILTER (side = {CLAIM}) AS claimed,
                max(time) FILTER (side = {ENTRY}) AS entered
            FROM traces GROUP BY h)
        SELECT h, name, number, size, coalesce({" AND ".join(AGREEMENT)}, false) AS agree
        FROM met LEFT JOIN tables t ON owner = number
    """
    return duck.query(con, sql, traces=traces, tables=tables)


AGREEMENT = (
    f"(met.sides = t.sides OR (met.sides = t.sides - {ENTRY} AND modified <= pruned_limit))",
    "traces = bit_count(met.sides)",
    "owner = other_owner",
    "size = other_size",
    "(etag IS NULL OR etag = other_etag)",
    "(version IS NULL OR version = other_version)",
    "modified <= object_limit",
    "modified <= claimed + slack",
    f"(entered IS NULL OR modified <= entered + {duck.literal(CLOCK_STEP)})",
)
"""Conditions for clearing a key; each of them could be the condition of a rule."""

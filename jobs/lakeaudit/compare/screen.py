"""The screen: lets go of keys on which all sources plainly agree, before anything is read in full.

A first, narrow reading makes a TRACE of every row: the hash of its key, which side it stands for, a few attributes,
and whether it is plain, that is, whether nothing about the row alone could make a finding. Traces of one key meet. A
key is let go where every side that must speak of it has exactly one plain trace and the traces agree; by the rules
such a key is consistent on every axis that asks of it (a test walks all combinations). All other keys are read again,
in full.

Keys are let go by bucket of their hash: a bucket that holds a key which is not let go is read again whole, so keys that
share a bucket only ever send each other on to the kernel. Files that may have the same content as another are read
again too, and judged on that alone. Where a metadata store has a tree, the folders of objects and entries are traces
that are not plain: a key that is a folder as well is never let go.

Two keys with the same hash of 64 bits meet as if they were one. Among n keys that happens n^2 / 2^65 times: among
10^8 once in 3,700 audits. Nearly always it is harmless: of two sound files each brings one trace for every side, so
sides and traces count twice and both are read again. It does harm where two keys make up a sound one between them: a
file that storage has lost (a claim alone) and one that nobody lists (an object alone) pass for one sound file if they
have the same owner and size, and times and ETags that agree. With d lost files and u unlisted ones that happens
d * u / 2^64 times: with a million of each 5 * 10^-8 in an audit, and less by how seldom their sizes are equal. The hash
has no secret, so keys that collide can be made on purpose; but who can write both the log and the object could as well
write the object that is lost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakeaudit.compare import metastore_tree
from lakeaudit.compare.facts import CLOCK_STEP, MD5_TEXT
from lakeaudit.compare.match import SourceFacts
from lakeaudit.compare.prefix_match import Places, attach_label
from lakeaudit.compare.table_facts import TableFacts
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

CLAIM, OBJECT, ENTRY = 1, 2, 4
OTHER = 64
"""Sides of a trace. What stands for none of the three keeps its key from being let go."""

BITS = 26
"""Buckets of hashes: 2 to the power of this many."""


def bucket_of(hashed: str) -> str:
    """The bucket of a hash, in SQL."""
    return f"CAST({hashed} >> {64 - BITS} AS UINTEGER)"


BUCKET = bucket_of("h")

KEYED = ("versions", "entries", "steps", "events", "claims", "known")
"""Kinds of rows that are about one key each."""

Trace = Callable[[Connection, Rows], Relation]
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
    ]
)


@dataclass(frozen=True)
class Screen:
    """What traces are made with: plain data that travels to the tasks. `traces` are of manifests, by kind of row."""

    sources: SourceFacts
    tables: pa.Table
    entry_limits: Mapping[str, datetime]
    traces: Mapping[str, Trace] = field(default_factory=dict)

    @property
    def numbers(self) -> Places:
        """By location the number of its table, as text."""
        of_name = dict(zip(self.tables["name"].to_pylist(), self.tables["number"].to_pylist(), strict=True))
        return {place: str(of_name[name]) for place, name in self.sources.roots.items()}


def screen_of(
    sources: SourceFacts, facts: Sequence[TableFacts], scope: Iterable[str], traces: Mapping[str, Trace]
) -> Screen:
    """The screen of a run whose tables are `facts`; tables out of `scope` are never let go, nor counted."""
    asked = set(scope)
    rows = [_table(number, fact, sources, fact.table.name in asked) for number, fact in enumerate(facts)]
    return Screen(sources, duck.small(TABLE, rows), _entry_limits(sources, facts), traces)


def _table(number: int, fact: TableFacts, sources: SourceFacts, in_scope: bool) -> tuple[object, ...]:
    table, grace = fact.table, fact.table.settings.grace
    slack = max(grace, CLOCK_STEP)
    storage = _one_label(table.location, sources.deciding, None)
    store = _one_label(table.location, sources.scopes, sources.everywhere)
    state_alone = len(table.manifests) == 1 and table.manifests[0].is_state
    if not (in_scope and state_alone) or fact.holed or storage in (None, _MIXED) or store == _MIXED:
        return table.name, number, 0, None, slack, None, None
    limit = _edges(sources.storage_cuts)[str(storage)]
    if store is None:
        return table.name, number, CLAIM + OBJECT, limit, slack, storage, None
    limit = min(limit, _edges(sources.metastore_cuts)[store]) - grace
    return table.name, number, CLAIM + OBJECT + ENTRY, limit, slack, storage, store


_MIXED = "mixed"


def _one_label(location: Location, places: Places, everywhere: str | None) -> str | None:
    """The label that holds everywhere below a location; `mixed` where there are several."""
    inside = [place for place in places if location.holds(place.bucket, place.key) and place != location]
    if inside:
        return _MIXED
    around = [place for place in places if place.contains(location)]
    return places[max(around, key=lambda place: place.depth)] if around else everywhere


def _edges(cuts: pa.Table) -> dict[str, datetime]:
    return {row["source"]: row["start"] - row["margin"] for row in cuts.to_pylist()}


def _entry_limits(sources: SourceFacts, facts: Sequence[TableFacts]) -> dict[str, datetime]:
    """By store the time up to which an entry may have been touched, whichever table it is about."""
    grace = max((fact.table.settings.grace for fact in facts), default=CLOCK_STEP)
    storage = list(_edges(sources.storage_cuts).values())
    return {store: min([edge, *storage]) - grace for store, edge in _edges(sources.metastore_cuts).items()}


ODD = (
    "key = ''",
    "contains(key, ':')",
    "contains(key, '//')",
    "contains(key, '/.')",
    "starts_with(key, '/')",
    "starts_with(key, '.')",
    "ends_with(key, '/')",
    "ends_with(key, '_$folder$')",
)
"""Any of these makes a key one that a Hadoop path may not hold, see `keys.NOT_HADOOP`, or a folder's placeholder."""

OBJECT_PLAIN = (
    "is_latest",
    "NOT is_delete_marker",
    "size IS NOT NULL",
    "NOT coalesce(archived, false)",
    "NOT ({odd})",
)
"""All of these: the row is of a current object that can be read. `odd` is any of ODD."""

ENTRY_PLAIN = (
    "answers",
    "NOT tombstone",
    "NOT is_dir",
    "size IS NOT NULL",
    "etag IS NOT NULL",
    "version_id IS NULL",
    "(mod_time IS NOT NULL OR last_updated IS NOT NULL)",
    "last_updated_given",
    "coalesce(greatest(last_updated, mod_time), TIMESTAMP '1970-01-01') <= {limit}",
)
"""All of these: the row is a file's entry that lacks nothing, in the store that `answers` for its place.

`limit` is the time up to which an entry of its store may have been touched.
"""


def traces(screen: Screen, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """The traces of a part's rows, and for objects whose content is known what it is known by."""
    if kind == "versions":
        held = duck.table(_objects(screen, con, rows))
        known = "SELECT content, h FROM input WHERE content IS NOT NULL"
        yield "contents", duck.query(con, known, input=held)
        if screen.entry_limits:
            yield "traces", _folders(con, held)
        yield "traces", held.drop_columns(["content", "bucket", "folder"])
    elif kind == "entries":
        held = duck.table(_entries(screen, con, rows))
        yield "traces", _folders(con, held)
        yield "traces", held.drop_columns(["bucket", "folder"])
    elif kind in screen.traces:
        yield "traces", _claims(screen, con, screen.traces[kind](con, rows))
    elif kind in KEYED:
        yield "traces", duck.query(con, f"SELECT {_trace(OTHER, 'false')} FROM input", input=rows)


def _trace(side: int, plain: str, **given: str) -> str:
    """The columns of a trace; a plain one has attributes."""
    columns = {"owner": "INTEGER", "size": "BIGINT", "etag": "BIGINT", "time": "TIMESTAMP"}
    named = ", ".join(
        f"CASE WHEN {plain} THEN CAST({given[name]} AS {kind}) END AS {name}"
        if name in given
        else f"CAST(NULL AS {kind}) AS {name}"
        for name, kind in columns.items()
    )
    code = f"CASE WHEN coalesce({plain}, false) THEN {side} ELSE {OTHER} END"
    return f"hash(bucket, key) AS h, CAST({code} AS TINYINT) AS side, {named}"


_ETAG = "CAST(hash(etag) >> 1 AS BIGINT)"


def _objects(screen: Screen, con: Connection, rows: Rows) -> Relation:
    """Of the source that decides presence: traces with `content`, and `bucket` and `folder` where those are needed."""
    plain = _all(OBJECT_PLAIN).format(odd=" OR ".join(ODD))
    md5 = f"""etag IS NOT NULL AND regexp_matches(etag, {duck.pattern(MD5_TEXT)}) AND NOT coalesce(multipart, false)
        AND coalesce(encryption IN ('NONE', 'SSE-S3'), true)"""
    content = f"CASE WHEN is_latest AND {md5} THEN hash(etag, size) END"
    bucket, folder = ("bucket", metastore_tree.FOLDER) if screen.entry_limits else ("NULL", "NULL")
    attributes = _trace(
        OBJECT,
        plain,
        owner="owner",
        size="size",
        time="modified_at",
        etag=f"CASE WHEN etag IS NOT NULL THEN {_ETAG} END",
    )
    read = duck.query(con, "SELECT * FROM input WHERE reject IS NULL", input=rows)
    placed = attach_label(con, _deciding(screen, con, read), screen.numbers, "owner")
    sql = f"SELECT {attributes}, {content} AS content, {bucket} AS bucket, {folder} AS folder FROM input"
    return duck.query(con, sql, input=placed)


def _entries(screen: Screen, con: Connection, rows: Rows) -> Relation:
    """Traces of entries, with `bucket` and `folder`."""
    limits = " ".join(
        f"WHEN {duck.literal(s)} THEN {duck.literal(at)}" for s, at in screen.entry_limits.items()
    )
    plain = _all(ENTRY_PLAIN).format(limit=f"CASE source {limits} END" if limits else "NULL")
    attributes = _trace(ENTRY, plain, size="size", etag=_ETAG)
    read = duck.query(con, "SELECT * FROM input WHERE reject IS NULL", input=rows)
    placed = attach_label(con, read, screen.sources.scopes, "scope")
    everywhere = duck.literal(screen.sources.everywhere)
    # what another store says of the place has no word on the metastore axis, but its tree is judged
    answering = f"SELECT *, coalesce(coalesce(scope, {everywhere}) = source, false) AS answers FROM input"
    sql = f"SELECT {attributes}, bucket, parent AS folder FROM input"
    return duck.query(con, sql, input=duck.query(con, answering, input=placed))


def _folders(con: Connection, rows: Rows) -> Relation:
    """Traces that keep the folders of these rows, and the folders above, from being let go."""
    folders = metastore_tree.folders_of(con, rows, "folder")
    return duck.query(con, f"SELECT {_trace(OTHER, 'false')} FROM input", input=folders)


def _claims(screen: Screen, con: Connection, claims: Rows) -> Relation:
    attributes = _trace(CLAIM, "plain", owner="number", size="input.size", time="claimed_at")
    tables = screen.tables.select(["name", "number"])
    return duck.query(
        con, f"SELECT {attributes} FROM input JOIN tables ON table_name = name", input=claims, tables=tables
    )


def _all(conditions: Iterable[str]) -> str:
    return f"({' AND '.join(conditions)})"


def let_go(screen: Screen, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Traces of some buckets -> what is let go, in sums by table, and the buckets that have to be read again.

    Answers: `settled` (name, files, bytes), `buckets` (bucket), `twins` (bucket: of files whose content another has).
    """
    if "contents" in rows:
        twins = f"SELECT DISTINCT {BUCKET} AS bucket FROM input SEMI JOIN many USING (content)"
        many = "SELECT content FROM input GROUP BY content HAVING count(*) > 1"
        held = duck.hold(con, rows["contents"])
        yield "twins", duck.query(con, twins, input=held, many=duck.query(con, many, input=held))
    if "traces" in rows:
        keys = duck.hold(con, _keys(con, rows["traces"], screen.tables))
        again = duck.hold(
            con, duck.query(con, f"SELECT DISTINCT {BUCKET} AS bucket FROM input WHERE NOT agree", input=keys)
        )
        yield "buckets", again
        sums = f"""
            SELECT name, count(*) AS files, CAST(coalesce(sum(size), 0) AS BIGINT) AS bytes
            FROM input ANTI JOIN again ON {BUCKET} = again.bucket GROUP BY name
        """
        yield "settled", duck.query(con, sums, input=keys, again=again)


def _keys(con: Connection, traces: Rows, tables: pa.Table) -> Relation:
    """One row per hash of a key: name and size of what may be let go, and whether all of its traces agree."""
    sql = f"""
        WITH met AS (
            SELECT h, CAST(sum(side) AS BIGINT) AS sides, count(*) AS traces,
                min(owner) AS owner, max(owner) AS other_owner, min(size) AS size, max(size) AS other_size,
                min(etag) AS etag, max(etag) AS other_etag,
                max(time) FILTER (side = {OBJECT}) AS modified, max(time) FILTER (side = {CLAIM}) AS claimed
            FROM traces GROUP BY h)
        SELECT h, name, size, coalesce({" AND ".join(AGREEMENT)}, false) AS agree
        FROM met LEFT JOIN tables t ON owner = number
    """
    return duck.query(con, sql, traces=traces, tables=tables)


AGREEMENT = (
    "met.sides = t.sides",
    "traces = bit_count(t.sides)",
    "owner = other_owner",
    "size = other_size",
    "(etag IS NULL OR etag = other_etag)",
    "modified <= object_limit",
    "modified <= claimed + slack",
)
"""What has to hold for a key to be let go, each a condition that a rule could ask."""


@dataclass(frozen=True)
class Wanted:
    """Buckets that are read again: all of their keys (`again`), and those judged on their content alone (`twins`)."""

    again: bytes
    twins: bytes

    @property
    def count(self) -> int:
        """How many buckets."""
        return int.from_bytes(self.again).bit_count() + int.from_bytes(self.twins).bit_count()

    @cached_property
    def buckets(self) -> pa.Table:
        """The buckets of both, in a column `wanted`."""
        octets = np.frombuffer(self.again, np.uint8) | np.frombuffer(self.twins, np.uint8)
        at = np.flatnonzero(octets)  # nearly all are zero
        bits = np.unpackbits(octets[at], bitorder="little").reshape(-1, 8)
        return pa.table({"wanted": (at[:, None] * 8 + np.arange(8))[bits == 1].astype(np.uint32)})

    def marks(self, con: Connection, batch: pa.RecordBatch) -> tuple[Any, Any]:
        """(again, twins) for each row (bucket, key), as NumPy flags."""
        hashed = f"SELECT {bucket_of('hash(bucket, key)')} AS bucket FROM input"
        numbers = np.asarray(duck.table(duck.query(con, hashed, input=batch))["bucket"])
        return _bits(self.again, numbers), _bits(self.twins, numbers)


def bitmap(buckets: Iterable[Any]) -> bytes:
    """The buckets, given as NumPy arrays, as a map of bits."""
    flags = np.zeros(1 << BITS, dtype=bool)
    for numbers in buckets:
        flags[numbers] = True
    return np.packbits(flags, bitorder="little").tobytes()


def _bits(bits: bytes, numbers: Any) -> Any:
    octets = np.frombuffer(bits, dtype=np.uint8)
    return (octets[numbers >> 3] >> (numbers & 7).astype(np.uint8)) & 1 == 1


def ask_again(wanted: Wanted, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Of rows that stand for nothing beside themselves only those that `read_again` would take: fewer are decoded."""
    if kind in ("steps", "events", "claims"):
        sql = f"SELECT * FROM input SEMI JOIN buckets ON {bucket_of('hash(bucket, key)')} = wanted"
        rows = duck.query(con, sql, input=rows, buckets=wanted.buckets)
    yield kind, rows


def read_again(
    screen: Screen, wanted: Wanted, metastores: bool, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """Of a batch of rows those that have to be read again, and what of the others has to meet other keys.

    Kinds beside the rows' own: `settled_keys` (bucket, key) are let go and judged on their content alone; `folders`,
    `siblings` and `etag_habits` stand for let-go objects and entries where metadata stores have a tree.
    """
    if kind not in KEYED:
        yield kind, batch
        return
    again, twins = wanted.marks(con, batch)
    yield kind, batch.filter(pa.array(again | twins))
    twins_alone = batch.filter(pa.array(twins & ~again))
    if twins_alone.num_rows:
        yield "settled_keys", twins_alone.select(["bucket", "key"])
    if metastores and kind in ("versions", "entries"):
        rest = batch.filter(pa.array(~again))
        if rest.num_rows and kind == "versions":
            yield "folders", metastore_tree.folders_of(con, _deciding(screen, con, rest))
        elif rest.num_rows:
            yield "siblings", metastore_tree.siblings(con, rest, screen.sources)
            yield "etag_habits", metastore_tree.etag_habits(con, rest)


def _deciding(screen: Screen, con: Connection, versions: Rows) -> Relation:
    """The rows of the source that decides presence."""
    labelled = attach_label(con, versions, screen.sources.deciding, "decides")
    return duck.query(con, "SELECT * FROM input WHERE decides = source", input=labelled)


def read_siblings(
    screen: Screen, wanted: Wanted, lost: pa.Table, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """Of a batch of entries those let go whose folders are `lost`, and all entries of these folders themselves."""
    if kind != "entries":
        return
    again, _ = wanted.marks(con, batch)
    yield "parents", metastore_tree.lost_folders(con, batch, lost)
    yield "children", metastore_tree.lost_siblings(con, batch.filter(pa.array(~again)), lost, screen.sources)

"""Convert DynamoDB items of an S3Guard table to rows of schemas.ENTRY, in DuckDB's SQL.

One item per file, directory or tombstone. `parent` is `/bucket/path` without a trailing slash, `child` the last part,
both as Hadoop decodes them; `is_dir`, `is_deleted` and `is_authoritative` are BOOL, `file_length`, `mod_time` and
`last_updated` N (times in epoch milliseconds of the client's clock). `last_updated` of 0 is what every rename leaves
and never expires; tombstones (most rows of an ordinary table) carry neither `is_dir` nor a length but 0 (Hadoop,
PathMetadataDynamoDBTranslation). DynamoDB writes a number as text of up to 38 digits, with a fraction or exponent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.aliases import whole_buckets
from lakeaudit.evidence.metastore.dynamodb.places import with_places
from lakeaudit.evidence.metastore.dynamodb.tally import Tally
from lakeaudit.evidence.metastore.dynamodb.values import LARGEST, LAST_MILLISECOND, whole_number
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard.layout import MARKER
from lakeaudit.keys import NULL_VERSION, Aliases, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal
from lakeaudit.schemas import ENTRY

TEXTS = ("parent", "child", "etag", "version_id")
FLAGS = ("is_dir", "is_deleted", "is_authoritative")
TIMES = ("mod_time", "last_updated")
NUMBERS = ("file_length", *TIMES, "table_version")
TYPES = dict.fromkeys(TEXTS, "S") | dict.fromkeys(FLAGS, "BOOL") | dict.fromkeys(NUMBERS, "N")
"""By attribute the type it must have, as DynamoDB's JSON names types."""
ATTRIBUTES = tuple(TYPES)

_ARROW = {"S": pa.string(), "N": pa.string(), "BOOL": pa.bool_()}
ITEM = pa.schema([(name, pa.struct([(kind, _ARROW[kind])])) for name, kind in TYPES.items()])
"""Columns of a relation of items: null where the item lacks the attribute, an empty struct where the type is wrong."""

_TALLIED = pa.schema([("inside", pa.bool_()), ("marker", pa.string()), ("is_path", pa.bool_())])


@dataclass(frozen=True)
class EntryRules:
    """The rules by which the items of a source are read, as plain data.

    Rows outside `location` are left out; `honoured` are the places where readers trust the store alone; an entry that
    was last updated at `expired_until` (UTC) or before is past its ttl (None: entries never expire). `buckets` has the
    true names of buckets by their other names.
    """

    source: str
    location: Location | None
    honoured: bool | tuple[Location, ...]
    expired_until: datetime | None
    buckets: Mapping[str, str] = field(default_factory=dict)


def entry_rules(source: S3Guard, source_id: str, at: datetime, aliases: Aliases = ()) -> EntryRules:
    """Return the rules of a configured source; entries expire relative to the time `at`."""
    word = source.authoritative
    honoured = word == "all" if isinstance(word, str) else word
    until = None if source.ttl is None else at.astimezone(UTC) - source.ttl
    return EntryRules(source_id, source.location, honoured, until, whole_buckets(aliases))


def entry_rows(con: Connection, items: Rows, rules: EntryRules) -> Relation:
    """Return a row of schemas.ENTRY for every item, with three more columns for `counted_entries`. Lazy.

    `inside`: the row is an entry of the source's location, or its place cannot be parsed. `marker`: the version that
    the layout's marker names. `is_path`: the item has a parent below the root and a child.
    """
    values = duck.query(con, _VALUES, items=items)
    places = with_places(con, values, rules.buckets)
    honoured = f"SELECT *, {_IS_MARKER} AS is_marker, {_honoured(rules.honoured)} AS honoured FROM places"
    rows = duck.query(con, honoured, places=places)
    given = _ENTRY | {
        "source": literal(rules.source),
        "expired": _expired(rules.expired_until),
        "inside": _inside(rules.location),
    }
    return duck.conform(con, rows, pa.schema([*ENTRY, *_TALLIED]), given)


def counted_entries(batch: pa.RecordBatch, tally: Tally) -> pa.RecordBatch:
    """Return the rows of `entry_rows` that are entries of the source, as schemas.ENTRY; the tally counts all rows."""
    marker = pc.max(batch.column("marker")).as_py()
    tally.add(Tally(batch.num_rows, pc.sum(batch.column("is_path")).as_py() or 0, marker))
    inside, rows = batch.column("inside"), batch.select(ENTRY.names)
    return rows if pc.all(inside).as_py() else rows.filter(inside)


_NAMED = {"parent": "path", "child": "name"}
_UNDERSTOOD = {name: f"{name}.{kind}" for name, kind in TYPES.items()} | {
    "file_length": whole_number("file_length", LARGEST),
    **{name: whole_number(name, LAST_MILLISECOND) for name in TIMES},
}
_VALUES = f"""
    SELECT {", ".join(f"{value} AS {_NAMED.get(name, name)}" for name, value in _UNDERSTOOD.items())},
        {", ".join(f"{name} IS NOT NULL AS {name}_given" for name in ATTRIBUTES)}
    FROM items"""
"""Attributes as plain values, null where they cannot be understood, and whether the item has them."""

_IS_MARKER = f"coalesce(path = {literal(MARKER)} AND name = {literal(MARKER)}, false)"

_MISPLACED = {"NOT in_bucket": "parent is not a path below a bucket", "NOT is_name": "child is not a name"}
_WORDS = {
    **dict.fromkeys(("etag", "version_id"), "is not text"),
    **dict.fromkeys(FLAGS, "is neither true nor false"),
    "file_length": "is not a number of bytes",
    **dict.fromkeys(TIMES, "is not a time"),
}
_FAULTS = _MISPLACED | {
    f"{name}_given AND {name} IS NULL": f"{name} {fault}" for name, fault in _WORDS.items()
}
_REASON = " ".join(f"WHEN {fails} THEN {literal(reason)}" for fails, reason in _FAULTS.items())
_ITEM_OF = "' in the item of ' || coalesce(path, '?') || '/' || coalesce(name, '?')"
_LAST_UPDATED = "epoch_ms(nullif(last_updated, 0))"
_QUOTED = """starts_with(etag, '"') OR ends_with(etag, '"')"""
_ENTRY = {
    "bare": "NULL",
    "opaque": "NULL",
    "is_dir": "coalesce(is_dir, false)",
    "tombstone": "coalesce(is_deleted, false)",
    "authoritative": "coalesce(is_authoritative, false)",
    "size": "file_length",
    "etag": f"""nullif(CASE WHEN {_QUOTED} THEN trim(etag, '"') ELSE etag END, '')""",
    "version_id": f"CASE WHEN version_id NOT IN ('', {literal(NULL_VERSION)}) THEN version_id END",
    "mod_time": "epoch_ms(nullif(mod_time, 0))",
    "last_updated": _LAST_UPDATED,
    "reject": f"(CASE {_REASON} END) || {_ITEM_OF}",
    "marker": "CASE WHEN is_marker THEN coalesce(table_version, 'none') END",
    "is_path": "coalesce(starts_with(path, '/') AND name IS NOT NULL, false)",
}
"""SQL by column of ENTRY, from an item's values; columns of the same name are not repeated."""


def _honoured(places: bool | tuple[Location, ...]) -> str:
    """Return SQL of whether readers trust only the store here: as in S3A, a prefix includes its own directory."""
    if isinstance(places, bool):
        return literal(places)
    if not places:
        return "false"
    prefixes = "|".join(re.escape(f"{place.bucket}/{place.prefix}") for place in places)
    regex = literal(rf"\A(?:{prefixes})")
    return f"coalesce(regexp_matches(bucket || '/' || key || '/', {regex}), false)"


def _expired(until: datetime | None) -> str:
    return (
        "false" if until is None else f"NOT honoured AND coalesce({_LAST_UPDATED} <= {literal(until)}, false)"
    )


def _inside(location: Location | None) -> str:
    """Return SQL of the rows of the location, and of rows whose place cannot be parsed, but not of the marker."""
    if location is None:
        return "NOT is_marker"
    below = f"bucket = {literal(location.bucket)} AND starts_with(key, {literal(location.prefix)})"
    return f"NOT is_marker AND (NOT in_bucket OR NOT is_name OR coalesce({below}, false))"

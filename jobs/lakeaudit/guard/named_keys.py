"""Turn the lines of a delete list into the objects that they may name. Pure.

Cleaners and lists spell one object in several ways: with `s3a://` or `s3://`, percent-encoded or not, with doubled
slashes or without, as a path without its store, or by a URL with the bucket in its host or in its path. A line stands
for every object that one of its spellings names; the most protecting answer about them holds.
"""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.aliases import true_columns
from lakeaudit.keys import Aliases, Location, in_known_store
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import LISTED, LISTED_KEY, NAMED_KEY

_S3 = r"^(?is:s3|s3a|s3n|gs)://([^/@]+)/((?s).*)$"
_AZURE = rf"^{keys.AZURE_NAME}/((?s).*)$"
_LOCAL = r"^(?:file:(?://(?:localhost)?)?)?/((?s).*)$"
_MOUNT = r"^dbfs:/+((?s).*)$"
_ELSEWHERE = r"^([A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)/?((?s).*)$"
_DOTS = r"(^|/)\.{1,2}(/|$)"
NO_TABLE = "the path is relative: name its table with --table"
DOTS = "the path has a part `.` or `..`"
FOLDER = "the line names a whole folder: write a list of its files, or check the folder with a / at its end"


def _match(pattern: str, *groups: str) -> str:
    """Return SQL for the bucket and key of a text that matches; `groups` are SQL or numbers of groups."""
    bucket, key = (
        f"regexp_extract(text, '{pattern}', {each})" if each.isdigit() else each for each in groups
    )
    return f"WHEN regexp_matches(text, '{pattern}') THEN {{'bucket': {bucket}, 'key': {key}}}"


_PLACE = f"""CASE {_match(_S3, "1", "2")}
    WHEN regexp_matches(text, '{_AZURE}') THEN {{
        'bucket': regexp_extract(text, '{_AZURE}', 1) || '@' || regexp_extract(text, '{_AZURE}', 2),
        'key': regexp_extract(text, '{_AZURE}', 3)}}
    {_match(_LOCAL, "''", "1")}
    {_match(_MOUNT, "'dbfs:'", "1")}
    {_match(_ELSEWHERE, "1", "2")}
    ELSE {{'bucket': NULL, 'key': text}} END"""

_DECODED = "TRY(url_decode(key))"
_DECODED_PLUS = "TRY(url_decode(replace(key, '+', ' ')))"
_COLLAPSED = r"ltrim(regexp_replace(each, '//+', '/', 'g'), '/')"
_BACKSLASH = "chr(92)"
_OF_WINDOWS = _COLLAPSED.replace("each", f"replace(each, {_BACKSLASH}, '/')", 1)
_URL = r"^(?:https?|abfss?|wasbs?|azure|az|oss|cosn?|obs|tos|bos|r2)://([^/]*)/((?s).*)$"
"""A URL of an object store: its host and path."""


_SPELLED = f"""encoded OR contains(key, '%') OR contains(key, '//') OR starts_with(key, '/')
    OR contains(key, {_BACKSLASH})"""
_COLUMNS = "line, text, encoded, fault"


def named_keys(
    con: Connection,
    listed: Rows,
    aliases: Aliases,
    relative_to: Sequence[Location],
    roots: Collection[Location] = (),
) -> Relation:
    """Return NAMED_KEY rows of LISTED rows: a row for each object that a line may name, or one row with a fault.

    `relative_to` are the locations to which relative paths belong. `aliases` are other names of locations. `roots` are
    the locations of tables: a spelling that does not name its store is one of these objects if it is inside of them.
    """
    simple, others = _simple(con, listed, aliases)
    columns = "* EXCLUDE bucket, bucket, text AS key, false AS is_relative"
    of_bucket = f"SELECT {columns} FROM others WHERE bucket IS NOT NULL"
    parsed = duck.query(con, f"SELECT *, {_PLACE} AS place FROM others WHERE bucket IS NULL", others=others)
    rows = duck.union(con, [duck.query(con, of_bucket, others=others), *_locations(con, parsed, relative_to)])
    named = _resolve(con, rows, aliases, is_several="is_relative" if len(relative_to) > 1 else "false")
    guesses = _in_tables(con, parsed, aliases, roots)
    if duck.count_of(guesses):
        named = _with_guesses(con, named, guesses, roots)
    named = duck.query(con, "SELECT *, NULL AS scheme FROM named", named=named)
    return duck.union(con, [simple, duck.conform(con, named, NAMED_KEY)])


def key_hashes(con: Connection, listed: Rows, aliases: Aliases) -> Relation:
    """Return LISTED rows with `h`: the hash of the bucket and key of a line that names one object; null for others."""
    columns = ", ".join(LISTED.names)
    sql = f"SELECT {columns}, CASE WHEN is_simple THEN hash(named, key) END AS h FROM marked"
    return duck.query(con, sql, marked=_marked(con, listed, aliases))


def _simple(con: Connection, listed: Rows, aliases: Aliases) -> tuple[Relation, Relation]:
    """Return NAMED_KEY rows of the lines that every program reads in the same way, and the other LISTED rows.

    The text is not stored beside its parts.
    """
    parts = "line, encoded, bucket, fault, is_simple, CASE WHEN is_simple THEN NULL ELSE text END AS text"
    of_simple = "CASE WHEN is_simple THEN named END AS named, CASE WHEN is_simple THEN key END AS key, scheme"
    marked = _marked(con, listed, aliases)
    rows = duck.hold(con, duck.query(con, f"SELECT {parts}, {of_simple} FROM marked", marked=marked))
    simple = """SELECT line, NULL AS text, scheme, named AS bucket, key, false AS several, false AS relative,
        NULL AS fault FROM rows WHERE is_simple"""
    others = f"SELECT {', '.join(LISTED.names)} FROM rows WHERE NOT is_simple"
    return (
        duck.conform(con, duck.query(con, simple, rows=rows), NAMED_KEY),
        duck.query(con, others, rows=rows),
    )


def _marked(con: Connection, listed: Rows, aliases: Aliases) -> Relation:
    """Add to LISTED rows whether every program reads a line in the same way, with the scheme, bucket and key if so.

    Nearly all lines of long lists are so: `s3://bucket/key` without escapes, dots, doubled slashes or aliases.
    """
    other_names = sorted({alias.bucket for alias, _ in aliases})
    is_own_name = f"named NOT IN ({duck.literals(other_names)})" if other_names else "true"
    odd = ("'%'", "'//'", "'/.'", _BACKSLASH)
    sql = f"""
        SELECT *, coalesce(fault IS NULL AND key <> '' AND NOT starts_with(key, '/') AND NOT starts_with(key, '.')
            AND {" AND ".join(f"NOT contains(key, {each})" for each in odd)}
            AND NOT (encoded AND contains(key, '+')) AND {is_own_name}
            AND (bucket IS NOT NULL OR (named <> '' AND NOT contains(named, '@'))), false) AS is_simple
        FROM (SELECT *, coalesce(bucket, split_part(text, '/', 3)) AS named, CASE WHEN bucket IS NOT NULL THEN text
                ELSE substr(text, length(scheme) + length(split_part(text, '/', 3)) + 2) END AS key
            FROM (SELECT *, CASE WHEN bucket IS NOT NULL THEN NULL WHEN starts_with(text, 's3://') THEN 's3://'
                WHEN starts_with(text, 's3a://') THEN 's3a://' END AS scheme FROM listed))
    """
    return duck.query(con, sql, listed=listed)


def _locations(con: Connection, parsed: Rows, relative_to: Sequence[Location]) -> Iterator[Relation]:
    """Yield lines without a bucket of their own with a bucket and a key: relative paths once for each location."""
    absolute = (
        f"SELECT {_COLUMNS}, place.bucket AS bucket, place.key AS key, false AS is_relative FROM parsed"
    )
    relative = "place.bucket IS NULL AND fault IS NULL"
    yield duck.query(con, f"{absolute} WHERE NOT ({relative})", parsed=parsed)
    for location in relative_to:
        at = f"{duck.literal(location.bucket)} AS bucket, {duck.literal(location.prefix)} || place.key AS key"
        yield duck.query(
            con, f"SELECT {_COLUMNS}, {at}, true AS is_relative FROM parsed WHERE {relative}", parsed=parsed
        )
    if not relative_to:
        yield duck.query(con, f"{absolute} WHERE {relative}", parsed=parsed)


def _resolve(con: Connection, rows: Rows, aliases: Aliases, *, is_several: str = "true") -> Relation:
    """Return the objects that the spellings of rows name, or their faults. Most keys have one spelling."""
    fault = f"""CASE WHEN fault IS NOT NULL THEN fault WHEN bucket IS NULL THEN {duck.literal(NO_TABLE)}
        WHEN regexp_matches(key, '{_DOTS}') THEN {duck.literal(DOTS)}
        WHEN key = '' THEN {duck.literal(FOLDER)} END"""
    bucket, key = true_columns(aliases, "bucket", "key")
    marked = duck.query(con, f"SELECT * REPLACE ({fault} AS fault) FROM rows", rows=rows)
    several = duck.query(con, f"SELECT * FROM marked WHERE fault IS NULL AND ({_SPELLED})", marked=marked)
    sql = f"""
        SELECT line, text, {bucket} AS bucket, {key} AS key, several, is_relative AS relative, fault FROM (
            SELECT line, text, bucket, key, fault, {is_several} AS several, is_relative FROM marked
                WHERE fault IS NOT NULL OR NOT ({_SPELLED})
            UNION ALL BY NAME SELECT line, text, bucket, key, fault, true AS several, is_relative FROM spellings)
    """
    return duck.query(con, sql, marked=marked, spellings=_spellings(con, several))


def _in_tables(con: Connection, parsed: Rows, aliases: Aliases, roots: Collection[Location]) -> Relation:
    """Return the objects of tables that lines may name although they do not name the store, or name it by another URL.

    Cleaners name objects by keys of the bucket, or by absolute paths in the file system of their own configuration.
    """
    buckets = sorted({root.bucket for root in roots if root.bucket and in_known_store(root.bucket)})
    named = [_in_bucket(con, parsed, bucket) for bucket in buckets]
    rows = duck.union(con, [_LOCATED.empty_table(), *named])
    labelled = attach_label(con, _resolve(con, rows, aliases), {root: root.uri for root in roots}, "root")
    return duck.hold(
        con, duck.made_of(con, "SELECT * EXCLUDE root FROM input WHERE root IS NOT NULL", labelled)
    )


_LOCATED = pa.schema(
    [
        *(LISTED.field(name) for name in ("line", "text", "encoded", "fault")),
        *(LISTED_KEY.field(name) for name in ("bucket", "key")),
        pa.field("is_relative", pa.bool_()),
    ]
)


def _in_bucket(con: Connection, parsed: Rows, bucket: str) -> Relation:
    """Return the keys of a bucket that lines may name."""
    container, _, account = bucket.partition("@")
    host, path = f"regexp_extract(text, '{_URL}', 1)", f"regexp_extract(text, '{_URL}', 2)"
    in_host = f"{host} = {duck.literal(container)}"
    in_path = f"starts_with({path}, {duck.literal(f'{container}/')})"
    if account:
        in_path += f" AND starts_with({host}, {duck.literal(f'{account}.')})"
    else:
        in_host += f" OR starts_with({host}, {duck.literal(f'{bucket}.')})"
        in_path += " AND starts_with(text, 'http')"
    sql = f"""SELECT line, text, encoded, fault, {duck.literal(bucket)} AS bucket, CASE
            WHEN place.bucket IS NULL OR starts_with(text, '/') THEN place.key
            WHEN {in_host} THEN {path}
            WHEN {in_path} THEN substr({path}, {len(container) + 2}) END AS key, place.bucket IS NULL AS is_relative
        FROM parsed WHERE fault IS NULL AND NOT starts_with(text, 's3://')
            AND NOT starts_with(text, 's3a://')"""
    return duck.query(con, "SELECT * FROM found WHERE key != ''", found=duck.query(con, sql, parsed=parsed))


def _with_guesses(con: Connection, named: Rows, guesses: Relation, roots: Collection[Location]) -> Relation:
    """Return all objects; if a line names one inside a table, what else it may name outside of tables is left out."""
    labelled = attach_label(con, named, {root: root.uri for root in roots}, "root")
    sql = """
        SELECT * EXCLUDE root REPLACE (several OR line IN (SELECT line FROM guesses) AS several)
        FROM labelled WHERE root IS NOT NULL OR line NOT IN (SELECT line FROM guesses)
        UNION BY NAME SELECT * FROM guesses
    """
    return duck.query(con, sql, labelled=labelled, guesses=guesses)


def _spellings(con: Connection, rows: Rows) -> Relation:
    """Return a row for each spelling of a key: as written, percent-decoded, with single slashes, without backslashes.

    For a local disk doubled slashes are always one.
    """
    sql = f"""
        SELECT line, text, fault, bucket, is_relative, unnest(list_distinct(
            CASE WHEN bucket = '' THEN [] ELSE spellings END
            || list_transform(spellings, lambda each: {_COLLAPSED})
            || CASE WHEN contains(key, {_BACKSLASH}) THEN list_transform(spellings, lambda each: {_OF_WINDOWS})
                ELSE [] END)) AS key
        FROM (SELECT *, CASE WHEN encoded THEN list_filter([{_DECODED}, {_DECODED_PLUS}], lambda each: each IS NOT NULL)
            WHEN contains(key, '%') THEN list_filter([key, {_DECODED}], lambda each: each IS NOT NULL)
            ELSE [key] END AS spellings FROM input)
    """
    return duck.query(con, sql, input=rows)


def distinct_lines(con: Connection, named: Rows) -> Relation:
    """Return the LISTED_KEY rows of NAMED_KEY rows with their fault: a row for each text and object that it names.

    Lines that name several objects stay apart, since the answers about the objects of one line are compared.
    """
    columns = "bucket, key, text, scheme, several, relative, fault"
    sql = f"""SELECT row_number() OVER () AS id, * FROM (
        SELECT {columns}, min(line) AS line, count(*) AS lines FROM input
        GROUP BY {columns}, CASE WHEN several THEN line END)"""
    return duck.conform(con, duck.query(con, sql, input=named), _LINE)


_LINE = LISTED_KEY.append(NAMED_KEY.field("fault"))

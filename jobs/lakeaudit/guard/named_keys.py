"""Turn the lines of a delete list into the objects that they may name. Pure.

Cleaners and lists spell one object in several ways: with `s3a://` or `s3://`, percent-encoded or not, with doubled
slashes or without, as a path without its store, or by a URL with the bucket in its host or in its path. A line stands
for every object that one of its spellings names; the most protecting answer about them holds.
"""

from collections.abc import Collection, Sequence

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


_PLACE = f"""CASE WHEN bucket IS NOT NULL THEN {{'bucket': bucket, 'key': text}}
    {_match(_S3, "1", "2")}
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
    placed = duck.query(con, f"SELECT *, {_PLACE} AS place FROM listed", listed=listed)
    absolute = duck.query(con, f"SELECT {_PLACED} FROM placed WHERE place.bucket IS NOT NULL", placed=placed)
    relative = [_below(con, placed, location) for location in relative_to]
    faulty = f"""SELECT line, text, encoded, coalesce(fault, {duck.literal(NO_TABLE)}) AS fault,
        NULL AS bucket, NULL AS key FROM placed WHERE place.bucket IS NULL"""
    lost = [] if relative else [duck.query(con, faulty, placed=placed)]
    named = _resolved(con, duck.union(con, [absolute, *relative, *lost]), aliases)
    guesses = _in_tables(con, placed, aliases, roots)
    if not duck.count_of(guesses):
        return duck.conform(con, named, NAMED_KEY)
    return duck.conform(con, _with_guesses(con, named, guesses, roots), NAMED_KEY)


_PLACED = "line, text, encoded, fault, place.bucket AS bucket, place.key AS key"


def _resolved(con: Connection, rows: Rows, aliases: Aliases) -> Relation:
    """Return the objects that the spellings of rows name, or their faults."""
    bucket, key = true_columns(aliases, "bucket", "key")
    sql = f"""
        SELECT DISTINCT line, text, {bucket} AS bucket, {key} AS key, CASE
            WHEN fault IS NOT NULL THEN fault
            WHEN regexp_matches(key, '{_DOTS}') THEN {duck.literal(DOTS)}
            WHEN key = '' THEN {duck.literal(FOLDER)} END AS fault
        FROM input
    """
    return duck.made_of(con, sql, _spellings(con, rows))


def _below(con: Connection, placed: Rows, location: Location) -> Relation:
    sql = f"""SELECT line, text, encoded, fault, {duck.literal(location.bucket)} AS bucket,
        {duck.literal(location.prefix)} || place.key AS key FROM placed WHERE place.bucket IS NULL"""
    return duck.query(con, sql, placed=placed)


def _in_tables(con: Connection, placed: Rows, aliases: Aliases, roots: Collection[Location]) -> Relation:
    """Return the objects of tables that lines may name although they do not name the store, or name it by another URL.

    Cleaners name objects by keys of the bucket, or by absolute paths in the file system of their own configuration.
    """
    buckets = sorted({root.bucket for root in roots if root.bucket and in_known_store(root.bucket)})
    named = [_in_bucket(con, placed, bucket) for bucket in buckets]
    rows = duck.union(con, [_PLACED_ROWS.empty_table(), *named])
    labelled = attach_label(con, _resolved(con, rows, aliases), {root: root.uri for root in roots}, "root")
    return duck.hold(
        con, duck.made_of(con, "SELECT * EXCLUDE root FROM input WHERE root IS NOT NULL", labelled)
    )


_PLACED_ROWS = LISTED.append(pa.field("key", pa.string()))


def _in_bucket(con: Connection, placed: Rows, bucket: str) -> Relation:
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
            WHEN {in_path} THEN substr({path}, {len(container) + 2}) END AS key
        FROM placed WHERE bucket IS NULL AND fault IS NULL AND NOT starts_with(text, 's3://')
            AND NOT starts_with(text, 's3a://')"""
    return duck.query(con, "SELECT * FROM found WHERE key != ''", found=duck.query(con, sql, placed=placed))


def _with_guesses(con: Connection, named: Rows, guesses: Relation, roots: Collection[Location]) -> Relation:
    """Return all objects; if a line names one inside a table, what else it may name outside of tables is left out."""
    labelled = attach_label(con, named, {root: root.uri for root in roots}, "root")
    sql = """
        SELECT * EXCLUDE root FROM labelled WHERE root IS NOT NULL OR line NOT IN (SELECT line FROM guesses)
        UNION BY NAME SELECT * FROM guesses
    """
    return duck.query(con, sql, labelled=labelled, guesses=guesses)


def _spellings(con: Connection, rows: Rows) -> Relation:
    """Return a row for each spelling of a key: as written, percent-decoded, with single slashes, without backslashes.

    For a local disk doubled slashes are always one.
    """
    sql = f"""
        SELECT line, text, fault, bucket, unnest(CASE WHEN key IS NULL THEN [NULL]
            ELSE list_distinct(CASE WHEN bucket = '' THEN [] ELSE spellings END
                || list_transform(spellings, lambda each: {_COLLAPSED})
                || CASE WHEN contains(key, {_BACKSLASH}) THEN list_transform(spellings, lambda each: {_OF_WINDOWS})
                    ELSE [] END) END) AS key
        FROM (SELECT *, CASE WHEN encoded THEN list_filter([{_DECODED}, {_DECODED_PLUS}], lambda each: each IS NOT NULL)
            WHEN contains(key, '%') THEN list_filter([key, {_DECODED}], lambda each: each IS NOT NULL)
            ELSE [key] END AS spellings FROM input)
    """
    return duck.made_of(con, sql, rows)


def distinct_keys(con: Connection, named: Rows) -> Relation:
    """Return the LISTED_KEY rows of all objects that lines may name."""
    sql = "SELECT DISTINCT bucket, key FROM input WHERE fault IS NULL AND bucket IS NOT NULL"
    return duck.conform(con, duck.made_of(con, sql, named), LISTED_KEY)

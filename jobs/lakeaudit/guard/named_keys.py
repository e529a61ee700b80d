"""Turn the lines of a delete list into the objects that they may name. Pure.

Cleaners and lists spell one object in several ways: with `s3a://` or `s3://`, percent-encoded or not, with doubled
slashes or without. A line stands for every object that one of its spellings names; the most protecting answer about
them holds.
"""

from collections.abc import Sequence

from lakeaudit import keys
from lakeaudit.evidence.aliases import true_columns
from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import LISTED_KEY, NAMED_KEY

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


def named_keys(con: Connection, listed: Rows, aliases: Aliases, relative_to: Sequence[Location]) -> Relation:
    """Return NAMED_KEY rows of LISTED rows: a row for each object that a line may name, or one row with a fault.

    `relative_to` are the locations to which relative paths belong. `aliases` are other names of locations.
    """
    placed = duck.query(con, f"SELECT *, {_PLACE} AS place FROM listed", listed=listed)
    absolute = duck.query(
        con,
        "SELECT line, text, encoded, fault, place.bucket AS bucket, place.key AS key FROM placed "
        "WHERE place.bucket IS NOT NULL",
        placed=placed,
    )
    relative = [_below(con, placed, location) for location in relative_to]
    faulty = f"""SELECT line, text, encoded, coalesce(fault, {duck.literal(NO_TABLE)}) AS fault,
        NULL AS bucket, NULL AS key FROM placed WHERE place.bucket IS NULL"""
    lost = [] if relative else [duck.query(con, faulty, placed=placed)]
    spelled = _spellings(con, duck.union(con, [absolute, *relative, *lost]))
    bucket, key = true_columns(aliases, "bucket", "key")
    sql = f"""
        SELECT DISTINCT line, text, {bucket} AS bucket, {key} AS key, CASE
            WHEN fault IS NOT NULL THEN fault
            WHEN regexp_matches(key, '{_DOTS}') THEN {duck.literal(DOTS)}
            WHEN key = '' THEN {duck.literal(FOLDER)} END AS fault
        FROM input
    """
    return duck.conform(con, duck.made_of(con, sql, spelled), NAMED_KEY)


def _below(con: Connection, placed: Rows, location: Location) -> Relation:
    sql = f"""SELECT line, text, encoded, fault, {duck.literal(location.bucket)} AS bucket,
        {duck.literal(location.prefix)} || place.key AS key FROM placed WHERE place.bucket IS NULL"""
    return duck.query(con, sql, placed=placed)


def _spellings(con: Connection, rows: Rows) -> Relation:
    """Return a row for each spelling of a key: as written, percent-decoded, and with single slashes.

    For a local disk doubled slashes are always one.
    """
    sql = f"""
        SELECT line, text, fault, bucket, unnest(CASE WHEN key IS NULL THEN [NULL]
            ELSE list_distinct(CASE WHEN bucket = '' THEN [] ELSE spellings END
                || list_transform(spellings, lambda each: {_COLLAPSED})) END) AS key
        FROM (SELECT *, CASE WHEN encoded THEN list_filter([{_DECODED}, {_DECODED_PLUS}], lambda each: each IS NOT NULL)
            WHEN contains(key, '%') THEN list_filter([key, {_DECODED}], lambda each: each IS NOT NULL)
            ELSE [key] END AS spellings FROM input)
    """
    return duck.made_of(con, sql, rows)


def distinct_keys(con: Connection, named: Rows) -> Relation:
    """Return the LISTED_KEY rows of all objects that lines may name."""
    sql = "SELECT DISTINCT bucket, key FROM input WHERE fault IS NULL AND bucket IS NOT NULL"
    return duck.conform(con, duck.made_of(con, sql, named), LISTED_KEY)

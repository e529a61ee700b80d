"""Read blocks of JSON Lines at once, if all lines are texts, or objects of one form. Pure."""

import re
from collections.abc import Sequence

import pyarrow as pa

from lakeaudit.guard.lists.columns import PATHS, file_columns
from lakeaudit.guard.lists.protocol import listed_batch, split_text
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, DuckError

_CONTROLS = bytes(octet for octet in range(32) if octet != ord("\n"))
_LAST_COMMA = re.compile(rb",[ \n]*[}\]]")
_NAME = re.compile(r"[A-Za-z0-9_ -]{1,100}")
_MOST_NAMES, _MOST_FORMS = 50, 100
_LOCATION = "^(s3|s3a|s3n|gs)://[^/@]+(/|$)|^/"
"""Texts that `columns.looks_like_location` surely accepts; it rejects texts without a colon or a slash in front."""
_VALUES = {"l": "s3://bucket/key", "s": "text", "e": "", "n": None, "o": 1}
"""A value of each class: a location, another text, an empty one, null, and a value of another type."""


def plain_json(con: Connection, block: bytes, first: int) -> pa.RecordBatch | None:
    """Return the LISTED rows of a block; None: its lines need to be read one by one."""
    lines = None if _is_odd(block) else split_text(block.removesuffix(b"\n"), b"\n")
    if lines is None:
        return None
    try:
        return _listed(con, pa.table({"line": lines}), first)
    except DuckError:
        return None


def _is_odd(block: bytes) -> bool:
    """Return whether DuckDB and Python may read a block differently: DuckDB accepts a comma before a bracket."""
    return (
        len(block.translate(None, _CONTROLS)) < len(block)
        or any(each in block for each in (b"\\u", b"\n\n", b"\xef\xbb\xbf"))
        or block.startswith(b"\n")
        or _LAST_COMMA.search(block) is not None
    )


def _listed(con: Connection, lines: pa.Table, first: int) -> pa.RecordBatch | None:
    forms = "SELECT DISTINCT TRY(json_type(line)) AS type, TRY(json_keys(line)) AS names FROM lines LIMIT 2"
    found = duck.rows_of(duck.query(con, forms, lines=lines))
    if len(found) != 1:
        return None
    if found[0]["type"] == "VARCHAR":
        texts = duck.query(con, "SELECT json_extract_string(line, '$') AS file FROM lines", lines=lines)
        return listed_batch(first, _column(duck.table(texts), "file"))
    names = found[0]["names"] or []
    is_plain = len({*names}) == len(names) <= _MOST_NAMES and all(map(_NAME.fullmatch, names))
    if found[0]["type"] != "OBJECT" or not names or not is_plain:
        return None
    paths = ", ".join(duck.literal(f'$."{name}"') for name in names)
    sql = f"SELECT json_type(line, [{paths}]) AS types, json_extract_string(line, [{paths}]) AS texts FROM lines"
    return _of_objects(con, duck.table(duck.query(con, sql, lines=lines)), names, first)


def _of_objects(con: Connection, values: pa.Table, names: Sequence[str], first: int) -> pa.RecordBatch | None:
    """Return the rows of objects of which `values` has the types and texts; None: not all have the same columns."""
    form = " || ".join(_class(name, at) for at, name in enumerate(names, 1))
    sql = f"SELECT DISTINCT {form} AS form FROM found LIMIT {_MOST_FORMS + 1}"
    forms = [row["form"] for row in duck.rows_of(duck.query(con, sql, found=values))]
    if len(forms) > _MOST_FORMS or any("?" in each for each in forms):
        return None
    chosen = {file_columns(names, [_VALUES[value] for value in each]) for each in forms}
    bucket, file = next(iter(chosen))
    if len(chosen) != 1 or file is None or any(each[file] in "no" for each in forms):
        return None
    of_bucket = "NULL" if bucket is None else f"texts[{bucket + 1}]"
    sql = f"SELECT texts[{file + 1}] AS file, CAST({of_bucket} AS VARCHAR) AS bucket FROM found"
    rows = duck.table(duck.query(con, sql, found=values))
    return listed_batch(first, _column(rows, "file"), _column(rows, "bucket"))


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).combine_chunks()


def _class(name: str, at: int) -> str:
    """Return SQL for the class of a value, see `_VALUES`; `?`: Python needs to decide."""
    other = "?" if name.strip().lower() in (*PATHS, "bucket", "key") else "o"
    return f"""CASE types[{at}] WHEN 'NULL' THEN 'n' WHEN 'VARCHAR' THEN CASE
        WHEN texts[{at}] = '' THEN 'e' WHEN regexp_matches(texts[{at}], '{_LOCATION}') THEN 'l'
        WHEN contains(texts[{at}], ':') THEN '?' ELSE 's' END ELSE '{other}' END"""

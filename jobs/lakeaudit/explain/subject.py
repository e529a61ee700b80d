"""What `explain` accepts: a file by its place, its key or the end of its path, a folder, a discrepancy, a subject."""

import re
from dataclasses import dataclass

from lakeaudit.audit.collapsed_locations import place_in_tables
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.keys import Aliases, collapsed, identify, true_place, uri_of
from lakeaudit.kinds import rank
from lakeaudit.results.read import Results, Row

SHORTEST = 6
"""Characters of an id that may stand for it."""
NAMED = 5


@dataclass(frozen=True)
class Named:
    """A file by its place, a folder by its prefix, or a row of the ledger about more than one file.

    The key of a folder is empty or ends in `/`.
    """

    bucket: str
    key: str
    group: Row | None = None


def named(lake: Lake, results: Results, text: str, aliases: Aliases = ()) -> Named:
    """What the text names; a subject of the ledger comes first, since a prefix looks like a file's place.

    `aliases` are other names of places.

    Raises:
        BadInput: it names nothing that is known, or several things.
        CannotAudit: the results cannot be read.
    """
    rows = results.discrepancies_named(text, like=bool(re.fullmatch(rf"[0-9a-f]{{{SHORTEST},}}", text)))
    if rows:
        return _of_ledger(text, rows)
    place = identify(text)
    if place is not None:
        return _place(lake, results, *place_in_tables(lake.tables, *true_place(aliases, *place)))
    return _by_path(lake, results, text)


def _place(lake: Lake, results: Results, bucket: str, key: str) -> Named:
    """A file, or a folder where the key ends like one, or the lake file or the results know it as one."""
    if not key or key.endswith("/"):
        return Named(bucket, key)
    tables = (table.location for table in lake.tables)
    holds_table = any(at.bucket == bucket and f"{at.key}/".startswith(f"{key}/") for at in tables)
    return Named(bucket, f"{key}/" if holds_table or results.is_folder(bucket, key) else key)


def _of_ledger(text: str, rows: list[Row]) -> Named:
    several = len(rows) > 1
    if (several or rows[0]["subject_type"] == "file") and (place := _one_object(rows)):
        return place
    if several:
        worst = sorted(rows, key=lambda row: rank(row["severity"]))
        ids = ", ".join(
            f"{row['discrepancy_id'][:12]} ({row['severity']}, {row['table_name']}, {row['kind']})"
            for row in worst[:NAMED]
        )
        raise BadInput(text, "names several discrepancies", f"name one by its id: {ids}")
    return Named(rows[0]["bucket"] or "", rows[0]["key"] or "", rows[0])


def _one_object(rows: list[Row]) -> Named | None:
    """The object that all of them are about, as a file or as a commit of a table's log."""
    places = {(row["bucket"] or "", row["key"] or "") for row in rows}
    objects = all(row["subject_type"] in ("file", "commit") for row in rows)
    bucket, key = next(iter(places))
    return Named(bucket, key) if len(places) == 1 and objects and key and not key.endswith("/") else None


def _by_path(lake: Lake, results: Results, text: str) -> Named:
    """A key, `bucket/key` or the end of a key, of a file or a folder; else a path below the place of a table.

    Files and folders that a finding, the ledger or a group of unused files names come first.
    """
    path = text.removeprefix("./")
    if not path.strip("/") or "://" in path:
        raise BadInput(text, "names no file", _WAYS)
    found = [] if path.endswith("/") else results.files_named(path)
    found = found or results.folders_named(path.strip("/"))
    if not found and (single := collapsed(path)) != path:
        return _by_path(lake, results, single)
    if len(found) > 1:
        names = ", ".join(uri_of(*each) for each in found[:NAMED])
        raise BadInput(text, f"is the end of {len(found)} paths", f"name one of them: {names}")
    place = found[0] if found else _below_a_table(lake, results, path)
    if place is None:
        raise BadInput(text, "names no file", _WAYS)
    if found:
        return Named(*place)
    return _place(lake, results, *place_in_tables(lake.tables, *place))


_WAYS = (
    "write s3://bucket/key, bucket/key, a key as the results have it, a folder that ends in /, a local path from the "
    "root, the id of a discrepancy or a subject as printed"
)


def _below_a_table(lake: Lake, results: Results, path: str) -> tuple[str, str] | None:
    """(bucket, key) of a path that begins with the place of a table, or of a path below the only table."""
    places = {table.location for table in lake.tables}
    for place in sorted(places, key=lambda each: -each.depth):
        for begin in (place.key, f"{place.bucket}/{place.key}" if place.bucket else place.key):
            if begin and f"{path.rstrip('/')}/".startswith(f"{begin}/"):
                return place.bucket, place.key + path[len(begin) :]
    if len(places) == 1 and results.last_published():
        return places.pop().join(path)
    return None

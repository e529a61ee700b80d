"""Find the subject of `explain`: a file by URI, key or end of its path, a folder, a discrepancy, or its subject."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lakeaudit.audit.collapsed_locations import place_in_tables
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.keys import Aliases, collapsed, identify, true_place, uri_of
from lakeaudit.kinds import rank
from lakeaudit.results.read import Results, Row

SHORTEST = 6
"""Least number of characters that may abbreviate an id."""
NAMED = 5


@dataclass(frozen=True)
class Subject:
    """A file, a folder (its key is empty or ends in `/`), or a row of the ledger about several files."""

    bucket: str
    key: str
    group: Row | None = None


def find_subject(lake: Lake, results: Results, text: str, aliases: Aliases = ()) -> Subject:
    """Find the subject that a text names; a subject of the ledger comes first, since a prefix may look like a file.

    `aliases` are other names of locations.

    Raises:
        BadInput: the text names nothing that is known, or several subjects.
        CannotAudit: the results cannot be read.
    """
    rows = results.discrepancies_named(text, like=bool(re.fullmatch(rf"[0-9a-f]{{{SHORTEST},}}", text)))
    if rows:
        return _of_ledger(text, rows)
    place = identify(text)
    if place is not None:
        return _place(lake, results, *place_in_tables(lake.tables, *true_place(aliases, *place)))
    return _by_path(lake, results, text)


def find_files(lake: Lake, results: Results, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return (bucket, key) of the files with open discrepancies that some texts name.

    Raises:
        BadInput: a text names nothing that is known, a folder, several files, or a file without open discrepancies.
        CannotAudit: the results cannot be read.
    """
    return [_broken_file(results, text, find_subject(lake, results, text)) for text in texts]


def _broken_file(results: Results, text: str, subject: Subject) -> tuple[str, str]:
    if subject.group is not None or not subject.key or subject.key.endswith("/"):
        raise BadInput(text, "is not one file", "write the URI of a file, or select by --table and --kind")
    rows = results.discrepancies_of_file(subject.bucket, subject.key)
    if all(row["state"] != "open" for row in rows):
        raise BadInput(
            text, "has no open discrepancy", "`lakeaudit discrepancies` lists the files that have one"
        )
    return subject.bucket, subject.key


def _place(lake: Lake, results: Results, bucket: str, key: str) -> Subject:
    """Return a file, or a folder if the key ends in `/` or the lake file or the results have it as a folder."""
    if not key or key.endswith("/"):
        return Subject(bucket, key)
    tables = (table.location for table in lake.tables)
    holds_table = any(at.bucket == bucket and f"{at.key}/".startswith(f"{key}/") for at in tables)
    return Subject(bucket, f"{key}/" if holds_table or results.is_folder(bucket, key) else key)


def _of_ledger(text: str, rows: list[Row]) -> Subject:
    several = len(rows) > 1
    if (several or rows[0]["subject_type"] == "file") and (place := _one_object(rows)):
        return place
    if several:
        worst = sorted(rows, key=lambda row: rank(row["severity"]))
        ids = ", ".join(
            f"{row['discrepancy_id'][:12]} ({row['severity']}, {row['table_name']}, {row['kind']})"
            for row in worst[:NAMED]
        )
        raise BadInput(text, "names several discrepancies", f"write the id of one: {ids}")
    return Subject(rows[0]["bucket"] or "", rows[0]["key"] or "", rows[0])


def _one_object(rows: list[Row]) -> Subject | None:
    """Return the object that all rows are about, as a file or as a commit of a table's log."""
    places = {(row["bucket"] or "", row["key"] or "") for row in rows}
    objects = all(row["subject_type"] in ("file", "commit") for row in rows)
    bucket, key = next(iter(places))
    return Subject(bucket, key) if len(places) == 1 and objects and key and not key.endswith("/") else None


def _by_path(lake: Lake, results: Results, text: str) -> Subject:
    """Find a file or folder by key, `bucket/key` or the end of a key; else by a path below a table's location.

    Files and folders of findings, the ledger and groups of unused files come first.
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
        raise BadInput(text, f"is the end of {len(found)} paths", f"write one of them: {names}")
    place = found[0] if found else _below_a_table(lake, results, path)
    if place is None:
        raise BadInput(text, "names no file", _WAYS)
    if found:
        return Subject(*place)
    return _place(lake, results, *place_in_tables(lake.tables, *place))


_WAYS = (
    "write s3://bucket/key, bucket/key, a key as `findings` prints it, a folder that ends in /, a local path from the "
    "root, the id of a discrepancy, or a subject as printed"
)


def _below_a_table(lake: Lake, results: Results, path: str) -> tuple[str, str] | None:
    """Return (bucket, key) of a path that begins with a table's location, or is relative to the only table."""
    places = {table.location for table in lake.tables}
    for place in sorted(places, key=lambda each: -each.depth):
        for begin in (place.key, f"{place.bucket}/{place.key}" if place.bucket else place.key):
            if begin and f"{path.rstrip('/')}/".startswith(f"{begin}/"):
                return place.bucket, place.key + path[len(begin) :]
    if len(places) == 1 and results.last_published():
        return places.pop().join(path)
    return None

"""What may be named to `explain`: a file by its place or the end of its path, a discrepancy, or a group's subject."""

import re
from dataclasses import dataclass

from lakeaudit.config import Lake
from lakeaudit.errors import BadInput
from lakeaudit.keys import identify, uri_of
from lakeaudit.kinds import rank
from lakeaudit.results.read import Results, Row

SHORTEST = 6
"""Characters of an id that may stand for it."""
NAMED = 5


@dataclass(frozen=True)
class Named:
    """What was meant: a file by its place, or a row of the ledger about more than one file."""

    bucket: str
    key: str
    group: Row | None = None


def named(lake: Lake, results: Results, text: str) -> Named:
    """What the text names; a subject of the ledger comes first, since a prefix looks like a file's place.

    Raises:
        BadInput: it names nothing that is known, or several things.
        CannotAudit: the results cannot be read.
    """
    rows = results.discrepancies_named(text, like=bool(re.fullmatch(rf"[0-9a-f]{{{SHORTEST},}}", text)))
    if rows:
        return _of_ledger(text, rows)
    place = identify(text)
    if place is not None and place[1] and not text.endswith("/"):
        return Named(*place)
    return _by_path(lake, results, text)


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
    """A path below a table, or the end of one: of a file that a finding or the ledger names, else of the only table."""
    path = text.removeprefix("./")
    plain = path and "://" not in path and not path.startswith("/") and not path.endswith("/")
    found = results.files_ending(f"/{path}") if plain else []
    if len(found) == 1:
        return Named(*found[0])
    if found:
        names = ", ".join(uri_of(*each) for each in found[:NAMED])
        raise BadInput(text, f"is the end of {len(found)} paths", f"name one of them: {names}")
    if plain and len(lake.tables) == 1 and results.last_published():
        place = lake.tables[0].location.join(path)
        return Named(place.bucket, place.key)
    way_out = (
        "write s3://bucket/key, a local path from the root, the id of a discrepancy or a subject as printed"
    )
    raise BadInput(text, "names no file", way_out)

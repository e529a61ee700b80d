"""The plain twins of duplicate content and unfinished uploads."""

from collections.abc import Callable, Sequence
from typing import Any

from lakeaudit import keys
from lakeaudit.keys import owner_of
from lakeaudit.rules.expr import evaluate, lit
from lakeaudit.rules.file_facts import MD5_TEXT
from tests.builders.scenario import Row, Scenario


def matches(text: str, pattern: str) -> bool:
    """Match a pattern with a plain text, in the dialect of the facts."""
    return bool(evaluate(lit(text).matches(pattern), {}))


def same_content(s: Scenario, pairs: Sequence[Row]) -> list[tuple[str, str]]:
    """(table, key) of every member but the oldest of each group of visible files with the same bytes."""
    groups = _grouped(s, pairs, _content)
    ordered = {at: sorted(g, key=lambda r: (r["s_modified_at"], r["key"])) for at, g in groups.items()}
    return [(at[0], row["key"]) for at, group in ordered.items() for row in group[1:] if not _conflicts(row)]


def undecided_copies(s: Scenario, pairs: Sequence[Row]) -> list[tuple[str, str]]:
    """(table, key) of visible files of one partition, name and size, whose bytes nobody can compare."""

    def name(row: Row) -> str | None:
        comparable = _content(row) and "-" not in (row["s_etag"] or "")
        return None if comparable or _conflicts(row) else row["key"].rpartition("/")[2]

    found = []
    for at, group in _grouped(s, pairs, name).items():
        contents = [_content(row) or row["key"] for row in group]
        alone = [row for row, content in zip(group, contents, strict=True) if contents.count(content) == 1]
        found += [(at[0], row["key"]) for row in alone if len(group) > 1]
    return found


def _grouped(
    s: Scenario, pairs: Sequence[Row], by: Callable[[Row], str | None]
) -> dict[tuple[Any, ...], list[Row]]:
    """Files that take part, by table, place, size and what `by` says of them; those it says nothing of are left out."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    sizes = {fact.table.name: fact.table.settings.min_duplicate_size for fact in s.tables}
    for row in pairs:
        owner = row["table_name"] or row["owner"]
        if owner is not None and _takes_part(row, sizes[owner]) and by(row):
            folder_ = row["relative"].rpartition("/")[0]
            plain = not row["o_logged"] and row["c_kind"] != "delta"
            place = folder_ if plain else row["partition_path"]
            groups.setdefault((owner, place, row["s_size"], by(row)), []).append(row)
    return groups


def _takes_part(row: Row, min_size: int) -> bool:
    visible = not matches(row["relative"], keys.HIDDEN)
    in_use = row["c_state"] == "live" or (row["table_name"] is None and row["o_by_folder"])
    settled = row["s_modified_at"] is not None and row["s_modified_at"] <= row["s_from"] - row["s_margin"]
    there = row["s_presence"] == "present" and (row["s_size"] or 0) >= min_size
    return bool(visible and in_use and settled and there and row["category"] == "data")


def _content(row: Row) -> str | None:
    etag = row["s_etag"] or ""
    whole = not row["s_multipart"] and matches(etag, MD5_TEXT)
    readable = row["s_encryption"] in (None, "NONE", "SSE-S3")
    tells = readable and (whole or matches(etag, rf"^[0-9a-f]{{32}}-[0-9]+{keys.END}"))
    return f"etag:{etag}" if tells else row["s_checksum"]


def _conflicts(row: Row) -> bool:
    """The file has a verdict of its own on the axis already."""
    return bool((row["c_listed"] or 0) > 1 or row["r_conflict"])


def unfinished_uploads(s: Scenario) -> list[tuple[str, str]]:
    """(table, key) of uploads begun more than leftover_age + max_upload before the cut."""
    places = {fact.table.location: fact for fact in s.tables}
    names = {place: fact.table.name for place, fact in places.items()}
    found = []
    for upload in s.uploads:
        name = owner_of(names, upload["bucket"], upload["key"])
        settings = next((f.table.settings for f in s.tables if f.table.name == name), None)
        edge = s.storage[0].cut - s.storage[0].margin
        if settings and upload["initiated_at"] + settings.leftover_age + settings.max_upload <= edge:
            found.append((name or "", upload["key"]))
    return found

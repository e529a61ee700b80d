"""Describes outside files: listed files that no storage source of the run covers.

A live audit lists the folders of its tables. Files elsewhere (of a shallow clone's source, absolute paths) are
requested one by one, within the limit. Coverage names the places of the others, and how to cover them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.collect.evidence import Evidence
from lakeaudit.config.parsers import is_location
from lakeaudit.config.sources import StorageSource
from lakeaudit.keys import Location, in_known_store
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws_failures import why_not_read
from lakeaudit.runtime.duck import Rows

PLACES_NAMED = 3
"""The number of places that the reason names; others are counted."""

_COMPARED = "not compared with other files for equal content: they are outside the listed places"

Place = tuple[str, str, str]
"""Table that lists the files, bucket, and the table around the files; empty: none."""


@dataclass(frozen=True)
class OutsideFiles:
    """By table and axis why coverage has a gap, and by table how many of the files were checked."""

    reasons: Mapping[tuple[str, str], str]
    looked_at: Mapping[str, int]


@dataclass(frozen=True)
class _UncheckedFiles:
    """Files of one table in one place that were not checked; `denied`: storage refused or failed to answer."""

    place: Location
    files: int
    denied: int


def outside_files(evidence: Evidence, counted: Iterable[Mapping[str, Any]], remaining: Rows) -> OutsideFiles:
    """Describe, for coverage, the files that no storage source covers.

    Args:
        evidence: the evidence of the run.
        counted: rows of `kernel.outside_places`.
        remaining: verdict rows after the live check.
    """
    folders = _folders(evidence, counted)
    if not folders:
        return OutsideFiles({}, {})
    answers = _answers(evidence, remaining)
    looked_at: Counter[str] = Counter()
    unchecked: dict[str, list[_UncheckedFiles]] = {}
    for place, (folder, files) in folders.items():
        looked_at[place[0]] += answers["live", place]
        if left := files - answers["live", place]:
            unchecked.setdefault(place[0], []).append(_UncheckedFiles(folder, left, answers["denied", place]))
    reasons = {}
    for table in {name for name, _, _ in folders}:
        why = _reason(evidence, unchecked[table]) if table in unchecked else ""
        files = looked_at[table]
        reasons[table, "content"] = why
        reasons[table, "duplicate"] = (
            why or f"{files:,} {'file was' if files == 1 else 'files were'} {_COMPARED}"
        )
    return OutsideFiles(reasons, +looked_at)


def not_compared(reasons: Mapping[tuple[str, str], str]) -> frozenset[str]:
    """Return reasons that do not make an audit partial: all files were checked, only contents were not compared."""
    return frozenset(reason for reason in reasons.values() if reason.endswith(_COMPARED))


def _folders(evidence: Evidence, counted: Iterable[Mapping[str, Any]]) -> dict[Place, tuple[Location, int]]:
    """Return by place the folder that contains all its files, and their number."""
    locations = {table.name: table.location for table in evidence.lake.tables}
    ranges: dict[Place, tuple[str, str, int]] = {}
    for row in counted:
        place = (row["table_name"], row["bucket"], row["owner"] or "")
        first, last, files = ranges.get(place, (row["first_key"], row["last_key"], 0))
        ranges[place] = (min(first, row["first_key"]), max(last, row["last_key"]), files + row["files"])
    return {
        place: (locations.get(place[2]) or Location(place[1], _common_folder(first, last)), files)
        for place, (first, last, files) in ranges.items()
    }


def _common_folder(first: str, last: str) -> str:
    """Return the longest folder that contains both keys, and so every key between them; without its last slash."""
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    common = first[: min(len(first), len(last)) if same is None else same]
    return common.rpartition("/")[0]


def _answers(evidence: Evidence, remaining: Rows) -> Counter[tuple[str, Place]]:
    """Count requested files by answer (live; denied if storage gave none) and place."""
    sql = """
        SELECT judged_table, bucket, coalesce(owner, '') AS owner, count(*) AS files,
            CASE WHEN l_confirmation = 'live' THEN 'live' ELSE 'denied' END AS answer
        FROM input WHERE axis = 'content' AND s_source IS NULL AND l_confirmation IN ('live', 'denied', 'error')
        GROUP BY judged_table, bucket, owner, answer
    """
    found: Counter[tuple[str, Place]] = Counter()
    for row in duck.rows_of(duck.made_of(evidence.con, sql, remaining)):
        found[row["answer"], (row["judged_table"], row["bucket"], row["owner"])] += row["files"]
    return found


def _reason(evidence: Evidence, unchecked: Sequence[_UncheckedFiles]) -> str:
    """Return which files were not checked, and the lines of the lake file that cover them."""
    files = sum(each.files for each in unchecked)
    worst = sorted(unchecked, key=lambda each: (-each.files, each.place))
    named = ", ".join(f"{each.files:,} below {each.place.uri}{_note(each)}" for each in worst[:PLACES_NAMED])
    more = f" and in {len(worst) - PLACES_NAMED:,} more places" if len(worst) > PLACES_NAMED else ""
    lie = "file is" if files == 1 else "files are"
    sentence = f"{files:,} listed {lie} outside all storage sources: {named}{more}"
    return "; ".join([sentence, *_remedies(evidence, worst[:PLACES_NAMED])])


def _note(one: _UncheckedFiles) -> str:
    """Return in parentheses why storage gave no answer; empty if nothing was requested."""
    if not in_known_store(one.place.bucket):
        return f" ({why_not_read(one.place.bucket)})"
    requests = "request" if one.denied == 1 else "requests"
    return f" (storage refused {one.denied:,} {requests})" if one.denied else ""


def _remedies(evidence: Evidence, unchecked: Sequence[_UncheckedFiles]) -> list[str]:
    """Return remedies for places that a source can cover: lines of the lake file, and rights."""
    readable = [
        each for each in unchecked if in_known_store(each.place.bucket) and is_location(each.place.uri)
    ]
    lines = ", ".join(
        f"{{kind: listing, location: {_quoted(each.place.uri)}}}"
        for each in readable
        if not _has_source(evidence, each.place)
    )
    live = evidence.observed.listed
    after = " (an audit without --live reads them)" if live else ""
    remedies = [f"to cover them, add to inventories: [{lines}]{after}"] if lines else []
    if any(each.denied for each in readable):
        remedies.append("grant s3:GetObject and s3:ListBucket there")
    if live and any(each.files > each.denied for each in readable):
        remedies.append("a live audit checks them one by one with a larger confirm.fresh")
    return remedies


def _has_source(evidence: Evidence, place: Location) -> bool:
    """Whether a storage source of the lake file covers the place; a live audit reads none."""
    return any(cover.contains(place) for source in evidence.lake.inventories for cover in _covers(source))


def _covers(source: StorageSource) -> Sequence[Location]:
    """Return the places that a source covers by the lake file; a report without `covers` has none."""
    return (source.location,) if source.is_listing else getattr(source, "covers", None) or ()


def _quoted(uri: str) -> str:
    """Return a URI as a quoted scalar of YAML."""
    return "'" + uri.replace("'", "''") + "'"

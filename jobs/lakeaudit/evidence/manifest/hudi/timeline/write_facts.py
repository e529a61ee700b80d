"""Collect facts from the file of a completed write that other evidence may contradict. Pure.

A base file bears the instant of the write that made it, for all operations (inserts, merges, compactions,
clusterings). Log files prove nothing: those of layout 1 bear the instant of their base file, and a table that was
upgraded to layout 2 keeps such names.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.manifest.hudi.timeline.names import LENGTH, FileName, file_named
from lakeaudit.evidence.manifest.hudi.timeline.payload import MOST_ROWS
from lakeaudit.evidence.protocol import notes_with

FACTS = "facts"
"""Key in the data of a NOTE row about such facts."""
CLUSTER = "CLUSTER"
REPLACES = "replacecommit"
MOST_NAMED = 100
"""Most other instants that are kept for one write."""

Stat = Mapping[str, Any]


@dataclass(frozen=True)
class WriteFacts:
    """Holds facts from one file of a timeline about the write that it completes.

    Attributes:
        operation: as its writer calls it.
        files: how many files it lists.
        rows: rows of a clustering's base files; None for other operations, and if the number is not exact.
        foreign: how many base files it lists if all of them bear other instants; else 0.
        instants: some of these instants.
        sample: the name of one of these files.
        digest: of the files that it lists and the file groups that it replaces.
    """

    operation: str
    files: int
    rows: int | None
    foreign: int
    instants: tuple[str, ...]
    sample: str
    digest: str


def write_facts(
    action: str, begin: str, record: Mapping[str, Any], *, completed_twice: bool
) -> WriteFacts | None:
    """Return facts of a write that replaces file groups, lists other writes' files, or is completed several times."""
    if not action.endswith("commit"):
        return None
    try:
        foreign = _foreign(begin, _write_stats(record))
        if action != REPLACES and not foreign and not completed_twice:
            return None
        stats = [*_write_stats(record)]
        operation = str(record.get("operationType") or "")
        rows = _rows(stats) if operation == CLUSTER else None
        instants = tuple(sorted(set(foreign.values()))[:MOST_NAMED])
        sample = min(foreign, default="")
        return WriteFacts(operation, len(stats), rows, len(foreign), instants, sample, _digest(record, stats))
    except (AttributeError, TypeError, ValueError):
        return None


def _write_stats(record: Mapping[str, Any]) -> Iterator[Stat]:
    """Yield the statistics of each file of a write."""
    for stats in (record.get("partitionToWriteStats") or {}).values():
        yield from (stat for stat in stats if stat.get("path"))


def facts_of(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, WriteFacts]]:
    """Return the facts in notes, by table and name of the file."""
    found: dict[str, dict[str, WriteFacts]] = {}
    for table, data in notes_with(notes, FACTS):
        facts = data[FACTS] | {"instants": tuple(data[FACTS]["instants"])}
        found.setdefault(table, {})[data["file"]] = WriteFacts(**facts)
    return found


def _foreign(begin: str, stats: Iterable[Stat]) -> dict[str, str]:
    """Return the instants of the base files by name, if all of them differ from the write that lists them."""
    found: dict[str, str] = {}
    for stat in stats:
        name = str(stat["path"]).rpartition("/")[2]
        named = None if name.startswith(".") else _base(name)  # names of log files begin with a dot
        if named is not None:
            if named.instant == begin or len(named.instant) != LENGTH:
                return {}
            found[name] = named.instant
    return found


def _base(name: str) -> FileName | None:
    """Parse the name of a base file; None for other files."""
    named = file_named(name)
    return named if named is not None and named.kind == "base" else None


def _rows(stats: Sequence[Stat]) -> int | None:
    """Sum rows of the base files of new file groups; None if one is another file, or has no exact number of rows."""
    rows = sum(stat["numWrites"] for stat in stats) if all(map(_is_exact, stats)) else None
    return None if rows is None or rows >= MOST_ROWS else rows


def _is_exact(stat: Stat) -> bool:
    """Return whether it is a base file that begins a file group, with an exact number of rows."""
    rows = stat.get("numWrites")
    counted = isinstance(rows, int) and not isinstance(rows, bool) and 0 <= rows < MOST_ROWS
    begins = stat.get("prevCommit") in (None, "", "null") and stat.get("numInserts") in (None, rows)
    lacks = any(stat.get(name) for name in ("numDeletes", "totalWriteErrors"))
    return counted and begins and not lacks and _base(str(stat["path"]).rpartition("/")[2]) is not None


def _digest(record: Mapping[str, Any], stats: Sequence[Stat]) -> str:
    listed = sorted(
        repr([stat.get(name) for name in ("path", "fileSizeInBytes", "numWrites")]) for stat in stats
    )
    groups = (record.get("partitionToReplaceFileIds") or {}).items()
    replaced = sorted((folder, sorted(ids)) for folder, ids in groups)
    return hashlib.sha256(repr((listed, replaced)).encode(errors="replace")).hexdigest()[:32]

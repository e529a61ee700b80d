"""What the file of a completed write says of itself, so that something else may contradict it. Pure.

A base file bears the instant of the write that made it, whatever the operation (inserts, merges, compactions,
clusterings). Log files prove nothing: those of layout 1 bear the instant of their base file, and a table that was
upgraded to layout 2 keeps such names.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.manifest.hudi.names import LENGTH, FileName, file_named
from lakeaudit.evidence.manifest.hudi.payload import MOST_ROWS

FACTS = "facts"
"""What the data of a NOTE row about such facts holds."""
CLUSTER = "CLUSTER"
REPLACES = "replacecommit"
MOST_NAMED = 100
"""Other instants of one write that are kept."""

Stat = Mapping[str, Any]


@dataclass(frozen=True)
class WriteFacts:
    """What one file of a timeline says of the write that it completes.

    Attributes:
        operation: as its writer calls it.
        files: how many files it lists.
        rows: how many rows the base files of a clustering have; None for other operations, and where it is not exact.
        foreign: how many base files it lists if all of them bear other instants; else 0.
        instants: which ones, some of them.
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
    """The facts of a write that replaces file groups, lists other writes' files, or is completed by several files."""
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
    """What a write says of each of its files."""
    for stats in (record.get("partitionToWriteStats") or {}).values():
        yield from (stat for stat in stats if stat.get("path"))


def facts_of(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, WriteFacts]]:
    """By table and name of the file the facts that notes hold."""
    found: dict[str, dict[str, WriteFacts]] = {}
    for note in notes:
        data = json.loads(str(note["data"] or "{}"))
        if FACTS in data:
            facts = data[FACTS] | {"instants": tuple(data[FACTS]["instants"])}
            found.setdefault(str(note["subject"]), {})[data["file"]] = WriteFacts(**facts)
    return found


def _foreign(begin: str, stats: Iterable[Stat]) -> dict[str, str]:
    """By name the instants of the base files if all of them bear others than the write that lists them."""
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
    """What the name of a base file says; None: it is none."""
    named = file_named(name)
    return named if named is not None and named.kind == "base" else None


def _rows(stats: Sequence[Stat]) -> int | None:
    """Rows of the base files of new file groups; None where one is something else, or its rows are not exact."""
    rows = sum(stat["numWrites"] for stat in stats) if all(map(_is_exact, stats)) else None
    return None if rows is None or rows >= MOST_ROWS else rows


def _is_exact(stat: Stat) -> bool:
    """Whether it is of a base file that begins a file group, and of as many rows as it counts."""
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

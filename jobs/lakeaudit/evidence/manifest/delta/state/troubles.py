"""Collect the notes that tasks wrote about the files of logs, by table."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from lakeaudit.evidence.lineage import Stake
from lakeaudit.evidence.manifest.delta.log.layout import Log
from lakeaudit.evidence.manifest.delta.log.lines import SHORT, VANISHED
from lakeaudit.evidence.manifest.delta.state.entry_sums import NOTHING, EntrySums
from lakeaudit.evidence.manifest.delta.state.notes import is_passed_over
from lakeaudit.keys import Location


@dataclass(frozen=True)
class Vacuum:
    """Holds a commitInfo (JSON text) that records the begin of a vacuum; `time` is its commit's, by the file."""

    version: int
    time: datetime
    text: str


@dataclass(frozen=True)
class RecentCommit:
    """Counts the changes of one of the newest commits; `operation` is None if its writer recorded none."""

    version: int
    at: datetime
    operation: str | None
    added: int
    removed: int


@dataclass
class Troubles:
    """Collects the notes of one table's files.

    `torn` are (version, file, reason) of files with content that could not be understood, `short` checkpoint files that
    cannot be read and why, `sidecars` that sidecars exist which were not listed, `newest` (version, JSON text) by
    protocol and metaData, `roots` folders elsewhere that hold files of the table.
    """

    torn: list[tuple[int, Location, str]] = field(default_factory=list)
    short: dict[Location, str] = field(default_factory=dict)
    sidecars: bool = False
    undecodable: int = 0
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)
    vacuums: list[Vacuum] = field(default_factory=list)
    roots: set[Location] = field(default_factory=set)
    recent: list[RecentCommit] = field(default_factory=list)
    entries: dict[str, EntrySums] = field(default_factory=dict)
    """Sums of entries, by the kind of entries."""
    lacks: dict[int, Stake] = field(default_factory=dict)
    """By version the files and rows that a commit counts and does not hold."""

    @property
    def must_read_again(self) -> bool:
        """Return whether files changed while they were read, or a checkpoint proved to have sidecars."""
        return bool(self.short) or self.sidecars or any(why == VANISHED for _, _, why in self.torn)

    def one_reason_a_file(self) -> tuple[tuple[int, Location, str], ...]:
        """Return `torn`, oldest first, each file once; a short file has that reason."""
        reasons: dict[tuple[int, Location], str] = {}
        for version, place, why in self.torn:
            both = (why, reasons.get((version, place), why))
            reasons[version, place] = min(both, key=lambda each: (each != SHORT, each))
        return tuple((version, place, why) for (version, place), why in sorted(reasons.items()))


def troubles(
    notes: Iterable[Mapping[str, object]], places: Mapping[str, Location], logs: Mapping[str, Log]
) -> dict[str, Troubles]:
    """Collect notes by table; `places` are those of checkpoints by their URI, the others are commits."""
    found: dict[str, Troubles] = {}
    for note in notes:
        data = json.loads(str(note["data"]))
        place = places.get(str(note["subject"])) or logs[data["table"]].commit_place(data["version"])
        known = found.setdefault(data["table"], Troubles())
        if data["kind"] == "commits":
            known.recent += map(_recent, data["commits"])
        elif data["kind"] == "entries":
            sums = EntrySums(**{each.name: data[each.name] for each in fields(EntrySums)})
            known.entries[data["what"]] = known.entries.get(data["what"], NOTHING).plus(sums)
        else:
            _add_note(known, data, note, place)
    return found


def _recent(values: list[Any]) -> RecentCommit:
    version, at, operation, added, removed = values
    return RecentCommit(version, datetime.fromisoformat(at), operation, added, removed)


def _add_note(known: Troubles, data: Mapping[str, Any], note: Mapping[str, Any], place: Location) -> None:
    kind, version = data["kind"], data["version"]
    if kind == "undecodable":
        known.undecodable += note["count"]
    elif kind == "vacuum":
        known.vacuums.append(Vacuum(version, datetime.fromisoformat(data["time"]), data["text"]))
    elif kind == "root":
        known.roots.add(Location(data["bucket"], data["key"]))
    elif kind == "sidecars":
        known.sidecars = True
    elif kind == "problem" and is_passed_over(str(note["reason"])):
        known.short[place] = str(note["reason"])
    elif kind == "problem":
        known.torn.append((version, place, note["reason"]))
        known.lacks |= {version: Stake(*data["lacks"])} if "lacks" in data else {}
    elif version >= known.newest.get(kind, (version, ""))[0]:
        known.newest[kind] = (version, data["text"])

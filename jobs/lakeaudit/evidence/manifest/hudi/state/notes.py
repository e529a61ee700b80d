"""Make and parse NOTE rows about the files of timelines: unreadable ones, and facts that are in no STEP row."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from lakeaudit.evidence.manifest.hudi.timeline.appends import AppendTotals
from lakeaudit.evidence.manifest.hudi.timeline.instants import Instant
from lakeaudit.evidence.manifest.hudi.timeline.write_facts import FACTS, WriteFacts
from lakeaudit.evidence.protocol import notes_with

T = TypeVar("T")

GONE = "it is missing"
OLDEST = "oldest"
NOT_WRITTEN = "not_written"
DID = "did"
TAKEN_BACK, ARCHIVED, FIRST = "taken_back", "archived", "first"
APPENDED = "appended"


@dataclass(frozen=True)
class Fate:
    """Names a table's instants that are not in its timeline.

    Attributes:
        taken_back: by a rollback or restore, or by the plan of one.
        archived: those of the wanted ones that the archive has.
        first: the oldest instant of the archive; empty if it has none.
    """

    taken_back: frozenset[str] = frozenset()
    archived: frozenset[str] = frozenset()
    first: str = ""


@dataclass(frozen=True)
class Problem:
    """Describes an unreadable file of a timeline: of an instant (by its action), or of the archive (no action)."""

    table: str
    action: str
    subject: str
    reason: str


def problems(notes: Iterable[Mapping[str, object]]) -> list[Problem]:
    """Parse NOTE rows of unreadable files."""
    found = [(note, json.loads(str(note["data"]))) for note in notes if note["reason"]]
    return [
        Problem(data["table"], data["action"], str(note["subject"]), str(note["reason"]))
        for note, data in found
    ]


def oldest(notes: Iterable[Mapping[str, object]]) -> dict[str, datetime]:
    """Return by table when the oldest instant of its archive was completed."""
    found: dict[str, datetime] = {}
    for table, data in notes_with(notes, OLDEST):
        at = datetime.fromisoformat(data[OLDEST])
        found[table] = min(at, found.get(table, at))
    return found


def not_written(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, int]]:
    """Return by table and instant how many rows writes could not write, as they record it."""
    return _by_instant(notes, NOT_WRITTEN, int)


def files_done(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return by table and instant how many files it wrote, and how many it removed."""
    return _by_instant(notes, DID, lambda counts: (counts[0], counts[1]))


def appends(notes: Iterable[Mapping[str, object]]) -> dict[str, dict[str, AppendTotals]]:
    """Return by table and instant the sums of an append."""
    return _by_instant(notes, APPENDED, lambda totals: AppendTotals(**totals))


def _by_instant(
    notes: Iterable[Mapping[str, object]], name: str, parse: Callable[[Any], T]
) -> dict[str, dict[str, T]]:
    found: dict[str, dict[str, T]] = {}
    for table, data in notes_with(notes, name):
        found.setdefault(table, {})[data["instant"]] = parse(data[name])
    return found


def fates(notes: Sequence[Mapping[str, object]]) -> dict[str, Fate]:
    """Return by table the instants that are not in its timeline."""
    found: dict[str, Fate] = {}
    for table, data in [*notes_with(notes, TAKEN_BACK), *notes_with(notes, FIRST)]:
        fate = found.get(table, Fate())
        found[table] = Fate(
            fate.taken_back.union(data.get(TAKEN_BACK, ())),
            fate.archived.union(data.get(ARCHIVED, ())),
            min(filter(None, (data.get(FIRST, ""), fate.first)), default=""),
        )
    return found


@dataclass
class FileFacts:
    """Collects a file's facts besides its rows: times of archived instants, and rows that a write did not write."""

    times: list[datetime] = field(default_factory=list)
    not_written: int = 0
    did: tuple[int, int] | None = None
    appended: AppendTotals | None = None
    facts: WriteFacts | None = None
    taken_back: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    first: str = ""

    def add_archived(self, begin: str, at: datetime, *, wanted: bool) -> None:
        """Add an archived instant and when it was completed."""
        self.times.append(at)
        self.first = min(self.first or begin, begin)
        self.archived += [begin] if wanted else []

    def notes(self, instant: Instant) -> Iterator[dict[str, object]]:
        """Yield the data of NOTE rows about the file of this instant."""
        if self.times:
            yield {OLDEST: min(self.times).isoformat()}
        if self.not_written:
            yield {NOT_WRITTEN: self.not_written, "instant": instant.begin}
        if self.did is not None:
            yield {DID: self.did, "instant": instant.begin}
        if self.appended is not None:
            yield {APPENDED: asdict(self.appended), "instant": instant.begin}
        if self.facts is not None:
            yield {FACTS: asdict(self.facts), "file": instant.file.name}
        if self.taken_back:
            yield {TAKEN_BACK: self.taken_back}
        if self.first:
            yield {ARCHIVED: self.archived, FIRST: self.first}

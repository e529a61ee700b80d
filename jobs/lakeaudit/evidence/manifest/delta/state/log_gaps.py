"""Report missing and broken files of a table's own log, and the changes that they hide. Pure."""

import json
from collections.abc import Iterator

from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.delta.log.layout import Gap, Log
from lakeaudit.evidence.manifest.delta.state.notes import kind_of
from lakeaudit.evidence.manifest.delta.state.readings import Reading
from lakeaudit.evidence.manifest.delta.witnesses.commit_counts import EMPTY, UNMET, words_of_commit
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.keys import Location
from lakeaudit.kinds import SET_ASIDE
from lakeaudit.runtime.connections.aws import Clients

ALL_KNOWN = -1


def last_unknown_version(reading: Reading) -> int:
    """Return the newest version whose actions are not all known; -1 if all are known."""
    gaps = reading.plan.gaps if reading.plan else ()
    return max([ALL_KNOWN, *(gap.last for gap in gaps), *(version for version, _, _ in reading.torn)])


def evidence_gaps(reading: Reading, source: str) -> list[EvidenceGap]:
    """Return the evidence gaps of a table whose state could be rebuilt."""
    name, log = reading.listed.name, reading.log
    found = [
        hole
        for gap in (reading.plan.gaps if reading.plan else ())
        for hole in _of_gap(gap, log, source, name)
    ]
    found += [
        EvidenceGap(source, _torn(version, why), place.uri, name, f"some changes of table version {version}", 1,
             kind_of(why))
        for version, place, why in reading.torn
    ]  # fmt: skip
    found += [
        EvidenceGap(source, why, place.uri, name, SET_ASIDE, 1, kind_of(why))
        for place, why in _broken_for_readers(reading)
    ]  # fmt: skip
    if reading.undecodable:
        reason = f"{reading.undecodable} paths or deletion vectors in the log cannot be understood"
        found.append(
            EvidenceGap(source, reason, log.folder.uri, name, "the files that they name", reading.undecodable)
        )
    return found


def _torn(version: int, why: str) -> str:
    return words_of_commit(version, why) if why.startswith((EMPTY, UNMET)) else why


def warnings(reading: Reading) -> list[str]:
    """Return the faults of a log that hide nothing from readers of the newest state."""
    if reading.plan is None:
        return []
    name, needed = reading.listed.name, {place for place, _ in _broken_for_readers(reading)}
    odd = [
        f"{_missing_commits(gap)}, history before the checkpoint after it is not judged"
        for gap in reading.plan.bridged
    ]
    odd += [f"{place.uri}: {why}; it was passed over" for place, why in reading.broken.items()
            if why and place not in needed]  # fmt: skip
    return [f"{name}: {one}" for one in odd]


def nothing_left(reading: Reading, source: str, clients: Clients) -> list[EvidenceGap]:
    """Return the files without which no state of the table can be rebuilt."""
    hides = "every file that the table lists"
    return [
        EvidenceGap(source, why, place.uri, reading.listed.name, hides, 1, kind_of(why))
        for place, why in _missing_base(reading, clients)
    ]


def _missing_base(reading: Reading, clients: Clients) -> Iterator[tuple[Location, str]]:
    log = reading.log
    broken = [(place, why) for place, why in reading.broken.items() if why]
    if broken:
        yield from broken
    elif log.lost_parts:
        for place in log.lost_parts[max(log.lost_parts)]:
            yield place, "this part of a checkpoint is missing"
    else:
        named = _last_checkpoint(log, clients)
        first = next(iter(log.commits), 1)
        yield (
            named or log.commit_place(first - 1),
            f"it is missing, and the log has nothing else from before version {first}",
        )


def _last_checkpoint(log: Log, clients: Clients) -> Location | None:
    """Return the file that the `_last_checkpoint` hint names, if it is a single one."""
    try:
        hint = json.loads(read_bytes(clients, log.folder.join("_last_checkpoint")) or b"")
        named = (hint.get("v2Checkpoint") or {}).get(
            "path"
        ) or f"{int(hint['version']):020}.checkpoint.parquet"
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return None if hint.get("parts") else log.folder.join(str(named).rpartition("/")[2])


def _broken_for_readers(reading: Reading) -> list[tuple[Location, str]]:
    """Return the files of the newest checkpoint that cannot be read, including its sidecars."""
    newest = reading.log.checkpoints[-1:]
    if not newest or not newest[0].places & reading.broken.keys():
        return []
    others = {place for point in reading.log.checkpoints[:-1] for place in point.places}
    return [(place, why) for place, why in reading.broken.items() if why and place not in others]


COMMITS_NAMED = 100
"""Commits of a gap that have their own row, with how each can be restored; the rest share one row."""


def _of_gap(gap: Gap, log: Log, source: str, name: str) -> Iterator[EvidenceGap]:
    last = min(gap.last, gap.first + COMMITS_NAMED - 1)
    for version in range(gap.first, last + 1):
        place = log.commit_place(version).uri
        yield EvidenceGap(
            source, _missing_commits(gap), place, name, _hidden_changes(gap), 1, "missing_metadata"
        )
    if last < gap.last:
        place = log.commit_place(last + 1).uri
        yield EvidenceGap(
            source,
            _missing_commits(gap),
            place,
            name,
            _hidden_changes(gap),
            gap.last - last,
            "missing_metadata",
        )


def _missing_commits(gap: Gap) -> str:
    return (
        f"the file of commit {gap.first} is missing"
        if gap.first == gap.last
        else f"the files of commits {gap.first} to {gap.last} are missing"
    )


def _hidden_changes(gap: Gap) -> str:
    which = f"version {gap.first}" if gap.first == gap.last else f"versions {gap.first} to {gap.last}"
    return f"the changes of table {which}"

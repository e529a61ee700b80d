"""Find witnesses in a table's own content: snapshots, lists and manifests that contradict each other.

A snapshot's summary is written with it and never changes, and so are its list and its manifests: if one counts more
than another holds, data was lost between them, or replaced afterwards.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from lakeaudit.evidence.lineage import (
    CHANGED_ROWS,
    CONTENT,
    DROPPED_BY_APPEND,
    IDLE_REMOVAL,
    REPEATED_MANIFEST,
    REPLACED_STATE,
    RIVAL_OVERWRITES,
    UNMET_COUNTS,
    Stake,
    Witness,
)
from lakeaudit.evidence.manifest.iceberg.state.list_facts import ListFacts, RemovedFiles
from lakeaudit.evidence.manifest.iceberg.state.metadata import Snapshot, number_of
from lakeaudit.evidence.manifest.iceberg.state.readings import TableReading
from lakeaudit.evidence.manifest.iceberg.witnesses.repeated_appends import repeated_appends
from lakeaudit.formatting import number
from lakeaudit.runtime.connections.aws import Clients

_LONGEST = 18
"""Most digits of a valid count."""


def of_snapshots(read: TableReading, clients: Clients) -> Iterator[Witness]:
    """Yield contradictions between the retained snapshots of a table, their lists and their manifests."""
    facts = {each.snapshot: each for each in read.facts}
    snapshots = {each.id: each for each in read.metadata.snapshots}
    for snapshot in read.metadata.snapshots:
        if snapshot.id in facts:
            yield from chain(
                _unmet(read, snapshot, facts[snapshot.id]),
                _of_pair(read, snapshot, facts, snapshots),
                _repeated_manifests(read, snapshot, facts[snapshot.id]),
            )
    yield from _lost_current(read, snapshots)
    yield from _lost_updates(read, facts, snapshots)
    yield from _replaced_manifests(read)
    yield from repeated_appends(read, clients)


def _unmet(read: TableReading, snapshot: Snapshot, facts: ListFacts) -> Iterator[Witness]:
    """Yield a summary that counts more than the snapshot's own manifests hold."""
    pairs = (("added-data-files", facts.added_files), ("added-records", facts.added_rows))
    short = [
        (name, count, held)
        for name, held in pairs
        if (count := count_of(snapshot, name)) is not None and held is not None and count > held
    ]
    if short:
        words = ", ".join(f"{name} {count:,}, but its manifests have {held:,}" for name, count, held in short)
        missing = {name: count - held for name, count, held in short}
        stake = Stake(missing.get("added-data-files"), missing.get("added-records"))
        yield _witness(read, UNMET_COUNTS, snapshot, f"snapshot {snapshot.id} counts {words}", stake)


def _of_pair(
    read: TableReading, snapshot: Snapshot, facts: Mapping[int, ListFacts], snapshots: Mapping[int, Snapshot]
) -> Iterator[Witness]:
    """Compare a snapshot with its parent."""
    removed = next((each for each in facts[snapshot.id].removed if each.other == snapshot.parent), None)
    parent = snapshots.get(snapshot.parent) if snapshot.parent is not None else None
    if removed is None or parent is None:
        return
    operation = snapshot.summary.get("operation", "")
    if operation == "append" and removed.files is not None and removed.files > 0:
        words = (
            f"snapshot {snapshot.id} is an append, but does not list {number(removed.files, 'data file')} of "
            "its parent "
            f"{parent.id}"
        )
        yield _witness(read, DROPPED_BY_APPEND, snapshot, words, Stake(removed.files, removed.rows))
    elif operation == "replace" and parent.id in facts:
        yield from _changed_rows(read, snapshot, parent, facts)
    elif operation == "overwrite":
        yield from _idle(read, snapshot, parent, removed)


def _changed_rows(
    read: TableReading, snapshot: Snapshot, parent: Snapshot, facts: Mapping[int, ListFacts]
) -> Iterator[Witness]:
    """Yield a rewrite that lost other rows than those that delete files have deleted."""
    before, after = facts[parent.id].rows, facts[snapshot.id].rows
    if before is None or after is None or after == before:
        return
    deleted, by_value = (count_of(parent, f"total-{kind}-deletes") for kind in ("position", "equality"))
    if after < before and (deleted is None or by_value != 0 or before - after <= deleted):
        return
    words = f"snapshot {snapshot.id} is a `replace` and has {after:,} rows; its parent {parent.id} has {before:,} rows"
    yield _witness(read, CHANGED_ROWS, snapshot, words, Stake(None, abs(after - before)))


def _idle(
    read: TableReading, snapshot: Snapshot, parent: Snapshot, removed: RemovedFiles
) -> Iterator[Witness]:
    """Yield an overwrite that counts more removed files than its list lacks: readers get both, old and new rows."""
    count = count_of(snapshot, "deleted-data-files")
    if count is None or removed.files is None or count <= removed.files:
        return
    rows = count_of(snapshot, "deleted-records")
    again = None if rows is None or removed.rows is None else rows - removed.rows
    stake = Stake(count - removed.files, again)
    about = (
        f"snapshot {snapshot.id} says that it replaces {count:,} data files, but it leaves out only "
        f"{removed.files:,} files of its "
        "parent"
    )
    if parent.summary.get("operation") == "overwrite" and count_of(parent, "deleted-data-files") == count:
        words = f"{about}; its parent {parent.id} replaced the same number of files"
        yield _witness(read, RIVAL_OVERWRITES, snapshot, words, stake)
    else:
        yield _witness(read, IDLE_REMOVAL, snapshot, about, stake)


def _lost_current(read: TableReading, snapshots: Mapping[int, Snapshot]) -> Iterator[Witness]:
    """Yield a metadata.json without a current snapshot that was written when main was set to one."""
    file = read.found.file
    if read.metadata.lost_current is None or file is None:
        return
    main = snapshots[read.metadata.lost_current]
    words = (
        f"{file.place.uri} was written when main was set to snapshot {main.id}, as the last entry of its snapshot-log "
        "shows, but names no current snapshot: query engines read an empty table"
    )
    stake = Stake(count_of(main, "total-data-files"), count_of(main, "total-records"))
    number = number_of(file.name)
    yield Witness(read.name, DROPPED_BY_APPEND, (CONTENT,), file.place.uri, words, number, stake)


def _lost_updates(
    read: TableReading, facts: Mapping[int, ListFacts], snapshots: Mapping[int, Snapshot]
) -> Iterator[Witness]:
    """Yield states of main that were not built on the state before, without a rollback between them."""
    for older, younger in read.metadata.lost_updates:
        listed = facts.get(younger)
        removed = next((each for each in listed.removed if each.other == older), None) if listed else None
        one, other = snapshots[older], snapshots[younger]
        words = (
            f"snapshot {younger} follows snapshot {older} in the table's log, but snapshot {older} is not "
            "its parent"
        )
        if removed is not None and removed.files == 0:
            if {each.summary.get("operation") for each in (one, other)} == {"overwrite"}:
                yield _witness(read, RIVAL_OVERWRITES, other, f"{words}; the files of both are listed")
            continue
        stake = Stake(removed.files, removed.rows) if removed else Stake()
        yield _witness(read, DROPPED_BY_APPEND, other, words, stake)


def _repeated_manifests(read: TableReading, snapshot: Snapshot, facts: ListFacts) -> Iterator[Witness]:
    """Yield a list of a branch or tag that names a manifest twice."""
    if snapshot.heads and facts.repeated:
        named = ", ".join(path.rpartition("/")[2] for path in facts.repeated[:3])
        words = (
            f"the list of snapshot {snapshot.id} names {number(len(facts.repeated), 'manifest')} more than "
            f"once: {named}"
        )
        yield _witness(read, REPEATED_MANIFEST, snapshot, words)


def _replaced_manifests(read: TableReading) -> Iterator[Witness]:
    for problem in read.problems:
        if problem.replaced:
            words = f"the manifest {problem.subject} is not the manifest that the manifest list names: {problem.reason}"
            yield Witness(read.name, REPLACED_STATE, (CONTENT,), problem.subject, words)


def _witness(
    read: TableReading, claim: str, snapshot: Snapshot, words: str, stake: Stake | None = None
) -> Witness:
    subject = snapshot.list_path or read.found.table.location.uri
    return Witness(read.name, claim, (CONTENT,), subject, words, stake=stake or Stake())


def count_of(snapshot: Snapshot, name: str) -> int | None:
    """Return a count of a summary; writers leave zeros out, but not the totals. None if it has no such count."""
    text = snapshot.summary.get(name, "")
    if not text and "total-data-files" in snapshot.summary and not name.startswith("total-data"):
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else None

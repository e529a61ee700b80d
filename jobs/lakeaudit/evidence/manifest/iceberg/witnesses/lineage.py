"""Find witnesses against Iceberg tables: files other than the current metadata.json that name a state of the table.

Numbers of metadata.json files grow from commit to commit, also by a rollback, which makes a new file of an old
snapshot. Only a witness that contradicts the state costs a request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import CLOCK_STEP, File, stat
from lakeaudit.evidence.lineage import (
    CATALOG,
    DROPPED_BY_APPEND,
    HINT,
    LAGGING_HINT,
    LAST_AUDIT,
    LOST_STATE,
    MANIFESTS,
    METADATA,
    REPLACED_STATE,
    RIVAL_LINE,
    TWO_LINES,
    LastState,
    LastStates,
    StateRef,
    Witness,
    with_moved,
)
from lakeaudit.evidence.manifest.iceberg.current.folder import Hint, snapshot_of
from lakeaudit.evidence.manifest.iceberg.current.foreign import foreign_state
from lakeaudit.evidence.manifest.iceberg.current.lines import contested_commits, descends, logged_names
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import LocatedMetadata
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata, number_of
from lakeaudit.evidence.manifest.iceberg.witnesses.counterparts import lag_witnesses
from lakeaudit.evidence.rewritten_files import is_rewritten, rewritten_words
from lakeaudit.formatting import iso, number
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

KIND = "iceberg"
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")


def state_of(found: LocatedMetadata) -> StateRef | None:
    """Return the state that was read."""
    file, metadata = found.file, found.metadata
    if file is None or metadata is None:
        return None
    named = (number_of(file.name), file.name, metadata.uuid)
    return StateRef(*named, file.modified_at, file.etag or "", file.place.uri)


def witnesses(
    found: Sequence[LocatedMetadata], last: LastStates, clients: Clients, *, live: bool
) -> tuple[Witness, ...]:
    """Return the witnesses that contradict the states of these tables; `live`: they were read as they are now."""
    rivals = [
        Witness(each.table.name, TWO_LINES, (CATALOG,), each.table.location.uri, each.two_lines)
        for each in found
        if each.two_lines
    ]
    last = with_moved(last, KIND, ((each.table.name, state_of(each)) for each in found))
    return tuple(rivals) + tuple(
        witness
        for each in found
        if each.metadata is not None and each.file is not None
        for witness in _of_table(_Read(each, each.file, each.metadata), last, clients, live)
    )


class _Read:
    """Holds a table's state: its file, and the content of the file."""

    def __init__(self, found: LocatedMetadata, file: File, metadata: Metadata) -> None:
        self.found, self.file, self.metadata = found, file, metadata
        self.name = found.table.name
        self.number = number_of(file.name) or 0
        self.folder = Location(file.place.bucket, file.place.key.rpartition("/")[0])

    @property
    def began_at(self) -> datetime:
        """Return the earliest time that the metadata names for the table."""
        times = (when for _, when in self.metadata.old_files)
        return min([self.metadata.updated_at, *times, *(each.at for each in self.metadata.snapshots)])

    @property
    def lies_here_since(self) -> datetime:
        """Return when the oldest file of the table's line in its folder was written."""
        folder, line = self.found.folder, logged_names(self.metadata)
        states = folder.states if folder else ()
        return min([self.file.modified_at, *(each.modified_at for each in states if each.name in line)])

    def descends(self, state: StateRef) -> bool:
        """Return whether it is that state, or came after it as far as its log shows."""
        return descends(self.file, self.metadata, state.name, state.number or 0)


def _of_table(read: _Read, last: LastStates, clients: Clients, live: bool) -> Iterator[Witness]:
    known = last.get((KIND, read.name))
    if foreign := foreign_state(read.found, known, clients):
        yield foreign
        return
    if known is not None and known.is_of(read.found.table.location.uri, read.metadata.uuid):
        yield from _against_last(read, known, clients)
    if read.found.doubt:
        rival = Witness(read.name, RIVAL_LINE, (METADATA,), read.file.place.uri, read.found.doubt)
        yield replace(rival, contested=contested_commits(read.file, read.metadata, read.found.others))
    if live:
        yield from _by_hint(read, clients)
        yield from _by_newer_files(read)
        yield from _by_previous(read, clients)
        yield from _by_lists(read)
        yield from lag_witnesses(read.found, clients)


def _against_last(read: _Read, last: LastState, clients: Clients) -> Iterator[Witness]:
    """Compare the state with those that earlier audits read of the table, or reported as lost."""
    location = read.found.table.location.uri
    if last.was_moved(location, read.metadata.uuid):
        yield from _against_moved(read, last, clients)
        return
    yield from _against(read, last.state, last.description(location), last.as_of, clients)
    for lost in last.lost:
        known = f"the audit of {iso(lost.reported_at)} reported it as lost"
        yield from _against(read, lost.state, known, lost.reported_at, clients)


def _against_moved(read: _Read, last: LastState, clients: Clients) -> Iterator[Witness]:
    """Compare a table that was moved: its files are copies, whose times and paths prove nothing."""
    number = last.state.number
    if number is not None and read.number < number and not read.descends(last.state):
        yield _lost_state(read, last.state, last.description(read.found.table.location.uri), clients)


def _against(read: _Read, state: StateRef, known: str, at: datetime, clients: Clients) -> Iterator[Witness]:
    """Compare the state with one that existed."""
    if state.number is None:
        return
    if state.table_id and read.metadata.uuid and state.table_id != read.metadata.uuid:
        yield from _against_other_table(read, state, known, clients)
    elif state.name == read.file.name:
        rewritten = is_rewritten(clients, read.file, state.etag, state.written_at)
        if rewritten is not False:
            words = f"{rewritten_words(read.file.place.uri, surely=bool(rewritten))}: {known}"
            about = (read.name, read.file.place.uri, state.number)
            yield _witness(about, REPLACED_STATE if rewritten else RIVAL_LINE, words)
    elif not read.descends(state) and not _lost_its_race(read, state, at):
        yield _lost_state(read, state, known, clients)


def _against_other_table(read: _Read, state: StateRef, known: str, clients: Clients) -> Iterator[Witness]:
    """Compare the state with one of another table, which proves nothing about a table that began later.

    A table that began earlier is one that the lost table had replaced. If its files are younger, they may be a copy.
    """
    if state.written_at is None or read.began_at > state.written_at:
        return
    place = read.folder.join(state.name)
    about = (read.name, place.uri, state.number or 0)
    words = f"{known}, but now the metadata file is {read.file.name} of another, older table ({read.metadata.uuid})"
    try:
        there = stat(clients, place) is not None
    except SourceError as error:
        yield _witness(about, RIVAL_LINE, f"{words}; {error}")
        return
    if there:
        yield _witness(about, RIVAL_LINE, f"{place.uri} exists: {words}")
    else:
        claim = LOST_STATE if read.lies_here_since <= state.written_at else RIVAL_LINE
        yield _witness(about, claim, f"{state.name} is missing: {words}")


def _lost_its_race(read: _Read, state: StateRef, at: datetime) -> bool:
    """Return whether another commit had the state's number already when it was read."""
    same = (when for path, when in read.metadata.old_files if number_of(_name(path)) == state.number)
    return any(when <= at for when in same)


def _lost_state(read: _Read, state: StateRef, known: str, clients: Clients) -> Witness:
    """Return the witness of a state that is not an ancestor of the one that was read."""
    place, number = read.folder.join(state.name), state.number or 0
    about = (read.name, place.uri, number)
    now = (
        f"{read.found.called} points at {read.file.name}"
        if read.found.called
        else f"the newest metadata file is {read.file.name}"
    )
    try:
        there = stat(clients, place) is not None
    except SourceError as error:
        return _witness(about, RIVAL_LINE, f"{known}, and now {now}; {error}")
    if not there:
        return _witness(about, LOST_STATE, f"{state.name} is missing: {known}, and now {now}")
    if not read.found.called and not read.found.named:
        return _witness(
            about, RIVAL_LINE, f"{known}, but {now}, which does not name {state.name} as an earlier version"
        )
    if read.number < number:
        return _witness(about, LOST_STATE, f"{now}, but {state.name} exists and is newer: {known}")
    return _witness(
        about, DROPPED_BY_APPEND, f"{now}, which does not name {state.name} as an earlier version: {known}"
    )


def _witness(about: tuple[str, str, int], claim: str, words: str) -> Witness:
    table, subject, number = about
    return Witness(table, claim, (LAST_AUDIT,), subject, words, number)


def _hinted(hint: Hint) -> str:
    return f"`version-hint.text` names {hint.name or f'version {hint.number}'} as the newest"


def _by_hint(read: _Read, clients: Clients) -> Iterator[Witness]:
    hint = read.found.folder.hint if read.found.folder else None
    if hint is None or hint.number == read.number:
        return
    words = f"{_hinted(hint)}, but the newest metadata.json is {read.file.name}"
    if hint.number > read.number:
        names = [hint.name] if hint.name else [f"v{hint.number}{suffix}" for suffix in _SUFFIXES]
        places = [read.folder.join(name) for name in names]
        claim = _claim_by_hint(places, read, clients)
        if claim:
            yield Witness(read.name, claim, (HINT,), places[0].uri, words, hint.number)
    elif read.file.modified_at + read.found.table.settings.grace <= read.found.read_at:
        yield Witness(read.name, LAGGING_HINT, (HINT,), hint.file.place.uri, words, hint.number)


def why_behind(found: LocatedMetadata, clients: Clients) -> str | None:
    """Return why the state is not the newest one; the next state is requested by name and not from a listing.

    The names of states that a catalog writes hold a random part; for those the catalog itself is queried.
    """
    file = found.file
    number = number_of(file.name) if file else None
    if file is None or number is None or found.called:
        return None
    hint = found.folder.hint if found.folder else None
    if hint is not None and hint.number > number:
        return f"{_hinted(hint)}, but the newest listed file is {file.name}"
    if not file.name.startswith("v"):
        return None
    folder = Location(file.place.bucket, file.place.key.rpartition("/")[0])
    nexts = [folder.join(f"v{number + 1}{suffix}") for suffix in _SUFFIXES]
    there = next((place for place in nexts if stat(clients, place) is not None), None)
    return None if there is None else f"{there.uri} exists, but the listing does not have it"


def _claim_by_hint(places: Sequence[Location], read: _Read, clients: Clients) -> str:
    """Judge a hint that names a newer state: no claim if that was made after the folder was listed."""
    try:
        there = next((file for place in places if (file := stat(clients, place))), None)
    except SourceError:
        return RIVAL_LINE
    if there is None:
        return LOST_STATE
    return "" if there.modified_at >= read.found.read_at - CLOCK_STEP else RIVAL_LINE


def _by_newer_files(read: _Read) -> Iterator[Witness]:
    """Yield files that two commits built on the one that a catalog names: nobody builds on a failed commit."""
    for file, content in newer_files(read.found):
        if len([name for name in logged_names(content) if (number_of(name) or 0) >= read.number]) > 1:
            words = (
                f"{file.place.uri} was built on {read.file.name}, but {read.found.called} still points at "
                f"{read.file.name}"
            )
            yield Witness(read.name, RIVAL_LINE, (METADATA,), file.place.uri, words, number_of(file.name))


def _by_previous(read: _Read, clients: Clients) -> Iterator[Witness]:
    """Yield a catalog that points below the state at which it pointed before, if the table's log does not name that."""
    for uri in read.found.previous:
        name = _name(uri)
        number, place = number_of(name), place_of(uri, clients.names)
        if number is None or place is None or number <= read.number or name in logged_names(read.metadata):
            continue
        words = f"{read.found.called} points at {read.file.name}, but pointed at the newer {uri} before"
        yield Witness(read.name, LOST_STATE, (CATALOG,), place.uri, words, number)


def newer_files(found: LocatedMetadata) -> list[tuple[File, Metadata]]:
    """Return the files of the table with a higher number than the one that a catalog names."""
    if found.file is None or found.metadata is None or not found.called:
        return []
    number, uuid = number_of(found.file.name) or 0, found.metadata.uuid
    return [
        (file, content)
        for file, content in found.others
        if isinstance(content, Metadata) and content.uuid == uuid and (number_of(file.name) or 0) > number
    ]


def why_unfinished(found: LocatedMetadata) -> str | None:
    """Return why unlisted files may belong to a commit: something is newer than the state that a catalog names."""
    if newer := newer_files(found):
        return (
            f"{newer[0][0].place.uri} is newer than {_of(found)}, but {found.called} points at {_of(found)}"
        )
    younger = _younger_lists(found) if found.called else []
    return _words_of_lists(found, younger) if younger else None


def _by_lists(read: _Read) -> Iterator[Witness]:
    """Yield manifest lists that no metadata.json names, if no catalog names the current state."""
    younger = [] if read.found.called else _younger_lists(read.found)
    if younger:
        words = _words_of_lists(read.found, younger)
        yield Witness(read.name, LOST_STATE, (MANIFESTS,), younger[0].place.uri, words)


def _younger_lists(found: LocatedMetadata) -> list[File]:
    """Return manifest lists that are younger than the state, for snapshots that it does not name; the oldest first.

    A commit writes its list before its metadata.json, so one that is younger than the grace may still be under way.
    """
    if found.folder is None or found.file is None or found.metadata is None:
        return []
    known = {snapshot.id for snapshot in found.metadata.snapshots}
    begin, end = found.file.modified_at, found.read_at - found.table.settings.grace
    younger = [file for file in found.folder.lists if begin < file.modified_at <= end]
    unknown = [file for file in younger if snapshot_of(file.name) not in known]
    return sorted(unknown, key=lambda file: (file.modified_at, file.name))


def _words_of_lists(found: LocatedMetadata, lists: Sequence[File]) -> str:
    return (
        f"{number(len(lists), 'manifest list')} younger than {_of(found)} with snapshots that this file "
        "does not name, such as "
        f"{lists[0].place.uri}: these come from a failed commit or from a lost version of the table"
    )


def _of(found: LocatedMetadata) -> str:
    return "" if found.file is None else found.file.name


def _name(path: str) -> str:
    return path.rpartition("/")[2]

"""Find witnesses against Delta tables: files other than the newest commit that name a version of the same table.

Versions only grow, so a version above the newest one in the log is lost. Only a witness that contradicts the log costs
a request.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import CLOCK_STEP, read_bytes, stat
from lakeaudit.evidence.lineage import (
    ARCHIVED,
    BROKEN_HINT,
    CHECKPOINT,
    CHECKSUM,
    CONTENT,
    HINT,
    LAST_AUDIT,
    LOST_STATE,
    NOT_KNOWN,
    REPLACED_STATE,
    RIVAL_LINE,
    TORN,
    UNMET_COUNTS,
    LastState,
    LastStates,
    StateRef,
    Witness,
    with_moved,
)
from lakeaudit.evidence.manifest.delta.log.checksums import counts
from lakeaudit.evidence.manifest.delta.log.metadata import NO_ACTION
from lakeaudit.evidence.manifest.delta.state.readings import Reading
from lakeaudit.evidence.manifest.delta.witnesses.commit_counts import UNMET, words_of_commit
from lakeaudit.evidence.manifest.delta.witnesses.counterparts import lag_witnesses
from lakeaudit.evidence.rewritten_files import is_rewritten, rewritten_words
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import ARCHIVED as ARCHIVED_WORDS

KIND = "delta"


def state_of(reading: Reading) -> StateRef | None:
    """Return the state that was read."""
    log, newest = reading.log, reading.log.newest
    if reading.plan is None or newest is None:
        return None
    place = log.commit_place(newest)
    name = place.key.rpartition("/")[2]
    return StateRef(newest, name, table_id(reading), log.commits.written_at(newest), log.etag, place.uri)


def missing_of(reading: Reading, refused: str) -> str:
    """Return why nobody can read a state of the table; empty if only this audit cannot read it."""
    if reading.listed.missing or reading.listed.log is None:
        return reading.listed.missing
    if ARCHIVED_WORDS in refused:
        return ARCHIVED
    return TORN if reading.refused is None and (reading.plan is None or not reading.state) else ""


def table_id(reading: Reading) -> str:
    """Return `metaData.id` of the state that was read; empty if it cannot be understood."""
    try:
        number = json.loads(reading.state.get("metaData", "{}")).get("id")
    except NO_ACTION:
        return ""
    return number if isinstance(number, str) else ""


def witnesses(
    readings: Sequence[Reading], last: LastStates, clients: Clients, graces: Mapping[str, timedelta] | None
) -> tuple[Witness, ...]:
    """Return the witnesses that contradict the newest versions of these tables.

    `graces` of the tables are passed if their logs were read as they are now.
    """
    last = with_moved(last, KIND, ((each.listed.name, state_of(each)) for each in readings))
    return tuple(
        witness
        for reading in readings
        if reading.plan is not None and reading.refused is None and reading.log.newest is not None
        for witness in _of_table(reading, last.get((KIND, reading.listed.name)), clients, graces)
    )


def _of_table(
    reading: Reading, last: LastState | None, clients: Clients, graces: Mapping[str, timedelta] | None
) -> Iterator[Witness]:
    yield from _by_counts(reading)
    if last is not None and last.is_of(reading.listed.location.uri, table_id(reading)):
        yield from _against_last(reading, last, clients)
    if graces is not None:
        yield from lag_witnesses(reading, clients, graces[reading.listed.name])
        for witness in (*_by_hint(reading), *_by_checksum(reading, clients), *_by_compaction(reading)):
            if confirmed := _confirm(witness, reading, clients):
                yield confirmed


def _by_counts(reading: Reading) -> Iterator[Witness]:
    """Yield the commits that hold less than their writers counted in them."""
    for version, place, why in reading.torn:
        if why.startswith(UNMET):
            words, lacks = words_of_commit(version, why), reading.lacks.get(version, NOT_KNOWN)
            yield Witness(reading.listed.name, UNMET_COUNTS, (CONTENT,), place.uri, words, version, lacks)


def _against_last(reading: Reading, last: LastState, clients: Clients) -> Iterator[Witness]:
    """Compare the log with the versions that earlier audits read or reported as lost."""
    location, known = reading.listed.location.uri, last.description(reading.listed.location.uri)
    if last.was_moved(location, table_id(reading)):
        yield from _against_moved(reading, last.state, known)
        return
    yield from _against(
        reading, last.state, known, _is_recreated(reading, last.state, last, last.as_of), clients
    )
    for lost in last.lost:
        recreated = _is_recreated(reading, lost.state, last, lost.reported_at)
        yield from _against(reading, lost.state, lost.description, recreated, clients)


def _against_moved(reading: Reading, state: StateRef, known: str) -> Iterator[Witness]:
    """Compare a log that was moved: its files are copies, whose times prove nothing."""
    newest, number = reading.log.newest, state.number
    if newest is not None and number is not None and newest < number:
        subject = reading.log.commit_place(number).uri
        words = f"version {number} of the table is missing: {known}, but the newest version now is {newest}"
        yield Witness(reading.listed.name, LOST_STATE, (LAST_AUDIT,), subject, words, number)


def _against(
    reading: Reading, state: StateRef, known: str, recreated: bool | None, clients: Clients
) -> Iterator[Witness]:
    """Compare the log with one version that existed; `recreated` None: unknown, so that the witness is a doubt."""
    newest, number = reading.log.newest, state.number
    if newest is None or number is None:
        return
    if newest < number:
        claim, words = (
            LOST_STATE,
            f"version {number} of the table is missing: {known}, but the newest version now is {newest}",
        )
    else:
        rewritten = False if recreated else _is_rewritten(reading, state, clients)
        if rewritten is False:
            return
        words = f"{rewritten_words(f'commit {number}', surely=bool(rewritten))}: {known}"
        claim = REPLACED_STATE if rewritten else RIVAL_LINE
    if recreated is None:
        claim = RIVAL_LINE
        words += "; the table has another id now, and it is unknown whether the table was created again"
    subject = reading.log.commit_place(number).uri
    yield Witness(
        reading.listed.name, claim, (LAST_AUDIT,), subject, words, number, recreated=bool(recreated)
    )


def _is_recreated(reading: Reading, was: StateRef, last: LastState, at: datetime) -> bool | None:
    """Return whether the table was created again since a state: its log begins after that. None if it is unknown.

    A new id alone does not show it: CREATE OR REPLACE gives the next version of the same log another id, and if that
    version is lost, the log ends with the old id. A log whose first commit is newer may be a copy of an earlier one, if
    an audit has read its id before; one without a first commit may have been cleaned up.
    """
    now, known = table_id(reading), was.table_id or last.state.table_id
    if known and known == now:
        return False
    first = reading.log.commits.written_at(0)
    begin = first or reading.log.since
    if begin is not None and begin <= (was.written_at or at):
        return False
    return None if first is None or now in {*last.former_ids, last.state.table_id} - {was.table_id} else True


def _is_rewritten(reading: Reading, was: StateRef, clients: Clients) -> bool | None:
    """Return whether a commit's file has other content than before; a request is sent only if its time differs.

    None: this is unknown. A commit of which only the number is known has other content if a version of it was reported
    as lost.
    """
    number, log = was.number or 0, reading.log
    now = log.commits.written_at(number)
    if now is None or (was.written_at is not None and abs(now - was.written_at) < CLOCK_STEP) or not was.etag:
        return False
    if number == log.newest and log.etag == was.etag:
        return False
    try:
        there = stat(clients, log.commit_place(number))
    except SourceError:
        return None
    return False if there is None else is_rewritten(clients, there, was.etag, was.written_at)


def _by_hint(reading: Reading) -> Iterator[Witness]:
    hint, log = reading.listed.hint, reading.log
    if hint is None or log.newest is None:
        return
    name, at = reading.listed.name, hint.place.uri
    do = "delete the hint: query engines then list the log"
    if hint.version is None:
        words = f"`_last_checkpoint` {hint.problem}, and query engines that use this hint cannot open the table; {do}"
        yield Witness(name, BROKEN_HINT, (HINT,), at, words)
    elif hint.version > log.newest:
        words = f"`_last_checkpoint` names version {hint.version}, but the newest version in the log is {log.newest}"
        yield Witness(name, LOST_STATE, (HINT,), log.commit_place(hint.version).uri, words, hint.version)
    elif not _names_a_checkpoint(reading, hint.version):
        words = (
            f"`_last_checkpoint` names the checkpoint of version {hint.version}, which is missing or lacks a part; "
            f"query engines that use this hint cannot open the table; {do}"
        )
        yield Witness(name, BROKEN_HINT, (HINT,), at, words, hint.version)


def _names_a_checkpoint(reading: Reading, version: int) -> bool:
    return any(point.version == version for point in reading.log.checkpoints.up_to(version)[-1:])


def _by_checksum(reading: Reading, clients: Clients) -> Iterator[Witness]:
    """Yield a checksum above the newest version: it is written after its commit, so that version is lost."""
    log = reading.log
    if log.newest is None or log.checksum is None or log.checksum <= log.newest:
        return
    place = log.folder.join(f"{log.checksum:020}.crc")
    words = (
        f"{place.uri} is the checksum file of version {log.checksum}{_checksum_counts(place, clients)}; "
        f"but the newest version in the log is {log.newest}"
    )
    lost = log.commit_place(log.checksum).uri
    yield Witness(reading.listed.name, LOST_STATE, (CHECKSUM,), lost, words, log.checksum)


def _checksum_counts(place: Location, clients: Clients) -> str:
    """Describe the counts of a checksum; empty if it cannot be read."""
    try:
        files, size = counts(read_bytes(clients, place) or b"")
    except SourceError:
        return ""
    in_bytes = "" if size is None else f" and {size:,} bytes"
    return "" if files is None else f" (the table has {files:,} files{in_bytes} in this version)"


def _by_compaction(reading: Reading) -> Iterator[Witness]:
    log = reading.log
    if log.newest is None or log.compacted is None or log.compacted <= log.newest:
        return
    words = f"a log compaction contains version {log.compacted}, but the newest version in the log is {log.newest}"
    yield Witness(
        reading.listed.name,
        LOST_STATE,
        (CHECKPOINT,),
        log.commit_place(log.compacted).uri,
        words,
        log.compacted,
    )


def _confirm(witness: Witness, reading: Reading, clients: Clients) -> Witness | None:
    """Return the witness of a lost state if its commit is missing by name, too; None if it is newer than the listing.

    If the commit exists and is older, the listing left it out, and the state that was read is not the newest one.
    """
    if witness.claim != LOST_STATE:
        return witness
    place = reading.log.commit_place(witness.number or 0)
    try:
        there = stat(clients, place)
    except SourceError as error:
        return replace(witness, claim=RIVAL_LINE, words=f"{witness.words}; {error}")
    if there is None:
        return witness
    if there.modified_at >= reading.listed.read_at - CLOCK_STEP:
        return None
    words = f"{witness.words}, but {place.uri} exists: the listing of the log does not have it"
    return replace(witness, claim=RIVAL_LINE, words=words)

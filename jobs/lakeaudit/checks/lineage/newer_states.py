"""Find states newer than those that were read: delete markers hide them, or a report lists them and they are gone."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeaudit.checks.lineage.older_versions import by_root
from lakeaudit.collect.evidence import Evidence
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.evidence.files import stat
from lakeaudit.evidence.kind import StateFiles
from lakeaudit.evidence.lineage import (
    LOST_STATE,
    MARKER,
    METADATA,
    REPORT,
    RIVAL_LINE,
    LastState,
    StateRef,
    Witness,
)
from lakeaudit.evidence.protocol import Claims, TableState
from lakeaudit.formatting import iso
from lakeaudit.keys import Location, identify, uri_of
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time

MOST_CHECKED = 200
"""Files of newer states whose presence is checked in one run; whether the others are gone is not known."""
Row = Mapping[str, Any]
"""A row of MARKED_STATE."""


def newer_states(evidence: Evidence, marked: Sequence[Row]) -> Iterator[Witness]:
    """Yield witnesses of states of the tables in scope that are newer than the one that was read.

    Args:
        evidence: the evidence of the run.
        marked: MARKED_STATE rows.
    """
    rows, look = by_root(marked), _Presence(evidence.context.clients, live=evidence.context.live)
    tables_at = Counter(table.location for table in evidence.lake.tables) if rows else Counter[Location]()
    for read in evidence.observed.sources.claims:
        for fact in evidence.facts_in_scope:
            name, place = fact.table.name, fact.table.location
            last = evidence.context.last_states.get((read.info.kind, name))
            states = rows.get((read.info.kind, place.bucket, place.prefix), ())
            yield from states_above(read, name, states, last, look, shared=tables_at[place] > 1)


def newer_states_of_others(
    read: Claims, places: Mapping[str, Location], marked: Sequence[Row], clients: Clients, *, live: bool
) -> Iterator[Witness]:
    """Yield witnesses of newer states of tables that are only read as other listers; `places` has their locations."""
    rows, look = by_root(marked), _Presence(clients, live=live)
    for name, place in places.items():
        states = rows.get((read.info.kind, place.bucket, place.prefix), ())
        yield from states_above(read, name, states, None, look, shared=False)


class _Presence:
    """Checks whether files exist now, with one request each and at most `MOST_CHECKED` requests.

    `live`: the audit reads the current states.
    """

    def __init__(self, clients: Clients, *, live: bool) -> None:
        self.clients, self.live, self._left = clients, live, MOST_CHECKED

    def is_gone(self, place: Location) -> bool | None:
        """Return whether the file is gone; None if that is not known."""
        if self._left <= 0:
            return None
        self._left -= 1
        try:
            return stat(self.clients, place) is None
        except SourceError:
            return None


def states_above(
    read: Claims, table: str, rows: Sequence[Row], last: LastState | None, look: _Presence, *, shared: bool
) -> Iterator[Witness]:
    """Yield witnesses of newer states of one table from the MARKED_STATE rows of its root.

    `shared`: several tables have this root, so a state may belong to another one.
    """
    state = read.states.get(table)
    if state is None or state.state is None or state.state.number is None:
        return
    above = [row for row in rows if row["number"] > state.state.number]
    for row in above:
        if row["marked_at"] is not None:
            yield _by_content(look.clients, read, state, _marked_state(table, state, row, last), last)
    files = registry.state_files().get(read.info.kind)
    if files is not None and (look.live or not files.may_be_rolled_back):
        yield from _reported_states(_Read(files, table, state, last, shared), above, look)


def _marked_state(table: str, state: TableState, row: Mapping[str, Any], last: LastState | None) -> Witness:
    return Witness(
        table,
        LOST_STATE,
        (MARKER,),
        uri_of(row["bucket"], row["key"]),
        f"the file of table version {row['number']} was deleted at {iso(row['marked_at'])}, as its delete marker shows",
        row["number"],
        recreated=_is_recreated(state, last.state if last else None) or _began_later(state, row),
        explained=row["number"] in state.taken_back,
        version_id=row["version_id"],
    )


def _began_later(state: TableState, row: Mapping[str, Any]) -> bool:
    """Return whether the log began after the deletion, or all its files are younger than the deleted one."""
    log, files = plain_time(state.log_since), plain_time(state.began_at)
    written = row["modified_at"] or row["marked_at"]
    return (log is not None and row["marked_at"] <= log) or (files is not None and written < files)


def _is_recreated(state: TableState, was: StateRef | None) -> bool:
    """Return whether the table was created again after an audit read it.

    A table with another id that began earlier is the one that the lost state had replaced.
    """
    if was is None or state.state is None:
        return False
    ids = {each.table_id for each in (state.state, was)} - {""}
    begin = state.log_since or state.state.written_at
    return len(ids) > 1 and (begin is None or was.written_at is None or begin > was.written_at)


def _audited_with(table_id: str, last: LastState | None) -> StateRef | None:
    """Return the state with this table id that an audit has read, or reported as lost."""
    states = () if last is None else (last.state, *(each.state for each in last.lost))
    return next((each for each in states if each.table_id == table_id), None)


def _by_content(
    clients: Clients, read: Claims, state: TableState, marked: Witness, last: LastState | None
) -> Witness:
    """Return the witness with the content of the file's older version, if the reader of the format can read it.

    A version never changes, so an audit of the past reads it, too.
    """
    place, version = identify(marked.subject), marked.version_id
    if read.lost_content is None or place is None or version is None:
        return marked
    try:
        content = read.lost_content(Location(*place), version, clients)
    except SourceError:
        return marked
    if content is None or state.state is None:
        return marked
    other = bool(content.table_id and state.state.table_id and content.table_id != state.state.table_id)
    if other and (audited := _audited_with(content.table_id, last)):
        other = _is_recreated(state, audited)
    evidence = (METADATA,) if content.undone else marked.evidence
    return replace(
        marked,
        recreated=marked.recreated or other,
        evidence=evidence,
        stake=content.stake,
        sample=content.sample,
    )


@dataclass(frozen=True)
class _Read:
    """The state of a table that was read in one format, and the state that the last audit read."""

    files: StateFiles
    table: str
    state: TableState
    last: LastState | None
    shared: bool


def _reported_states(read: _Read, rows: Sequence[Row], look: _Presence) -> Iterator[Witness]:
    """Yield witnesses of states that a report of storage lists as current and whose files are gone.

    A file that was written after the log was read, or that still exists, belongs to a later commit.
    """
    before = plain_time(read.state.read_at)
    listed = [row for row in rows if row["marked_at"] is None and row["modified_at"] < before]
    known = {(row["bucket"], row["key"]): look.is_gone(Location(row["bucket"], row["key"])) for row in listed}
    listed = [row for row in listed if known[row["bucket"], row["key"]] is not False]
    numbers = {row["number"] for row in listed}
    for row in listed:
        gone = known[row["bucket"], row["key"]] is True
        proved = gone and (not read.files.may_lose_races or len(numbers) > 1) and not read.shared
        yield _of_report(read, row, gone=gone, proved=proved)


def _of_report(read: _Read, row: Row, *, gone: bool, proved: bool) -> Witness:
    now = "the file is missing" if gone else "it is unknown whether the file exists"
    words = (
        f"a report of storage lists the file of table version {row['number']}, written at "
        f"{iso(row['modified_at'])}; now {now}"
    )
    claim = LOST_STATE if gone else RIVAL_LINE
    evidence = (REPORT if proved else METADATA,)
    return Witness(
        read.table,
        claim,
        evidence,
        uri_of(row["bucket"], row["key"]),
        words,
        row["number"],
        recreated=_is_of_an_older_table(read, row),
        explained=row["number"] in read.state.taken_back,
    )


def _is_of_an_older_table(read: _Read, row: Row) -> bool:
    """Return whether the table was created again after the state was written, so that its numbers restarted.

    A copied log is as new as the log of a table that was created again; the id that an earlier audit read distinguishes
    the two.
    """
    state = read.state.state
    since = read.state.log_since or read.state.began_at
    if since is None and state is not None and not read.files.have_own_times:
        since = state.written_at
    if since is None or row["modified_at"] >= plain_time(since):
        return False
    if state is None or read.last is None or not state.table_id or read.last.as_of >= since:
        return True
    return read.last.state.table_id != state.table_id

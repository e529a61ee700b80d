"""Store the states of tables that published audits have read, with which the next audit compares its states.

A lost state stays on record until it is back or can no longer be checked, so that the next audit still reports it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lakeaudit import __version__
from lakeaudit.config import Table
from lakeaudit.evidence.lineage import FOREIGN_STATE, LESS_LISTED, LastState, LastStates, LostState, StateRef
from lakeaudit.evidence.protocol import Claims
from lakeaudit.evidence.registry import formats
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.findings.lineage import JudgedWitness
from lakeaudit.results.read import PUBLISHED, Results

Row = dict[str, Any]


STATELESS = StateRef()
"""The state of a table whose manifests name no states: only its location is known."""
READ, LOST, ELSEWHERE, CATALOGUED = "read", "lost", "elsewhere", "catalogued"


@dataclass(frozen=True)
class ReadTables:
    """The tables of a run, by name.

    Attributes:
        live: number and bytes of the data files in the newest state; only for tables that were read completely.
        hosts: the locations of other tables in whose folders the newest state lists files.
        stored: the number of judged files, for tables whose location a storage source covered; None: not judged yet.
        catalogued: tables that a catalog names.
    """

    live: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    stored: Mapping[str, int | None] = field(default_factory=dict)
    catalogued: Collection[str] = ()


def last_states(past: Results, as_of: datetime, this_run: str) -> dict[tuple[str, str], LastState]:
    """Return by kind of manifest and table the newest state that runs published up to `as_of`, with its lost states.

    Raises:
        CannotAudit: the results cannot be read.
    """
    published = {
        run["run_id"]: run["version"] == __version__ for run in past.runs() if run["status"] in PUBLISHED
    }
    published.pop(this_run, None)
    rows = [row for row in past.states() if row["run_id"] in published and row["as_of"] <= as_of]
    found: dict[tuple[str, str], LastState] = {}
    for row in sorted(rows, key=lambda row: (row["as_of"], row["standing"] != READ)):
        place = (row["manifest_kind"], row["table_name"])
        last = found.get(place)
        if row["standing"] == READ:
            now = _last_state(row)
            former = _ids_before(last, now)
            found[place] = replace(now, comparable=published[row["run_id"]], former_ids=former)
        elif last is None or last.run_id != row["run_id"]:
            continue
        elif row["standing"] == CATALOGUED:
            found[place] = replace(last, catalogued=True)
        elif row["standing"] == ELSEWHERE:
            found[place] = replace(last, hosts=last.hosts | {row["location"]})
        else:
            found[place] = replace(last, lost=(*last.lost, LostState(_state(row), row["as_of"])))
    return found


def _ids_before(last: LastState | None, now: LastState) -> frozenset[str]:
    """Other table ids than that of this state which audits read at its location before."""
    if last is None or last.location != now.location:
        return frozenset()
    return (last.former_ids | {last.state.table_id}) - {now.state.table_id, ""}


def _last_state(row: Row) -> LastState:
    return LastState(
        _state(row), row["as_of"], row["run_id"], row["location"] or "", row["files"], row["bytes"]
    )


def _state(row: Row) -> StateRef:
    texts = (row["state"] or "", row["table_id"] or "")
    return StateRef(row["number"], *texts, row["written_at"], row["etag"] or "")


def state_rows(
    claims: Sequence[Claims],
    tables: Collection[Table],
    before: LastStates,
    lineage: Sequence[JudgedWitness],
    seen: ReadTables,
    stamp: RunStamp,
) -> list[Row]:
    """Rows of `states`: of each table the state that was read, the states that are lost, and where else its files lie.

    Args:
        claims: what the readers gave.
        tables: those in scope.
        before: the states of earlier runs.
        lineage: what is known of other states of the tables.
        seen: what the run saw of them beside.
        stamp: of the run.
    """
    rows: list[Row] = []
    foreign = _foreign(lineage)
    for read in claims:
        for table in tables:
            last = before.get((read.info.kind, table.name))
            if table.name in foreign:
                now, lost = last, _lost_before(table, last)
                hosts = sorted(last.hosts) if last else []
            else:
                now = _most_counted(_read_now(read, table, seen, stamp) or last, last)
                lost, hosts = [*_lost_states(table, last, lineage, stamp)], _hosts(table.name, last, seen)
            if now is None:
                continue
            standings = [(now, READ), *((each, LOST) for each in lost)]
            standings += [(_elsewhere(now, host), ELSEWHERE) for host in hosts]
            if hosts and (table.name in seen.catalogued or (last and last.catalogued)):
                standings.append((now, CATALOGUED))
            rows += [_row(read.info.kind, table.name, each, standing, stamp) for each, standing in standings]
    return rows


def _foreign(lineage: Sequence[JudgedWitness]) -> set[str]:
    """Tables that show a state of another table: their own last state stays on record."""
    return {
        one.witness.table
        for one in lineage
        if one.witness.claim == FOREIGN_STATE and (one.is_loss or one.is_doubt)
    }


def _lost_before(table: Table, last: LastState | None) -> list[LastState]:
    """The states of a table that earlier audits reported as lost, where this one read a state of another table."""
    lost = () if last is None else last.lost
    return [LastState(each.state, each.reported_at, "", table.location.uri) for each in lost]


def _read_now(read: Claims, table: Table, seen: ReadTables, stamp: RunStamp) -> LastState | None:
    """The state that was read; None: none was, and where the format names states, the last one stays on record."""
    known = read.states.get(table.name)
    if known is not None and known.state is not None:
        counted = seen.live.get(table.name, (None, None))
        return LastState(known.state, stamp.as_of, "", table.location.uri, *counted)
    if known is None or known.refused or read.info.kind in formats() or table.name not in seen.stored:
        return None
    return LastState(STATELESS, stamp.as_of, "", table.location.uri, seen.stored[table.name])


def _hosts(name: str, last: LastState | None, seen: ReadTables) -> list[str]:
    """Where else files of a table lie; where it was not read whole, the places of the last audit are among them."""
    before = frozenset() if name in seen.live or last is None else last.hosts
    return sorted(before | seen.hosts.get(name, frozenset()))


def _elsewhere(now: LastState, host: str) -> LastState:
    """A state of whose files some lie in the folder of another table."""
    return replace(now, location=host, files=None, bytes=None)


def _most_counted(now: LastState | None, last: LastState | None) -> LastState | None:
    """The state with the files that an earlier audit counted in it, where this one counted fewer, or none.

    So a loss beneath an unchanged state stays one in the next audit.
    """
    if now is None or last is None or not last.comparable or last.files is None:
        return now
    if not now.state.is_unchanged_since(last.state) or now.location != last.location:
        return now
    fewer = now.files is None or now.files < last.files
    return replace(now, files=last.files, bytes=last.bytes) if fewer else now


def _lost_states(
    table: Table, last: LastState | None, lineage: Sequence[JudgedWitness], stamp: RunStamp
) -> Iterator[LastState]:
    """Yield the lost states of a table, as an earlier audit read them if one did.

    A loss inside the state that was read does not count. States without numbers, as those of lists, are identified by
    name, and stay on record while they are in doubt.
    """
    known = {each.number: each for each in _known_states(last) if each.number is not None}
    by_name = {each.name: each for each in _known_states(last) if each.number is None and each.name}
    for one in lineage:
        number, subject = one.witness.number, one.witness.subject
        if one.witness.table != table.name or one.witness.claim == LESS_LISTED:
            continue
        if number is None:
            state = by_name.get(subject) if one.is_loss or one.is_doubt else None
        else:
            state = known.get(number, StateRef(number, subject.rpartition("/")[2])) if one.is_loss else None
        if state is not None:
            yield LastState(state, stamp.as_of, "", table.location.uri)


def _known_states(last: LastState | None) -> tuple[StateRef, ...]:
    return () if last is None else (last.state, *(each.state for each in last.lost))


def _row(kind: str, table: str, last: LastState, standing: str, stamp: RunStamp) -> Row:
    state = last.state
    return {
        "run_id": stamp.run_id,
        "lake": stamp.lake,
        "table_name": table,
        "manifest_kind": kind,
        "as_of": stamp.as_of,
        "location": last.location,
        "number": state.number,
        "state": state.name or None,
        "table_id": state.table_id or None,
        "written_at": state.written_at,
        "etag": state.etag or None,
        "standing": standing,
        "files": last.files,
        "bytes": last.bytes,
    }

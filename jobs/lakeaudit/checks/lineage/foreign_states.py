"""States of other tables: a table that was audited before shows the id of a table that lies at another place.

A log that was copied over another table's log, or a name that was pointed at another table, opens without an error.
The files that the audited table listed are then listed by nobody, and look unused. A new id that no audit has read
elsewhere is that of a table that was created again; a table that is new at its location may be a registered copy.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from lakeaudit.collect.evidence import Evidence
from lakeaudit.evidence.lineage import FOREIGN_STATE, METADATA, LastState, StateRef, Witness

Homes = Mapping[tuple[str, str], frozenset[str]]
"""By kind of manifest and table id the locations at which audits have read it, or this run has."""


def foreign_states(evidence: Evidence, known: Sequence[Witness]) -> Iterator[Witness]:
    """Doubts about tables whose id belongs to a table at another location; those that `known` names are left out."""
    places = {table.name: table.location.uri for table in evidence.lake.tables}
    named = {one.table for one in known if one.claim == FOREIGN_STATE}
    suspects = [each for each in _exchanged(evidence, places) if each[1] not in named]
    homes = _homes(evidence, places) if suspects else {}
    for kind, name, state, last in suspects:
        elsewhere = sorted(homes.get((kind, state.table_id), frozenset()) - {places[name]})
        if elsewhere:
            yield _witness(name, state, last, elsewhere[0])


def _exchanged(
    evidence: Evidence, places: Mapping[str, str]
) -> Iterator[tuple[str, str, StateRef, LastState]]:
    """Kind, name, state and last state of tables that have another id now than the last audit read there."""
    for read in evidence.observed.sources.claims:
        for name, each in read.states.items():
            last = evidence.context.last_states.get((read.info.kind, name))
            if each.state is None or last is None or name not in places:
                continue
            if last.is_of_another(places[name], each.state.table_id):
                yield read.info.kind, name, each.state, last


def _homes(evidence: Evidence, places: Mapping[str, str]) -> Homes:
    """Where tables lie by their ids; a table that has left its location lies there no more."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (kind, _), last in evidence.context.last_states.items():
        if not last.departed:
            found[kind, last.state.table_id].add(last.location)
    for read in evidence.observed.sources.claims:
        for name, each in read.states.items():
            if each.state is not None and name in places:
                found[read.info.kind, each.state.table_id].add(places[name])
    return {key: frozenset(each) for key, each in found.items()}


def _witness(name: str, state: StateRef, last: LastState, home: str) -> Witness:
    words = (
        f"this state belongs to the table at {home}: its id is {state.table_id}, and {last.description(last.location)} "
        f"with the id {last.state.table_id}, at {last.state.name or last.state.number}; put that log back, or, if "
        "this table was replaced on purpose, give it a location of its own: no file here is called unused until then"
    )
    return Witness(name, FOREIGN_STATE, (METADATA,), state.uri or last.location, words)

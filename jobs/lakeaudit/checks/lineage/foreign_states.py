"""Find states of other tables: a table that was audited before now has the id of a table at another location.

A log that was copied over another table's log, or a name that was pointed at another table, opens without an error.
No state then lists the files of the audited table, and they look unused. A new id that no audit has read elsewhere
belongs to a table that was created again; a table that is new at its location may be a registered copy.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from lakeaudit.collect.evidence import Evidence
from lakeaudit.evidence.lineage import FOREIGN_STATE, METADATA, LastState, StateRef, Witness

Homes = Mapping[tuple[str, str], frozenset[str]]
"""By kind of manifest and table id the locations at which this run or earlier audits have read the table."""


def foreign_states(evidence: Evidence, known: Sequence[Witness]) -> Iterator[Witness]:
    """Yield doubts about tables whose id belongs to a table at another location, except tables that `known` names."""
    places = {table.name: table.location.uri for table in evidence.lake.tables}
    named = {one.table for one in known if one.claim == FOREIGN_STATE}
    suspects = [each for each in _with_other_ids(evidence, places) if each[1] not in named]
    homes = _homes(evidence, places) if suspects else {}
    for kind, name, state, last in suspects:
        elsewhere = sorted(homes.get((kind, state.table_id), frozenset()) - {places[name]})
        if elsewhere:
            yield _witness(name, state, last, elsewhere[0])


def _with_other_ids(
    evidence: Evidence, places: Mapping[str, str]
) -> Iterator[tuple[str, str, StateRef, LastState]]:
    """Yield kind, name, state and last state of tables whose id differs from that of the last audit."""
    for read in evidence.observed.sources.claims:
        for name, each in read.states.items():
            last = evidence.context.last_states.get((read.info.kind, name))
            if each.state is None or last is None or name not in places:
                continue
            if last.is_of_another(places[name], each.state.table_id):
                yield read.info.kind, name, each.state, last


def _homes(evidence: Evidence, places: Mapping[str, str]) -> Homes:
    """Return the locations of tables by their ids, without locations that a table has left."""
    homes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (kind, _), last in evidence.context.last_states.items():
        if not last.departed:
            homes[kind, last.state.table_id].add(last.location)
    for read in evidence.observed.sources.claims:
        for name, each in read.states.items():
            if each.state is not None and name in places:
                homes[read.info.kind, each.state.table_id].add(places[name])
    return {key: frozenset(each) for key, each in homes.items()}


def _witness(name: str, state: StateRef, last: LastState, home: str) -> Witness:
    words = (
        f"the metadata here belongs to the table at {home}: its table id is {state.table_id}; "
        f"{last.description(last.location)} "
        f"with the table id {last.state.table_id}, at {last.state.name or last.state.number}; restore that log, or, if "
        "this table was replaced on purpose, give it another location: until then no file here is reported as unused"
    )
    return Witness(name, FOREIGN_STATE, (METADATA,), state.uri or last.location, words)

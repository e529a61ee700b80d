"""Tables that the lake file names otherwise now: whose acknowledgements go to which name.

A discrepancy is known by its table's name, so a renamed table has discrepancies of its own. What a person accepted
under the old name stays accepted under the new one, where nothing but the name changed: the location and the id that
the format gives the table are the same.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.lineage import LastState, LastStates, StateRef
from lakeaudit.evidence.protocol import Claims
from lakeaudit.findings.finding_rows import digest
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

ReadStates = Mapping[tuple[str, str], tuple[str, StateRef]]
"""By kind of manifest and table its location now, and the state that this run read."""


@dataclass(frozen=True)
class Renames:
    """New names by old ones, and why the new name of a table is not known (`doubtful`)."""

    names: Mapping[str, str] = field(default_factory=dict)
    doubtful: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.names or self.doubtful)


def states_read(claims: Iterable[Claims], tables: Iterable[Table]) -> ReadStates:
    """The states of a run that name the id of their table."""
    locations = {table.name: table.location.uri for table in tables}
    return {
        (read.info.kind, name): (locations[name], state.state)
        for read in claims
        for name, state in read.states.items()
        if state.state is not None and name in locations
    }


def renames(before: LastStates, now: ReadStates, known: Collection[str]) -> Renames:
    """Which tables of earlier runs have another name now.

    A name that has been audited since the old one was last audited takes nothing over: findings under it since were not
    accepted.

    Args:
        before: the last states of all tables that published runs have read.
        now: the states of this run.
        known: the names that the lake has now.
    """
    names: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    for (kind, old), last in sorted(before.items(), key=lambda each: each[1].as_of):
        here = [name for of_kind, name in now if of_kind == kind and now[kind, name][0] == last.location]
        new = sorted(
            name
            for name in here
            if now[kind, name][1].table_id == last.state.table_id
            and not _since(before.get((kind, name)), last)
        )
        if old in known or not new:
            continue
        if not last.state.table_id:
            doubtful[old] = f"{' and '.join(new)} has its location, and the format names no id of a table"
        elif len(new) > 1:
            doubtful[old] = f"{' and '.join(new)} both have its location and table id"
        else:
            # of several old names of one table the last one holds what was accepted
            names = {each: name for each, name in names.items() if name != new[0]} | {old: new[0]}
    return Renames(names, doubtful)


def under_current_names(before: LastStates, tables: Collection[Table]) -> LastStates:
    """The last states, those of renamed tables under their new names as well.

    A table whose own last state is of another location takes the newest one that was read at its location under a name
    that the lake file does not have, or has for another location now. States of locations at which the lake has no
    table now are marked as departed.
    """
    places = {table.name: table.location.uri for table in tables}
    names_at: dict[str, list[str]] = {}
    for name, location in places.items():
        names_at.setdefault(location, []).append(name)
    found = {
        place: last if last.location in names_at else replace(last, departed=True)
        for place, last in before.items()
    }
    for (kind, old), last in sorted(before.items(), key=lambda each: each[1].as_of):
        if places.get(old) == last.location:
            continue
        for name in names_at.get(last.location, ()):
            own = before.get((kind, name))
            if own is None or own.location != last.location:
                found[kind, name] = last
    return found


def _since(new: LastState | None, old: LastState) -> bool:
    return new is not None and new.as_of > old.as_of


def warnings(renamed: Renames, accepted: Collection[str]) -> tuple[str, ...]:
    """Warnings about old names with accepted discrepancies that no table takes over."""
    return tuple(
        f"acknowledgements of {old} do not carry over: {why}"
        for old, why in sorted(renamed.doubtful.items())
        if old in accepted
    )


def under_new_names(con: Connection, rows: Rows, names: Mapping[str, str], lake: str) -> Relation:
    """Ledger rows of renamed tables as those of their new names; `former_name` is the old one."""
    subject = """CASE WHEN subject_type = 'table' AND (subject = old OR starts_with(subject, old || '#'))
        THEN new || substr(subject, length(old) + 1) ELSE subject END"""
    parts = [f"coalesce({name}, '')" for name in ("table_name", "axis", "subject_type", "subject")]
    sql = f"""
        SELECT * REPLACE ({digest(duck.literal(lake), *parts)} AS discrepancy_id) FROM (
            SELECT input.* REPLACE (new AS table_name, {subject} AS subject), old AS former_name
            FROM input JOIN names ON table_name = old)
    """
    pairs = duck.small(_NAMES, [*names.items()])
    return duck.query(con, sql, input=rows, names=pairs)


_NAMES = pa.schema([("old", pa.string()), ("new", pa.string())])

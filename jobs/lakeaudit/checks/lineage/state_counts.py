"""Compare the number of files that a state lists with the count of the last audit.

A state never changes. If its own file is the same by name and ETag, and it lists fewer files than before, a file that
it needs was lost or replaced: a part of a checkpoint, a manifest, an older instant.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta

from lakeaudit.collect.evidence import Evidence
from lakeaudit.evidence.lineage import LAST_AUDIT, LESS_LISTED, LastState, Stake, Witness
from lakeaudit.evidence.protocol import EvidenceGap, TableState
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Rows

Counted = Mapping[str, tuple[int, int | None]]
"""By table how many data files its newest state lists, and their bytes."""

_LISTED_TWICE = "duplicate.listed_twice"
_CLOCKS = timedelta(minutes=1)
"""How much the clock of storage may differ from that of the audit."""


def counted_whole(
    evidence: Evidence, live: Counted, evidence_gaps: Collection[EvidenceGap]
) -> dict[str, tuple[int, int | None]]:
    """Return the counts of `live` that a later audit may compare: of tables whose current state was read whole.

    Tables with several manifests are left out, because the files of all manifests are counted together.
    """
    if evidence.partitions or not evidence.context.live:
        return {}
    gaps = {gap.table for gap in evidence_gaps if gap.table}
    states: dict[str, list[TableState]] = {}
    for read in evidence.observed.sources.claims:
        for name, state in read.states.items():
            states.setdefault(name, []).append(state)
    return {
        name: live.get(name, (0, 0))
        for name, (first, *more) in states.items()
        if not more and first.state is not None and first.complete and not first.refused and name not in gaps
    }


def less_listed(
    evidence: Evidence, counted: Counted, unused: Callable[[], Collection[str]] = frozenset
) -> Iterator[Witness]:
    """Yield witnesses of states that list fewer files than the last published audit counted in them.

    Lists may be deleted together with their files. So a state without a number is a witness only if the table has
    unlisted files; `unused` looks up such tables.
    """
    for read in evidence.observed.sources.claims:
        for table in evidence.scope:
            state, last = (
                read.states.get(table.name),
                evidence.context.last_states.get((read.info.kind, table.name)),
            )
            if table.name not in counted or state is None or last is None or last.files is None:
                continue
            files = counted[table.name][0]
            is_less = files < last.files and last.location == table.location.uri and _is_same(state, last)
            numbered = state.state is not None and state.state.number is not None
            if is_less and (numbered or table.name in unused()):
                yield _witness(table.name, state, last, counted[table.name])


def with_unused_files(evidence: Evidence, leftovers: Rows) -> frozenset[str]:
    """Return the tables that have files in these rows of unused files."""
    sql = "SELECT DISTINCT judged_table FROM input"
    return frozenset(row["judged_table"] for row in duck.rows_of(duck.made_of(evidence.con, sql, leftovers)))


def repeated_entries(evidence: Evidence, suspects: Rows) -> Iterator[Witness]:
    """Yield witnesses of states that list a file more than once, from SUSPECTS rows."""
    sql = f"SELECT DISTINCT table_name FROM input WHERE rule = {duck.literal(_LISTED_TWICE)}"
    names = {row["table_name"] for row in duck.rows_of(duck.made_of(evidence.con, sql, suspects))}
    for read in evidence.observed.sources.claims:
        if read.repeated_entries is not None and (mine := names & read.states.keys()):
            yield from read.repeated_entries(mine)


def _is_same(state: TableState, last: LastState) -> bool:
    """Return whether no write since the last audit may have changed the listed files on purpose."""
    if not last.comparable or state.state is None or not state.state.is_unchanged_since(last.state):
        return False
    return state.changed_at is None or state.changed_at < last.as_of - _CLOCKS


def _witness(table: str, state: TableState, last: LastState, counted: tuple[int, int | None]) -> Witness:
    files, size = counted
    read = state.state
    if read is None or last.files is None:
        raise ValueError(f"{table} has no counts")
    words = (
        f"the audit of {last.as_of:%Y-%m-%dT%H:%M:%SZ} counted {last.files:,} files in table version {read.number} "
        f"({read.name}), but the same version lists {files:,} files now"
    )
    less = None if size is None or last.bytes is None else max(last.bytes - size, 0)
    stake = Stake(last.files - files, None, less)
    return Witness(table, LESS_LISTED, (LAST_AUDIT,), read.uri, words, read.number, stake)

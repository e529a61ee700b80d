"""Find witnesses against tables whose manifests are lists: the newest list of the last audit and its present state.

Such kinds have no table id and no pointer. Their newest list identifies the state: by its number if lists are numbered,
else by its URI and ETag. Only a missing list costs a request. An audit of the past compares nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, stat
from lakeaudit.evidence.lineage import (
    LAST_AUDIT,
    LOST_STATE,
    METADATA,
    LastState,
    LastStates,
    StateRef,
    Witness,
)
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location, identify
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import plain_time


@dataclass(frozen=True)
class ListedTable:
    """Holds the lists of one table.

    Attributes:
        table: their table.
        files: the lists that were read, in no order.
        newest: the number of the newest list; None if lists have no numbers.
        oldest: the earliest time of a file in any of them; None if they name none.
        complete: they name every file of the table; the state of a table is known only then.
        proves: a missing newest list is a loss; else files that no list names make it a doubt.
    """

    table: Table
    files: tuple[File, ...]
    newest: int | None = None
    oldest: datetime | None = None
    complete: bool = True
    proves: bool = True

    @property
    def last_file(self) -> File | None:
        """Return the list that was written last."""
        return max(self.files, key=lambda file: (file.modified_at, file.place.key), default=None)

    @property
    def state(self) -> StateRef | None:
        """Return the state of the lists; None without lists, or if they need not name every file."""
        file = self.last_file
        if file is None or not self.complete:
            return None
        return StateRef(
            self.newest, file.place.uri, "", file.modified_at, file.etag or "", uri=file.place.uri
        )

    @property
    def changed_at(self) -> datetime | None:
        """Return when storage last wrote a list; None without lists."""
        return None if self.last_file is None else self.last_file.modified_at


def compare_lists(
    kind: str, tables: Sequence[ListedTable], ctx: Context
) -> tuple[tuple[Witness, ...], Callable[[Connection, Rows], Iterator[Witness]] | None]:
    """Return witnesses for `Claims`, and a function that finds more by unused files; an audit of the past has none."""
    if not ctx.live:
        return (), None
    more = partial(doubts, kind, tables, ctx.last_states, ctx.clients)
    return witnesses(kind, tables, ctx.last_states, ctx.clients), more


def witnesses(
    kind: str, tables: Sequence[ListedTable], last: LastStates, clients: Clients
) -> tuple[Witness, ...]:
    """Return the missing newest lists after which no list was written."""
    return tuple(
        _lost_state(each, was, known, LAST_AUDIT)
        for each in tables
        for was, known, newer in _absent_lists(kind, each, last, clients)
        if each.proves and not newer
    )


def doubts(
    kind: str,
    tables: Sequence[ListedTable],
    last: LastStates,
    clients: Clients,
    con: Connection,
    leftovers: Rows,
) -> Iterator[Witness]:
    """Yield missing newest lists that may have been replaced, of tables with files that no list names.

    Only files that existed when such a list was written count.
    """
    gone = [(each, *one) for each in tables for one in _absent_lists(kind, each, last, clients)]
    gone = [one for one in gone if one[3] or not one[0].proves]
    if not gone:
        return
    sql = "SELECT judged_table, min(modified_at) AS oldest FROM input GROUP BY judged_table"
    oldest = {row["judged_table"]: row["oldest"] for row in duck.rows_of(duck.made_of(con, sql, leftovers))}
    for each, was, known, _ in gone:
        first = oldest.get(each.table.name)
        if first is not None and (was.written_at is None or first <= plain_time(was.written_at)):
            yield _lost_state(
                each, was, f"{known}; the missing list may name files that no list names now", METADATA
            )


def _absent_lists(
    kind: str, each: ListedTable, last: LastStates, clients: Clients
) -> Iterator[tuple[StateRef, str, bool]]:
    """Yield (state, how it is known, whether lists were written since) of missing newest lists of earlier audits."""
    before, now = last.get((kind, each.table.name)), each.last_file
    if not each.complete or before is None or before.location != each.table.location.uri or now is None:
        return
    for was, known in _audited_lists(before, each.table.location):
        if not _is_there(each, was, clients):
            newer = was.written_at is not None and now.modified_at > was.written_at and each.newest is None
            yield was, known, newer


def _audited_lists(last: LastState, location: Location) -> Iterator[tuple[StateRef, str]]:
    yield last.state, last.description(location.uri)
    for lost in last.lost:
        yield lost.state, lost.description


def _is_there(each: ListedTable, was: StateRef, clients: Clients) -> bool:
    """Return whether a list was read, or one in its place; true if this is unknown."""
    if each.newest is not None:
        return was.number is None or was.number <= each.newest or _is_recreated(each, was)
    names = {(file.name, file.etag) for file in each.files}
    if not was.name or was.name in {file.place.uri for file in each.files}:
        return True
    if was.etag and (was.name.rpartition("/")[2], was.etag) in names:
        return True
    place = identify(was.name)
    try:
        return place is None or stat(clients, Location(*place)) is not None
    except SourceError:
        return True


def _is_recreated(each: ListedTable, was: StateRef) -> bool:
    """Return whether all files that the lists name are newer than the state, so that the table was created again."""
    return each.oldest is not None and was.written_at is not None and each.oldest > was.written_at


def _lost_state(each: ListedTable, was: StateRef, known: str, evidence: str) -> Witness:
    number = "" if was.number is None else f"batch {was.number}: "
    none_newer = ", and no list was written after it" if evidence == LAST_AUDIT else ""
    words = f"{number}{was.name} is missing: {known}{none_newer}"
    return Witness(each.table.name, LOST_STATE, (evidence,), was.name, words, was.number)

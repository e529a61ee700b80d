"""What readers of table formats share that read the states of many tables at once, and again what has moved on.

Each reading has a number, which its rows of files carry as `reading`; a file is live, history or gone in a `state`.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from lakeaudit.config import Table
from lakeaudit.evidence.protocol import Kept
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

ATTEMPTS = 4
"""So often a table is read that moves on while it is read."""
NEWEST = ATTEMPTS
"""The number of the reading that is held against the judged ones."""
_RANK = "CASE state WHEN 'live' THEN 2 WHEN 'history' THEN 1 ELSE 0 END"


class Found(Protocol):
    """A table whose metadata was found."""

    @property
    def table(self) -> Table: ...


class TableRead(Protocol):
    """A table as it was read."""

    @property
    def name(self) -> str: ...


F = TypeVar("F", bound=Found)
T = TypeVar("T", bound=TableRead)


@dataclass(frozen=True)
class Reading(Generic[T]):
    """Tables, each in its last reading, and the rows of files of all readings."""

    tables: tuple[T, ...]
    kept: tuple[Kept, ...]


def read_until_whole(
    found: Sequence[F],
    read_once: Callable[[Sequence[F], int], Reading[T]],
    moved_on: Callable[[Sequence[T]], list[F]],
) -> Reading[T]:
    """All tables by `read_once` (of tables, the number of the reading); again those that `moved_on` finds newer."""
    done: dict[str, T] = {}
    kept: list[Kept] = []
    pending = list(found)
    for number in range(ATTEMPTS):
        read = read_once(pending, number)
        kept += read.kept
        done |= {each.name: each for each in read.tables}
        pending = [] if number == ATTEMPTS - 1 else moved_on(read.tables)
        if not pending:
            break
    return Reading(tuple(done[each.table.name] for each in found), tuple(kept))


def identity_of(pinned: Iterable[str]) -> str:
    """What pins the states that were read: of one table its own words, of more their digest."""
    lines = sorted(pinned)
    if len(lines) == 1:
        return lines[0]
    digest = hashlib.sha256("\n".join(lines).encode(errors="replace")).hexdigest()
    return f"sha256:{digest}"


def touched(con: Connection, rows: Rows, last: Iterable[tuple[str, int]], still: str = "false") -> Relation:
    """Of the files of tables that moved on what they `was` and are `now`: ranks of states, null where it is not said.

    Args:
        con: where it is asked.
        rows: of files, with their `reading`.
        last: the tables, and the number of the reading that was judged.
        still: SQL of rows of a judged reading that hold in the newest as well.
    """
    judged = " OR ".join(
        f"(table_name = {duck.literal(name)} AND reading = {number})" for name, number in last
    )
    sql = f"""SELECT table_name, bucket, key, CASE WHEN reading < {NEWEST} THEN {_RANK} END AS was,
            CASE WHEN reading = {NEWEST} OR {still} THEN {_RANK} END AS now
        FROM input WHERE reading = {NEWEST} OR {judged}"""
    return duck.query(con, sql, input=rows)


def compared(con: Connection, rows: Rows) -> Relation:
    """Rows of `file_list.fold.CHANGED`, of `touched` ones of some keys: files that are something else now."""
    sql = """SELECT table_name, bucket, key, ['gone', 'history', 'live'][now + 1] AS state FROM (
            SELECT table_name, bucket, key, coalesce(max(was), 0) AS was, coalesce(max(now), 0) AS now
            FROM input GROUP BY table_name, bucket, key)
        WHERE was <> now"""
    return duck.query(con, sql, input=rows)

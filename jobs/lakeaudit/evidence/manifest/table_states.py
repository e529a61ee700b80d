"""Read the states of many tables at once, and again of those that changed meanwhile; readers of table formats share it.

Each reading has a number, which its rows of files carry as `reading`; a file is live, history or gone in a `state`.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from lakeaudit.config import Table
from lakeaudit.evidence.lineage import MissingState
from lakeaudit.evidence.protocol import BufferedRows, TableState
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

ATTEMPTS = 4
"""How often a table is read that changes while it is read."""
NEWEST = ATTEMPTS
"""The number of the reading that is compared with the judged ones."""
_RANK = "CASE state WHEN 'live' THEN 2 WHEN 'history' THEN 1 ELSE 0 END"


@dataclass(frozen=True)
class LocatedTable:
    """Holds a table whose metadata was located at `read_at`; `refused` says why it cannot be read."""

    table: Table
    read_at: datetime
    refused: str | None = field(default=None, kw_only=True)
    missing: MissingState | None = field(default=None, kw_only=True)
    """Why there is no state to read, if storage proves it."""


class TableRead(Protocol):
    """A table as it was read."""

    @property
    def name(self) -> str: ...


F = TypeVar("F", bound=LocatedTable)
T = TypeVar("T", bound=TableRead)


@dataclass(frozen=True)
class Reading(Generic[F, T]):
    """Holds tables, each in its last reading, the rows of files of all readings, and the refused tables."""

    tables: tuple[T, ...]
    kept: tuple[BufferedRows, ...]
    refused: tuple[F, ...] = ()

    @property
    def refused_states(self) -> tuple[TableState, ...]:
        """Return the states of the refused tables."""
        return tuple(
            TableState(
                each.table.name,
                each.read_at,
                None,
                refused=each.refused,
                complete=False,
                missing=each.missing.cause if each.missing else "",
                missing_state=each.missing,
            )
            for each in self.refused
        )


def read_until_whole(
    found: Sequence[F],
    read_once: Callable[[Sequence[F], int], Reading[F, T]],
    moved_on: Callable[[Sequence[T]], Sequence[F]],
) -> Reading[F, T]:
    """Read all tables by `read_once` (tables, number of the reading), and again those that `moved_on` returns.

    A table that is refused then, for example because it was dropped, is refused, whatever was read of it before.
    """
    done: dict[str, T] = {}
    refused: dict[str, F] = {}
    kept: list[BufferedRows] = []
    pending = found
    for number in range(ATTEMPTS):
        refused |= {each.table.name: each for each in pending if each.refused is not None}
        read = read_once([each for each in pending if each.refused is None], number)
        kept += read.kept
        done |= {each.name: each for each in read.tables}
        pending = [] if number == ATTEMPTS - 1 else moved_on(read.tables)
        if not pending:
            break
    whole = tuple(each for name, each in done.items() if name not in refused)
    return Reading(whole, tuple(kept), tuple(refused.values()))


def identity_of(pinned: Iterable[str]) -> str:
    """Identify the states that were read by their digest, after the text of the table if there is only one."""
    lines = sorted(pinned)
    text = "\n".join(lines).encode(errors="replace")
    digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
    if len(lines) != 1:
        return digest
    return lines[0] if "sha256:" in lines[0] else f"{lines[0]} {digest}"


def changed_rows(
    con: Connection, rows: Rows, last: Iterable[tuple[str, int]], still: str = "false"
) -> Relation:
    """Return what files of changed tables `was` and `now` are: ranks of states, null in the other reading.

    Args:
        con: the connection to use.
        rows: of files, with their `reading`.
        last: the tables, and the number of the reading that was judged.
        still: SQL for rows of a judged reading that are also valid in the newest one.
    """
    judged = " OR ".join(
        f"(table_name = {duck.literal(name)} AND reading = {number})" for name, number in last
    )
    sql = f"""SELECT table_name, bucket, key, CASE WHEN reading < {NEWEST} THEN {_RANK} END AS was,
            CASE WHEN reading = {NEWEST} OR {still} THEN {_RANK} END AS now
        FROM input WHERE reading = {NEWEST} OR {judged}"""
    return duck.query(con, sql, input=rows)


def compare_states(con: Connection, rows: Rows) -> Relation:
    """Return rows of `file_list.fold.CHANGED`: the `changed_rows` of some keys whose state differs now."""
    sql = """SELECT table_name, bucket, key, ['gone', 'history', 'live'][now + 1] AS state FROM (
            SELECT table_name, bucket, key, coalesce(max(was), 0) AS was, coalesce(max(now), 0) AS now
            FROM input GROUP BY table_name, bucket, key)
        WHERE was <> now"""
    return duck.query(con, sql, input=rows)

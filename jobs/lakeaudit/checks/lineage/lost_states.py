"""Merge the lost states of a table into one finding, with the lost states between them.

An event that removes the newest states of a table (a folder was restored to yesterday's content, a script deleted
files) usually removes several at once. That is one loss. Pure.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.lineage import LOST_STATE, NOT_KNOWN
from lakeaudit.findings.lineage import JudgedWitness
from lakeaudit.keys import END
from lakeaudit.kinds import SEVERAL_STATES
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

Finding = dict[str, Any]
Amounts = Sequence[int | None]

MOST_BETWEEN = 1000
"""Lost states of one table that are inferred from a newer one."""
NAMED = 10

_COMMIT = re.compile(rf"(.*/_delta_log/)[0-9]{{20}}\.json{END}", re.DOTALL)
"""Delta commits: the only states whose numbers have no gaps and whose file names have only the number."""


def with_states_between(
    lineage: Sequence[JudgedWitness], newest: Mapping[str, int | None]
) -> Iterator[JudgedWitness]:
    """Yield the verdicts, and verdicts of lost Delta commits that only newer lost commits prove.

    Args:
        lineage: the verdicts.
        newest: by table the number of the state that was read.
    """
    yield from lineage
    lost: dict[str, dict[int, JudgedWitness]] = defaultdict(dict)
    for one in lineage:
        if one.witness.number is not None and is_lost(one) and _COMMIT.fullmatch(one.witness.subject):
            lost[one.witness.table][one.witness.number] = one
    for table, by_number in lost.items():
        first, last = newest.get(table), max(by_number)
        if first is not None:
            between = (number for number in range(last - 1, first, -1) if number not in by_number)
            for number, _ in zip(between, range(MOST_BETWEEN), strict=False):
                yield _before(by_number[last], number)


def is_lost(one: JudgedWitness) -> bool:
    """Return whether the verdict is a finding of a lost state."""
    return one.witness.claim == LOST_STATE and one.outcome == "finding"


def _before(newer: JudgedWitness, number: int) -> JudgedWitness:
    witness = newer.witness
    folder = _COMMIT.sub(r"\1", witness.subject)
    words = (
        f"the file of table version {number} is missing, and the file of the later version "
        f"{witness.number} is missing too"
    )
    lost = replace(
        witness,
        subject=f"{folder}{number:020}.json",
        words=words,
        number=number,
        stake=NOT_KNOWN,
        version_id=None,
        sample=(),
    )
    return replace(newer, witness=lost)


def newest_first(lineage: Iterable[JudgedWitness]) -> list[JudgedWitness]:
    """Sort the verdicts: the newest one of every table precedes older ones of any table."""
    by_table: dict[str, list[JudgedWitness]] = defaultdict(list)
    for one in lineage:
        by_table[one.witness.table].append(one)
    turns = [
        (turn, one)
        for each in by_table.values()
        for turn, one in enumerate(sorted(each, key=lambda one: -(one.witness.number or 0)))
    ]
    return [one for _, one in sorted(turns, key=lambda each: each[0])]


_WRITTEN_AGAIN = "written again since the last audit, perhaps by a restore of the table"


def files_written_again(con: Connection, rows: Rows, since: Mapping[str, datetime]) -> Rows:
    """Return verdict rows, in which files that a restore wrote again are undecided until the loss ends.

    Args:
        con: where the query runs.
        rows: verdict rows; those of other tables do not change.
        since: when each table that has lost a state was last audited.
    """
    again = "kind = 'overwritten' AND s_modified_at > since"
    times = duck.small(_SINCE, [*since.items()])
    return _make_undecided(con, rows, times, again, _WRITTEN_AGAIN)


_CONTESTED = "another metadata file has the same number, and it is unknown which of the two was committed"


def files_of_contested_states(con: Connection, rows: Rows, commits: Sequence[tuple[str, str]]) -> Rows:
    """Return verdict rows, in which files of a state that may have lost a race are undecided.

    Args:
        con: where the query runs.
        rows: verdict rows; those of other tables do not change.
        commits: (table, commit id) of commits that may have lost a race.
    """
    contested = "axis = 'content' AND c_commit_id = contested_id"
    return _make_undecided(con, rows, duck.small(_OF_COMMITS, commits), contested, _CONTESTED)


def _make_undecided(con: Connection, rows: Rows, doubts: pa.Table, condition: str, why: str) -> Rows:
    """Return verdict rows, in which findings that meet a condition on a doubt about their table are undecided.

    `condition` is SQL over a row and a row of `doubts`, which has the table as `of_table`; at most one doubt meets it.
    """
    if not doubts.num_rows:
        return rows
    sql = f"""
        SELECT input.* REPLACE (
            CASE WHEN of_table IS NULL THEN outcome ELSE 'undecided' END AS outcome,
            CASE WHEN of_table IS NULL THEN recheck_words ELSE {duck.literal(why)} END AS recheck_words)
        FROM input LEFT JOIN doubts ON judged_table = of_table AND outcome = 'finding' AND {condition}
    """
    return duck.made_of(con, sql, rows, doubts=doubts)


_SINCE = pa.schema([("of_table", pa.string()), ("since", pa.timestamp("us"))])
_OF_COMMITS = pa.schema([("of_table", pa.string()), ("contested_id", pa.string())])


def count_written_again(con: Connection, rows: Rows) -> dict[str, int]:
    """Return by table how many rows `files_written_again` made undecided."""
    sql = f"""
        SELECT judged_table, count(*) AS files FROM input
        WHERE outcome = 'undecided' AND recheck_words = {duck.literal(_WRITTEN_AGAIN)} GROUP BY judged_table
    """
    return {row["judged_table"]: row["files"] for row in duck.rows_of(duck.made_of(con, sql, rows))}


def one_loss_a_table(
    rows: Iterable[Finding], fewer: Mapping[str, Amounts], written_again: Mapping[str, int]
) -> list[Finding]:
    """Return rows for FINDINGS with one finding for all lost states of a table: the newest one, which names the rest.

    Args:
        rows: `lost_state` has the number where a row is about a lost state.
        fewer: by table how many fewer files and bytes it lists than the last audit counted.
        written_again: by table how many files were written again since its last audit.
    """
    others: list[Finding] = []
    lost: dict[str, list[Finding]] = defaultdict(list)
    for row in rows:
        if "lost_state" in row:
            lost[row["table_name"]].append(row)
        else:
            others.append(row)
    losses = [
        _with_restore(_at_least(_together(each), fewer.get(table, ())), written_again.get(table, 0))
        for table, each in lost.items()
    ]
    return [*others, *losses]


def _at_least(row: Finding, fewer: Amounts) -> Finding:
    """Raise the amounts at stake to the difference from the last audit, if that is larger."""
    known = {name: row.get(name) for name in ("files", "bytes_at_stake")}
    least = zip(known, fewer, strict=False)
    more = {name: amount for name, amount in least if amount and amount > (known[name] or 0)}
    return {**row, **more}


def _with_restore(row: Finding, files: int) -> Finding:
    if not files:
        return row
    written = f"{files:,} {'file was' if files == 1 else 'files were'} {_WRITTEN_AGAIN}"
    return {**row, "explanation": f"{row['explanation']}; {written}"}


def _together(rows: Sequence[Finding]) -> Finding:
    by_age = sorted(
        rows, key=lambda row: (row["lost_state"] is not None, row["lost_state"] or 0, row["subject"])
    )
    newest = by_age[-1]
    if len(by_age) == 1:
        return newest
    restorable = [row for row in by_age if row.get("recoverable") == "yes"]
    sentences = [
        newest["explanation"],
        f"{len(by_age)} {SEVERAL_STATES}: {_names(by_age)}",
        f"storage keeps an object version of {len(restorable)} of these {len(by_age)} files",
    ]
    amounts = {
        name: _sum(row.get(name) for row in rows) for name in ("files", "rows_at_stake", "bytes_at_stake")
    }
    until = min((end for row in by_age if (end := row.get("recoverable_until"))), default=None)
    merged = {
        "recoverable": _recoverable(by_age),
        "recoverable_until": until,
        "explanation": "; ".join(sentences),
    }
    return {**newest, **amounts, **merged}


def _sum(amounts: Iterable[int | None]) -> int | None:
    """Add up the known amounts; None if none is known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _recoverable(by_age: Sequence[Finding]) -> str:
    """Return whether the newest state can be restored: it needs the older ones, unless its file is complete."""
    newest = by_age[-1]
    needed = [newest] if str(newest["subject"]).endswith(".metadata.json") else by_age
    answers = {row.get("recoverable") or "unknown" for row in needed}
    return next(answer for answer in ("no", "unknown", "yes") if answer in answers)


def _names(by_age: Sequence[Finding]) -> str:
    names = [str(row["subject"]).rpartition("/")[2] for row in by_age]
    if len(names) <= NAMED:
        return ", ".join(names)
    half = NAMED // 2
    return f"{', '.join(names[:half])}, {len(names) - NAMED:,} more, {', '.join(names[-half:])}"

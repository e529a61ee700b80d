"""Commits of Delta logs that contradict the state, detected by the stages that all steps pass.

Logs are written by hand; whole audits of such tables are in tests/audits/test_delta_commits.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.checks.commits.commit_sums import changed_rows, rivals, whole_commits
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.delta.log import lines
from lakeaudit.evidence.protocol import Claims
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import REPLACED
from tests.builders.delta_lake import (
    BORN,
    NOW,
    Action,
    Log,
    add,
    at,
    context,
    frozen,
    info,
    remove,
    table,
    vector,
)

STATS = '{{"numRecords":{}}}'


def quiet(*actions: Action) -> list[Action]:
    """Actions that declare no change of rows."""
    return [{kind: fields | {"dataChange": False}} for action in actions for kind, fields in action.items()]


def overwrite(*actions: Action, read: int | None = None, **given: Any) -> list[Action]:
    known = {} if read is None else {"readVersion": read}
    return [info("WRITE", operationParameters={"mode": "Overwrite"} | given, **known), *actions]


def rewrite(*actions: Action, operation: str = "OPTIMIZE") -> list[Action]:
    return [info(operation), *quiet(*actions)]


def without_commit_1(log: Log) -> None:
    log.drop(f"{1:020}.json")


def commit_1_torn(log: Log) -> None:
    log.put(f"{1:020}.json", "{", at(1))


def path_of_commit_1_not_decodable(log: Log) -> None:
    log.commit(1, add("%zz"))


def only_after_a_checkpoint(log: Log) -> None:
    """State 1 is a checkpoint that lists `a`, and its commits are gone."""
    log.checkpoint(1, *BORN, add("a")).drop(f"{0:020}.json", f"{1:020}.json")


A, B = [add("a")], [add("b")]
IN_VAIN, REWRITE, OVERWRITES = [remove("./%61")], rewrite(remove("a"), add("c", stats=STATS.format(9))), (
    overwrite(remove("a"), add("c")), overwrite(remove("a"), add("d")),
)  # fmt: skip

CASES: dict[str, tuple[list[list[Action]], Callable[[Log], None] | None, list[tuple[Any, ...]]]] = {
    "a removal by another spelling": ([A, B, IN_VAIN], None, [("idle", 2, True, 1, 1, 10)]),
    "after a checkpoint": ([A, B, IN_VAIN], only_after_a_checkpoint, [("idle", 2, False, 1, 1, 10)]),
    "the escapes have other letters": ([[add("x%2Fy%c3%bc")], [remove("x%2fy%C3%BC")]], None, []),
    "a removal of nothing": ([A, B, [remove("x")]], None, [("idle", 2, True, 1, 0, None)]),
    "of nothing that anybody knows": ([A, B, [remove("x")]], only_after_a_checkpoint,
                                      [("idle", 2, False, 1, 0, None)]),
    "a commit before it is gone": ([A, B, IN_VAIN, REWRITE], without_commit_1, []),
    "a commit before it is torn": ([A, B, IN_VAIN, REWRITE], commit_1_torn, []),
    "a path before it has no meaning": ([A, B, IN_VAIN, REWRITE], path_of_commit_1_not_decodable, []),
    "the file is removed well later": ([A, B, IN_VAIN, [remove("a")]], None, [("idle", 2, True, 1, 0, None)]),
    "the file is added and removed at once": ([A, [add("b"), remove("b")]], None, []),
    "the other entry is younger": ([A, [remove("b")], [add("%62")]], None, [("idle", 1, True, 1, 0, None)]),
    "a rewrite that loses a row": ([A, B, REWRITE], None, [("changed", 2, 10, 9)]),
    "a rewrite of files in a checkpoint": ([A, B, REWRITE], only_after_a_checkpoint, [("changed", 2, 10, 9)]),
    "a rewrite of two files": (
        [A, B, rewrite(remove("a"), remove("b"), add("c", stats=STATS.format(20)))], None, []),
    "rows that a vector deletes": (
        [[add("a", vector(1))], B, rewrite(remove("a", vector(1)), add("c", stats=STATS.format(9)))], None, []),
    "a rewrite with an act that changes rows": ([A, B, [info(), remove("a"), *quiet(add("c", stats="{}"))]], None, []),
    "a rewrite of rows that nobody counted": ([[add("a", stats="{}")], B, REWRITE], None, []),
    "new words about a file": ([A, B, rewrite(add("a", stats=STATS.format(10)), remove("b"),
                                               add("c", stats=STATS.format(10)))], None, []),
    "new words that count more": ([A, B, rewrite(add("a", stats=STATS.format(11)), remove("b"),
                                                  add("c", stats=STATS.format(10)))], None, [("changed", 2, 20, 21)]),
    "files that are found broken": ([A, B, rewrite(remove("a"), operation="FSCK REPAIR TABLE")], None, []),
    "an append that declares no change": ([A, rewrite(add("b"), operation="CLONE")], None, []),
    "overwrites that remove the same": ([A, *OVERWRITES], None, [("rivals", 1, 2)]),
    "overwrites one after the other": ([A, OVERWRITES[0], overwrite(remove("c"), add("d"))], None, []),
    "overwrites of one version": (
        [A, overwrite(add("b"), read=0), overwrite(add("c"), read=0)], None, [("rivals", 1, 2)]),
    "of three overwrites of one version": (
        [A, *(overwrite(add(name), read=0) for name in "bcd")], None,
        [("rivals", 1, 2), ("rivals", 1, 3), ("rivals", 2, 3)]),
    "overwrites of two partitions": (
        [A, *(overwrite(add(p, partitionValues={"p": p}), read=0) for p in "12")], None, []),
    "overwrites by two predicates": ([A, *(overwrite(add(p), read=0, predicate=p) for p in "12")], None, []),
    "overwrites by one predicate": (
        [A, *(overwrite(add(p, partitionValues={"p": p}), read=0, predicate="p") for p in "12")], None,
        [("rivals", 1, 2)]),
    "an overwrite and an append": (
        [A, overwrite(add("b"), read=0), [info(operationParameters={"mode": "Append"}, readVersion=0), add("c")]],
        None, []),
}  # fmt: skip


IN_BLOCKS = (
    *("a rewrite that loses a row", "a rewrite of two files", "a rewrite with an act that changes rows"),
    *("overwrites that remove the same", "overwrites of two partitions", "overwrites by one predicate"),
)
"""Cases of which what is summed up of a commit decides."""


@dataclass(frozen=True)
class _Keys:
    """The first stage: what meets on its key, beside commits."""

    claims: Claims

    def __call__(self, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
        assert self.claims.contradictions is not None
        yield from self.claims.contradictions(con, rows)
        yield "commit_sums", rows["commit_sums"]


def _commits(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """The second stage: what meets on its table."""
    commits = whole_commits(con, rows["commit_sums"])
    yield "changed_rows", changed_rows(con, commits, rows.get("replaced", REPLACED.empty_table()))
    yield "rivals", rivals(con, commits)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, dict[str, list[tuple[Any, ...]]]]:
    """Return the contradictions of each case, by whether commits were read in blocks of a few lines."""
    with pytest.MonkeyPatch.context() as patch:
        whole = _contradictions(tmp_path_factory.mktemp("whole"), [*CASES])
        patch.setattr(lines, "_SMALL", 100)
        patch.setattr(lines, "_BLOCK", 300)
        return {False: whole, True: _contradictions(tmp_path_factory.mktemp("blocks"), IN_BLOCKS)}


def _contradictions(home: Path, cases: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
    for number, name in enumerate(cases):
        commits, fate, _ = CASES[name]
        log = Log(home / str(number)).commits(*commits)
        if fate is not None:
            fate(log)
    tables = [table(name, home / str(number)) for number, name in enumerate(cases)]
    claims = delta.read(tables, context(as_of=NOW), "manifest:delta", frozen)
    parts = [one for source in claims.rows for one in (source if isinstance(source, tuple) else (source,))]
    answers: dict[str, list[tuple[Any, ...]]] = {name: [] for name in cases}
    for kind, batch in InProcessEngine().run(parts, [_Keys(claims), _commits]):
        for row in batch.to_pylist() if kind in _WORDS else ():
            answers[row["table_name"]].append(_WORDS[kind](row))
    return {name: sorted(rows) for name, rows in answers.items()}


_WORDS: dict[str, Callable[[dict[str, Any]], tuple[Any, ...]]] = {
    "idle_removals": lambda r: ("idle", r["version"], r["from_start"], r["files"], r["live"], r["rows"]),
    "changed_rows": lambda r: ("changed", r["version"], r["before"], r["after"]),
    "rivals": lambda r: ("rivals", r["older"], r["younger"]),
}


@pytest.mark.parametrize(
    ("name", "in_blocks"), [*((name, False) for name in CASES), *((name, True) for name in IN_BLOCKS)]
)
def test_what_commits_contradict(
    name: str, in_blocks: bool, results: dict[bool, dict[str, list[tuple[Any, ...]]]]
) -> None:
    assert results[in_blocks][name] == CASES[name][2]

"""Which commits of a Delta log hold no action, or less than their own counts say."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from lakeaudit.evidence.manifest.delta.log.actions import parse_lines
from lakeaudit.evidence.manifest.delta.log.lines import LINE
from lakeaudit.evidence.manifest.delta.witnesses.commit_counts import (
    EMPTY,
    UNMET,
    CommitCounts,
    CommitProblem,
)
from lakeaudit.runtime import duck
from tests.builders.connections import connection
from tests.builders.delta_lake import add, change, info, remove

SPARK: dict[str, Any] = {"numFiles": "2", "numOutputRows": "20", "numOutputBytes": "200"}
RUST: dict[str, Any] = {"num_added_files": 2, "num_removed_files": 1, "num_added_rows": 20}
TWO = [add("a"), add("b")]


def write(
    operation: str = "WRITE", engine: str = "Apache-Spark/4.1 Delta-Lake/4.0", **counts: Any
) -> dict[str, Any]:
    return info(operation, operationMetrics=counts, engineInfo=engine)


NOTHING = CommitProblem(EMPTY)


def short(words: str, files: int | None = None, rows: int | None = None) -> CommitProblem:
    return CommitProblem(f"{UNMET}: {words}", files, rows)


COMMITS: dict[str, tuple[Iterable[object], CommitProblem | None]] = {
    "nothing": ([], NOTHING),
    "blanks": (["", "   ", "\t"], NOTHING),
    "an object without an action": (["{}", "{ }"], NOTHING),
    "commitInfo alone": ([info("SET TBLPROPERTIES")], None),
    "a transaction alone": ([{"txn": {"appId": "x", "version": 1}}], None),
    "files without a commitInfo": (TWO, None),
    "as many rows as Spark says": ([write(**SPARK), *TWO], None),
    "fewer rows than Spark says": ([write(**SPARK), TWO[0]], short("10 of 20 added rows", None, 10)),
    "an empty file that Spark wrote and did not commit": (
        [write(numFiles="3", numOutputRows="20"), *TWO], None,
    ),
    "more rows than it says": ([write(**SPARK), *TWO, add("c")], None),
    "rows that nobody counted": ([write(**SPARK), add("a", stats=None)], None),
    "no counts": ([write(), TWO[0]], None),
    "counts that are not numbers": ([write(numOutputRows="many", num_added_files=None), TWO[0]], None),
    "unknown counts": ([write("DELETE", numRemovedFiles="-1", numAddedFiles="-1")], None),
    "an overwrite as delta-rs counts it": ([write(engine="delta-rs:1.0", **RUST), *TWO, remove("o")], None),
    "an overwrite that lacks its removal": (
        [write(engine="delta-rs:1.0", **RUST), *TWO], short("0 of 1 removed files"),
    ),
    "an overwrite that lacks a file": (
        [write(engine="delta-rs:1.0", **RUST), TWO[0], remove("o")], short("1 of 2 added files", 1),
    ),
    "an append that lacks a file": (
        [write(engine="delta-rs:1.0", **RUST | {"num_removed_files": 0}), TWO[0]],
        short("1 of 2 added files, 10 of 20 added rows", 1, 10),
    ),
    "a merge that lacks a removal": (
        [write("MERGE", numTargetFilesAdded="1", numTargetFilesRemoved="2"), add("a"), remove("b")],
        short("1 of 2 removed files"),
    ),
    "a merge with deletion vectors": (
        [write("MERGE", numTargetFilesAdded="0", numTargetFilesRemoved="0"), add("a"), remove("a")], None,
    ),
    "changes that are counted with the rows": ([write(**SPARK), TWO[0], change("c")], None),
    "an engine that recounts": (
        [write("UPDATE", engine="Databricks-Runtime/15", numRemovedFiles="2"), remove("a")], None,
    ),
    "an operation that counts the files it compared": ([write("RESTORE", numRemovedFiles="5"), add("a")], None),
}  # fmt: skip


@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_commits_must_hold(in_blocks: bool) -> None:
    """All in one table of lines; a large commit comes line by line, with the same result."""
    lines = [
        (number, line if isinstance(line, str) else json.dumps(line))
        for number, (content, _) in enumerate(COMMITS.values())
        for line in content
    ]
    counts = CommitCounts(range(len(COMMITS)) if in_blocks else ())
    for block in [[line] for line in lines] if in_blocks else [lines]:
        counts.add(connection(), parse_lines(connection(), duck.small(LINE, block)))
    problems = dict(counts.problems(range(len(COMMITS))))
    assert {name: problems.get(number) for number, name in enumerate(COMMITS)} == {
        name: problem for name, (_, problem) in COMMITS.items()
    }

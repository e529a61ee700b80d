"""Digests that distinguish the batch of one commit from that of another, computed while logs are read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.commits.repeated_batches import find_repeats
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.delta.log import lines
from lakeaudit.evidence.manifest.delta.state import batches
from lakeaudit.runtime import duck
from lakeaudit.schemas import BATCH
from tests.builders.audits import includes_soak
from tests.builders.connections import connection
from tests.builders.delta_lake import Action, Log, add, context, frozen, info, remove, table, vector


def stats(low: int = 1, high: int = 9, rows: int = 20, **given: Any) -> str:
    return json.dumps(
        {"numRecords": rows, "minValues": {"id": low, "day": "d"}, "maxValues": {"id": high, "day": "d"},
         "nullCount": {"id": 0, "day": 0}} | given,
        separators=(",", ":"),
    )  # fmt: skip


def file(path: str, text: str | None = None, **given: Any) -> Action:
    return add(path, stats=stats() if text is None else text, **given)


REORDERED = (
    '{"maxValues":{"day":"d","id":9},"numRecords":20,'
    '"nullCount":{"day":0,"id":0},"minValues":{"day":"d","id":1}}'
)


def txn(version: int) -> Action:
    return {"txn": {"appId": "query", "version": version, "lastUpdated": 7}}


FIRST = [info(), txn(1), file("a"), file("b", stats(5, 7))]
SECONDS: dict[str, tuple[list[Action], bool]] = {
    "the same files under other names": ([info(), file("c"), file("d", stats(5, 7))], True),
    "in another order": ([info(), file("d", stats(5, 7)), file("c")], True),
    "columns in another order": ([info(), file("c", REORDERED), file("d", stats(5, 7))], True),
    "by a stream": ([info("STREAMING UPDATE"), file("c"), file("d", stats(5, 7))], True),
    "other rows": ([info(), file("c"), file("d", stats(5, 7, rows=21))], False),
    "another minimum": ([info(), file("c"), file("d", stats(4, 7))], False),
    "other null counts": ([info(), file("c"), file("d", stats(5, 7, nullCount={"id": 1, "day": 0}))], False),
    "another size": ([info(), file("c", size=101), file("d", stats(5, 7))], False),
    "another partition": (
        [info(), file("c", partitionValues={"day": "2"}), file("d", stats(5, 7), partitionValues={"day": "2"})],
        False,
    ),
    "one file twice, the other not at all": ([info(), file("c"), file("d")], False),
    "one file more": ([info(), file("c"), file("d", stats(5, 7)), file("e")], False),
    "a compaction": (
        [info("OPTIMIZE"), file("c", dataChange=False), file("d", stats(5, 7), dataChange=False)],
        False,
    ),
    "under another transaction": ([info(), txn(2), file("c"), file("d", stats(5, 7))], True),
    "a merge": ([info("MERGE"), file("c"), file("d", stats(5, 7))], False),
    "a clone": ([info("CLONE"), file("c"), file("d", stats(5, 7))], False),
    "a restore": ([info("RESTORE"), file("c"), file("d", stats(5, 7))], False),
    "an overwrite": ([info(), file("c"), file("d", stats(5, 7)), remove("a"), remove("b")], False),
    "without a word of the operation": ([file("c"), file("d", stats(5, 7))], False),
    "with a deletion vector": ([info(), file("c", vector=vector(1)), file("d", stats(5, 7))], False),
}  # fmt: skip


Repeats = dict[str, list[tuple[int, int]]]


def repeats(folder: Path, commits: Mapping[str, Sequence[list[Action]]]) -> Repeats:
    """By table the versions that look batches_by_read, where the tables have these commits after an empty one."""
    for number, of_table in enumerate(commits.values()):
        Log(folder / str(number)).commits([], *of_table)
    tables = [table(name, folder / str(number)) for number, name in enumerate(commits)]
    claims = delta.read(tables, context(), "manifest:delta", frozen)
    kept = [each for each in claims.rows if not isinstance(each, tuple)]
    rows = pa.Table.from_batches([one for each in kept for one in each.batches(batches.KIND)], BATCH)
    found: Repeats = {name: [] for name in commits}
    for row in duck.rows_of(find_repeats(connection(), rows)):
        found[row["table_name"]].append((row["older"], row["younger"]))
    return found


IN_BLOCKS = ("the same files under other names", "other rows", "an overwrite", "with a deletion vector")
"""Commits that the quick suite reads in blocks as well; the soak reads all of them so."""


@pytest.fixture(scope="module")
def batches_of_whole_commits(tmp_path_factory: pytest.TempPathFactory) -> Repeats:
    return _repeats_of(list(SECONDS), tmp_path_factory)


@pytest.fixture(scope="module")
def batches_of_blocks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Repeats:
    """Commits that are read in blocks of a few lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_SMALL", 100)
        patch.setattr(lines, "_BLOCK", 300)
        return _repeats_of(SECONDS if includes_soak(request) else IN_BLOCKS, tmp_path_factory)


def _repeats_of(names: Iterable[str], tmp_path_factory: pytest.TempPathFactory) -> Repeats:
    return repeats(tmp_path_factory.mktemp("tables"), {name: [FIRST, SECONDS[name][0]] for name in names})


@pytest.mark.parametrize("name", SECONDS)
def test_what_looks_like_the_same_batch(name: str, batches_of_whole_commits: Repeats) -> None:
    assert batches_of_whole_commits[name] == ([(1, 2)] if SECONDS[name][1] else [])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in IN_BLOCKS else [pytest.mark.soak]) for name in SECONDS]
)
def test_commits_in_blocks_look_like_the_same_batch(name: str, batches_of_blocks: Repeats) -> None:
    assert batches_of_blocks[name] == ([(1, 2)] if SECONDS[name][1] else [])


WITHOUT_STATISTICS = [
    stats(3, 3),  # one value a column, as heartbeats have
    stats(rows=9),
    '{"numRecords":20}',
    "{}",
    "no JSON",
    '{"numRecords":20,"minValues":{},"maxValues":{}}',
]


def test_a_batch_without_statistics_equals_no_other(tmp_path: Path) -> None:
    """Each in a table of its own."""
    commits = {text: [[info(), file("a", text)], [info(), file("b", text)]] for text in WITHOUT_STATISTICS}
    assert repeats(tmp_path, commits) == {text: [] for text in WITHOUT_STATISTICS}


OF_TRANSACTIONS: list[tuple[list[Action], list[tuple[int, int]]]] = [
    ([info("STREAMING UPDATE"), txn(1), file("c", "{}", size=7)], [(1, 2)]),
    ([info("STREAMING UPDATE"), txn(2), file("c", "{}", size=7)], []),
    ([info("STREAMING UPDATE"), {"txn": {"appId": "query"}}, file("c", "{}", size=7)], []),
    ([info("STREAMING UPDATE"), {"txn": 7}, file("c", "{}", size=7)], []),
    ([info("MERGE"), txn(1), file("c", "{}", size=7)], []),
    ([info("STREAMING UPDATE"), txn(1), file("c", "{}", size=7), remove("a")], []),
]


def test_two_commits_of_one_transaction_are_one_batch(tmp_path: Path) -> None:
    """Each in a table of its own."""
    commits = {str(number): [FIRST, second] for number, (second, _) in enumerate(OF_TRANSACTIONS)}
    assert repeats(tmp_path, commits) == {
        str(number): expected for number, (_, expected) in enumerate(OF_TRANSACTIONS)
    }

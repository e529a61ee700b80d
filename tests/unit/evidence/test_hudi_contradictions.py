"""Facts in the file of a Hudi write, and the shares' facts about file groups that a write replaced."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lakeaudit.evidence.manifest.hudi.state.replaced_groups import (
    MOST_NAMED,
    REPLACED,
    ReplacedGroups,
    replaced_groups,
)
from lakeaudit.evidence.manifest.hudi.timeline.names import in_order
from lakeaudit.evidence.manifest.hudi.timeline.write_facts import WriteFacts, write_facts
from tests.builders.hudi import commit, stat

ONE, TWO, SECONDS = "20261101100000000", "20261102100000000", "20261103100000"


def base(instant: str, group: str = "a") -> str:
    return f"d=1/{group}_0-1-2_{instant}.parquet"


def log(instant: str) -> str:
    return f"d=1/.a_{instant}.log.1_0-1-2"


def facts_of(
    content: str, action: str = "commit", begin: str = ONE, *, twice: bool = False
) -> WriteFacts | None:
    return write_facts(action, in_order(begin), json.loads(content), completed_twice=twice)


@pytest.mark.parametrize(
    ("content", "begin", "foreign"),
    [
        (commit(stat(base(ONE)), stat(base(ONE, "b"))), ONE, 0),
        (commit(stat(base(TWO)), stat(base(TWO, "b"))), ONE, 2),
        (commit(stat(base(TWO)), stat(base(ONE, "b"))), ONE, 0),
        (commit(stat(base(TWO)), stat(log(ONE))), ONE, 1),
        (commit(stat(log(TWO))), ONE, 0),
        (commit(), ONE, 0),
        (commit(stat(base(SECONDS))), SECONDS, 0),
        (commit(stat(base(ONE))), SECONDS, 1),
        (commit(stat("d=1/part_0_17.parquet")), ONE, 0),
        (commit(stat("d=1/part-1.parquet_20261101100000000_hudiext")), ONE, 0),
    ],
)
def test_names_show_a_write_that_lists_only_base_files_of_other_instants(
    content: str, begin: str, foreign: int
) -> None:
    facts = facts_of(content, begin=begin)
    assert (0 if facts is None else facts.foreign) == foreign
    assert facts is None or begin not in facts.instants


@pytest.mark.parametrize(
    ("more", "rows"),
    [
        ({}, 17),
        ({"numInserts": 7}, 17),
        ({"numInserts": 8}, None),
        ({"numDeletes": 1}, None),
        ({"totalWriteErrors": 1}, None),
        ({"prevCommit": TWO}, None),
        ({"numWrites": None}, None),
        ({"numWrites": -1}, None),
        ({"path": log(ONE)}, None),
        ({"path": "d=1/part-1.parquet"}, None),
        ({"path": None}, 10),
    ],
)
def test_the_rows_of_a_clustering_are_known_where_they_are_exact(
    more: Mapping[str, Any], rows: int | None
) -> None:
    content = commit(stat(base(ONE)), stat(base(ONE, "b"), rows=7) | dict(more))
    for operation, exact in (("CLUSTER", rows), ("INSERT_OVERWRITE", None)):
        facts = facts_of(content.replace("UPSERT", operation), "replacecommit")
        assert facts is not None
        assert (facts.operation, facts.rows) == (operation, exact)


def test_two_completed_files_are_compared_by_their_listed_files_in_any_order() -> None:
    one, two = stat(base(ONE)), stat(base(ONE, "b"))
    contents = [
        commit(one, two), commit(two, one), commit(one), commit(one, stat(base(ONE, "b"), rows=9)),
        commit(one, two, replaced={"d=1": ["c"]}),
    ]  # fmt: skip
    digests = [facts.digest for content in contents if (facts := facts_of(content, twice=True)) is not None]
    assert (digests[0] == digests[1], len(set(digests)), len(digests)) == (True, 4, 5)


@pytest.mark.parametrize(
    "content", ['{"partitionToWriteStats": []}', '{"partitionToWriteStats": {"d": [1]}}', "{}"]
)
def test_other_content_has_no_facts(content: str) -> None:
    assert facts_of(content) is None
    assert facts_of('{"partitionToWriteStats": {"d": [1]}}', "replacecommit", twice=True) is None
    assert facts_of(commit(stat(base(TWO))), "clean", twice=True) is None


def test_what_shares_say_of_one_write_is_added_up() -> None:
    def note(instant: str, **given: Any) -> dict[str, object]:
        data = {"groups": 1, "exact": 0, "rows": 0, "unknown": 0, "again": 0, "names": [], "other": ""}
        return {"subject": "t", "data": json.dumps({REPLACED: instant, **data, **given})}

    names = [f"d/{number}" for number in range(MOST_NAMED)]
    found = replaced_groups([
        note(ONE, groups=3, exact=2, rows=20), note(ONE, groups=100, unknown=100, names=names),
        note(ONE, again=1, other=TWO, names=["e/1"]), note(TWO), {"subject": "t", "data": None},
    ])  # fmt: skip
    assert found["t"][ONE] == ReplacedGroups(104, 2, 20, 100, 1, tuple(names), TWO)
    assert found["t"][TWO] == ReplacedGroups(1)

"""Commits that storage has more than one version of: which took the place of another, and what that lost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.commits.commits import Comparison, Loss, log_versions, losses, rewritten_commits
from lakeaudit.checks.lineage.marked_states import state_files, with_older_versions
from lakeaudit.evidence.protocol import CommitContent
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.schemas import VERSION
from tests.builders.connections import connection

AT = datetime(2026, 11, 20, 12, tzinfo=UTC).replace(tzinfo=None)
ORDERS = Location("lake", "wh/orders")
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
A, B = "a" * 32, "b" * 32


def version(
    id_: str, seconds: float, etag: str | None = A, *, latest: bool = False, **given: Any
) -> dict[str, Any]:
    """A version of commit 5 of the table."""
    plain = {"source": "storage:0", "bucket": "lake", "key": "wh/orders/_delta_log/00000000000000000005.json"}
    about = {"version_id": id_, "is_latest": latest, "is_delete_marker": False, "size": 10, "etag": etag}
    return (
        plain
        | about
        | {"modified_at": AT + seconds * SECOND, "encryption": "SSE-S3", "multipart": False}
        | given
    )


def marker(seconds: float, *, latest: bool = False) -> dict[str, Any]:
    return version("m", seconds, None, latest=latest, is_delete_marker=True, size=None)


VERSIONS: dict[str, tuple[list[dict[str, Any]], list[tuple[str | None, str | None, bool]]]] = {
    "one version": ([version("v1", 0, latest=True)], []),
    "two writers": ([version("v1", 0), version("v2", 1, B, latest=True)], [("v1", "v2", True)]),
    "in one second": ([version("v1", 0), version("v2", 0, B, latest=True)], [("v1", "v2", True)]),
    "the same bytes": ([version("v1", 0), version("v2", 1, latest=True)], []),
    "keys of KMS: another ETag proves nothing": (
        [version("v1", 0, encryption="SSE-KMS"), version("v2", 1, B, latest=True, encryption="SSE-KMS")],
        [("v1", "v2", False)],
    ),
    "keys of KMS and another size": (
        [version("v1", 0, encryption="SSE-KMS"), version("v2", 1, B, latest=True, encryption="SSE-KMS", size=11)],
        [("v1", "v2", True)],
    ),
    "an encryption that the report does not name": (
        [version("v1", 0, encryption=None), version("v2", 1, B, latest=True, encryption=None)],
        [("v1", "v2", False)],
    ),
    "three writers": (
        [version("v1", 0), version("v2", 1, B), version("v3", 2, "c" * 32, latest=True)],
        [("v2", "v3", True), ("v1", "v3", True)],
    ),
    "brought back": (
        [version("v1", 0), version("v2", 1, B), version("v3", 2, latest=True)],
        [("v2", "v3", True)],
    ),
    "deleted and created again": ([version("v1", 0), marker(5), version("v2", 9, B, latest=True)], []),
    "created again, and then written twice": (
        [version("v1", 0), marker(5), version("v2", 9, B), version("v3", 10, "c" * 32, latest=True)],
        [("v2", "v3", True)],
    ),
    "cleaned up": ([version("v1", 0), version("v2", 1, B), marker(9, latest=True)], []),
    "two reports name both": (
        [each | {"source": source} for source in ("storage:0", "storage:1")
         for each in (version("v1", 0), version("v2", 1, B, latest=True))],
        [("v1", "v2", True)],
    ),
    "two reports of current objects alone": (
        [version("v1", 0, latest=True), version("v2", 1, B, latest=True, source="storage:1")], [],
    ),
    "a checkpoint": (
        [each | {"key": each["key"].replace(".json", ".checkpoint.parquet")}
         for each in (version("v1", 0), version("v2", 1, B, latest=True))], [],
    ),
    "a log inside the table that is not its own": (
        [each | {"key": each["key"].replace("orders/", "orders/inner/")}
         for each in (version("v1", 0), version("v2", 1, B, latest=True))], [],
    ),
    "below what is read of the log": (
        [each | {"key": each["key"].replace("5.json", "3.json")}
         for each in (version("v1", 0), version("v2", 1, B, latest=True))], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERSIONS)
def test_which_versions_took_the_place_of_others(name: str) -> None:
    rows, expected = VERSIONS[name]
    con = connection()
    states = state_files(con, pa.Table.from_pylist(rows, VERSION))
    several = log_versions(con, with_older_versions(con, states))
    found = rewritten_commits(
        con, several, {"orders": ORDERS, "other": Location("lake", "wh")}, {"orders": 3}
    )
    assert [(one.lost_version_id, one.version_id, one.sure) for one in found] == expected
    assert {(one.table, one.root, one.version) for one in found} <= {("orders", ORDERS, 5)}


FILES = pa.schema(
    [
        *[("number", pa.int64()), ("bucket", pa.string()), ("key", pa.string()), ("added", pa.bool_())],
        *[("data_change", pa.bool_()), ("size", pa.int64()), ("records", pa.int64())],
    ]
)
CLAIMS = pa.schema([(name, pa.string()) for name in ("table_name", "bucket", "key", "state")])


def file_action(key: str, *, lost: bool = True, added: bool = True, data: bool = True) -> tuple[Any, ...]:
    return (0 if lost else 1, "lake", key, added, data, 7 if added else None, 3 if added else None)


def claim(key: str, state: str = "live", table: str = "orders") -> tuple[str, ...]:
    return (table, "lake", key, state)


LOSSES: dict[str, tuple[list[Any], list[Any], Loss]] = {
    "no commit lists its files": ([file_action("x/a"), file_action("x/b")], [], Loss(2, 14, 6, sample=("a", "b"))),
    "listed by a later commit": ([file_action("a")], [claim("a")], Loss()),
    "listed by a later commit, and removed since": ([file_action("a")], [claim("a", "gone")], Loss()),
    "listed by another table": ([file_action("a")], [claim("a", table="other")], Loss(1, 7, 3, sample=("a",))),
    "the other version added it too": ([file_action("a"), file_action("a", lost=False)], [], Loss()),
    "the removed file is still listed": ([file_action("a", added=False)], [claim("a")], Loss(undone=1)),
    "the removed file is removed": ([file_action("a", added=False)], [claim("a", "history")], Loss()),
    "the other version removed it too": (
        [file_action("a", added=False), file_action("a", added=False, lost=False)], [claim("a")], Loss(),
    ),
    "a compaction": ([file_action("a", data=False), file_action("b", added=False, data=False)], [claim("b")], Loss()),
    "it said nothing of files": ([], [], Loss()),
}  # fmt: skip


PAIR = (Comparison("orders", 0, 1),)


@pytest.mark.parametrize("name", LOSSES)
def test_what_a_lost_version_lost(name: str) -> None:
    files, claims, expected = LOSSES[name]
    given = (duck.small(FILES, files), duck.small(CLAIMS, claims), PAIR, (CommitContent(), CommitContent()))
    assert losses(connection(), *given) == [expected]


def test_commits_that_are_read_beside_say_nothing_of_a_loss() -> None:
    """Commits 2 and 3 are batches of the same table; the second pair's lost version has number 4."""
    files = [(number, *file_action("a")[1:]) for number in (0, 2, 3)] + [(4, *file_action("b")[1:])]
    pairs = (Comparison("orders", 0, 1), Comparison("orders", 4, 5))
    commits = [CommitContent()] * 6
    found = losses(connection(), duck.small(FILES, files), CLAIMS.empty_table(), pairs, commits)
    assert [(loss.files, loss.sample) for loss in found] == [(1, ("a",)), (1, ("b",))]


@pytest.mark.parametrize(
    ("lost", "current", "expected"),
    [(("schema",), (), True), (("schema",), ("schema",), False), ((), ("schema",), False)],
)
def test_a_lost_change_of_the_whole_table(
    lost: tuple[str, ...], current: tuple[str, ...], expected: bool
) -> None:
    commits = (CommitContent(of_table=lost), CommitContent(of_table=current))
    (found,) = losses(connection(), FILES.empty_table(), CLAIMS.empty_table(), PAIR, commits)
    assert found.of_table is expected

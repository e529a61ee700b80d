"""Which commits of a Delta log seem to have been written twice, by the log alone; and what single commits say."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.protocol import CommitFile, CommitLogs
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.delta_lake import (
    BORN,
    Log,
    add,
    at,
    context,
    frozen,
    info,
    metadata,
    millis,
    remove,
    table,
)

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def logs_of(folder: Path) -> CommitLogs:
    logs = delta.read([table("orders", folder)], context(), "manifest:delta", frozen).commits
    assert logs is not None
    return logs


def commits(
    log: Log, *written: datetime, made: Callable[[int, datetime], datetime] = lambda _, at: at
) -> Log:
    """Commits 0, 1, ... whose files were written then; `made` says when their writers had made them."""
    for version, when in enumerate(written):
        said = info(timestamp=millis(made(version, when)), txnId=f"txn-{version}")
        log.commit(version, *(BORN if version == 0 else ()), said, add(f"file-{version}"), when=when)
    return log


def checksum(log: Log, version: int, transaction: str) -> Log:
    return log.put(f"{version:020}.crc", json.dumps({"txnId": transaction, "numFiles": 1}), at(version))


IN_ORDER = tuple(at(version) for version in range(5))


def late(*, by: timedelta, version: int = 1) -> tuple[datetime, ...]:
    """Written in order, but one file after its follower's."""
    return tuple(at(version + 1) + by if n == version else when for n, when in enumerate(IN_ORDER))


LOGS: dict[str, tuple[Callable[[Log], Log], list[tuple[int, bool]]]] = {
    "written in order": (lambda log: commits(log, *IN_ORDER), []),
    "later than its follower": (lambda log: commits(log, *late(by=MINUTE)), [(1, False)]),
    "later by no more than clocks step": (lambda log: commits(log, *late(by=2 * SECOND)), []),
    "the checksum is another transaction's": (
        lambda log: checksum(commits(log, *late(by=MINUTE)), 1, "another"),
        [(1, True)],
    ),
    "the checksum is its own: it was copied back": (
        lambda log: checksum(commits(log, *late(by=MINUTE)), 1, "txn-1"),
        [],
    ),
    "one file brought back an hour after it was made": (
        lambda log: commits(log, *late(by=MINUTE), made=lambda version, _: at(version)),
        [],
    ),
    "its follower is a copy": (
        lambda log: commits(
            log, *late(by=MINUTE), made=lambda v, when: when - 2 * MINUTE if v == 2 else when
        ),
        [],
    ),
    "a log copied from its end to its begin": (lambda log: commits(log, *reversed(IN_ORDER)), []),
    "the newest commit has no follower": (lambda log: commits(log, *late(by=MINUTE, version=4)), []),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_file_later_than_its_followers_is_doubted(name: str, tmp_path: Path) -> None:
    make, expected = LOGS[name]
    make(Log(tmp_path))
    doubts = logs_of(tmp_path).doubts(Clients())
    assert [(doubt.commit.version, doubt.sure) for doubt in doubts] == expected
    assert all(doubt.commit.place.key.endswith(f"{doubt.commit.version:020}.json") for doubt in doubts)


def test_commits_before_the_state_that_is_read_are_left_alone(tmp_path: Path) -> None:
    commits(Log(tmp_path), *late(by=MINUTE)).checkpoint(2, *BORN, add("file-0"), add("file-1"), add("file-2"))
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    logs = logs_of(tmp_path)
    assert (logs.since, logs.doubts(Clients())) == ({"orders": 2}, [])
    assert logs.written_at("orders", 3) == at(3)
    assert (logs.written_at("orders", 9), logs.written_at("other", 3)) == (None, None)


def test_what_a_commit_says(tmp_path: Path) -> None:
    said = info("MERGE", timestamp=millis(at(1)))
    log = Log(tmp_path).commits(
        [],
        [said, add("a%20b", size=7), remove("c", dataChange=False), metadata("day")],
        [add("s3://other/place/d", stats="{}")],
    )
    root = Location.parse(str(tmp_path))
    files = [CommitFile("orders", root, n, root.join("_delta_log", f"{n:020}.json")) for n in (1, 2, 3)]
    found = logs_of(log.table).read(files, Clients())
    one, other, gone = found.commits
    assert (one.operation, one.made_at, len(one.of_table)) == ("MERGE", at(1), 1)
    assert (other.operation, other.made_at, other.of_table, other.unread) == ("", None, (), "")
    assert gone.unread == "it is missing"
    names = ["number", "bucket", "key", "added", "data_change", "size", "records"]
    rows = sorted(tuple(row[name] for name in names) for row in found.files.to_pylist())
    assert rows == [
        (0, "", f"{root.key}/a b", True, True, 7, 10),
        (0, "", f"{root.key}/c", False, False, None, None),
        (1, "other", "place/d", True, True, 100, None),
    ]

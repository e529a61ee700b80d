"""Which metadata.json a catalog points at, and when a newer one has left it behind."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.evidence.catalog.metadata_pointers import aim_at, left_behind
from lakeaudit.runtime.connections.aws import Clients

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=1)


class Folder:
    """A folder of metadata.json files, each named by its number."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def uri(self, number: int, tail: str = "a") -> str:
        return str(self.path / f"{number:05}-{tail}.metadata.json")

    def put(
        self, number: int, before: Sequence[int] = (), uuid: str = "t", tail: str = "a", at: datetime = OLD
    ) -> str:
        """A file that names others, of tail `a`, before itself."""
        log = [{"metadata-file": self.uri(each), "timestamp-ms": each} for each in before]
        content = {
            "format-version": 2, "table-uuid": uuid, "location": str(self.path.parent), "last-updated-ms": number,
            "snapshots": [], "metadata-log": log,
        }  # fmt: skip
        file = Path(self.uri(number, tail))
        file.write_text(json.dumps(content))
        os.utime(file, (at.timestamp(), at.timestamp()))
        return str(file)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def behind(uri: str, *others: str) -> str | None:
    aims = [aim_at(Clients(), each) for each in (uri, *others)]
    assert aims[0] is not None
    return left_behind(Clients(), aims[0], [aim for aim in aims[1:] if aim], NOW)


def test_what_a_catalog_points_at_is_there_or_not(folder: Folder) -> None:
    sound = aim_at(Clients(), folder.put(1))
    assert sound is not None
    assert (sound.there, sound.metadata is not None) == (True, True)
    gone = aim_at(Clients(), folder.uri(2))
    assert gone is not None
    assert (gone.there, gone.metadata) == (False, None)
    torn = Path(folder.uri(3))
    torn.write_text("{")
    unread = aim_at(Clients(), str(torn))
    assert unread is not None
    assert (unread.there, unread.metadata) == (True, None)
    assert aim_at(Clients(), "hdfs://name/x") is None
    assert behind(folder.uri(2)) is None


def test_the_newest_state_and_a_commit_that_lost_its_race_leave_nothing_behind(folder: Folder) -> None:
    folder.put(1)
    folder.put(2, [1])
    newest = folder.put(3, [1, 2])
    assert behind(newest) is None
    folder.put(4, [1, 2, 3], tail="lost")  # written, and never committed
    assert behind(newest) is None
    folder.put(5, [4, 5], uuid="another table")
    assert behind(newest) is None
    folder.put(6, [3, 4, 5], at=NOW + timedelta(minutes=1))  # while the catalog was read
    assert behind(newest) is None


def test_a_state_that_others_were_built_on_is_left_behind(folder: Folder) -> None:
    first, second = folder.put(1), folder.put(2, [1])
    third = folder.put(3, [1, 2])
    assert behind(first) == third
    assert behind(second) is None
    fourth = folder.put(4, [1, 2, 3])
    assert behind(second) == fourth


def test_a_state_that_the_newer_one_has_forgotten_is_left_behind(folder: Folder) -> None:
    first = folder.put(1)
    later = folder.put(200, [198, 199])
    assert behind(first) == later
    assert behind(later) is None


def test_what_another_catalog_points_at_needs_one_step_alone(folder: Folder) -> None:
    first = folder.put(1)
    second = folder.put(2, [1])
    assert behind(first) is None
    assert behind(first, second) == second
    assert behind(second, first) is None
    foreign = folder.put(3, [1], uuid="another table")
    assert behind(first, foreign) is None

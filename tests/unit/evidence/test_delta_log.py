"""Which files make up a log, and from which state it is read."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.delta.log.earlier_states import MOST_COMMITS, earlier_state
from lakeaudit.evidence.manifest.delta.log.layout import Gap, Log, Plan, parse, plan
from lakeaudit.keys import Location

FOLDER = Location("lake", "orders/_delta_log")
NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def log(*names: str, **minutes: int) -> Log:
    """A log of files named in short: `3` a commit, `3c` a checkpoint, `3c1/2` a part of one, `3u` a V2 one."""
    return parse(
        FOLDER,
        [File(FOLDER.join(_full(n)), 1, NOON + timedelta(minutes=minutes.get(f"v{n}", 0))) for n in names],
    )


def _full(short: str) -> str:
    version, mark, part = short.partition("c") if "c" in short else short.partition("u")
    if not version.isdigit():
        return short
    if mark == "u":
        return f"{int(version):020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{part or 'json'}"
    if not mark:
        return f"{int(version):020}.json"
    parts = "".join(f".{int(number):010}" for number in part.split("/") if number)
    return f"{int(version):020}.checkpoint{parts}.parquet"


@pytest.mark.parametrize(
    ("files", "base", "commits", "gaps", "bridged"),
    [
        ("0", -1, "0", [], []),
        ("0 1 2 2c", -1, "0 1 2", [], []),
        ("10 10c 11 12", 10, "11 12", [], []),
        ("10c", 10, "", [], []),
        ("8 9 10 10c 11 20c", 20, "", [], [(12, 20)]),
        ("8 9 10 10c 11 12 12c 13", 10, "11 12 13", [], []),
        ("0 1 3 4", -1, "0 1 3 4", [(2, 2)], []),
        ("0 1 3 4 3c", 3, "4", [], [(2, 2)]),
        ("0 1 1c 3 4", 1, "3 4", [(2, 2)], []),
        ("0 3 4 8", -1, "0 3 4 8", [(1, 2), (5, 7)], []),
        ("5c1/2 5c2/2 6", 5, "6", [], []),
        ("0 1 1c1/2", -1, "0 1", [], []),
        ("5u 6", 5, "6", [], []),
        ("5uparquet 6", 5, "6", [], []),
        (
            "0 0.crc _last_checkpoint 00000000000000000000.00000000000000000002.compacted.json",
            -1,
            "0",
            [],
            [],
        ),
    ],
)
def test_a_log_is_read_from_the_oldest_state_without_a_gap(
    files: str, base: int, commits: str, gaps: list[tuple[int, int]], bridged: list[tuple[int, int]]
) -> None:
    chosen = plan(log(*files.split()))
    assert isinstance(chosen, Plan)
    assert chosen.base_version == base
    assert [*chosen.commits] == [int(version) for version in commits.split()]
    assert chosen.gaps == tuple(Gap(*gap) for gap in gaps)
    assert chosen.bridged == tuple(Gap(*gap) for gap in bridged)


@pytest.mark.parametrize("files", ["", "3 4 5", "5c1/2 6", "_last_checkpoint"])
def test_without_a_whole_state_there_is_no_plan(files: str) -> None:
    assert plan(log(*files.split())) is None


@pytest.mark.parametrize(
    ("files", "needed", "base"),
    [
        ("0 1 2 2c 3 4 4c 5", 0, -1),
        ("0 1 2 2c 3 4 4c 5", 1, -1),
        ("0 1 2 2c 3 4 4c 5", 2, 2),
        ("0 1 2 2c 3 4 4c 5", 9, 4),
        ("2 2c 3 4 4c 5", 1, 2),
        ("2 2c 4 4c 5", 9, 4),
        ("2 2c 3 4 4c 6", 2, 4),
    ],
)
def test_no_more_history_is_read_than_is_needed(files: str, needed: int, base: int) -> None:
    listed = log(*files.split(), **{f"v{version}": version for version in range(7)})
    chosen = plan(listed, needed=NOON + timedelta(minutes=needed))
    assert chosen is not None
    assert chosen.base_version == base
    assert [*chosen.commits] == [version for version in listed.commits if version > base]


def test_a_broken_checkpoint_is_passed_over() -> None:
    listed = log("5c", "6", "7", "7c", "8")
    broken = [FOLDER.join(_full("5c"))]
    assert [_reading_plan(listed), _reading_plan(listed, broken)] == [(0, [6, 7, 8]), (1, [8])]


def _reading_plan(listed: Log, broken: Sequence[Location] = ()) -> tuple[int, list[int]]:
    """Return the index of the checkpoint that a log is read from, and the commits after it."""
    chosen = plan(listed, broken)
    assert chosen is not None
    assert (chosen.newest, chosen.gaps) == (8, ())
    assert chosen.base is not None
    return listed.checkpoints.index(chosen.base), [*chosen.commits]


def test_parts_that_are_missing_are_named() -> None:
    listed = log("5c1/3", "5c3/3", "6")
    assert listed.lost_parts == {5: (FOLDER.join(_full("5c2/3")),)}


def test_a_name_that_claims_billions_of_parts_costs_nothing() -> None:
    (lost,) = log("0", "5c2/9999999999").lost_parts.values()
    assert lost[:2] == (FOLDER.join(_full("5c1/9999999999")), FOLDER.join(_full("5c3/9999999999")))
    assert len(lost) == 1000


def test_times_of_commits_only_grow() -> None:
    made = log("0", "1", "2", "3", v0=3, v1=1, v2=3, v3=9).commits_as_made
    at = NOON + timedelta(minutes=3)
    assert [time - at for _, _, time in made.files()] == [
        timedelta(0), timedelta(milliseconds=1), timedelta(milliseconds=2), timedelta(minutes=6)
    ]  # fmt: skip


@pytest.mark.parametrize(("files", "minutes"), [("0 1 1c", 0), ("4 4c 5", 4), ("4c 5", 6)])
def test_the_oldest_state_is_as_old_as_its_commit_else_as_its_checkpoint(files: str, minutes: int) -> None:
    listed = log(*files.split(), v4=4, v4c=6)
    chosen = plan(listed)
    assert chosen is not None
    assert listed.time_of(chosen.base) == NOON + timedelta(minutes=minutes)


def test_a_log_as_it_was() -> None:
    before = log("0", "1", "1c", "2", "2c1/2", "3").until(1)
    assert ([*before.commits], [c.version for c in before.checkpoints]) == ([0, 1], [1])
    assert before.lost_parts == {}


MANY = " ".join(map(str, range(MOST_COMMITS + 1)))


@pytest.mark.parametrize(
    ("files", "base", "expected"),
    [
        ("0 1 2 2c 3 4 4c 5", 4, (2, "3 4")),
        ("0 1 2 2c 3 4 4c 5", 2, (None, "0 1 2")),
        ("2c 3 4 4c 5", 4, (2, "3 4")),
        ("2c 3 4 4c 5", 2, None),  # nothing is older
        ("2c 4 4c 5", 4, None),  # commit 3 is gone
        ("1 2 2c", 2, None),  # commit 0 is gone
        ("0 1 1u 2 2c", 2, (None, "0 1 2")),  # entries of JSON are not summed up
        (f"{MANY} {MOST_COMMITS - 1}c", MOST_COMMITS - 1, (None, MANY.rpartition(" ")[0])),
        (f"{MANY} {MOST_COMMITS}c", MOST_COMMITS, None),  # more commits than are read for it
    ],
)
def test_a_checkpoint_is_compared_with_the_state_before_it(
    files: str, base: int, expected: tuple[int | None, str] | None
) -> None:
    listed = log(*files.split())
    (point,) = [point for point in listed.checkpoints[:] if point.version == base]
    found = earlier_state(listed, point, ())
    summary = found and (found.point and found.point.version, " ".join(map(str, found.commits)))
    assert summary == expected
    assert earlier_state(listed, None, ()) is None


def test_a_checkpoint_is_not_compared_with_one_that_cannot_be_read() -> None:
    listed = log("2c", "3", "4", "4c")
    older, point = listed.checkpoints[:]
    assert earlier_state(listed, point, older.places) is None

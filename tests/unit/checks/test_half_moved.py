"""Folders that hold the same files: which pairs are a rename that stopped half way, and which only look alike."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.folders import half_moved
from lakeaudit.config import Ignore, Table
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.keys import Location
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime import duck
from tests.builders.connections import connection

START = datetime(2026, 11, 1)  # noqa: DTZ001 - times inside an audit have no zone
STAMP = RunStamp("r", "shop", datetime(2026, 11, 20, tzinfo=UTC))
UUID = "0a1b2c3d-0000-4000-8000-{:012d}"
SPARK = [f"part-{n}-{UUID.format(n)}.csv" for n in range(3)]
OF_TWO_DAYS = {f"day={day}/{name}": name for day in (1, 2) for name in SPARK}

Pair = tuple[str, str, int]
FOLDERS: list[tuple[str, dict[str, str], list[Pair]]] = [
    ("a rename that has copied some files", {f"old/{n}": n for n in SPARK} | {f"new/{n}": n for n in SPARK[:2]},
     [("t/new/", "t/old/", 2)]),
    ("a rename that has deleted some files", {f"old/{n}": n for n in SPARK[:1]} | {f"new/{n}": n for n in SPARK},
     [("t/new/", "t/old/", 1)]),
    ("the younger folder comes first by name", {f"b/{n}": n for n in SPARK} | {f"a/{n}": n for n in SPARK},
     [("t/a/", "t/b/", 3)]),
    ("from a partition to another", OF_TWO_DAYS, [("t/day=2/", "t/day=1/", 3)]),
    ("two moves into one folder", {"a/" + SPARK[0]: "0", "b/" + SPARK[1]: "1", "c/" + SPARK[0]: "0",
     "c/" + SPARK[1]: "1"}, [("t/c/", "t/a/", 1), ("t/c/", "t/b/", 1)]),
    ("names that may repeat", {f"{at}/{n}.csv": n for at in ("stage", "final") for n in "abc"},
     [("t/final/", "t/stage/", 3)]),
    ("one such name alone", {"stage/a.csv": "a", "final/a.csv": "a"}, []),
    ("reference files that land every day", {f"2026/11/{d}/{n}.csv": n for d in (1, 2) for n in "abc"}, []),
    ("the same in partitions", {f"day={d}/{n}.csv": n for d in "xy" for n in "abc"}, []),
    ("carried on into every new partition", OF_TWO_DAYS | {f"day=3/{n}": n for n in SPARK}, []),
    ("other contents of the same size", {f"{at}/{n}": f"{at}{n}" for at in ("old", "new") for n in SPARK}, []),
    ("the same contents under other names", {f"{at}/{at}-{n}": n for at in ("old", "new") for n in SPARK}, []),
    ("copies within one folder", {f"old/{copy}-{n}": n for copy in (1, 2) for n in SPARK}, []),
]  # fmt: skip


def stored(path: str, content: str, hour: int) -> dict[str, Any]:
    """A candidate, written so many hours after the start."""
    folder, _, name = path.rpartition("/")
    return {
        "judged_table": "t",
        "bucket": "lake",
        "folder": f"t/{folder}",
        "name": name,
        "relative": path,
        "size": len(content),
        "content": content,
        "modified_at": START + timedelta(hours=hour),
    }


def pairs_and_tally(
    files: dict[str, str], ignores: tuple[Ignore, ...] = ()
) -> tuple[list[Pair], dict[str, int]]:
    """The findings (younger folder, older one, files), and what changes in the tally by outcome."""
    con = connection()
    rows = pa.Table.from_pylist([stored(*file, hour) for hour, file in enumerate(files.items())])
    spoken = finding_policy([Table(name="t", location=Location("lake", "t"))], ignores, STAMP.as_of.date())
    shares = [half_moved.pairs_of_folders(con, rows.filter(part), spoken) for part in _shares(rows)]
    moved = duck.hold(con, half_moved.half_moved(con, duck.union(con, shares), spoken))
    told = duck.rows_of(half_moved.findings(con, moved, STAMP))
    tally: dict[str, int] = {}
    for row in duck.rows_of(half_moved.tally_rows(con, moved)):
        tally[row["outcome"]] = tally.get(row["outcome"], 0) + row["files"]
    return sorted((row["key"], row["related_key"], row["files"]) for row in told), tally


def _shares(rows: pa.Table) -> list[Any]:
    """By name: all files of one name meet in one share."""
    names = rows["name"].to_pylist()
    return [pa.array([name == each for each in names]) for name in sorted(set(names))]


@pytest.mark.parametrize(("name", "files", "expected"), FOLDERS, ids=[name for name, _, _ in FOLDERS])
def test_pairs_of_folders(name: str, files: dict[str, str], expected: list[Pair]) -> None:
    pairs, tally = pairs_and_tally(files)
    number = sum(pair[2] for pair in expected)
    assert pairs == expected, name
    assert tally == ({"finding": number, "consistent": -number} if number else {})


def test_what_the_lake_file_ignores_is_counted_and_not_told() -> None:
    files = {f"{at}/{n}": n for at in ("old", "new") for n in SPARK}
    ignored = Ignore(paths=("new/**",), kinds=("half_moved",), reason="a backup")
    assert pairs_and_tally(files, (ignored,)) == ([], {"ignored": 3, "consistent": -3})

"""Which storage sources are read as one, and what then holds for them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakeaudit.evidence.protocol import Batches, EvidenceGap, Part, SnapshotWindow, SourceInfo, Stored
from lakeaudit.evidence.storage.united import united
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import NOTE

NIGHT = datetime(2026, 11, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def source(
    number: int, bucket: str, *, assumed: bool = True, start: datetime = NIGHT, margin: timedelta = DAY
) -> Stored:
    def read(con: Connection) -> Batches:
        yield "notes", duck.small(NOTE, [(f"storage:{number}", "a file", "torn", 1, None)])

    info = SourceInfo(
        f"storage:{number}", "storage", "s3_inventory", f"s3://inv/{number}", f"md5-{number}", None
    )
    return Stored(
        info=replace(info, cut=SnapshotWindow(start, start + DAY / 2, margin)),
        rows=(Part(info.id, read, 7),),
        covers=(Location(bucket, ""),),
        assumed_covers=assumed,
        holes=(EvidenceGap(info.id, "a data file is missing"),),
    )


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        pytest.param([source(0, "a"), source(1, "b")], ["storage:0", "storage:1"], id="two buckets"),
        pytest.param([source(0, "a"), source(1, "a")], ["storage:0"], id="one bucket"),
        pytest.param(
            [source(0, "a"), source(1, "a", assumed=False)],
            ["storage:0", "storage:1"],
            id="one names its places",
        ),
        pytest.param(
            [source(0, "b"), source(1, "a"), source(2, "b"), source(3, "a")],
            ["storage:0", "storage:1"],
            id="two of each",
        ),
    ],
)
def test_sources_that_assume_the_same_place_are_one(given: list[Stored], ids: list[str]) -> None:
    assert [read.info.id for read in united(given)] == ids


def test_one_alone_stays_as_it_is() -> None:
    given = [source(0, "a"), source(1, "b", assumed=False)]
    assert united(given) == given


def test_what_holds_for_reports_that_are_one() -> None:
    young, old = source(0, "a", start=NIGHT + DAY, margin=DAY), source(1, "a", start=NIGHT, margin=2 * DAY)
    (one,) = united([young, old])
    assert one.info.cut == SnapshotWindow(NIGHT, NIGHT + DAY * 1.5, 2 * DAY)
    assert one.info.location == "s3://inv/0, s3://inv/1"
    assert one.info.identity == "md5-0, md5-1"
    assert one.repeats
    assert [hole.source for hole in one.holes] == ["storage:0", "storage:0"]


def test_all_their_rows_are_of_the_one() -> None:
    (one,) = united([source(0, "a"), source(1, "a")])
    assert isinstance(one.rows, tuple)
    assert [(part.source, part.weight) for part in one.rows] == [("storage:0", 7), ("storage:0", 7)]
    with duck.task_connection("1GiB") as con:
        rows = [
            row
            for part in one.rows
            for _, batch in part.read(con)
            for row in duck.table(duck.relation(con, batch)).to_pylist()
        ]
    assert [row["source"] for row in rows] == ["storage:0", "storage:0"]

"""The sources that the reason of a table names."""

import pytest

from lakeaudit.findings.unread_sources import UnreadSource, causes_of_table
from lakeaudit.keys import Location

EAST = ("s3://inventories/daily/lake-east/all/", "east: no report")
WEST = ("s3://inventories/daily/lake-west/all/", "west: no report")
NORTH = ("s3://inventories/daily/lake-north/all/", "north: no report")
LISTING = ("s3://lake-west/warehouse/", "the listing was denied")
ALL = [EAST, NORTH, WEST]

CASES = [
    # the sources that could not be read, the table, the reasons that are named
    pytest.param(ALL, "s3://lake-west/warehouse/orders", "west: no report", id="the inventory of its bucket"),
    pytest.param([*ALL, LISTING], "s3://lake-west/warehouse/orders", "the listing was denied", id="its listing"),
    pytest.param([*ALL, LISTING], "s3://lake-west/raw/clicks", "west: no report; the listing was denied",
                 id="a listing of its bucket, but elsewhere"),
    pytest.param(ALL, "s3://other/orders", "east: no report; north: no report; and 1 more", id="no name fits"),
    pytest.param([], "s3://lake-west/orders", "", id="none"),
    pytest.param([("/data/", "x")], "/data/orders", "x", id="a local folder"),
]  # fmt: skip


@pytest.mark.parametrize(("sources", "table", "expected"), CASES)
def test_the_sources_of_a_table_come_first(sources: list[UnreadSource], table: str, expected: str) -> None:
    assert causes_of_table(sources, Location.parse(table)) == expected

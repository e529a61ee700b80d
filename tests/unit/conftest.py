"""A results place of the test's own, and a lake file that writes there."""

from pathlib import Path

import pytest

from lakeaudit.keys import Location
from tests.builders.results import lake_file


@pytest.fixture
def place(tmp_path: Path) -> Location:
    return Location.parse(str(tmp_path / "results"))


@pytest.fixture
def lake(tmp_path: Path, place: Location) -> str:
    return lake_file(tmp_path, place)

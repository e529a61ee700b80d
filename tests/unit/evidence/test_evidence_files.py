"""Small local files of the driver: an absent file is None, and a refused one raises an error."""

from pathlib import Path
from typing import Any

import pytest
from botocore.utils import parse_timestamp

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import folders, read_bytes
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_responses import timestamp


def at(path: Path) -> Location:
    return Location.parse(str(path))


def test_an_absent_file_is_null(tmp_path: Path) -> None:
    assert read_bytes(Clients(), at(tmp_path / "nothing")) is None
    assert read_bytes(Clients(), at(tmp_path)) is None
    assert folders(Clients(), at(tmp_path / "nothing")) == []


def test_what_is_refused_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SourceError, match="Permission denied"):
        read_bytes(Clients(), at(tmp_path / "file"))
    with pytest.raises(SourceError, match="Permission denied"):
        folders(Clients(), at(tmp_path))


@pytest.mark.parametrize(
    "written",
    [
        *(
            "2026-10-24T01:02:03.456Z",
            "2026-10-24T01:02:03Z",
            "20261024T010203Z",
            "2026-10-24T01:02:03+02:00",
        ),
        *("Sat, 24 Oct 2026 01:02:03 GMT", "Saturday, 24-Oct-26 01:02:03 GMT", "24 Oct 2026 01:02:03 GMT"),
        *(1793000000, 1793000000.5, "1793000000"),
    ],
)
def test_a_time_is_what_botocore_makes_of_it(written: Any) -> None:
    assert timestamp(written) == parse_timestamp(written)
    assert timestamp(written).utcoffset() is not None


def test_an_invalid_time_is_an_error() -> None:
    for written in ("yesterday", "Z", " GMT", "2026-13-01T00:00:00Z"):
        with pytest.raises(ValueError, match=r"(?i)timestamp|time"):
            timestamp(written)

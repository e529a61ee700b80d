"""The driver's few small files, locally: absent is none, refused is an error and never absent."""

from pathlib import Path

import pytest

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import folders, read_bytes
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients


def at(path: Path) -> Location:
    return Location.parse(str(path))


def test_what_is_absent_is_none(tmp_path: Path) -> None:
    assert read_bytes(Clients(), at(tmp_path / "nothing")) is None
    assert read_bytes(Clients(), at(tmp_path)) is None
    assert folders(Clients(), at(tmp_path / "nothing")) == []


def test_what_is_refused_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(Path, "read_bytes", refused)
    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(SourceError, match="Permission denied"):
        read_bytes(Clients(), at(tmp_path / "file"))
    with pytest.raises(SourceError, match="Permission denied"):
        folders(Clients(), at(tmp_path))

"""A disk without room ends an audit with exit code 14 and the name of the place."""

from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.errors import CannotPublish
from tests.builders.artefacts import KINDS
from tests.builders.resources import small_files


def test_results_on_a_full_disk_end_the_audit_with_14(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    KINDS["file list csv"].write_lake(tmp_path / "lake")
    with small_files(2 << 10):
        code = cli.main(["audit", str(tmp_path / "lake" / "lake.yaml"), "--live"])
    last = capsys.readouterr().err.splitlines()[-1]
    assert (code, f"{tmp_path}/lake/results" in last, "the disk is full" in last) == (14, True, True), last


def test_any_command_names_the_file_without_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "out.html"))

    monkeypatch.setattr("lakeaudit.commands.lake_text.open_lake", full)
    assert cli.main(["findings", str(tmp_path / "lake.yaml")]) == CannotPublish.exit_code
    assert f"{tmp_path}/out.html: the disk is full" in capsys.readouterr().err

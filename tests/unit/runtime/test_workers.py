"""Spark's archives leave the import path of the workers; what a user put there stays."""

import sys
import zipfile
from pathlib import Path

import pytest

from lakeaudit.runtime.python_worker import PRELOADED, leave_archives


def test_only_sparks_own_archives_leave_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "spark"
    (home / "lib").mkdir(parents=True)
    for archive in (home / "lib/pyspark.zip", home / "lib/core.jar", tmp_path / "mine.zip"):
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("org/readme", "")
    entries = [
        str(home / "lib/pyspark.zip"),
        str(home / "lib/core.jar"),
        str(tmp_path / "mine.zip"),
        str(home / "lib"),
    ]
    searched = {f"{entries[1]}/org": object(), entries[2]: object()}
    monkeypatch.setattr(sys, "path", list(entries))
    monkeypatch.setattr(sys, "path_importer_cache", dict(searched))
    monkeypatch.setitem(sys.modules, "org", object())
    leave_archives(str(home))
    assert sys.path == entries[2:]
    assert list(sys.path_importer_cache) == entries[2:3]
    assert "org" not in sys.modules


def test_what_is_imported_beforehand_exists() -> None:
    assert all(__import__(module) for module in PRELOADED)

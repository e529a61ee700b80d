"""A kind of evidence in a wheel of its own: built, installed beside lakeaudit, and audited by the command line."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders.wheel import ROOT, bare_python

PROJECT = ROOT / "tests" / "other_wheel"
DAYS = timedelta(days=30).total_seconds()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("other_wheel")
    source = shutil.copytree(PROJECT, folder / "source")
    uv = str(Path(sys.executable).with_name("uv"))
    quiet = ("--quiet", "--offline", "--python")
    build = (uv, "build", "--wheel", "--no-build-isolation", "--out-dir", str(folder / "dist"))
    subprocess.run([*build, *quiet, sys.executable], cwd=source, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    python = bare_python(folder / "environment")
    packages = Path(python).parents[1] / "lib"
    packages.joinpath(
        f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages", "own.pth"
    ).write_text(f"{ROOT / 'jobs'}\n")
    install = (uv, "pip", "install", "--no-deps", "--no-index")
    subprocess.run([*install, *quiet, str(python), str(wheel)], check=True)
    return python


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake file, and a table of which storage lost one file."""
    table = tmp_path / "table"
    table.mkdir()
    (tmp_path / "list.txt").write_text("kept.csv 4\nlost.csv 4\n")
    (table / "kept.csv").write_bytes(b"PAR1")
    (table / "stray.csv").write_bytes(b"PAR1")
    for path in (tmp_path / "list.txt", *table.iterdir()):
        old = path.stat().st_mtime - DAYS
        os.utime(path, (old, old))
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: other\nresults: {tmp_path / 'results'}\n"
        f"inventories: [{{kind: listing, location: {table}}}]\n"
        f"tables:\n- name: t\n  location: {table}\n"
        f"  manifests: [{{kind: path_list, location: {tmp_path / 'list.txt'}}}]\n"
    )
    return file


def lakeaudit(python: Path, *lines: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run commands one after the other in one process; the last line that it prints holds their exit codes."""
    code = (
        "import json, sys; from lakeaudit.cli import main\n"
        "print([main(line) for line in json.loads(sys.argv[1])])"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(python), "-c", code, json.dumps(lines)], env=clean, capture_output=True, text=True, check=False
    )


def test_the_page_shows_the_whole_package() -> None:
    page = (ROOT / "docs" / "add-a-kind.md").read_text("utf-8")
    for name in ("pyproject.toml", "lakeaudit_path_lists/__init__.py", "lakeaudit_path_lists/reader.py"):
        assert f"\n{(PROJECT / name).read_text('utf-8')}```\n" in page


@pytest.mark.variant
def test_a_kind_of_another_wheel_is_audited(installed: Path, lake: Path) -> None:
    run = lakeaudit(installed, ["audit", str(lake), "--live"], ["findings", str(lake), "--format", "jsonl"])
    assert (run.returncode, run.stdout.splitlines()[-1:]) == (0, ["[1, 0]"]), run.stdout + run.stderr
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    found = sorted((row["kind"], Path(row["key"]).name) for row in rows)
    assert found == [("dropped", "lost.csv"), ("unreferenced", "table")], run.stdout + run.stderr

"""The built wheel as `--py-files` gives it to Python: a zip on the import path, and nothing else of the package."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.builders.wheel import ROOT


def run(python: Path, code: str, cache: Path, *path: Path) -> "subprocess.CompletedProcess[str]":
    """Some code with these entries on the import path, in a folder that holds nothing."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env = clean | {"PYTHONPATH": os.pathsep.join(map(str, path)), "LAKEAUDIT_CACHE": str(cache)}
    return subprocess.run(
        [str(python), "-c", code], cwd=cache, env=env, capture_output=True, text=True, check=False
    )


def test_the_wheel_holds_every_module_and_every_file_that_is_read(wheel: Path) -> None:
    package = ROOT / "jobs" / "lakeaudit"
    linked = (package / "gates" / "expectations").resolve().iterdir()
    wanted = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {f"lakeaudit/gates/expectations/{path.name}" for path in linked}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("lakeaudit/")}
    assert held == wanted


def test_without_the_wheel_there_is_no_lakeaudit(python: Path, tmp_path: Path) -> None:
    assert "No module named 'lakeaudit'" in run(python, "import lakeaudit", tmp_path).stderr


READS = """
import os, sys
from importlib import resources
import lakeaudit
assert lakeaudit.__file__.startswith({wheel!r}), lakeaudit.__file__

from lakeaudit.gates.expectation_suites import SUITES, check
assert sorted(file.name for file in SUITES.iterdir()) == ["findings.json", "ledger.json", "sources.json"]
source = dict(subject="a", readable=False, age_of_max=0.3, unreadable_share=0.0, share_of_before=1.0)
assert [broken.severity for broken in check("sources", [source])] == ["warning"]
unused = {{"altair.vegalite", "scipy.stats._stats_py", "sqlalchemy", "pyspark"}}
assert not unused & sys.modules.keys(), "no gate uses them"
import sqlalchemy, pyspark  # others may use them

from lakeaudit.runtime.jars import pins
assert len(pins()) == 40

from lakeaudit.runtime.spark_settings import log_configuration
assert "rootLogger.level" in log_configuration(os.environ).read_text()

from lakeaudit.report.environment import asset, environment, style
assert environment().get_template("page.html.j2")
assert style().text and asset("page.js").text

from lakeaudit.demo.scenario import LAKE_FILE
assert resources.files("lakeaudit.demo").joinpath(LAKE_FILE).read_text()

with resources.as_file(resources.files("lakeaudit.dashboard").joinpath("app.py")) as app:
    compile(app.read_text(), "app.py", "exec")

from lakeaudit.runtime.python_worker import PRELOADED
for module in PRELOADED:
    __import__(module)
print("all read")
"""


@pytest.mark.soak
def test_all_that_the_package_reads_is_read_from_the_zip(wheel: Path, python: Path, tmp_path: Path) -> None:
    done = run(python, READS.format(wheel=str(wheel)), tmp_path, wheel)
    assert (done.stdout, done.returncode) == ("all read\n", 0), done.stderr


def test_the_command_starts_from_the_zip(wheel: Path, python: Path, tmp_path: Path) -> None:
    code = "import sys; from lakeaudit.cli import main; sys.exit(main(['doctor', 'nowhere.yaml']))"
    done = run(python, code, tmp_path, wheel)
    assert done.returncode == 2, done.stderr
    assert "nowhere.yaml" in done.stderr


BROUGHT_ALONG = {
    "botocore",
    "py4j",
    "numpy",
    "markupsafe",
    "altair",
    "pydantic_core",
    "thrift",
    "typing_extensions",
    "shellingham",
}
"""Imported packages that come with a declared requirement."""


OPTIONAL = {"polars"}
"""Packages of the user's environment: without one, the method that needs it names it."""


def test_the_wheel_asks_for_whatever_the_package_imports(wheel: Path) -> None:
    """A package that only the tests' environment has would be missed first on a cluster."""
    with zipfile.ZipFile(wheel) as packed:
        (metadata,) = (name for name in packed.namelist() if name.endswith("METADATA"))
        lines = packed.read(metadata).decode().splitlines()
    asked = {named[1] for line in lines if (named := re.match(r"Requires-Dist: ([\w-]+)", line))}
    modules = {name for path in (ROOT / "jobs").rglob("*.py") for name in imported(path)}
    foreign = modules - sys.stdlib_module_names - BROUGHT_ALONG - OPTIONAL - {"lakeaudit"}
    known = packages_distributions()
    brought = {name: {each.lower().replace("_", "-") for each in known.get(name, [])} for name in foreign}
    assert {name for name, packages in brought.items() if not packages & asked} == set()


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node; expressions are skipped: they hold no import and are most of the tree."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from statements(child)


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level packages that a module imports; type stubs do not count as packages."""
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        yield from (name.partition(".")[0] for name in names if not name.startswith(("mypy_", "_")))

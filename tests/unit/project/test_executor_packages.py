"""docs/deploy.md names every package that executors import, and no other: derived from the code that runs in tasks."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from lakeaudit.runtime.python_worker import PRELOADED
from tests.unit.project.test_architecture import MODULES, imports, module_of, nodes_in
from tests.unit.project.test_wheel import BROUGHT_ALONG

DEPLOY = Path(__file__).parents[3] / "docs" / "deploy.md"
TASK_CALLS = {"map", "keep", "meet", "run"}
"""Methods of an engine: the functions that they receive run in tasks."""
PACKAGES = {"hive_metastore": "pyiceberg", "yaml": "pyyaml"}
"""Distributions whose name is not that of the module, or that carry a module of another project."""


def hands_over_work(call: ast.Call) -> bool:
    """Whether a call builds a part or passes functions to an engine."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "Part"
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in TASK_CALLS:
        return False
    return ast.unparse(call.func.value).rpartition(".")[2] == "engine"


def task_modules() -> set[str]:
    """Modules that hand functions to tasks, which unpickle them by the module's name, and what workers preload."""
    callers = {
        module
        for module in MODULES
        for node in nodes_in(module)
        if isinstance(node, ast.Call) and hands_over_work(node)
    }
    return callers | {name for name in PRELOADED if name in MODULES}


def imported_names(roots: set[str]) -> Iterator[str]:
    """Names that the modules, and all that they import, take from other projects."""
    pending, visited = list(roots), set()
    while pending:
        module = pending.pop()
        if module in visited:
            continue
        visited.add(module)
        for name in imports(module):
            if name.partition(".")[0] != "lakeaudit":
                yield name.partition(".")[0]
            elif known := module_of(name):
                pending.append(known)


def executor_packages() -> set[str]:
    """Distributions that executors import, without those that another of them, or Spark, brings along."""
    names = {*imported_names(task_modules()), *(name.partition(".")[0] for name in PRELOADED)}
    foreign = names - sys.stdlib_module_names - BROUGHT_ALONG - {"lakeaudit", "pyspark"}
    known = packages_distributions()
    return {PACKAGES.get(name) or known[name][0].lower().replace("_", "-") for name in foreign}


def test_deploy_names_the_packages_of_executors() -> None:
    (row,) = re.findall(r"^\| Python packages of executors \| ([^|]+) \|", DEPLOY.read_text(), re.MULTILINE)
    assert set(re.findall(r"`([a-z0-9-]+)(?:\[[a-z]+\])?`", row)) == executor_packages()


def test_parts_and_stages_are_among_the_code_of_tasks() -> None:
    found = task_modules()
    assert {
        "lakeaudit.evidence.manifest.delta.state.parts",
        "lakeaudit.evidence.storage.inventory.reader",
        "lakeaudit.evidence.manifest.hudi.state.readings",
        "lakeaudit.engine.encoded_chunks",
        "lakeaudit.audit.kernel",
        "lakeaudit.checks.selections",
    } <= found
    assert "lakeaudit.cli" not in found

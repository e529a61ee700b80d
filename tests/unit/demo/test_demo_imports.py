"""The breaker must not be able to make the audit's mistakes, so it may not use a line of the audit."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lakeaudit.demo.breaker as breaker

FOLDER = Path(breaker.__file__).parent
MODULES = sorted(FOLDER.glob("*.py"))
ALLOWED = {"boto3", "botocore", "mypy_boto3_dynamodb", "mypy_boto3_s3"} | set(sys.stdlib_module_names)


def imported(module: Path) -> set[str]:
    """Full names of everything a module imports, wherever the import stands."""
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    relative = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level]
    assert not relative
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_module_of_the_breaker_uses_boto3_the_standard_library_and_its_own_kind(module: Path) -> None:
    others = {name for name in imported(module) if not name.startswith("lakeaudit.demo.breaker")}
    assert {name.partition(".")[0] for name in others} <= ALLOWED


def loaded_by(names: str) -> set[str]:
    code = f"import sys, {names}; print(*(name for name in sys.modules if name.startswith('lakeaudit')))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(asked.stdout.split())


def test_importing_the_breaker_loads_nothing_of_the_audit() -> None:
    more = loaded_by("lakeaudit.demo.breaker") - loaded_by("lakeaudit.demo")
    assert more == {name for name in more if name.startswith("lakeaudit.demo.breaker")} != set()

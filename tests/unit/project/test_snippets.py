"""Every snippet of the documents: shell lines parse as the command line does, Python runs, YAML loads."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from lakeaudit.cli import frame
from lakeaudit.config import load_lake
from lakeaudit.evidence import registry
from tests.other_wheel.lakeaudit_path_lists import KIND

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md"))
DOCUMENTS = (*PAGES, *sorted((ROOT / "docs").glob("*.md")))
SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("recorded(", "spark_writes(")
"""Calls in snippets that need a server or a session: sources/test_recorder.py and spark/test_event_logs.py run them."""
OTHERS = ("pip", "kubectl", "python3")
"""Programs whose arguments may be the name lakeaudit."""
WHOLE_FILE = re.compile(r"^version: 1$", re.MULTILINE)
MINIMUM = ("version: 1\n", "lake: shop\n", "results: s3://audit-results/shop\n")
TABLES = "tables: [{name: sales.orders, location: s3://lake/warehouse/orders, manifests: [{kind: delta}]}]\n"
INVENTORIES = "inventories: [{kind: s3_inventory, location: s3://inventories/lake/daily/}]\n"


@pytest.fixture(autouse=True)
def example_kind() -> Iterator[None]:
    """The kind that docs/add-a-kind.md adds."""
    registry.register(KIND)
    yield
    registry.unregister(KIND)


def snippets(language: str) -> Iterator[Any]:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for found in SNIPPET.finditer(text):
            if (
                document.name == "python.md" and language == "python"
            ):  # test_python_interface.py runs all together
                continue
            if found[1] == language and not any(call in found[2] for call in ELSEWHERE):
                line = text[: found.start()].count("\n") + 2
                yield pytest.param(found[2], id=f"{document.name}:{line}")


def commands(script: str) -> Iterator[list[str]]:
    """The lines of a script that call lakeaudit, as words after its name."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        calls = [at for at, word in enumerate(words) if word.rpartition("/")[2] == "lakeaudit"]
        if calls and words[0] not in OTHERS and words[:2] != ["podman", "build"]:
            ends = [at for at, word in enumerate(words) if word in ("|", ">", ">>", "&&", "||", ";", "&")]
            yield words[calls[0] + 1 : min((end for end in ends if end > calls[0]), default=None)]
        elif "spark-submit" in words and "jobs/audit.py" in words:
            yield ["audit", *words[words.index("jobs/audit.py") + 1 :]]


SCRIPTS = list(snippets("sh"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_line_of_a_shell_snippet_is_one_that_the_command_line_takes(script: str) -> None:
    group = typer.main.get_command(frame.app)
    for words in commands(script):
        filled = [re.sub(r"\$\{?\w+\}?", "x", word) for word in words]
        name, command, rest = group.resolve_command(group.make_context("lakeaudit", filled), filled)  # type: ignore[attr-defined]
        command.make_context(name, rest)


def test_there_are_shell_snippets_that_call_lakeaudit() -> None:
    assert sum(len(list(commands(script.values[0]))) for script in SCRIPTS) > 20


@pytest.mark.parametrize("script", list(snippets("python")))
def test_a_python_snippet_runs(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places in S3 are local ones here; nothing else is changed."""
    monkeypatch.chdir(tmp_path)
    tree = ast.parse(script)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("s3://"):
            node.value = str(tmp_path / node.value.removeprefix("s3://"))
    exec(compile(tree, "snippet", "exec"), {"__name__": "snippet"})
    written = [path for path in tmp_path.rglob("*.jsonl") if path.is_file()]
    assert all(json.loads(line) for path in written for line in path.read_text().splitlines())
    assert written or "emit" not in script


@pytest.mark.parametrize("text", list(snippets("yaml")))
def test_a_yaml_snippet_loads(text: str, tmp_path: Path) -> None:
    """A whole lake file as it is; a part of one with what is missing added."""
    given = yaml.safe_load(text)
    if WHOLE_FILE.search(text):
        whole = text
    else:
        missing = [part for part in (*MINIMUM, TABLES, INVENTORIES) if not _names(part) & set(given)]
        profiles = {name: {"grace": "1h"} for name in re.findall(r"\bprofile: (\w+)", text)}
        if profiles and "profiles" not in given:
            missing.append(f"profiles: {json.dumps(profiles)}\n")
        whole = "".join(missing) + text
    file = tmp_path / "lake.yaml"
    file.write_text(whole, encoding="utf-8")
    assert load_lake(file, _Anything()).name


def _names(part: str) -> set[str]:
    return set(yaml.safe_load(part))


class _Anything(dict[str, str]):
    """An environment in which every variable is set."""

    def __missing__(self, name: str) -> str:
        return "x"

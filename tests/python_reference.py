"""Write docs/python-reference.md from the docstrings: `python -m tests.python_reference`."""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import lakeaudit
from lakeaudit.api.checked import Checked
from lakeaudit.api.explained import Explained
from lakeaudit.api.guarded import Guarded
from lakeaudit.api.verified import VerifiedTables
from lakeaudit.commands.status import CommandResult

PAGE = Path(__file__).parents[1] / "docs" / "python-reference.md"
HEAD = (
    "# Python: reference\n\n"
    "For people who use lakeaudit from Python. This page lists every public function, class and method. It is "
    "generated from the\ndocstrings (`python -m tests.python_reference`). [Python](python.md) is the introduction. "
    "`Names` is one name, or a sequence of names.\n\n"
)
FUNCTIONS = (lakeaudit.open, lakeaudit.scan)
CLASSES: tuple[type, ...] = (
    *(lakeaudit.LakeHandle, lakeaudit.AuditRun, lakeaudit.Frame, lakeaudit.RepairPlan),
    *(Explained, Checked, VerifiedTables, Guarded, CommandResult, lakeaudit.AuditError),
)
_SECTION = re.compile(r"(Args|Attributes|Raises|Returns):")
_HIDDEN = ("noqa", "lakeaudit.", "collections.abc.", "datetime.", "typing.")


def reference() -> str:
    """Return the text of the page."""
    return HEAD + "\n".join([*_functions(), *(line for each in CLASSES for line in _class(each))]) + "\n"


def _functions() -> Iterator[str]:
    for function in FUNCTIONS:
        yield from _entry("##", f"lakeaudit.{function.__name__}", function)


def _class(described: type) -> Iterator[str]:
    yield f"## {described.__name__}\n"
    yield from _text(described)
    for name, member in vars(described).items():
        is_property = isinstance(member, property | cached_property)
        if name.startswith("_") or not (callable(member) or is_property) or not inspect.getdoc(member):
            continue
        if is_property:
            yield f"### {name}\n"
            yield from _text(member)
        else:
            yield from _entry("###", name, member)


def _entry(rank: str, name: str, function: Any) -> Iterator[str]:
    yield f"{rank} {name}\n"
    yield f"```text\n{name.rpartition('.')[2]}{_signature(function)}\n```\n"
    yield from _text(function)


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    text = str(signature.replace(parameters=[p for n, p in signature.parameters.items() if n != "self"]))
    for module in _HIDDEN:
        text = re.sub(rf"{re.escape(module)}(?:\w+\.)*", "", text)
    text = text.replace("str | Sequence[str]", "Names").replace("pyarrow.lib.", "pa.")
    return text if len(text) < 110 else text.replace(", *, ", ",\n     *, ", 1)


def _text(described: Any) -> Iterator[str]:
    """Yield the docstring; its sections become lists."""
    for block in (inspect.getdoc(described) or "").split("\n\n"):
        head, *rest = block.split("\n")
        if _SECTION.fullmatch(head):
            yield f"{head}\n"
            yield from (f"- {_as_code(item)}" for item in _items(rest))
            yield ""
        else:
            yield f"{' '.join(block.split())}\n"


def _items(lines: list[str]) -> list[str]:
    """Return the items of a section; a deeper line continues its item."""
    items: list[str] = []
    for line in lines:
        if line.startswith("     "):
            items[-1] += f" {line.strip()}"
        else:
            items.append(line.strip())
    return items


def _as_code(item: str) -> str:
    name, _, text = item.partition(": ")
    return f"`{name}`: {text}"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")

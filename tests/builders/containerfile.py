"""Reads a Containerfile as stages of steps: the instructions that ours uses, and no others."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"
_KNOWN = ("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "RUN", "USER", "WORKDIR")


@dataclass(frozen=True)
class Step:
    """One instruction and its text."""

    name: str
    text: str

    @property
    def arguments(self) -> list[str]:
        """The elements of a list in JSON, else the words as a shell splits them."""
        found: list[str] = json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)
        return found

    @property
    def pairs(self) -> dict[str, str]:
        """The variables of ENV or ARG."""
        return {name: value for name, _, value in (word.partition("=") for word in self.arguments)}

    @property
    def copied(self) -> tuple[str | None, list[str], str]:
        """(stage, sources, target) of COPY; no stage: from the clone."""
        *options, target = self.arguments
        stages = [word.removeprefix("--from=") for word in options if word.startswith("--from=")]
        return next(iter(stages), None), [word for word in options if not word.startswith("--")], target


@dataclass(frozen=True)
class Stage:
    base: str
    name: str
    steps: tuple[Step, ...]

    def steps_of(self, name: str) -> list[Step]:
        return [step for step in self.steps if step.name == name]


def stages(text: str) -> list[Stage]:
    """The stages of a Containerfile, in order."""
    found: list[Stage] = []
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n", " ", plain).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            base, *alias = rest.split(" AS ")
            found.append(Stage(base, "".join(alias), ()))
        elif name:
            if name not in _KNOWN:
                raise ValueError(f"unknown instruction: {line}")
            last = found.pop()
            found.append(Stage(last.base, last.name, (*last.steps, Step(name, rest.strip()))))
    return found

"""The descriptions of properties and columns, from the TOML files of this package."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

EVERYWHERE = "*"
"""The section whose descriptions hold for every owner that has none of its own."""


@dataclass(frozen=True)
class Texts:
    """Descriptions by owner (a table, a block or a type) and property."""

    sections: Mapping[str, Mapping[str, str]]

    def of(self, name: str, *owners: str) -> str | None:
        """Return the description of a property: that of the first owner that has one; None: there is none."""
        for owner in (*owners, EVERYWHERE):
            if name in self.sections.get(owner, {}):
                return self.sections[owner][name]
        return None


@cache
def texts(name: str) -> Texts:
    """Read `NAME.toml` of this package."""
    content = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return Texts(tomllib.loads(content))

"""Reads the descriptions of columns, properties and keys, which documents, JSON Schemas and Delta comments share."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import pyarrow as pa

from lakeaudit.schemas import LEDGER, RESULT_SCHEMAS

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
    """Read `NAME.toml` of the package `documents`, without an import of that package."""
    file = resources.files("lakeaudit").joinpath("documents", f"{name}.toml")
    return Texts(tomllib.loads(file.read_text(encoding="utf-8")))


def describe(table: str, column: str) -> str:
    """Return the description of a column.

    Raises:
        KeyError: `columns.toml` does not describe it.
    """
    owners = (table, "findings") if table == "discrepancies" and column not in LEDGER.names else (table,)
    text = texts("columns").of(column, *owners)
    if text is None:
        raise KeyError(f"{table}.{column}")
    return text


@cache
def commented(table: str) -> pa.Schema:
    """Return the columns of a result table with their descriptions as comments, where Delta and engines look for them.

    Raises:
        KeyError: `columns.toml` does not describe a column.
    """
    return pa.schema([_commented(table, field) for field in RESULT_SCHEMAS[table]])


def _commented(owner: str, field: pa.Field) -> pa.Field:
    inner = field.type.value_type if pa.types.is_list(field.type) else None
    if inner is not None and pa.types.is_struct(inner):
        of_element = [_commented(f"{owner}.{field.name}", each) for each in inner]
        field = field.with_type(pa.list_(pa.struct(of_element)))
    return field.with_metadata({"comment": describe(owner, field.name)})

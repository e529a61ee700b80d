"""JSON Schemas of types: typed dictionaries, dataclasses and the models of the lake file, with descriptions."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from pydantic import TypeAdapter

from lakeaudit.config import lake_schema
from lakeaudit.descriptions import texts
from lakeaudit.documents.rows import TIME, Schema, nullable
from lakeaudit.documents.values import OF_KEYS, OF_PROPERTIES, values_of

NULL = {"type": "null"}
_OFFSET_TIME = {"type": "string", "format": "date-time"}
_TIMES = {"as_of": TIME, "cut_from": TIME, "cut_to": TIME, "verified_through": TIME} | dict.fromkeys(
    ("eventTime", "startsAt", "endsAt"), _OFFSET_TIME
)
"""Schemas of times; every property whose name ends in `_at` is a time, too."""


def described_lake_schema() -> Schema:
    """Return the schema of the lake file with a description of every key."""
    schema = lake_schema()
    for owner, node in _objects(schema, "LakeFile"):
        for name, key in node["properties"].items():
            key.pop("title", None)
            _describe(key, texts("lake").of(name, owner))
    return schema


def type_schema(type_: Any) -> Schema:
    """Return the schema of a document of this type, whose objects may have further properties.

    Raises:
        KeyError: `documents.toml` does not describe a property.
    """
    schema = TypeAdapter(type_).json_schema(mode="serialization")
    for owner, node in _objects(schema, getattr(type_, "__name__", "")):
        node["properties"] = {
            name: property_schema(owner, name, key) for name, key in node["properties"].items()
        }
        node["description"] = node["description"].partition("\n\n")[0].replace("\n", " ")
        node["additionalProperties"] = True
        if is_dataclass(type_):
            node["required"] = list(node["properties"])  # `asdict` leaves no field out
        node.pop("title", None)
    return schema


def _objects(schema: Schema, name: str) -> Iterator[tuple[str, Schema]]:
    """Yield the objects of a schema with the names of their types."""
    for owner, node in [(name, schema), *schema.get("$defs", {}).items()]:
        if "properties" in node:
            yield owner, node


def property_schema(owner: str, name: str, given: Schema) -> Schema:
    """Return the schema of a property with its description and values; null last. Raises as `type_schema`."""
    text = texts("documents").of(name, owner)
    if text is None:
        raise KeyError(f"{owner}.{name}")
    branches = [branch for branch in given.get("anyOf", [given]) if branch != NULL]
    schema = {key: value for key, value in branches[0].items() if key not in ("title", "default")}
    if schema.get("type") == "string" and (name.endswith("_at") or name in _TIMES):
        schema |= _TIMES.get(name, TIME)
    _limit(schema, owner, name)
    if "anyOf" in given:
        schema = nullable(schema)
    _describe(schema, text)
    return schema


def _limit(schema: Schema, owner: str, name: str) -> None:
    """Add the values of a property, of its elements or of its keys."""
    if values := values_of(OF_PROPERTIES, owner, name):
        schema.get("items", schema)["enum"] = list(values)
    if keys := OF_KEYS.get(f"{owner}.{name}"):
        schema["propertyNames"] = {"enum": list(keys)}


def _describe(schema: Schema, text: str | None) -> None:
    if text is not None:
        schema["description"] = text

"""conf/example.yaml loads, names every key of the lake file, and the schema knows the same keys."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from lakeaudit.config import lake_schema, load_lake
from lakeaudit.config.field_types import Severity, SeverityOrOff
from lakeaudit.config.file import LakeFile
from lakeaudit.config.lake import settings
from lakeaudit.config.sources import Source
from lakeaudit.config.validation_errors import keys_of, models_in
from lakeaudit.evidence.registry import ROLES
from lakeaudit.kinds import SEVERITIES

EXAMPLE = Path(__file__).parents[3] / "conf" / "example.yaml"


def blocks(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if model not in seen:
        seen.add(model)
        yield model
        for annotation in keys_of(model).values():
            for inner in models_in(annotation):
                yield from blocks(inner, seen)


MODELS = list(blocks(LakeFile, set()))


def mappings(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from mappings(inner)


def test_the_example_names_every_kind() -> None:
    lake = load_lake(EXAMPLE, {})
    assert {each.kind for each in lake.inventories} == set(ROLES["inventories"])
    assert {each.kind for each in lake.metastores} == set(ROLES["metastores"])
    assert {each.kind for table in lake.tables for each in table.manifests} == set(ROLES["manifests"])


@pytest.mark.parametrize(
    "path", sorted(EXAMPLE.parents[1].glob("docs/lakes/*.yaml")), ids=lambda path: path.stem
)
def test_the_lake_file_of_another_store_loads(path: Path) -> None:
    load_lake(path, {})
    assert path.stem in (EXAMPLE.parents[1] / "docs" / "evidence-storage.md").read_text(encoding="utf-8")


def test_the_defaults_of_the_example_are_the_defaults() -> None:
    assert load_lake(EXAMPLE, {}).settings == settings()


def test_every_key_of_every_block_stands_in_the_example() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    written = list(mappings(yaml.safe_load(text)))
    instead = set(re.findall(r"^ *# ([a-z_]+): \S+ +# instead of", text, re.MULTILINE))
    for model in MODELS:
        keys = set(keys_of(model))
        kind = get_args(model.model_fields["kind"].annotation) if "kind" in keys else ()
        own = [each for each in written if not kind or each.get("kind") in kind]
        shared = set(keys_of(Source)) if issubclass(model, Source) else set()
        assert keys <= shared | instead | {key for each in own for key in each}, model.__name__
    assert all(any(key in each and "kind" in each for each in written) for key in keys_of(Source))


def test_the_schema_knows_the_keys_of_every_block() -> None:
    schema = lake_schema()
    found = {"LakeFile": set(schema["properties"])} | {
        name: set(block["properties"]) for name, block in schema["$defs"].items()
    }
    assert found == {model.__name__: set(keys_of(model)) for model in MODELS}
    assert schema["additionalProperties"] is False
    assert all(block["additionalProperties"] is False for block in schema["$defs"].values())
    assert set(schema["required"]) == {"version", "lake", "results", "tables"}


def test_the_schema_is_plain_json_schema() -> None:
    known = {
        "$schema",
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
    }
    known |= {
        "exclusiveMinimum",
        "format",
        "items",
        "maximum",
        "maxItems",
        "minimum",
        "minItems",
        "minLength",
    }
    known |= {"oneOf", "pattern", "properties", "propertyNames", "required", "title", "type"}
    assert keywords(lake_schema()) <= known


def keywords(node: Any) -> set[str]:
    """The keywords of a schema; below `properties` and `$defs` stand names, below `default` values."""
    if isinstance(node, list):
        return {word for item in node for word in keywords(item)}
    if not isinstance(node, dict):
        return set()
    below = [
        *(inner for name in ("properties", "$defs") for inner in node.get(name, {}).values()),
        *(inner for name, inner in node.items() if name not in ("properties", "$defs", "default")),
    ]
    return {*node, *keywords(below)}


def test_words_agree_with_the_severities() -> None:
    assert get_args(Severity) == SEVERITIES
    assert get_args(SeverityOrOff) == (*SEVERITIES, "off")

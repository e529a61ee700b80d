"""docs/schemas and docs/result-columns.md are what the code writes, and a version keeps what programs rely on."""

import copy
import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from lakeaudit.documents import DOCUMENTS, document_schema
from tests.builders import schema_files
from tests.builders.schema_files import (
    COLUMNS,
    SCHEMAS,
    Schema,
    breaking_changes,
    columns_page,
    schema_file,
    schema_text,
)

ROOT = COLUMNS.parents[1]
ADVICE = "run `make schemas`"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_published_schema_is_that_of_the_code(name: str) -> None:
    published = schema_file(name).read_text("utf-8")
    assert breaking_changes(json.loads(published), document_schema(name)) == [], (
        f"raise the version of {name}"
    )
    assert published == schema_text(name), ADVICE


def test_the_page_of_the_columns_is_that_of_the_code() -> None:
    assert COLUMNS.read_text("utf-8") == columns_page(), ADVICE


def test_every_version_of_a_schema_stays_published() -> None:
    versions = {
        schema_file(name, version)
        for name, each in DOCUMENTS.items()
        for version in range(1, each.version + 1)
    }
    assert {*SCHEMAS.glob("*.json")} == versions
    for path in versions:
        name, version = path.stem.split(".v")
        assert json.loads(path.read_text("utf-8"))["$id"] == f"urn:lakeaudit:schema:{name}:{version}"


def test_the_index_names_every_schema() -> None:
    index = (SCHEMAS / "README.md").read_text("utf-8")
    named = re.findall(r"^\| \[(\w+)\]\((\S+)\) \| (.+) \|$", index, re.MULTILINE)
    assert named == [(name, schema_file(name).name, each.title) for name, each in DOCUMENTS.items()]


@pytest.mark.parametrize(
    "path",
    [ROOT / "conf" / "example.yaml", *sorted((ROOT / "docs" / "lakes").glob("*.yaml"))],
    ids=lambda path: path.stem,
)
def test_the_schema_of_the_lake_file_accepts_the_examples(path: Path) -> None:
    lake = json.loads(json.dumps(yaml.safe_load(path.read_text("utf-8")), default=date.isoformat))
    check = Draft202012Validator(document_schema("lake"))
    assert [error.message for error in check.iter_errors(lake)] == []
    assert not check.is_valid(lake | {"tabels": []})
    assert not check.is_valid({key: value for key, value in lake.items() if key != "lake"})


OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": ["integer", "null"]},
        "c": {"type": "string", "enum": ["x", "y"]},
        "d": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
        "e": {"type": "object", "additionalProperties": {"type": "integer"}},
        "f": {"type": "string", "pattern": "Z$"},
    },
    "required": ["a", "b", "c"],
    "additionalProperties": True,
    "$defs": {"Inner": {"type": "object", "properties": {"i": {"type": "number"}}, "required": ["i"]}},
}
INPUT = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": "^s3:"},
        "b": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
    },
    "required": ["a"],
    "additionalProperties": False,
}


def removed(*path: str) -> Callable[[Any], None]:
    def change(schema: Any) -> None:
        for each in path[:-1]:
            schema = schema[each]
        schema.remove(path[-1]) if isinstance(schema, list) else schema.pop(path[-1])

    return change


def replaced(value: Any, *path: str) -> Callable[[Any], None]:
    def change(schema: Any) -> None:
        for each in path[:-1]:
            schema = schema[each]
        schema[path[-1]] = value

    return change


P = "properties"


@pytest.mark.parametrize(
    ("schema", "change", "expected"),
    [
        (OUTPUT, replaced("Other words.", P, "a", "description"), []),
        (OUTPUT, replaced({"type": "string"}, P, "new"), []),
        (OUTPUT, replaced(["x", "y", "z"], P, "c", "enum"), []),
        (OUTPUT, removed(P, "a"), [".a: was removed"]),
        (OUTPUT, replaced({"type": "integer"}, P, "a"), [".a: has another type"]),
        (OUTPUT, replaced("integer", P, "b", "type"), [".b: has another type"]),
        (OUTPUT, replaced(["string", "null"], P, "a", "type"), [".a: has another type"]),
        (OUTPUT, replaced(["x"], P, "c", "enum"), [".c: has fewer values"]),
        (OUTPUT, replaced(["s"], P, "a", "enum"), [".a: has fewer values"]),
        (OUTPUT, removed("required", "a"), [".a: may be absent now"]),
        (OUTPUT, removed("$defs", "Inner", P, "i"), [".d[].i: was removed"]),
        (OUTPUT, replaced("string", "$defs", "Inner", P, "i", "type"), [".d[].i: has another type"]),
        (OUTPUT, replaced({"type": "string"}, P, "e", "additionalProperties"), [".e{}: has another type"]),
        (OUTPUT, replaced("[+]00:00$", P, "f", "pattern"), [".f: has another form"]),
        (INPUT, replaced({"type": "string"}, P, "new"), []),
        (INPUT, replaced("^(s3|gs):", P, "a", "pattern"), []),
        (INPUT, removed("required", "a"), []),
        (INPUT, removed(P, "a"), [".a: was removed"]),
        (INPUT, replaced(["a", "b"], "required"), [".b: is required now"]),
        (INPUT, replaced([{"type": "string"}], P, "b", "anyOf"), [".b<boolean>: was removed"]),
    ],
)  # fmt: skip
def test_which_changes_need_a_new_version(
    schema: Schema, change: Callable[[Any], None], expected: list[str]
) -> None:
    changed = copy.deepcopy(schema)
    change(changed)
    assert breaking_changes(schema, changed) == expected


def test_a_new_required_key_of_the_lake_file_needs_a_new_version() -> None:
    changed = copy.deepcopy(INPUT)
    changed[P]["new"] = {"type": "string"}  # type: ignore[index]
    changed["required"] = ["a", "new"]
    assert breaking_changes(INPUT, changed) == [".new: is required now"]


def test_a_change_that_needs_a_new_version_does_not_overwrite_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_files, "SCHEMAS", tmp_path)
    monkeypatch.setattr(schema_files, "COLUMNS", tmp_path / "columns.md")
    schema_files.write()
    assert (tmp_path / "columns.md").read_text("utf-8") == columns_page()
    audit = schema_file("audit")
    older = json.loads(audit.read_text("utf-8"))
    older[P]["former"] = {"type": "string"}
    audit.write_text(json.dumps(older))
    with pytest.raises(
        SystemExit, match=r"audit\.v1\.json: \.former: was removed\. Raise the version of audit"
    ):
        schema_files.write()
    assert "former" in audit.read_text("utf-8")

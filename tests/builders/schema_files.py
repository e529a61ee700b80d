"""The published JSON Schemas in docs/schemas and the page of the columns; `make schemas` writes them from the code."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from lakeaudit.descriptions import describe
from lakeaudit.documents import DOCUMENTS, document_schema
from lakeaudit.documents.rows import is_nullable, row_schema
from lakeaudit.schemas import LEDGER, RESULT_SCHEMAS, SOURCE_OF_RUN

Schema = dict[str, Any]

DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = DOCS / "schemas"
COLUMNS = DOCS / "result-columns.md"


def schema_file(name: str, version: int | None = None) -> Path:
    """The file of a version of a schema; by default of the present one."""
    return SCHEMAS / f"{name}.v{DOCUMENTS[name].version if version is None else version}.json"


def schema_text(name: str) -> str:
    """The content of the file, as `lakeaudit schema NAME` prints it."""
    return json.dumps(document_schema(name), indent=2) + "\n"


def validator(schema: Schema) -> Draft202012Validator:
    """A validator that also rejects properties that the schema does not name."""
    return Draft202012Validator(_closed(schema))


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    return closed | ({"additionalProperties": False} if "properties" in node else {})


@dataclass(frozen=True)
class Shape:
    """What a reader of a document relies on at one path."""

    types: frozenset[str]
    values: frozenset[Any] | None
    required: bool
    form: tuple[Any, ...]


def shapes(schema: Schema) -> dict[str, Shape]:
    """Return the shape of every path of a schema: properties by name, `[]` elements, `{}` values, `<>` branches."""
    return dict(_shapes(schema, schema, "", required=True))


def _shapes(schema: Schema, node: Schema, path: str, *, required: bool) -> Iterator[tuple[str, Shape]]:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    values = node.get("enum", [node["const"]] if "const" in node else None)
    types = node.get("type", ())
    form = (node.get("pattern"), node.get("format"), str(node.get("propertyNames")))
    yield path, Shape(
        frozenset([types] if isinstance(types, str) else types),
        None if values is None else frozenset(values), required, form,
    )  # fmt: skip
    for where, child, needed in _children(schema, node):
        yield from _shapes(schema, child, path + where, required=needed)


def _children(schema: Schema, node: Schema) -> Iterator[tuple[str, Schema, bool]]:
    for name, child in node.get("properties", {}).items():
        yield f".{name}", child, name in node.get("required", ())
    for keyword, where in (
        ("items", "[]"),
        ("additionalProperties", "{}"),
        ("then", "<then>"),
        ("else", "<else>"),
    ):
        if isinstance(node.get(keyword), dict):
            yield where, node[keyword], False
    for keyword in ("anyOf", "oneOf"):
        for number, child in enumerate(node.get(keyword, ())):
            yield f"<{_branch(schema, child, number)}>", child, False


def _branch(schema: Schema, child: Schema, number: int) -> str:
    """Name a branch by the kind of its block, else by its type, so that the order of branches does not matter."""
    name = child.get("$ref", "").rpartition("/")[2]
    kind = schema.get("$defs", {}).get(name, {}).get("properties", {}).get("kind", {})
    return str(kind.get("const") or name or child.get("type") or number)


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Return the paths at which a document of the new schema may break a program that relies on the old one.

    The lake file is read by lakeaudit, so there a new required key breaks existing files, and a wider form does not.
    """
    before, after = shapes(old), shapes(new)
    is_input = new.get("additionalProperties") is False
    changed = [
        f"{path}: {what}"
        for path, shape in before.items()
        if (what := _change(shape, after.get(path), is_input))
    ]
    added = [path for path in after.keys() - before.keys() if is_input and _is_demanded(path, before, after)]
    return changed + [f"{path}: is required now" for path in sorted(added)]


def _is_demanded(path: str, before: Mapping[str, Shape], after: Mapping[str, Shape]) -> bool:
    return after[path].required and path.rpartition(".")[0] in before


def _change(old: Shape, new: Shape | None, is_input: bool) -> str | None:
    if new is None:
        return "was removed"
    if new.types != old.types:
        return "has another type"
    if (old.values is None and new.values is not None) or (
        old.values and old.values - (new.values or old.values)
    ):
        return "has fewer values"
    if new.required != old.required and (new.required or not is_input):
        return "is required now" if new.required else "may be absent now"
    return "has another form" if new.form != old.form and not is_input and _is_narrower(old, new) else None


def _is_narrower(old: Shape, new: Shape) -> bool:
    """Whether more than new names of keys differ."""
    return new.form[:2] != old.form[:2]


_HEAD = """# The columns of the result tables

For people who query the result tables. After reading this page you know the type, the unit and the meaning of every
column. The queries are in [questions.md](questions.md); the rows as JSON Schemas are in
[schemas](schemas/README.md).

`make schemas` writes this page from the code (`jobs/lakeaudit/documents/columns.toml`). A time is in UTC with its zone,
in microseconds. *never* in the column *null* means that every row has a value. In all other columns null means unknown
or not applicable, never zero.
"""

_TYPES = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean", "array": "list"}


def columns_page() -> str:
    """The page that explains every column of every result table."""
    return "\n".join([_HEAD, *(line for table in RESULT_SCHEMAS for line in _section(table))])


def _section(table: str) -> Iterator[str]:
    yield from (f"## {table}", "", *_table(table, _own_columns(table)), "")
    if table == "discrepancies":
        yield from (
            "The table also has all columns of [findings](#findings) except `run_id` and `as_of_date`.",
            "",
        )
    if table == "runs":
        yield from (
            "An element of `sources` has these fields:",
            "",
            *_table("runs.sources", SOURCE_OF_RUN.names),
            "",
        )


def _own_columns(table: str) -> list[str]:
    return list(LEDGER.names if table == "discrepancies" else RESULT_SCHEMAS[table].names)


def _table(table: str, columns: list[str]) -> Iterator[str]:
    yield from ("| column | type | null | meaning |", "|---|---|---|---|")
    properties = _properties(table)
    for name in columns:
        null = "" if is_nullable(table, name) else "never"
        yield f"| `{name}` | {_type_name(properties[name])} | {null} | {describe(table, name)} |"


def _properties(table: str) -> Schema:
    whole: Schema = row_schema(table.partition(".")[0])["properties"]
    return whole["sources"]["items"]["properties"] if table == "runs.sources" else whole


def _type_name(schema: Schema) -> str:
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {"date-time": "time", "date": "day"}.get(schema.get("format", ""), _TYPES[types[0]])


def write() -> None:
    """Write all files; refuse a change that needs a new version.

    Raises:
        SystemExit: a property was removed or changed, and the version of the schema is the same.
    """
    SCHEMAS.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        path = schema_file(name)
        if path.exists() and (
            changes := breaking_changes(json.loads(path.read_text("utf-8")), document_schema(name))
        ):
            raise SystemExit(
                f"{path.name}: {'; '.join(changes)}. Raise the version of {name} in lakeaudit.documents"
            )
        path.write_text(schema_text(name), encoding="utf-8")
    COLUMNS.write_text(columns_page(), encoding="utf-8")


if __name__ == "__main__":
    write()

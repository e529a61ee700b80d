"""The JSON Schemas of the documents accept what the code writes, and reject every other value of a property."""

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lakeaudit import cli
from lakeaudit.config.schema import DIALECT
from lakeaudit.descriptions import describe, texts
from lakeaudit.documents import DOCUMENTS, document_schema
from lakeaudit.documents.rows import is_nullable
from lakeaudit.documents.values import OF_COLUMNS, OF_KEYS, OF_PROPERTIES, values_of
from lakeaudit.explain.formats.lists import write_jsonl
from lakeaudit.schemas import DISCREPANCIES, FINDINGS, LEDGER, RESULT_SCHEMAS, SOURCE_OF_RUN
from tests.builders.listings import listing
from tests.builders.results import NOON, discrepancy, finding
from tests.builders.schema_files import Schema, shapes, validator

SCHEMAS = {name: document_schema(name) for name in DOCUMENTS}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_has_a_version_a_title_and_describes_every_property(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert (schema["$schema"], schema["$id"]) == (
        DIALECT,
        f"urn:lakeaudit:schema:{name}:{DOCUMENTS[name].version}",
    )
    assert schema["title"]
    assert DOCUMENTS[name].promise in schema["description"]
    described = [(path, text) for path, text in properties_of(schema)]
    assert described
    assert [path for path, text in described if not text.endswith(".") or text.count(". ")] == []


def properties_of(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the description of every property."""
    if isinstance(node, list):
        for each in node:
            yield from properties_of(each, path)
    if isinstance(node, dict):
        for name, child in node.get("properties", {}).items():
            yield f"{path}.{name}", child.get("description", "")
        for name, child in node.items():
            yield from properties_of(child, f"{path}/{name}")


def test_descriptions_are_of_existing_columns() -> None:
    columns = {table: {*schema.names} for table, schema in RESULT_SCHEMAS.items()} | {
        "runs.sources": {*SOURCE_OF_RUN.names}
    }
    columns["discrepancies"] = {*LEDGER.names}
    columns["*"] = {name for names in columns.values() for name in names}
    assert {
        table: {*texts("columns").sections[table]} - names
        for table, names in columns.items()
        if table in texts("columns").sections
    } == {table: set() for table in texts("columns").sections}


@pytest.mark.parametrize("file", ["lake", "documents"])
def test_descriptions_are_of_existing_properties(file: str) -> None:
    names = ["lake"] if file == "lake" else [name for name in DOCUMENTS if name != "lake"]
    known: dict[str, set[str]] = {"*": set()}
    for name in names:
        root = {"LakeFile": SCHEMAS[name]} if file == "lake" else {_type_of(name): SCHEMAS[name]}
        for owner, node in {**root, **SCHEMAS[name].get("$defs", {})}.items():
            known.setdefault(owner, set()).update(node.get("properties", ()))
            known["*"].update(node.get("properties", ()))
    unknown = {
        (owner, each)
        for owner, section in texts(file).sections.items()
        for each in {*section} - known.get(owner, set())
    }
    assert unknown == set()


def _type_of(name: str) -> str:
    return {
        "audit": "AuditSummary",
        "explain": "Explanation",
        "scan": "ScanSummary",
        "check": "CheckSummary",
        "guard": "GuardSummary",
        "verified": "VerifiedSummary",
        "certificate": "CertificateStatement",
        "openlineage": "LineageEvent",
        "webhook": "WebhookMessage",
    }.get(name, "")


@pytest.mark.parametrize("table", RESULT_SCHEMAS)
def test_every_column_states_its_unit_and_its_values(table: str) -> None:
    """A column has a unit if its name says so."""
    for column in RESULT_SCHEMAS[table].names:
        text = describe(table, column)
        if RESULT_SCHEMAS[table].field(column).type == pa.int64() and ("bytes" in column or "size" in column):
            assert "in bytes" in text, column
        if column != "axis" and not column.endswith("severity"):
            values = values_of(OF_COLUMNS, table, column)
            assert len(values) > 10 or [value for value in values if str(value) not in text] == [], column
        if RESULT_SCHEMAS[table].field(column).type == pa.timestamp("us", "UTC"):
            assert text.startswith(("Time", "Start of the time", "End of the time")), column


def test_values_are_of_existing_columns_and_properties() -> None:
    columns = {
        name
        for table, schema in RESULT_SCHEMAS.items()
        for column in schema.names
        for name in (column, f"{table}.{column}")
    }
    columns |= {f"runs.sources.{name}" for name in SOURCE_OF_RUN.names}
    assert {*OF_COLUMNS} <= columns
    properties = {path.rpartition(".")[2] for schema in SCHEMAS.values() for path in shapes(schema)}
    assert {path.rpartition(".")[2] for path in (*OF_PROPERTIES, *OF_KEYS)} <= properties


def examples(schema: Schema) -> list[Any]:
    """Return a document of each type that a schema describes."""
    types = schema.get("anyOf") or [schema[branch] for branch in ("then", "else") if branch in schema]
    return [example(schema, each) for each in types or [schema]]


def example(schema: Schema, node: Schema) -> Any:
    """Return a document with all properties, each with its first value."""
    if "$ref" in node:
        return example(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    if "enum" in node or "const" in node:
        return node.get("const", node.get("enum", [None])[0])
    if "anyOf" in node:
        return example(schema, node["anyOf"][0])
    type_ = node["type"][0] if isinstance(node["type"], list) else node["type"]
    if type_ == "object":
        return {name: example(schema, each) for name, each in node.get("properties", {}).items()} | _entry(
            schema, node
        )
    if type_ == "array":
        return [example(schema, node["items"])]
    plain = {"string": "text", "integer": 7, "number": 0.5, "boolean": True}
    return _TIMES.get(node.get("format", ""), plain[type_])


_TIMES = {"date-time": "2026-11-21T12:00:00Z", "date": "2026-11-21"}


def _entry(schema: Schema, node: Schema) -> dict[str, Any]:
    values = node.get("additionalProperties")
    names = node.get("propertyNames", {}).get("enum", ["entry"])
    return {names[0]: example(schema, values)} if isinstance(values, dict) else {}


OUTPUTS = [name for name in DOCUMENTS if name != "lake"]
WRONG = {str: 7, int: "7", float: "0.5", bool: "true", list: "text", dict: "text", type(None): {"no": 1}}


def mutants(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every document in which one property is missing or has a value of another type."""
    if isinstance(node, list):
        for where, child in mutants(node[0], f"{path}[]") if node else ():
            yield where, [child]
    if not isinstance(node, dict):
        return
    for name, value in node.items():
        yield f"{path}.{name} missing", {key: each for key, each in node.items() if key != name}
        yield f"{path}.{name} of another type", node | {name: WRONG[type(value)]}
        for where, child in mutants(value, f"{path}.{name}"):
            yield where, node | {name: child}


ENTRY = r".*\.entry|.*\.(findings|actions)\.\w+|.*\.severities\.critical|.*\.states\.pending"
MAY_BE_MISSING = {
    "status": r"\.(plan|plan_id|digest|steps|for_person|actions|counts)",
    "alertmanager": r"\[\]\.generatorURL",
    "webhook": r"\.open\.critical|.*\.recoverable\.yes",
    "guard": r".counts.live|.safe_list",
    "openlineage": r".*\.dataQualityMetrics\.(fileCount|bytes)|\.run\.facets\.parent",
}
"""Patterns of the paths of properties and entries that may be missing."""


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_missing_property_and_another_type_are_rejected(name: str) -> None:
    check = Draft202012Validator(SCHEMAS[name])
    for document in examples(SCHEMAS[name]):
        assert [error.message for error in check.iter_errors(document)] == []
        tried = list(mutants(document))
        assert len(tried) > 7
        accepted = {what for what, mutant in tried if check.is_valid(mutant)}
        may_be_missing = re.compile(rf"({ENTRY}|{MAY_BE_MISSING.get(name, ENTRY)}) missing")
        assert {what for what in accepted if not may_be_missing.fullmatch(what)} == set()


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_unknown_property_is_accepted(name: str) -> None:
    for document in examples(SCHEMAS[name]):
        further = [{**document[0], "new": 1}] if isinstance(document, list) else {**document, "new": 1}
        assert Draft202012Validator(SCHEMAS[name]).is_valid(further)
        assert not validator(SCHEMAS[name]).is_valid(further)


LOST = finding(
    "dropped", "orders/a", manifest_time=NOON, manifest_size=5, recoverable="yes", recovery="older_version"
)


def as_line(row: dict[str, Any], columns: list[str]) -> Any:
    out = io.StringIO()
    write_jsonl([{name: row.get(name) for name in columns}], out, listing())
    return json.loads(out.getvalue())


@pytest.mark.parametrize(
    ("change", "is_valid"),
    [
        ({}, True),
        ({"table_name": None}, True),
        ({"recoverable": None}, True),
        ({"manifest_time": "2026-11-21T12:00:00.123456Z"}, True),
        ({"severity": "fatal"}, False),
        ({"severity": None}, False),
        ({"kind": "lost"}, False),
        ({"axis": "contents"}, False),
        ({"recoverable": "maybe"}, False),
        ({"manifest_size": "5"}, False),
        ({"manifest_size": 5.5}, False),
        ({"manifest_time": "2026-11-21 12:00"}, False),
        ({"manifest_time": "2026-11-21T12:00:00+01:00"}, False),
        ({"as_of_date": "2026-11-21T00:00:00Z"}, False),
        ({"subject": None}, False),
    ],
    ids=str,
)
def test_values_of_a_finding(change: dict[str, Any], is_valid: bool) -> None:
    row = as_line(LOST, FINDINGS.names) | change
    assert Draft202012Validator(SCHEMAS["findings"]).is_valid(row) is is_valid


@pytest.mark.parametrize(
    ("change", "is_valid"),
    [
        ({}, True),
        ({"ack_until": "2027-06-01T00:00:00Z", "ack_by": "me", "ack_reason": "known"}, True),
        ({"state": "closed"}, False),
        ({"resolution": "repaired"}, False),
        ({"reopened": "1"}, False),
    ],
    ids=str,
)
def test_values_of_a_discrepancy(change: dict[str, Any], is_valid: bool) -> None:
    row = as_line(discrepancy(LOST), DISCREPANCIES.names) | change
    assert Draft202012Validator(SCHEMAS["discrepancies"]).is_valid(row) is is_valid


TIME = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
BY_TYPE: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.timestamp("us", "UTC"): TIME,
    pa.date32(): st.dates(date(1970, 1, 1), date(2100, 1, 1)),
}


def column(table: str, field: pa.Field) -> st.SearchStrategy[Any]:
    values = values_of(OF_COLUMNS, table, field.name)
    known = st.sampled_from(values) if values else BY_TYPE[field.type]
    return st.none() | known if is_nullable(table, field.name) else known


def rows(table: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: column(table, field) for field in RESULT_SCHEMAS[table]})


@given(rows("findings"))
def test_every_row_of_findings_is_valid(row: dict[str, Any]) -> None:
    assert validator(SCHEMAS["findings"]).is_valid(as_line(row, FINDINGS.names))


@given(rows("discrepancies"))
def test_every_row_of_the_ledger_is_valid(row: dict[str, Any]) -> None:
    assert validator(SCHEMAS["discrepancies"]).is_valid(as_line(row, DISCREPANCIES.names))


def test_the_command_prints_the_lake_files_schema_any_other_and_all_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, expected in (([], SCHEMAS["lake"]), (["lake"], SCHEMAS["lake"]), (["plan"], SCHEMAS["plan"])):
        assert cli.main(["schema", *words]) == 0
        assert json.loads(capsys.readouterr().out) == expected
    assert cli.main(["schema", "--list"]) == 0
    assert capsys.readouterr().out.split() == [*DOCUMENTS]
    assert cli.main(["schema", "plans"]) == 2
    assert capsys.readouterr().err.strip() == (
        f"lakeaudit: plans: is not the name of a schema; one of {', '.join(DOCUMENTS)}"
    )

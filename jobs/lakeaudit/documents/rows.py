"""JSON Schemas of the rows of result tables, from their Arrow schemas."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakeaudit.descriptions import describe
from lakeaudit.documents.values import OF_COLUMNS, values_of
from lakeaudit.schemas import RESULT_SCHEMAS

Schema = dict[str, Any]

TIME: Schema = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$",
}
DAY: Schema = {"type": "string", "format": "date", "pattern": r"^\d{4}-\d\d-\d\d$"}

_FINDING = ("lake", "axis", "kind", "severity", "subject_type", "subject", "discrepancy_id")
_NEVER_NULL: Mapping[str, tuple[str, ...]] = {
    "runs": ("run_id", "lake", "as_of", "started_at", "status"),
    "runs.sources": ("role", "kind", "location"),
    "coverage": ("run_id", "lake", "table_name", "axis", "status"),
    "leftover_files": ("run_id", "lake", "kind", "bucket", "key", "discrepancy_id"),
    "commits": ("run_id", "lake", "table_name", "manifest_kind"),
    "states": ("run_id", "lake", "table_name", "manifest_kind", "as_of", "standing"),
    "findings": ("run_id", "as_of_date", *_FINDING),
    "transitions": ("transition_id", "lake", "discrepancy_id", "transition", "at"),
    "discrepancies": (
        "state", "first_seen_at", "last_evidence_at", "first_run_id", "last_run_id", *_FINDING,
    ),
    "verified": ("run_id", "lake", "table_name", "location", "as_of", "movement", "open_discrepancies", "blocked_by"),
    "tables": ("lake", "table_name"),
    "notices": ("notice_id", "lake", "receiver", "fingerprint", "kind", "status", "attempts", "made_at"),
    "plans": ("plan_id", "lake", "digest", "created_at", "expires_at", "status", "steps", "for_person"),
    "actions": ("plan_id", "lake", "action_id", "batch", "action", "status"),
}  # fmt: skip
"""Columns that have a value in every row. Delta does not enforce it: the tables allow null everywhere."""


def row_schema(table: str) -> Schema:
    """Return the schema of a row of a result table, as JSON Lines have it."""
    return _object(table, RESULT_SCHEMAS[table])


def is_nullable(table: str, column: str) -> bool:
    """Return whether a column may be null."""
    return column not in _NEVER_NULL[table]


def _object(table: str, columns: Iterator[pa.Field] | pa.Schema) -> Schema:
    fields = list(columns)
    return {
        "type": "object",
        "properties": {field.name: _property(table, field) for field in fields},
        "required": [field.name for field in fields],
        "additionalProperties": True,
    }


def _property(table: str, field: pa.Field) -> Schema:
    schema: Schema = {
        "description": describe(table, field.name),
        **_type(f"{table}.{field.name}", field.type),
    }
    if values := values_of(OF_COLUMNS, table, field.name):
        schema["enum"] = list(values)
    return nullable(schema) if is_nullable(table, field.name) else schema


def _type(path: str, type_: pa.DataType) -> Schema:
    if pa.types.is_list(type_):
        inner = type_.value_type
        return {
            "type": "array",
            "items": _object(path, inner) if pa.types.is_struct(inner) else _type(path, inner),
        }
    return next(dict(schema) for is_type, schema in _TYPES if is_type(type_))


_TYPES = (
    (pa.types.is_string, {"type": "string"}),
    (pa.types.is_integer, {"type": "integer"}),
    (pa.types.is_floating, {"type": "number"}),
    (pa.types.is_boolean, {"type": "boolean"}),
    (pa.types.is_timestamp, TIME),
    (pa.types.is_date, DAY),
)


def nullable(schema: Schema) -> Schema:
    """Return the schema of a property that may also be null."""
    values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return schema | {"type": [schema["type"], "null"]} | values

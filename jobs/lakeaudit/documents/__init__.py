"""The published JSON Schemas (2020-12) of the documents of lakeaudit, made from the code's own types and constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.config.schema import DIALECT
from lakeaudit.documents.models import described_lake_schema, property_schema, type_schema
from lakeaudit.documents.rows import row_schema
from lakeaudit.errors import BadInput
from lakeaudit.explain.explanation import Explanation
from lakeaudit.json_documents import (
    AuditSummary,
    CertificateStatement,
    CheckSummary,
    CommandFailure,
    CommandOutcome,
    FindingTotal,
    GuardSummary,
    LineageEvent,
    PostedAlert,
    ScanSummary,
    VerifiedSummary,
    WebhookMessage,
)
from lakeaudit.reconcile.plans.plan_file import Header
from lakeaudit.reconcile.steps import Step

Schema = dict[str, Any]

PROMISE = (
    "A version may get further properties and values; if a property is removed or changed, the version rises."
)
_ORDER = (
    *("type", "items", "properties", "required", "additionalProperties"),
    *("if", "then", "else", "anyOf", "$defs"),
)
"""Keywords of a schema after its head; the definitions come last."""


@dataclass(frozen=True)
class Document:
    """A kind of document: its title, the function that builds its schema, and the version of the schema."""

    title: str
    build: Callable[[], Schema]
    version: int = 1
    promise: str = PROMISE


def _status() -> Schema:
    return type_schema(AuditSummary | CommandOutcome | CommandFailure)


def _plan() -> Schema:
    """A line is the header, which names the version of the format, or a step."""
    return {
        "$defs": {"Header": type_schema(Header), "Step": type_schema(Step)},
        "type": "object",
        "if": {"required": ["lakeaudit_plan"]},
        "then": {"$ref": "#/$defs/Header"},
        "else": {"$ref": "#/$defs/Step"},
    }


_ROWS_OF_EXPLANATION = {
    "findings": "findings",
    "groups": "findings",
    "coverage": "coverage",
    "discrepancies": "discrepancies",
    "history": "transitions",
}


def _explanation() -> Schema:
    schema = type_schema(Explanation)
    properties, defs = schema["properties"], schema["$defs"]
    defs |= {table: row_schema(table) for table in ("runs", *dict.fromkeys(_ROWS_OF_EXPLANATION.values()))}
    defs["FindingTotal"] = type_schema(FindingTotal)
    for name, table in _ROWS_OF_EXPLANATION.items():
        properties[name]["items"] = {"$ref": f"#/$defs/{table}"}
    schema["required"].append("unknown")
    properties["unknown"] = property_schema("Explanation", "unknown", {"type": "boolean"})
    properties["totals"]["items"] = {"$ref": "#/$defs/FindingTotal"}
    properties["run"] = {
        "description": properties["run"]["description"],
        "anyOf": [{"$ref": "#/$defs/runs"}, {"type": "null"}],
    }
    return schema


DOCUMENTS: Mapping[str, Document] = {
    "lake": Document(
        "lakeaudit lake file", described_lake_schema, promise="A key that is not named here is an error."
    ),
    "audit": Document("Output of `lakeaudit audit --format json`", lambda: type_schema(AuditSummary)),
    "status": Document("Status file of a command (`--status-file`)", _status),
    "findings": Document("Line of `lakeaudit findings --format jsonl`", lambda: row_schema("findings")),
    "discrepancies": Document(
        "Line of `lakeaudit discrepancies --format jsonl`", lambda: row_schema("discrepancies")
    ),
    "explain": Document("Output of `lakeaudit explain --format json`", _explanation),
    "scan": Document("Output of `lakeaudit scan --format json`", lambda: type_schema(ScanSummary)),
    "check": Document("Output of `lakeaudit check --format json`", lambda: type_schema(CheckSummary)),
    "verified": Document(
        "Output of `lakeaudit verified --format json`", lambda: type_schema(VerifiedSummary)
    ),
    "guard": Document("Output of `lakeaudit guard --format json`", lambda: type_schema(GuardSummary)),
    "certificate": Document(
        "Payload of a signed certificate; `#/$defs/Certificate` is an unsigned one",
        lambda: type_schema(CertificateStatement),
    ),
    "plan": Document("Line of a plan of `lakeaudit reconcile plan`", _plan),
    "openlineage": Document("Body of a request to `openlineage_url_env`", lambda: type_schema(LineageEvent)),
    "alertmanager": Document("Body of a request to Alertmanager", lambda: type_schema(list[PostedAlert])),
    "webhook": Document("Body of a request to a webhook", lambda: type_schema(WebhookMessage)),
}
"""By name, as `lakeaudit schema NAME` prints them."""


def document_schema(name: str) -> Schema:
    """Return the JSON Schema of a document.

    Raises:
        BadInput: there is no document of this name.
    """
    if name not in DOCUMENTS:
        raise BadInput(name, "is not the name of a schema", f"one of {', '.join(DOCUMENTS)}")
    document = DOCUMENTS[name]
    schema = document.build()
    about = " ".join(filter(None, (schema.pop("description", "").strip(), document.promise)))
    head = {
        "$schema": DIALECT,
        "$id": f"urn:lakeaudit:schema:{name}:{document.version}",
        "title": document.title,
        "description": about,
    }
    return head | {key: schema[key] for key in _ORDER if key in schema}

"""The JSON Schema of the lake file, for editors and for `lakeaudit schema`."""

from typing import Any

from lakeaudit.config.file import LakeFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NULL = {"type": "null"}


def lake_schema() -> dict[str, Any]:
    """Return the JSON schema of the lake files that this version reads."""
    schema = _without_null(LakeFile.model_json_schema(by_alias=True, mode="validation"))
    return {"$schema": DIALECT, **schema, "title": "lakeaudit lake file"}


def _without_null(node: Any) -> Any:
    """Remove null from a schema: a key without a value is invalid in the file, and null only means a missing key."""
    if isinstance(node, list):
        return [_without_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _without_null(item) for key, item in node.items() if item is not None}
    branches = kept.get("anyOf", [])
    if NULL in branches:
        kept["anyOf"] = [branch for branch in branches if branch != NULL]
    return kept

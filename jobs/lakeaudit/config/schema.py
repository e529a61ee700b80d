"""The JSON Schema of the lake file, for editors and for `lakeaudit schema`."""

from typing import Any

from lakeaudit.config.file import LakeFile


def lake_schema() -> dict[str, Any]:
    """What this version reads; kinds that are not built yet are not in it."""
    schema = LakeFile.model_json_schema(by_alias=True, mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "lakeaudit lake file",
    }

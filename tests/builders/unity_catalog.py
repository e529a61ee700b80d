"""A stand-in for Unity Catalog: the lists of its open API (version 2.1) over real HTTP. No real catalog is at hand.

Like Databricks it rejects list requests without `max_results`.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.builders.rest_catalog import Answer, Params, RestCatalog

ROOT = "/api/2.1/unity-catalog/"


@dataclass
class UnityCatalog(RestCatalog):
    """Tables as `TableInfo` has them, by catalog, schema and name."""

    infos: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)

    def content(self, path: str, params: Params) -> Answer:
        catalog, schema = params.get("catalog_name"), params.get("schema_name")
        names = {
            "catalogs": {name[0] for name in self.infos},
            "schemas": {name[1] for name in self.infos if name[0] == catalog} | {"information_schema"},
            "tables": {name[2] for name in self.infos if name[:2] == (catalog, schema)},
        }.get(what := path.removeprefix(ROOT))
        if names is None:
            return 404, {"error_code": "NOT_FOUND", "message": "no such request"}
        if "max_results" not in params:
            return 400, {
                "error_code": "INVALID_PARAMETER_VALUE",
                "message": "unpaginated requests are rejected",
            }
        size = min(self.page, int(params["max_results"]) or self.page)
        start = int(params.get("page_token") or 0)
        page = sorted(names)[start : start + size]
        said = [{"name": name, **self._info(catalog, schema, name)} for name in page]
        more = str(start + size) if start + size < len(names) else ""
        return 200, {what: said, "next_page_token": more}

    def _info(self, catalog: str | None, schema: str | None, name: str) -> dict[str, Any]:
        return self.infos.get((catalog, schema, name), {}) if catalog and schema else {}
